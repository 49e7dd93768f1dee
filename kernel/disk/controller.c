// SPDX-License-Identifier: GPL-2.0
/* A RAID controller with a battery-backed write cache: rules in controller.h. */
#include "disk.h"
#include "extents.h"
#include "members.h"

#define RUNS_LIMIT (1U << 21)

struct controller_run {
	u64 start;
	u64 end;
};

struct controller_state {
	struct members members;
	bool broken;			/* no memory for the members */
	bool sweeping;			/* from the high water mark down to the low one */
	u64 processor_free_ns;
	u64 link_free_ns;
	u64 command_ns;			/* when the latest command came */
	u64 sweep;			/* the sector that the sweep has reached */
	u64 flying_sectors;		/* being destaged: neither dirty any more nor free */
	u32 first, last;		/* writes that wait for room, linked by disk_command.link[0] */
	u32 destages;			/* at once, at most */
	u32 free_destages;
	u32 free_destage[MEMBERS_DESTAGES];
	struct controller_run flying[MEMBERS_DESTAGES];
	struct extents dirty;
	struct extents_node runs[];
};

static u64 cache_sectors(const struct disk *disk)
{
	return disk->config.controller.cache_bytes / STRATA_SECTOR_BYTES;
}

static u32 runs_limit(const struct disk_config *config)
{
	u64 sectors = config->controller.cache_bytes / STRATA_SECTOR_BYTES;

	return sectors + 2 < RUNS_LIMIT ? (u32)sectors + 2 : RUNS_LIMIT;
}

static u64 used_sectors(const struct controller_state *state)
{
	return state->dirty.sectors + state->flying_sectors;
}

/* The controller's own share of a command, after everything else: processor, overhead, link. */
static void reply(struct disk *disk, u32 tag)
{
	const struct controller_config *config = &disk->config.controller;
	struct controller_state *state = disk->state;
	struct disk_command *command = &disk->command[tag];
	u64 bytes = command->io.op == DISK_DISCARD ? 0 : command->io.sectors * STRATA_SECTOR_BYTES;
	u64 started = platform_later(disk->now_ns, state->processor_free_ns);
	u64 prepared = started + config->overhead_ns;
	u64 sent = platform_later(prepared, state->link_free_ns);
	u64 moving = config->link_bytes_per_s ? platform_transfer_ns(bytes, config->link_bytes_per_s) : 0;

	state->processor_free_ns = started + config->interval_ns;
	state->link_free_ns = sent + moving;
	command->parts.queue_ns += started - disk->now_ns + sent - prepared;
	command->parts.overhead_ns += config->overhead_ns;
	command->parts.transfer_ns += moving;
	if (command->io.op == DISK_WRITE)
		disk_durable(disk, command->io.sector, command->io.sectors, command->sequence, sent + moving);
	disk_finish(disk, tag, sent + moving);
}

static bool covers(const struct controller_state *state, u64 sector, u64 end)
{
	u64 first, last;
	u32 i;

	if (extents_find(&state->dirty, sector, &first, &last) && first <= sector && last >= end)
		return true;
	for (i = 0; i < state->destages; i++)
		if (state->flying[i].start <= sector && state->flying[i].end >= end)
			return true;
	return false;
}

static bool has_room(const struct disk *disk, u32 tag)
{
	const struct controller_state *state = disk->state;

	return used_sectors(state) + disk->command[tag].io.sectors <= cache_sectors(disk) && !extents_full(&state->dirty);
}

/* Takes a write into the cache. */
static void accept(struct disk *disk, u32 tag)
{
	struct controller_state *state = disk->state;
	struct disk_command *command = &disk->command[tag];

	command->parts.cache_ns = disk->now_ns - command->arrival_ns;
	extents_add(&state->dirty, command->io.sector, command->io.sector + command->io.sectors);
	reply(disk, tag);
}

static void accept_waiting(struct disk *disk)
{
	struct controller_state *state = disk->state;

	while (state->first != DISK_NONE && has_room(disk, state->first)) {
		u32 tag = state->first;

		state->first = disk->command[tag].link[0];
		accept(disk, tag);
	}
}

static void write_back(struct disk *disk, u32 tag)
{
	struct controller_state *state = disk->state;

	if (state->first == DISK_NONE && has_room(disk, tag)) {
		accept(disk, tag);
		return;
	}
	disk->command[tag].link[0] = DISK_NONE;
	if (state->first == DISK_NONE)
		state->first = tag;
	else
		disk->command[state->last].link[0] = tag;
	state->last = tag;
}

static bool idle(const struct disk *disk)
{
	const struct controller_state *state = disk->state;

	return disk->now_ns - state->command_ns >= disk->config.controller.idle_ns;
}

