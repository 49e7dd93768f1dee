/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The seam between a disk's mechanism and everything around it.
 *
 *     complete_at_ns = submit(model, now_ns, io, account)
 *
 * A model is told when the mechanism starts to serve an I/O and says when it will be done. It knows neither clock nor queue (queue.h).
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

/* One I/O. The `track` and `angle_ns` fields belong to the model, which fills them in prepare(). */
struct disk_io {
	enum disk_op op;
	u32 sectors;
	u64 sector;
	u64 angle_ns;
	u32 track;
};

/*
 * Where the time of completed requests went, in ns, and how many there were. For every single request
 *
 *     queue + overhead + seek + rotation + transfer + flush = completion - arrival
 *
 * so the sums obey the same identity. Overhead is counted in full for each command even though that of a queued command overlaps the
 * media work of the one before: the overlap shortens the part that is called queue, which is what is left of the wait between
 * (arrival + overhead) and the moment when the mechanism turns to the command. A flush is all `flush`. The crossing of tracks
 * inside a transfer is `transfer`, settling before a write is `seek`. `busy` is the time with at least one request outstanding and is no
 * part of the identity.
 */
struct disk_account {
	u64 reads;
	u64 read_bytes;
	u64 writes;
	u64 write_bytes;
	u64 flushes;
	u64 discards;
	u64 queue_ns;
	u64 overhead_ns;
	u64 seek_ns;
	u64 rotation_ns;
	u64 transfer_ns;
	u64 flush_ns;
	u64 busy_ns;
};

#define DISK_ACCOUNT_KEYS 13
extern const char *const disk_account_names[DISK_ACCOUNT_KEYS];	/* in the order of the fields above */

struct disk_model;

struct disk_model_ops {
	const char *name;
	/* Completes without waiting: the driver needs neither queue nor timer. */
	bool immediate;
	/* Locates an I/O once, when it arrives. */
	void (*prepare)(const struct disk_model *model, struct disk_io *io);
	/* Time from now_ns until the first sector is under the head: what a queue minimises. */
	u64 (*positioning_ns)(const struct disk_model *model, u64 now_ns, const struct disk_io *io);
	/* Serves an I/O from now_ns on, moves the mechanism, adds the parts to the account, returns when it is done. */
	u64 (*submit)(struct disk_model *model, u64 now_ns, const struct disk_io *io, struct disk_account *account);
};

extern const struct disk_model_ops disk_null_ops;
extern const struct disk_model_ops disk_rotating_ops;

#endif
