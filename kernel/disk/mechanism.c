// SPDX-License-Identifier: GPL-2.0
/*
 * The one mechanism of a drive: reads and writes of its surface, wherever it has its sectors; cleaning of shingled bands; reading ahead
 * while nothing needs the mechanism (the sectors read are computed at the next call); the choice of the next work: rules in drive.h, shingle.h.
 */
#include "drive_state.h"

static u64 pass(struct disk *disk, u64 start_ns, u64 place, u64 sectors, bool write, struct rotating_work *work)
{
	if (write)
		disk->account.media_write_bytes += sectors * STRATA_SECTOR_BYTES;
	else
		disk->account.media_read_bytes += sectors * STRATA_SECTOR_BYTES;
	return rotating_access(&disk->config.rotating, &drive_of(disk)->head, start_ns, place, sectors, write, work);
}

/* One read or write from start_ns on; the head is then where that ends. There is room for a write. Returns when it is done. */
static u64 access_surface(struct disk *disk, u64 start_ns, u64 sector, u64 sectors, bool write, struct rotating_work *work)
{
	const struct rotating_config *mechanics = &disk->config.rotating;
	struct drive *drive = drive_of(disk);
	u64 end = sector + sectors, now_ns = start_ns;

	drive_look_ahead(disk, start_ns);
	drive->ahead = NULL;
	drive->near_sector = end;
	if (!drive->shingle.ring_blocks)
		now_ns = pass(disk, now_ns, sector, sectors, write, work);
	while (drive->shingle.ring_blocks && sector < end) {
		u64 place, count;

		count = write ? shingle_write(&drive->shingle, sector, end, &place) : shingle_find(&drive->shingle, sector, end, &place);
		now_ns = pass(disk, now_ns, place, count, write, work);
		sector += count;
	}
	if (write && (end | sectors) % mechanics->block_sectors) {
		work->rotation_ns += mechanics->rotation_ns;
		now_ns += mechanics->rotation_ns;
	}
	return now_ns;
}

/* Where an access of the sector would begin. */
static void place_of(const struct disk *disk, u64 sector, bool write, struct rotating_place *place)
{
	const struct shingle *shingle = &drive_of(disk)->shingle;
	u64 at = sector;

	if (shingle->ring_blocks && write)
		at = shingle_write_place(shingle, sector);
	else if (shingle->ring_blocks)
		shingle_find(shingle, sector, sector + 1, &at);
	rotating_place_of(&disk->config.rotating, at, place);
}

/* How far, at most to `end`, sectors from this one on lie in their places, one after the other. */
static u64 in_place_until(const struct disk *disk, u64 sector, u64 end)
{
	const struct shingle *shingle = &drive_of(disk)->shingle;
	u64 place, count;

	if (!shingle->ring_blocks || sector >= end)
		return end;
	count = shingle_find(shingle, sector, end, &place);
	return place == sector + shingle->shift ? sector + count : sector;
}

/* Starts cleaning a band. */
static void start_cleaning(struct disk *disk)
{
	struct drive *drive = drive_of(disk);
	struct shingle *shingle = &drive->shingle;
	struct shingle_cleaning cleaning;
	struct rotating_work work = { 0, 0, 0 };
	u64 now_ns = disk->now_ns, place, sector, end, count;

	shingle_next_cleaning(shingle, &cleaning);
	drive_look_ahead(disk, now_ns);
	drive->ahead = NULL;
	if (cleaning.read)
		now_ns = pass(disk, now_ns, cleaning.first + shingle->shift, cleaning.read, false, &work);
	end = cleaning.first + cleaning.write;
	for (sector = cleaning.first; sector < end; sector += count) {
		count = shingle_find(shingle, sector, end, &place);
		if (place != sector + shingle->shift)
			now_ns = pass(disk, now_ns, place, count, false, &work);
	}
	now_ns = pass(disk, now_ns, cleaning.first + shingle->shift, cleaning.write, true, &work);
	shingle_cleaned(shingle, &cleaning);
	drive->near_sector = end;
	drive->work = WORK_CLEAN;
	drive->free_ns = now_ns;
	drive->cleaned_ns += now_ns - disk->now_ns;
	disk->account.cleaning_work_ns += now_ns - disk->now_ns;
	disk->account.cleanings++;
}

