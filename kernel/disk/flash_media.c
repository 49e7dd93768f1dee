// SPDX-License-Identifier: GPL-2.0
/* The cells of a flash drive: sensing, programs of the host's data, cleaning, the background. Rules in flash.h. */
#include "flash_state.h"

#define FLASH_REFRESHES 64U	/* of the latest ones, which may still keep a die busy */

void flash_locate(const struct flash_config *config, u32 address, struct flash_place *place)
{
	u32 rows = config->size.block_rows, in_block, row;

	if (config->in_place) {
		place->page = address;
		place->die = address % config->dies;
		place->row = 0;
		place->first = false;
		return;
	}
	in_block = (address & ((1U << config->size.block_shift) - 1)) >> config->size.page_shift;
	row = in_block / config->dies;
	place->page = address >> config->size.page_shift;
	place->die = in_block - row * config->dies;
	place->row = (address >> config->size.block_shift) % config->size.blocks_per_erase * rows + row;
	place->first = !row;
}

static bool drawn(u64 hash, u32 ppm)
{
	return (hash >> 32) * 1000000 >> 32 < ppm;
}

u64 flash_read_ns(const struct disk *disk, const struct flash_place *place, u64 sequence)
{
	const struct flash_config *config = &disk->config.flash;
	u64 duration = config->read_ns[place->row % config->read_types], hash;
	u32 retries;

	if (config->read_spread_ppm) {
		hash = platform_mix(disk->config.seed ^ place->page);
		/* 0 .. 2^17, 2^16 in the middle */
		hash = (hash & 0xffff) + (hash >> 16 & 0xffff);
		duration += duration * config->read_spread_ppm / 1000000 * hash >> 16;
		duration -= config->read_ns[place->row % config->read_types] * config->read_spread_ppm / 1000000;
	}
	if (!config->read_retry_ppm)
		return duration;
	hash = platform_mix(disk->config.seed + platform_mix(sequence) + place->page);
	if (!drawn(hash, config->read_retry_ppm))
		return duration;
	for (retries = 1; retries < FLASH_RETRIES_MAX; retries++) {
		hash = platform_mix(hash);
		if (!drawn(hash, config->read_retry_again_ppm))
			break;
	}
	return duration + retries * config->read_retry_ns;
}

u64 flash_transfer_ns(u64 bytes, u64 bytes_per_s)
{
	return bytes_per_s ? bytes * 1000000000ULL / bytes_per_s : 0;
}

bool flash_is_buffered(const struct disk *disk, u32 address, u64 at_ns)
{
	const struct flash_state *state = disk->state;
	u32 page = address >> disk->config.flash.size.page_shift;
	const struct flash_recent *recent = &state->recent[page % FLASH_RECENT];

	if (recent->page == page + 1 && recent->end_ns > at_ns)
		return true;
	return !disk->config.flash.in_place && ftl_in_open_page(&state->ftl, address);
}

static void note_work(struct flash_state *state, u64 *sum, u64 work_ns)
{
	*sum += work_ns;
	if (state->recent_host_ns + state->recent_cleaning_ns > 1000000000ULL) {
		state->recent_host_ns /= 2;
		state->recent_cleaning_ns /= 2;
	}
}

u64 flash_cleaning_part_ns(const struct flash_state *state, u64 wait_ns)
{
	u64 total = state->recent_host_ns + state->recent_cleaning_ns;

	return total ? wait_ns / 1024 * (state->recent_cleaning_ns * 1024 / total) : 0;
}

static void clean_work(struct disk *disk, u64 work_ns)
{
	struct flash_state *state = disk->state;

	disk->account.cleaning_work_ns += work_ns;
	note_work(state, &state->recent_cleaning_ns, work_ns);
}

/*
 * Cleaning's data pass the channel when its turn comes, not when the die is done with it: a reservation far ahead would only cut
 * the lane to pieces, and the sum of the transfers is the same.
 */
