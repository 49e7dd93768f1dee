// SPDX-License-Identifier: GPL-2.0
/*
 * A modelled disk in real time: a FUSE filesystem that is one file, in the kernel's own protocol (linux/fuse.h), a message for each read().
 *
 * Data moves to or from the store as soon as a request is read here; its answer waits for the instant that the model computes. The way from
 * the asking program to here and back takes lead_ns: a request arrives at the model that much earlier, so that its answer is there in time.
 * A request that takes the disk less than lead_ns is answered late. Bound by src/strata/runners/served.py.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "../disk/disk.h"

#define DATA_BYTES (1U << 20)	/* of one request at most: 256 pages, the kernel's own limit */
#define LATE_US 65536		/* a counter for each microsecond; the last for all above */
#define NS_PER_S 1000000000ULL
#define CALM_NS 200000ULL	/* long enough for the processors to idle, as while a disk works */
#ifndef FOPEN_PARALLEL_DIRECT_WRITES	/* Linux 6.2 */
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif

/* The caller's, who may change lead_ns and then live while the disk is served. */
struct strata_served {
	int fuse;			/* not blocking */
	int store;
	u64 size_bytes;
	u64 spin_ns;			/* the last part of a wait is not slept */
	u64 lead_ns;
	u64 live;			/* 0: every request takes CALM_NS, and nothing of the model's time */
	u64 requests[DISK_OPS];
	u64 bytes[DISK_OPS];
	u64 model_ns[DISK_OPS];		/* sum of the latencies */
	u64 failed;
	u64 late_ns_max;
	u64 late_us[LATE_US];
};

struct request {
	struct disk_io io;
	u64 received_ns;
	struct fuse_out_header out;	/* the answer; `data` belongs to it */
	char data[];
};

struct server {
	struct disk *disk;
	struct strata_served *served;
	struct request *at[DISK_QUEUE_LIMIT];	/* by the disk's tag */
	u64 origin_ns;				/* the model's 0; 0 before it is live */
	union {
		struct fuse_in_header in;
		char bytes[DATA_BYTES + 4096];
	} message;
};

s64 strata_serve(void *opened, struct strata_served *served);

static u64 clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * NS_PER_S + (u64)now.tv_nsec;
}

/* A failure to answer needs no care: nobody waits any more, or the next read shows the same. */
static void answer(const struct server *server, struct request *request)
{
	ssize_t done;

	if (request->out.error)
		request->out.len = sizeof(request->out);
	done = write(server->served->fuse, &request->out, request->out.len);
	(void)done;
	free(request);
}

/* The answer to the message, with room for this many bytes of data; NULL without memory. */
static struct request *answer_to(const struct server *server, size_t bytes)
{
	struct request *request = calloc(1, sizeof(*request) + bytes);

	if (request) {
		request->out.unique = server->message.in.unique;
		request->out.len = (u32)(sizeof(request->out) + bytes);
	}
	return request;
}

static void reply(const struct server *server, int error, const void *data, size_t bytes)
{
	struct request *request = answer_to(server, bytes);

	if (!request)
		return;
	request->out.error = error;
	if (bytes)
		memcpy(request->data, data, bytes);
	answer(server, request);
}

static void enter(struct server *server, struct request *request)
{
	u64 earliest_ns = server->origin_ns + server->served->lead_ns, now_ns = server->disk->now_ns;
	u64 arrival_ns = request->received_ns > earliest_ns ? request->received_ns - earliest_ns : 0;

	server->at[disk_add(server->disk, platform_later(now_ns, arrival_ns), &request->io)] = request;
}

static void complete(struct server *server, u32 tag)
{
	const struct disk_command *command = &server->disk->command[tag];
	struct strata_served *served = server->served;
	struct request *request = server->at[tag];
	u64 late_ns = clock_ns() - server->origin_ns - command->complete_ns;

	served->requests[command->io.op]++;
	served->bytes[command->io.op] += command->io.sectors * STRATA_SECTOR_BYTES;
	served->model_ns[command->io.op] += command->complete_ns - command->arrival_ns;
	served->late_us[late_ns / 1000 < LATE_US ? late_ns / 1000 : LATE_US - 1]++;
	served->late_ns_max = platform_later(served->late_ns_max, late_ns);
	if (command->failed)
		request->out.error = -EIO;
	served->failed += request->out.error != 0;
	disk_release(server->disk, tag);
	answer(server, request);
}

/* Answers what is due. Returns when to look again: U64_MAX if nothing is outstanding. */
static u64 complete_due(struct server *server)
{
	u64 next_ns;
	u32 tag;

	/* Only to the next event, not to now: a request that is read later may belong between them. */
	while ((next_ns = disk_next_ns(server->disk)) != U64_MAX) {
		if (server->origin_ns + next_ns > clock_ns())
			return server->origin_ns + next_ns;
		tag = disk_take(server->disk, next_ns);
		if (tag != DISK_NONE)
			complete(server, tag);
	}
	return U64_MAX;
}

