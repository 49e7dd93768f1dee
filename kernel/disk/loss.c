// SPDX-License-Identifier: GPL-2.0
/* Records of writes that are not durable yet, and their fate at a cut: rules in loss.h. */
#include "loss.h"

#define MARKS_LIMIT (1U << 22)

static u64 smaller(u64 a, u64 b)
{
	return a < b ? a : b;
}

static size_t block_bytes(const struct loss *loss)
{
	return (size_t)loss->block_sectors * STRATA_SECTOR_BYTES;
}

static u8 *image_of(const struct loss *loss, u32 index)
{
	return loss->image + index * block_bytes(loss);
}

bool loss_open(struct loss *loss, struct blocks *blocks, u32 unit_bytes)
{
	memset(loss, 0, sizeof(*loss));
	loss->blocks = blocks;
	loss->sectors = blocks->sectors;
	loss->unit_sectors = unit_bytes / STRATA_SECTOR_BYTES;
	loss->block_sectors = loss->unit_sectors > BLOCKS_SECTORS ? loss->unit_sectors : BLOCKS_SECTORS;
	loss->count = (loss->sectors + loss->block_sectors - 1) / loss->block_sectors;
	loss->limit = (u32)(LOSS_BYTES / block_bytes(loss));
	loss->head = platform_alloc(loss->count * sizeof(*loss->head));
	loss->record = platform_alloc((loss->limit + 1ULL) * sizeof(*loss->record));
	loss->image = platform_alloc((loss->limit + 1ULL) * block_bytes(loss));
	loss->spare = platform_alloc(block_bytes(loss));
	loss->mark = platform_alloc(MARKS_LIMIT * sizeof(*loss->mark));
	if (loss->head && loss->record && loss->image && loss->spare && loss->mark)
		return true;
	loss_close(loss);
	return false;
}

void loss_close(struct loss *loss)
{
	if (loss->head)
		platform_free(loss->head, loss->count * sizeof(*loss->head));
	if (loss->record)
		platform_free(loss->record, (loss->limit + 1ULL) * sizeof(*loss->record));
	if (loss->image)
		platform_free(loss->image, (loss->limit + 1ULL) * block_bytes(loss));
	if (loss->spare)
		platform_free(loss->spare, block_bytes(loss));
	if (loss->mark)
		platform_free(loss->mark, MARKS_LIMIT * sizeof(*loss->mark));
	memset(loss, 0, sizeof(*loss));
}

/* The units of `block` that the sectors from first to end (exclusive) touch, a bit each. */
static u32 units_of(const struct loss *loss, u64 block, u64 first, u64 end)
{
	u64 start = block * loss->block_sectors;
	u32 low = first > start ? (u32)((first - start) / loss->unit_sectors) : 0;
	u64 stop = smaller(end - start, loss->block_sectors);
	u32 high = (u32)((stop + loss->unit_sectors - 1) / loss->unit_sectors);

	return ((1U << high) - 1) & ~((1U << low) - 1);
}

/* Takes a record out of the list by age; its block's list is the caller's. */
static void release(struct loss *loss, u32 index)
{
	struct loss_record *record = &loss->record[index];

	if (record->previous)
		loss->record[record->previous].next = record->next;
	else
		loss->oldest = record->next;
	if (record->next)
		loss->record[record->next].previous = record->previous;
	else
		loss->newest = record->previous;
	record->next = loss->free;
	loss->free = index;
	loss->live--;
}

/* These units of the block are durable, as far as commands up to `sequence` wrote them. */
static void close_units(struct loss *loss, u64 block, u32 units, u64 sequence)
{
	u32 *link = &loss->head[block];

	while (*link) {
		struct loss_record *record = &loss->record[*link];
		u32 index = *link;

		if (record->sequence <= sequence)
			record->open &= ~units;
		if (record->open) {
			link = &record->older;
		} else {
			*link = record->older;
			release(loss, index);
		}
	}
}

