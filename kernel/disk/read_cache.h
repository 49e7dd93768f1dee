/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A drive's read-ahead buffer: segments, each with consecutive sectors, the least recently used one replaced. A segment is a ring: what
 * follows its end pushes out the sectors at its start.
 */
#ifndef STRATA_READ_CACHE_H
#define STRATA_READ_CACHE_H

#include "model.h"

#define READ_SEGMENTS 64

struct read_segment {
	u64 sector;
	u64 end;	/* == sector: empty */
	u64 used;	/* when, on the cache's own count */
};

struct read_cache {
	u32 segments;		/* 0: none */
	u64 segment_sectors;
	u64 uses;
	struct read_segment segment[READ_SEGMENTS];
};

/* The segment that holds a sector, or NULL. */
struct read_segment *read_cache_find(struct read_cache *cache, u64 sector);
/* Sectors have been read: continues the segment that holds or ends with the sector before them, else takes another. There is one. */
struct read_segment *read_cache_keep(struct read_cache *cache, u64 sector, u64 end);
/* The head has gone on to `end`. */
void read_cache_extend(struct read_cache *cache, struct read_segment *segment, u64 end);
void read_cache_use(struct read_cache *cache, struct read_segment *segment);
/* Sectors have been written: a segment keeps the longer of its two remaining parts. */
void read_cache_drop(struct read_cache *cache, u64 sector, u64 sectors);

#endif
