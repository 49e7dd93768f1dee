// SPDX-License-Identifier: GPL-2.0
/* The index of the blocks on its way into the store and back: its form is in blocks.h. */
#include "blocks.h"

#define MAGIC 0x324d554944454d53ULL	/* "SMEDIUM2" */
#define STATE_SAVED 1ULL
#define STATE_IN_USE 2ULL
#define VALUES_BYTES (BLOCKS_GROUP * sizeof(u64))
#define CUTS_BYTES (BLOCKS_GROUP * sizeof(u16))
#define GROUP_BYTES (BLOCKS_GROUP + VALUES_BYTES + CUTS_BYTES)
#define MAP_OFFSET BLOCKS_BYTES

struct header {
	u64 magic;
	u64 state;
	u64 sectors;
	u64 slots;
	u64 state_bytes;
	u64 unused[59];		/* one sector in all */
};

static u64 group_offset(const struct blocks *blocks, u64 group)
{
	u64 map_bytes = (blocks->groups + BLOCKS_BYTES - 1) / BLOCKS_BYTES * BLOCKS_BYTES;

	return MAP_OFFSET + map_bytes + group * GROUP_BYTES;
}

u64 blocks_slots_offset(const struct blocks *blocks)
{
	return group_offset(blocks, blocks->groups);
}

static int move(struct blocks *blocks, bool write, void *memory, u64 offset, u64 bytes)
{
	struct content_vector vector = { .base = memory, .length = bytes };

	return write ? blocks->store.write(blocks->store.owner, &vector, 1, offset, bytes) :
		       blocks->store.read(blocks->store.owner, &vector, 1, offset, bytes);
}

static int write_header(struct blocks *blocks, u64 state)
{
	struct header header = {
		.magic = MAGIC,
		.state = state,
		.sectors = blocks->sectors,
		.slots = blocks->slots,
		.state_bytes = blocks->state_bytes,
	};

	return move(blocks, true, &header, 0, sizeof(header));
}

static int move_group(struct blocks *blocks, bool write, u64 group)
{
	u64 at = group_offset(blocks, group);
	int error = move(blocks, write, blocks->kind + group * BLOCKS_GROUP, at, BLOCKS_GROUP);

	if (!error)
		error = move(blocks, write, blocks->value + group * BLOCKS_GROUP, at + BLOCKS_GROUP, VALUES_BYTES);
	if (error || blocks->touched[group] != GROUP_CUT)
		return error;
	return move(blocks, write, blocks->cut + group * BLOCKS_GROUP, at + BLOCKS_GROUP + VALUES_BYTES, CUTS_BYTES);
}

/*
 * Whether the entries make sense. The slots that none of them has become the unused ones; the ring's memory holds a mark of
 * each slot until then.
 */
static bool take_over(struct blocks *blocks, u64 slots)
{
	u64 group, block, slot;

	if (slots > blocks->count)
		return false;
	for (group = 0; group < blocks->groups; group++) {
		for (block = group * BLOCKS_GROUP; blocks->touched[group] && block < (group + 1) * BLOCKS_GROUP; block++) {
			if (blocks->kind[block] >= BLOCK_KINDS || blocks->cut[block] >= BLOCKS_BYTES)
				return false;
			if (blocks->kind[block] != BLOCK_STORED)
				continue;
			slot = blocks->value[block];
			if (slot >= slots || blocks->unused[slot])
				return false;
			blocks->unused[slot] = 1;
		}
	}
	blocks->slots = slots;
	for (slot = 0; slot < slots; slot++)
		if (!blocks->unused[slot])
			blocks->unused[blocks->unused_count++] = slot;
	return true;
}

int blocks_load(struct blocks *blocks, enum blocks_state *state)
{
	struct header header;
	int error = move(blocks, false, &header, 0, sizeof(header));
	u64 group;

	if (error)
		return error;
	*state = header.magic == 0 ? BLOCKS_NEW : header.magic != MAGIC || header.sectors != blocks->sectors ? BLOCKS_OTHER :
		 header.state == STATE_SAVED ? BLOCKS_LOADED : BLOCKS_UNFINISHED;
	if (*state == BLOCKS_OTHER || *state == BLOCKS_UNFINISHED)
		return 0;
	if (*state == BLOCKS_LOADED) {
		error = move(blocks, false, blocks->touched, MAP_OFFSET, blocks->groups);
		for (group = 0; group < blocks->groups && !error; group++)
			if (blocks->touched[group])
				error = move_group(blocks, false, group);
		if (!error && !take_over(blocks, header.slots)) {
			*state = BLOCKS_OTHER;
			return 0;
		}
		blocks->state_bytes = header.state_bytes;
	}
	return error ? error : write_header(blocks, STATE_IN_USE);
}

int blocks_save(struct blocks *blocks)
{
	int error = move(blocks, true, blocks->touched, MAP_OFFSET, blocks->groups);
	u64 group;

	for (group = 0; group < blocks->groups && !error; group++)
		if (blocks->touched[group])
			error = move_group(blocks, true, group);
	return error ? error : write_header(blocks, STATE_SAVED);
}
