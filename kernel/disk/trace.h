/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The record of one completed request, as the driver appends it to the trace (little endian, 128 bytes, in order of completion
 * for each disk) and src/strata/results/trace.py reads it.
 */
#ifndef STRATA_TRACE_H
#define STRATA_TRACE_H

#include "model.h"

/* The purpose of a request, according to the block layer's flags. */
enum trace_kind {
	TRACE_READ,		/* data */
	TRACE_READ_METADATA,	/* REQ_META */
	TRACE_WRITE,		/* data, in the background */
	TRACE_WRITE_SYNC,	/* data with a waiter: REQ_SYNC */
	TRACE_WRITE_METADATA,	/* REQ_META without REQ_SYNC: written back */
	TRACE_WRITE_JOURNAL,	/* REQ_META with REQ_SYNC, or REQ_PREFLUSH or REQ_FUA with any */
	TRACE_FLUSH,
	TRACE_DISCARD,
	TRACE_KINDS
};

#define TRACE_FLAG_FUA 1U
#define TRACE_FLAG_READ_AHEAD 2U
#define TRACE_FLAG_FAILED 4U
#define TRACE_FLAG_ZEROES 8U	/* a write of zeros that carried no data */
#define TRACE_FLAG_OVERDUE 16U	/* served because of its age: drive.h */

struct trace_record {
	u64 arrival_ns;		/* on the lab's monotonic clock */
	u64 complete_ns;
	u64 sector;
	u32 sectors;
	u8 op;			/* enum disk_op */
	u8 kind;		/* enum trace_kind */
	u16 flags;
	u32 disk;		/* index in the order of strata.disks=, the root image being 0 */
	u32 outstanding;	/* commands at the disk when it arrived, itself included */
	struct disk_parts parts;
};

_Static_assert(sizeof(struct trace_record) == 128, "the trace's readers rely on it");

#endif
