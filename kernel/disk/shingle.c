// SPDX-License-Identifier: GPL-2.0
/* Where a shingled disk has its sectors: rules in shingle.h. */
#include "shingle.h"

static u64 blocks_of(u64 sectors)
{
	return (sectors + SHINGLE_BLOCK_SECTORS - 1) / SHINGLE_BLOCK_SECTORS;
}

size_t shingle_bytes(u64 sectors, u64 ring_bytes, u64 band_bytes)
{
	u64 bands;

	if (!ring_bytes)
		return 0;
	bands = sectors / (band_bytes / STRATA_SECTOR_BYTES) + 1;
	return (blocks_of(sectors) + ring_bytes / STRATA_SECTOR_BYTES / SHINGLE_BLOCK_SECTORS + 2 * bands) * sizeof(u32);
}

void shingle_create(struct shingle *shingle, void *memory, u64 sectors, u64 ring_bytes, u64 band_bytes)
{
	memset(shingle, 0, sizeof(*shingle));
	if (!ring_bytes)
		return;
	shingle->ring_blocks = ring_bytes / STRATA_SECTOR_BYTES / SHINGLE_BLOCK_SECTORS;
	shingle->band_sectors = band_bytes / STRATA_SECTOR_BYTES;
	shingle->sectors = sectors;
	shingle->shift = shingle->ring_blocks * SHINGLE_BLOCK_SECTORS;
	shingle->map = memory;
	shingle->owner = shingle->map + blocks_of(sectors);
	shingle->pointer = shingle->owner + shingle->ring_blocks;
	shingle->ringed = shingle->pointer + sectors / shingle->band_sectors + 1;
}

static u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static u64 band_end(const struct shingle *shingle, u64 sector)
{
	return least((sector / shingle->band_sectors + 1) * shingle->band_sectors, shingle->sectors);
}

static u64 slot_place(u32 slot, u64 sector)
{
	return (u64)(slot - 1) * SHINGLE_BLOCK_SECTORS + sector % SHINGLE_BLOCK_SECTORS;
}

u64 shingle_find(const struct shingle *shingle, u64 sector, u64 end, u64 *place)
{
	u64 block = sector / SHINGLE_BLOCK_SECTORS, from = sector;
	u32 slot = shingle->map[block];

	*place = slot ? slot_place(slot, sector) : sector + shingle->shift;
	do {
		u64 band = sector / shingle->band_sectors;

		if (!slot && !shingle->ringed[band])	/* all of the band is in its place */
			sector = band_end(shingle, sector);
		else
			sector = (sector / SHINGLE_BLOCK_SECTORS + 1) * SHINGLE_BLOCK_SECTORS;
		block = sector / SHINGLE_BLOCK_SECTORS;
		if (slot)
			slot++;
	} while (sector < end && shingle->map[block] == slot);
	return least(sector, end) - from;
}

static bool is_in_order(const struct shingle *shingle, u64 sector)
{
	return sector % shingle->band_sectors == shingle->pointer[sector / shingle->band_sectors];
}

u64 shingle_write_place(const struct shingle *shingle, u64 sector)
{
	if (is_in_order(shingle, sector))
		return sector + shingle->shift;
	return shingle->head % shingle->ring_blocks * SHINGLE_BLOCK_SECTORS + sector % SHINGLE_BLOCK_SECTORS;
}

static u64 free_blocks(const struct shingle *shingle)
{
	return shingle->ring_blocks - (shingle->head - shingle->tail);
}

bool shingle_has_room(const struct shingle *shingle, u64 sector, u64 end)
{
	u64 blocks = 0;

	while (sector < end) {
		u64 stop = least(band_end(shingle, sector), end);

		if (!is_in_order(shingle, sector))
			blocks += blocks_of(sector % SHINGLE_BLOCK_SECTORS + stop - sector);
		sector = stop;
	}
	return blocks <= free_blocks(shingle) || shingle_is_clean(shingle);
}

