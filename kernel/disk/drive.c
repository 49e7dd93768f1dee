// SPDX-License-Identifier: GPL-2.0
/* A drive's commands, from arrival to completion: rules in drive.h. What needs the medium is in mechanism.c. */
#include "drive_state.h"
#include "nonvolatile.h"

#define NS_PER_S 1000000000ULL

static void list_add(struct disk *disk, struct drive_list *list, u32 tag)
{
	disk->command[tag].link[0] = DISK_NONE;
	if (list->head == DISK_NONE)
		list->head = tag;
	else
		disk->command[list->tail].link[0] = tag;
	list->tail = tag;
}

/* Takes the command after `before` (DISK_NONE: the first) off the list. */
u32 drive_list_take(struct disk *disk, struct drive_list *list, u32 before)
{
	u32 tag = before == DISK_NONE ? list->head : disk->command[before].link[0];
	u32 next = disk->command[tag].link[0];

	if (before == DISK_NONE)
		list->head = next;
	else
		disk->command[before].link[0] = next;
	if (list->tail == tag)
		list->tail = before;
	return tag;
}

u64 drive_ready_ns(const struct disk *disk, const struct disk_command *command)
{
	return command->arrival_ns + disk->config.drive.overhead_ns;
}

/* The same for one that needs only the buffer. */
static u64 buffer_ready_ns(const struct disk *disk, const struct disk_command *command)
{
	return command->arrival_ns + disk->config.drive.buffer_overhead_ns;
}

u64 drive_link_ns(const struct disk *disk, u64 sectors)
{
	u64 rate = disk->config.drive.link_bytes_per_s, bytes = sectors * STRATA_SECTOR_BYTES;

	/* In two steps, so that no length overflows. */
	return rate ? bytes / rate * NS_PER_S + bytes % rate * NS_PER_S / rate : 0;
}

void drive_finish(struct disk *disk, u32 tag, u64 complete_ns)
{
	struct drive *drive = drive_of(disk);

	disk_finish(disk, tag, complete_ns);
	/* A fault may have made it later. */
	drive->latest_ns = platform_later(drive->latest_ns, disk->command[tag].complete_ns);
}

/* Completes a command that needs only the buffer, from start_ns on, when its overhead is over: takes the link. */
static void finish_buffered(struct disk *disk, u32 tag, u64 start_ns)
{
	struct drive *drive = drive_of(disk);
	struct disk_command *command = &disk->command[tag];
	u64 transfer = drive_link_ns(disk, command->io.sectors), at = start_ns;

	if (transfer) {
		at = platform_later(start_ns, drive->link_free_ns);
		drive->link_free_ns = at + transfer;
	}
	command->parts.overhead_ns = disk->config.drive.buffer_overhead_ns;
	command->parts.queue_ns += at - start_ns;
	command->parts.transfer_ns += transfer;
	drive_finish(disk, tag, at + transfer);
}

static bool goes_through(const struct disk *disk, const struct disk_io *io)
{
	const struct write_cache *writes = &drive_of(disk)->writes;

	return io->flags & DISK_FUA || io->sectors > writes->limit_sectors / 2;
}

/* The part of a wait that ends now during which the mechanism was cleaning. */
static u64 waited_for_cleaning(const struct disk *disk, const struct disk_command *command, u64 wait_ns)
{
	u64 cleaned = drive_cleaned_ns(disk) - command->model[MODEL_CLEANED];

	return cleaned < wait_ns ? cleaned : wait_ns;
}

/* A write into the cache, which has room. */
static void admit(struct disk *disk, u32 tag)
{
	struct drive *drive = drive_of(disk);
	struct disk_command *command = &disk->command[tag];
	u64 ready = buffer_ready_ns(disk, command);
	u64 base = platform_later(ready, command->model[MODEL_SINCE]);
	u64 start = platform_later(base, disk->now_ns);

	write_cache_put(&drive->writes, command->io.sector, command->io.sectors, command->sequence);
	command->parts.queue_ns = base - ready;
	command->parts.cleaning_ns = waited_for_cleaning(disk, command, start - base);
	command->parts.cache_ns = start - base - command->parts.cleaning_ns;
	finish_buffered(disk, tag, start);
}

void drive_admit_waiting(struct disk *disk)
{
	struct drive *drive = drive_of(disk);

	while (drive->room.head != DISK_NONE) {
		const struct disk_io *oldest = &disk->command[drive->room.head].io, *io;
		u32 before;

		if (!write_cache_fits(&drive->writes, oldest->sector, oldest->sectors))
			return;
		before = drive_pick_waiting(disk);
		io = before == DISK_NONE ? oldest : &disk->command[disk->command[before].link[0]].io;
		if (!write_cache_fits(&drive->writes, io->sector, io->sectors))
			before = DISK_NONE;
		admit(disk, drive_list_take(disk, &drive->room, before));
	}
}

