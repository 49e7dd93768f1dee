/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A rotating disk: one radial axis of tracks, zones with a constant number of sectors per track, one skew from track to track.
 *
 * Angle of a sector    (track * track_skew + sector_in_track * rotation / sectors_per_track) mod rotation
 * Platter phase at t   t mod rotation
 * Sustained rate       sectors_per_track * 512 / (rotation + track_skew)
 * Random read, mean    overhead + E[seek] + rotation / 2 + transfer      (queue depth 1)
 *
 * The seek grid. seek_curve_ns holds the seek time at these distances, in tracks:
 *
 *     g(i) = i + 1                                                               i < 16
 *     g(i) = (16 << o) + ((s + 1) << o),   o = (i - 16) / 16,  s = (i - 16) % 16     i >= 16
 *
 * so 1..32 one by one, then 16 equal steps in every octave (34, 36 .. 64, 68 .. 128, ...). In between, time is interpolated linearly:
 * v0 + (v1 - v0) * (d - g0) / (g1 - g0), the signed quotient truncated towards zero. Distance 0 takes no time.
 *
 * Moving to the track after the head's takes track_skew, whatever the curve says: that is what the skew is laid out for, and a transfer
 * that is split into two I/Os must not take longer than the whole. A write adds write_settle to every other move.
 */
#ifndef STRATA_ROTATING_H
#define STRATA_ROTATING_H

#include "model.h"

#define ROTATING_CURVE_POINTS 512
#define ROTATING_ZONES 64

struct rotating_zone {
	u64 first_sector;
	u32 first_track;
	u32 sectors_per_track;
};

struct rotating_config {
	u64 rotation_ns;
	u64 track_skew_ns;
	u64 write_settle_ns;
	u32 tracks;
	u32 zones;
	u32 curve_points;
	struct rotating_zone zone[ROTATING_ZONES];
	u64 seek_curve_ns[ROTATING_CURVE_POINTS];
};

struct rotating_state {
	u32 track;	/* the head's */
};

u64 rotating_grid_distance(u32 index);
u64 rotating_seek_ns(const struct rotating_config *config, u64 distance);

#endif
