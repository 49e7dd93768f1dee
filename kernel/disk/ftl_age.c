// SPDX-License-Identifier: GPL-2.0
/*
 * States of a flash drive's map to start from (struct ftl_age, struct ftl_aged), and the map's check.
 *
 * Scattered data are in the steady state of uniform random overwriting under greedy cleaning. Every valid unit is equally likely to be
 * overwritten next, so a block's share of valid units falls exponentially with its age, and with large blocks the greedy victim is the
 * oldest block (Menon 1995; Desnoyers, SYSTOR 2012). Ages are spread evenly over the closed blocks, so their shares are 1, q, q^2 ... with
 * the q that makes the sum the number of scattered units.
 */
#include "ftl.h"

#define FTL_ONE (1ULL << 32)
#define FTL_PPM 1000000U
#define FTL_RUN_SHARE 4		/* the run before the steady state overwrites the capacity divided by this */

static void shuffle_open(struct ftl_shuffle *shuffle, u32 count, u64 seed)
{
	u32 bits = ftl_log2_above(count), round, step;

	shuffle->count = count;
	shuffle->mask = (u32)((1ULL << bits) - 1);
	shuffle->shift = (bits + 1) / 2;	/* half or more: shifting twice leaves nothing, so the step is its own inverse */
	for (round = 0; round < FTL_ROUNDS; round++) {
		u64 drawn = platform_mix(seed + round);
		u32 odd = (u32)(drawn >> 32) | 1, inverse = odd;

		for (step = 0; step < 4; step++)	/* Newton: each step doubles the bits that are right, from 3 */
			inverse *= 2 - odd * inverse;
		shuffle->key[round] = (u32)drawn;
		shuffle->odd[round] = odd;
		shuffle->inverse[round] = inverse;
	}
}

/* Walks on until it is back in range. Another `tweak` is another bijection. */
static u32 shuffle_to(const struct ftl_shuffle *shuffle, u32 index, u32 tweak)
{
	u32 round;

	do {
		for (round = 0; round < FTL_ROUNDS; round++) {
			index = (index + shuffle->key[round] + tweak) * shuffle->odd[round] & shuffle->mask;
			index ^= index >> shuffle->shift;
		}
	} while (index >= shuffle->count);
	return index;
}

static u32 shuffle_from(const struct ftl_shuffle *shuffle, u32 index, u32 tweak)
{
	u32 round;

	do {
		for (round = FTL_ROUNDS; round--;) {
			index ^= index >> shuffle->shift;
			index = (index * shuffle->inverse[round] - shuffle->key[round] - tweak) & shuffle->mask;
		}
	} while (index >= shuffle->count);
	return index;
}

u32 ftl_aged_address(const struct ftl_aged *aged, const struct ftl_size *size, u32 unit)
{
	u32 chunk = unit / FTL_CHUNK, low = 0, high = aged->scattered_blocks, index;

	if (chunk >= aged->chunks)
		return FTL_NONE;
	if (!aged->in_order)
		chunk = shuffle_from(&aged->chunk, chunk, 0);
	index = chunk * FTL_CHUNK + unit % FTL_CHUNK;
	if (chunk < aged->ordered)
		return index / size->block_units << size->block_shift | index % size->block_units;
	if (chunk - aged->ordered >= aged->scattered)
		return FTL_NONE;
	index = shuffle_from(&aged->unit, index - aged->ordered * FTL_CHUNK, 0);
	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (aged->start[middle] <= index)
			low = middle;
		else
			high = middle;
	}
	index = shuffle_to(&aged->cell, index - aged->start[low], low);
	return (aged->ordered_blocks + low) << size->block_shift | index;
}