static void destage(struct disk *disk)
{
	const struct controller_config *config = &disk->config.controller;
	struct controller_state *state = disk->state;
	const struct array *array = &config->array;
	u64 row = array_row_sectors(array), rows = config->destage_bytes / config->stripe_bytes;
	u64 most = row * (rows ? rows : 1), start, end;
	u32 k = state->free_destage[--state->free_destages];

	if (!extents_find(&state->dirty, state->sweep, &start, &end))
		extents_find(&state->dirty, 0, &start, &end);
	else if (!extents_full(&state->dirty))	/* then no run may become two */
		start = platform_later(start, state->sweep);
	if (array_parities(array) && (start % row || end - start < row))
		most = row - start % row;
	else if (array_parities(array))
		end -= end % row;
	end = end - start < most ? end : start + most;
	state->sweep = end;
	extents_cut(&state->dirty, start, end);
	state->flying[k] = (struct controller_run){ .start = start, .end = end };
	state->flying_sectors += end - start;
	disk->account.destages++;
	members_start(&state->members, disk->now_ns, DISK_QUEUE_LIMIT + k, DISK_WRITE, start, end - start);
}

static void destage_some(struct disk *disk)
{
	const struct controller_config *config = &disk->config.controller;
	struct controller_state *state = disk->state;
	u64 high = cache_sectors(disk) * config->high_percent, low = cache_sectors(disk) * config->low_percent;

	if (used_sectors(state) * 100 > high)
		state->sweeping = true;
	/* What flies will make room by itself: what stays dirty may still be joined by its neighbours. */
	while (state->free_destages && state->dirty.sectors) {
		bool stuck = state->first != DISK_NONE && !state->flying_sectors;

		state->sweeping = state->sweeping && state->dirty.sectors * 100 > low;
		if (!state->sweeping && !stuck && !idle(disk))
			break;
		destage(disk);
	}
}

static void controller_arrive(struct disk *disk, u32 tag)
{
	const struct controller_config *config = &disk->config.controller;
	struct controller_state *state = disk->state;
	struct disk_command *command = &disk->command[tag];
	u64 sector = command->io.sector, sectors = command->io.sectors, end = sector + sectors;

	state->command_ns = disk->now_ns;
	if (state->broken) {
		command->failed = true;
		disk_finish(disk, tag, disk->now_ns);
	} else if (command->io.op == DISK_FLUSH) {
		command->parts.flush_ns = config->overhead_ns;
		disk_finish(disk, tag, disk->now_ns + config->overhead_ns);
	} else if (command->io.op == DISK_DISCARD) {
		extents_cut(&state->dirty, sector, end);
		reply(disk, tag);
		accept_waiting(disk);
	} else if (command->io.op == DISK_READ && covers(state, sector, end)) {
		disk->account.cache_hits++;
		reply(disk, tag);
	} else if (command->io.op == DISK_WRITE && config->battery && sectors <= cache_sectors(disk)) {
		write_back(disk, tag);
		destage_some(disk);
	} else {
		if (command->io.op == DISK_WRITE)
			extents_cut(&state->dirty, sector, end);
		members_start(&state->members, disk->now_ns, tag, command->io.op, sector, sectors);
		accept_waiting(disk);
	}
}

static u64 controller_next_ns(const struct disk *disk)
{
	const struct controller_state *state = disk->state;
	u64 next, idle_ns = state->command_ns + disk->config.controller.idle_ns;

	if (state->broken)
		return U64_MAX;
	next = members_next_ns(&state->members);
	return state->dirty.sectors && idle_ns > disk->now_ns && idle_ns < next ? idle_ns : next;
}

static void controller_advance(struct disk *disk)
{
	struct controller_state *state = disk->state;
	u32 job;

	while ((job = members_take(&state->members, disk->now_ns)) != MEMBERS_NONE) {
		u32 k = job - DISK_QUEUE_LIMIT;

		if (job < DISK_QUEUE_LIMIT) {
			disk->command[job].parts = state->members.job[job].parts;
			reply(disk, job);
			continue;
		}
		state->flying_sectors -= state->flying[k].end - state->flying[k].start;
		state->flying[k] = (struct controller_run){ 0 };
		state->free_destage[state->free_destages++] = k;
	}
	accept_waiting(disk);
	destage_some(disk);
}

/* Its firmware writes the cache to the members before the power goes, as at the command for a shutdown. */
static void controller_rest(struct disk *disk)
{
	struct controller_state *state = disk->state;
	u64 next;

	if (state->broken)
		return;
	while ((next = controller_next_ns(disk)) != U64_MAX)
		disk_advance(disk, next);
	members_rest(&state->members, disk->now_ns);
}