/* Waits for the instant at which to look again, or for a message that the disk has room for. */
static void wait_until(const struct server *server, u64 until_ns)
{
	u64 awake_ns = clock_ns() + server->served->spin_ns, sleep_ns = until_ns > awake_ns ? until_ns - awake_ns : 0;
	struct timespec most = { .tv_sec = (time_t)(sleep_ns / NS_PER_S), .tv_nsec = (long)(sleep_ns % NS_PER_S) };
	struct pollfd readable = { .fd = server->served->fuse, .events = POLLIN };

	if (sleep_ns)
		ppoll(&readable, server->disk->free != DISK_NONE, until_ns == U64_MAX ? NULL : &most, NULL);
}

/* A request of the disk. */
static void begin(struct server *server, enum disk_op op, u64 offset, u64 bytes, const void *data)
{
	u64 size = server->served->size_bytes, left = offset < size ? size - offset : 0, first = offset / STRATA_SECTOR_BYTES;
	struct fuse_write_out written = { .size = (u32)(bytes = bytes < left ? bytes : left) };
	struct request *request = answer_to(server, op == DISK_READ ? bytes : op == DISK_WRITE ? sizeof(written) : 0);
	int store = server->served->store;
	s64 done = (s64)bytes;

	if (!request)
		return;
	request->received_ns = clock_ns();
	request->io.op = op;
	request->io.sector = first;
	request->io.sectors = (u32)(platform_divide_up(offset + bytes, STRATA_SECTOR_BYTES) - first);
	if (op == DISK_READ)
		done = pread(store, request->data, bytes, (off_t)offset);
	else if (op == DISK_WRITE)
		done = pwrite(store, data, bytes, (off_t)offset);
	else if (op == DISK_DISCARD)
		done = fallocate(store, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) ? -1 : done;
	if (done != (s64)bytes)
		request->out.error = done < 0 ? -errno : -ENOSPC;
	else if (op == DISK_WRITE)
		memcpy(request->data, &written, sizeof(written));
	while (!server->origin_ns && clock_ns() < request->received_ns + CALM_NS)
		wait_until(server, request->received_ns + CALM_NS);
	if (!server->origin_ns || (!bytes && op != DISK_FLUSH))
		answer(server, request);
	else
		enter(server, request);
}

static void handle(struct server *server)
{
	const struct disk_config *config = &server->disk->config;
	const void *body = &server->message.in + 1;
	const struct fuse_init_in *wanted = body;
	const struct fuse_read_in *from = body;
	const struct fuse_write_in *to = body;
	const struct fuse_fallocate_in *range = body;
	const struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES };
	struct fuse_attr_out attributes = { .attr_valid = 3600, .attr.ino = FUSE_ROOT_ID, .attr.mode = S_IFREG | 0600, .attr.nlink = 1 };
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .time_gran = 1 };

	switch (server->message.in.opcode) {
	case FUSE_INIT:
		init.flags = wanted->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES);
		init.max_background = DISK_QUEUE_LIMIT;
		init.congestion_threshold = DISK_QUEUE_LIMIT;
		init.max_write = DATA_BYTES;
		init.max_pages = DATA_BYTES / 4096;
		reply(server, 0, &init, sizeof(init));
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:	/* its size is the disk's, and nothing else is kept */
		attributes.attr.size = server->served->size_bytes;
		attributes.attr.uid = getuid();
		attributes.attr.gid = getgid();
		reply(server, 0, &attributes, sizeof(attributes));
		break;
	case FUSE_OPEN:
		reply(server, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		begin(server, DISK_READ, from->offset, from->size, NULL);
		break;
	case FUSE_WRITE:
		begin(server, DISK_WRITE, to->offset, to->size, to + 1);
		break;
	case FUSE_FSYNC:	/* the block layer sends no flush to a disk whose cache loses nothing */
		if (config->volatile_cache && !config->write_through)
			begin(server, DISK_FLUSH, 0, 0, NULL);
		else
			reply(server, 0, NULL, 0);
		break;
	case FUSE_FALLOCATE:
		if (config->discard && range->mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
			begin(server, DISK_DISCARD, range->offset, range->length, NULL);
		else
			reply(server, -EOPNOTSUPP, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:	/* a disk finishes what it has begun */
		break;
	default:
		reply(server, -ENOSYS, NULL, 0);
	}
}

/* Serves what strata_disk_open() has opened until the filesystem is unmounted. Returns 0, or the negative error that ended it. */
s64 strata_serve(void *opened, struct strata_served *served)
{
	struct server *server = calloc(1, sizeof(*server));
	ssize_t got = 1;
	int error = 0;

	if (!server)
		return -ENOMEM;
	server->disk = opened;	/* the first field of library.c's */
	server->served = served;
	prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	while (!error) {
		u64 next_ns = complete_due(server);

		if (got < 0)
			wait_until(server, next_ns);
		if (!server->origin_ns && __atomic_load_n(&served->live, __ATOMIC_ACQUIRE))
			server->origin_ns = clock_ns();
		errno = EAGAIN;	/* requests beyond the depth of the disk's queue wait in the kernel */
		got = server->disk->free != DISK_NONE ? read(served->fuse, &server->message, sizeof(server->message)) : -1;
		if (got > 0)
			handle(server);
		else if (!got || (errno != EAGAIN && errno != EINTR && errno != ENOENT))
			error = got ? errno : ENODEV;
	}
	free(server);
	return error == ENODEV ? 0 : -error;
}
