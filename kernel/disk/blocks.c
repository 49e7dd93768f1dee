// SPDX-License-Identifier: GPL-2.0
/* Reading, writing, erasing and saving blocks: rules in blocks.h. */
#include "blocks.h"

#define RUN_VECTORS 64U
#define MAGIC 0x324d554944454d53ULL	/* "SMEDIUM2" */
#define STATE_SAVED 1ULL
#define STATE_IN_USE 2ULL
#define VALUES_BYTES (BLOCKS_GROUP * sizeof(u64))
#define CUTS_BYTES (BLOCKS_GROUP * sizeof(u16))
#define GROUP_BYTES (BLOCKS_GROUP + VALUES_BYTES + CUTS_BYTES)
#define MAP_OFFSET BLOCKS_BYTES
#define SMALLEST_BYTES (BLOCKS_BYTES >> PIECES_WHOLE)
#define PACKED_BYTES (BLOCKS_BYTES / 2)
#define STAGED_BYTES (16 * BLOCKS_BYTES)	/* of packed blocks that are written at once */
#define PACK_FAILURES_MAX 6U	/* then 1 of 64 blocks is tried */

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

/* A place in a list of vectors. */
struct cursor {
	const struct content_vector *vector;
	u64 skip;	/* bytes of the first vector that are behind us */
};

/* The memory at the cursor, and the length of its contiguous part. */
static u8 *cursor_piece(const struct cursor *cursor, u64 *bytes)
{
	*bytes = cursor->vector->length - cursor->skip;
	return (u8 *)cursor->vector->base + cursor->skip;
}

static void cursor_move(struct cursor *cursor, u64 bytes)
{
	cursor->skip += bytes;
	while (cursor->skip && cursor->skip >= cursor->vector->length) {
		cursor->skip -= cursor->vector->length;
		cursor->vector++;
	}
}

static u64 smaller(u64 a, u64 b)
{
	return a < b ? a : b;
}

static u64 vectors_bytes(const struct content_vector *vector, u32 count)
{
	u64 bytes = 0;

	while (count--)
		bytes += vector[count].length;
	return bytes;
}

static u64 offset_of(const struct blocks *blocks, u64 at)
{
	return blocks_slots_offset(blocks) + blocks->value[at / BLOCKS_BYTES] * BLOCKS_BYTES + at % BLOCKS_BYTES;
}

/* The size of a block's piece of the store; PIECES_SIZES: it has none. */
static u32 size_of(u8 kind)
{
	if (kind == BLOCK_STORED)
		return PIECES_WHOLE;
	return kind >= BLOCK_PACKED ? (u32)kind - BLOCK_PACKED : PIECES_SIZES;
}

/* Of a block that is not in the store. */
static struct pattern pattern_of(const struct blocks *blocks, u64 block)
{
	struct pattern pattern = { .kind = PATTERN_WORD };

	if (blocks->kind[block] == BLOCK_ZERO)
		return pattern;
	pattern.kind = blocks->kind[block] - BLOCK_COMPACT;
	pattern.value = blocks->value[block];
	if (blocks->touched[block / BLOCKS_GROUP] == GROUP_CUT)
		pattern.cut_bytes = blocks->cut[block];
	return pattern;
}

/* Moves `bytes` between the store and the memory at the cursor, which it leaves behind them. */
static int move_run(struct blocks *blocks, bool write, struct cursor *cursor, u64 offset, u64 bytes)
{
	while (bytes) {
		struct content_vector vector[RUN_VECTORS];
		u64 part = 0;
		u32 count = 0;
		int error;

		while (count < RUN_VECTORS && part < bytes) {
			u64 piece;
			u8 *base = cursor_piece(cursor, &piece);

			piece = smaller(piece, bytes - part);
			vector[count].base = base;
			vector[count++].length = piece;
			cursor_move(cursor, piece);
			part += piece;
		}
		error = write ? blocks->store.write(blocks->store.owner, vector, count, offset, part) :
				blocks->store.read(blocks->store.owner, vector, count, offset, part);
		if (error)
			return error;
		offset += part;
		bytes -= part;
	}
	return 0;
}

