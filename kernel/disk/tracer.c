// SPDX-License-Identifier: GPL-2.0
/* The trace on its way to the host: rules in tracer.h. */
#include <linux/moduleparam.h>
#include "strata.h"

#define BUFFER_RECORDS 8192U

static int trace_fd = -1;
module_param_named(trace, trace_fd, int, 0444);
MODULE_PARM_DESC(trace, "host file descriptor that the trace of all requests is appended to");
static unsigned long long trace_limit = 2000000;
module_param(trace_limit, ullong, 0444);
MODULE_PARM_DESC(trace_limit, "records after which the trace ends");

static struct trace_record *buffer;	/* the host's memory */
static u32 buffered;
static u64 recorded;
static u64 left_out;

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

u64 tracer_left_out(void)
{
	return left_out;
}

void tracer_add(const struct trace_record *record)
{
	if (recorded == trace_limit) {
		left_out++;
		return;
	}
	if (!buffer)
		buffer = platform_alloc(BUFFER_RECORDS * sizeof(*buffer));
	if (!buffer) {
		left_out++;
		return;
	}
	recorded++;
	buffer[buffered++] = *record;
	if (buffered == BUFFER_RECORDS)
		tracer_flush();
}
