/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place where the models meet their surroundings: the kernel's types or the C library's. The models use nothing else, read no
 * clock and do integer arithmetic only, so that the kernel and the user-space library cannot differ.
 */
#ifndef STRATA_PLATFORM_H
#define STRATA_PLATFORM_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/string.h>
#include <linux/limits.h>
#include <linux/stddef.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#define U64_MAX UINT64_MAX
#endif

#define STRATA_SECTOR_BYTES 512ULL

/*
 * Zeroed memory of the host, which is committed where it is touched: the map of a large flash drive costs its used part,
 * and in the lab nothing of the modelled machine's own memory. NULL when there is none.
 */
void *platform_alloc(size_t bytes);
void platform_free(void *memory, size_t bytes);

static inline u64 platform_later(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 platform_divide_up(u64 value, u64 by)
{
	return value / by + (value % by > 0);
}

/* How long bytes take at a rate of 1 .. 2^34 bytes/s, rounded up; the bounds keep the product below 2^64. */
static inline u64 platform_transfer_ns(u64 bytes, u64 bytes_per_s)
{
	return bytes / bytes_per_s * 1000000000ULL + platform_divide_up(bytes % bytes_per_s * 1000000000ULL, bytes_per_s);
}

/* A bijection that scatters: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
static inline u64 platform_mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

#endif
