// SPDX-License-Identifier: GPL-2.0
/* The volatile write cache: rules in write_cache.h. */
#include "write_cache.h"

bool write_cache_fits(const struct write_cache *cache, u64 sector, u64 sectors)
{
	u64 held = cache->dirty.sectors + cache->flying_end - cache->flying_sector + sectors;
	u64 start, end, at = sector ? sector - 1 : 0;
	bool touches = false;

	if (held <= cache->limit_sectors && !extents_full(&cache->dirty))
		return true;
	while (extents_find(&cache->dirty, at, &start, &end) && start <= sector + sectors) {
		u64 first = start > sector ? start : sector, last = end < sector + sectors ? end : sector + sectors;

		touches = true;
		if (last > first)
			held -= last - first;
		at = end;
	}
	return held <= cache->limit_sectors && (touches || !extents_full(&cache->dirty));
}

void write_cache_put(struct write_cache *cache, u64 sector, u64 sectors, u64 sequence)
{
	extents_add(&cache->dirty, sector, sector + sectors);
	cache->sequence = platform_later(cache->sequence, sequence);
}

u64 write_cache_until(const struct write_cache *cache, u64 sector)
{
	u64 start, end;

	if (extents_find(&cache->dirty, sector, &start, &end) && start <= sector)
		return end;
	return cache->flying_sector <= sector && sector < cache->flying_end ? cache->flying_end : sector;
}

void write_cache_launch(struct write_cache *cache, u64 sector, u64 end)
{
	cache->flying_sector = sector;
	cache->flying_end = end;
	extents_cut(&cache->dirty, sector, end);
}

void write_cache_land(struct write_cache *cache)
{
	cache->flying_sector = cache->flying_end;
}
