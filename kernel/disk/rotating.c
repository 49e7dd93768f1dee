// SPDX-License-Identifier: GPL-2.0
/* The mechanics of a rotating disk: formulas in rotating.h. */
#include "disk.h"

#define PPM 1000000ULL

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

void rotating_place_of(const struct rotating_config *config, u64 sector, struct rotating_place *place)
{
	const struct rotating_zone *zone = zone_of(config, sector);
	u64 in_zone = sector - zone->first_sector;
	u64 track = in_zone / zone->sectors_per_track;

	place->track = zone->first_track + (u32)track;
	place->angle_ns = (place->track * config->track_skew_ns +
			   offset_ns(config, zone, in_zone - track * zone->sectors_per_track)) % config->rotation_ns;
}

u64 rotating_move_ns(const struct rotating_config *config, u32 head_track, u32 track, bool write)
{
	u64 settle = write ? config->write_settle_ns : 0;

	if (track == head_track)
		return 0;
	if (track == head_track + 1)
		return config->track_skew_ns;
	return settle + rotating_seek_ns(config, track > head_track ? track - head_track : head_track - track);
}

void rotating_draw(struct rotating_config *config, u32 tolerance_ppm, u64 seed)
{
	u64 shift_ppm = platform_mix(seed) % (2 * (u64)tolerance_ppm + 1);

	config->rotation_ns = config->rotation_ns * (PPM - tolerance_ppm + shift_ppm) / PPM;
	config->track_skew_ns = config->track_skew_ns * (PPM - tolerance_ppm + shift_ppm) / PPM;
	config->phase_ns = platform_mix(seed + 1) % config->rotation_ns;
}

u64 rotating_wait_ns(const struct rotating_config *config, u64 when_ns, u64 angle_ns)
{
	u64 phase = (when_ns + config->phase_ns) % config->rotation_ns;

	return angle_ns >= phase ? angle_ns - phase : angle_ns + config->rotation_ns - phase;
}

/* Sectors from `sector` on that lie on the same track, at most `left`. */
static u64 on_track(const struct rotating_config *config, const struct rotating_zone *zone, u64 sector, u64 left)
{
	u64 count = zone->sectors_per_track - (sector - zone->first_sector) % zone->sectors_per_track;

	if (zone + 1 < config->zone + config->zones && count > zone[1].first_sector - sector)
		count = zone[1].first_sector - sector;
	return count > left ? left : count;
}

u64 rotating_track_end(const struct rotating_config *config, u64 sector)
{
	return sector + on_track(config, zone_of(config, sector), sector, U64_MAX);
}

/* From the end of the sector before `sector`, which is the first of its track, on to its start; moves the head there. */
static u64 cross_ns(const struct rotating_config *config, struct rotating_head *head, const struct rotating_zone **zone, u64 sector)
{
	const struct rotating_zone *from = *zone;
	u64 in_track = (sector - from->first_sector) % from->sectors_per_track;
	u64 time = 0;

	if (in_track)	/* a zone ends in mid-track: its unused rest passes by */
		time = config->rotation_ns - offset_ns(config, from, in_track);
	if (from + 1 < config->zone + config->zones && sector == from[1].first_sector) {
		/* Unused tracks between zones are stepped over at one skew each, as the angles of the layout require. */
		time += (u64)(from[1].first_track - head->track) * config->track_skew_ns;
		head->track = from[1].first_track;
		*zone = from + 1;
	} else {
		time += config->track_skew_ns;
		head->track++;
	}
	return time;
}

/* Media time of a transfer from the head's place on, track by track; leaves the head on the last track. */
static u64 transfer_ns(const struct rotating_config *config, struct rotating_head *head, u64 sector, u64 left)
{
	const struct rotating_zone *zone = zone_of(config, sector);
	u64 time = 0;

	while (left) {
		u64 first = (sector - zone->first_sector) % zone->sectors_per_track;
		u64 count = on_track(config, zone, sector, left);

		time += offset_ns(config, zone, first + count) - offset_ns(config, zone, first);
		sector += count;
		left -= count;
		if (left)
			time += cross_ns(config, head, &zone, sector);
	}
	head->sector = sector;
	return time;
}

