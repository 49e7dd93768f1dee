// SPDX-License-Identifier: GPL-2.0
/* The moment when the power is lost: rules in loss.h. */
#include "loss.h"

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
	u8 *kept = loss_image(loss, index) + unit * bytes;
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
	loss_catch_up(loss, at_ns);
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