static void controller_nonvolatile(struct disk *disk, struct nonvolatile *stream)
{
	struct controller_state *state = disk->state;

	if (!state->broken)
		members_nonvolatile(&state->members, stream);
}

static size_t controller_state_bytes(const struct disk_config *config)
{
	return offsetof(struct controller_state, runs) + extents_bytes(runs_limit(config));
}

static void controller_open(struct disk *disk)
{
	const struct controller_config *config = &disk->config.controller;
	struct controller_state *state = disk->state;
	u32 destages = config->destage_depth * config->array.members;

	state->first = DISK_NONE;
	state->destages = destages < MEMBERS_DESTAGES ? destages : MEMBERS_DESTAGES;
	while (state->free_destages < state->destages) {
		state->free_destage[state->free_destages] = state->destages - 1 - state->free_destages;
		state->free_destages++;
	}
	extents_create(&state->dirty, state->runs, runs_limit(&disk->config));
	state->broken = !members_open(&state->members, &disk->config, &disk->account);
}

static void controller_close(struct disk *disk)
{
	struct controller_state *state = disk->state;

	members_close(&state->members);
}

static bool read_level(struct disk_config *config, const char *at, const char *end)
{
	u32 level;

	for (level = 0; level < ARRAY_LEVELS; level++) {
		if (strlen(array_level_names[level]) == (size_t)(end - at) && !memcmp(array_level_names[level], at, (size_t)(end - at))) {
			config->controller.array.level = (enum array_level)level;
			return true;
		}
	}
	return false;
}

/*
 *     level=single|raid0|raid10|raid5|raid6
 *     members=N                  1 .. 32, all described by the lines member.KEY=value
 *     stripe_bytes=N             of one member in a row
 *     cache_bytes=N              0: none
 *     battery=0|1
 *     overhead_ns, interval_ns=N
 *     link_bytes_per_s=N         0: takes no time
 *     high_percent, low_percent=N
 *     destage_depth, destage_bytes=N     for each member
 *     idle_ns=N
 */
static const struct disk_key controller_keys[] = {
	DISK_KEY_READ("level", read_level, true),
	DISK_KEY_U32("members", controller.array.members, 1, ARRAY_MEMBERS),
	DISK_KEY_U64("stripe_bytes", controller.stripe_bytes, 4096, 1ULL << 26),
	DISK_KEY_U64("cache_bytes", controller.cache_bytes, 0, 1ULL << 40),
	DISK_KEY_BOOL("battery", controller.battery),
	DISK_KEY_U64("overhead_ns", controller.overhead_ns, 0, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("interval_ns", controller.interval_ns, 0, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("link_bytes_per_s", controller.link_bytes_per_s, 0, 1ULL << 34),
	DISK_KEY_U32("high_percent", controller.high_percent, 1, 100),
	DISK_KEY_U32("low_percent", controller.low_percent, 0, 100),
	DISK_KEY_U32("destage_depth", controller.destage_depth, 1, 64),
	DISK_KEY_U64("destage_bytes", controller.destage_bytes, 4096, 1ULL << 30),
	DISK_KEY_U64("idle_ns", controller.idle_ns, 0, DISK_TIME_LIMIT_NS),
	{ .name = NULL },
};

static const char *controller_check(struct disk_config *config)
{
	struct controller_config *controller = &config->controller;
	const struct disk_config *member = controller->member;
	struct array *array = &controller->array;
	const char *problem = array_check(array);

	if (problem)
		return problem;
	if (!member)
		return "the members are not described: lines member.KEY=value";
	if (member->ops == &disk_controller_ops)
		return "a controller cannot be a member of a controller";
	if (config->volatile_cache)
		return "a controller has no volatile cache";
	if (member->volatile_cache && !member->fua)
		return "a member with a volatile cache must take FUA";
	if (controller->stripe_bytes % member->physical_block_bytes)
		return "stripe_bytes must be a multiple of the members' physical_block_bytes";
	if (controller->low_percent > controller->high_percent)
		return "low_percent is above high_percent";
	array->chunk_sectors = controller->stripe_bytes / STRATA_SECTOR_BYTES;
	array->member_sectors = member->capacity_sectors / array->chunk_sectors * array->chunk_sectors;
	if (config->capacity_sectors > array_sectors(array))
		return "capacity_sectors is more than the members hold";
	return NULL;
}

const struct disk_model_ops disk_controller_ops = {
	.name = "controller",
	.keys = controller_keys,
	.check = controller_check,
	.state_bytes = controller_state_bytes,
	.open = controller_open,
	.close = controller_close,
	.arrive = controller_arrive,
	.next_ns = controller_next_ns,
	.advance = controller_advance,
	.rest = controller_rest,
	.nonvolatile = controller_nonvolatile,
};
