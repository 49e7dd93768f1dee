// SPDX-License-Identifier: GPL-2.0
/* The state that outlives a power-off: rules in nonvolatile.h. */
#include "disk.h"
#include "nonvolatile.h"

#define PAGE_BYTES 4096ULL

struct run {
	u64 first;
	u64 pages;
};

static void move(struct nonvolatile *stream, void *memory, u64 bytes)
{
	struct content_vector vector = { .base = memory, .length = bytes };

	if (stream->error || !bytes)
		return;
	stream->error = stream->saving ? stream->store->write(stream->store->owner, &vector, 1, stream->offset, bytes) :
					 stream->store->read(stream->store->owner, &vector, 1, stream->offset, bytes);
	stream->offset += bytes;
}

static u64 length_of(u64 first, u64 pages, u64 bytes)
{
	u64 from = first * PAGE_BYTES, until = (first + pages) * PAGE_BYTES;

	return (until < bytes ? until : bytes) - from;
}

static bool is_zero(const u8 *memory, u64 page, u64 bytes)
{
	const u8 *at = memory + page * PAGE_BYTES;
	u64 length = length_of(page, 1, bytes);

	return !*at && !memcmp(at, at + 1, length - 1);
}

static void save_pages(struct nonvolatile *stream, u8 *memory, u64 bytes)
{
	u64 pages = platform_divide_up(bytes, PAGE_BYTES), page = 0;
	struct run run;

	while (page < pages && !stream->error) {
		if (is_zero(memory, page, bytes)) {
			page++;
			continue;
		}
		run.first = page;
		while (page < pages && !is_zero(memory, page, bytes))
			page++;
		run.pages = page - run.first;
		move(stream, &run, sizeof(run));
		move(stream, memory + run.first * PAGE_BYTES, length_of(run.first, run.pages, bytes));
	}
	run.first = 0;
	run.pages = 0;
	move(stream, &run, sizeof(run));
}

/* Pages that were never touched are not touched now. */
static void clear(u8 *memory, u64 page, u64 until, u64 bytes)
{
	for (; page < until; page++)
		if (!is_zero(memory, page, bytes))
			memset(memory + page * PAGE_BYTES, 0, length_of(page, 1, bytes));
}

static void load_pages(struct nonvolatile *stream, u8 *memory, u64 bytes)
{
	u64 pages = platform_divide_up(bytes, PAGE_BYTES), page = 0;
	struct run run;

	for (;;) {
		move(stream, &run, sizeof(run));
		if (stream->error)
			return;
		if (!run.pages)
			break;
		if (run.first < page || run.first >= pages || run.pages > pages - run.first) {
			stream->error = -22;
			return;
		}
		clear(memory, page, run.first, bytes);
		move(stream, memory + run.first * PAGE_BYTES, length_of(run.first, run.pages, bytes));
		page = run.first + run.pages;
	}
	clear(memory, page, pages, bytes);
}

void nonvolatile_move(struct nonvolatile *stream, void *memory, u64 bytes)
{
	u64 length = bytes;

	move(stream, &length, sizeof(length));
	if (!stream->error && length != bytes)
		stream->error = -22;
	if (bytes < PAGE_BYTES)
		move(stream, memory, bytes);
	else if (stream->saving)
		save_pages(stream, memory, bytes);
	else
		load_pages(stream, memory, bytes);
}

static u64 move_state(struct disk *disk, struct blocks *blocks, bool saving, int *error)
{
	u64 from = blocks_slots_offset(blocks) + blocks->pieces.slots * BLOCKS_BYTES;
	struct nonvolatile stream = { .store = &blocks->store, .saving = saving, .offset = from };

	disk->config.ops->nonvolatile(disk, &stream);
	*error = stream.error;
	return stream.offset - from;
}

int nonvolatile_save(struct disk *disk, struct blocks *blocks)
{
	int error = 0;

	blocks->state_bytes = disk->config.ops->nonvolatile ? move_state(disk, blocks, true, &error) : 0;
	return error ? error : blocks_save(blocks);
}

int nonvolatile_load(struct disk *disk, struct blocks *blocks)
{
	u64 bytes = blocks->state_bytes;
	int error = 0;

	blocks->state_bytes = 0;	/* a cut of the power loses it */
	if (!bytes)
		return 0;
	if (!disk->config.ops->nonvolatile || move_state(disk, blocks, false, &error) != bytes)
		return error ? error : -22;
	return error;
}
