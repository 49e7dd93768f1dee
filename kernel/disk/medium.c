// SPDX-License-Identifier: GPL-2.0
/* Content of a modelled disk: rules in medium.h. */
#include "medium.h"

bool medium_open(struct medium *medium, const struct disk_config *config, const struct medium_store *store, bool plain, bool armed)
{
	memset(medium, 0, sizeof(*medium));
	if (!blocks_open(&medium->blocks, store, config->capacity_sectors, plain))
		return false;
	if (!defects_open(&medium->defects, &config->faults, config->seed))
		goto close_blocks;
	medium->armed = armed && !plain;
	if (!medium->armed || loss_open(&medium->loss, &medium->blocks, config->atomic_unit_bytes))
		return true;
	defects_close(&medium->defects);
close_blocks:
	blocks_close(&medium->blocks);
	return false;
}

void medium_close(struct medium *medium)
{
	if (medium->armed)
		loss_close(&medium->loss);
	defects_close(&medium->defects);
	blocks_close(&medium->blocks);
}

static u64 sectors_of(const struct medium_vector *vector, u32 count)
{
	u64 bytes = 0;

	while (count--)
		bytes += vector[count].length;
	return bytes / STRATA_SECTOR_BYTES;
}

int medium_flush(const struct medium *medium, u64 now_ns)
{
	return now_ns >= medium->defects.gone_ns ? MEDIUM_GONE : 0;
}

int medium_read(struct medium *medium, u64 now_ns, u64 sector, const struct medium_vector *vector, u32 count)
{
	bool sound = medium->defects.faults->count == 0;
	int error;

	if (!sound && now_ns >= medium->defects.gone_ns)
		return MEDIUM_GONE;
	if (!sound && defects_unreadable(&medium->defects, sector, sectors_of(vector, count)))
		return MEDIUM_UNREADABLE;
	error = blocks_read(&medium->blocks, sector, vector, count);
	if (!error && !sound)
		defects_spoil(&medium->defects, now_ns, sector, vector, count);
	return error;
}

int medium_write(struct medium *medium, u64 now_ns, u64 sequence, u64 sector, const struct medium_vector *vector, u32 count)
{
	u64 sectors = sectors_of(vector, count);
	int error = 0;

	if (now_ns >= medium->defects.gone_ns)
		return MEDIUM_GONE;
	if (medium->armed)
		error = loss_note(&medium->loss, now_ns, sequence, sector, sectors);
	if (!error)
		error = blocks_write(&medium->blocks, sector, vector, count);
	if (!error)
		defects_written(&medium->defects, now_ns, sector, sectors);
	return error;
}

int medium_erase(struct medium *medium, u64 now_ns, u64 sector, u64 sectors)
{
	if (now_ns >= medium->defects.gone_ns)
		return MEDIUM_GONE;
	if (medium->armed)
		loss_settle(&medium->loss, sector, sectors);
	defects_written(&medium->defects, now_ns, sector, sectors);
	return blocks_erase(&medium->blocks, sector, sectors);
}

const char *medium_fault(struct medium *medium, struct disk_config *config, u64 now_ns, const char *at, const char *end)
{
	struct disk_faults *faults = &config->faults;
	const char *wrong;

	if (end - at == 4 && !memcmp(at, "back", 4)) {
		if (now_ns < medium->defects.gone_ns)
			return "the disk is not gone";
		defects_back(&medium->defects, now_ns);
		return NULL;
	}
	wrong = disk_faults_read_now(config, now_ns, at, end);
	if (wrong)
		return wrong;
	if (!defects_add(&medium->defects, faults->count))
		return "no memory";
	faults->ignores_flush = faults->ignores_flush || faults->fault[faults->count].kind == FAULT_IGNORES_FLUSH;
	faults->count++;
	return NULL;
}

void medium_durable(void *medium, const struct disk_durable *mark)
{
	struct medium *of = medium;

	loss_durable(&of->loss, mark);
}
