// SPDX-License-Identifier: GPL-2.0
/* A volume in the network: rules in network.h. */
#include "disk.h"
#include "nonvolatile.h"

#define NS_PER_S 1000000000ULL
#define TAIL_PERCENT_MAX 100000
#define BUCKET_LIMIT (1ULL << 32)	/* tokens; in 10^-9 tokens, levels then stay below 2^62 */

struct network_state {
	struct network_levels own;
	struct network_levels *machine;		/* shared by all its volumes */
	struct network_levels machine_alone;	/* of a machine with one volume, or of its first */
	u64 link_free_ns;
};

static u64 cost_of(const struct network_config *config, enum network_token token, const struct disk_io *io)
{
	u64 bytes = io->op == DISK_DISCARD ? 0 : io->sectors * STRATA_SECTOR_BYTES;

	if (token == NETWORK_SECTORS)
		return bytes / STRATA_SECTOR_BYTES;
	return bytes > config->unit_bytes ? platform_divide_up(bytes, config->unit_bytes) : 1;
}

/* Until the level has risen to `wanted`. */
static u64 wait_ns(const struct network_bucket *bucket, u64 level, u64 wanted)
{
	return level >= wanted ? 0 : platform_divide_up(wanted - level, bucket->rate_per_s);
}

/* Lets a bucket fill for `passed_ns`, but not above `limit`. */
static u64 filled(const struct network_bucket *bucket, u64 level, u64 limit, u64 passed_ns)
{
	if (level >= limit || passed_ns >= wait_ns(bucket, level, limit))
		return level > limit ? level : limit;
	return level + passed_ns * bucket->rate_per_s;
}

/* Takes the tokens of a command, not before `earliest_ns`, and returns when it has them all. */
static u64 grant(const struct network_config *config, const struct network_bucket *buckets, u32 count, struct network_levels *levels,
		 const struct disk_io *io, u64 earliest_ns)
{
	u64 start = platform_later(earliest_ns, levels->granted_ns), at = start;
	u64 cost[NETWORK_BUCKETS];
	u32 i;

	for (i = 0; i < count; i++) {
		const struct network_bucket *bucket = &buckets[i];

		cost[i] = cost_of(config, bucket->token, io) * NS_PER_S;
		levels->level[i] = filled(bucket, levels->level[i], bucket->capacity * NS_PER_S, start - levels->granted_ns);
		at = platform_later(at, start + wait_ns(bucket, levels->level[i], cost[i]));
	}
	for (i = 0; i < count; i++) {
		const struct network_bucket *bucket = &buckets[i];
		/* The excess of the wait's last ns is not lost, even to a bucket that holds no more than this command. */
		u64 limit = platform_later(bucket->capacity * NS_PER_S, cost[i]) + bucket->rate_per_s - 1;

		levels->level[i] = filled(bucket, levels->level[i], limit, at - start) - cost[i];
	}
	levels->granted_ns = at;
	return at;
}

static u64 granted_ns(struct disk *disk, const struct disk_io *io)
{
	const struct network_config *config = &disk->config.network;
	struct network_state *state = disk->state;
	u64 admitted = disk->now_ns;

	if (config->machine_buckets)
		admitted = grant(config, config->machine_bucket, config->machine_buckets, state->machine, io, admitted);
	return grant(config, config->bucket, config->buckets, &state->own, io, admitted);
}

void network_join(struct disk *disk, const struct disk *other)
{
	u32 machine = disk->config.network.machine;

	if (disk->config.ops != &disk_network_ops || other->config.ops != &disk_network_ops)
		return;
	if (machine && machine == other->config.network.machine)
		((struct network_state *)disk->state)->machine = ((const struct network_state *)other->state)->machine;
}

