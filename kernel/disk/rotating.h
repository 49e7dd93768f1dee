/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The mechanics of a rotating disk: one radial axis of tracks, zones with a constant number of sectors per track, one skew from track to
 * track. The drive around them, with its queue and caches, is drive.h.
 *
 * Angle of a sector    (track * track_skew + sector_in_track * rotation / sectors_per_track) mod rotation
 * Platter phase at t   (t + phase) mod rotation
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
 * Moving to the track after the head's takes track_skew, whatever the curve says: the skew is laid out for this move, and a transfer
 * that is split into two I/Os must not take longer than the whole. A write adds write_settle to every other move.
 *
 * Sectors that were bad in the factory are slipped and cost nothing. A sector that went bad later (a grown defect) lives elsewhere: each
 * pass over it costs the way to its spare and back. One defect is one physical block.
 */
#ifndef STRATA_ROTATING_H
#define STRATA_ROTATING_H

#include "model.h"

#define ROTATING_CURVE_POINTS 512
#define ROTATING_ZONES 64
#define ROTATING_DEFECTS 512

struct rotating_zone {
	u64 first_sector;
	u32 first_track;
	u32 sectors_per_track;
};

struct rotating_defect {
	u64 sector;
	u64 spare_sector;	/* the place of this sector is that of the spare: only the way there counts */
};

struct rotating_config {
	u64 rotation_ns;
	u64 phase_ns;		/* where the platter is at the instant 0 */
	u64 track_skew_ns;
	u64 write_settle_ns;
	u32 tracks;
	u32 zones;
	u32 curve_points;
	u32 defects;
	u32 block_sectors;	/* of a physical block */
	struct rotating_zone zone[ROTATING_ZONES];
	u64 seek_curve_ns[ROTATING_CURVE_POINTS];
	struct rotating_defect defect[ROTATING_DEFECTS];
};

struct rotating_place {
	u32 track;
	u64 angle_ns;
};

/* Where the head is, and the sector that comes after the last one it passed. */
struct rotating_head {
	u32 track;
	u64 sector;
};

struct rotating_work {
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
};

u64 rotating_grid_distance(u32 index);
u64 rotating_seek_ns(const struct rotating_config *config, u64 distance);

/*
 * Draws the phase, uniformly, and the speed, uniformly within `tolerance_ppm`: spindles of a machine do not turn in step. The angle
 * between tracks stays, so their skew in time follows the speed.
 */
void rotating_draw(struct rotating_config *config, u32 tolerance_ppm, u64 seed);
void rotating_place_of(const struct rotating_config *config, u64 sector, struct rotating_place *place);
u64 rotating_move_ns(const struct rotating_config *config, u32 head_track, u32 track, bool write);
/* From when_ns until the angle is below the head. */
u64 rotating_wait_ns(const struct rotating_config *config, u64 when_ns, u64 angle_ns);
/* Reads or writes, starting at now_ns wherever the head is. Adds to work; returns when it is done. */
u64 rotating_access(const struct rotating_config *config, struct rotating_head *head, u64 now_ns, u64 sector, u64 sectors, bool write,
		    struct rotating_work *work);
/* Brings the head before its next sector; returns when it is there. */
u64 rotating_resume(const struct rotating_config *config, struct rotating_head *head, u64 now_ns);
/* How far, at most to end_sector, the head can simply go on from where it is: not over a defect. */
u64 rotating_clear_until(const struct rotating_config *config, const struct rotating_head *head, u64 end_sector);
/*
 * Lets the head go on over whole sectors from *at_ns on, until the next one would end after until_ns or the head is at end_sector. Moves
 * *at_ns to the end of the last sector passed.
 */
void rotating_follow(const struct rotating_config *config, struct rotating_head *head, u64 *at_ns, u64 end_sector, u64 until_ns);
/* The sector after the last one of this sector's track (and zone). */
u64 rotating_track_end(const struct rotating_config *config, u64 sector);

#endif
