/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place where the models meet their surroundings: the kernel's types or the C library's. The models use nothing else, read no
 * clock, allocate nothing and do integer arithmetic only, so that the kernel and the user-space library cannot differ.
 */
#ifndef STRATA_PLATFORM_H
#define STRATA_PLATFORM_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/string.h>
#include <linux/limits.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
#define U64_MAX UINT64_MAX
#endif

#define STRATA_SECTOR_BYTES 512ULL

#endif