u64 network_latency_ns(const u64 *table, u64 hash)
{
	u64 tail = hash >> 1, below, step;	/* the tail's probability is tail / 2^64 */
	s64 from, to;
	u32 octave, index;
	int side = hash & 1 ? 1 : -1;

	octave = tail ? (u32)__builtin_clzll(tail) - 1 : NETWORK_SIDE;
	if (octave >= NETWORK_SIDE / 8)
		return table[NETWORK_SIDE + side * NETWORK_SIDE];
	step = 1ULL << (59 - octave);		/* an eighth of the octave */
	below = (1ULL << (63 - octave)) - 1 - tail;
	index = 8 * octave + (u32)(below / step);
	from = (s64)table[NETWORK_SIDE + side * (int)index];
	to = (s64)table[NETWORK_SIDE + side * (int)(index + 1)];
	/* In 1/2^16 of the step, so that the product stays within 63 bits. */
	return (u64)(from + (to - from) * (s64)((below % step) >> (43 - octave)) / 65536);
}

static bool is_slow(const struct disk_config *config, u64 at_ns)
{
	u64 interval_ns = config->network.slow_interval_ns, into_ns, length_ns, start_ns, hash;

	if (!interval_ns)
		return false;
	into_ns = at_ns % interval_ns;
	hash = platform_mix(platform_mix(config->seed + 1) ^ (at_ns / interval_ns));
	length_ns = hash % (2 * config->network.slow_length_ns + 1);
	start_ns = platform_mix(hash) % (interval_ns - length_ns + 1);
	return into_ns >= start_ns && into_ns - start_ns < length_ns;
}

static u64 latency_ns(const struct disk *disk, const struct disk_command *command, u64 sent_ns)
{
	const struct network_config *config = &disk->config.network;
	const struct network_latency *latency = command->io.op == DISK_READ ? &config->read : &config->write;
	u64 hash = platform_mix(platform_mix(disk->config.seed) ^ command->sequence);
	u64 drawn_ns = network_latency_ns(latency->table_ns, hash);

	if ((platform_mix(hash) >> 32) * 1000000 >> 32 < latency->tail_ppm)
		drawn_ns = drawn_ns * latency->tail_percent / 100;
	return is_slow(&disk->config, sent_ns) ? drawn_ns * config->slow_factor_percent / 100 : drawn_ns;
}

static u64 link_ns(const struct network_config *config, const struct disk_io *io)
{
	if (!config->link_bytes_per_s || io->op == DISK_DISCARD)
		return 0;
	return platform_transfer_ns(io->sectors * STRATA_SECTOR_BYTES, config->link_bytes_per_s);
}

static void network_open(struct disk *disk)
{
	const struct network_config *config = &disk->config.network;
	struct network_state *state = disk->state;
	u32 i;

	for (i = 0; i < config->buckets; i++)
		state->own.level[i] = config->bucket[i].initial * NS_PER_S;
	for (i = 0; i < config->machine_buckets; i++)
		state->machine_alone.level[i] = config->machine_bucket[i].initial * NS_PER_S;
	state->machine = &state->machine_alone;
}

static void network_arrive(struct disk *disk, u32 tag)
{
	struct disk_command *command = &disk->command[tag];
	struct network_state *state = disk->state;
	struct disk_account *account = &disk->account;
	u64 bytes = command->io.sectors * STRATA_SECTOR_BYTES;
	u64 granted, sent, complete;

	if (command->io.op == DISK_FLUSH) {
		disk_finish(disk, tag, disk->now_ns);
		return;
	}
	granted = granted_ns(disk, &command->io);
	sent = platform_later(granted, state->link_free_ns);
	command->parts.throttle_ns = granted - disk->now_ns;
	command->parts.queue_ns = sent - granted;
	command->parts.transfer_ns = link_ns(&disk->config.network, &command->io);
	command->parts.overhead_ns = latency_ns(disk, command, sent);
	state->link_free_ns = sent + command->parts.transfer_ns;
	complete = state->link_free_ns + command->parts.overhead_ns;
	account->command_work_ns += command->parts.transfer_ns;
	if (command->io.op == DISK_READ)
		account->media_read_bytes += bytes;
	if (command->io.op == DISK_WRITE) {
		account->media_write_bytes += bytes;
		disk_durable(disk, command->io.sector, command->io.sectors, command->sequence, complete);
	}
	disk_finish(disk, tag, complete);
}

