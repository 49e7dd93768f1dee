// SPDX-License-Identifier: GPL-2.0
/* The models in user space: what tests need to drive a disk with lists of I/O. Bound by tests/kernel_model.py. */
#include <stdlib.h>
#include "queue.h"

/* One list of I/O; arrays of `count`. parts holds DISK_ACCOUNT_KEYS values per I/O, order the I/Os' indices by completion. */
struct strata_list {
	u64 count;
	const u32 *op;
	const u64 *sector;
	const u32 *sectors;
	u64 *arrival_ns;
	u64 *complete_ns;
	u64 *parts;
	u64 *order;
};

struct strata_disk {
	struct disk_queue queue;
	u64 index[DISK_QUEUE_LIMIT];	/* of the I/O in a slot */
	u64 done;
};

void *strata_disk_open(const char *text, size_t length, char *message);
void strata_disk_close(struct strata_disk *disk);
void strata_disk_account(const struct strata_disk *disk, u64 *values);
s64 strata_disk_closed_loop(struct strata_disk *disk, const struct strata_list *list, u64 start_ns, u64 depth);
s64 strata_disk_open_list(struct strata_disk *disk, const struct strata_list *list);
u64 strata_disk_seek_ns(const struct strata_disk *disk, u64 distance);
u64 strata_grid_distance(u32 index);
const char *strata_account_name(u32 index);

void *strata_disk_open(const char *text, size_t length, char *message)
{
	struct strata_disk *disk = calloc(1, sizeof(*disk));

	if (!disk)
		return NULL;
	if (disk_config_parse(&disk->queue.model.config, text, length, message)) {
		free(disk);
		return NULL;
	}
	disk_queue_init(&disk->queue);
	return disk;
}

void strata_disk_close(struct strata_disk *disk)
{
	free(disk);
}

void strata_disk_account(const struct strata_disk *disk, u64 *values)
{
	memcpy(values, &disk->queue.account, sizeof(disk->queue.account));
}

u64 strata_disk_seek_ns(const struct strata_disk *disk, u64 distance)
{
	return rotating_seek_ns(&disk->queue.model.config.rotating, distance);
}

u64 strata_grid_distance(u32 index)
{
	return rotating_grid_distance(index);
}

const char *strata_account_name(u32 index)
{
	return index < DISK_ACCOUNT_KEYS ? disk_account_names[index] : NULL;
}

static bool add(struct strata_disk *disk, const struct strata_list *list, u64 index)
{
	u32 tag = disk_queue_add(&disk->queue, list->arrival_ns[index], (enum disk_op)list->op[index], list->sector[index],
				 list->sectors[index]);

	if (tag != DISK_NONE)
		disk->index[tag] = index;
	return tag != DISK_NONE;
}

/* Records everything that completes by now_ns; returns how many that were. */
static u64 collect(struct strata_disk *disk, const struct strata_list *list, u64 now_ns)
{
	u64 count = 0;
	u32 tag;

	while ((tag = disk_queue_take(&disk->queue, now_ns)) != DISK_NONE) {
		u64 index = disk->index[tag];

		list->complete_ns[index] = disk->queue.command[tag].complete_ns;
		memcpy(list->parts + index * DISK_ACCOUNT_KEYS, &disk->queue.command[tag].parts, sizeof(struct disk_account));
		list->order[disk->done++] = index;
		disk_queue_release(&disk->queue, tag);
		count++;
	}
	return count;
}

static void drain(struct strata_disk *disk, const struct strata_list *list)
{
	u64 next;

	while ((next = disk_queue_next_ns(&disk->queue)) != U64_MAX)
		collect(disk, list, next);
}

/*
 * Keeps `depth` I/Os outstanding: each completion submits the next one at the same instant. Fills arrival_ns. Returns the
 * number of I/Os completed, or -1 if the queue refused one.
 */
s64 strata_disk_closed_loop(struct strata_disk *disk, const struct strata_list *list, u64 start_ns, u64 depth)
{
	u64 submitted = 0, now = start_ns, room = depth;

	disk->done = 0;
	while (submitted < list->count) {
		for (; room && submitted < list->count; room--, submitted++) {
			list->arrival_ns[submitted] = now;
			if (!add(disk, list, submitted))
				return -1;
		}
		now = disk_queue_next_ns(&disk->queue);
		room += collect(disk, list, now);
	}
	drain(disk, list);
	return (s64)disk->done;
}

/* Submits each I/O at its arrival_ns, which must not decrease. Returns the number completed, or -1 if the queue was full. */
s64 strata_disk_open_list(struct strata_disk *disk, const struct strata_list *list)
{
	u64 i;

	disk->done = 0;
	for (i = 0; i < list->count; i++) {
		u64 next;

		while ((next = disk_queue_next_ns(&disk->queue)) <= list->arrival_ns[i])
			collect(disk, list, next);
		if (!add(disk, list, i))
			return -1;
	}
	drain(disk, list);
	return (s64)disk->done;
}
