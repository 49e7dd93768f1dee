// SPDX-License-Identifier: GPL-2.0
/* Flash: rules in flash.h, keys in flash_config.c, the cells in flash_media.c, the map in ftl.c. */
#include "flash_state.h"
#include "nonvolatile.h"

static u64 heap_entries(const struct flash_config *config)
{
	return config->buffer_bytes / config->mapping_unit_bytes + 2;
}

static size_t flash_state_bytes(const struct disk_config *config)
{
	size_t bytes = sizeof(struct flash_state) + heap_entries(&config->flash) * sizeof(struct buffer_entry);

	return config->flash.in_place ? bytes : bytes + ftl_bytes(&config->flash.size);
}

static void flash_open(struct disk *disk)
{
	const struct ftl_age filled = { .filled_ppm = 1000000, .in_order = true };
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;

	state->buffer.heap = (struct buffer_entry *)(state + 1);
	state->buffer.room_bytes = config->buffer_bytes;
	if (config->in_place)
		return;
	ftl_open(&state->ftl, &config->size, state->buffer.heap + heap_entries(config));
	if (config->precondition == FLASH_STEADY) {
		ftl_precondition(&state->ftl, disk->config.seed);
		state->slc_used_bytes = config->slc_bytes;
	} else if (config->precondition == FLASH_FILLED) {
		ftl_age(&state->ftl, &filled, disk->config.seed);
	} else if (config->precondition == FLASH_USED) {
		ftl_age(&state->ftl, &config->used, disk->config.seed);
	}
	ftl_close_page(&state->ftl);
}

const char *flash_check(const struct disk *disk)
{
	const struct flash_state *state = disk->state;

	return disk->config.ops != &disk_flash_ops || disk->config.flash.in_place ? NULL : ftl_check(&state->ftl);
}

static u64 pass_link(struct disk *disk, bool write, u64 ready_ns, u64 duration_ns)
{
	struct flash_state *state = disk->state;

	return lane_reserve(&state->link[disk->config.flash.link_duplex && write], disk->now_ns, ready_ns, duration_ns);
}

static void finish(struct disk *disk, u32 tag, u64 complete_ns)
{
	struct flash_state *state = disk->state;

	disk_finish(disk, tag, complete_ns);
	state->complete_ns = platform_later(state->complete_ns, disk->command[tag].complete_ns);
}

/* A run of units that one page, or the buffer, or nothing at all holds. */
struct run {
	u32 address;	/* of the first, or FTL_NONE */
	u32 units;
	u64 bytes;
};

static u32 find(const struct disk *disk, u32 unit)
{
	const struct flash_state *state = disk->state;

	return disk->config.flash.in_place ? unit : ftl_find(&state->ftl, unit);
}

static struct run next_run(const struct disk *disk, const struct disk_io *io, u32 unit)
{
	const struct ftl_size *size = &disk->config.flash.size;
	u64 unit_sectors = disk->config.flash.mapping_unit_bytes / STRATA_SECTOR_BYTES;
	u64 last = (io->sector + io->sectors - 1) / unit_sectors, start, end;
	struct run run = { .address = find(disk, unit), .units = 1 };

	while (unit + run.units <= last) {
		u32 next = find(disk, unit + run.units);

		if (run.address == FTL_NONE ? next != FTL_NONE :
		    next == FTL_NONE || next >> size->page_shift != run.address >> size->page_shift)
			break;
		run.units++;
	}
	start = platform_later(io->sector, unit * unit_sectors);
	end = (unit + run.units) * unit_sectors;
	if (end > io->sector + io->sectors)
		end = io->sector + io->sectors;
	run.bytes = (end - start) * STRATA_SECTOR_BYTES;
	return run;
}

/* Time that a command waited, of which it caused `own` itself. */
static void split_wait(u64 wait_ns, u64 own_ns, u64 *own, u64 *other)
{
	u64 mine = wait_ns < own_ns ? wait_ns : own_ns;

	*own += mine;
	*other += wait_ns - mine;
}

