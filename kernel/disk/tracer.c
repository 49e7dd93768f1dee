// SPDX-License-Identifier: GPL-2.0
/* The trace on its way to the host: rules in tracer.h. */
#include "strata.h"

#define BUFFER_RECORDS 8192U

static int trace_fd = -1;
static u64 trace_limit = 2000000;
static struct trace_record *buffer;	/* the host's memory */
static u32 buffered;
static u64 recorded;
static u64 left_out;
static bool failed;		/* the host's file: nothing more is written to it */

void tracer_open(int fd)
{
	trace_fd = fd;
}

void tracer_limit(u64 records)
{
	trace_limit = records;
}

bool tracer_on(void)
{
	return trace_fd >= 0;
}

void tracer_flush(void)
{
	if (buffered && !strata_append(trace_fd, buffer, buffered * sizeof(*buffer), "trace")) {
		failed = true;
		left_out += buffered;
	}
	buffered = 0;
}

u64 tracer_left_out(void)
{
	return left_out;
}

bool tracer_failed(void)
{
	return failed;
}

void tracer_add(const struct trace_record *record)
{
	if (failed || recorded == trace_limit) {
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
