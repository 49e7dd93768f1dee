/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The seam between a disk's mechanism and everything around it.
 *
 * A model gets commands (arrive) and says when each is complete (disk_finish, disk.h). A simple one, such as a flash drive, knows that
 * at once; one that reorders or caches learns it later, at instants that it names itself (next_ns, advance). It never reads a clock: time
 * is an argument, in ns since the disk was opened, and never goes back. So a disk that nobody waits for costs nothing: the work
 * done in the background (destaging, prefetching, cleaning) is computed at the next call.
 */
#ifndef STRATA_MODEL_H
#define STRATA_MODEL_H

#include "platform.h"

enum disk_op {
	DISK_READ,
	DISK_WRITE,
	DISK_FLUSH,
	DISK_DISCARD,
	DISK_OPS
};

#define DISK_FUA 1U	/* a write that is complete only when it would survive the loss of power */

struct disk_io {
	enum disk_op op;
	u32 flags;
	u64 sector;
	u32 sectors;
};

/*
 * Where the time of one request went, in ns. For every single request the parts add up to completion - arrival.
 *
 *     queue      waiting for other commands
 *     overhead   decoding the command; for a volume in the network the way there and back
 *     seek       moving the head, settling included
 *     rotation   waiting for the sector
 *     transfer   moving data: under the head (with track crossings inside a transfer), on a channel, on the link
 *     cell       sensing or programming flash
 *     cache      waiting for room in the write cache
 *     throttle   waiting for tokens
 *     cleaning   waiting for garbage collection, for the cleaning of a shingled band, or for a flash drive's refresh or housekeeping
 *     flush      a flush: all of its time
 *     fault      added by a fault
 */
struct disk_parts {
	u64 queue_ns;
	u64 overhead_ns;
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
	u64 cell_ns;
	u64 cache_ns;
	u64 throttle_ns;
	u64 cleaning_ns;
	u64 flush_ns;
	u64 fault_ns;
};

#define DISK_PARTS 11

/*
 * Cumulative counters: the requests that have completed and their parts, then all work of the disk, whoever waited for it.
 * busy is the time with at least one request outstanding; the others that end in _work_ns are the mechanism's own time (of a drive with
 * several units the sum over them): for reads and writes that were waited for, destaging the write cache, reading ahead,
 * cleaning. media_*_bytes is what passed the heads or the cells, cleaning included: media_write_bytes / write_bytes is the
 * drive's write amplification. destage_seeks counts the destages that moved the head to another track; the three times after it divide
 * destage_work_ns of a drive whose mechanism is a head, and stay 0 elsewhere.
 */
struct disk_account {
	u64 reads;
	u64 read_bytes;
	u64 writes;
	u64 write_bytes;
	u64 flushes;
	u64 discards;
	struct disk_parts parts;
	u64 busy_ns;
	u64 cache_hits;
	u64 command_work_ns;
	u64 destage_work_ns;
	u64 prefetch_work_ns;
	u64 cleaning_work_ns;
	u64 destages;
	u64 cleanings;
	u64 destage_seeks;
	u64 destage_seek_ns;
	u64 destage_rotation_ns;
	u64 destage_transfer_ns;
	u64 media_read_bytes;
	u64 media_write_bytes;
};

#define DISK_ACCOUNT_KEYS (6 + DISK_PARTS + 14)
extern const char *const disk_account_names[DISK_ACCOUNT_KEYS];	/* in the order of the fields above */

/*
 * Data written to these sectors by commands up to `sequence` survive a loss of power from at_ns on (which may lie in the future).
 * sequence is disk_command.sequence of the latest write whose content is meant.
 */
struct disk_durable {
	u64 sector;
	u64 sectors;
	u64 sequence;
	u64 at_ns;
};

struct disk;
struct disk_config;
struct disk_key;
struct nonvolatile;

struct disk_model_ops {
	const char *name;
	bool immediate;			/* completes without waiting: its owner needs no timer */
	const struct disk_key *keys;	/* of the configuration (config.h); the last has no name */
	/* Describes an error in the configuration as a whole, or returns NULL. May fill in values that follow from the keys. */
	const char *(*check)(struct disk_config *config);
	/* Memory for disk->state, zeroed and committed only where it is touched. */
	size_t (*state_bytes)(const struct disk_config *config);
	void (*open)(struct disk *disk);
	void (*close)(struct disk *disk);	/* optional: what open() allocated besides disk->state */
	/* Takes a command at the instant disk->now_ns. */
	void (*arrive)(struct disk *disk, u32 tag);
	/* When the model has something to do next: U64_MAX for never. Background work counts, and is done lazily. NULL: never. */
	u64 (*next_ns)(const struct disk *disk);
	/* Does the work due at the instant disk->now_ns, which next_ns() returned. */
	void (*advance)(struct disk *disk);
	/* Optional. The power is about to go, nothing is outstanding, and a flush has just been completed: does what is left to be done. */
	void (*rest)(struct disk *disk);
	/* Optional. Moves the state that outlives the power, in either direction (nonvolatile.h). */
	void (*nonvolatile)(struct disk *disk, struct nonvolatile *stream);
};

extern const struct disk_model_ops disk_null_ops;
extern const struct disk_model_ops disk_rotating_ops;
extern const struct disk_model_ops disk_flash_ops;
extern const struct disk_model_ops disk_controller_ops;
extern const struct disk_model_ops disk_network_ops;

#endif
