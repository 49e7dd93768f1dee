// SPDX-License-Identifier: GPL-2.0
/* Read-ahead segments: rules in read_cache.h. */
#include "read_cache.h"

struct read_segment *read_cache_find(struct read_cache *cache, u64 sector)
{
	u32 i;

	for (i = 0; i < cache->segments; i++)
		if (cache->segment[i].sector <= sector && sector < cache->segment[i].end)
			return &cache->segment[i];
	return NULL;
}

void read_cache_use(struct read_cache *cache, struct read_segment *segment)
{
	segment->used = ++cache->uses;
}

void read_cache_extend(struct read_cache *cache, struct read_segment *segment, u64 end)
{
	segment->end = end;
	if (end - segment->sector > cache->segment_sectors)
		segment->sector = end - cache->segment_sectors;
}

struct read_segment *read_cache_keep(struct read_cache *cache, u64 sector, u64 end)
{
	struct read_segment *oldest = &cache->segment[0];
	u32 i;

	for (i = 0; i < cache->segments; i++) {
		struct read_segment *segment = &cache->segment[i];

		if (segment->sector < segment->end && segment->sector <= sector && sector <= segment->end) {
			if (segment->end < end)
				read_cache_extend(cache, segment, end);
			read_cache_use(cache, segment);
			return segment;
		}
		if (segment->used < oldest->used)
			oldest = segment;
	}
	oldest->sector = sector;
	read_cache_extend(cache, oldest, end);
	read_cache_use(cache, oldest);
	return oldest;
}

void read_cache_drop(struct read_cache *cache, u64 sector, u64 sectors)
{
	u64 end = sector + sectors;
	u32 i;

	for (i = 0; i < cache->segments; i++) {
		struct read_segment *segment = &cache->segment[i];

		if (segment->end <= sector || end <= segment->sector)
			continue;
		if (segment->sector < sector && (segment->end <= end || sector - segment->sector >= segment->end - end))
			segment->end = sector;
		else
			segment->sector = end < segment->end ? end : segment->end;
	}
}
