// SPDX-License-Identifier: GPL-2.0
/* The command queue: rules in queue.h. */
#include "queue.h"

const char *const disk_account_names[DISK_ACCOUNT_KEYS] = {
	"reads", "read_bytes", "writes", "write_bytes", "flushes", "discards", "queue_ns", "overhead_ns", "seek_ns", "rotation_ns",
	"transfer_ns", "flush_ns", "busy_ns",
};

void disk_queue_init(struct disk_queue *queue)
{
	u32 depth = queue->model.config.queue_depth;
	u32 tag;

	memset(&queue->model.rotating, 0, sizeof(queue->model.rotating));
	memset(&queue->account, 0, sizeof(queue->account));
	queue->free_ns = 0;
	queue->busy_since_ns = 0;
	queue->outstanding = 0;
	queue->head = DISK_NONE;
	queue->tail = DISK_NONE;
	queue->done_head = DISK_NONE;
	queue->done_tail = DISK_NONE;
	queue->serving = DISK_NONE;
	queue->free = 0;
	for (tag = 0; tag < depth; tag++)
		queue->command[tag].next = tag + 1 < depth ? tag + 1 : DISK_NONE;
}

void disk_account_request(struct disk_account *account, enum disk_op op, u32 sectors)
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

static u64 later(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u64 ready_ns(const struct disk_queue *queue, const struct disk_command *command)
{
	if (command->io.op == DISK_FLUSH)
		return command->arrival_ns;
	return command->arrival_ns + queue->model.config.overhead_ns;
}

/* Takes the best waiting command off the list. There is one. */
static u32 pick(struct disk_queue *queue, u64 now_ns)
{
	const struct disk_config *config = &queue->model.config;
	struct disk_command *oldest = &queue->command[queue->head];
	u32 best = queue->head, best_before = DISK_NONE, before = DISK_NONE, left = config->window;
	u64 best_ns = U64_MAX;
	u32 tag;

	if (oldest->io.op == DISK_FLUSH || now_ns - oldest->arrival_ns > config->wait_limit_ns || left <= 1)
		goto found;
	for (tag = queue->head; tag != DISK_NONE && left; before = tag, tag = queue->command[tag].next, left--) {
		struct disk_command *command = &queue->command[tag];
		u64 start;

		if (command->io.op == DISK_FLUSH)
			break;
		start = later(now_ns, ready_ns(queue, command));
		if (start >= best_ns)
			continue;
		start += config->ops->positioning_ns(&queue->model, start, &command->io);
		if (start < best_ns) {
			best = tag;
			best_before = before;
			best_ns = start;
		}
	}
found:
	if (best_before == DISK_NONE)
		queue->head = queue->command[best].next;
	else
		queue->command[best_before].next = queue->command[best].next;
	if (queue->tail == best)
		queue->tail = best_before;
	return best;
}

/* Turns the mechanism to the next command, if there is one, at the instant now_ns. */
static void start_next(struct disk_queue *queue, u64 now_ns)
{
	const struct disk_config *config = &queue->model.config;
	struct disk_command *command;
	u64 start;

	if (queue->head == DISK_NONE)
		return;
	queue->serving = pick(queue, now_ns);
	command = &queue->command[queue->serving];
	start = later(now_ns, ready_ns(queue, command));
	memset(&command->parts, 0, sizeof(command->parts));
	disk_account_request(&command->parts, command->io.op, command->io.sectors);
	if (command->io.op == DISK_FLUSH) {
		command->parts.flush_ns = start - command->arrival_ns;
		command->complete_ns = start;
	} else {
		command->parts.overhead_ns = config->overhead_ns;
		command->parts.queue_ns = start - command->arrival_ns - config->overhead_ns;
		command->complete_ns = config->ops->submit(&queue->model, start, &command->io, &command->parts);
	}
	queue->free_ns = command->complete_ns;
}

static void account_add(struct disk_account *sum, const struct disk_account *parts)
{
	u64 *to = (u64 *)sum;
	const u64 *from = (const u64 *)parts;
	u32 i;

	_Static_assert(sizeof(struct disk_account) == DISK_ACCOUNT_KEYS * sizeof(u64), "one name per counter");
	for (i = 0; i < DISK_ACCOUNT_KEYS; i++)
		to[i] += from[i];
}

/* Completes what is complete by now_ns; each time the mechanism becomes free it turns to the next command at once. */
static void advance(struct disk_queue *queue, u64 now_ns)
{
	while (queue->serving != DISK_NONE && queue->free_ns <= now_ns) {
		u32 tag = queue->serving;
		struct disk_command *command = &queue->command[tag];

		command->next = DISK_NONE;
		if (queue->done_tail == DISK_NONE)
			queue->done_head = tag;
		else
			queue->command[queue->done_tail].next = tag;
		queue->done_tail = tag;
		account_add(&queue->account, &command->parts);
		if (--queue->outstanding == 0)
			queue->account.busy_ns += queue->free_ns - queue->busy_since_ns;
		queue->serving = DISK_NONE;
		start_next(queue, queue->free_ns);
	}
}

u32 disk_queue_add(struct disk_queue *queue, u64 now_ns, enum disk_op op, u64 sector, u32 sectors)
{
	struct disk_command *command;
	u32 tag;

	advance(queue, now_ns);
	tag = queue->free;
	if (tag == DISK_NONE)
		return DISK_NONE;
	command = &queue->command[tag];
	queue->free = command->next;
	command->next = DISK_NONE;
	command->arrival_ns = now_ns;
	command->io.op = op;
	command->io.sector = sector;
	command->io.sectors = sectors;
	if (op != DISK_FLUSH)
		queue->model.config.ops->prepare(&queue->model, &command->io);
	if (queue->head == DISK_NONE)
		queue->head = tag;
	else
		queue->command[queue->tail].next = tag;
	queue->tail = tag;
	if (queue->outstanding++ == 0)
		queue->busy_since_ns = now_ns;
	if (queue->serving == DISK_NONE)
		start_next(queue, now_ns);
	return tag;
}

u64 disk_queue_next_ns(const struct disk_queue *queue)
{
	if (queue->done_head != DISK_NONE)
		return 0;
	return queue->serving == DISK_NONE ? U64_MAX : queue->free_ns;
}

u32 disk_queue_take(struct disk_queue *queue, u64 now_ns)
{
	u32 tag;

	advance(queue, now_ns);
	tag = queue->done_head;
	if (tag == DISK_NONE)
		return DISK_NONE;
	queue->done_head = queue->command[tag].next;
	if (queue->done_head == DISK_NONE)
		queue->done_tail = DISK_NONE;
	return tag;
}

void disk_queue_release(struct disk_queue *queue, u32 tag)
{
	queue->command[tag].next = queue->free;
	queue->free = tag;
}