/* Memory and a part of the store that belong together, to be moved in one go. */
struct run {
	struct cursor from;
	u64 offset;
	u64 bytes;
};

static int run_end(struct blocks *blocks, bool write, struct run *run)
{
	u64 bytes = run->bytes;

	run->bytes = 0;
	return bytes ? move_run(blocks, write, &run->from, run->offset, bytes) : 0;
}

/* Adds what lies at the cursor. Between two additions without run_end() the memory must be contiguous. */
static int run_add(struct blocks *blocks, bool write, struct run *run, const struct cursor *cursor, u64 offset, u64 bytes)
{
	int error = 0;

	if (run->bytes && run->offset + run->bytes == offset) {
		run->bytes += bytes;
		return 0;
	}
	error = run_end(blocks, write, run);
	run->from = *cursor;
	run->offset = offset;
	run->bytes = bytes;
	return error;
}

static int move(struct blocks *blocks, bool write, void *memory, u64 offset, u64 bytes)
{
	struct content_vector vector = { .base = memory, .length = bytes };

	return write ? blocks->store.write(blocks->store.owner, &vector, 1, offset, bytes) :
		       blocks->store.read(blocks->store.owner, &vector, 1, offset, bytes);
}

/* The length of a packed block's piece, and its place in the store. */
static u64 piece_of(const struct blocks *blocks, u64 block, u64 *offset)
{
	u64 bytes = SMALLEST_BYTES << size_of(blocks->kind[block]);

	*offset = blocks_slots_offset(blocks) + blocks->value[block] * bytes;
	return bytes;
}

/* All of a block that is not stored as it is. */
static int make(struct blocks *blocks, u64 block, u8 *to)
{
	struct pattern pattern;
	u64 bytes, offset;
	u16 length;
	int error;

	if (blocks->kind[block] < BLOCK_PACKED) {
		pattern = pattern_of(blocks, block);
		pattern_make(&pattern, to);
		return 0;
	}
	bytes = piece_of(blocks, block, &offset);
	error = move(blocks, false, blocks->packed, offset, bytes);
	memcpy(&length, blocks->packed, sizeof(length));
	if (!error && (length > bytes - sizeof(length) || !blocks->store.unpack ||
		       !blocks->store.unpack(blocks->store.owner, blocks->packed + sizeof(length), length, to)))
		error = -5;	/* EIO */
	return error;
}

/* Part of a block that is not stored as it is, in memory at the cursor. */
static int fill(struct blocks *blocks, struct cursor *cursor, u64 at, u64 bytes)
{
	const u8 *from = blocks->scratch + at % BLOCKS_BYTES;
	u64 piece;
	u8 *base = cursor_piece(cursor, &piece);
	int error;

	if (bytes == BLOCKS_BYTES && piece >= bytes) {
		cursor_move(cursor, bytes);
		return make(blocks, at / BLOCKS_BYTES, base);
	}
	error = make(blocks, at / BLOCKS_BYTES, blocks->scratch);
	for (; bytes; bytes -= piece) {
		base = cursor_piece(cursor, &piece);
		piece = smaller(piece, bytes);
		memcpy(base, from, piece);
		cursor_move(cursor, piece);
		from += piece;
	}
	return error;
}

static void gather(struct cursor *cursor, u8 *to, u64 bytes)
{
	while (bytes) {
		u64 piece;
		const u8 *base = cursor_piece(cursor, &piece);

		piece = smaller(piece, bytes);
		memcpy(to, base, piece);
		cursor_move(cursor, piece);
		to += piece;
		bytes -= piece;
	}
}