/* Senses a run of cells from at_ns on; returns when the data have passed the channel. */
static u64 sense(struct disk *disk, struct disk_command *command, const struct run *run, u64 at_ns, struct disk_parts *parts)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	struct flash_place place;
	struct die_wait wait = { 0, 0 };
	struct die *die;
	u64 ready, start, duration, own;

	flash_locate(config, run->address, &place);
	die = &state->die[place.die];
	own = die->reader == command->sequence ? die->reader_ns : 0;
	if (die->sensed_page == place.page + 1) {
		ready = platform_later(at_ns, die->read_free_ns);
		split_wait(ready - at_ns, own, &parts->cell_ns, &parts->queue_ns);
	} else {
		duration = flash_read_ns(disk, &place, command->sequence);
		ready = die_read(die, &config->suspend, at_ns, duration, &wait) + duration;
		split_wait(wait.queue_ns, own, &parts->cell_ns, &parts->queue_ns);
		parts->cleaning_ns += wait.cleaning_ns;
		parts->cell_ns += duration;
		die->sensed_page = place.page + 1;
		die->reader_ns = own + duration;
		die->reader = command->sequence;
		disk->account.command_work_ns += duration;
	}
	disk->account.media_read_bytes += run->bytes;
	duration = flash_transfer_ns(run->bytes, config->channel_bytes_per_s);
	start = lane_reserve(&state->channel[place.die % config->channels], disk->now_ns, ready, duration);
	split_wait(start - ready, command->model[0], &parts->transfer_ns, &parts->queue_ns);
	parts->transfer_ns += duration;
	command->model[0] += duration;
	return start + duration;
}

static void arrive_read(struct disk *disk, u32 tag)
{
	const struct flash_config *config = &disk->config.flash;
	struct disk_command *command = &disk->command[tag];
	u64 at = flash_take_up(disk, command), done = 0, linked = 0;
	u64 unit_sectors = config->mapping_unit_bytes / STRATA_SECTOR_BYTES;
	u32 unit = (u32)(command->io.sector / unit_sectors), from = unit;
	u32 end = (u32)((command->io.sector + command->io.sectors + unit_sectors - 1) / unit_sectors);
	bool sensed = false, buffered = false;
	const struct disk_parts waited = command->parts;

	command->model[0] = 0;	/* the channels' time that it has taken */
	while (unit < end) {
		struct run run = next_run(disk, &command->io, unit);
		struct disk_parts parts = waited;
		u64 overhead = unit == from ? config->command_ns : 0;
		u64 transfer = flash_transfer_ns(run.bytes, config->link_bytes_per_s), ready = at, start;

		if (run.address != FTL_NONE && flash_is_buffered(disk, run.address, at)) {
			buffered = true;
		} else if (run.address != FTL_NONE) {
			ready = sense(disk, command, &run, at, &parts);
			sensed = true;
		}
		start = pass_link(disk, false, ready, overhead + transfer);
		split_wait(start - ready, linked, &parts.transfer_ns, &parts.queue_ns);
		parts.overhead_ns += overhead + config->interface_read_ns;
		parts.transfer_ns += transfer;
		linked += transfer;
		/* The command's time is that of the run that comes last. */
		if (start + overhead + transfer > done) {
			done = start + overhead + transfer;
			command->parts = parts;
		}
		unit += run.units;
	}
	disk->account.cache_hits += buffered && !sensed;
	finish(disk, tag, done + config->interface_read_ns);
}

/* A unit that is written in part is read before. Nobody waits for that: the write is in the buffer. */
static void read_rest(struct disk *disk, u32 unit, u64 at_ns)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	u32 address = find(disk, unit);
	struct flash_place place;
	struct die_wait wait;
	u64 duration;

	if (address == FTL_NONE || flash_is_buffered(disk, address, at_ns))
		return;
	flash_locate(config, address, &place);
	duration = config->read_ns[place.row % config->read_types];
	die_read(&state->die[place.die], &config->suspend, at_ns, duration, &wait);
	state->die[place.die].sensed_page = place.page + 1;
	disk->account.command_work_ns += duration;
	disk->account.media_read_bytes += config->mapping_unit_bytes;
}

