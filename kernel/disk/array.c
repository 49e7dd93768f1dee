// SPDX-License-Identifier: GPL-2.0
/* Arrays of members: rules in array.h. */
#include "array.h"

const char *const array_level_names[ARRAY_LEVELS] = { "single", "raid0", "raid10", "raid5", "raid6" };

const char *array_check(const struct array *array)
{
	u32 members = array->members;

	switch (array->level) {
	case ARRAY_RAID10:
		return members < 2 || members % 2 ? "raid10 needs an even number of members" : NULL;
	case ARRAY_RAID5:
		return members < 3 ? "raid5 needs at least 3 members" : NULL;
	case ARRAY_RAID6:
		return members < 4 ? "raid6 needs at least 4 members" : NULL;
	default:
		return NULL;
	}
}

/* Chunks of a row that hold data of their own. */
static u32 data_chunks(const struct array *array)
{
	return array->members / array_copies(array) - array_parities(array);
}

u64 array_sectors(const struct array *array)
{
	return array->member_sectors * data_chunks(array);
}

u64 array_row_sectors(const struct array *array)
{
	return array->level == ARRAY_SINGLE ? array->chunk_sectors : array->chunk_sectors * data_chunks(array);
}

struct array_piece array_map(const struct array *array, u64 sector, u64 sectors)
{
	struct array_piece piece;
	u64 chunk, row, offset, room;
	u32 column;

	if (array->level == ARRAY_SINGLE) {
		piece.member = (u32)(sector / array->member_sectors);
		piece.sector = sector % array->member_sectors;
		room = array->member_sectors - piece.sector;
		piece.sectors = sectors < room ? sectors : room;
		return piece;
	}
	chunk = sector / array->chunk_sectors;
	offset = sector % array->chunk_sectors;
	row = chunk / data_chunks(array);
	column = (u32)(chunk % data_chunks(array));
	if (array_parities(array))
		piece.member = (array_parity_member(array, row, array_parities(array) - 1) + 1 + column) % array->members;
	else
		piece.member = column * array_copies(array);
	piece.sector = row * array->chunk_sectors + offset;
	room = array->chunk_sectors - offset;
	piece.sectors = sectors < room ? sectors : room;
	return piece;
}

u32 array_parity_member(const struct array *array, u64 row, u32 p)
{
	return (array->members - 1 - (u32)(row % array->members) + p) % array->members;
}
