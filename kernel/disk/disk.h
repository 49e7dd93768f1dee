/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A modelled disk: commands in, completions out, in order of completion. Its owner (the driver, or the library) keeps one timer
 * at disk_next_ns() and then takes what has completed.
 */
#ifndef STRATA_DISK_H
#define STRATA_DISK_H

#include "config.h"

#define DISK_NONE ((u32)-1)

struct disk_command {
	struct disk_io io;
	u64 arrival_ns;
	u64 complete_ns;
	u64 sequence;			/* 1, 2, 3 ... by arrival */
	struct disk_parts parts;	/* set by the model before disk_finish() */
	u64 model[4];			/* the model's own */
	u32 link[2];			/* the model's own: for lists */
	u32 next_free;
	bool failed;			/* a fault: complete with an I/O error */
	bool overdue;			/* a rotating disk took it because of its age, not of its place */
};

struct disk {
	struct disk_config config;
	void *state;			/* the model's: config.ops->state_bytes() */
	struct disk_account account;
	u64 now_ns;
	u64 busy_since_ns;
	u64 sequence;			/* of the latest command */
	u32 outstanding;		/* accepted, not completed by now_ns */
	u32 undecided;			/* accepted, completion not known yet */
	u32 free;
	u32 heaped;
	u32 heap[DISK_QUEUE_LIMIT];	/* tags, by completion */
	/* Called with each range that has become durable, or NULL. Only power cuts need it. */
	void (*durable)(void *owner, const struct disk_durable *mark);
	void *owner;
	struct disk_command command[DISK_QUEUE_LIMIT];
};

/* After disk->config is set. Returns false when there is no memory. */
bool disk_open(struct disk *disk);
void disk_close(struct disk *disk);
/* Returns the command's tag, or DISK_NONE when queue_depth commands are outstanding. now_ns must never go back. */
u32 disk_add(struct disk *disk, u64 now_ns, const struct disk_io *io);
/* When the owner should look again: U64_MAX while nothing is outstanding. */
u64 disk_next_ns(const struct disk *disk);
/* Brings everything up to now_ns, background work included. */
void disk_advance(struct disk *disk, u64 now_ns);
/* An orderly shutdown, as STANDBY IMMEDIATE asks for it: flushes the disk, and lets it finish. Nothing but disk_close() may follow. */
void disk_rest(struct disk *disk);
/* A command that has completed by now_ns, in order of completion, or DISK_NONE. Its slot is valid until disk_release(). */
u32 disk_take(struct disk *disk, u64 now_ns);
void disk_release(struct disk *disk, u32 tag);
/* Counts a request of a model that completes at once. */
void disk_count(struct disk_account *account, enum disk_op op, u32 sectors);

/* For models: the command is complete at complete_ns >= disk->now_ns; its parts are set. */
void disk_finish(struct disk *disk, u32 tag, u64 complete_ns);
/* For models: reports a range as durable from at_ns on; costs nothing without a listener. */
static inline void disk_durable(const struct disk *disk, u64 sector, u64 sectors, u64 sequence, u64 at_ns)
{
	if (disk->durable) {
		struct disk_durable mark = { .sector = sector, .sectors = sectors, .sequence = sequence, .at_ns = at_ns };

		disk->durable(disk->owner, &mark);
	}
}

#endif
