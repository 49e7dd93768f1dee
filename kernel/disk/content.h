/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The content of a modelled disk: its sectors as the machine sees them, the faults of the content, and the effect of a loss of power
 * on it. Content is moved when a command is issued; the model decides when the command is complete (disk.h).
 */
#ifndef STRATA_CONTENT_H
#define STRATA_CONTENT_H

#include "config.h"
#include "blocks.h"
#include "defects.h"
#include "loss.h"

/* Results besides 0 and the store's negative error numbers. */
#define CONTENT_UNREADABLE 1
#define CONTENT_GONE 2

struct content {
	struct blocks blocks;
	struct defects defects;
	bool armed;		/* the power may be cut: loss is in use */
	struct loss loss;
};

/* plain: the store is a file made by another program; it has no index. */
bool content_open(struct content *content, const struct disk_config *config, const struct content_store *store, bool plain, bool armed);
void content_close(struct content *content);
int content_read(struct content *content, u64 now_ns, u64 sector, const struct content_vector *vector, u32 count);
/* sequence: of the command that writes. */
int content_write(struct content *content, u64 now_ns, u64 sequence, u64 sector, const struct content_vector *vector, u32 count);
/* A discard, or zeros without data. */
int content_erase(struct content *content, u64 now_ns, u64 sector, u64 sectors);
int content_flush(const struct content *content, u64 now_ns);
/*
 * A fault of a disk that runs, as faults.h says: `KIND,...` with times from now_ns on, or `back`. The configuration is the disk's own.
 * Returns NULL, or a description of the error; then nothing has changed.
 */
const char *content_fault(struct content *content, struct disk_config *config, u64 now_ns, const char *at, const char *end);
/* For disk.durable. */
void content_durable(void *content, const struct disk_durable *mark);

#endif