static void fill_up(const struct network_bucket *buckets, u32 count, struct network_levels *levels, u64 now_ns)
{
	u32 i;

	for (i = 0; i < count && now_ns > levels->granted_ns; i++)
		levels->level[i] = filled(&buckets[i], levels->level[i], buckets[i].capacity * NS_PER_S, now_ns - levels->granted_ns);
	levels->granted_ns = now_ns;
}

static void network_rest(struct disk *disk)
{
	const struct network_config *config = &disk->config.network;
	struct network_state *state = disk->state;

	fill_up(config->bucket, config->buckets, &state->own, disk->now_ns);
	fill_up(config->machine_bucket, config->machine_buckets, state->machine, disk->now_ns);
}

/* The levels, as those at the instant 0 of the next boot. All volumes of a machine have the same levels of it. */
static void network_nonvolatile(struct disk *disk, struct nonvolatile *stream)
{
	struct network_state *state = disk->state;

	nonvolatile_move(stream, state->own.level, sizeof(state->own.level));
	nonvolatile_move(stream, state->machine->level, sizeof(state->machine->level));
}

static size_t network_state_bytes(const struct disk_config *config)
{
	(void)config;
	return sizeof(struct network_state);
}

static bool read_bucket(struct network_bucket *buckets, u32 *used, enum network_token token, const char *at, const char *end)
{
	u64 value[3];
	u32 count;

	if (*used == NETWORK_BUCKETS || !disk_read_numbers(at, end, value, 3, &count) || count != 3)
		return false;
	if (!value[0] || value[0] > BUCKET_LIMIT || !value[1] || value[1] > BUCKET_LIMIT || value[2] > value[1])
		return false;
	buckets[(*used)++] = (struct network_bucket){ .token = token, .rate_per_s = value[0], .capacity = value[1], .initial = value[2] };
	return true;
}

static bool read_operations(struct disk_config *config, const char *at, const char *end)
{
	return read_bucket(config->network.bucket, &config->network.buckets, NETWORK_OPERATIONS, at, end);
}

static bool read_sectors(struct disk_config *config, const char *at, const char *end)
{
	return read_bucket(config->network.bucket, &config->network.buckets, NETWORK_SECTORS, at, end);
}

static bool read_machine_operations(struct disk_config *config, const char *at, const char *end)
{
	return read_bucket(config->network.machine_bucket, &config->network.machine_buckets, NETWORK_OPERATIONS, at, end);
}

static bool read_machine_sectors(struct disk_config *config, const char *at, const char *end)
{
	return read_bucket(config->network.machine_bucket, &config->network.machine_buckets, NETWORK_SECTORS, at, end);
}

static bool read_table(u64 *table, const char *at, const char *end)
{
	u32 count, i;

	if (!disk_read_numbers(at, end, table, NETWORK_QUANTILES, &count) || count != NETWORK_QUANTILES)
		return false;
	for (i = 0; i < count; i++)
		if (table[i] > DISK_TIME_LIMIT_NS || (i && table[i] < table[i - 1]))
			return false;
	return true;
}

static bool read_read_latency(struct disk_config *config, const char *at, const char *end)
{
	return read_table(config->network.read.table_ns, at, end);
}

static bool read_write_latency(struct disk_config *config, const char *at, const char *end)
{
	return read_table(config->network.write.table_ns, at, end);
}

