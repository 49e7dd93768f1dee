/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults of the content (faults.h): sectors that cannot be read, and sectors that read as something else, until they are written
 * again. The blocks under them stay as they are.
 */
#ifndef STRATA_DEFECTS_H
#define STRATA_DEFECTS_H

#include "blocks.h"
#include "faults.h"

struct defects {
	const struct disk_faults *faults;
	u64 seed;
	u64 gone_ns;				/* U64_MAX: never */
	u8 *written[DISK_FAULTS_LIMIT];		/* a bit for each sector: it was written again */
};

bool defects_open(struct defects *defects, const struct disk_faults *faults, u64 seed);
/* Takes one more of the faults into account; false when there is no memory. */
bool defects_add(struct defects *defects, u32 index);
/* A disk that is gone by now_ns is there again. */
void defects_back(struct defects *defects, u64 now_ns);
void defects_close(struct defects *defects);
bool defects_unreadable(const struct defects *defects, u64 sector, u64 sectors);
/* Changes the data read from the corrupt sectors among these, the same way each time. */
void defects_spoil(const struct defects *defects, u64 now_ns, u64 sector, const struct content_vector *vector, u32 count);
void defects_written(struct defects *defects, u64 now_ns, u64 sector, u64 sectors);

#endif
