// SPDX-License-Identifier: GPL-2.0
/* The host under the modelled disks: memory for the models' state, the files with the disks' sectors, and the packing of these. */
#define pr_fmt(fmt) "strata: " fmt

#include <linux/lz4.h>
#include <linux/mm.h>
#include <linux/printk.h>
#include <linux/strata_cpu.h>
#include <os.h>
#include "strata.h"

static_assert(sizeof(struct content_vector) == sizeof(struct os_iovec));
static_assert(offsetof(struct content_vector, length) == offsetof(struct os_iovec, length));

/* The host's memory, not the lab's: a larger disk does not leave less to the page cache, which results would show. */
void *platform_alloc(size_t bytes)
{
	return os_reserve_memory(bytes);
}

void platform_free(void *memory, size_t bytes)
{
	os_release_memory(memory, bytes);
}

/* The runner looks for this line. */
static int host_failed(struct strata_file *file, const char *what, long error)
{
	const char *reason = error == -ENOSPC ? "no space left on the host" :
			     error == -EDQUOT ? "the host's disk quota is used up" :
			     error == -EFBIG ? "the host's file size limit is reached" :
			     error == -EIO ? "the host reports an I/O error" : "see the error's number";

	if (file->failures++ < 10)
		pr_err("disk %s: host %s failed: %s (error %ld)\n", file->disk_name, what, reason, -error);
	return (int)error;
}

/* Moves past `done` bytes; returns the number of vectors that are finished. */
static u32 vectors_advance(struct content_vector *vector, size_t done)
{
	u32 first = 0;

	while (done && done >= vector[first].length)
		done -= vector[first++].length;
	if (done) {
		vector[first].base += done;
		vector[first].length -= done;
	}
	return first;
}

static int host_read(void *owner, struct content_vector *vector, u32 count, u64 offset, u64 bytes)
{
	struct strata_file *file = owner;

	while (bytes) {
		ssize_t done = os_preadv_file(file->fd, (struct os_iovec *)vector, count, offset);
		u32 finished;

		if (done == -EINTR)
			continue;
		if (done < 0)
			return host_failed(file, "read", done);
		if (done == 0) {	/* beyond the end of the host's file: never written */
			for (; count; count--, vector++)
				memset(vector->base, 0, vector->length);
			return 0;
		}
		bytes -= done;
		offset += done;
		finished = vectors_advance(vector, done);
		vector += finished;
		count -= finished;
	}
	return 0;
}

static int host_write(void *owner, struct content_vector *vector, u32 count, u64 offset, u64 bytes)
{
	struct strata_file *file = owner;

	while (bytes) {
		ssize_t done = os_pwritev_file(file->fd, (struct os_iovec *)vector, count, offset);
		u32 finished;

		if (done == -EINTR)
			continue;
		if (done <= 0)
			return host_failed(file, "write", done ? done : -EIO);
		bytes -= done;
		offset += done;
		finished = vectors_advance(vector, done);
		vector += finished;
		count -= finished;
	}
	return 0;
}

static u8 pack_memory[LZ4_MEM_COMPRESS] __aligned(8);

/* A modelled machine does not compute this: what it counts is forgotten. */
static u32 host_pack(void *owner, const void *block, void *to, u32 room)
{
	unsigned long counts[CPU_COUNTERS];
	int bytes;

	memcpy(counts, strata_cpu_counts, sizeof(counts));
	bytes = LZ4_compress_default(block, to, BLOCKS_BYTES, room, pack_memory);
	memcpy(strata_cpu_counts, counts, sizeof(counts));
	return bytes;
}

static bool host_unpack(void *owner, const void *from, u32 bytes, void *block)
{
	unsigned long counts[CPU_COUNTERS];
	int unpacked;

	memcpy(counts, strata_cpu_counts, sizeof(counts));
	unpacked = LZ4_decompress_safe(from, block, bytes, BLOCKS_BYTES);
	memcpy(strata_cpu_counts, counts, sizeof(counts));
	return unpacked == BLOCKS_BYTES;
}

void strata_store_init(struct content_store *store, struct strata_file *file)
{
	store->owner = file;
	store->read = host_read;
	store->write = host_write;
	store->pack = host_pack;
	store->unpack = host_unpack;
}

int strata_read_text(int fd, char *text, size_t room, size_t *length)
{
	*length = 0;
	for (;;) {
		int done = os_pread_file(fd, text + *length, room - *length, *length);

		if (done == -EINTR)
			continue;
		if (done <= 0)
			return done;
		*length += done;
	}
}

bool strata_append(int fd, const void *from, size_t bytes, const char *what)
{
	struct strata_file file = { .fd = fd, .disk_name = what };

	while (bytes) {
		int done = os_write_file(fd, from, bytes);

		if (done == -EINTR)
			continue;
		if (done <= 0) {
			host_failed(&file, "write", done ? done : -EIO);
			return false;
		}
		from += done;
		bytes -= done;
	}
	return true;
}
