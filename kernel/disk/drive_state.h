/* SPDX-License-Identifier: GPL-2.0 */
/* State of a rotating disk's electronics, and the functions that its files share: rules in drive.h. */
#ifndef STRATA_DRIVE_STATE_H
#define STRATA_DRIVE_STATE_H

#include "disk.h"
#include "write_cache.h"
#include "read_cache.h"
#include "shingle.h"

extern const struct disk_key drive_keys[];
const char *drive_check(struct disk_config *config);

/* Commands in the order in which they came, linked by disk_command.link[0]. */
struct drive_list {
	u32 head;
	u32 tail;
	u32 chosen;	/* by their place since the last one that was taken because of its age */
};

enum drive_work {
	WORK_NONE,
	WORK_COMMAND,
	WORK_DESTAGE,
	WORK_CLEAN,	/* a shingled band */
	WORK_FLUSH	/* the mechanism rests; the flush completes at free_ns */
};

struct drive {
	enum drive_work work;
	u64 free_ns;			/* when the work is done */
	u64 quiet_ns;			/* since then no command has come or needed the mechanism */
	u64 link_free_ns;
	u64 latest_ns;			/* completion of all that has been decided */
	u64 near_sector;		/* where the last work ended */
	bool destaged;			/* it was the turn of the write cache */
	struct rotating_head head;
	struct drive_list media;	/* needs the mechanism */
	struct drive_list room;		/* writes that wait for room in the cache */
	struct drive_list held;		/* a flush, and all that arrived after it */
	/* Reading ahead: the head goes on from head.sector, where it was at ahead_ns, to ahead_end. NULL: it does not. */
	struct read_segment *ahead;
	u64 ahead_ns;
	u64 ahead_end;
	struct write_cache writes;
	struct read_cache reads;
	struct shingle shingle;
	u64 cleaned_ns;			/* spent on cleaning so far, including a cleaning that has begun */
};

/*
 * disk_command.model[]: where a command begins (of a shingled disk only when it is decided about), since when no flush has kept it waiting,
 * and the time spent on cleaning until then.
 */
enum { MODEL_TRACK, MODEL_ANGLE, MODEL_SINCE, MODEL_CLEANED };

static inline struct drive *drive_of(const struct disk *disk)
{
	return disk->state;
}

/* drive.c */
/* Takes the command after `before` (DISK_NONE: the first) off the list. */
u32 drive_list_take(struct disk *disk, struct drive_list *list, u32 before);
u64 drive_ready_ns(const struct disk *disk, const struct disk_command *command);
u64 drive_link_ns(const struct disk *disk, u64 sectors);
void drive_admit_waiting(struct disk *disk);
/* Completes a read at once if the buffers hold all of it. */
bool drive_read_buffered(struct disk *disk, u32 tag);
/* Accounts for a command's wait before start_ns, when its service begins. */
void drive_account_wait(const struct disk *disk, struct disk_command *command, u64 start_ns);
/* Completes a command; its parts are set. */
void drive_finish(struct disk *disk, u32 tag, u64 complete_ns);
/* The data of a read is in the buffer at at_ns, after media_ns of transfer: takes the link for what remains. */
void drive_finish_read(struct disk *disk, u32 tag, u64 at_ns, u64 media_ns);

/* mechanism.c */
/* The head has read ahead until now_ns. */
void drive_look_ahead(struct disk *disk, u64 now_ns);
/* The host has taken sectors from the buffer: there may be room for more. */
void drive_widen_ahead(struct disk *disk, u64 sector, u64 sectors);
/* Sectors are being written: reading ahead ends if it would meet them. */
void drive_stop_ahead_at(struct disk *disk, u64 sector, u64 sectors);
/* Time spent on cleaning until disk->now_ns. */
u64 drive_cleaned_ns(const struct disk *disk);
/* The write before the one that gets the next room in the cache, or DISK_NONE if that is the first. There is one. */
u32 drive_pick_waiting(struct disk *disk);
/* The mechanism is free at disk->now_ns: turns to what comes next. */
void drive_decide(struct disk *disk);

#endif
