// SPDX-License-Identifier: GPL-2.0
/* Content that is worth one word: rules in pattern.h. */
#include "pattern.h"

#define WORD_BYTES 8U
#define WORDS (PATTERN_BLOCK_BYTES / WORD_BYTES)

static u64 word_at(const u8 *bytes, u32 index)
{
	u64 word;

	memcpy(&word, bytes + index * WORD_BYTES, sizeof(word));
	return word;
}

/* The steps of platform_mix backwards; a multiplier's inverse modulo 2^64 stands for a division. */
u64 pattern_unmix(u64 x)
{
	x ^= x >> 31 ^ x >> 62;
	x *= 0x319642b2d24d8ec3ULL;
	x ^= x >> 27 ^ x >> 54;
	x *= 0x96de1b173f119089ULL;
	x ^= x >> 30 ^ x >> 60;
	return x - 0x9e3779b97f4a7c15ULL;
}

/* Nearly all other content is rejected by its second word. */
enum pattern_kind pattern_find(const void *block, u64 *value)
{
	const u8 *bytes = block;
	u64 first = word_at(bytes, 0), second = word_at(bytes, 1), key;
	u32 i;

	if (first == second) {
		*value = first;
		return memcmp(bytes, bytes + WORD_BYTES, PATTERN_BLOCK_BYTES - WORD_BYTES) ? PATTERN_NONE : PATTERN_WORD;
	}
	key = pattern_unmix(first);
	if (second != platform_mix(key + 1))
		return PATTERN_NONE;
	for (i = 2; i < WORDS; i++)
		if (word_at(bytes, i) != platform_mix(key + i))
			return PATTERN_NONE;
	*value = key;
	return PATTERN_COUNTER;
}

void pattern_fill(enum pattern_kind kind, u64 value, void *to, u32 from, u32 bytes)
{
	u8 *at = to;

	if (kind == PATTERN_WORD && value == 0) {
		memset(at, 0, bytes);
		return;
	}
	while (bytes) {
		u64 word = kind == PATTERN_WORD ? value : platform_mix(value + from / WORD_BYTES);
		u32 skip = from % WORD_BYTES;
		u32 part = WORD_BYTES - skip < bytes ? WORD_BYTES - skip : bytes;

		memcpy(at, (const u8 *)&word + skip, part);
		at += part;
		from += part;
		bytes -= part;
	}
}
