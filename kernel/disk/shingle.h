/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shingled recording, managed by the drive: tracks overlap, so a band of them can only be written in order. The mechanism is that of
 * Aghayev and Desnoyers, "Skylight" (FAST 2015), whose drives have a persistent cache at the outer edge and bands with fixed places:
 *
 *   - A write at a band's write pointer goes straight to its place, and moves the pointer.
 *   - Any other write is appended to the persistent cache, a ring of 4-KiB blocks with a map; so the head hardly moves.
 *   - Cleaning takes the band of the oldest block in the ring: reads the band and its blocks in the ring, and writes the
 *     band again. It happens when the drive is idle, and when the ring is full, while commands wait.
 *   - A discard that reaches a band's write pointer moves it back.
 *
 * Places are sectors of the mechanism: first the ring, then the bands in order. A sector that was never written is read from
 * its place, as if it had been.
 * The map is host memory that is committed where it is touched: 4 bytes for each 4 KiB that were ever written out of order.
 */
#ifndef STRATA_SHINGLE_H
#define STRATA_SHINGLE_H

#include "platform.h"

#define SHINGLE_BLOCK_SECTORS 8U

struct shingle {
	u64 ring_blocks;	/* 0: the disk is not shingled */
	u64 band_sectors;
	u64 sectors;		/* of the disk */
	u64 shift;		/* the place of sector 0: behind the ring */
	u64 head;		/* blocks ever appended to the ring */
	u64 tail;		/* the oldest one that is valid, or the head */
	u32 *map;		/* by block of the disk: its slot in the ring + 1, or 0: it is in its place */
	u32 *owner;		/* by slot: block of the disk + 1, or 0: none any more */
	u32 *pointer;		/* by band: sectors written, from its start on */
	u32 *ringed;		/* by band: its blocks in the ring */
};

size_t shingle_bytes(u64 sectors, u64 ring_bytes, u64 band_bytes);
void shingle_create(struct shingle *shingle, void *memory, u64 sectors, u64 ring_bytes, u64 band_bytes);

/* Where a sector is. Returns how many of the sectors up to `end` follow it there. */
u64 shingle_find(const struct shingle *shingle, u64 sector, u64 end, u64 *place);
/* Where a write of a sector would go. */
u64 shingle_write_place(const struct shingle *shingle, u64 sector);
bool shingle_has_room(const struct shingle *shingle, u64 sector, u64 end);
/* Puts a write somewhere; there is room. Returns how many of its sectors go to *place, one after the other. */
u64 shingle_write(struct shingle *shingle, u64 sector, u64 end, u64 *place);
void shingle_discard(struct shingle *shingle, u64 sector, u64 end);
static inline bool shingle_is_clean(const struct shingle *shingle)
{
	return shingle->head == shingle->tail;
}

/*
 * What cleaning a band takes: read [first, first + read), then each piece that shingle_find() finds elsewhere, then write
 * [first, first + write).
 */
struct shingle_cleaning {
	u64 first;
	u64 read;
	u64 write;
};

/* The band of the oldest block in the ring. The ring is not clean. */
void shingle_next_cleaning(const struct shingle *shingle, struct shingle_cleaning *cleaning);
/* The band has been written again. */
void shingle_cleaned(struct shingle *shingle, const struct shingle_cleaning *cleaning);

#endif
