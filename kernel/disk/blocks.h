/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A disk's sectors, compactly. Of a block of 4 KiB with recognisable content (pattern.h) only an index entry of nine or eleven bytes is kept,
 * and a block that was never written costs nothing: so hundreds of gigabytes of zeros, or of what the load generator and fio write, need
 * almost no room. All else gets a slot of 4 KiB in the store, in the order of the first writes: the store grows with its content, and not
 * with the disk, which may be larger than a file of the host can be. Content that can be packed into half a slot, a quarter or an eighth
 * gets such a piece (pieces.h). Pieces that are no longer needed, as after a TRIM, are used again, also by later boots, but not given back:
 * the host's file keeps the size that it had at its peak.
 *
 * The index is in memory, committed where it is touched. blocks_save() writes it to the beginning of the store, so that the store is
 * all that the next boot needs:
 *
 *     header     magic, state, sectors, slots, bytes of the model's state
 *     map        a byte for each group of 4096 blocks: an enum blocks_group
 *     groups     of each that is there: 4096 kinds of a byte, 4096 values of 8 bytes, and, if one is not 0, 4096 cuts of 2 bytes
 *     slots      the blocks' content
 *     state      of the disk's model (nonvolatile.h)
 */
#ifndef STRATA_BLOCKS_H
#define STRATA_BLOCKS_H

#include "pattern.h"
#include "pieces.h"

#define BLOCKS_BYTES PATTERN_BLOCK_BYTES
#define BLOCKS_SECTORS (BLOCKS_BYTES / 512U)
#define BLOCKS_GROUP 4096U

/* A piece of memory; the same as the host's struct iovec. */
struct content_vector {
	void *base;
	unsigned long length;
};

/*
 * Where the content lies. Reading and writing return 0 or a negative error number, and may change the vectors. What was never written
 * reads as zeros. Packing a block returns its bytes, 0 if there is no room for them; NULL: nothing is packed.
 */
struct content_store {
	void *owner;
	int (*read)(void *owner, struct content_vector *vector, u32 count, u64 offset, u64 bytes);
	int (*write)(void *owner, struct content_vector *vector, u32 count, u64 offset, u64 bytes);
	u32 (*pack)(void *owner, const void *block, void *to, u32 room);
	bool (*unpack)(void *owner, const void *from, u32 bytes, void *block);
};

enum block_kind {
	BLOCK_ZERO,
	BLOCK_STORED,		/* its value: the slot */
	BLOCK_COMPACT,		/* and an enum pattern_kind; its value and cut: the pattern's */
	BLOCK_PACKED = BLOCK_COMPACT + PATTERN_KINDS,	/* and its piece's size, which its value counts in; the piece begins with a u16 of its bytes */
	BLOCK_KINDS = BLOCK_PACKED + PIECES_WHOLE
};

enum blocks_group {
	GROUP_ZERO,		/* all BLOCK_ZERO */
	GROUP_TOUCHED,		/* all cuts are 0 */
	GROUP_CUT
};

struct blocks {
	struct content_store store;
	u64 sectors;
	u64 count;
	u64 groups;
	bool plain;		/* all blocks are in the store at their own offsets: a file made by another program */
	u8 *kind;
	u64 *value;
	u16 *cut;
	u8 *touched;		/* of a group: an enum blocks_group */
	u8 *scratch;		/* one block */
	u8 *packed;		/* half a slot, and packed blocks on their way into the store */
	u32 pack_failures;	/* in succession */
	u32 pack_skips;		/* blocks that are not tried: content that cannot be packed comes in long runs */
	struct pieces pieces;
	u64 state_bytes;	/* of the model's state behind the slots (nonvolatile.h); until the next slot is taken */
};

enum blocks_state {
	BLOCKS_NEW,		/* nothing was ever saved there */
	BLOCKS_LOADED,
	BLOCKS_UNFINISHED,	/* in use by a lab that did not come to its end */
	BLOCKS_OTHER		/* of a disk with another number of sectors, or damaged */
};

bool blocks_open(struct blocks *blocks, const struct content_store *store, u64 sectors, bool plain);
void blocks_close(struct blocks *blocks);
int blocks_read(struct blocks *blocks, u64 sector, const struct content_vector *vector, u32 count);
int blocks_write(struct blocks *blocks, u64 sector, const struct content_vector *vector, u32 count);
/* Makes them zeros, at little cost. Not of a plain store. */
int blocks_erase(struct blocks *blocks, u64 sector, u64 sectors);

u64 blocks_slots_offset(const struct blocks *blocks);

/* Takes over what an earlier boot has saved, and marks it as in use. Returns an error, or 0 and the state. To be closed after any but
 * BLOCKS_NEW and BLOCKS_LOADED. */
int blocks_load(struct blocks *blocks, enum blocks_state *state);
int blocks_save(struct blocks *blocks);

#endif
