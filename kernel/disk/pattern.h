/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recognisable content of a block: of its 4 KiB only a few bytes are kept, from which it can be made again.
 *
 *     word       one 8-byte word over and over: zeros, fio's zero_buffers and buffer_pattern of 1, 2, 4 or 8 bytes
 *     fio        fio's random buffers (lib/rand.c of fio 3.30 and later, with its default of 4 buckets): word 4j + p is w * {1, 2, 3, 5}[p] * r^j
 *     drawn      the load generator's (crates/load/src/data.rs), a kind for each percentage that a compressor saves: word i is
 *                platform_mix(w + i), behind these come words of filler; recognised since platform_mix has an inverse
 *
 * Bytes that are cut from the end of a block are zeros: the last block of a file is cut where the file ends.
 */
#ifndef STRATA_PATTERN_H
#define STRATA_PATTERN_H

#include "platform.h"

#define PATTERN_BLOCK_BYTES 4096U

enum pattern_kind {
	PATTERN_WORD,
	PATTERN_FIO,
	PATTERN_DRAWN,		/* and the percentage */
	PATTERN_KINDS = PATTERN_DRAWN + 101
};

struct pattern {
	u32 kind;
	u32 cut_bytes;		/* below the block's size; 0 for PATTERN_WORD */
	u64 value;		/* w */
};

/* Whether the block can be made again from *found, which is set then. The block need not be aligned. */
bool pattern_find(const void *block, struct pattern *found);
void pattern_make(const struct pattern *pattern, void *block);
u64 pattern_unmix(u64 x);	/* the inverse of platform_mix */

#endif
