/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a modelled disk holds: its sectors' content as the machine sees it, with the faults of the content, and what a loss of power leaves
 * of it. Content is moved when a command is issued; when that is complete is the model's business (disk.h).
 */
#ifndef STRATA_MEDIUM_H
#define STRATA_MEDIUM_H

#include "config.h"
#include "blocks.h"
#include "defects.h"
#include "loss.h"

/* Results besides 0 and the store's negative error numbers. */
#define MEDIUM_UNREADABLE 1
#define MEDIUM_GONE 2

struct medium {
	struct blocks blocks;
	struct defects defects;
	bool armed;		/* the power may be cut: loss is in use */
	struct loss loss;
};

/* plain: the store is a file that somebody else made; it has no index. */
bool medium_open(struct medium *medium, const struct disk_config *config, const struct medium_store *store, bool plain, bool armed);
void medium_close(struct medium *medium);
int medium_read(struct medium *medium, u64 now_ns, u64 sector, const struct medium_vector *vector, u32 count);
/* sequence: of the command that writes. */
int medium_write(struct medium *medium, u64 now_ns, u64 sequence, u64 sector, const struct medium_vector *vector, u32 count);
/* A discard, or zeros without data. */
int medium_erase(struct medium *medium, u64 now_ns, u64 sector, u64 sectors);
int medium_flush(const struct medium *medium, u64 now_ns);
/*
 * A fault of a disk that runs, as faults.h says: `KIND,...` with times from now_ns on, or `back`. The configuration is the medium's own.
 * Returns NULL, or what is wrong with it; then nothing has changed.
 */
const char *medium_fault(struct medium *medium, struct disk_config *config, u64 now_ns, const char *at, const char *end);
/* For disk.durable. */
void medium_durable(void *medium, const struct disk_durable *mark);

#endif
