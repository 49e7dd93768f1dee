/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Recognisable content of a block: it is kept as one word instead of 4 KiB.
 *
 *     word       one 8-byte word over and over: zeros, fio's zero_buffers and buffer_pattern of 1, 2, 4 or 8 bytes
 *     counter    word i is platform_mix(key + i): looks random, cannot be compressed, and can be recognised, since platform_mix
 *                has an inverse. For load generators.
 */
#ifndef STRATA_PATTERN_H
#define STRATA_PATTERN_H

#include "platform.h"

#define PATTERN_BLOCK_BYTES 4096U

enum pattern_kind {
	PATTERN_NONE,
	PATTERN_WORD,
	PATTERN_COUNTER
};

/* The kind of the block; value is the word or the key. The block need not be aligned. */
enum pattern_kind pattern_find(const void *block, u64 *value);
/* Makes `bytes` bytes of such a block from its byte `from` on. */
void pattern_fill(enum pattern_kind kind, u64 value, void *to, u32 from, u32 bytes);
u64 pattern_unmix(u64 x);	/* the inverse of platform_mix */

#endif