u64 drive_cleaned_ns(const struct disk *disk)
{
	const struct drive *drive = drive_of(disk);

	return drive->work == WORK_CLEAN ? drive->cleaned_ns - (drive->free_ns - disk->now_ns) : drive->cleaned_ns;
}

void drive_look_ahead(struct disk *disk, u64 now_ns)
{
	struct drive *drive = drive_of(disk);
	u64 from_ns = drive->ahead_ns, from = drive->head.sector;

	if (!drive->ahead)
		return;
	rotating_follow(&disk->config.rotating, &drive->head, &drive->ahead_ns, drive->ahead_end, now_ns);
	if (drive->head.sector == from)
		return;
	read_cache_extend(&drive->reads, drive->ahead, drive->head.sector - drive->shingle.shift);
	disk->account.prefetch_work_ns += drive->ahead_ns - from_ns;
	disk->account.media_read_bytes += (drive->head.sector - from) * STRATA_SECTOR_BYTES;
}

/* How far there is room to read ahead, as a place, when the host has asked for what lies before asked_end. */
static u64 ahead_limit(const struct disk *disk, u64 asked_end)
{
	const struct drive *drive = drive_of(disk);
	u64 end = asked_end + drive->reads.segment_sectors, shift = drive->shingle.shift;

	if (end > disk->config.capacity_sectors)
		end = disk->config.capacity_sectors;
	end = in_place_until(disk, drive->head.sector - shift, end);
	return rotating_clear_until(&disk->config.rotating, &drive->head, end + shift);
}

/* After a read that ends where the head is at at_ns: goes on. */
static void start_ahead(struct disk *disk, u64 sector, u64 sectors, u64 at_ns)
{
	struct drive *drive = drive_of(disk);

	if (!drive->reads.segments)
		return;
	drive->ahead = read_cache_keep(&drive->reads, sector, sector + sectors);
	if (drive->head.sector != sector + sectors + drive->shingle.shift) {
		drive->ahead = NULL;	/* the end was in the ring of a shingled disk: what follows is elsewhere */
		return;
	}
	drive->ahead_ns = at_ns;
	drive->ahead_end = ahead_limit(disk, sector + sectors);
}

void drive_widen_ahead(struct disk *disk, u64 sector, u64 sectors)
{
	struct drive *drive = drive_of(disk);
	u64 limit;

	if (!drive->ahead || drive->work != WORK_NONE || sector < drive->ahead->sector || sector + sectors > drive->ahead->end)
		return;
	limit = ahead_limit(disk, sector + sectors);
	if (limit <= drive->ahead_end)
		return;
	if (drive->head.sector < drive->ahead_end) {
		drive->ahead_end = limit;
	} else if (limit - drive->head.sector >= drive->reads.segment_sectors / 2) {
		/* It had stopped; it does not start again for every bit of room. */
		drive->ahead_end = limit;
		drive->ahead_ns = rotating_resume(&disk->config.rotating, &drive->head, disk->now_ns);
	}
}

void drive_stop_ahead_at(struct disk *disk, u64 sector, u64 sectors)
{
	struct drive *drive = drive_of(disk);

	if (!drive->ahead || sector + drive->shingle.shift >= drive->ahead_end || sector + sectors <= drive->ahead->sector)
		return;
	drive_look_ahead(disk, disk->now_ns);
	drive->ahead = NULL;
}

/* Reading ahead served a command that ends at asked_end, and goes on. */
static void continue_ahead(struct disk *disk, u64 asked_end)
{
	struct drive *drive = drive_of(disk);
	u64 reached = drive->head.sector - drive->shingle.shift;

	if (reached > drive->ahead->end)
		read_cache_extend(&drive->reads, drive->ahead, reached);
	read_cache_use(&drive->reads, drive->ahead);
	drive->ahead_end = platform_later(drive->ahead_end, ahead_limit(disk, asked_end));
}

