// SPDX-License-Identifier: GPL-2.0
/* The rotating disk: formulas in rotating.h. */
#include "queue.h"

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

static void rotating_prepare(const struct disk_model *model, struct disk_io *io)
{
	const struct rotating_config *config = &model->config.rotating;
	const struct rotating_zone *zone = zone_of(config, io->sector);
	u64 in_zone = io->sector - zone->first_sector;

	io->track = zone->first_track + (u32)(in_zone / zone->sectors_per_track);
	io->angle_ns = (io->track * config->track_skew_ns +
			offset_ns(config, zone, in_zone % zone->sectors_per_track)) % config->rotation_ns;
}

static u64 seek_ns(const struct disk_model *model, const struct disk_io *io)
{
	const struct rotating_config *config = &model->config.rotating;
	u32 head = model->rotating.track;
	u64 settle = io->op == DISK_WRITE ? config->write_settle_ns : 0;

	if (io->track == head)
		return 0;
	if (io->track == head + 1)
		return config->track_skew_ns;
	return settle + rotating_seek_ns(config, io->track > head ? io->track - head : head - io->track);
}

static u64 rotation_wait_ns(const struct rotating_config *config, u64 when_ns, const struct disk_io *io)
{
	u64 phase = when_ns % config->rotation_ns;

	return io->angle_ns >= phase ? io->angle_ns - phase : io->angle_ns + config->rotation_ns - phase;
}

static u64 rotating_positioning_ns(const struct disk_model *model, u64 now_ns, const struct disk_io *io)
{
	u64 seek = seek_ns(model, io);

	return seek + rotation_wait_ns(&model->config.rotating, now_ns + seek, io);
}

/* Media time of a transfer, track by track; leaves the head on the last track. */
static u64 transfer_ns(struct disk_model *model, const struct disk_io *io)
{
	const struct rotating_config *config = &model->config.rotating;
	const struct rotating_zone *zone = zone_of(config, io->sector);
	const struct rotating_zone *end = config->zone + config->zones;
	u64 sector = io->sector, left = io->sectors, time = 0;
	u32 track = io->track;

	while (left) {
		u64 first = (sector - zone->first_sector) % zone->sectors_per_track;
		u64 count = zone->sectors_per_track - first;

		if (zone + 1 < end && count > zone[1].first_sector - sector)
			count = zone[1].first_sector - sector;
		if (count > left)
			count = left;
		time += offset_ns(config, zone, first + count) - offset_ns(config, zone, first);
		sector += count;
		left -= count;
		model->rotating.track = track;
		if (!left)
			break;
		if (first + count < zone->sectors_per_track)	/* a zone ends in mid-track: its unused rest passes by */
			time += config->rotation_ns - offset_ns(config, zone, first + count);
		if (zone + 1 < end && sector == zone[1].first_sector) {
			u32 next = zone[1].first_track;

			/* Unused tracks between zones are stepped over at one skew each, as the angles of the layout require. */
			time += (u64)(next - track) * config->track_skew_ns;
			track = next;
			zone++;
		} else {
			time += config->track_skew_ns;
			track++;
		}
	}
	return time;
}

static u64 rotating_submit(struct disk_model *model, u64 now_ns, const struct disk_io *io, struct disk_account *account)
{
	const struct rotating_config *config = &model->config.rotating;
	u64 seek, rotation, transfer;

	if (io->op != DISK_READ && io->op != DISK_WRITE)
		return now_ns;
	seek = seek_ns(model, io);
	rotation = rotation_wait_ns(config, now_ns + seek, io);
	transfer = transfer_ns(model, io);
	account->seek_ns += seek;
	account->rotation_ns += rotation;
	account->transfer_ns += transfer;
	return now_ns + seek + rotation + transfer;
}

const struct disk_model_ops disk_rotating_ops = {
	.name = "rotating",
	.prepare = rotating_prepare,
	.positioning_ns = rotating_positioning_ns,
	.submit = rotating_submit,
};
