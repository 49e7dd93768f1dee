// SPDX-License-Identifier: GPL-2.0
/* The models in user space: lists of I/O in, completions out. Bound by src/strata/lab/model.py. */
#include <stdlib.h>
#include <sys/mman.h>
#include "flash_state.h"

/*
 * One list of I/O; arrays of `count`. parts holds DISK_PARTS values per I/O; order takes the I/Os' indices by completion. flags may be
 * NULL.
 */
struct strata_list {
	u64 count;
	const u32 *op;
	const u32 *flags;
	const u64 *sector;
	const u32 *sectors;
	u64 *arrival_ns;
	u64 *complete_ns;
	u64 *parts;
	u64 *order;
};

struct strata_disk {
	struct disk disk;
	u64 index[DISK_QUEUE_LIMIT];	/* of the I/O in a slot */
	u64 done, next;			/* completed, submitted of a list */
	struct disk_durable *mark;	/* the caller's, or NULL */
	u64 marks;
	u64 room;
};

void *strata_disk_open(const char *text, size_t length, char *message);
void strata_disk_close(struct strata_disk *handle);
u64 strata_disk_now_ns(const struct strata_disk *handle);
void strata_disk_advance(struct strata_disk *handle, u64 now_ns);
void strata_disk_account(const struct strata_disk *handle, u64 *values);
void strata_disk_record_durable(struct strata_disk *handle, struct disk_durable *mark, u64 room);
u64 strata_disk_durable_marks(const struct strata_disk *handle);
s64 strata_disk_closed_loop(struct strata_disk *handle, const struct strata_list *list, u64 start_ns, u64 depth);
s64 strata_disk_open_list(struct strata_disk *handle, const struct strata_list *list);
s64 strata_disk_open_lists(struct strata_disk *const *handles, const struct strata_list *const *lists, u64 count);
void strata_disk_join(struct strata_disk *handle, const struct strata_disk *other);
s64 strata_disk_replay(struct strata_disk *handle, const struct strata_list *list, const u64 *after);
u64 strata_disk_seek_ns(const struct strata_disk *handle, u64 distance);
u64 strata_grid_distance(u32 index);
const char *strata_flash_check(const struct strata_disk *handle);
u32 strata_account_keys(void);
const char *strata_account_name(u32 index);
u32 strata_parts(void);

