// SPDX-License-Identifier: GPL-2.0
/*
 * States of a flash drive's map to start from, and its check.
 *
 * Steady state of uniform random overwriting under greedy cleaning. Every valid unit is equally likely to be overwritten next, so a
 * block's share of valid units falls exponentially with its age, and with large blocks the greedy victim is the oldest block
 * (Menon 1995; Desnoyers, SYSTOR 2012). Ages are spread evenly over the closed blocks, so their shares are 1, q, q^2 ... with the q
 * that makes the sum the number of logical units. Each cell of a block is valid with its block's probability, and the units are dealt out in
 * a random order. What is still missing (open blocks, the spread of the victims' counts) a short untimed run brings about.
 */
#include "ftl.h"

#define FTL_ONE (1ULL << 32)
#define FTL_RUN_SHARE 4		/* the run overwrites the capacity divided by this */

/* A bijection of 0 .. count - 1: a Feistel network on the next even number of bits, walked until it is back in range. */
struct shuffle {
	u64 seed;
	u32 count;
	u32 half_bits;
};

static u32 shuffled(const struct shuffle *shuffle, u32 index)
{
	u32 mask = (1U << shuffle->half_bits) - 1;
	u64 value = index;

	do {
		u32 left = (u32)(value >> shuffle->half_bits), right = (u32)value & mask;
		u32 round;

		for (round = 0; round < 4; round++) {
			u64 mixed = (right ^ shuffle->seed) * 0x9e3779b97f4a7c15ULL + round;
			u32 next = left ^ ((u32)((mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ULL >> 32) & mask);

			left = right;
			right = next;
		}
		value = (u64)left << shuffle->half_bits | right;
	} while (value >= shuffle->count);
	return (u32)value;
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

void ftl_fill(struct ftl *ftl)
{
	u32 unit;

	for (unit = 0; unit < ftl->size.units; unit++)
		write_untimed(ftl, unit);
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

/* Deals the first `dealt` shuffled units out to closed blocks; returns how many there were room for. */
static u32 deal(struct ftl *ftl, const struct shuffle *shuffle)
{
	u32 blocks = ftl->size.blocks - FTL_EXTRA, units = ftl->size.units, dealt = 0, i;
	u64 ratio = share_ratio(blocks, ((u64)units << 32) / ftl->size.block_units);
	u64 share = FTL_ONE, drawn = shuffle->seed;

	for (i = 0; i < blocks; i++) {
		u32 block = ftl_take_free(ftl), at;
		u32 first = block << ftl->size.block_shift;

		for (at = 0; at < ftl->size.block_units && dealt < units; at++) {
			u32 unit;

			if ((u32)(platform_mix(++drawn) >> 32) >= share)
				continue;
			unit = shuffled(shuffle, dealt++);
			ftl->unit[first | at] = unit;
			ftl->map[unit] = (first | at) + 1;
			ftl->block[block].valid++;
		}
		ftl_close_block(ftl, block);
		share = (share >> 1) * ratio >> 31;
	}
	return dealt;
}

void ftl_precondition(struct ftl *ftl, u64 seed)
{
	struct shuffle shuffle = { .seed = platform_mix(seed), .count = ftl->size.units, .half_bits = 1 };
	u64 writes = ftl->size.units / FTL_RUN_SHARE, i;
	u64 drawn = platform_mix(seed + 1);
	u32 dealt;

	while (1ULL << 2 * shuffle.half_bits < shuffle.count)
		shuffle.half_bits++;
	for (dealt = deal(ftl, &shuffle); dealt < shuffle.count; dealt++)
		write_untimed(ftl, shuffled(&shuffle, dealt));
	for (i = 0; i < writes; i++) {
		u64 unit = (platform_mix(drawn + i) >> 32) * shuffle.count >> 32;
		u64 soon = (platform_mix(drawn + i + 8) >> 32) * shuffle.count >> 32;

		__builtin_prefetch(&ftl->map[soon]);
		write_untimed(ftl, (u32)unit);
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
		if (ftl->unit[address] != unit)
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
			count += ftl->map[ftl->unit[first | at]] == (first | at) + 1;
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
