// SPDX-License-Identifier: GPL-2.0
/*
 * Reads the text that describes one disk. Lines `key=value`; empty lines and lines that start with # are skipped.
 *
 *     name=sda                   the block device's name
 *     capacity_sectors=N         of 512 bytes
 *     read_only=0|1              optional, 0
 *     backing_fd=N               the host file with the data (the library ignores it)
 *     model=null|rotating
 *     queue_depth=N              optional, 32; commands that the disk accepts at once
 *     physical_block_bytes=N     optional, 512
 *     discard=0|1                optional; 1 for null, 0 for rotating
 *   rotating:
 *     overhead_ns=N rotation_ns=N track_skew_ns=N write_settle_ns=N window=N wait_limit_ns=N tracks=N
 *     seek_curve_ns=v0,v1,...    on the grid of rotating.h
 *     zone=first_sector,first_track,sectors_per_track      repeated, outermost first
 */
#include "queue.h"

struct reader {
	struct disk_config *config;
	const char *at;
	const char *end;
	u32 line;
	u32 seen;
	char *message;
};

/* Appends to the message; the caller has made it a string. */
static void message_add(char *message, const char *text, size_t length)
{
	size_t used = strlen(message);

	if (length > DISK_MESSAGE_BYTES - 1 - used)
		length = DISK_MESSAGE_BYTES - 1 - used;
	memcpy(message + used, text, length);
	message[used + length] = 0;
}

static int fail(struct reader *reader, const char *reason, const char *subject, size_t length)
{
	char digits[12];
	u32 i = sizeof(digits), line = reader->line;

	do {
		digits[--i] = (char)('0' + line % 10);
		line /= 10;
	} while (line);
	reader->message[0] = 0;
	message_add(reader->message, "line ", 5);
	message_add(reader->message, digits + i, sizeof(digits) - i);
	message_add(reader->message, ": ", 2);
	message_add(reader->message, subject, length > 40 ? 40 : length);
	message_add(reader->message, ": ", 2);
	message_add(reader->message, reason, strlen(reason));
	return -1;
}

/* One unsigned number; moves *at behind it. */
static bool number(const char **at, const char *end, u64 *value)
{
	const char *start = *at;

	*value = 0;
	while (*at < end && **at >= '0' && **at <= '9') {
		u64 digit = (u64)(**at - '0');

		if (*value > (U64_MAX / 2 - digit) / 10)
			return false;
		*value = *value * 10 + digit;
		(*at)++;
	}
	return *at > start;
}

static bool whole_number(const char *at, const char *end, u64 limit, u64 *value)
{
	return number(&at, end, value) && at == end && *value <= limit;
}

enum key {
	NAME, CAPACITY, READ_ONLY, BACKING, MODEL, DEPTH, PHYSICAL, DISCARD, OVERHEAD, ROTATION, SKEW, SETTLE, WINDOW, WAIT_LIMIT, TRACKS,
	CURVE, ZONE, KEYS
};

static const char *const key_names[KEYS] = {
	"name", "capacity_sectors", "read_only", "backing_fd", "model", "queue_depth", "physical_block_bytes", "discard", "overhead_ns",
	"rotation_ns", "track_skew_ns", "write_settle_ns", "window", "wait_limit_ns", "tracks", "seek_curve_ns", "zone",
};

#define KEY_BIT(key) (1U << (key))
#define NEEDED (KEY_BIT(NAME) | KEY_BIT(CAPACITY) | KEY_BIT(BACKING) | KEY_BIT(MODEL))
#define ROTATING (KEY_BIT(OVERHEAD) | KEY_BIT(ROTATION) | KEY_BIT(SKEW) | KEY_BIT(SETTLE) | KEY_BIT(WINDOW) | KEY_BIT(WAIT_LIMIT) | KEY_BIT(TRACKS) | KEY_BIT(CURVE) | KEY_BIT(ZONE))

static bool equals(const char *at, const char *end, const char *word)
{
	return (size_t)(end - at) == strlen(word) && !memcmp(at, word, strlen(word));
}