/* The units of a write that go into the buffer together: as many as the open page has room for. */
static u64 take_chunk(struct disk *disk, struct disk_command *command, u32 unit, u32 units, u64 bytes, u64 at_ns, u64 *programmed,
		      bool force, u64 save_ns)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	struct disk_parts *parts = &command->parts;
	u64 overhead = unit == command->model[0] ? config->command_ns : 0, room, start, need = 0;
	u64 duration = overhead + flash_transfer_ns(bytes, config->link_write_bytes_per_s), cleaning;
	u32 i;

	for (i = 0; i < units; i++) {
		u32 address = find(disk, unit + i);

		need += config->in_place || address == FTL_NONE || !ftl_in_open_page(&state->ftl, address);
	}
	room = need ? buffer_take(&state->buffer, at_ns, need * config->mapping_unit_bytes) : at_ns;
	cleaning = flash_cleaning_part_ns(state, room - at_ns);
	start = pass_link(disk, true, room, duration);
	parts->cleaning_ns += cleaning;
	parts->cache_ns += room - at_ns - cleaning;
	parts->queue_ns += start - room;
	parts->overhead_ns += overhead;
	parts->transfer_ns += duration - overhead;
	for (i = 0; i < units; i++) {
		bool last = i == units - 1;
		u64 end = flash_put(disk, unit + i, command->sequence, start + duration, force && last, last ? save_ns : 0);

		*programmed = platform_later(*programmed, end);
	}
	return start + duration;
}

/* A write with FUA also waits for its pages' programs and the saving of the map. Returns when both are done. */
static u64 force(struct disk *disk, struct disk_command *command, u64 at_ns, u64 programmed_ns)
{
	const struct flash_config *config = &disk->config.flash;
	u64 wait = platform_later(programmed_ns, at_ns) - at_ns, left = wait, cell, cleaning;
	u64 save = left < config->flush_ns ? left : config->flush_ns;

	left -= save;
	cell = left < config->program_ns[0] ? left : config->program_ns[0];
	left -= cell;
	cleaning = flash_cleaning_part_ns(disk->state, left);
	command->parts.cell_ns += cell;
	command->parts.cleaning_ns += cleaning;
	command->parts.queue_ns += left - cleaning;
	command->parts.flush_ns += save;
	return at_ns + wait;
}

static void arrive_write(struct disk *disk, u32 tag)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	struct disk_command *command = &disk->command[tag];
	u64 at = flash_take_up(disk, command), programmed = 0;
	u64 unit_sectors = config->mapping_unit_bytes / STRATA_SECTOR_BYTES;
	u64 sector = command->io.sector, last = sector + command->io.sectors;
	u32 unit = (u32)(sector / unit_sectors), end = (u32)((last + unit_sectors - 1) / unit_sectors);
	bool forced = command->io.flags & DISK_FUA && disk->config.volatile_cache;
	u32 chunk, saving = (u32)platform_mix(command->sequence) % (1 + (end - unit - 1) / config->size.units_per_page);

	command->model[0] = unit;	/* the one that comes with the command */
	if (sector % unit_sectors)
		read_rest(disk, unit, at);
	if (last % unit_sectors && last < disk->config.capacity_sectors && (end - 1 != unit || !(sector % unit_sectors)))
		read_rest(disk, end - 1, at);
	for (chunk = 0; unit < end; chunk++) {
		u64 stop;
		u32 units;

		flash_settle(disk, at + flash_transfer_ns(config->mapping_unit_bytes, config->link_write_bytes_per_s));
		units = config->in_place ? 1 : config->size.units_per_page - state->open_units;

		if (units > end - unit)
			units = end - unit;
		stop = (unit + units) * unit_sectors;
		if (stop > last)
			stop = last;
		at = take_chunk(disk, command, unit, units, (stop - sector) * STRATA_SECTOR_BYTES, at, &programmed,
				forced && unit + units == end, forced && chunk == saving ? config->flush_ns : 0);
		sector = stop;
		unit += units;
	}
	state->unsaved = true;
	if (forced)
		at = force(disk, command, at, programmed);
	at += config->interface_write_ns;
	command->parts.overhead_ns += config->interface_write_ns;
	if (!disk->config.volatile_cache)
		disk_durable(disk, command->io.sector, command->io.sectors, command->sequence, at);
	finish(disk, tag, at);
}

