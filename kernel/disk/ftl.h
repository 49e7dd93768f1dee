/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The translation layer of a flash drive: which mapping unit lies in which cell, and which units move when room runs out. It has no times;
 * flash.c turns its moves into reads and programs of dies.
 *
 * Layout. Units of 4 KiB (mapping_unit_bytes), `units_per_page` of them in a page, pages numbered so that consecutive ones lie on
 * consecutive dies: page p of a block lies on die p % dies. A block here is a superblock over all dies. A cell's address is
 * block << block_shift | unit in the block: addresses above block_units are never used, nor is the memory behind them touched.
 *
 * Scale. Only the used capacity is mapped, and the spare room is the drive's own share of it (spare_ppm): a tenth of a drive
 * behaves as the whole drive would when it is full. Blocks shrink with it so that there are about FTL_BLOCKS: with fewer, greedy
 * cleaning is not what it is on the drive. The blocks that are open, being filled or kept free come on top of the spare room, because
 * in the whole drive they are a negligible part of it.
 *
 * Cleaning is greedy: the victim is the closed block with the fewest valid units, the one closed first of equal ones. Data of the
 * host and moved data go to different open blocks. Cleaning starts when FTL_LOW blocks are free and is paced: each page that the host
 * fills pays for so many moved units that a victim is done when as much room has been used as it yields. So nobody meets the cleaning of
 * a whole block at once.
 */
#ifndef STRATA_FTL_H
#define STRATA_FTL_H

#include "platform.h"

#define FTL_BLOCKS 1024U
#define FTL_BLOCK_UNITS_MIN 256U
#define FTL_LOW 3U		/* free blocks at which cleaning starts */
#define FTL_URGENT 1U		/* free blocks at which it does not wait to be paid */
#define FTL_EXTRA 4U		/* blocks besides the spare room: those kept free, and two that are open, on average half full */
#define FTL_NONE 0xffffffffU

enum ftl_stream { FTL_HOST, FTL_CLEANING, FTL_STREAMS };

enum ftl_block_state { FTL_FREE, FTL_OPEN, FTL_CLOSED, FTL_VICTIM };

struct ftl_size {
	u32 units;		/* logical */
	u32 units_per_page;
	u32 page_shift;		/* units_per_page = 1 << page_shift */
	u32 block_units;
	u32 block_shift;
	u32 block_rows;		/* pages of a block on each die */
	u32 blocks;
	u32 blocks_per_erase;	/* number of these blocks in one of the drive's along a die */
};

struct ftl_block {
	u32 valid;
	u32 state;
	u32 next;
	u32 previous;
	u32 uses;		/* how often it was opened */
	bool aged;		/* holds what it held at the start: its units are in no table (ftl_age.c) */
};

/* A bijection of 0 .. count - 1 that scatters, and its inverse. */
#define FTL_ROUNDS 3U

struct ftl_shuffle {
	u32 count;
	u32 mask;
	u32 shift;
	u32 key[FTL_ROUNDS];
	u32 odd[FTL_ROUNDS];
	u32 inverse[FTL_ROUNDS];
};

/* A state to start from. */
struct ftl_age {
	u32 filled_ppm;		/* the part of the capacity that holds data */
	u32 scattered_ppm;	/* the part of the data that was overwritten at random; the rest was written in order */
	u32 collected_ppm;	/* the part of the room without data that was collected to free blocks in a pause */
	bool in_order;		/* the data lie in the order of their addresses */
};

/*
 * Where the units are that nobody has touched since the start, as a function: a state of a drive of any size costs neither time nor
 * memory. The capacity is divided into chunks of consecutive units. In a random order of the chunks, the first ones lie whole and one
 * behind the other in the first blocks; the units of the next ones are scattered over the next blocks, of which scattered block i has
 * the units start[i] .. start[i + 1] - 1 of a random order, in random cells; the last chunks hold nothing.
 */
#define FTL_CHUNK 256U

struct ftl_aged {
	bool in_order;
	u32 chunks;		/* 0: nothing was ever written */
	u32 ordered;		/* chunks that lie whole */
	u32 scattered;		/* chunks whose units are scattered */
	u32 ordered_blocks;
	u32 scattered_blocks;
	u32 *start;
	struct ftl_shuffle chunk;
	struct ftl_shuffle unit;
	struct ftl_shuffle cell;
};

struct ftl {
	struct ftl_size size;
	u32 *map;		/* logical unit -> address + 1; 0: where it was at the start; FTL_NONE: discarded */
	u32 *unit;		/* address -> logical unit that was put there last, unless its block is aged */
	struct ftl_aged aged;
	struct ftl_block *block;
	u32 *bucket_first;	/* closed blocks by valid units: block + 1, 0 is none */
	u32 *bucket_last;
	/* From here on: moved by ftl_nonvolatile(). */
	u32 lowest;		/* no bucket below it has a block */
	u32 free_first;		/* block + 1, 0 is none */
	u32 fresh;		/* blocks from here on were never used */
	u32 free;		/* with the fresh ones */
	u32 open[FTL_STREAMS];
	u32 open_at[FTL_STREAMS];
	u32 victim;
	u32 victim_valid;	/* when it was chosen */
	u32 victim_at;
	s64 owed;		/* moved units that are paid for, times the units that the victim yields */
};

