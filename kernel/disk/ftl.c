// SPDX-License-Identifier: GPL-2.0
/* The map of a flash drive and greedy cleaning: rules in ftl.h. */
#include "ftl.h"
#include "nonvolatile.h"

#define FTL_AHEAD 16U	/* units by which entries are fetched before they are looked up */

u32 ftl_log2_above(u32 value)
{
	u32 shift = 0;

	while ((1ULL << shift) < value)
		shift++;
	return shift;
}

bool ftl_size(struct ftl_size *size, u64 units, u32 units_per_page, u32 dies, u32 pages_per_block, u32 spare_ppm)
{
	u64 stripe_units = (u64)dies * units_per_page;
	u64 pages = units / stripe_units / FTL_BLOCKS;
	u64 least = (FTL_BLOCK_UNITS_MIN + stripe_units - 1) / stripe_units;

	if (pages < least)
		pages = least;
	if (pages > pages_per_block)
		pages = pages_per_block;
	size->units_per_page = units_per_page;
	size->page_shift = ftl_log2_above(units_per_page);
	if (units >= FTL_NONE || pages * stripe_units >= 1ULL << 31)
		return false;
	size->units = (u32)units;
	size->block_units = (u32)(pages * stripe_units);
	size->block_shift = ftl_log2_above(size->block_units);
	size->block_rows = (u32)pages;
	size->blocks_per_erase = (u32)(pages_per_block / pages);
	units += units / 1000000 * spare_ppm + units % 1000000 * spare_ppm / 1000000;
	units = (units + size->block_units - 1) / size->block_units + FTL_EXTRA;
	size->blocks = (u32)units;
	return units << size->block_shift < FTL_NONE;
}

size_t ftl_bytes(const struct ftl_size *size)
{
	u64 words = size->units + ((u64)size->blocks << size->block_shift) + 2 * ((u64)size->block_units + 1) + FTL_AHEAD + size->blocks + 1;

	return size->blocks * sizeof(struct ftl_block) + words * sizeof(u32);
}

void ftl_open(struct ftl *ftl, const struct ftl_size *size, void *memory)
{
	ftl->size = *size;
	ftl->block = memory;
	ftl->bucket_first = (u32 *)(ftl->block + size->blocks);
	ftl->bucket_last = ftl->bucket_first + size->block_units + 1;
	ftl->map = ftl->bucket_last + size->block_units + 1;
	ftl->unit = ftl->map + size->units;
	ftl->aged.start = ftl->unit + ((u64)size->blocks << size->block_shift) + FTL_AHEAD;
	ftl->lowest = size->block_units + 1;
	ftl->free = size->blocks;
	ftl->open[FTL_HOST] = FTL_NONE;
	ftl->open[FTL_CLEANING] = FTL_NONE;
	ftl->victim = FTL_NONE;
}

void ftl_nonvolatile(struct ftl *ftl, struct nonvolatile *stream)
{
	nonvolatile_move(stream, &ftl->lowest, sizeof(*ftl) - offsetof(struct ftl, lowest));
	nonvolatile_move(stream, ftl->block, ftl_bytes(&ftl->size));
}

static void bucket_add(struct ftl *ftl, u32 block)
{
	struct ftl_block *added = &ftl->block[block];
	u32 valid = added->valid;
	u32 last = ftl->bucket_last[valid];

	added->next = 0;
	added->previous = last;
	if (last)
		ftl->block[last - 1].next = block + 1;
	else
		ftl->bucket_first[valid] = block + 1;
	ftl->bucket_last[valid] = block + 1;
	if (valid < ftl->lowest)
		ftl->lowest = valid;
}

static void bucket_remove(struct ftl *ftl, u32 block)
{
	struct ftl_block *gone = &ftl->block[block];

	if (gone->previous)
		ftl->block[gone->previous - 1].next = gone->next;
	else
		ftl->bucket_first[gone->valid] = gone->next;
	if (gone->next)
		ftl->block[gone->next - 1].previous = gone->previous;
	else
		ftl->bucket_last[gone->valid] = gone->previous;
}

static void set_free(struct ftl *ftl, u32 block)
{
	ftl->block[block].state = FTL_FREE;
	ftl->block[block].next = ftl->free_first;
	ftl->free_first = block + 1;
	ftl->free++;
}

/* A used block before a fresh one: a drive that only ever holds little then never touches the memory for more. */
u32 ftl_take_free(struct ftl *ftl)
{
	u32 block;

	ftl->free--;
	if (ftl->free_first) {
		block = ftl->free_first - 1;
		ftl->free_first = ftl->block[block].next;
	} else {
		block = ftl->fresh++;
	}
	ftl->block[block].state = FTL_OPEN;
	ftl->block[block].uses++;
	ftl->block[block].aged = false;
	return block;
}

void ftl_close_block(struct ftl *ftl, u32 block)
{
	if (!ftl->block[block].valid) {
		set_free(ftl, block);
		return;
	}
	ftl->block[block].state = FTL_CLOSED;
	bucket_add(ftl, block);
}