static u64 access_run(const struct rotating_config *config, struct rotating_head *head, u64 now_ns, u64 sector, u64 sectors, bool write,
		      struct rotating_work *work)
{
	struct rotating_place place;
	u64 seek, rotation, transfer;

	rotating_place_of(config, sector, &place);
	seek = rotating_move_ns(config, head->track, place.track, write);
	rotation = rotating_wait_ns(config, now_ns + seek, place.angle_ns);
	head->track = place.track;
	transfer = transfer_ns(config, head, sector, sectors);
	work->seek_ns += seek;
	work->rotation_ns += rotation;
	work->transfer_ns += transfer;
	return now_ns + seek + rotation + transfer;
}

/* The first defect that ends behind the sector. */
static u32 defect_from(const struct rotating_config *config, u64 sector)
{
	u32 low = 0, high = config->defects;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (config->defect[middle].sector + config->block_sectors <= sector)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

u64 rotating_access(const struct rotating_config *config, struct rotating_head *head, u64 now_ns, u64 sector, u64 sectors, bool write,
		    struct rotating_work *work)
{
	u64 end = sector + sectors;
	u32 i;

	for (i = defect_from(config, sector); i < config->defects && config->defect[i].sector < end; i++) {
		const struct rotating_defect *defect = &config->defect[i];
		u64 spared = defect->sector + config->block_sectors < end ? defect->sector + config->block_sectors : end;
		u64 skipped = 0;

		if (defect->sector > sector)
			now_ns = access_run(config, head, now_ns, sector, defect->sector - sector, write, work);
		else
			skipped = sector - defect->sector;
		sector = defect->sector + skipped;
		now_ns = access_run(config, head, now_ns, defect->spare_sector + skipped, spared - sector, write, work);
		sector = spared;
	}
	if (sector < end)
		now_ns = access_run(config, head, now_ns, sector, end - sector, write, work);
	head->sector = end;
	return now_ns;
}

u64 rotating_resume(const struct rotating_config *config, struct rotating_head *head, u64 now_ns)
{
	struct rotating_place place;
	u64 move;

	rotating_place_of(config, head->sector, &place);
	move = rotating_move_ns(config, head->track, place.track, false);
	head->track = place.track;
	return now_ns + move + rotating_wait_ns(config, now_ns + move, place.angle_ns);
}

u64 rotating_clear_until(const struct rotating_config *config, const struct rotating_head *head, u64 end_sector)
{
	struct rotating_place last;
	u32 defect;

	if (!config->defects || !head->sector)
		return end_sector;
	rotating_place_of(config, head->sector - 1, &last);
	if (last.track != head->track)
		return head->sector;
	defect = defect_from(config, head->sector);
	if (defect < config->defects && config->defect[defect].sector < end_sector)
		return platform_later(head->sector, config->defect[defect].sector);
	return end_sector;
}

void rotating_follow(const struct rotating_config *config, struct rotating_head *head, u64 *at_ns, u64 end_sector, u64 until_ns)
{
	while (head->sector < end_sector && *at_ns < until_ns) {
		const struct rotating_zone *zone = zone_of(config, head->sector);
		u64 in_zone = head->sector - zone->first_sector;
		u64 track = in_zone / zone->sectors_per_track;
		u64 first = in_zone - track * zone->sectors_per_track;
		u64 begin = offset_ns(config, zone, first);
		u64 count, passed, span;

		if (zone->first_track + track != head->track) {
			struct rotating_head next = *head;
			u64 cross;

			zone = zone_of(config, head->sector - 1);
			cross = cross_ns(config, &next, &zone, head->sector);
			if (*at_ns + cross > until_ns)
				return;
			*head = next;
			*at_ns += cross;
		}
		count = on_track(config, zone, head->sector, end_sector - head->sector);
		/* The most sectors with offset(first + passed) <= begin + span, offset() rounding down. */
		span = until_ns - *at_ns < config->rotation_ns ? until_ns - *at_ns : config->rotation_ns;
		passed = ((begin + span + 1) * zone->sectors_per_track + config->rotation_ns - 1) / config->rotation_ns - 1 - first;
		if (passed < count)
			count = passed;
		*at_ns += offset_ns(config, zone, first + count) - begin;
		head->sector += count;
		/* With a whole revolution left, only the track's end can have stopped it. */
		if (passed == count && span < config->rotation_ns)
			return;
	}
}
