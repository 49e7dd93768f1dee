// SPDX-License-Identifier: GPL-2.0
/* A drive reads on while nothing needs its mechanism. The sectors read are computed at the next call: rules in drive.h. */
#include "drive_state.h"

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
	end = drive_in_place_until(disk, drive->head.sector - shift, end);
	return rotating_clear_until(&disk->config.rotating, &drive->head, end + shift);
}

void drive_start_ahead(struct disk *disk, u64 sector, u64 sectors, u64 at_ns)
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

bool drive_passes(const struct disk *disk, const struct disk_io *io, u64 at_ns)
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

bool drive_join_ahead(struct disk *disk, u32 tag)
{
	struct drive *drive = drive_of(disk);
	const struct rotating_config *mechanics = &disk->config.rotating;
	struct disk_command *command = &disk->command[tag];
	u64 shift = drive->shingle.shift, asked = command->io.sector + command->io.sectors;
	u64 start = platform_later(drive_ready_ns(disk, command), disk->now_ns);
	u64 from = start, read;

	if (!drive_passes(disk, &command->io, start) || asked + shift <= drive->head.sector ||
	    rotating_clear_until(mechanics, &drive->head, asked + shift) < asked + shift ||
	    drive_in_place_until(disk, drive->head.sector - shift, asked) < asked)
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
