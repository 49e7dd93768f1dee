// SPDX-License-Identifier: GPL-2.0
/* Content that is worth a few bytes: rules in pattern.h. */
#include "pattern.h"

#define WORD_BYTES 8U
#define WORDS (PATTERN_BLOCK_BYTES / WORD_BYTES)
#define FIO_BUCKETS 4U
#define FIO_ROW_BYTES (FIO_BUCKETS * WORD_BYTES)
#define FIO_RATIO 0x61c8864680b583ebULL	/* fio's GOLDEN_RATIO_64 */
#define FILLER 0x203a617461727473ULL	/* "strata: " */

static u64 word_at(const u8 *bytes, u32 index)
{
	u64 word;

	memcpy(&word, bytes + index * WORD_BYTES, sizeof(word));
	return word;
}

static void set_word(u8 *bytes, u32 index, u64 word)
{
	memcpy(bytes + index * WORD_BYTES, &word, sizeof(word));
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

static bool is_zero(const u8 *bytes, u32 from)
{
	while (from < PATTERN_BLOCK_BYTES && from % WORD_BYTES)
		if (bytes[from++])
			return false;
	for (; from < PATTERN_BLOCK_BYTES; from += WORD_BYTES)
		if (word_at(bytes, from / WORD_BYTES))
			return false;
	return true;
}

/* Random words of a block of which a compressor saves this much. */
static u32 drawn_words(u32 percent)
{
	u32 bytes = PATTERN_BLOCK_BYTES * (100 - percent) / 100;

	return bytes > WORD_BYTES ? (bytes + WORD_BYTES - 1) / WORD_BYTES : 1;
}

/* The percentage for this many random words; 0 for a number that no percentage has. */
static u32 drawn_percent(u32 words)
{
	u32 percent = 100 - ((words * WORD_BYTES + 1) * 100 - 1) / PATTERN_BLOCK_BYTES;

	return drawn_words(percent) == words ? percent : 0;
}

/* Whether the block ends within word `index`, which would be `word` if it went on, and all behind is zeros. */
static bool ends_in(const u8 *bytes, u32 index, u64 word, struct pattern *found)
{
	u8 would[WORD_BYTES];
	u32 same = 0;

	memcpy(would, &word, sizeof(word));
	while (same < WORD_BYTES && bytes[index * WORD_BYTES + same] == would[same])
		same++;
	found->cut_bytes = PATTERN_BLOCK_BYTES - index * WORD_BYTES - same;
	return is_zero(bytes, index * WORD_BYTES + same);
}

static bool find_drawn(const u8 *bytes, struct pattern *found)
{
	u64 key = pattern_unmix(word_at(bytes, 0));
	u32 words = 1, end, percent;

	while (words < WORDS && word_at(bytes, words) == platform_mix(key + words))
		words++;
	percent = words < WORDS ? drawn_percent(words) : 0;
	for (end = words; percent && end < WORDS && word_at(bytes, end) == FILLER;)
		end++;
	found->value = key;
	found->cut_bytes = 0;
	found->kind = PATTERN_DRAWN + percent;
	if (end == WORDS || (percent && ends_in(bytes, end, FILLER, found)))
		return true;
	found->kind = PATTERN_DRAWN;
	return end == words && ends_in(bytes, end, platform_mix(key + words), found);
}

static void make_drawn(const struct pattern *pattern, u8 *bytes)
{
	u32 words = drawn_words(pattern->kind - PATTERN_DRAWN), i;

	for (i = 0; i < words; i++)
		set_word(bytes, i, platform_mix(pattern->value + i));
	for (; i < WORDS; i++)
		set_word(bytes, i, FILLER);
}

static void fio_start(u64 *word, u64 value)
{
	word[0] = value;
	word[1] = value * 2;
	word[2] = value * 3;
	word[3] = value * 5;
}

/*
 * Whether the block is what fio's __fill_random_buf() writes into `bytes` bytes, and zeros behind them, which is known. Behind the last
 * whole row of buckets only the first bucket goes on.
 */
static bool is_fio(const u8 *block, u32 bytes)
{
	u32 rows_end = bytes / FIO_ROW_BYTES * FIO_BUCKETS, i, bucket;
	u64 word[FIO_BUCKETS];

	fio_start(word, word_at(block, 0));
	for (i = 0; i < rows_end; i += FIO_BUCKETS) {
		u64 wrong = 0;

		for (bucket = 0; bucket < FIO_BUCKETS; bucket++) {
			wrong |= word_at(block, i + bucket) ^ word[bucket];
			word[bucket] *= FIO_RATIO;
		}
		if (wrong)
			return false;
	}
	for (; i < bytes / WORD_BYTES; i++, word[0] *= FIO_RATIO)
		if (word_at(block, i) != word[0])
			return false;
	return !memcmp(block + i * WORD_BYTES, word, bytes % WORD_BYTES);
}

static bool find_fio(const u8 *bytes, struct pattern *found)
{
	u32 end = PATTERN_BLOCK_BYTES, whole;
	u64 word[FIO_BUCKETS];

	fio_start(word, word_at(bytes, 0));
	if (memcmp(bytes, word, sizeof(word)))
		return false;
	while (!bytes[end - 1])	/* comes to an end: the first word is not zero */
		end--;
	whole = (end + FIO_ROW_BYTES - 1) / FIO_ROW_BYTES * FIO_ROW_BYTES;	/* its last bytes may be zero */
	if (is_fio(bytes, whole))
		end = whole;
	else if (!is_fio(bytes, end))
		return false;
	found->kind = PATTERN_FIO;
	found->value = word[0];
	found->cut_bytes = PATTERN_BLOCK_BYTES - end;
	return true;
}

static void make_fio(const struct pattern *pattern, u8 *bytes)
{
	u32 rows_end = (PATTERN_BLOCK_BYTES - pattern->cut_bytes) / FIO_ROW_BYTES * FIO_BUCKETS, i;
	u64 word[FIO_BUCKETS];

	fio_start(word, pattern->value);
	for (i = 0; i < rows_end; i++) {
		set_word(bytes, i, word[i % FIO_BUCKETS]);
		word[i % FIO_BUCKETS] *= FIO_RATIO;
	}
	for (; i < WORDS; i++, word[0] *= FIO_RATIO)
		set_word(bytes, i, word[0]);
}

/* Nearly all other content is rejected by its second word. */
bool pattern_find(const void *block, struct pattern *found)
{
	const u8 *bytes = block;

	found->kind = PATTERN_WORD;
	found->cut_bytes = 0;
	found->value = word_at(bytes, 0);
	if (found->value == word_at(bytes, 1) && !memcmp(bytes, bytes + WORD_BYTES, PATTERN_BLOCK_BYTES - WORD_BYTES))
		return true;
	return (found->value && find_fio(bytes, found)) || find_drawn(bytes, found);
}

void pattern_make(const struct pattern *pattern, void *block)
{
	u8 *bytes = block;
	u32 i;

	if (pattern->kind == PATTERN_WORD)
		for (i = 0; i < WORDS; i++)
			set_word(bytes, i, pattern->value);
	else if (pattern->kind == PATTERN_FIO)
		make_fio(pattern, bytes);
	else
		make_drawn(pattern, bytes);
	memset(bytes + PATTERN_BLOCK_BYTES - pattern->cut_bytes, 0, pattern->cut_bytes);
}