static void apply(struct loss *loss, const struct disk_durable *mark)
{
	u64 end = smaller(mark->sector + mark->sectors, loss->sectors);
	u64 block, first, last;
	u32 index, next;

	if (!loss->live || mark->sector >= end)
		return;
	first = mark->sector / loss->block_sectors;
	last = (end - 1) / loss->block_sectors;
	if (last - first < loss->live) {
		for (block = first; block <= last; block++)
			if (loss->head[block])
				close_units(loss, block, units_of(loss, block, mark->sector, end), mark->sequence);
		return;
	}
	/* A flush of the whole disk: fewer records than blocks. From the oldest on, up to the flush. */
	for (index = loss->oldest; index && loss->record[index].sequence <= mark->sequence; index = next) {
		struct loss_record *record = &loss->record[index];

		block = record->block;
		next = record->next;
		if (block < first || block > last)
			continue;
		/* Only this record: the others of its block have their own turn. */
		record->open &= ~units_of(loss, block, mark->sector, end);
		if (!record->open) {
			u32 *link = &loss->head[block];

			while (*link != index)
				link = &loss->record[*link].older;
			*link = record->older;
			release(loss, index);
		}
	}
}

static bool sooner(const struct loss_mark *a, const struct loss_mark *b)
{
	return a->durable.at_ns != b->durable.at_ns ? a->durable.at_ns < b->durable.at_ns : a->order < b->order;
}

