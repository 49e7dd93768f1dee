/* SPDX-License-Identifier: GPL-2.0 */
/* What the parts of the driver share. The models and the medium know nothing of it. */
#ifndef STRATA_DRIVER_H
#define STRATA_DRIVER_H

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include "disk.h"
#include "medium.h"

#define STRATA_VECTORS 64

/* The host's file with a disk's sectors. */
struct strata_file {
	int fd;
	unsigned int failures;
	const char *disk_name;
};

struct strata_slot {
	struct request *rq;
	blk_status_t status;
};

struct strata_disk {
	spinlock_t lock;	/* disk, slot, timer */
	struct hrtimer timer;
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct strata_file file;
	struct medium_store store;
	struct strata_slot slot[DISK_QUEUE_LIMIT];
	struct disk disk;
};

/* strata_disk.c: the account as of now. */
void strata_account(struct strata_disk *disk, struct disk_account *account);

/* strata_host.c */
void strata_store_init(struct medium_store *store, struct strata_file *file);
/* Returns 0 or a negative error number. */
int strata_read_text(int fd, char *text, size_t room, size_t *length);

/* strata_sysfs.c */
extern const struct attribute_group *strata_groups[];

#endif