/* The disk's block is not in the ring any more. */
static void forget(struct shingle *shingle, u64 block)
{
	u32 slot = shingle->map[block];

	if (!slot)
		return;
	shingle->map[block] = 0;
	shingle->owner[slot - 1] = 0;
	while (shingle->tail < shingle->head && !shingle->owner[shingle->tail % shingle->ring_blocks])
		shingle->tail++;
	shingle->ringed[block * SHINGLE_BLOCK_SECTORS / shingle->band_sectors]--;
}

/* The ring's copies of whole blocks in [sector, end), within one band, are out of date. */
static void forget_blocks(struct shingle *shingle, u64 sector, u64 end)
{
	u64 block;

	if (!shingle->ringed[sector / shingle->band_sectors])
		return;
	for (block = blocks_of(sector); (block + 1) * SHINGLE_BLOCK_SECTORS <= end; block++)
		forget(shingle, block);
}

u64 shingle_write(struct shingle *shingle, u64 sector, u64 end, u64 *place)
{
	u64 stop = least(band_end(shingle, sector), end), band = sector / shingle->band_sectors;
	u64 block = sector / SHINGLE_BLOCK_SECTORS, room = free_blocks(shingle), count = 0;

	*place = shingle_write_place(shingle, sector);
	if (is_in_order(shingle, sector) || !room) {
		/* (Without room the write is longer than the whole ring: nothing but its place is left for it.) */
		*place = sector + shingle->shift;
		forget_blocks(shingle, sector, stop);
		if (shingle->pointer[band] < stop - band * shingle->band_sectors)
			shingle->pointer[band] = (u32)(stop - band * shingle->band_sectors);
		return stop - sector;
	}
	/* At most to the end of the ring. */
	room = least(room, shingle->ring_blocks - shingle->head % shingle->ring_blocks);
	for (; count < room && block * SHINGLE_BLOCK_SECTORS < stop; count++, block++) {
		u64 slot;

		forget(shingle, block);
		slot = shingle->head++ % shingle->ring_blocks;
		shingle->map[block] = (u32)slot + 1;
		shingle->owner[slot] = (u32)block + 1;
		shingle->ringed[band]++;
	}
	return least(block * SHINGLE_BLOCK_SECTORS, stop) - sector;
}

void shingle_discard(struct shingle *shingle, u64 sector, u64 end)
{
	while (sector < end) {
		u64 stop = least(band_end(shingle, sector), end), band = sector / shingle->band_sectors;
		u64 first = band * shingle->band_sectors;

		forget_blocks(shingle, sector, stop);
		if (sector - first < shingle->pointer[band] && stop - first >= shingle->pointer[band])
			shingle->pointer[band] = (u32)(sector - first);
		sector = stop;
	}
}

void shingle_next_cleaning(const struct shingle *shingle, struct shingle_cleaning *cleaning)
{
	u64 band, end, block, last = 0, found = 0;

	block = shingle->owner[shingle->tail % shingle->ring_blocks] - 1;
	band = block * SHINGLE_BLOCK_SECTORS / shingle->band_sectors;
	cleaning->first = band * shingle->band_sectors;
	end = band_end(shingle, cleaning->first);
	for (block = cleaning->first / SHINGLE_BLOCK_SECTORS; block * SHINGLE_BLOCK_SECTORS < end; block++) {
		if (!shingle->map[block])
			continue;
		found++;
		last = least((block + 1) * SHINGLE_BLOCK_SECTORS, end) - cleaning->first;
	}
	cleaning->write = platform_later(last, shingle->pointer[band]);
	/* A band that is in the ring altogether need not be read. */
	cleaning->read = found == blocks_of(cleaning->write) ? 0 : shingle->pointer[band];
}

void shingle_cleaned(struct shingle *shingle, const struct shingle_cleaning *cleaning)
{
	u64 band = cleaning->first / shingle->band_sectors;

	forget_blocks(shingle, cleaning->first, cleaning->first + cleaning->write);
	if (cleaning->write % SHINGLE_BLOCK_SECTORS)	/* the last block of the disk */
		forget(shingle, (cleaning->first + cleaning->write) / SHINGLE_BLOCK_SECTORS);
	shingle->pointer[band] = (u32)cleaning->write;
}
