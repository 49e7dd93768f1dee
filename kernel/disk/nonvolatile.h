/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of a model that outlives an orderly power-off, on its way into the store and back: a flash drive's map, a shingled drive's ring
 * and bands, a volume's credits. Everything else begins anew with the power: caches are empty, the head is parked, the clock is 0.
 *
 * A model moves its memory piece by piece, in one function for both directions. The pieces lie behind the content's slots (blocks.h), each
 * behind its length. Of a piece of a page or more only the pages that are not zero are kept, in runs:
 *
 *     first page, number of pages, their content       the last piece of a page may be short
 *     0, 0                                             the end
 *
 * After a power cut the state begins anew, too.
 */
#ifndef STRATA_NONVOLATILE_H
#define STRATA_NONVOLATILE_H

#include "blocks.h"

struct disk;

struct nonvolatile {
	const struct content_store *store;
	bool saving;
	u64 offset;	/* in the store */
	int error;	/* the first one: nothing is moved after it */
};

/* Moves a piece of a model's memory. What is loaded replaces all of it. */
void nonvolatile_move(struct nonvolatile *stream, void *memory, u64 bytes);

/* The content and the state of a disk that disk_rest() has brought to rest. Returns 0 or the store's negative error number. */
int nonvolatile_save(struct disk *disk, struct blocks *blocks);
/* After blocks_load() and disk_open(); does nothing where no state was saved. -22 (EINVAL): the state is of another disk. */
int nonvolatile_load(struct disk *disk, struct blocks *blocks);

#endif
