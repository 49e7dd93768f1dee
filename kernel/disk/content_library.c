// SPDX-License-Identifier: GPL-2.0
/* A modelled disk with its content in user space, for tests: the model and its content joined as the driver joins them. */
#include <stdlib.h>
#include "flash_state.h"
#include "content.h"
#include "nonvolatile.h"

#define ARMED 1U	/* the power may be cut */
#define OWN_MARKS 2U	/* only strata_full_mark() makes writes durable, not the model */

/* Memory in the place of the host's file. */
struct strata_store {
	u8 *bytes;
	u64 size;
	u64 written;
	u64 end;
};

struct strata_full {
	struct strata_store *store;
	struct content content;
	struct disk disk;
	bool in_flight[DISK_QUEUE_LIMIT];
};

void *strata_store_create(u64 bytes);
void strata_store_destroy(struct strata_store *store);
u64 strata_store_written(const struct strata_store *store);
u64 strata_store_end(const struct strata_store *store);
void *strata_full_open(const char *text, size_t length, struct strata_store *store, u32 options, char *message);
void strata_full_close(struct strata_full *full);
s64 strata_full_submit(struct strata_full *full, u64 now_ns, const u32 *op_and_flags, u64 sector, u32 sectors, u8 *content, u64 piece);
u64 strata_full_next_ns(const struct strata_full *full);
s64 strata_full_take(struct strata_full *full, u64 now_ns, u64 *complete_ns);
void strata_full_advance(struct strata_full *full, u64 now_ns);
void strata_full_mark(struct strata_full *full, const struct disk_durable *mark);
s64 strata_full_cut(struct strata_full *full, u64 at_ns, u64 seed, struct loss_report *report);
s64 strata_full_load(struct strata_full *full);
s64 strata_full_save(struct strata_full *full);
s64 strata_full_power_off(struct strata_full *full);
const char *strata_full_flash_check(const struct strata_full *full);
s64 strata_full_content(struct strata_full *full, u64 sector, u64 sectors, u8 *content);
const char *strata_full_fault(struct strata_full *full, u64 now_ns, const char *text, size_t length);
bool strata_pattern_find(const u8 *block, struct pattern *found);
void strata_pattern_make(const struct pattern *pattern, u8 *block);

void *strata_store_create(u64 bytes)
{
	struct strata_store *store = calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	store->size = bytes;
	store->bytes = platform_alloc(bytes);
	if (store->bytes)
		return store;
	free(store);
	return NULL;
}

void strata_store_destroy(struct strata_store *store)
{
	platform_free(store->bytes, store->size);
	free(store);
}

/* Bytes that were ever written to it: blocks that are kept compactly are not among them. */
u64 strata_store_written(const struct strata_store *store)
{
	return store->written;
}

/* How long a file would be. */
u64 strata_store_end(const struct strata_store *store)
{
	return store->end;
}

static int store_move(struct strata_store *store, bool write, const struct content_vector *vector, u32 count, u64 offset, u64 bytes)
{
	u32 i;

	if (offset + bytes > store->size)
		return -28;	/* ENOSPC */
	for (i = 0; i < count; i++) {
		u64 part = vector[i].length < bytes ? vector[i].length : bytes;

		if (write)
			memcpy(store->bytes + offset, vector[i].base, part);
		else
			memcpy(vector[i].base, store->bytes + offset, part);
		offset += part;
		bytes -= part;
	}
	return bytes ? -22 : 0;	/* EINVAL: the vectors are shorter than they should be */
}

static int store_read(void *owner, struct content_vector *vector, u32 count, u64 offset, u64 bytes)
{
	return store_move(owner, false, vector, count, offset, bytes);
}

static int store_write(void *owner, struct content_vector *vector, u32 count, u64 offset, u64 bytes)
{
	struct strata_store *store = owner;

	store->written += bytes;
	store->end = platform_later(store->end, offset + bytes);
	return store_move(owner, true, vector, count, offset, bytes);
}

/* In the place of the lab's compressor: all but the zeros at the end. */
static u32 store_pack(void *owner, const void *block, void *to, u32 room)
{
	const u8 *bytes = block;
	u32 length = BLOCKS_BYTES;

	(void)owner;
	while (length && !bytes[length - 1])
		length--;
	if (length > room)
		return 0;
	memcpy(to, block, length);
	return length;
}

static bool store_unpack(void *owner, const void *from, u32 bytes, void *block)
{
	(void)owner;
	memset(block, 0, BLOCKS_BYTES);
	memcpy(block, from, bytes);
	return true;
}

void *strata_full_open(const char *text, size_t length, struct strata_store *store, u32 options, char *message)
{
	struct content_store of_content = {
		.owner = store, .read = store_read, .write = store_write, .pack = store_pack, .unpack = store_unpack
	};
	struct strata_full *full = calloc(1, sizeof(*full));

	if (!full)
		return NULL;
	full->store = store;
	if (disk_config_parse(&full->disk.config, text, length, message))
		goto free;
	strcpy(message, "no memory");
	if (!content_open(&full->content, &full->disk.config, &of_content, false, options & ARMED))
		goto free_config;
	if (options & ARMED && !(options & OWN_MARKS)) {
		full->disk.durable = content_durable;
		full->disk.owner = &full->content;
	}
	if (disk_open(&full->disk))
		return full;
	content_close(&full->content);
free_config:
	disk_config_free(&full->disk.config);
free:
	free(full);
	return NULL;
}