static void invalidate(struct ftl *ftl, u32 address)
{
	u32 block = address >> ftl->size.block_shift;
	struct ftl_block *old = &ftl->block[block];

	if (old->state != FTL_CLOSED) {
		old->valid--;
		return;
	}
	bucket_remove(ftl, block);
	if (--old->valid)
		bucket_add(ftl, block);
	else
		set_free(ftl, block);
}

static u32 place(struct ftl *ftl, enum ftl_stream stream, u32 unit)
{
	u32 block = ftl->open[stream], address;

	if (block == FTL_NONE || ftl->open_at[stream] == ftl->size.block_units) {
		if (block != FTL_NONE)
			ftl_close_block(ftl, block);
		block = ftl_take_free(ftl);
		ftl->open[stream] = block;
		ftl->open_at[stream] = 0;
	}
	address = block << ftl->size.block_shift | ftl->open_at[stream]++;
	ftl->unit[address] = unit;
	ftl->map[unit] = address + 1;
	ftl->block[block].valid++;
	return address;
}

u32 ftl_write(struct ftl *ftl, u32 unit)
{
	u32 old = ftl_find(ftl, unit);

	if (old != FTL_NONE)
		invalidate(ftl, old);
	return place(ftl, FTL_HOST, unit);
}

void ftl_discard(struct ftl *ftl, u32 unit)
{
	u32 old = ftl_find(ftl, unit);

	if (old == FTL_NONE)
		return;
	ftl->map[unit] = FTL_NONE;
	invalidate(ftl, old);
}

void ftl_close_page(struct ftl *ftl)
{
	u32 mask = ftl->size.units_per_page - 1;

	ftl->open_at[FTL_HOST] = (ftl->open_at[FTL_HOST] + mask) & ~mask;
}

void ftl_pay(struct ftl *ftl)
{
	if (ftl->victim != FTL_NONE)
		ftl->owed += (s64)ftl->size.units_per_page * ftl->victim_valid;
}

static bool choose_victim(struct ftl *ftl)
{
	u32 block;

	if (ftl->free > FTL_LOW)
		return false;
	while (ftl->lowest <= ftl->size.block_units && !ftl->bucket_first[ftl->lowest])
		ftl->lowest++;
	if (ftl->lowest >= ftl->size.block_units)
		return false;	/* nothing to gain */
	block = ftl->bucket_first[ftl->lowest] - 1;
	bucket_remove(ftl, block);
	ftl->block[block].state = FTL_VICTIM;
	ftl->victim = block;
	ftl->victim_valid = ftl->block[block].valid;
	ftl->victim_at = 0;
	return true;
}

/* Moves the valid units of the victim's next page. */
static void clean_page(struct ftl *ftl, struct ftl_step *step)
{
	u32 first = ftl->victim << ftl->size.block_shift | ftl->victim_at;
	u32 last = first + ftl->size.units_per_page, mask = ftl->size.units_per_page - 1;
	bool aged = ftl->block[ftl->victim].aged;
	u32 address;

	for (address = first; address < last; address++) {
		u32 unit = ftl_unit_at(ftl, address);

		/* The entries that the loop looks up next are scattered over the map. */
		if (!aged)
			__builtin_prefetch(&ftl->map[ftl->unit[address + FTL_AHEAD]]);
		if (unit == FTL_NONE)
			continue;
		ftl->block[ftl->victim].valid--;
		place(ftl, FTL_CLEANING, unit);
		step->read_page = first;
		step->moved++;
		if (!(ftl->open_at[FTL_CLEANING] & mask))
			step->programmed_page = ftl->open[FTL_CLEANING] << ftl->size.block_shift | (ftl->open_at[FTL_CLEANING] - 1 - mask);
	}
	ftl->victim_at += ftl->size.units_per_page;
}

bool ftl_clean(struct ftl *ftl, struct ftl_step *step)
{
	step->read_page = FTL_NONE;
	step->programmed_page = FTL_NONE;
	step->moved = 0;
	step->freed = false;
	if (ftl->victim == FTL_NONE && !choose_victim(ftl)) {
		ftl->owed = 0;
		return false;
	}
	if (ftl->owed <= 0 && ftl->free > FTL_URGENT)
		return false;
	clean_page(ftl, step);
	ftl->owed -= (s64)step->moved * (ftl->size.block_units - ftl->victim_valid);
	if (!ftl->block[ftl->victim].valid) {
		set_free(ftl, ftl->victim);
		ftl->victim = FTL_NONE;
		step->freed = true;
		if (ftl->owed < 0)
			ftl->owed = 0;
	}
	return true;
}

bool ftl_needs_erase(const struct ftl *ftl, u32 address)
{
	u32 block = address >> ftl->size.block_shift;
	u32 uses = ftl->block[block].uses;

	/* The turns of the blocks are spread: all at once would stop the drive for long. */
	return uses > 1 && (uses + block) % ftl->size.blocks_per_erase == 0;
}
