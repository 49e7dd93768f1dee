// SPDX-License-Identifier: GPL-2.0
/*
 * Reads the text that describes one disk. Lines `key=value`; empty lines and lines that start with # are skipped.
 *
 *     name=sda                   the block device's name
 *     capacity_sectors=N         of 512 bytes
 *     backing_fd=N               the host file with the data (the library ignores it)
 *     model=null|rotating|flash|controller|network     before the model's own keys
 *     queue_depth=N              optional, 32; commands that the disk accepts at once
 *     hardware_queues=N          optional, 1
 *     physical_block_bytes=N     optional, 512
 *     atomic_unit_bytes=N        optional, the physical block
 *     read_only, discard, volatile_cache, fua = 0|1     optional, 0; discard is 1 for null
 *     write_through=0|1          optional, 0; for the driver: the volatile cache is switched off
 *     seed=N                     optional, 0
 *     fault=...                  faults.h
 *     member.KEY=value           a line of the description of a controller's members
 *   and the keys of the model, at the end of its file.
 */
#include "disk.h"

struct reader {
	struct disk_config *config;
	const char *prefix;		/* "member." or "" */
	u32 line;
	u64 seen;			/* common keys */
	u64 seen_own;			/* the model's */
	char *message;
};

static const struct disk_model_ops *const all_models[] = {
	&disk_null_ops, &disk_rotating_ops, &disk_flash_ops, &disk_controller_ops, &disk_network_ops,
};

static bool equals(const char *at, const char *end, const char *word)
{
	return (size_t)(end - at) == strlen(word) && !memcmp(at, word, strlen(word));
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
	size_t i;

	for (i = 0; i < sizeof(all_models) / sizeof(all_models[0]); i++) {
		if (equals(at, end, all_models[i]->name)) {
			config->ops = all_models[i];
			return true;
		}
	}
	return false;
}

#define OPTIONAL_U32(key, field, low, high) \
	{ .name = key, .kind = KEY_U32, .offset = offsetof(struct disk_config, field), .minimum = low, .maximum = high }
#define OPTIONAL_BOOL(key, field) { .name = key, .kind = KEY_BOOL, .offset = offsetof(struct disk_config, field), .maximum = 1 }

enum common_key { NAME, MODEL, CAPACITY, BACKING, SEED, DEPTH, QUEUES, PHYSICAL, ATOMIC, READ_ONLY, DISCARD, VOLATILE, FUA, THROUGH, FAULT };

static const struct disk_key common_keys[] = {
	[NAME] = DISK_KEY_READ("name", read_name, true),
	[MODEL] = DISK_KEY_READ("model", read_model, true),
	[CAPACITY] = DISK_KEY_U64("capacity_sectors", capacity_sectors, 1, 1ULL << 50),
	[BACKING] = DISK_KEY_U64("backing_fd", backing_fd, 0, 0x7fffffff),
	[SEED] = { .name = "seed", .kind = KEY_U64, .offset = offsetof(struct disk_config, seed), .maximum = U64_MAX / 2 },
	[DEPTH] = OPTIONAL_U32("queue_depth", queue_depth, 1, DISK_QUEUE_LIMIT),
	[QUEUES] = OPTIONAL_U32("hardware_queues", hardware_queues, 1, 128),
	[PHYSICAL] = OPTIONAL_U32("physical_block_bytes", physical_block_bytes, 512, 65536),
	[ATOMIC] = OPTIONAL_U32("atomic_unit_bytes", atomic_unit_bytes, 512, 65536),
	[READ_ONLY] = OPTIONAL_BOOL("read_only", read_only),
	[DISCARD] = OPTIONAL_BOOL("discard", discard),
	[VOLATILE] = OPTIONAL_BOOL("volatile_cache", volatile_cache),
	[FUA] = OPTIONAL_BOOL("fua", fua),
	[THROUGH] = OPTIONAL_BOOL("write_through", write_through),
	[FAULT] = { .name = "fault", .kind = KEY_READ, .repeats = true, .read = disk_faults_read },
	{ .name = NULL },
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
	message_add(reader->message, reader->prefix, strlen(reader->prefix));
	message_add(reader->message, subject, length > 40 ? 40 : length);
	message_add(reader->message, ": ", 2);
	message_add(reader->message, reason, strlen(reason));
	return -1;
}

bool disk_read_number(const char **at, const char *end, u64 *value)
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

bool disk_read_numbers(const char *at, const char *end, u64 *values, u32 room, u32 *count)
{
	*count = 0;
	while (*count < room && disk_read_number(&at, end, &values[*count])) {
		(*count)++;
		if (at == end)
			return true;
		if (*at++ != ',')
			return false;
	}
	return false;
}

static bool read_value(struct disk_config *config, const struct disk_key *key, const char *at, const char *end)
{
	char *field = (char *)config + key->offset;
	u64 value;

	if (key->kind == KEY_READ)
		return key->read(config, at, end);
	if (!disk_read_number(&at, end, &value) || at != end || value < key->minimum || value > key->maximum)
		return false;
	switch (key->kind) {
	case KEY_U64:
		*(u64 *)field = value;
		break;
	case KEY_U32:
		*(u32 *)field = (u32)value;
		break;
	default:
		*(bool *)field = value;
		break;
	}
	return true;
}