u32 ftl_aged_unit(const struct ftl_aged *aged, const struct ftl_size *size, u32 address)
{
	u32 block = address >> size->block_shift, index = address & ((1U << size->block_shift) - 1), chunk;

	if (index >= size->block_units)
		return FTL_NONE;
	if (block < aged->ordered_blocks) {
		index += block * size->block_units;
		if (index >= aged->ordered * FTL_CHUNK)
			return FTL_NONE;
	} else {
		block -= aged->ordered_blocks;
		index = shuffle_from(&aged->cell, index, block);
		if (index >= aged->start[block + 1] - aged->start[block])
			return FTL_NONE;
		index = aged->ordered * FTL_CHUNK + shuffle_to(&aged->unit, aged->start[block] + index, 0);
	}
	chunk = index / FTL_CHUNK;
	if (!aged->in_order)
		chunk = shuffle_to(&aged->chunk, chunk, 0);
	return chunk * FTL_CHUNK + index % FTL_CHUNK;
}

static void write_untimed(struct ftl *ftl, u32 unit)
{
	struct ftl_step step;

	ftl_write(ftl, unit);
	if (!ftl_page_is_full(ftl))
		return;
	ftl_pay(ftl);
	while (ftl_clean(ftl, &step))
		;
}

/* The ratio of the valid shares of a block and the next younger one, in 2^-32. */
static u64 share_ratio(u32 blocks, u64 wanted)
{
	u64 low = 0, high = FTL_ONE;

	while (high - low > 1) {
		u64 ratio = (low + high) / 2, share = FTL_ONE, sum = 0;
		u32 i;

		for (i = 0; i < blocks; i++) {
			sum += share;
			share = (share >> 1) * ratio >> 31;
		}
		if (sum < wanted)
			low = ratio;
		else
			high = ratio;
	}
	return high;
}

static u32 part_of(u32 whole, u32 ppm)
{
	return (u32)((u64)whole * ppm / FTL_PPM);
}

/* The next block, even when one before it is free: its number says what it holds. */
static void close_aged(struct ftl *ftl, u32 valid)
{
	u32 block = ftl->fresh++;

	ftl->free--;
	ftl->block[block].uses = 1;
	ftl->block[block].valid = valid;
	ftl->block[block].aged = true;
	ftl_close_block(ftl, block);
}

/* Divides the scattered units among their blocks: start[]. */
static void deal(struct ftl_aged *aged, u32 units, u32 block_units)
{
	u64 ratio = share_ratio(aged->scattered_blocks, ((u64)units << 32) / block_units);
	u64 share = FTL_ONE, sum = 0, most;
	u32 i;

	for (i = 0; i < aged->scattered_blocks; i++) {
		/* The blocks that follow can hold so much. */
		most = (u64)(aged->scattered_blocks - i) * block_units;
		aged->start[i] = (u32)(sum >> 32) * block_units + (u32)((sum & (FTL_ONE - 1)) * block_units >> 32);
		if (aged->start[i] > units)
			aged->start[i] = units;
		if (units > most && aged->start[i] < units - most)
			aged->start[i] = (u32)(units - most);
		sum += share;
		share = (share >> 1) * ratio >> 31;
	}
	aged->start[i] = units;
}

void ftl_age(struct ftl *ftl, const struct ftl_age *age, u64 seed)
{
	const struct ftl_size *size = &ftl->size;
	struct ftl_aged *aged = &ftl->aged;
	u32 chunks = size->units / FTL_CHUNK, filled = part_of(chunks, age->filled_ppm);
	u32 scattered, ordered, needed, room, i;

	aged->in_order = age->in_order;
	aged->scattered = part_of(filled, age->scattered_ppm);
	aged->ordered = filled - aged->scattered;
	scattered = aged->scattered * FTL_CHUNK;
	ordered = aged->ordered * FTL_CHUNK;
	aged->ordered_blocks = ordered / size->block_units + (ordered % size->block_units > 0);
	needed = scattered / size->block_units + (scattered % size->block_units > 0);
	room = size->blocks - FTL_EXTRA > aged->ordered_blocks + needed ? size->blocks - FTL_EXTRA - aged->ordered_blocks - needed : 0;
	aged->scattered_blocks = needed ? needed + room - part_of(room, age->collected_ppm) : 0;
	shuffle_open(&aged->chunk, chunks, platform_mix(seed));
	shuffle_open(&aged->unit, scattered, platform_mix(seed + 1));
	shuffle_open(&aged->cell, size->block_units, platform_mix(seed + 2));
	deal(aged, scattered, size->block_units);
	aged->chunks = filled ? chunks : 0;
	for (i = 0; i < aged->ordered_blocks; i++)
		close_aged(ftl, ordered - i * size->block_units < size->block_units ? ordered - i * size->block_units : size->block_units);
	for (i = 0; i < aged->scattered_blocks; i++)
		close_aged(ftl, aged->start[i + 1] - aged->start[i]);
	if (age->filled_ppm == FTL_PPM)
		for (i = chunks * FTL_CHUNK; i < size->units; i++)
			write_untimed(ftl, i);
}

