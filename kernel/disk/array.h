/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How an array's sectors lie on its members, in chunks of stripe_bytes; a row is one chunk of every member.
 *
 *     single    one member after the other (JBOD)
 *     raid0     chunk k on member k mod N
 *     raid10    pairs (0,1), (2,3) ...; chunk k on both of pair k mod N/2
 *     raid5     left-symmetric, as MD's default: row r has its parity on member N-1 - r mod N, its data on those that follow
 *     raid6     the same with Q on the member after P
 */
#ifndef STRATA_ARRAY_H
#define STRATA_ARRAY_H

#include "platform.h"

#define ARRAY_MEMBERS 32

enum array_level {
	ARRAY_SINGLE,
	ARRAY_RAID0,
	ARRAY_RAID10,
	ARRAY_RAID5,
	ARRAY_RAID6,
	ARRAY_LEVELS
};

struct array {
	enum array_level level;
	u32 members;
	u64 chunk_sectors;
	u64 member_sectors;	/* used of each: whole chunks */
};

/* Consecutive sectors of one member; raid10 has the same on member + 1. */
struct array_piece {
	u32 member;
	u64 sector;
	u64 sectors;
};

extern const char *const array_level_names[ARRAY_LEVELS];

/* Describes an error in level and members, or returns NULL. */
const char *array_check(const struct array *array);
u64 array_sectors(const struct array *array);
static inline u32 array_parities(const struct array *array)
{
	return array->level == ARRAY_RAID5 ? 1 : array->level == ARRAY_RAID6 ? 2 : 0;
}

static inline u32 array_copies(const struct array *array)
{
	return array->level == ARRAY_RAID10 ? 2 : 1;
}

/* Data sectors of one row; of single, which has none, of one chunk. */
u64 array_row_sectors(const struct array *array);
/* Where `sector` lies, and how many of the `sectors` from it on lie behind it on the same member. */
struct array_piece array_map(const struct array *array, u64 sector, u64 sectors);
/* The member of parity p of a row. */
u32 array_parity_member(const struct array *array, u64 row, u32 p);

#endif