/*
 *     operations_bucket=RATE,CAPACITY,INITIAL     tokens a second, tokens, tokens at the start; at most four buckets
 *     sectors_bucket=RATE,CAPACITY,INITIAL        the same in sectors of 512 bytes
 *     machine=N                                   the number of its machine, with its buckets; optional
 *     machine_operations_bucket=RATE,CAPACITY,INITIAL    at most four of the machine; all its volumes give the same
 *     machine_sectors_bucket=RATE,CAPACITY,INITIAL
 *     unit_bytes=N
 *     link_bytes_per_s=N                          0: takes no time
 *     read_latency_ns=N,N,...                     257 quantiles, ascending
 *     write_latency_ns=N,N,...
 *     read_tail_ppm, write_tail_ppm=N             optional, 0: the part of them that is in the tail
 *     read_tail_percent, write_tail_percent=N     with them: of the drawn latency
 *     slow_interval_ns=N                          optional, 0: no slow phases
 *     slow_length_ns=N                            with them
 *     slow_factor_percent=N                       with them
 */
#define TAIL(key, field, low, high) \
	{ .name = key, .kind = KEY_U32, .offset = offsetof(struct disk_config, network.field), .minimum = low, .maximum = high }

static const struct disk_key network_keys[] = {
	{ .name = "operations_bucket", .kind = KEY_READ, .repeats = true, .read = read_operations },
	{ .name = "sectors_bucket", .kind = KEY_READ, .repeats = true, .read = read_sectors },
	{ .name = "machine", .kind = KEY_U32, .offset = offsetof(struct disk_config, network.machine), .minimum = 1, .maximum = 1U << 30 },
	{ .name = "machine_operations_bucket", .kind = KEY_READ, .repeats = true, .read = read_machine_operations },
	{ .name = "machine_sectors_bucket", .kind = KEY_READ, .repeats = true, .read = read_machine_sectors },
	DISK_KEY_U32("unit_bytes", network.unit_bytes, 512, 1U << 30),
	DISK_KEY_U64("link_bytes_per_s", network.link_bytes_per_s, 0, 1ULL << 34),
	DISK_KEY_READ("read_latency_ns", read_read_latency, true),
	DISK_KEY_READ("write_latency_ns", read_write_latency, true),
	TAIL("read_tail_ppm", read.tail_ppm, 0, 1000000),
	TAIL("read_tail_percent", read.tail_percent, 100, TAIL_PERCENT_MAX),
	TAIL("write_tail_ppm", write.tail_ppm, 0, 1000000),
	TAIL("write_tail_percent", write.tail_percent, 100, TAIL_PERCENT_MAX),
	{ .name = "slow_interval_ns", .kind = KEY_U64, .offset = offsetof(struct disk_config, network.slow_interval_ns),
	  .maximum = 1000 * DISK_TIME_LIMIT_NS },
	{ .name = "slow_length_ns", .kind = KEY_U64, .offset = offsetof(struct disk_config, network.slow_length_ns),
	  .maximum = DISK_TIME_LIMIT_NS },
	{ .name = "slow_factor_percent", .kind = KEY_U32, .offset = offsetof(struct disk_config, network.slow_factor_percent),
	  .minimum = 100, .maximum = 10000 },
	{ .name = NULL },
};

static const char *network_check(struct disk_config *config)
{
	if (config->volatile_cache)
		return "a volume in the network has no volatile cache";
	if (!config->network.machine != !config->network.machine_buckets)
		return "a machine and its buckets belong together";
	if (config->network.slow_interval_ns < 2 * config->network.slow_length_ns)
		return "slow phases are longer than half of their interval";
	if (config->network.slow_interval_ns && !config->network.slow_factor_percent)
		return "slow phases have no factor";
	if ((config->network.read.tail_ppm && !config->network.read.tail_percent) ||
	    (config->network.write.tail_ppm && !config->network.write.tail_percent))
		return "a tail has no factor";
	return NULL;
}

const struct disk_model_ops disk_network_ops = {
	.name = "network",
	.keys = network_keys,
	.check = network_check,
	.state_bytes = network_state_bytes,
	.open = network_open,
	.arrive = network_arrive,
	.rest = network_rest,
	.nonvolatile = network_nonvolatile,
};
