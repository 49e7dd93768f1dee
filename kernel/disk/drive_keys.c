// SPDX-License-Identifier: GPL-2.0
/*
 * The keys of model=rotating:
 *
 *     overhead_ns, rotation_ns, track_skew_ns, write_settle_ns, window, wait_limit_ns, tracks
 *     seek_curve_ns=v0,v1,...          on the grid of rotating.h
 *     zone=first_sector,first_track,sectors_per_track     repeated, outermost first
 *     defect=sector,spare_sector       repeated, optional, ascending: sector is the first of a physical block
 *     speed_tolerance_ppm              optional, 0: turns exactly at its speed, from angle 0; else both are drawn from the seed
 *     buffer_overhead_ns               optional, 0: the same as overhead_ns; of commands that need only the buffer
 *     link_bytes_per_s                 optional, 0: the link takes no time
 *     read_segments, read_segment_bytes                   optional, 0: no read-ahead
 *     write_cache_bytes, write_cache_extents              optional, 0: none; used with volatile_cache=1 only
 *     destage_high_bytes               optional, three quarters of the cache
 *     destage_window, destage_idle_ns  optional, 1 and 0
 *     shingle_cache_bytes, shingle_band_bytes, cleaning_idle_ns      optional, 0: not shingled
 */
#include "drive_state.h"

static bool read_curve(struct disk_config *config, const char *at, const char *end)
{
	struct rotating_config *rotating = &config->rotating;
	u32 i;

	if (!disk_read_numbers(at, end, rotating->seek_curve_ns, ROTATING_CURVE_POINTS, &rotating->curve_points))
		return false;
	for (i = 0; i < rotating->curve_points; i++)
		if (rotating->seek_curve_ns[i] > DISK_TIME_LIMIT_NS)
			return false;
	return true;
}

static bool read_zone(struct disk_config *config, const char *at, const char *end)
{
	struct rotating_config *rotating = &config->rotating;
	struct rotating_zone *zone = &rotating->zone[rotating->zones];
	u64 value[3];
	u32 count;

	if (rotating->zones == ROTATING_ZONES || !disk_read_numbers(at, end, value, 3, &count) || count != 3)
		return false;
	if (value[1] > 0x7fffffff || value[2] == 0 || value[2] > 1000000)
		return false;
	zone->first_sector = value[0];
	zone->first_track = (u32)value[1];
	zone->sectors_per_track = (u32)value[2];
	rotating->zones++;
	return true;
}

static bool read_defect(struct disk_config *config, const char *at, const char *end)
{
	struct rotating_config *rotating = &config->rotating;
	u64 value[2];
	u32 count;

	if (rotating->defects == ROTATING_DEFECTS || !disk_read_numbers(at, end, value, 2, &count) || count != 2)
		return false;
	rotating->defect[rotating->defects].sector = value[0];
	rotating->defect[rotating->defects].spare_sector = value[1];
	rotating->defects++;
	return true;
}

#define OPTIONAL_U32(key, field, low, high) \
	{ .name = key, .kind = KEY_U32, .offset = offsetof(struct disk_config, field), .minimum = low, .maximum = high }
#define OPTIONAL_U64(key, field, low, high) \
	{ .name = key, .kind = KEY_U64, .offset = offsetof(struct disk_config, field), .minimum = low, .maximum = high }