static void arrive_flush(struct disk *disk, u32 tag)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	struct disk_command *command = &disk->command[tag];
	u64 at = flash_take_up(disk, command);

	if (disk->config.faults.ignores_flush) {
		at += config->interface_write_ns;
	} else {
		if (!config->flush_queued)
			at = platform_later(at, state->complete_ns);
		if (disk->config.volatile_cache) {
			flash_close_page(disk, at);
			at = platform_later(at, state->programmed_ns);
		}
		if (!disk->config.volatile_cache)
			state->saved_ns = at + config->flush_ns;
		else if (state->unsaved)
			state->saved_ns = flash_save_map(disk, command->sequence, at);
		state->unsaved = false;
		at = platform_later(at, state->saved_ns);
		at += config->interface_write_ns;
		if (!config->flush_queued)
			state->barrier_ns = at;
	}
	command->parts.queue_ns = 0;
	command->parts.cleaning_ns = 0;
	command->parts.flush_ns = at - disk->now_ns;
	finish(disk, tag, at);
}

static void arrive_discard(struct disk *disk, u32 tag)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	struct disk_command *command = &disk->command[tag];
	u64 at = flash_take_up(disk, command), start;
	u64 unit_sectors = config->mapping_unit_bytes / STRATA_SECTOR_BYTES;
	u64 unit = (command->io.sector + unit_sectors - 1) / unit_sectors;
	u64 last = command->io.sector + command->io.sectors, end = last / unit_sectors;

	if (last == disk->config.capacity_sectors)
		end = (last + unit_sectors - 1) / unit_sectors;
	start = pass_link(disk, true, at, config->command_ns);
	command->parts.queue_ns += start - at;
	command->parts.overhead_ns = config->command_ns + config->interface_write_ns;
	if (!config->in_place)
		for (; unit < end; unit++)
			ftl_discard(&state->ftl, (u32)unit);
	state->unsaved = true;
	at = start + config->command_ns + config->interface_write_ns;
	disk_durable(disk, command->io.sector, command->io.sectors, command->sequence, at);
	finish(disk, tag, at);
}

static void flash_arrive(struct disk *disk, u32 tag)
{
	flash_background(disk);
	switch (disk->command[tag].io.op) {
	case DISK_READ:
		arrive_read(disk, tag);
		break;
	case DISK_WRITE:
		arrive_write(disk, tag);
		break;
	case DISK_FLUSH:
		arrive_flush(disk, tag);
		break;
	default:
		arrive_discard(disk, tag);
		break;
	}
}

/* A flush only prepares for a loss of power: with protection the open page may stay open. */
static u64 flash_next_ns(const struct disk *disk)
{
	const struct flash_state *state = disk->state;

	return disk->config.volatile_cache && state->open_units ? state->open_since_ns + FLASH_OPEN_LIMIT_NS : U64_MAX;
}

static void flash_advance(struct disk *disk)
{
	flash_close_page(disk, disk->now_ns);
}

static void flash_rest(struct disk *disk)
{
	flash_close_page(disk, disk->now_ns);
}

static void flash_nonvolatile(struct disk *disk, struct nonvolatile *stream)
{
	struct flash_state *state = disk->state;

	nonvolatile_move(stream, &state->slc_used_bytes, sizeof(state->slc_used_bytes));
	if (!disk->config.flash.in_place)
		ftl_nonvolatile(&state->ftl, stream);
}

const struct disk_model_ops disk_flash_ops = {
	.name = "flash",
	.keys = flash_keys,
	.check = flash_config_check,
	.state_bytes = flash_state_bytes,
	.open = flash_open,
	.arrive = flash_arrive,
	.next_ns = flash_next_ns,
	.advance = flash_advance,
	.rest = flash_rest,
	.nonvolatile = flash_nonvolatile,
};
