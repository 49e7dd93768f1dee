/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A RAID controller: a write cache that a battery keeps, in front of an array of member disks.
 *
 * Write   waits for room in the cache (part: cache), then overhead and link: acknowledged, and durable, for the battery keeps it.
 *         What it covers is dirty; writing it again needs no more room in the end.
 * Read    wholly dirty: from the cache (overhead, link; a cache hit). Else from the members, then overhead and link.
 * Flush   overhead: there is nothing volatile. The members' own caches are off, or passed by with FUA.
 * Destage from high_percent of the cache used (dirty or being destaged) until low_percent are dirty; and when no command has come
 *         for idle_ns. One sweep over the addresses, again and again (C-SCAN). Each destage takes one run of dirty sectors: with
 *         parity whole rows if it can, else the part of one row; without, at most destage_bytes a member. At once: destage_depth
 *         of them for each member.
 * Without battery (battery=0, a dead one or a learn cycle), or of a write larger than the cache: through to the members.
 *
 * The processor takes interval_ns a command, one after the other; overhead_ns comes on top and overlaps. Commands that the members
 * serve are charged both when the members are done, not before: the sum is the same.
 */
#ifndef STRATA_CONTROLLER_H
#define STRATA_CONTROLLER_H

#include "model.h"
#include "array.h"

struct controller_config {
	/* Every member is like this one: the lines `member.key=value`. Allocated when the first is read; belongs to the configuration. */
	struct disk_config *member;
	struct array array;
	u64 stripe_bytes;
	u64 cache_bytes;
	u64 overhead_ns;
	u64 interval_ns;
	u64 link_bytes_per_s;
	u64 idle_ns;
	u64 destage_bytes;
	u32 destage_depth;
	u32 high_percent;
	u32 low_percent;
	bool battery;
};

#endif