static u64 pass_channel(struct disk *disk, u32 die, u64 ready_ns, u64 bytes)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	u64 duration = flash_transfer_ns(bytes, config->channel_bytes_per_s);

	return lane_reserve(&state->channel[die % config->channels], disk->now_ns, ready_ns, duration) + duration;
}

static u64 program_page(struct disk *disk, u32 address, u64 ready_ns, u64 duration, enum die_work work)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	struct flash_place place;
	struct die *die;

	flash_locate(config, address, &place);
	die = &state->die[place.die];
	if (place.first && ftl_needs_erase(&state->ftl, address)) {
		die_append(die, ready_ns, config->erase_ns, DIE_ERASE);
		clean_work(disk, config->erase_ns);
	}
	ready_ns = pass_channel(disk, place.die, ready_ns, config->page_bytes);
	disk->account.media_write_bytes += config->page_bytes;
	return die_append(die, ready_ns, duration, work);
}

static u64 program_ns(const struct flash_config *config, u32 address)
{
	struct flash_place place;

	flash_locate(config, address, &place);
	return config->program_ns[place.row % config->program_types];
}

/* With save_ns the die also saves the map, and returns when that is done. */
static u64 program_host_page(struct disk *disk, u32 address, u64 ready_ns, u64 save_ns)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	u64 duration = program_ns(config, address), end;
	u32 page = address >> config->size.page_shift;

	if (state->slc_used_bytes + config->page_bytes <= config->slc_bytes) {
		state->slc_used_bytes += config->page_bytes;
		duration = config->slc_program_ns;
	}
	duration += save_ns;
	end = program_page(disk, address, ready_ns, duration, DIE_PROGRAM);
	state->forced_start_ns = end - duration;
	disk->account.destages++;
	disk->account.destage_work_ns += duration;
	note_work(state, &state->recent_host_ns, duration);
	state->programmed_ns = platform_later(state->programmed_ns, end);
	state->recent[page % FLASH_RECENT].page = page + 1;
	state->recent[page % FLASH_RECENT].end_ns = end;
	return end;
}

static void clean(struct disk *disk, u64 ready_ns)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	struct flash_place place;
	struct ftl_step step;

	state->unpaid_pages++;
	if ((u64)state->unpaid_pages * config->page_bytes >= config->cleaning_burst_bytes)
		for (; state->unpaid_pages; state->unpaid_pages--)
			ftl_pay(&state->ftl);
	while (ftl_clean(&state->ftl, &step)) {
		if (step.read_page != FTL_NONE) {
			u64 read, bytes = (u64)step.moved * config->mapping_unit_bytes;

			flash_locate(config, step.read_page, &place);
			read = config->read_ns[place.row % config->read_types];
			die_append(&state->die[place.die], ready_ns, read, DIE_CLEAN_READ);
			pass_channel(disk, place.die, ready_ns, bytes);
			disk->account.media_read_bytes += bytes;
			clean_work(disk, read);
		}
		if (step.programmed_page != FTL_NONE) {
			u64 duration = program_ns(config, step.programmed_page);

			program_page(disk, step.programmed_page, ready_ns, duration, DIE_CLEAN_PROGRAM);
			clean_work(disk, duration);
		}
		disk->account.cleanings += step.freed;
	}
}

static void mark_durable(struct disk *disk, u32 unit, u64 sequence, u64 at_ns)
{
	u64 sectors = disk->config.flash.mapping_unit_bytes / STRATA_SECTOR_BYTES, sector = unit * sectors;

	if (sectors > disk->config.capacity_sectors - sector)
		sectors = disk->config.capacity_sectors - sector;
	disk_durable(disk, sector, sectors, sequence, at_ns);
}