/* Whether the buffers hold all of a read at disk->now_ns. */
static bool is_buffered(struct disk *disk, const struct disk_io *io)
{
	struct drive *drive = drive_of(disk);
	u64 at = io->sector, end = io->sector + io->sectors;

	while (at < end) {
		u64 until = write_cache_until(&drive->writes, at);
		struct read_segment *segment;

		if (until == at) {
			segment = read_cache_find(&drive->reads, at);
			if (!segment)
				return false;
			read_cache_use(&drive->reads, segment);
			until = segment->end;
		}
		at = until;
	}
	return true;
}

void drive_account_wait(const struct disk *disk, struct disk_command *command, u64 start_ns)
{
	command->parts.overhead_ns = disk->config.drive.overhead_ns;
	command->parts.queue_ns = start_ns - drive_ready_ns(disk, command);
	command->parts.cleaning_ns = waited_for_cleaning(disk, command, command->parts.queue_ns);
	command->parts.queue_ns -= command->parts.cleaning_ns;
}

void drive_finish_read(struct disk *disk, u32 tag, u64 at_ns, u64 media_ns)
{
	struct drive *drive = drive_of(disk);
	struct disk_command *command = &disk->command[tag];
	u32 block = disk->config.rotating.block_sectors;
	u64 all = drive_link_ns(disk, command->io.sectors);
	u64 last = drive_link_ns(disk, command->io.sectors < block ? command->io.sectors : block);
	u64 more = all > media_ns && all - media_ns > last ? all - media_ns : last;
	/* It sends while it reads, so it does not occupy the link for what others could use. */
	u64 start = more ? platform_later(at_ns, drive->link_free_ns) : at_ns;

	command->parts.queue_ns += start - at_ns;
	command->parts.transfer_ns += more;
	drive_finish(disk, tag, start + more);
}

bool drive_read_buffered(struct disk *disk, u32 tag)
{
	struct disk_command *command = &disk->command[tag];
	u64 ready = buffer_ready_ns(disk, command), start = platform_later(ready, disk->now_ns);

	drive_look_ahead(disk, disk->now_ns);
	if (!is_buffered(disk, &command->io))
		return false;
	disk->account.cache_hits++;
	drive_widen_ahead(disk, command->io.sector, command->io.sectors);
	command->parts.queue_ns = start - ready;
	finish_buffered(disk, tag, start);
	return true;
}

static void dispatch_read(struct disk *disk, u32 tag)
{
	if (!drive_read_buffered(disk, tag))
		list_add(disk, &drive_of(disk)->media, tag);
}

static void dispatch_write(struct disk *disk, u32 tag)
{
	struct drive *drive = drive_of(disk);
	const struct disk_command *command = &disk->command[tag];
	const struct disk_io *io = &command->io;

	drive_stop_ahead_at(disk, io->sector, io->sectors);
	read_cache_drop(&drive->reads, io->sector, io->sectors);
	if (goes_through(disk, io)) {
		/* The cache need not write what this replaces. A flush that came before is complete, one that comes later waits. */
		extents_cut(&drive->writes.dirty, io->sector, io->sector + io->sectors);
		list_add(disk, &drive->media, tag);
	} else if (drive->room.head == DISK_NONE && write_cache_fits(&drive->writes, io->sector, io->sectors)) {
		admit(disk, tag);
	} else {
		list_add(disk, &drive->room, tag);
	}
}

/* The drive need not keep these sectors. */
static void discard(struct disk *disk, const struct disk_io *io)
{
	struct drive *drive = drive_of(disk);

	drive_stop_ahead_at(disk, io->sector, io->sectors);
	read_cache_drop(&drive->reads, io->sector, io->sectors);
	extents_cut(&drive->writes.dirty, io->sector, io->sector + io->sectors);
	if (drive->shingle.ring_blocks)
		shingle_discard(&drive->shingle, io->sector, io->sector + io->sectors);
}

/* A command to which no flush is an obstacle. */
static void dispatch(struct disk *disk, u32 tag)
{
	struct disk_command *command = &disk->command[tag];
	struct rotating_place place;

	command->model[MODEL_SINCE] = disk->now_ns;
	command->model[MODEL_CLEANED] = drive_cleaned_ns(disk);
	if (command->io.op == DISK_DISCARD) {
		u64 ready = drive_ready_ns(disk, command), start = platform_later(ready, disk->now_ns);

		drive_account_wait(disk, command, start);
		discard(disk, &command->io);
		disk_durable(disk, command->io.sector, command->io.sectors, command->sequence, start);
		drive_finish(disk, tag, start);
		return;
	}
	rotating_place_of(&disk->config.rotating, command->io.sector, &place);
	command->model[MODEL_TRACK] = place.track;
	command->model[MODEL_ANGLE] = place.angle_ns;
	if (command->io.op == DISK_READ)
		dispatch_read(disk, tag);
	else
		dispatch_write(disk, tag);
}