void *platform_alloc(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void platform_free(void *memory, size_t bytes)
{
	munmap(memory, bytes);
}

void *strata_disk_open(const char *text, size_t length, char *message)
{
	struct strata_disk *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	if (disk_config_parse(&handle->disk.config, text, length, message))
		goto free;
	if (disk_open(&handle->disk))
		return handle;
	strcpy(message, "no memory for the disk's state");
	disk_config_free(&handle->disk.config);
free:
	free(handle);
	return NULL;
}

void strata_disk_close(struct strata_disk *handle)
{
	disk_close(&handle->disk);
	disk_config_free(&handle->disk.config);
	free(handle);
}

u64 strata_disk_now_ns(const struct strata_disk *handle)
{
	return handle->disk.now_ns;
}

/* Lets the disk stand idle until now_ns: its background work is done. */
void strata_disk_advance(struct strata_disk *handle, u64 now_ns)
{
	disk_advance(&handle->disk, now_ns);
}

void strata_disk_account(const struct strata_disk *handle, u64 *values)
{
	memcpy(values, &handle->disk.account, sizeof(handle->disk.account));
}

static void record_durable(void *owner, const struct disk_durable *mark)
{
	struct strata_disk *handle = owner;

	if (handle->marks < handle->room)
		handle->mark[handle->marks] = *mark;
	handle->marks++;
}

/* From now on each durable mark goes into the caller's array, which must last; those for which there is no room are only counted. */
void strata_disk_record_durable(struct strata_disk *handle, struct disk_durable *mark, u64 room)
{
	handle->mark = mark;
	handle->marks = 0;
	handle->room = room;
	handle->disk.owner = handle;
	handle->disk.durable = record_durable;
}

/* How many marks there have been. */
u64 strata_disk_durable_marks(const struct strata_disk *handle)
{
	return handle->marks;
}

u64 strata_disk_seek_ns(const struct strata_disk *handle, u64 distance)
{
	return rotating_seek_ns(&handle->disk.config.rotating, distance);
}

u64 strata_grid_distance(u32 index)
{
	return rotating_grid_distance(index);
}

/* NULL, or a description of the error in a flash drive's map. */
const char *strata_flash_check(const struct strata_disk *handle)
{
	return flash_check(&handle->disk);
}

u32 strata_account_keys(void)
{
	return DISK_ACCOUNT_KEYS;
}

const char *strata_account_name(u32 index)
{
	return index < DISK_ACCOUNT_KEYS ? disk_account_names[index] : NULL;
}

u32 strata_parts(void)
{
	return DISK_PARTS;
}

static bool add(struct strata_disk *handle, const struct strata_list *list, u64 index)
{
	struct disk_io io = {
		.op = (enum disk_op)list->op[index],
		.flags = list->flags ? list->flags[index] : 0,
		.sector = list->sector[index],
		.sectors = list->sectors[index],
	};
	u32 tag = disk_add(&handle->disk, list->arrival_ns[index], &io);

	if (tag != DISK_NONE)
		handle->index[tag] = index;
	return tag != DISK_NONE;
}

/* Records everything that completes by now_ns; returns how many that were. */
static u64 collect(struct strata_disk *handle, const struct strata_list *list, u64 now_ns)
{
	u64 count = 0;
	u32 tag;

	while ((tag = disk_take(&handle->disk, now_ns)) != DISK_NONE) {
		const struct disk_command *command = &handle->disk.command[tag];
		u64 index = handle->index[tag];

		list->complete_ns[index] = command->complete_ns;
		memcpy(list->parts + index * DISK_PARTS, &command->parts, sizeof(command->parts));
		list->order[handle->done++] = index;
		disk_release(&handle->disk, tag);
		count++;
	}
	return count;
}

static void drain(struct strata_disk *handle, const struct strata_list *list)
{
	u64 next;

	while ((next = disk_next_ns(&handle->disk)) != U64_MAX)
		collect(handle, list, next);
}

/*
 * Keeps `depth` I/Os outstanding: each completion submits the next one at the same instant. Fills arrival_ns. Returns the
 * number of I/Os completed, or -1 if the disk refused one.
 */
s64 strata_disk_closed_loop(struct strata_disk *handle, const struct strata_list *list, u64 start_ns, u64 depth)
{
	u64 submitted = 0, now = start_ns, room = depth;

	handle->done = 0;
	while (submitted < list->count) {
		for (; room && submitted < list->count; room--, submitted++) {
			list->arrival_ns[submitted] = now;
			if (!add(handle, list, submitted))
				return -1;
		}
		if (disk_next_ns(&handle->disk) == U64_MAX)
			return (s64)handle->done;	/* a model that has lost a command */
		now = platform_later(now, disk_next_ns(&handle->disk));
		room += collect(handle, list, now);
	}
	drain(handle, list);
	return (s64)handle->done;
}

/* Submits each I/O at its arrival_ns, which must not decrease. Returns the number completed, or -1 if the queue was full. */
s64 strata_disk_open_list(struct strata_disk *handle, const struct strata_list *list)
{
	u64 i;

	handle->done = 0;
	for (i = 0; i < list->count; i++) {
		u64 next;

		while ((next = disk_next_ns(&handle->disk)) <= list->arrival_ns[i])
			collect(handle, list, next);
		if (!add(handle, list, i))
			return -1;
	}
	drain(handle, list);
	return (s64)handle->done;
}

/* Several disks, each with its list as above, on one clock. Returns the number completed by all, or -1 if a queue was full. */
s64 strata_disk_open_lists(struct strata_disk *const *handles, const struct strata_list *const *lists, u64 count)
{
	u64 i, next, first, total = 0;

	for (i = 0; i < count; i++)
		handles[i]->next = handles[i]->done = 0;
	for (;;) {
		for (i = 0, first = count; i < count; i++)
			if (handles[i]->next < lists[i]->count && (first == count || lists[i]->arrival_ns[handles[i]->next] <
								   lists[first]->arrival_ns[handles[first]->next]))
				first = i;
		if (first == count)
			break;
		while ((next = disk_next_ns(&handles[first]->disk)) <= lists[first]->arrival_ns[handles[first]->next])
			collect(handles[first], lists[first], next);
		if (!add(handles[first], lists[first], handles[first]->next++))
			return -1;
	}
	for (i = 0; i < count; i++) {
		drain(handles[i], lists[i]);
		total += handles[i]->done;
	}
	return (s64)total;
}

/* See network_join(). */
void strata_disk_join(struct strata_disk *handle, const struct strata_disk *other)
{
	network_join(&handle->disk, &other->disk);
}

/*
 * Submits the I/Os in their order, each arrival_ns after the after[i]-th completion (after the clock's 0 where after[i] is 0); at
 * once where that is over, and as soon as there is room where the queue is full. Fills arrival_ns with the instants of submission.
 * Returns the number completed, or -1 if an I/O waits for a completion that never comes.
 */
s64 strata_disk_replay(struct strata_disk *handle, const struct strata_list *list, const u64 *after)
{
	u64 i, next, now = handle->disk.now_ns;

	handle->done = 0;
	for (i = 0; i < list->count; i++) {
		if (after[i] > i)
			return -1;
		while (handle->done < after[i])
			collect(handle, list, disk_next_ns(&handle->disk));
		now = platform_later(now, list->arrival_ns[i] + (after[i] ? list->complete_ns[list->order[after[i] - 1]] : 0));
		while ((next = disk_next_ns(&handle->disk)) <= now)
			collect(handle, list, next);
		for (list->arrival_ns[i] = now; !add(handle, list, i); list->arrival_ns[i] = now) {
			now = platform_later(now, disk_next_ns(&handle->disk));
			collect(handle, list, now);
		}
	}
	drain(handle, list);
	return (s64)handle->done;
}