static u64 program_open_page(struct disk *disk, u64 ready_ns, u64 save_ns)
{
	struct flash_state *state = disk->state;
	struct ftl *ftl = &state->ftl;
	u32 last = ftl->open[FTL_HOST] << ftl->size.block_shift | (ftl->open_at[FTL_HOST] - 1), i;
	u64 end = program_host_page(disk, last & ~(ftl->size.units_per_page - 1), platform_later(ready_ns, state->open_ready_ns), save_ns);

	buffer_give(&state->buffer, end, (u64)state->open_units * disk->config.flash.mapping_unit_bytes);
	if (disk->config.volatile_cache)
		for (i = 0; i < state->open_units; i++)
			mark_durable(disk, state->open[i].unit, state->open[i].sequence, end);
	return end;
}

static u64 close_page(struct disk *disk, u64 ready_ns, u64 save_ns)
{
	struct flash_state *state = disk->state;
	u64 end = state->forced_end_ns;

	if (!state->open_units)
		return 0;
	if (!end)
		end = program_open_page(disk, ready_ns, save_ns);
	ready_ns = platform_later(ready_ns, state->open_ready_ns);
	state->open_units = 0;
	state->open_ready_ns = 0;
	state->forced_end_ns = 0;
	ftl_close_page(&state->ftl);
	clean(disk, ready_ns);
	return end;
}

u64 flash_close_page(struct disk *disk, u64 ready_ns)
{
	return close_page(disk, ready_ns, 0);
}

void flash_settle(struct disk *disk, u64 at_ns)
{
	const struct flash_state *state = disk->state;

	if (state->forced_end_ns && at_ns > state->forced_start_ns)
		flash_close_page(disk, at_ns);
}

/* One more unit, or new content of one, for the open page whose program is on its die. Returns when that is programmed. */
static u64 join_forced(struct disk *disk, u32 unit, u64 sequence, u64 ready_ns, bool added)
{
	struct flash_state *state = disk->state;
	u64 end = platform_later(state->forced_end_ns, ready_ns + (state->forced_end_ns - state->forced_start_ns));

	if (added)
		buffer_give(&state->buffer, end, disk->config.flash.mapping_unit_bytes);
	if (disk->config.volatile_cache)
		mark_durable(disk, unit, sequence, end);
	state->programmed_ns = platform_later(state->programmed_ns, end);
	if (ftl_page_is_full(&state->ftl))
		flash_close_page(disk, ready_ns);
	return end;
}

static u64 put_in_place(struct disk *disk, u32 unit, u64 sequence, u64 ready_ns, u64 save_ns)
{
	struct flash_state *state = disk->state;
	u64 end = program_host_page(disk, unit, ready_ns, save_ns);

	buffer_give(&state->buffer, end, disk->config.flash.mapping_unit_bytes);
	if (disk->config.volatile_cache)
		mark_durable(disk, unit, sequence, end);
	return end;
}

u64 flash_put(struct disk *disk, u32 unit, u64 sequence, u64 ready_ns, bool force, u64 save_ns)
{
	struct flash_state *state = disk->state;
	bool added;
	u32 old, i;

	if (disk->config.flash.in_place)
		return put_in_place(disk, unit, sequence, ready_ns, save_ns);
	old = ftl_find(&state->ftl, unit);
	added = old == FTL_NONE || !ftl_in_open_page(&state->ftl, old);
	if (!added) {
		for (i = 0; i < state->open_units; i++)
			if (state->open[i].unit == unit)
				state->open[i].sequence = sequence;
	} else {
		ftl_write(&state->ftl, unit);
		if (!state->open_units)
			state->open_since_ns = ready_ns;
		state->open[state->open_units].unit = unit;
		state->open[state->open_units++].sequence = sequence;
	}
	state->open_ready_ns = platform_later(state->open_ready_ns, ready_ns);
	if (state->forced_end_ns)
		return join_forced(disk, unit, sequence, ready_ns, added);
	if (ftl_page_is_full(&state->ftl))
		return close_page(disk, ready_ns, save_ns);
	if (force)
		state->forced_end_ns = program_open_page(disk, ready_ns, save_ns);
	return state->forced_end_ns;
}