const struct disk_key drive_keys[] = {
	DISK_KEY_U64("overhead_ns", drive.overhead_ns, 0, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("rotation_ns", rotating.rotation_ns, 1, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("track_skew_ns", rotating.track_skew_ns, 0, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("write_settle_ns", rotating.write_settle_ns, 0, DISK_TIME_LIMIT_NS),
	DISK_KEY_U32("window", drive.window, 1, DISK_QUEUE_LIMIT),
	DISK_KEY_U64("wait_limit_ns", drive.wait_limit_ns, 0, U64_MAX / 2),
	DISK_KEY_U32("tracks", rotating.tracks, 1, 0x7fffffff),
	DISK_KEY_READ("seek_curve_ns", read_curve, true),
	{ .name = "zone", .kind = KEY_READ, .needed = true, .repeats = true, .read = read_zone },
	{ .name = "defect", .kind = KEY_READ, .repeats = true, .read = read_defect },
	OPTIONAL_U64("positioning_margin_ns", drive.positioning_margin_ns, 0, DISK_TIME_LIMIT_NS),
	OPTIONAL_U32("admission_oldest_every", drive.admission_oldest_every, 1, DISK_QUEUE_LIMIT),
	OPTIONAL_U32("speed_tolerance_ppm", drive.speed_tolerance_ppm, 0, 10000),
	OPTIONAL_U64("buffer_overhead_ns", drive.buffer_overhead_ns, 0, DISK_TIME_LIMIT_NS),
	OPTIONAL_U64("link_bytes_per_s", drive.link_bytes_per_s, 0, 10000000000ULL),
	OPTIONAL_U32("read_segments", drive.read_segments, 0, READ_SEGMENTS),
	OPTIONAL_U64("read_segment_bytes", drive.read_segment_bytes, 0, 1ULL << 30),
	OPTIONAL_U64("write_cache_bytes", drive.write_cache_bytes, 0, 1ULL << 40),
	OPTIONAL_U32("write_cache_extents", drive.write_cache_extents, 0, 65536),
	OPTIONAL_U64("destage_high_bytes", drive.destage_high_bytes, 0, 1ULL << 40),
	OPTIONAL_U32("destage_window", drive.destage_window, 0, 1024),
	OPTIONAL_U64("destage_idle_ns", drive.destage_idle_ns, 0, DISK_TIME_LIMIT_NS),
	OPTIONAL_U64("shingle_cache_bytes", drive.shingle_cache_bytes, 0, 1ULL << 42),
	OPTIONAL_U64("shingle_band_bytes", drive.shingle_band_bytes, 0, 1ULL << 32),
	OPTIONAL_U64("cleaning_idle_ns", drive.cleaning_idle_ns, 0, DISK_TIME_LIMIT_NS),
	{ .name = NULL },
};

/* Zones follow each other without overlap, fit their tracks and hold the whole capacity; the curve reaches across the disk. */
static const char *check_mechanism(const struct rotating_config *config, u64 sectors)
{
	u32 i;

	if (config->zone[0].first_sector || config->zone[0].first_track)
		return "the first zone must start at sector 0, track 0";
	for (i = 0; i < config->zones; i++) {
		const struct rotating_zone *zone = &config->zone[i];
		bool last = i + 1 == config->zones;
		u64 end_sector = last ? sectors : zone[1].first_sector;
		u64 end_track = last ? config->tracks : zone[1].first_track;

		if (end_sector <= zone->first_sector || end_track <= zone->first_track)
			return "zones must be in ascending order, within the capacity";
		if (end_sector - zone->first_sector > (end_track - zone->first_track) * zone->sectors_per_track)
			return "a zone has more sectors than its tracks hold";
	}
	if (config->tracks > 1 && rotating_grid_distance(config->curve_points - 1) < config->tracks - 1)
		return "seek_curve_ns ends before the longest seek";
	if (config->track_skew_ns >= config->rotation_ns)
		return "track_skew_ns must be below rotation_ns";
	return NULL;
}

static const char *check_defects(const struct rotating_config *config, u64 sectors)
{
	const struct rotating_zone *last = &config->zone[config->zones - 1];
	u64 places = last->first_sector + (u64)(config->tracks - last->first_track) * last->sectors_per_track;
	u32 i;

	for (i = 0; i < config->defects; i++) {
		const struct rotating_defect *defect = &config->defect[i];

		if (defect->sector % config->block_sectors || defect->sector >= sectors)
			return "a defect must be the first sector of a physical block, within the capacity";
		if (i && defect->sector <= defect[-1].sector)
			return "defects must be in ascending order";
		if (defect->spare_sector + config->block_sectors > places)
			return "a defect's spare lies behind the last track";
	}
	return NULL;
}

static const char *check_shingle(const struct disk_config *config)
{
	const struct drive_config *drive = &config->drive;
	u64 block = SHINGLE_BLOCK_SECTORS * STRATA_SECTOR_BYTES;

	if (!drive->shingle_cache_bytes)
		return NULL;
	if (config->physical_block_bytes != block)
		return "a shingled disk has physical blocks of 4096 bytes";
	if (!drive->shingle_band_bytes || drive->shingle_band_bytes % block || drive->shingle_cache_bytes % block)
		return "shingle_cache_bytes and shingle_band_bytes must be multiples of 4096";
	if (config->capacity_sectors / SHINGLE_BLOCK_SECTORS >= 0xffffffffU)
		return "a shingled disk has less than 2^32 blocks of 4096 bytes";
	return NULL;
}

const char *drive_check(struct disk_config *config)
{
	struct drive_config *drive = &config->drive;
	u64 places = config->capacity_sectors + drive->shingle_cache_bytes / STRATA_SECTOR_BYTES;
	const char *problem = check_mechanism(&config->rotating, places);

	config->rotating.block_sectors = config->physical_block_bytes / STRATA_SECTOR_BYTES;
	if (!problem)
		problem = check_defects(&config->rotating, places);
	if (!problem)
		problem = check_shingle(config);
	if (problem)
		return problem;
	if (drive->window > config->queue_depth)
		return "window must not exceed queue_depth";
	if (drive->read_segments && drive->read_segment_bytes < config->physical_block_bytes)
		return "read_segment_bytes must hold a physical block";
	if (drive->write_cache_bytes && (!drive->write_cache_extents || drive->write_cache_bytes < 2 * config->physical_block_bytes))
		return "write_cache_bytes needs write_cache_extents, and must hold two physical blocks";
	if (!drive->buffer_overhead_ns)
		drive->buffer_overhead_ns = drive->overhead_ns;
	if (!drive->destage_high_bytes)
		drive->destage_high_bytes = drive->write_cache_bytes / 4 * 3;
	if (drive->destage_high_bytes > drive->write_cache_bytes)
		return "destage_high_bytes must not exceed write_cache_bytes";
	if (!drive->destage_window)
		drive->destage_window = 1;
	return NULL;
}
