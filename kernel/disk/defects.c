// SPDX-License-Identifier: GPL-2.0
/* Bad sectors: rules in defects.h. */
#include "defects.h"

static bool of_content(const struct disk_fault *fault)
{
	return fault->kind == FAULT_UNREADABLE || fault->kind == FAULT_CORRUPT;
}

static size_t bitmap_bytes(const struct disk_fault *fault)
{
	return fault->sectors / 8 + 1;
}

bool defects_add(struct defects *defects, u32 index)
{
	const struct disk_fault *fault = &defects->faults->fault[index];

	if (fault->kind == FAULT_GONE && fault->from_ns < defects->gone_ns)
		defects->gone_ns = fault->from_ns;
	if (!of_content(fault))
		return true;
	defects->written[index] = platform_alloc(bitmap_bytes(fault));
	return defects->written[index] != NULL;
}

bool defects_open(struct defects *defects, const struct disk_faults *faults, u64 seed)
{
	u32 i;

	memset(defects, 0, sizeof(*defects));
	defects->faults = faults;
	defects->seed = seed;
	defects->gone_ns = U64_MAX;
	for (i = 0; i < faults->count; i++) {
		if (defects_add(defects, i))
			continue;
		defects_close(defects);
		return false;
	}
	return true;
}

/* Faults that have not begun stay: the earliest of them. */
void defects_back(struct defects *defects, u64 now_ns)
{
	u32 i;

	defects->gone_ns = U64_MAX;
	for (i = 0; i < defects->faults->count; i++) {
		const struct disk_fault *fault = &defects->faults->fault[i];

		if (fault->kind == FAULT_GONE && fault->from_ns > now_ns && fault->from_ns < defects->gone_ns)
			defects->gone_ns = fault->from_ns;
	}
}

void defects_close(struct defects *defects)
{
	u32 i;

	for (i = 0; i < DISK_FAULTS_LIMIT; i++)
		if (defects->written[i])
			platform_free(defects->written[i], bitmap_bytes(&defects->faults->fault[i]));
	memset(defects, 0, sizeof(*defects));
}

static bool was_written(const struct defects *defects, u32 index, u64 offset)
{
	return defects->written[index][offset / 8] >> offset % 8 & 1;
}

/* The first sector of the fault that is among these, and the end; false when there is none. */
static bool overlap(const struct disk_fault *fault, u64 sector, u64 sectors, u64 *from, u64 *end)
{
	*from = platform_later(sector, fault->first_sector);
	*end = sector + sectors;
	if (*end > fault->first_sector + fault->sectors)
		*end = fault->first_sector + fault->sectors;
	return *from < *end;
}

bool defects_unreadable(const struct defects *defects, u64 sector, u64 sectors)
{
	u64 at, end;
	u32 i;

	for (i = 0; i < defects->faults->count; i++) {
		const struct disk_fault *fault = &defects->faults->fault[i];

		if (fault->kind != FAULT_UNREADABLE || !overlap(fault, sector, sectors, &at, &end))
			continue;
		for (; at < end; at++)
			if (!was_written(defects, i, at - fault->first_sector))
				return true;
	}
	return false;
}

/* Changes every word of one sector, which may lie in several vectors. */
static void spoil_sector(u64 key, u64 skip, const struct content_vector *vector)
{
	u32 done;

	while (skip >= vector->length)
		skip -= (vector++)->length;
	for (done = 0; done < STRATA_SECTOR_BYTES; done++) {
		((u8 *)vector->base)[skip] ^= (u8)(platform_mix(key + done) | 1);
		if (++skip == vector->length) {
			vector++;
			skip = 0;
		}
	}
}

/* Another one for each fault: the same twice would undo it. */
static u64 spoil_key(const struct defects *defects, u32 index, u64 sector)
{
	return platform_mix(defects->seed ^ platform_mix(sector)) + (u64)index * STRATA_SECTOR_BYTES;
}

void defects_spoil(const struct defects *defects, u64 now_ns, u64 sector, const struct content_vector *vector, u32 count)
{
	u64 at, end, bytes = 0;
	u32 i;

	for (i = 0; i < count; i++)
		bytes += vector[i].length;
	for (i = 0; i < defects->faults->count; i++) {
		const struct disk_fault *fault = &defects->faults->fault[i];

		if (fault->kind != FAULT_CORRUPT || now_ns < fault->from_ns ||
		    !overlap(fault, sector, bytes / STRATA_SECTOR_BYTES, &at, &end))
			continue;
		for (; at < end; at++)
			if (!was_written(defects, i, at - fault->first_sector))
				spoil_sector(spoil_key(defects, i, at), (at - sector) * STRATA_SECTOR_BYTES, vector);
	}
}

void defects_written(struct defects *defects, u64 now_ns, u64 sector, u64 sectors)
{
	u64 at, end;
	u32 i;

	for (i = 0; i < defects->faults->count; i++) {
		const struct disk_fault *fault = &defects->faults->fault[i];

		if (!of_content(fault) || now_ns < fault->from_ns || !overlap(fault, sector, sectors, &at, &end))
			continue;
		for (; at < end; at++)
			defects->written[i][(at - fault->first_sector) / 8] |= (u8)(1U << (at - fault->first_sector) % 8);
	}
}