int blocks_read(struct blocks *blocks, u64 sector, const struct content_vector *vector, u32 count)
{
	u64 at = sector * STRATA_SECTOR_BYTES, end = at + vectors_bytes(vector, count), stop;
	struct cursor cursor = { .vector = vector };
	struct run run = { .bytes = 0 };
	int error = 0;

	if (blocks->plain)
		return move_run(blocks, false, &cursor, at, end - at);
	for (; at < end && !error; at = stop) {
		u64 block = at / BLOCKS_BYTES;

		stop = smaller((block + 1) * BLOCKS_BYTES, end);
		if (blocks->kind[block] == BLOCK_STORED) {
			error = run_add(blocks, false, &run, &cursor, offset_of(blocks, at), stop - at);
			cursor_move(&cursor, stop - at);
		} else {
			error = run_end(blocks, false, &run);
			if (!error)
				error = fill(blocks, &cursor, at, stop - at);
		}
	}
	return error ? error : run_end(blocks, false, &run);
}

static void release_piece(struct blocks *blocks, u64 block)
{
	u32 size = size_of(blocks->kind[block]);

	if (size < PIECES_SIZES)
		pieces_put(&blocks->pieces, size, blocks->value[block]);
}

static void touch(struct blocks *blocks, u64 block)
{
	u8 *group = &blocks->touched[block / BLOCKS_GROUP];

	*group = *group ? *group : GROUP_TOUCHED;
}

/* Gives the block a piece of the store. */
static void set_kept(struct blocks *blocks, u64 block, u8 kind)
{
	if (blocks->kind[block] == kind)
		return;
	release_piece(blocks, block);
	touch(blocks, block);
	blocks->kind[block] = kind;
	blocks->value[block] = pieces_take(&blocks->pieces, size_of(kind));
}

static void set_cut(struct blocks *blocks, u64 block, u32 bytes)
{
	u8 *group = &blocks->touched[block / BLOCKS_GROUP];

	if (bytes)
		*group = GROUP_CUT;
	if (*group == GROUP_CUT)
		blocks->cut[block] = (u16)bytes;
}

/* Keeps a whole block in a few bytes if that is possible. */
static bool keep_compact(struct blocks *blocks, u64 block, const u8 *content)
{
	struct pattern pattern;

	if (!pattern_find(content, &pattern))
		return false;
	release_piece(blocks, block);
	touch(blocks, block);
	if (pattern.kind == PATTERN_WORD && !pattern.value) {
		blocks->kind[block] = BLOCK_ZERO;
		return true;
	}
	blocks->kind[block] = (u8)(BLOCK_COMPACT + pattern.kind);
	blocks->value[block] = pattern.value;
	set_cut(blocks, block, pattern.cut_bytes);
	return true;
}

/* Packed blocks that lie side by side in the store, and are written together. */
struct staged {
	u64 offset;
	u64 bytes;
};

static int staged_end(struct blocks *blocks, struct staged *staged)
{
	u64 bytes = staged->bytes;

	staged->bytes = 0;
	return bytes ? move(blocks, true, blocks->packed + PACKED_BYTES, staged->offset, bytes) : 0;
}

/* Keeps a whole block packed if that saves half of it. */
static bool keep_packed(struct blocks *blocks, u64 block, const u8 *content, struct staged *staged, int *error)
{
	u64 bytes, offset;
	u16 length = 0;
	u32 size = 0;

	if (blocks->pack_skips) {
		blocks->pack_skips--;
		return false;
	}
	if (blocks->store.pack)
		length = (u16)blocks->store.pack(blocks->store.owner, content, blocks->packed + sizeof(length), PACKED_BYTES - sizeof(length));
	if (!length) {
		blocks->pack_failures += blocks->pack_failures < PACK_FAILURES_MAX;
		blocks->pack_skips = (1U << blocks->pack_failures) - 1;
		return false;
	}
	blocks->pack_failures = 0;
	memcpy(blocks->packed, &length, sizeof(length));
	while (SMALLEST_BYTES << size < length + sizeof(length))
		size++;
	set_kept(blocks, block, (u8)(BLOCK_PACKED + size));
	bytes = piece_of(blocks, block, &offset);
	if (staged->offset + staged->bytes != offset || staged->bytes + bytes > STAGED_BYTES) {
		*error = staged_end(blocks, staged);
		staged->offset = offset;
	}
	memcpy(blocks->packed + PACKED_BYTES + staged->bytes, blocks->packed, bytes);
	staged->bytes += bytes;
	return true;
}

