/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A disk's command queue: shortest positioning time first among the `window` oldest commands, the oldest one regardless once it has waited
 * longer than wait_limit. The overhead of a command overlaps the media work of the one before: the mechanism may turn to a
 * command from max(mechanism free, arrival + overhead) on. A flush is a barrier: it completes when everything that arrived
 * before it has completed, and nothing that arrived after it starts earlier.
 *
 * The queue decides at the instant when the mechanism becomes free, however late its owner calls; commands that arrive at this very instant
 * come too late for that decision. The owner keeps one timer at disk_queue_next_ns().
 */
#ifndef STRATA_QUEUE_H
#define STRATA_QUEUE_H

#include "config.h"

struct disk_model {
	struct disk_config config;
	struct rotating_state rotating;
};

struct disk_command {
	struct disk_io io;
	u64 arrival_ns;
	u64 complete_ns;
	struct disk_account parts;	/* of this command alone */
	u32 next;			/* by arrival, or the next free one */
};

struct disk_queue {
	struct disk_model model;
	struct disk_account account;	/* of completed commands */
	u64 free_ns;			/* the mechanism is free from then on */
	u64 busy_since_ns;
	u32 outstanding;
	u32 head, tail;			/* waiting commands by arrival */
	u32 done_head, done_tail;	/* completed, not yet taken by the owner */
	u32 serving;
	u32 free;
	struct disk_command command[DISK_QUEUE_LIMIT];
};

#define DISK_NONE ((u32)-1)

void disk_queue_init(struct disk_queue *queue);		/* after queue->model.config is set */
/* Returns the command's tag, or DISK_NONE when queue_depth commands are outstanding. now_ns must never go back. */
u32 disk_queue_add(struct disk_queue *queue, u64 now_ns, enum disk_op op, u64 sector, u32 sectors);
/* When something will complete next; U64_MAX if nothing is outstanding. */
u64 disk_queue_next_ns(const struct disk_queue *queue);
/* A command that has completed by now_ns, in order of completion, or DISK_NONE. Its slot is valid until disk_queue_release. */
u32 disk_queue_take(struct disk_queue *queue, u64 now_ns);
void disk_queue_release(struct disk_queue *queue, u32 tag);
/* Counts a request of a model that completes at once. */
void disk_account_request(struct disk_account *account, enum disk_op op, u32 sectors);

#endif
