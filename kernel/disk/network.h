/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A volume in the network: tokens of its machine and its own, then the link, then a latency that is drawn.
 *
 *     admitted = the first instant, not before that of the machine's previous command, at which every bucket of the machine holds
 *                the command's cost; without such buckets the arrival
 *     granted  = the first instant, not before admitted and the previous command's, at which every bucket holds the command's cost
 *     sent     = max(granted, link free);  link free = sent + bytes / link
 *     complete = sent + bytes / link + latency(quantile) * (of the tail ? factor of the tail : 1) * (sent is in a slow phase ? factor : 1)
 *
 * Acknowledged writes are durable, so a flush has nothing to do.
 *
 * Buckets. A bucket fills at `rate` tokens a second up to `capacity`. Its level is kept in 10^-9 tokens, so that rate * ns is
 * exact and nothing is ever rounded but the instant of a grant, up to whole ns. A command costs one token of a bucket for
 * operations for each unit_bytes begun, and one token of a bucket for bytes for each sector. A cost above the capacity is waited
 * for and then spent whole.
 * Several buckets make the usual offers: credits (slow, deep) together with a ceiling (fast, shallow).
 *
 * The machine's buckets are one set for all volumes that name the same machine (network_join). They come first and are served in the
 * order in which commands arrive at any of the volumes: whom a volume makes wait keeps no other volume waiting.
 *
 * Latency. Quantiles on a grid that is finer towards both tails: point 128 is the median, and point 128 + j, j = 8 o + s, is
 * exceeded with the probability
 *
 *     q(j) = 2^-(o+1) - s * 2^-(o+5)         o = 0..15, s = 0..7, and q(128) = 2^-17
 *
 * while point 128 - j is undercut with the same one. In between, linear in q; beyond the last point, that point. The draw is a
 * hash of the volume's seed and the command's sequence: no state, hence no order in which it could matter.
 *
 * Tail. Latencies of volumes have a second mode: a part of the reads, and another one of the writes, take a multiple of what was
 * drawn (a write that has to be repeated to a copy, a storage server that collects its flash). Which ones: a second hash of the
 * seed and the sequence.
 *
 * Slow phases. Time is cut into slots of slow_interval_ns. Each holds one phase, drawn by a hash of the seed and the slot's number,
 * likewise without state:
 *
 *     length = uniform in 0 .. 2 * slow_length_ns
 *     start  = uniform in 0 .. slow_interval_ns - length, from the slot's beginning
 *
 * Hence the share of slow time is slow_length_ns / slow_interval_ns, the mean length slow_length_ns, and within a slot the
 * probability that an instant and another one h <= 2 * slow_length_ns later are both slow is
 *
 *     (slow_length_ns - h + h^2 / (4 * slow_length_ns)) / slow_interval_ns
 */
#ifndef STRATA_NETWORK_H
#define STRATA_NETWORK_H

#include "model.h"

#define NETWORK_BUCKETS 4
#define NETWORK_SIDE 128
#define NETWORK_QUANTILES (2 * NETWORK_SIDE + 1)

enum network_token {
	NETWORK_OPERATIONS,
	NETWORK_SECTORS
};

struct network_bucket {
	enum network_token token;
	u64 rate_per_s;
	u64 capacity;
	u64 initial;
};

/* The tokens that are there. */
struct network_levels {
	u64 granted_ns;				/* of the latest command, which may be yet to come: the instant of the levels */
	u64 level[NETWORK_BUCKETS];		/* in 10^-9 tokens */
};

/* Of the commands of one direction. */
struct network_latency {
	u64 table_ns[NETWORK_QUANTILES];
	u32 tail_ppm;			/* the part of them that is in the tail */
	u32 tail_percent;		/* of the drawn latency that these take */
};

struct network_config {
	u64 link_bytes_per_s;		/* 0: takes no time */
	u32 unit_bytes;			/* the largest I/O that counts as one operation */
	u32 buckets;
	struct network_bucket bucket[NETWORK_BUCKETS];
	u32 machine;			/* its number; 0: none that limits */
	u32 machine_buckets;
	struct network_bucket machine_bucket[NETWORK_BUCKETS];
	struct network_latency read;
	struct network_latency write;
	u64 slow_interval_ns;		/* one slow phase in each; 0: none */
	u64 slow_length_ns;		/* mean of a phase, at most half of the interval */
	u32 slow_factor_percent;	/* of the latency during a phase */
};

struct disk;

/* From now on a volume shares the levels of its machine with another one that names the same, and lasts longer; else nothing. */
void network_join(struct disk *disk, const struct disk *other);

/* The quantile that a hash draws from a table. */
u64 network_latency_ns(const u64 *table, u64 hash);

#endif
