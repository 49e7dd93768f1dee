/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trace of all requests (trace.h), appended to a descriptor of the host in blocks. At a limit of records it stops
 * and counts the records left out; at the end the console says so: "strata: trace: N requests left out". It takes no virtual time.
 */
#ifndef STRATA_TRACER_H
#define STRATA_TRACER_H

#include "trace.h"

void tracer_open(int fd);
void tracer_limit(u64 records);
bool tracer_on(void);
void tracer_add(const struct trace_record *record);
/* Writes the buffered records. At the lab's end, however it comes. */
void tracer_flush(void);
u64 tracer_left_out(void);
/* The host's file took no more: the records that it refused count as left out. */
bool tracer_failed(void);

#endif
