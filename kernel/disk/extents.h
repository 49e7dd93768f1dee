/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A set of sectors as an ordered tree of runs that neither overlap nor touch: what is dirty in a cache. A treap whose priorities
 * are hashes of the nodes' numbers, so the same calls always build the same tree. Every call takes O(log runs), plus what it
 * swallows.
 */
#ifndef STRATA_EXTENTS_H
#define STRATA_EXTENTS_H

#include "platform.h"

#define EXTENTS_NONE 0U

struct extents_node {
	u64 start;
	u64 end;		/* behind the last sector */
	u32 left;
	u32 right;
};

struct extents {
	struct extents_node *node;	/* [1 .. limit]; 0 is none */
	u64 sectors;
	u32 root;
	u32 free;			/* given back, linked by left */
	u32 fresh;			/* the first never used */
	u32 runs;
	u32 limit;
};

/* The memory for at most `limit` runs, which the caller gives zeroed; only the used part is ever touched. */
size_t extents_bytes(u32 limit);
void extents_create(struct extents *extents, void *memory, u32 limit);
/* Then nothing may be added, and a cut in the middle of a run, which would make two of it, does nothing. */
static inline bool extents_full(const struct extents *extents)
{
	return extents->runs >= extents->limit;
}

/* Adds [start, end). Returns how many of the sectors were not in the set. */
u64 extents_add(struct extents *extents, u64 start, u64 end);
/* Takes [start, end) out. Returns how many of the sectors were in the set. */
u64 extents_cut(struct extents *extents, u64 start, u64 end);
/* The first run that ends behind `from`. False when there is none. */
bool extents_find(const struct extents *extents, u64 from, u64 *start, u64 *end);
/* The last run that starts before `from`. False when there is none. */
bool extents_find_before(const struct extents *extents, u64 from, u64 *start, u64 *end);

#endif
