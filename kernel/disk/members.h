/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jobs of a controller on its member disks. A job reads or writes sectors of the array; it becomes I/Os of the members, of which
 * each gets one for consecutive sectors. I/Os for which a member's queue has no room wait here, in order of arrival.
 *
 * A write to a level with parity that leaves a part of a row has two steps: read the old data and the parity, then write both
 * (read-modify-write). Rows that are written whole need no reads.
 *
 * A job's parts: in each step the parts of the member I/O that finished last; the rest of the wait is queue. They add up to the job's
 * time.
 */
#ifndef STRATA_MEMBERS_H
#define STRATA_MEMBERS_H

#include "disk.h"

#define MEMBERS_NONE ((u32)-1)
#define MEMBERS_DESTAGES 256
#define MEMBERS_JOBS (DISK_QUEUE_LIMIT + MEMBERS_DESTAGES)	/* jobs of commands come first, by their tag */
#define MEMBERS_IOS 4096

struct members_job {
	u64 start;
	u64 end;
	u64 cursor;		/* of the step: what lies before has become I/Os */
	u64 step_ns;		/* when the step began */
	u32 pending;		/* I/Os not finished */
	u32 next;		/* that waits for room for I/Os */
	enum disk_op op;
	bool reads_old;		/* the first step of a partial write */
	struct disk_parts parts;	/* of finished steps */
	struct disk_parts last;		/* of the I/O that finished last */
};

struct members_io {
	struct disk_io io;
	u32 job;
	u32 next;
};

struct members_queue {
	struct disk *disk;
	u64 next_ns;		/* of the disk */
	u64 head;		/* behind the last sector that was sent */
	u32 load;		/* I/Os here and in the disk */
	u32 first, last;	/* I/Os that wait for room in the disk's queue */
	u32 open;		/* the I/O that the current step may still lengthen */
	struct disk_account seen;	/* already added to the controller's account */
	u32 sent[DISK_QUEUE_LIMIT];	/* the I/O of each of the disk's tags */
};

struct members {
	const struct array *array;
	struct disk_account *account;
	u32 free;		/* I/Os */
	u32 free_ios;
	u32 first, last;	/* jobs that wait for room for I/Os */
	struct members_job job[MEMBERS_JOBS];
	struct members_io io[MEMBERS_IOS];
	struct members_queue queue[ARRAY_MEMBERS];
};

/* False when there is no memory; members_close() must follow all the same. */
bool members_open(struct members *members, const struct disk_config *config, struct disk_account *account);
void members_close(struct members *members);
/* For each member's disk, as for that of the controller: nothing is outstanding. */
void members_rest(struct members *members, u64 now_ns);
void members_nonvolatile(struct members *members, struct nonvolatile *stream);
void members_start(struct members *members, u64 now_ns, u32 job, enum disk_op op, u64 start, u64 sectors);
u64 members_next_ns(const struct members *members);
/* A job that has finished by now_ns, the instant of members_next_ns(), or MEMBERS_NONE. */
u32 members_take(struct members *members, u64 now_ns);
u64 members_parts_ns(const struct disk_parts *parts);

#endif
