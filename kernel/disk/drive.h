/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The electronics of a rotating disk: command queue, write cache, read-ahead and link around one mechanism (rotating.h), which does one
 * thing at a time. Whenever it becomes free, and when a command finds it free, it decides what to do next:
 *
 *   1. Commands that need the medium (reads that no buffer holds, writes that go through): the shortest positioning time among
 *      the `window` oldest; the oldest one regardless once it has waited longer than wait_limit, but for at most one in
 *      DRIVE_OVERDUE_EVERY: a drive whose whole queue is overdue goes on choosing.
 *   2. While the write cache is filled above destage_high, or writes wait for room: one destaging for each such command.
 *   3. A flush whose predecessors are complete: destaging until the cache is clean. Nothing that arrives after a flush starts before
 *      the flush is complete, as on SATA, where it is not queued.
 *   4. Nothing waits: after destage_idle without commands it destages; until then it reads ahead, from the end of the last
 *      read on, until the segment holds only sectors that were not asked for yet.
 *   5. A shingled disk (shingle.h) that has stood idle for cleaning_idle, with a clean write cache, cleans its bands. Where there is no
 *      room for a write, cleaning a band comes before it.
 *
 * Destaging one run (at most up to the end of a track) chooses by positioning time among the destage_window dirty runs that are nearest by
 * sector number to where the head is. Nearest, because of thousands of scattered runs the best one is nearly always there (a seek
 * gets longer with the distance, the rotational wait does not depend on it), and the runs are sorted that way.
 *
 * A head that arrives a moment too late waits for a whole turn, and seeks scatter. So the drive chooses as if each seek took
 * positioning_margin longer: it leaves out what it might just reach, and gains less than an ideal one. (Hitachi's patent "Hard disk
 * drive command queue ordering", Espeseth and others, adds the probability of a miss times a turn; a fixed margin is the simplest such
 * rule.) A move to the next track needs none, being laid out for it.
 *
 * Of the writes that wait for room in the cache, one in admission_oldest_every is the oldest; the others are those that the head would
 * reach first. None is taken before an older one to the same sectors, and the oldest at once if it continues a dirty run.
 *
 * The overhead of a command overlaps the media work before it: the mechanism may turn to a command from max(mechanism free, arrival +
 * overhead) on. Commands that arrive at the very instant of a decision come too late for it.
 *
 * A media transfer overlaps that of the link, but for the last piece of a read, and where the link is the slower one. A buffered
 * request takes the link after its own (shorter) overhead, for bytes / link rate, one after the other.
 *
 * A write that does not fill its physical blocks (512-byte sectors emulated on 4096-byte ones) takes one more revolution: the block is
 * read, merged and written.
 */
#ifndef STRATA_DRIVE_H
#define STRATA_DRIVE_H

#include "rotating.h"

/*
 * An estimate. A patent serves "the oldest command in the queue at a constant and predetermined rate", which bounds the waits at a small
 * loss of throughput, and does not say how often.
 */
#define DRIVE_OVERDUE_EVERY 4U

struct drive_config {
	u64 overhead_ns;
	u64 buffer_overhead_ns;		/* of a command that needs only the buffer */
	u64 wait_limit_ns;
	u64 positioning_margin_ns;
	u64 link_bytes_per_s;		/* 0: takes no time */
	u64 write_cache_bytes;
	u64 destage_high_bytes;
	u64 destage_idle_ns;
	u64 read_segment_bytes;
	u64 shingle_cache_bytes;	/* 0: not shingled */
	u64 shingle_band_bytes;
	u64 cleaning_idle_ns;
	u32 speed_tolerance_ppm;
	u32 window;
	u32 admission_oldest_every;
	u32 write_cache_extents;
	u32 destage_window;
	u32 read_segments;
};

#endif