static const struct disk_key *find(const struct disk_key *keys, const char *at, const char *end, u32 *index)
{
	for (*index = 0; keys[*index].name; (*index)++)
		if (equals(at, end, keys[*index].name))
			return &keys[*index];
	return NULL;
}

static int read_line(struct reader *reader, const char *at, const char *end)
{
	const struct disk_model_ops *ops = reader->config->ops;
	const struct disk_key *key;
	const char *equal = at;
	u64 *seen = &reader->seen;
	u32 index;

	while (equal < end && *equal != '=')
		equal++;
	if (equal == end)
		return fail(reader, "not key=value", at, (size_t)(end - at));
	key = find(common_keys, at, equal, &index);
	if (!key && ops) {
		key = find(ops->keys, at, equal, &index);
		seen = &reader->seen_own;
	}
	if (!key)
		return fail(reader, ops ? "unknown key of this model" : "unknown key before model=", at, (size_t)(equal - at));
	if (!key->repeats && (*seen >> index & 1))
		return fail(reader, "given twice", at, (size_t)(equal - at));
	*seen |= 1ULL << index;
	if (!read_value(reader->config, key, equal + 1, end))
		return fail(reader, "bad value", at, (size_t)(end - at));
	return 0;
}

static const char *missing(const struct disk_key *keys, u64 seen)
{
	u32 i;

	for (i = 0; keys[i].name; i++)
		if (keys[i].needed && !(seen >> i & 1))
			return keys[i].name;
	return NULL;
}

static const char *check_common(const struct disk_config *config)
{
	u32 physical = config->physical_block_bytes, atomic = config->atomic_unit_bytes;

	if (physical & (physical - 1) || atomic & (atomic - 1))
		return "physical_block_bytes and atomic_unit_bytes must be powers of two";
	if (config->capacity_sectors % (physical / STRATA_SECTOR_BYTES))
		return "capacity_sectors must be a multiple of physical_block_bytes";
	return NULL;
}

static int check(struct reader *reader)
{
	struct disk_config *config = reader->config;
	const char *problem = missing(common_keys, reader->seen);

	if (!problem)
		problem = missing(config->ops->keys, reader->seen_own);
	if (problem)
		return fail(reader, "missing", problem, strlen(problem));
	if (!(reader->seen >> DISCARD & 1))
		config->discard = config->ops == &disk_null_ops;
	if (!(reader->seen >> ATOMIC & 1))
		config->atomic_unit_bytes = config->physical_block_bytes;
	problem = check_common(config);
	if (!problem && config->controller.member && config->ops != &disk_controller_ops)
		problem = "lines member.KEY=value, but only a controller has members";
	if (!problem && config->ops->check)
		problem = config->ops->check(config);
	return problem ? fail(reader, problem, config->name, strlen(config->name)) : 0;
}

static void set_defaults(struct disk_config *config)
{
	memset(config, 0, sizeof(*config));
	config->queue_depth = 32;
	config->hardware_queues = 1;
	config->physical_block_bytes = 512;
	config->atomic_unit_bytes = 512;
}

/* The lines that start with the prefix, or, when it is empty, those that do not start with "member.". */
static int read_lines(struct reader *reader, const char *at, const char *end)
{
	const char *const inner = "member.";
	size_t skip = strlen(reader->prefix), inner_length = strlen(inner);

	while (at < end) {
		const char *stop = at;
		bool member;

		reader->line++;
		while (stop < end && *stop != '\n')
			stop++;
		member = (size_t)(stop - at) > inner_length && !memcmp(at, inner, inner_length);
		if (stop > at && *at != '#' && member == (skip > 0) && read_line(reader, at + skip, stop))
			return -1;
		at = stop + 1;
	}
	return 0;
}

static bool has_member(const char *at, const char *end)
{
	for (; end - at > 7; at++) {
		if (!memcmp(at, "member.", 7))
			return true;
		while (at < end && *at != '\n')
			at++;
	}
	return false;
}

int disk_config_parse(struct disk_config *config, const char *text, size_t length, char *message)
{
	struct reader reader = { .config = config, .prefix = "", .message = message };
	struct reader inner = { .prefix = "member.", .message = message };

	set_defaults(config);
	message[0] = 0;
	if (has_member(text, text + length)) {
		inner.config = platform_alloc(sizeof(*config));
		if (!inner.config)
			return fail(&inner, "no memory", "", 0);
		config->controller.member = inner.config;
		set_defaults(inner.config);
		if (read_lines(&inner, text, text + length) || check(&inner))
			goto free;
	}
	if (read_lines(&reader, text, text + length) || check(&reader))
		goto free;
	return 0;
free:
	disk_config_free(config);
	return -1;
}

void disk_config_free(struct disk_config *config)
{
	if (config->controller.member)
		platform_free(config->controller.member, sizeof(*config));
	config->controller.member = NULL;
}