void strata_full_close(struct strata_full *full)
{
	disk_close(&full->disk);
	content_close(&full->content);
	disk_config_free(&full->disk.config);
	free(full);
}

/* Moves the content in vectors of `piece` bytes each. */
static int transfer(struct strata_full *full, u64 now_ns, const struct disk_io *io, u8 *content, u64 piece)
{
	struct content_vector vector[256];
	u64 bytes = io->sectors * STRATA_SECTOR_BYTES, done = 0, sequence = full->disk.sequence + 1;
	u32 count = 0;

	if (io->op == DISK_DISCARD)
		return content_erase(&full->content, now_ns, io->sector, io->sectors);
	if (io->op == DISK_FLUSH)
		return content_flush(&full->content, now_ns);
	for (; done < bytes; done += vector[count++].length) {
		vector[count].base = content + done;
		vector[count].length = bytes - done < piece || count == 255 ? bytes - done : piece;
	}
	return io->op == DISK_WRITE ? content_write(&full->content, now_ns, sequence, io->sector, vector, count) :
				      content_read(&full->content, now_ns, io->sector, vector, count);
}

/* Returns the command's sequence, -1 when the queue is full, or -2 - the content's result when the command fails at once. */
s64 strata_full_submit(struct strata_full *full, u64 now_ns, const u32 *op_and_flags, u64 sector, u32 sectors, u8 *content, u64 piece)
{
	struct disk_io io = { .op = (enum disk_op)op_and_flags[0], .flags = op_and_flags[1], .sector = sector, .sectors = sectors };
	int result;
	u32 tag;

	if (full->disk.free == DISK_NONE)
		return -1;
	result = transfer(full, now_ns, &io, content, piece);
	if (result)
		return -2 - result;
	tag = disk_add(&full->disk, now_ns, &io);
	full->in_flight[tag] = true;
	return (s64)full->disk.command[tag].sequence;
}

u64 strata_full_next_ns(const struct strata_full *full)
{
	return disk_next_ns(&full->disk);
}

/* The sequence of a command that has completed by now_ns, or -1. */
s64 strata_full_take(struct strata_full *full, u64 now_ns, u64 *complete_ns)
{
	u32 tag = disk_take(&full->disk, now_ns);

	if (tag == DISK_NONE)
		return -1;
	*complete_ns = full->disk.command[tag].complete_ns;
	full->in_flight[tag] = false;
	disk_release(&full->disk, tag);
	return (s64)full->disk.command[tag].sequence;
}

void strata_full_advance(struct strata_full *full, u64 now_ns)
{
	disk_advance(&full->disk, now_ns);
}

void strata_full_mark(struct strata_full *full, const struct disk_durable *mark)
{
	content_durable(&full->content, mark);
}

static bool acknowledged(void *owner, u64 sequence)
{
	const struct strata_full *full = owner;
	u32 tag;

	for (tag = 0; tag < full->disk.config.queue_depth; tag++)
		if (full->in_flight[tag] && full->disk.command[tag].sequence == sequence)
			return false;
	return true;
}

/* The handle must be closed afterwards: the disk has no power. */
s64 strata_full_cut(struct strata_full *full, u64 at_ns, u64 seed, struct loss_report *report)
{
	disk_advance(&full->disk, at_ns);
	return loss_cut(&full->content.loss, at_ns, seed, acknowledged, full, report);
}

/* Returns an enum blocks_state, or the store's negative error. */
s64 strata_full_load(struct strata_full *full)
{
	enum blocks_state state = BLOCKS_NEW;
	int error = blocks_load(&full->content.blocks, &state);

	if (!error && state == BLOCKS_LOADED)
		error = nonvolatile_load(&full->disk, &full->content.blocks);
	return error ? error : (s64)state;
}

/* As after a cut of the power: the content alone. */
s64 strata_full_save(struct strata_full *full)
{
	return blocks_save(&full->content.blocks);
}

/* An orderly power-off. */
s64 strata_full_power_off(struct strata_full *full)
{
	disk_rest(&full->disk);
	return nonvolatile_save(&full->disk, &full->content.blocks);
}

const char *strata_full_flash_check(const struct strata_full *full)
{
	return flash_check(&full->disk);
}

/* The content, without the faults of the content. */
s64 strata_full_content(struct strata_full *full, u64 sector, u64 sectors, u8 *content)
{
	struct content_vector vector = { .base = content, .length = sectors * STRATA_SECTOR_BYTES };

	return blocks_read(&full->content.blocks, sector, &vector, 1);
}

/* NULL, or a description of the fault's error. */
const char *strata_full_fault(struct strata_full *full, u64 now_ns, const char *text, size_t length)
{
	disk_advance(&full->disk, now_ns);
	return content_fault(&full->content, &full->disk.config, now_ns, text, text + length);
}

bool strata_pattern_find(const u8 *block, struct pattern *found)
{
	return pattern_find(block, found);
}

void strata_pattern_make(const struct pattern *pattern, u8 *block)
{
	pattern_make(pattern, block);
}
