// SPDX-License-Identifier: GPL-2.0
/* Content of a modelled disk: rules in content.h. */
#include "content.h"

bool content_open(struct content *content, const struct disk_config *config, const struct content_store *store, bool plain, bool armed)
{
	memset(content, 0, sizeof(*content));
	if (!blocks_open(&content->blocks, store, config->capacity_sectors, plain))
		return false;
	if (!defects_open(&content->defects, &config->faults, config->seed))
		goto close_blocks;
	content->armed = armed && !plain;
	if (!content->armed || loss_open(&content->loss, &content->blocks, config->atomic_unit_bytes))
		return true;
	defects_close(&content->defects);
close_blocks:
	blocks_close(&content->blocks);
	return false;
}

void content_close(struct content *content)
{
	if (content->armed)
		loss_close(&content->loss);
	defects_close(&content->defects);
	blocks_close(&content->blocks);
}

static u64 sectors_of(const struct content_vector *vector, u32 count)
{
	u64 bytes = 0;

	while (count--)
		bytes += vector[count].length;
	return bytes / STRATA_SECTOR_BYTES;
}

int content_flush(const struct content *content, u64 now_ns)
{
	return now_ns >= content->defects.gone_ns ? CONTENT_GONE : 0;
}

int content_read(struct content *content, u64 now_ns, u64 sector, const struct content_vector *vector, u32 count)
{
	bool sound = content->defects.faults->count == 0;
	int error;

	if (!sound && now_ns >= content->defects.gone_ns)
		return CONTENT_GONE;
	if (!sound && defects_unreadable(&content->defects, sector, sectors_of(vector, count)))
		return CONTENT_UNREADABLE;
	error = blocks_read(&content->blocks, sector, vector, count);
	if (!error && !sound)
		defects_spoil(&content->defects, now_ns, sector, vector, count);
	return error;
}

int content_write(struct content *content, u64 now_ns, u64 sequence, u64 sector, const struct content_vector *vector, u32 count)
{
	u64 sectors = sectors_of(vector, count);
	int error = 0;

	if (now_ns >= content->defects.gone_ns)
		return CONTENT_GONE;
	if (content->armed)
		error = loss_note(&content->loss, now_ns, sequence, sector, sectors);
	if (!error)
		error = blocks_write(&content->blocks, sector, vector, count);
	if (!error)
		defects_written(&content->defects, now_ns, sector, sectors);
	return error;
}

int content_erase(struct content *content, u64 now_ns, u64 sector, u64 sectors)
{
	if (now_ns >= content->defects.gone_ns)
		return CONTENT_GONE;
	if (content->armed)
		loss_settle(&content->loss, sector, sectors);
	defects_written(&content->defects, now_ns, sector, sectors);
	return blocks_erase(&content->blocks, sector, sectors);
}

const char *content_fault(struct content *content, struct disk_config *config, u64 now_ns, const char *at, const char *end)
{
	struct disk_faults *faults = &config->faults;
	const char *wrong;

	if (end - at == 4 && !memcmp(at, "back", 4)) {
		if (now_ns < content->defects.gone_ns)
			return "the disk is not gone";
		defects_back(&content->defects, now_ns);
		return NULL;
	}
	wrong = disk_faults_read_now(config, now_ns, at, end);
	if (wrong)
		return wrong;
	if (!defects_add(&content->defects, faults->count))
		return "no memory";
	faults->ignores_flush = faults->ignores_flush || faults->fault[faults->count].kind == FAULT_IGNORES_FLUSH;
	faults->count++;
	return NULL;
}

void content_durable(void *content, const struct disk_durable *mark)
{
	struct content *of = content;

	loss_durable(&of->loss, mark);
}
