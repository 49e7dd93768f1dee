// SPDX-License-Identifier: GPL-2.0
/* Reads and writes of a drive's surface, wherever it has its sectors, and the cleaning of shingled bands: rules in drive.h, shingle.h. */
#include "drive_state.h"

static u64 pass(struct disk *disk, u64 start_ns, u64 place, u64 sectors, bool write, struct rotating_work *work)
{
	if (write)
		disk->account.media_write_bytes += sectors * STRATA_SECTOR_BYTES;
	else
		disk->account.media_read_bytes += sectors * STRATA_SECTOR_BYTES;
	return rotating_access(&disk->config.rotating, &drive_of(disk)->head, start_ns, place, sectors, write, work);
}

u64 drive_access(struct disk *disk, u64 start_ns, u64 sector, u64 sectors, bool write, struct rotating_work *work)
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

void drive_place(const struct disk *disk, u64 sector, bool write, struct rotating_place *place)
{
	const struct shingle *shingle = &drive_of(disk)->shingle;
	u64 at = sector;

	if (shingle->ring_blocks && write)
		at = shingle_write_place(shingle, sector);
	else if (shingle->ring_blocks)
		shingle_find(shingle, sector, sector + 1, &at);
	rotating_place_of(&disk->config.rotating, at, place);
}

u64 drive_in_place_until(const struct disk *disk, u64 sector, u64 end)
{
	const struct shingle *shingle = &drive_of(disk)->shingle;
	u64 place, count;

	if (!shingle->ring_blocks || sector >= end)
		return end;
	count = shingle_find(shingle, sector, end, &place);
	return place == sector + shingle->shift ? sector + count : sector;
}

void drive_clean(struct disk *disk)
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
