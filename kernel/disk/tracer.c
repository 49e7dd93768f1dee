// SPDX-License-Identifier: GPL-2.0
/* The trace on its way to the host: rules in tracer.h. */
#include <linux/moduleparam.h>
#include "strata.h"

#define BUFFER_RECORDS 8192U

static int trace_fd = -1;
module_param_named(trace, trace_fd, int, 0444);
MODULE_PARM_DESC(trace, "host file descriptor that the trace of all requests is appended to");
static ullong trace_limit = 2000000;
module_param(trace_limit, ullong, 0444);
MODULE_PARM_DESC(trace_limit, "records after which the trace ends");
static ullong trace_left_out;
module_param(trace_left_out, ullong, 0444);
MODULE_PARM_DESC(trace_left_out, "requests that were not traced because of the limit");

static struct trace_record *buffer;	/* the host's memory */
static u32 buffered;
static ullong recorded;

bool tracer_on(void)
{
	return trace_fd >= 0;
}

void tracer_flush(void)
{
	if (buffered && !strata_append(trace_fd, buffer, buffered * sizeof(*buffer), "trace"))
		trace_fd = -1;
	buffered = 0;
}

void tracer_add(const struct trace_record *record)
{
	if (recorded == trace_limit) {
		trace_left_out++;
		return;
	}
	if (!buffer)
		buffer = platform_alloc(BUFFER_RECORDS * sizeof(*buffer));
	if (!buffer) {
		trace_left_out++;
		return;
	}
	recorded++;
	buffer[buffered++] = *record;
	if (buffered == BUFFER_RECORDS)
		tracer_flush();
}
