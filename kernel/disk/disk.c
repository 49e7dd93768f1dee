// SPDX-License-Identifier: GPL-2.0
/* Commands, completions and accounts, the same for every model: rules in disk.h. */
#include "disk.h"

const char *const disk_account_names[DISK_ACCOUNT_KEYS] = {
	"reads", "read_bytes", "writes", "write_bytes", "flushes", "discards",
	"queue_ns", "overhead_ns", "seek_ns", "rotation_ns", "transfer_ns", "cell_ns", "cache_ns", "throttle_ns", "cleaning_ns",
	"flush_ns", "fault_ns",
	"busy_ns", "cache_hits", "command_work_ns", "destage_work_ns", "prefetch_work_ns", "cleaning_work_ns", "destages", "cleanings",
	"destage_seeks", "destage_seek_ns", "destage_rotation_ns", "destage_transfer_ns",
	"media_read_bytes", "media_write_bytes",
};

_Static_assert(sizeof(struct disk_account) == DISK_ACCOUNT_KEYS * sizeof(u64), "one name per counter");
_Static_assert(sizeof(struct disk_parts) == DISK_PARTS * sizeof(u64), "all parts");

bool disk_open(struct disk *disk)
{
	const struct disk_model_ops *ops = disk->config.ops;
	u32 depth = disk->config.queue_depth;
	u32 tag;

	disk->state = NULL;
	if (ops->state_bytes) {
		disk->state = platform_alloc(ops->state_bytes(&disk->config));
		if (!disk->state)
			return false;
	}
	memset(&disk->account, 0, sizeof(disk->account));
	disk->now_ns = 0;
	disk->busy_since_ns = 0;
	disk->sequence = 0;
	disk->outstanding = 0;
	disk->undecided = 0;
	disk->heaped = 0;
	disk->free = 0;
	for (tag = 0; tag < depth; tag++)
		disk->command[tag].next_free = tag + 1 < depth ? tag + 1 : DISK_NONE;
	if (ops->open)
		ops->open(disk);
	return true;
}

void disk_close(struct disk *disk)
{
	const struct disk_model_ops *ops = disk->config.ops;

	if (ops->close)
		ops->close(disk);
	if (disk->state)
		platform_free(disk->state, ops->state_bytes(&disk->config));
	disk->state = NULL;
}

void disk_count(struct disk_account *account, enum disk_op op, u32 sectors)
{
	switch (op) {
	case DISK_READ:
		account->reads++;
		account->read_bytes += sectors * STRATA_SECTOR_BYTES;
		break;
	case DISK_WRITE:
		account->writes++;
		account->write_bytes += sectors * STRATA_SECTOR_BYTES;
		break;
	case DISK_FLUSH:
		account->flushes++;
		break;
	default:
		account->discards++;
		break;
	}
}

/* Whether command a completes before command b; of two at the same instant, the one that arrived first. */
static bool sooner(const struct disk *disk, u32 a, u32 b)
{
	const struct disk_command *x = &disk->command[a], *y = &disk->command[b];

	return x->complete_ns != y->complete_ns ? x->complete_ns < y->complete_ns : x->sequence < y->sequence;
}

static void heap_push(struct disk *disk, u32 tag)
{
	u32 at = disk->heaped++;

	while (at && sooner(disk, tag, disk->heap[(at - 1) / 2])) {
		disk->heap[at] = disk->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	disk->heap[at] = tag;
}

static u32 heap_pop(struct disk *disk)
{
	u32 first = disk->heap[0], last = disk->heap[--disk->heaped];
	u32 at = 0;

	for (;;) {
		u32 below = 2 * at + 1;

		if (below >= disk->heaped)
			break;
		if (below + 1 < disk->heaped && sooner(disk, disk->heap[below + 1], disk->heap[below]))
			below++;
		if (!sooner(disk, disk->heap[below], last))
			break;
		disk->heap[at] = disk->heap[below];
		at = below;
	}
	disk->heap[at] = last;
	return first;
}

void disk_finish(struct disk *disk, u32 tag, u64 complete_ns)
{
	struct disk_command *command = &disk->command[tag];

	command->complete_ns = complete_ns;
	disk_faults_stretch(disk, command);
	disk->undecided--;
	heap_push(disk, tag);
}

static u64 event_ns(const struct disk *disk)
{
	return disk->config.ops->next_ns ? disk->config.ops->next_ns(disk) : U64_MAX;
}

void disk_advance(struct disk *disk, u64 now_ns)
{
	u64 event;

	while ((event = event_ns(disk)) <= now_ns) {
		disk->now_ns = platform_later(disk->now_ns, event);
		disk->config.ops->advance(disk);
	}
	disk->now_ns = platform_later(disk->now_ns, now_ns);
}

u32 disk_add(struct disk *disk, u64 now_ns, const struct disk_io *io)
{
	struct disk_command *command;
	u32 tag = disk->free;

	if (tag == DISK_NONE)
		return DISK_NONE;
	disk_advance(disk, now_ns);
	command = &disk->command[tag];
	disk->free = command->next_free;
	command->io = *io;
	if (disk->config.write_through && io->op == DISK_WRITE)
		command->io.flags |= DISK_FUA;
	command->arrival_ns = disk->now_ns;
	command->complete_ns = 0;
	command->sequence = ++disk->sequence;
	command->failed = false;
	command->overdue = false;
	memset(&command->parts, 0, sizeof(command->parts));
	if (disk->outstanding++ == 0)
		disk->busy_since_ns = disk->now_ns;
	disk->undecided++;
	disk->config.ops->arrive(disk, tag);
	return tag;
}

u64 disk_next_ns(const struct disk *disk)
{
	u64 next = disk->heaped ? disk->command[disk->heap[0]].complete_ns : U64_MAX;

	/* Background work is not looked at until something waits for it. */
	if (disk->undecided) {
		u64 event = event_ns(disk);

		if (event < next)
			next = event;
	}
	return next;
}

static void account_add(struct disk_account *account, const struct disk_command *command)
{
	u64 *to = (u64 *)&account->parts;
	const u64 *from = (const u64 *)&command->parts;
	u32 i;

	disk_count(account, command->io.op, command->io.sectors);
	for (i = 0; i < DISK_PARTS; i++)
		to[i] += from[i];
}

u32 disk_take(struct disk *disk, u64 now_ns)
{
	struct disk_command *command;
	u32 tag;

	disk_advance(disk, now_ns);
	if (!disk->heaped || disk->command[disk->heap[0]].complete_ns > now_ns)
		return DISK_NONE;
	tag = heap_pop(disk);
	command = &disk->command[tag];
	account_add(&disk->account, command);
	if (--disk->outstanding == 0)
		disk->account.busy_ns += command->complete_ns - disk->busy_since_ns;
	return tag;
}

void disk_rest(struct disk *disk)
{
	const struct disk_io flush = { .op = DISK_FLUSH };
	u64 next;
	u32 tag;

	disk_add(disk, disk->now_ns, &flush);
	while ((next = disk_next_ns(disk)) != U64_MAX)
		while ((tag = disk_take(disk, next)) != DISK_NONE)
			disk_release(disk, tag);
	if (disk->config.ops->rest)
		disk->config.ops->rest(disk);
}

void disk_release(struct disk *disk, u32 tag)
{
	disk->command[tag].next_free = disk->free;
	disk->free = tag;
}