static void fold_slc(struct disk *disk)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	u64 idle_from = platform_later(state->complete_ns, state->programmed_ns) + config->slc_idle_ns;
	u64 page_ns = config->read_ns[0], pages;
	u32 i;

	if (!state->slc_used_bytes || disk->now_ns <= idle_from)
		return;
	for (i = 0; i < config->program_types; i++)
		page_ns += config->program_ns[i] / config->program_types;
	pages = (disk->now_ns - idle_from) / page_ns * config->dies;
	if (pages > state->slc_used_bytes / config->page_bytes)
		pages = state->slc_used_bytes / config->page_bytes;
	state->slc_used_bytes -= pages * config->page_bytes;
	disk->account.cleaning_work_ns += pages * page_ns;
	disk->account.media_read_bytes += pages * config->page_bytes;
	disk->account.media_write_bytes += pages * config->page_bytes;
	if (state->slc_used_bytes < config->page_bytes)
		state->slc_used_bytes = 0;
}

/* Pages whose refreshing ended long ago leave no trace but in the account. */
static void refresh(struct disk *disk)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	u64 due = disk->now_ns / config->refresh_page_ns, work, number;
	u64 first = due > FLASH_REFRESHES ? platform_later(due - FLASH_REFRESHES, state->refreshed) : state->refreshed;

	if (due == state->refreshed)
		return;
	work = (due - state->refreshed) * (config->read_ns[0] + config->program_ns[0]);
	work += (due / config->pages_per_block - state->refreshed / config->pages_per_block) * config->erase_ns;
	disk->account.media_read_bytes += (due - state->refreshed) * config->page_bytes;
	disk->account.media_write_bytes += (due - state->refreshed) * config->page_bytes;
	disk->account.cleaning_work_ns += work;
	for (number = first + 1; number <= due; number++) {
		u64 at = number * config->refresh_page_ns, hash = platform_mix(disk->config.seed - number);
		struct die *from = &state->die[(hash >> 32) % config->dies], *to = &state->die[(u32)hash % config->dies];

		at = die_append(from, at, config->read_ns[number % config->read_types], DIE_CLEAN_READ);
		die_append(to, at, config->program_ns[number % config->program_types], DIE_CLEAN_PROGRAM);
		if (number % config->pages_per_block == 0)
			die_append(from, at, config->erase_ns, DIE_ERASE);
	}
	state->refreshed = due;
}

void flash_background(struct disk *disk)
{
	flash_settle(disk, disk->now_ns);
	if (disk->config.flash.slc_bytes)
		fold_slc(disk);
	if (disk->config.flash.refresh_page_ns)
		refresh(disk);
}

u64 flash_save_map(struct disk *disk, u64 sequence, u64 ready_ns)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	u64 hash = platform_mix(disk->config.seed ^ platform_mix(sequence));

	die_append(&state->die[(hash >> 32) % config->dies], ready_ns, config->flush_ns, DIE_PROGRAM);
	return ready_ns + config->flush_ns;
}

u64 flash_take_up(struct disk *disk, struct disk_command *command)
{
	const struct flash_config *config = &disk->config.flash;
	struct flash_state *state = disk->state;
	u64 at = platform_later(disk->now_ns, state->barrier_ns), interval = config->housekeeping_interval_ns;

	command->parts.queue_ns = at - disk->now_ns;
	if (!interval)
		return at;
	if (at - state->slot_ns >= interval || !state->pause_ns) {
		u64 slot = at / interval;

		state->slot_ns = slot * interval;
		state->pause_ns = state->slot_ns + 1 +
				  platform_mix(disk->config.seed + platform_mix(~slot)) % (interval - config->housekeeping_ns);
	}
	if (at < state->pause_ns || at - state->pause_ns >= config->housekeeping_ns)
		return at;
	command->parts.cleaning_ns = state->pause_ns + config->housekeeping_ns - at;
	return state->pause_ns + config->housekeeping_ns;
}