/* Whether the head, reading ahead, has been at the first sector of a read by at_ns: then waiting for the rest is the quickest. */
static bool passes(const struct disk *disk, const struct disk_io *io, u64 at_ns)
{
	const struct drive *drive = drive_of(disk);
	struct rotating_head head = drive->head;
	u64 first = io->sector + drive->shingle.shift, from_ns = drive->ahead_ns;

	if (!drive->ahead || io->sector < drive->ahead->sector || first > drive->ahead_end)
		return false;
	if (first > head.sector)
		rotating_follow(&disk->config.rotating, &head, &from_ns, drive->ahead_end, at_ns);
	return first <= head.sector;
}

/* Serves a read by letting the head go on reading ahead until it has it; false if that is not the way to it. */
static bool join_ahead(struct disk *disk, u32 tag)
{
	struct drive *drive = drive_of(disk);
	const struct rotating_config *mechanics = &disk->config.rotating;
	struct disk_command *command = &disk->command[tag];
	u64 shift = drive->shingle.shift, asked = command->io.sector + command->io.sectors;
	u64 start = platform_later(drive_ready_ns(disk, command), disk->now_ns);
	u64 from = start, read;

	if (!passes(disk, &command->io, start) || asked + shift <= drive->head.sector ||
	    rotating_clear_until(mechanics, &drive->head, asked + shift) < asked + shift ||
	    in_place_until(disk, drive->head.sector - shift, asked) < asked)
		return false;
	drive_look_ahead(disk, start);
	if (drive->head.sector == drive->ahead_end && drive->head.sector < asked + shift) {
		drive->ahead_ns = rotating_resume(mechanics, &drive->head, platform_later(start, drive->ahead_ns));
		from = drive->ahead_ns;
	}
	read = drive->head.sector;
	rotating_follow(mechanics, &drive->head, &drive->ahead_ns, asked + shift, U64_MAX);
	disk->account.media_read_bytes += (drive->head.sector - read) * STRATA_SECTOR_BYTES;
	drive->work = WORK_COMMAND;
	drive->free_ns = platform_later(start, drive->ahead_ns);
	disk->account.command_work_ns += drive->free_ns - start;
	drive_account_wait(disk, command, start);
	command->parts.rotation_ns = from - start;
	command->parts.transfer_ns = drive->free_ns - from;
	continue_ahead(disk, asked);
	drive_finish_read(disk, tag, drive->free_ns, drive->free_ns - from);
	return true;
}

/* When the drive expects the head before a place if it turns to it at at_ns; U64_MAX if not before best_ns. */
static u64 expected_ns(const struct disk *disk, u64 at_ns, const struct rotating_place *place, bool write, u64 best_ns)
{
	const struct rotating_config *mechanics = &disk->config.rotating;
	u32 track = drive_of(disk)->head.track;

	at_ns += rotating_move_ns(mechanics, track, place->track, write);
	if (place->track - track > 1)
		at_ns += disk->config.drive.positioning_margin_ns;
	if (at_ns >= best_ns)
		return U64_MAX;
	return at_ns + rotating_wait_ns(mechanics, at_ns, place->angle_ns);
}

/*
 * The command before the one that the head would reach first, of the `window` oldest of a list; DISK_NONE if that is the first. There is
 * one.
 */
static u32 nearest(const struct disk *disk, const struct drive_list *list, u32 window)
{
	const struct drive *drive = drive_of(disk);
	u32 best_before = DISK_NONE, before = DISK_NONE, left = window;
	u64 best_ns = U64_MAX, now = disk->now_ns;
	u32 tag;

	for (tag = list->head; tag != DISK_NONE && left; before = tag, tag = disk->command[tag].link[0], left--) {
		const struct disk_command *command = &disk->command[tag];
		u64 at = platform_later(now, drive_ready_ns(disk, command));
		bool write = command->io.op == DISK_WRITE;
		struct rotating_place place = { .track = (u32)command->model[MODEL_TRACK], .angle_ns = command->model[MODEL_ANGLE] };

		if (!write && passes(disk, &command->io, at)) {
			if (at < best_ns) {
				best_before = before;
				best_ns = at;
			}
			continue;
		}
		if (drive->shingle.ring_blocks)
			place_of(disk, command->io.sector, write, &place);
		at = expected_ns(disk, at, &place, write, best_ns);
		if (at < best_ns) {
			best_before = before;
			best_ns = at;
		}
	}
	return best_before;
}