static int store_scratch(struct blocks *blocks, u64 block)
{
	set_kept(blocks, block, BLOCK_STORED);
	return move(blocks, true, blocks->scratch, offset_of(blocks, block * BLOCKS_BYTES), BLOCKS_BYTES);
}

/* Part of a block that is not stored as it is: write the rest of the block as well. */
static int write_part(struct blocks *blocks, struct cursor *cursor, u64 at, u64 bytes)
{
	u64 block = at / BLOCKS_BYTES;
	int error = make(blocks, block, blocks->scratch);

	if (error)
		return error;
	gather(cursor, blocks->scratch + at % BLOCKS_BYTES, bytes);
	return keep_compact(blocks, block, blocks->scratch) ? 0 : store_scratch(blocks, block);
}

/* Whether the whole block at the cursor could be kept in less than a slot, which is done then. */
static bool write_compact(struct blocks *blocks, const struct cursor *cursor, u64 block, struct staged *staged, int *error)
{
	struct cursor copy = *cursor;
	u64 piece;
	const u8 *content = cursor_piece(cursor, &piece);

	if (piece < BLOCKS_BYTES) {
		gather(&copy, blocks->scratch, BLOCKS_BYTES);
		content = blocks->scratch;
	}
	return keep_compact(blocks, block, content) || keep_packed(blocks, block, content, staged, error);
}

int blocks_write(struct blocks *blocks, u64 sector, const struct content_vector *vector, u32 count)
{
	u64 at = sector * STRATA_SECTOR_BYTES, end = at + vectors_bytes(vector, count), stop;
	struct cursor cursor = { .vector = vector };
	struct staged staged = { .bytes = 0 };
	struct run run = { .bytes = 0 };
	int error = 0;

	if (blocks->plain)
		return move_run(blocks, true, &cursor, at, end - at);
	for (; at < end && !error; at = stop) {
		u64 block = at / BLOCKS_BYTES;
		bool whole, stored = blocks->kind[block] == BLOCK_STORED;

		stop = smaller((block + 1) * BLOCKS_BYTES, end);
		whole = stop - at == BLOCKS_BYTES;
		if (whole ? write_compact(blocks, &cursor, block, &staged, &error) : !stored) {
			if (!error)
				error = run_end(blocks, true, &run);
			if (whole)
				cursor_move(&cursor, BLOCKS_BYTES);
			else if (!error)
				error = write_part(blocks, &cursor, at, stop - at);
		} else {
			set_kept(blocks, block, BLOCK_STORED);
			error = run_add(blocks, true, &run, &cursor, offset_of(blocks, at), stop - at);
			cursor_move(&cursor, stop - at);
		}
	}
	error = error ? error : staged_end(blocks, &staged);
	return error ? error : run_end(blocks, true, &run);
}

static int erase_part(struct blocks *blocks, u64 at, u64 bytes)
{
	u64 zeros[64] = { 0 };	/* 512 bytes: one sector */
	int error = 0;

	for (; bytes && !error; at += sizeof(zeros), bytes -= sizeof(zeros)) {
		struct content_vector vector = { .base = zeros, .length = sizeof(zeros) };

		error = blocks_write(blocks, at / STRATA_SECTOR_BYTES, &vector, 1);
	}
	return error;
}

/* Whole blocks. A group that was never touched is zeros already. */
static void erase_blocks(struct blocks *blocks, u64 first, u64 end)
{
	while (first < end) {
		u64 group = first / BLOCKS_GROUP, start = first, stop = smaller((group + 1) * BLOCKS_GROUP, end);

		for (; blocks->touched[group] && first < stop; first++) {
			release_piece(blocks, first);
			blocks->kind[first] = BLOCK_ZERO;
			if (blocks->touched[group] == GROUP_CUT)
				blocks->cut[first] = 0;
		}
		if (stop - start == BLOCKS_GROUP)
			blocks->touched[group] = GROUP_ZERO;
		first = stop;
	}
}