/* The flush at the head of the held commands is complete: those behind it may start, up to the next flush. */
static void release_held(struct disk *disk)
{
	struct drive *drive = drive_of(disk);

	drive_list_take(disk, &drive->held, DISK_NONE);
	while (drive->held.head != DISK_NONE && disk->command[drive->held.head].io.op != DISK_FLUSH)
		dispatch(disk, drive_list_take(disk, &drive->held, DISK_NONE));
}

static void drive_arrive(struct disk *disk, u32 tag)
{
	struct drive *drive = drive_of(disk);
	struct disk_command *command = &disk->command[tag];

	drive->quiet_ns = disk->now_ns;
	if (command->io.op == DISK_FLUSH && disk->config.faults.ignores_flush) {
		command->parts.flush_ns = disk->config.drive.overhead_ns;
		drive_finish(disk, tag, drive_ready_ns(disk, command));
		return;
	}
	if (command->io.op == DISK_FLUSH || drive->held.head != DISK_NONE)
		list_add(disk, &drive->held, tag);
	else
		dispatch(disk, tag);
	if (drive->work == WORK_NONE)
		drive_decide(disk);
}

static u64 drive_next_ns(const struct disk *disk)
{
	const struct drive *drive = drive_of(disk);

	if (drive->work != WORK_NONE)
		return drive->free_ns;
	if (drive->writes.dirty.runs)
		return drive->quiet_ns + disk->config.drive.destage_idle_ns;
	return shingle_is_clean(&drive->shingle) ? U64_MAX : drive->quiet_ns + disk->config.drive.cleaning_idle_ns;
}

static void drive_advance(struct disk *disk)
{
	struct drive *drive = drive_of(disk);
	enum drive_work done = drive->work;

	drive->work = WORK_NONE;
	switch (done) {
	case WORK_COMMAND:
		drive->quiet_ns = disk->now_ns;
		break;
	case WORK_DESTAGE:
		write_cache_land(&drive->writes);
		break;
	case WORK_FLUSH:
		drive->quiet_ns = disk->now_ns;
		release_held(disk);
		break;
	default:
		break;
	}
	if (drive->work == WORK_NONE)
		drive_decide(disk);
}

static u64 cache_bytes(const struct disk_config *config)
{
	return config->volatile_cache ? config->drive.write_cache_bytes : 0;
}

static size_t drive_state_bytes(const struct disk_config *config)
{
	const struct drive_config *drive = &config->drive;

	return sizeof(struct drive) + extents_bytes(drive->write_cache_extents) +
	       shingle_bytes(config->capacity_sectors, drive->shingle_cache_bytes, drive->shingle_band_bytes);
}

static void drive_open(struct disk *disk)
{
	const struct drive_config *config = &disk->config.drive;
	struct drive *drive = drive_of(disk);
	const struct drive_list empty = { .head = DISK_NONE, .tail = DISK_NONE };

	if (config->speed_tolerance_ppm)
		rotating_draw(&disk->config.rotating, config->speed_tolerance_ppm, disk->config.seed);
	drive->media = empty;
	drive->room = empty;
	drive->held = empty;
	drive->writes.limit_sectors = cache_bytes(&disk->config) / STRATA_SECTOR_BYTES;
	extents_create(&drive->writes.dirty, drive + 1, config->write_cache_extents);
	shingle_create(&drive->shingle, (char *)(drive + 1) + extents_bytes(config->write_cache_extents), disk->config.capacity_sectors,
		       config->shingle_cache_bytes, config->shingle_band_bytes);
	drive->reads.segments = config->read_segments;
	drive->reads.segment_sectors = config->read_segment_bytes / STRATA_SECTOR_BYTES;
}

/* Of a disk without shingles nothing but its content outlives the power. */
static void drive_nonvolatile(struct disk *disk, struct nonvolatile *stream)
{
	const struct drive_config *config = &disk->config.drive;
	struct shingle *shingle = &drive_of(disk)->shingle;

	if (!shingle->ring_blocks)
		return;
	nonvolatile_move(stream, &shingle->head, sizeof(shingle->head));
	nonvolatile_move(stream, &shingle->tail, sizeof(shingle->tail));
	nonvolatile_move(stream, shingle->map,
			 shingle_bytes(disk->config.capacity_sectors, config->shingle_cache_bytes, config->shingle_band_bytes));
}

const struct disk_model_ops disk_rotating_ops = {
	.name = "rotating",
	.keys = drive_keys,
	.check = drive_check,
	.state_bytes = drive_state_bytes,
	.open = drive_open,
	.arrive = drive_arrive,
	.next_ns = drive_next_ns,
	.advance = drive_advance,
	.nonvolatile = drive_nonvolatile,
};