/* The command before the one that is to be served next, or DISK_NONE if that is the first. There is one. */
static u32 pick(struct disk *disk)
{
	const struct drive_config *config = &disk->config.drive;
	struct drive_list *list = &drive_of(disk)->media;
	struct disk_command *oldest = &disk->command[list->head];

	if (config->window <= 1)
		return DISK_NONE;
	if (disk->now_ns - oldest->arrival_ns > config->wait_limit_ns && list->chosen >= DRIVE_OVERDUE_EVERY - 1) {
		list->chosen = 0;
		oldest->overdue = true;
		return DISK_NONE;
	}
	list->chosen++;
	return nearest(disk, list, config->window);
}

/* Whether a command waits behind another one of its list, up to the one at `before`, to the same sectors. */
static bool has_older(const struct disk *disk, const struct drive_list *list, u32 before)
{
	const struct disk_io *io = &disk->command[disk->command[before].link[0]].io;
	u32 tag = list->head;

	for (;; tag = disk->command[tag].link[0]) {
		const struct disk_io *older = &disk->command[tag].io;

		if (older->sector < io->sector + io->sectors && io->sector < older->sector + older->sectors)
			return true;
		if (tag == before)
			return false;
	}
}

u32 drive_pick_waiting(struct disk *disk)
{
	struct drive *drive = drive_of(disk);
	u64 sector = disk->command[drive->room.head].io.sector;
	u32 before;

	/* Of a shingled disk all go to one place. */
	if (drive->shingle.ring_blocks || (sector && write_cache_until(&drive->writes, sector - 1) >= sector))
		return DISK_NONE;
	if (++drive->room.chosen >= disk->config.drive.admission_oldest_every) {
		drive->room.chosen = 0;
		return DISK_NONE;
	}
	before = nearest(disk, &drive->room, DISK_QUEUE_LIMIT);
	return before != DISK_NONE && has_older(disk, &drive->room, before) ? DISK_NONE : before;
}

/* Of a shingled disk: whether a write need not wait for a band to be cleaned. */
static bool has_room(const struct disk *disk, u64 sector, u64 end)
{
	const struct shingle *shingle = &drive_of(disk)->shingle;

	return !shingle->ring_blocks || shingle_has_room(shingle, sector, end);
}

static void start_command(struct disk *disk)
{
	struct drive *drive = drive_of(disk);
	u32 before = pick(disk), tag = before == DISK_NONE ? drive->media.head : disk->command[before].link[0];
	struct disk_command *command = &disk->command[tag];
	const struct disk_io *io = &command->io;
	u64 start = platform_later(disk->now_ns, drive_ready_ns(disk, command));
	struct rotating_work work = { 0, 0, 0 };

	if (io->op == DISK_WRITE && !has_room(disk, io->sector, io->sector + io->sectors)) {
		start_cleaning(disk);
		return;
	}
	drive_list_take(disk, &drive->media, before);
	if (io->op == DISK_READ && (drive_read_buffered(disk, tag) || join_ahead(disk, tag)))
		return;
	drive_account_wait(disk, command, start);
	drive->work = WORK_COMMAND;
	drive->free_ns = access_surface(disk, start, io->sector, io->sectors, io->op == DISK_WRITE, &work);
	disk->account.command_work_ns += drive->free_ns - start;
	command->parts.seek_ns = work.seek_ns;
	command->parts.rotation_ns = work.rotation_ns;
	command->parts.transfer_ns = work.transfer_ns;
	if (io->op == DISK_READ) {
		start_ahead(disk, io->sector, io->sectors, drive->free_ns);
		drive_finish_read(disk, tag, drive->free_ns, work.transfer_ns);
	} else {
		disk_durable(disk, io->sector, io->sectors, command->sequence, drive->free_ns);
		drive_finish(disk, tag, drive->free_ns);
	}
}

