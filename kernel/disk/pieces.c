// SPDX-License-Identifier: GPL-2.0
/* Pieces of a store that are free, and new ones: rules in pieces.h. */
#include "pieces.h"

#define EIGHTHS (1U << PIECES_WHOLE)

bool pieces_open(struct pieces *pieces, u64 blocks)
{
	bool all = true;
	u32 size;

	memset(pieces, 0, sizeof(*pieces));
	pieces->limit = 2 * blocks;
	for (size = 0; size < PIECES_SIZES; size++) {
		pieces->unused[size].piece = platform_alloc(pieces->limit * sizeof(u64));
		all = all && pieces->unused[size].piece;
	}
	return all;
}

void pieces_close(struct pieces *pieces)
{
	u32 size;

	for (size = 0; size < PIECES_SIZES; size++)
		if (pieces->unused[size].piece)
			platform_free(pieces->unused[size].piece, pieces->limit * sizeof(u64));
}

void pieces_put(struct pieces *pieces, u32 size, u64 piece)
{
	u64 at = pieces->unused[size].first + pieces->unused[size].count++;

	pieces->unused[size].piece[at % pieces->limit] = piece;
}

u64 pieces_take(struct pieces *pieces, u32 size)
{
	u64 piece, first = pieces->unused[size].first;

	if (pieces->unused[size].count) {
		pieces->unused[size].count--;
		pieces->unused[size].first = (first + 1) % pieces->limit;
		return pieces->unused[size].piece[first];
	}
	if (size == PIECES_WHOLE)
		return pieces->slots++;
	piece = 2 * pieces_take(pieces, size + 1);
	pieces_put(pieces, size, piece + 1);
	return piece;
}

/* While it is loaded, the memory of the whole slots' ring has the eighths of each slot that are in use, a bit each. */
bool pieces_load(struct pieces *pieces, u64 slots)
{
	pieces->slots = slots;
	return slots <= pieces->limit;
}

bool pieces_load_used(struct pieces *pieces, u32 size, u64 piece)
{
	u64 slot = piece >> (PIECES_WHOLE - size), *used;
	u64 mask = ((1ULL << (1U << size)) - 1) << ((piece << size) % EIGHTHS);

	if (slot >= pieces->slots)
		return false;
	used = &pieces->unused[PIECES_WHOLE].piece[slot];
	if (*used & mask)
		return false;
	*used |= mask;
	return true;
}

/* The parts of a piece that are not used. */
static void put_unused(struct pieces *pieces, u32 size, u64 piece, u64 used)
{
	u32 half = 1U << size >> 1;

	if (!used) {
		pieces_put(pieces, size, piece);
	} else if (size) {
		put_unused(pieces, size - 1, piece * 2, used & ((1ULL << half) - 1));
		put_unused(pieces, size - 1, piece * 2 + 1, used >> half);
	}
}

void pieces_load_end(struct pieces *pieces)
{
	u64 slot;

	for (slot = 0; slot < pieces->slots; slot++)
		put_unused(pieces, PIECES_WHOLE, slot, pieces->unused[PIECES_WHOLE].piece[slot]);
}