static void mark_push(struct loss *loss, const struct disk_durable *durable)
{
	struct loss_mark mark = { .durable = *durable, .order = loss->mark_order++ };
	u32 at;

	if (loss->marks == MARKS_LIMIT) {
		loss->marks_lost++;
		return;
	}
	at = loss->marks++;
	while (at && sooner(&mark, &loss->mark[(at - 1) / 2])) {
		loss->mark[at] = loss->mark[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	loss->mark[at] = mark;
}

static void mark_pop(struct loss *loss)
{
	struct loss_mark last = loss->mark[--loss->marks];
	u32 at = 0;

	for (;;) {
		u32 below = 2 * at + 1;

		if (below >= loss->marks)
			break;
		if (below + 1 < loss->marks && sooner(&loss->mark[below + 1], &loss->mark[below]))
			below++;
		if (!sooner(&loss->mark[below], &last))
			break;
		loss->mark[at] = loss->mark[below];
		at = below;
	}
	loss->mark[at] = last;
}

static void catch_up(struct loss *loss, u64 now_ns)
{
	loss->now_ns = platform_later(loss->now_ns, now_ns);
	while (loss->marks && loss->mark[0].durable.at_ns <= loss->now_ns) {
		struct disk_durable mark = loss->mark[0].durable;

		mark_pop(loss);
		apply(loss, &mark);
	}
}

void loss_durable(struct loss *loss, const struct disk_durable *mark)
{
	if (mark->at_ns <= loss->now_ns)
		apply(loss, mark);
	else
		mark_push(loss, mark);
}

void loss_settle(struct loss *loss, u64 sector, u64 sectors)
{
	struct disk_durable mark = { .sector = sector, .sectors = sectors, .sequence = U64_MAX };

	apply(loss, &mark);
}

static u32 take_record(struct loss *loss)
{
	u32 index = loss->free;

	if (index) {
		loss->free = loss->record[index].next;
		return index;
	}
	if (loss->used < loss->limit)
		return ++loss->used;
	loss->settled_blocks++;
	index = loss->oldest;
	close_units(loss, loss->record[index].block, ~0U, loss->record[index].sequence);
	index = loss->free;
	loss->free = loss->record[index].next;
	return index;
}

static int note_block(struct loss *loss, u64 sequence, u64 block, u32 units)
{
	u32 index = take_record(loss);
	struct loss_record *record = &loss->record[index];
	u64 start = block * loss->block_sectors;
	struct content_vector vector = { .base = image_of(loss, index) };

	record->sequence = sequence;
	record->block = block;
	record->open = units;
	record->older = loss->head[block];
	loss->head[block] = index;
	record->previous = loss->newest;
	record->next = 0;
	if (loss->newest)
		loss->record[loss->newest].next = index;
	else
		loss->oldest = index;
	loss->newest = index;
	loss->live++;
	vector.length = smaller(loss->block_sectors, loss->sectors - start) * STRATA_SECTOR_BYTES;
	return blocks_read(loss->blocks, start, &vector, 1);
}

int loss_note(struct loss *loss, u64 now_ns, u64 sequence, u64 sector, u64 sectors)
{
	u64 block, end = sector + sectors;
	int error = 0;

	catch_up(loss, now_ns);
	for (block = sector / loss->block_sectors; block * loss->block_sectors < end && !error; block++)
		error = note_block(loss, sequence, block, units_of(loss, block, sector, end));
	return error;
}

enum outcome { NOTHING, EVERYTHING, BEGINNING, SCATTERED };

/* Which units of one write were destaged in time. */
struct draw {
	enum outcome outcome;
	u64 random;
	u64 units;
};

static struct draw draw_for(u64 seed, u64 sequence, u64 units)
{
	u64 random = platform_mix(seed ^ platform_mix(sequence));
	struct draw draw = { .outcome = (enum outcome)(random % (units > 1 ? 4 : 2)), .random = random / 4, .units = units };

	return draw;
}

static bool survives(const struct draw *draw, u64 unit)
{
	switch (draw->outcome) {
	case NOTHING:
		return false;
	case EVERYTHING:
		return true;
	case BEGINNING:
		return unit <= draw->random % (draw->units - 1);
	default:
		return platform_mix(draw->random + unit) & 1;
	}
}

/* Swaps the content of one unit with the content kept in the record. */
static int swap(struct loss *loss, u32 index, u32 unit)
{
	u64 sector = loss->record[index].block * loss->block_sectors + (u64)unit * loss->unit_sectors;
	u64 room = (loss->sectors - sector) * STRATA_SECTOR_BYTES, bytes = loss->unit_sectors * STRATA_SECTOR_BYTES;
	u8 *kept = image_of(loss, index) + unit * bytes;
	struct content_vector now = { .base = loss->spare, .length = bytes < room ? bytes : room };
	struct content_vector then = { .base = kept, .length = now.length };
	int error = blocks_read(loss->blocks, sector, &now, 1);

	if (!error)
		error = blocks_write(loss->blocks, sector, &then, 1);
	memcpy(kept, loss->spare, now.length);
	return error;
}

static int undo_all(struct loss *loss)
{
	u32 index, unit;
	int error = 0;

	for (index = loss->newest; index; index = loss->record[index].previous)
		for (unit = 0; unit < 32 && !error; unit++)
			if (loss->record[index].open >> unit & 1)
				error = swap(loss, index, unit);
	return error;
}

static u64 ones(u32 bits)
{
	u64 count = 0;

	for (; bits; bits &= bits - 1)
		count++;
	return count;
}

static u64 open_units(const struct loss *loss, u32 index)
{
	u64 sequence = loss->record[index].sequence, units = 0;

	for (; index && loss->record[index].sequence == sequence; index = loss->record[index].next)
		units += ones(loss->record[index].open);
	return units;
}

/* Does again what survives of the write that begins at record *index, which is moved to the next write. */
static int redo(struct loss *loss, u32 *index, u64 seed, u64 *kept)
{
	u64 sequence = loss->record[*index].sequence, at = 0;
	struct draw draw = draw_for(seed, sequence, open_units(loss, *index));
	int error = 0;
	u32 unit;

	*kept = 0;
	for (; *index && loss->record[*index].sequence == sequence; *index = loss->record[*index].next) {
		for (unit = 0; unit < 32 && !error; unit++) {
			if (!(loss->record[*index].open >> unit & 1))
				continue;
			if (survives(&draw, at++)) {
				error = swap(loss, *index, unit);
				(*kept)++;
			}
		}
	}
	return error;
}

int loss_cut(struct loss *loss, u64 at_ns, u64 seed, bool (*acknowledged)(void *owner, u64 sequence), void *owner,
	     struct loss_report *report)
{
	u32 index;
	int error;

	memset(report, 0, sizeof(*report));
	catch_up(loss, at_ns);
	error = undo_all(loss);
	for (index = loss->oldest; index && !error;) {
		u64 sequence = loss->record[index].sequence, units = open_units(loss, index), kept;

		error = redo(loss, &index, seed, &kept);
		report->open++;
		if (kept == units)
			report->kept++;
		else if (kept)
			report->torn++;
		else
			report->lost++;
		report->lost_acknowledged += kept < units && acknowledged(owner, sequence);
	}
	report->settled_blocks = loss->settled_blocks;
	return error;
}
