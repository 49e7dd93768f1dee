// SPDX-License-Identifier: GPL-2.0
/* The rotating disk: formulas in rotating.h. */
#include "disk.h"

u64 rotating_grid_distance(u32 index)
{
	u32 octave, step;

	if (index < 16)
		return index + 1;
	octave = (index - 16) / 16;
	step = (index - 16) % 16;
	return (16ULL << octave) + ((u64)(step + 1) << octave);
}

u64 rotating_seek_ns(const struct rotating_config *config, u64 distance)
{
	u32 octave, index;
	u64 base, step;
	s64 low, high;

	if (distance == 0)
		return 0;
	if (distance <= 16)
		return config->seek_curve_ns[distance - 1];
	octave = 59 - (u32)__builtin_clzll(distance - 1);
	base = 16ULL << octave;
	step = (distance - base) >> octave;
	index = 16 * octave + 15 + (u32)step;
	low = (s64)config->seek_curve_ns[index];
	distance -= base + (step << octave);
	if (distance == 0)
		return (u64)low;
	high = (s64)config->seek_curve_ns[index + 1];
	return (u64)(low + (high - low) * (s64)distance / (s64)(1ULL << octave));
}

static const struct rotating_zone *zone_of(const struct rotating_config *config, u64 sector)
{
	u32 low = 0, high = config->zones;

	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (config->zone[middle].first_sector <= sector)
			low = middle;
		else
			high = middle;
	}
	return &config->zone[low];
}

/* Start of a sector on its own track. Rounding down here, and only here, lets consecutive transfers join without a gap. */
static u64 offset_ns(const struct rotating_config *config, const struct rotating_zone *zone, u64 in_track)
{
	return in_track * config->rotation_ns / zone->sectors_per_track;
}

static const struct disk_key rotating_keys[] = { { .name = NULL } };

static void rotating_arrive(struct disk *disk, u32 tag)
{
	(void)zone_of;
	(void)offset_ns;
	disk_finish(disk, tag, disk->now_ns);
}

const struct disk_model_ops disk_rotating_ops = {
	.name = "rotating",
	.keys = rotating_keys,
	.arrive = rotating_arrive,
};