static bool read_curve(struct rotating_config *rotating, const char *at, const char *end)
{
	u64 value;

	rotating->curve_points = 0;
	while (number(&at, end, &value)) {
		if (rotating->curve_points == ROTATING_CURVE_POINTS || value > 1000000000000ULL)
			return false;
		rotating->seek_curve_ns[rotating->curve_points++] = value;
		if (at == end)
			return true;
		if (*at++ != ',')
			return false;
	}
	return false;
}

static bool read_zone(struct rotating_config *rotating, const char *at, const char *end)
{
	struct rotating_zone *zone = &rotating->zone[rotating->zones];
	u64 value[3];
	u32 i;

	if (rotating->zones == ROTATING_ZONES)
		return false;
	for (i = 0; i < 3; i++) {
		if (!number(&at, end, &value[i]) || (i < 2 ? at == end || *at++ != ',' : at != end))
			return false;
	}
	if (value[1] > 0x7fffffff || value[2] == 0 || value[2] > 1000000)
		return false;
	zone->first_sector = value[0];
	zone->first_track = (u32)value[1];
	zone->sectors_per_track = (u32)value[2];
	rotating->zones++;
	return true;
}

static bool read_name(struct disk_config *config, const char *at, const char *end)
{
	size_t length = (size_t)(end - at);

	if (!length || length >= DISK_NAME_BYTES)
		return false;
	memcpy(config->name, at, length);
	config->name[length] = 0;
	for (; at < end; at++)
		if (!((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9')))
			return false;
	return true;
}

static bool read_model(struct disk_config *config, const char *at, const char *end)
{
	if (equals(at, end, disk_null_ops.name))
		config->ops = &disk_null_ops;
	else if (equals(at, end, disk_rotating_ops.name))
		config->ops = &disk_rotating_ops;
	else
		return false;
	return true;
}

static int read_value(struct reader *reader, enum key key, const char *at, const char *end)
{
	struct disk_config *config = reader->config;
	struct rotating_config *rotating = &config->rotating;
	const u64 time_limit = 1000000000000ULL;	/* 1000 s: sums of a few stay far from overflow */
	u64 value = 0;
	bool good;

	switch (key) {
	case NAME:
		return read_name(config, at, end) ? 0 : -1;
	case MODEL:
		return read_model(config, at, end) ? 0 : -1;
	case CURVE:
		return read_curve(rotating, at, end) ? 0 : -1;
	case ZONE:
		return read_zone(rotating, at, end) ? 0 : -1;
	default:
		break;
	}
	good = whole_number(at, end, U64_MAX / 2, &value);
	switch (key) {
	case CAPACITY:
		config->capacity_sectors = value;
		good = good && value && value <= 1ULL << 50;
		break;
	case READ_ONLY:
		config->read_only = value;
		good = good && value <= 1;
		break;
	case BACKING:
		config->backing_fd = (s64)value;
		good = good && value <= 0x7fffffff;
		break;
	case DEPTH:
		config->queue_depth = (u32)value;
		good = good && value && value <= DISK_QUEUE_LIMIT;
		break;
	case PHYSICAL:
		config->physical_block_bytes = (u32)value;
		good = good && value >= 512 && value <= 65536 && !(value & (value - 1));
		break;
	case DISCARD:
		config->discard = value;
		good = good && value <= 1;
		break;
	case OVERHEAD:
		config->overhead_ns = value;
		good = good && value <= time_limit;
		break;
	case ROTATION:
		rotating->rotation_ns = value;
		good = good && value && value <= time_limit;
		break;
	case SKEW:
		rotating->track_skew_ns = value;
		good = good && value <= time_limit;
		break;
	case SETTLE:
		rotating->write_settle_ns = value;
		good = good && value <= time_limit;
		break;
	case WINDOW:
		config->window = (u32)value;
		good = good && value && value <= DISK_QUEUE_LIMIT;
		break;
	case WAIT_LIMIT:
		config->wait_limit_ns = value;
		break;
	default:
		rotating->tracks = (u32)value;
		good = good && value && value <= 0x7fffffff;
		break;
	}
	return good ? 0 : -1;
}

static int read_line(struct reader *reader, const char *at, const char *end)
{
	const char *equal = at;
	u32 key;

	while (equal < end && *equal != '=')
		equal++;
	if (equal == end)
		return fail(reader, "not key=value", at, (size_t)(end - at));
	for (key = 0; key < KEYS; key++)
		if (equals(at, equal, key_names[key]))
			break;
	if (key == KEYS)
		return fail(reader, "unknown key", at, (size_t)(equal - at));
	if (key != ZONE && (reader->seen & KEY_BIT(key)))
		return fail(reader, "given twice", at, (size_t)(equal - at));
	reader->seen |= KEY_BIT(key);
	if (read_value(reader, (enum key)key, equal + 1, end))
		return fail(reader, "bad value", at, (size_t)(end - at));
	return 0;
}

/* Zones follow each other without overlap, fit their tracks and hold the whole capacity; the curve reaches across the disk. */
static const char *check_rotating(const struct disk_config *config)
{
	const struct rotating_config *rotating = &config->rotating;
	u32 i;

	if (rotating->zone[0].first_sector || rotating->zone[0].first_track)
		return "the first zone must start at sector 0, track 0";
	for (i = 0; i < rotating->zones; i++) {
		const struct rotating_zone *zone = &rotating->zone[i];
		bool last = i + 1 == rotating->zones;
		u64 end_sector = last ? config->capacity_sectors : zone[1].first_sector;
		u64 end_track = last ? rotating->tracks : zone[1].first_track;

		if (end_sector <= zone->first_sector || end_track <= zone->first_track)
			return "zones must be in ascending order, within the capacity";
		if (end_sector - zone->first_sector > (end_track - zone->first_track) * zone->sectors_per_track)
			return "a zone has more sectors than its tracks hold";
	}
	if (rotating->tracks > 1 && rotating_grid_distance(rotating->curve_points - 1) < rotating->tracks - 1)
		return "seek_curve_ns ends before the longest seek";
	if (rotating->track_skew_ns >= rotating->rotation_ns)
		return "track_skew_ns must be below rotation_ns";
	if (config->window > config->queue_depth)
		return "window must not exceed queue_depth";
	return NULL;
}

static int check(struct reader *reader)
{
	struct disk_config *config = reader->config;
	bool rotating = config->ops == &disk_rotating_ops;
	const char *problem;
	u32 key;

	for (key = 0; key < KEYS; key++) {
		u32 bit = KEY_BIT(key);

		if ((bit & (NEEDED | (rotating ? ROTATING : 0))) && !(reader->seen & bit))
			return fail(reader, "missing", key_names[key], strlen(key_names[key]));
		if ((bit & ROTATING) && !rotating && (reader->seen & bit))
			return fail(reader, "belongs to model=rotating", key_names[key], strlen(key_names[key]));
	}
	if (!(reader->seen & KEY_BIT(DISCARD)))
		config->discard = !rotating;
	if (config->capacity_sectors % (config->physical_block_bytes / STRATA_SECTOR_BYTES))
		return fail(reader, "not a multiple of physical_block_bytes", "capacity_sectors", 16);
	problem = rotating ? check_rotating(config) : NULL;
	return problem ? fail(reader, problem, config->name, strlen(config->name)) : 0;
}

int disk_config_parse(struct disk_config *config, const char *text, size_t length, char *message)
{
	struct reader reader = { .config = config, .at = text, .end = text + length, .message = message };

	memset(config, 0, sizeof(*config));
	config->queue_depth = 32;
	config->window = 1;
	config->physical_block_bytes = 512;
	message[0] = 0;
	while (reader.at < reader.end) {
		const char *end = reader.at;

		reader.line++;
		while (end < reader.end && *end != '\n')
			end++;
		if (end > reader.at && *reader.at != '#' && read_line(&reader, reader.at, end))
			return -1;
		reader.at = end + 1;
	}
	return check(&reader);
}
