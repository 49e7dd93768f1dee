/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Room in a store: slots of 4 KiB, and parts of slots. A slot is cut in two when a half is wanted, a half when a quarter is, a quarter when an
 * eighth is. Pieces that are free again are used for their size, the longest free one first. They are not joined before the next boot, so that
 * of no size there are more than twice as many as blocks.
 */
#ifndef STRATA_PIECES_H
#define STRATA_PIECES_H

#include "platform.h"

/* Of a slot, size s is the part 2^(s - PIECES_WHOLE). A piece's number counts pieces of its size from the first slot on. */
#define PIECES_WHOLE 3U
#define PIECES_SIZES (PIECES_WHOLE + 1U)

struct pieces {
	u64 slots;		/* that were ever used */
	u64 limit;
	struct {
		u64 *piece;	/* a ring */
		u64 first;
		u64 count;
	} unused[PIECES_SIZES];
};

bool pieces_open(struct pieces *pieces, u64 blocks);
void pieces_close(struct pieces *pieces);
u64 pieces_take(struct pieces *pieces, u32 size);
void pieces_put(struct pieces *pieces, u32 size, u64 piece);

/* What an earlier boot has left: its slots, then each piece in use, then the end. Returns false if that makes no sense. */
bool pieces_load(struct pieces *pieces, u64 slots);
bool pieces_load_used(struct pieces *pieces, u32 size, u64 piece);
void pieces_load_end(struct pieces *pieces);

#endif