/* What is still missing after ftl_age (open blocks, the spread of the victims' counts) a short untimed run brings about. */
void ftl_precondition(struct ftl *ftl, u64 seed)
{
	const struct ftl_age all = { .filled_ppm = FTL_PPM, .scattered_ppm = FTL_PPM };
	u32 units = ftl->size.units, writes = units / FTL_RUN_SHARE, i;
	u64 drawn = platform_mix(seed + 3);

	ftl_age(ftl, &all, seed);
	for (i = 0; i < writes; i++) {
		__builtin_prefetch(&ftl->map[(platform_mix(drawn + i + 8) >> 32) * units >> 32]);
		write_untimed(ftl, (u32)((platform_mix(drawn + i) >> 32) * units >> 32));
	}
}

static const char *check_units(const struct ftl *ftl, u64 *mapped)
{
	u32 unit, mask = (1U << ftl->size.block_shift) - 1;

	for (unit = 0; unit < ftl->size.units; unit++) {
		u32 address = ftl_find(ftl, unit);

		if (address == FTL_NONE)
			continue;
		if (address >> ftl->size.block_shift >= ftl->fresh || (address & mask) >= ftl->size.block_units)
			return "a unit lies outside the cells";
		if (ftl_unit_at(ftl, address) != unit)
			return "a cell does not hold the unit that the map says";
		(*mapped)++;
	}
	return NULL;
}

static const char *check_blocks(const struct ftl *ftl, u64 *valid, u32 *states)
{
	u32 block, at;

	for (block = 0; block < ftl->fresh; block++) {
		u32 first = block << ftl->size.block_shift, count = 0;

		for (at = 0; at < ftl->size.block_units; at++)
			count += ftl_unit_at(ftl, first | at) != FTL_NONE;
		if (count != ftl->block[block].valid)
			return "a block's count of valid units is wrong";
		if (count && ftl->block[block].state == FTL_FREE)
			return "a free block holds data";
		*valid += count;
		states[ftl->block[block].state]++;
	}
	return NULL;
}

static const char *check_lists(const struct ftl *ftl, const u32 *states)
{
	u32 valid, closed = 0, free = ftl->size.blocks - ftl->fresh, at, previous;

	for (valid = 0; valid <= ftl->size.block_units; valid++) {
		previous = 0;
		for (at = ftl->bucket_first[valid]; at; at = ftl->block[at - 1].next) {
			const struct ftl_block *block = &ftl->block[at - 1];

			if (block->state != FTL_CLOSED || block->valid != valid || block->previous != previous || valid < ftl->lowest)
				return "a block is in the wrong list";
			previous = at;
			if (++closed > ftl->size.blocks)
				return "a list of blocks has no end";
		}
		if (ftl->bucket_last[valid] != previous)
			return "a list's last block is wrong";
	}
	for (at = ftl->free_first; at && free <= ftl->size.blocks; at = ftl->block[at - 1].next)
		free++;
	if (closed != states[FTL_CLOSED] || free != ftl->free || free != states[FTL_FREE] + ftl->size.blocks - ftl->fresh)
		return "a block is in no list";
	return NULL;
}

const char *ftl_check(const struct ftl *ftl)
{
	u32 states[4] = { 0, 0, 0, 0 };
	u64 mapped = 0, valid = 0;
	const char *problem = check_units(ftl, &mapped);

	if (!problem)
		problem = check_blocks(ftl, &valid, states);
	if (!problem && mapped != valid)
		problem = "the blocks do not hold as many units as the map";
	return problem ? problem : check_lists(ftl, states);
}