/* One page of the victim has been dealt with. */
struct ftl_step {
	u32 read_page;		/* address of its first unit, or FTL_NONE when nothing in it was valid */
	u32 moved;
	u32 programmed_page;	/* address of the first unit of a page that is now full, or FTL_NONE */
	bool freed;		/* the victim is clean */
};

/* The sizes for a drive of these properties; false when addresses of 32 bits do not reach. */
bool ftl_size(struct ftl_size *size, u64 units, u32 units_per_page, u32 dies, u32 pages_per_block, u32 spare_ppm);
size_t ftl_bytes(const struct ftl_size *size);
/* memory: ftl_bytes(), zeroed. */
void ftl_open(struct ftl *ftl, const struct ftl_size *size, void *memory);

/* ftl_age.c: the address of a unit at the start, and the unit of an aged block's cell; FTL_NONE if there is none. */
u32 ftl_aged_address(const struct ftl_aged *aged, const struct ftl_size *size, u32 unit);
u32 ftl_aged_unit(const struct ftl_aged *aged, const struct ftl_size *size, u32 address);

struct nonvolatile;

/* The map as it is. Where the units were at the start is known from the configuration, and is moved by nobody. */
void ftl_nonvolatile(struct ftl *ftl, struct nonvolatile *stream);

/* The address of a unit, or FTL_NONE when it was never written or was discarded. */
static inline u32 ftl_find(const struct ftl *ftl, u32 unit)
{
	u32 entry = ftl->map[unit];

	if (!entry && ftl->aged.chunks)
		return ftl_aged_address(&ftl->aged, &ftl->size, unit);
	return entry && entry != FTL_NONE ? entry - 1 : FTL_NONE;
}

/* The unit that lies in a cell, or FTL_NONE when its content is no longer, or was never, anybody's. */
static inline u32 ftl_unit_at(const struct ftl *ftl, u32 address)
{
	u32 unit;

	if (ftl->block[address >> ftl->size.block_shift].aged) {
		unit = ftl_aged_unit(&ftl->aged, &ftl->size, address);
		return unit != FTL_NONE && !ftl->map[unit] ? unit : FTL_NONE;
	}
	unit = ftl->unit[address];
	return ftl->map[unit] == address + 1 ? unit : FTL_NONE;
}

/* Whether the address lies in the page that the host's data are being gathered for. */
static inline bool ftl_in_open_page(const struct ftl *ftl, u32 address)
{
	u32 at = ftl->open_at[FTL_HOST];

	return at & (ftl->size.units_per_page - 1) && ftl->open[FTL_HOST] != FTL_NONE &&
	       address >> ftl->size.page_shift == (ftl->open[FTL_HOST] << ftl->size.block_shift | (at - 1)) >> ftl->size.page_shift;
}

/* Gives a unit of the host a new place and returns its address. The caller has dealt with the page before, if that was full. */
u32 ftl_write(struct ftl *ftl, u32 unit);
void ftl_discard(struct ftl *ftl, u32 unit);
/* Closes the host's open page as it is; the rest of the page stays empty. */
void ftl_close_page(struct ftl *ftl);
static inline bool ftl_page_is_full(const struct ftl *ftl)
{
	return !(ftl->open_at[FTL_HOST] & (ftl->size.units_per_page - 1));
}

/* The host has used a page: pays for cleaning. Then ftl_clean() must be called until it returns false. */
void ftl_pay(struct ftl *ftl);
bool ftl_clean(struct ftl *ftl, struct ftl_step *step);
/* Whether a block that is written for the first time since it was opened has to be erased before. */
bool ftl_needs_erase(const struct ftl *ftl, u32 address);

/* ftl_age.c: the states to start from. A map that was just opened takes one. */
void ftl_age(struct ftl *ftl, const struct ftl_age *age, u64 seed);
/* The steady state of uniform random overwriting. */
void ftl_precondition(struct ftl *ftl, u64 seed);
/*
 * NULL, or a description of the error: the map is no bijection, a count is wrong, a block is in no list or two. Takes time in proportion to
 * the drive's size.
 */
const char *ftl_check(const struct ftl *ftl);

/* Of the closed blocks: for ftl_age.c. */
void ftl_close_block(struct ftl *ftl, u32 block);
u32 ftl_log2_above(u32 value);
u32 ftl_take_free(struct ftl *ftl);

#endif
