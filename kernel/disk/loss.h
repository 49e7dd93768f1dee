/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The writes that a loss of power may take: each one that is not wholly durable yet, with the content before it.
 *
 * Writes go to the blocks at once; a record keeps the units' old content. The drive never tears a unit (atomic_unit_bytes). At the
 * cut all records' units that are not durable are undone, newest first; then a generator seeded with the write's sequence decides
 * for each write which of them were destaged after all: none, all, the first few, or a scattered subset, and these are done again in the
 * order of the writes. So afterwards
 *
 *     - content that the model reported as durable (struct disk_durable) is intact: undoing stops above it;
 *     - no unit is torn: units are undone and done as a whole;
 *     - every sector holds its old content or that of a write that was in flight or acknowledged.
 *
 * Discards and zeroes without data take effect at once and for good. That is one of the legal outcomes for them, as for any write:
 * a drive may destage any write that it holds, at any time.
 *
 * The kept content is bounded, as a drive's cache is: above LOSS_BYTES the oldest blocks count as destaged. The bound holds for each disk: a
 * lab with many armed disks may take this much of the host's memory for each of them, but only for content that is volatile at one time.
 */
#ifndef STRATA_LOSS_H
#define STRATA_LOSS_H

#include "blocks.h"
#include "model.h"

#define LOSS_BYTES (2ULL << 30)

struct loss_record {
	u64 sequence;
	u64 block;
	u32 older;	/* of the same block */
	u32 previous;	/* by age */
	u32 next;	/* by age; of a free record the next free one */
	u32 open;	/* units that were written and are not durable: a bit each */
};

struct loss_mark {
	struct disk_durable durable;
	u64 order;
};

/* Records are numbered from 1 on; 0 is none. */
struct loss {
	struct blocks *blocks;
	u64 sectors;
	u32 unit_sectors;
	u32 block_sectors;	/* the larger of 4 KiB and the unit */
	u64 count;		/* of blocks */
	u32 limit;		/* of records */
	u32 used;		/* the last record that was ever used */
	u32 live;
	u32 free;
	u32 oldest;
	u32 newest;
	u64 now_ns;
	u64 settled_blocks;	/* records that had to be taken for destaged */
	u64 marks_lost;		/* a programmer's error: more marks than there is room for */
	u32 marks;
	u64 mark_order;
	u32 *head;		/* of a block: its newest record */
	struct loss_record *record;
	u8 *image;		/* of each record: a block */
	u8 *spare;		/* a block */
	struct loss_mark *mark;	/* a heap by time: marks that lie in the future */
};

/* What became of the writes of which a part was not durable. */
struct loss_report {
	u64 open;		/* their number: kept + lost + torn */
	u64 kept;		/* wholly destaged in time */
	u64 lost;		/* no volatile unit survived */
	u64 torn;		/* some units survived, some did not */
	u64 lost_acknowledged;	/* of those lost or torn */
	u64 settled_blocks;	/* above LOSS_BYTES */
};

bool loss_open(struct loss *loss, struct blocks *blocks, u32 unit_bytes);
void loss_close(struct loss *loss);
/* Before sectors are written by the command `sequence`. Returns an error of the store. */
int loss_note(struct loss *loss, u64 now_ns, u64 sequence, u64 sector, u64 sectors);
/* A model's word; at_ns may lie in the future. */
void loss_durable(struct loss *loss, const struct disk_durable *mark);
/* All writes to these sectors so far are durable. */
void loss_settle(struct loss *loss, u64 sector, u64 sectors);
/* Undoes the lost writes at at_ns. acknowledged() says whether a write's completion has been reported. */
int loss_cut(struct loss *loss, u64 at_ns, u64 seed, bool (*acknowledged)(void *owner, u64 sequence), void *owner,
	     struct loss_report *report);

#endif
