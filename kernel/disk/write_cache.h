/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A drive's volatile write cache: dirty runs of sectors, merged where they touch, limited in bytes and, as real ones are, in runs.
 * Sectors being destaged ("flying") take room until they have landed; a write to the same sectors meanwhile is dirty again.
 *
 * Writes to the same sectors are put in by ascending sequence. So the cache holds everything that completed commands up to `sequence`
 * wrote to a dirty sector, and a run is durable up to that sequence when it has landed.
 */
#ifndef STRATA_WRITE_CACHE_H
#define STRATA_WRITE_CACHE_H

#include "extents.h"

struct write_cache {
	u64 limit_sectors;	/* 0: the drive has none, or it is switched off */
	u64 sequence;		/* of the latest write put in */
	u64 flying_sector;
	u64 flying_end;		/* == flying_sector: nothing flies */
	struct extents dirty;
};

bool write_cache_fits(const struct write_cache *cache, u64 sector, u64 sectors);
void write_cache_put(struct write_cache *cache, u64 sector, u64 sectors, u64 sequence);
/* The end of the cached sectors from `sector` on without a gap; `sector` itself if it does not hold it. */
u64 write_cache_until(const struct write_cache *cache, u64 sector);
/* These dirty sectors are being destaged from now on, and nothing else. */
void write_cache_launch(struct write_cache *cache, u64 sector, u64 end);
void write_cache_land(struct write_cache *cache);

#endif