/* The best of the destage_window dirty runs that are nearest to the head: half of them on each side. There is one. */
static void pick_dirty(const struct disk *disk, u64 *best_start, u64 *best_end)
{
	const struct drive *drive = drive_of(disk);
	const struct extents *dirty = &drive->writes.dirty;
	u64 above = drive->near_sector, below = drive->near_sector, best_ns = U64_MAX;
	u32 left = disk->config.drive.destage_window;
	bool up = true, down = true;

	while (left && (up || down)) {
		struct rotating_place place;
		u64 start, end, at;

		if (up && (left % 2 || !down)) {
			up = extents_find(dirty, above, &start, &end);
			if (!up)
				continue;
			above = end;
		} else {
			down = extents_find_before(dirty, below, &start, &end);
			/* The run that reaches across the head's place counts once, above. */
			if (!down)
				continue;
			below = start;
			if (end > drive->near_sector)
				continue;
		}
		left--;
		place_of(disk, start, true, &place);
		at = expected_ns(disk, disk->now_ns, &place, true, best_ns);
		if (at < best_ns) {
			best_ns = at;
			*best_start = start;
			*best_end = end;
		}
	}
}

static void start_destage(struct disk *disk)
{
	const struct rotating_config *mechanics = &disk->config.rotating;
	struct drive *drive = drive_of(disk);
	struct rotating_work work = { 0, 0, 0 };
	u64 start = 0, end = 0, stop;

	pick_dirty(disk, &start, &end);
	stop = rotating_track_end(mechanics, start + drive->shingle.shift) - drive->shingle.shift;
	stop -= stop % mechanics->block_sectors;	/* leaves no part of a block over */
	if (stop <= start)
		stop += mechanics->block_sectors;
	if (end > stop)
		end = stop;
	if (!has_room(disk, start, end)) {
		start_cleaning(disk);
		return;
	}
	drive->work = WORK_DESTAGE;
	drive->free_ns = access_surface(disk, disk->now_ns, start, end - start, true, &work);
	write_cache_launch(&drive->writes, start, end);
	disk_durable(disk, start, end - start, drive->writes.sequence, drive->free_ns);
	disk->account.destage_work_ns += drive->free_ns - disk->now_ns;
	disk->account.destages++;
	disk->account.destage_seeks += work.seek_ns > 0;
	disk->account.destage_seek_ns += work.seek_ns;
	disk->account.destage_rotation_ns += work.rotation_ns;
	disk->account.destage_transfer_ns += work.transfer_ns;
}

static void finish_flush(struct disk *disk)
{
	struct drive *drive = drive_of(disk);
	u32 tag = drive->held.head;
	struct disk_command *command = &disk->command[tag];
	u64 complete = platform_later(drive_ready_ns(disk, command), platform_later(disk->now_ns, drive->latest_ns));

	command->parts.flush_ns = complete - command->arrival_ns;
	drive_finish(disk, tag, complete);
	drive->work = WORK_FLUSH;
	drive->free_ns = command->complete_ns;
}

static void decide_once(struct disk *disk)
{
	struct drive *drive = drive_of(disk);
	const struct write_cache *writes = &drive->writes;
	bool dirty = writes->dirty.runs > 0;
	bool forced = dirty && (drive->room.head != DISK_NONE ||
				writes->dirty.sectors > disk->config.drive.destage_high_bytes / STRATA_SECTOR_BYTES);

	if (drive->media.head != DISK_NONE && (!forced || drive->destaged)) {
		drive->destaged = false;
		start_command(disk);
	} else if (forced) {
		drive->destaged = true;
		start_destage(disk);
	} else if (drive->held.head != DISK_NONE) {
		if (dirty)
			start_destage(disk);
		else
			finish_flush(disk);
	} else if (dirty) {
		if (disk->now_ns >= drive->quiet_ns + disk->config.drive.destage_idle_ns)
			start_destage(disk);
	} else if (!shingle_is_clean(&drive->shingle) && disk->now_ns >= drive->quiet_ns + disk->config.drive.cleaning_idle_ns) {
		start_cleaning(disk);
	}
}

void drive_decide(struct disk *disk)
{
	const struct drive *drive = drive_of(disk);
	u32 first;

	/* A discard or a write through has made room in the cache, too. */
	drive_admit_waiting(disk);
	/* A read that waited for the mechanism may have come into the buffer, and leaves the mechanism free. */
	do {
		first = drive->media.head;
		decide_once(disk);
	} while (drive->work == WORK_NONE && first != DISK_NONE);
}