int blocks_erase(struct blocks *blocks, u64 sector, u64 sectors)
{
	u64 at = sector * STRATA_SECTOR_BYTES, end = at + sectors * STRATA_SECTOR_BYTES;
	u64 first = (at + BLOCKS_BYTES - 1) / BLOCKS_BYTES, last = end / BLOCKS_BYTES;
	int error = 0;

	if (blocks->plain)
		return -30;	/* EROFS: the file belongs to another program */
	if (first > last)
		return erase_part(blocks, at, end - at);
	error = erase_part(blocks, at, first * BLOCKS_BYTES - at);
	if (error)
		return error;
	erase_blocks(blocks, first, last);
	return erase_part(blocks, last * BLOCKS_BYTES, end - last * BLOCKS_BYTES);
}

bool blocks_open(struct blocks *blocks, const struct content_store *store, u64 sectors, bool plain)
{
	memset(blocks, 0, sizeof(*blocks));
	blocks->store = *store;
	blocks->sectors = sectors;
	blocks->count = (sectors + BLOCKS_SECTORS - 1) / BLOCKS_SECTORS;
	blocks->groups = (blocks->count + BLOCKS_GROUP - 1) / BLOCKS_GROUP;
	blocks->plain = plain;
	if (plain)
		return true;
	blocks->kind = platform_alloc(blocks->groups * BLOCKS_GROUP);
	blocks->value = platform_alloc(blocks->groups * BLOCKS_GROUP * sizeof(*blocks->value));
	blocks->cut = platform_alloc(blocks->groups * BLOCKS_GROUP * sizeof(*blocks->cut));
	blocks->touched = platform_alloc(blocks->groups);
	blocks->scratch = platform_alloc(BLOCKS_BYTES);
	blocks->packed = platform_alloc(PACKED_BYTES + STAGED_BYTES);
	if (blocks->kind && blocks->value && blocks->cut && blocks->touched && blocks->scratch && blocks->packed && pieces_open(&blocks->pieces, blocks->count))
		return true;
	blocks_close(blocks);
	return false;
}

void blocks_close(struct blocks *blocks)
{
	if (blocks->kind)
		platform_free(blocks->kind, blocks->groups * BLOCKS_GROUP);
	if (blocks->value)
		platform_free(blocks->value, blocks->groups * BLOCKS_GROUP * sizeof(*blocks->value));
	if (blocks->cut)
		platform_free(blocks->cut, blocks->groups * BLOCKS_GROUP * sizeof(*blocks->cut));
	if (blocks->touched)
		platform_free(blocks->touched, blocks->groups);
	if (blocks->scratch)
		platform_free(blocks->scratch, BLOCKS_BYTES);
	if (blocks->packed)
		platform_free(blocks->packed, PACKED_BYTES + STAGED_BYTES);
	pieces_close(&blocks->pieces);
	memset(blocks, 0, sizeof(*blocks));
}

static int write_header(struct blocks *blocks, u64 state)
{
	struct header header = {
		.magic = MAGIC,
		.state = state,
		.sectors = blocks->sectors,
		.slots = blocks->pieces.slots,
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

/* Whether the entries make sense. The pieces that none of them has become the unused ones. */
static bool take_over(struct blocks *blocks, u64 slots)
{
	u64 group, block;
	u32 size;

	if (!pieces_load(&blocks->pieces, slots))
		return false;
	for (group = 0; group < blocks->groups; group++) {
		for (block = group * BLOCKS_GROUP; blocks->touched[group] && block < (group + 1) * BLOCKS_GROUP; block++) {
			if (blocks->kind[block] >= BLOCK_KINDS || blocks->cut[block] >= BLOCKS_BYTES)
				return false;
			size = size_of(blocks->kind[block]);
			if (size < PIECES_SIZES && !pieces_load_used(&blocks->pieces, size, blocks->value[block]))
				return false;
		}
	}
	pieces_load_end(&blocks->pieces);
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
