/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the parts of the driver. Models and content do not include it. */
#ifndef STRATA_DRIVER_H
#define STRATA_DRIVER_H

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include "disk.h"
#include "content.h"
#include "nonvolatile.h"
#include "tracer.h"

#define STRATA_VECTORS 64
#define STRATA_DISKS_LIMIT 32

/* The host's file with a disk's sectors. */
struct strata_file {
	int fd;
	unsigned int failures;
	const char *disk_name;
};

/* A request that the disk works on. */
struct strata_slot {
	struct request *rq;
	blk_status_t status;
	u16 trace_flags;
	u8 trace_kind;
	u32 outstanding;	/* when it arrived, itself included */
};

struct strata_disk {
	spinlock_t lock;	/* all that follows */
	struct hrtimer timer;
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct strata_file file;
	u32 index;		/* in the order of strata.disks=; 0 is the root image */
	u64 host_cost_ns;	/* of the host's time, with measure_cost=1 */
	struct strata_slot slot[DISK_QUEUE_LIMIT];
	struct content content;
	struct disk disk;
};

extern struct strata_disk *strata_disks[STRATA_DISKS_LIMIT];
extern u32 strata_disks_count;

/* strata_disk.c: under the disk's lock, brings it up to now, which is returned. */
u64 strata_catch_up(struct strata_disk *disk);
/* The account as of now. */
void strata_account(struct strata_disk *disk, struct disk_account *account);

/* strata_request.c */
bool strata_command_of(struct request *rq, struct disk_io *io);
/* Moves the request's content. Returns what content_read() and the others return. */
int strata_transfer(struct strata_disk *disk, struct request *rq, u64 now_ns, u64 sequence);
void strata_trace_arrival(struct strata_slot *slot, struct request *rq, u32 outstanding);
void strata_trace_completion(struct strata_disk *disk, const struct strata_slot *slot, const struct disk_command *command);

/* strata_host.c */
void strata_store_init(struct content_store *store, struct strata_file *file);
/* Returns 0 or a negative error number. */
int strata_read_text(int fd, char *text, size_t room, size_t *length);
/* Appends to a file of the host. Failing, it says so with these words, and returns false. */
bool strata_append(int fd, const void *from, size_t bytes, const char *what);

/* strata_power.c */
void strata_control_init(char *text, size_t room);
bool strata_power_armed(void);
bool strata_media_kept(void);
bool strata_cost_measured(void);
void strata_power_init(void);
/* Counts a command that a disk has accepted. Does not return if it is the one that the power is cut at. */
void strata_power_count(const struct strata_disk *disk);

/* strata_sysfs.c */
extern const struct attribute_group *strata_groups[];

#endif
