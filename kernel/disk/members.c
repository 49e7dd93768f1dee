// SPDX-License-Identifier: GPL-2.0
/* Jobs on member disks: rules in members.h. */
#include "members.h"

u64 members_parts_ns(const struct disk_parts *parts)
{
	const u64 *part = (const u64 *)parts;
	u64 sum = 0;
	u32 i;

	for (i = 0; i < DISK_PARTS; i++)
		sum += part[i];
	return sum;
}

static void parts_add(struct disk_parts *to, const struct disk_parts *from)
{
	u64 *sum = (u64 *)to;
	const u64 *part = (const u64 *)from;
	u32 i;

	for (i = 0; i < DISK_PARTS; i++)
		sum[i] += part[i];
}

static struct disk *member_open(const struct disk_config *config, u32 index)
{
	struct disk *disk = platform_alloc(sizeof(*disk));

	if (!disk)
		return NULL;
	disk->config = *config->controller.member;
	/* The members of an array are alike, but their random draws differ. */
	disk->config.seed = platform_mix(config->seed ^ disk->config.seed ^ index) >> 1;
	if (disk_open(disk))
		return disk;
	platform_free(disk, sizeof(*disk));
	return NULL;
}

bool members_open(struct members *members, const struct disk_config *config, struct disk_account *account)
{
	u32 i;

	members->array = &config->controller.array;
	members->account = account;
	members->first = MEMBERS_NONE;
	members->free_ios = MEMBERS_IOS;
	for (i = 0; i < MEMBERS_IOS; i++)
		members->io[i].next = i + 1 < MEMBERS_IOS ? i + 1 : MEMBERS_NONE;
	for (i = 0; i < members->array->members; i++) {
		struct members_queue *queue = &members->queue[i];

		queue->next_ns = U64_MAX;
		queue->first = MEMBERS_NONE;
		queue->open = MEMBERS_NONE;
		queue->disk = member_open(config, i);
		if (!queue->disk)
			return false;
	}
	return true;
}

void members_close(struct members *members)
{
	u32 i;

	for (i = 0; i < ARRAY_MEMBERS && members->queue[i].disk; i++) {
		disk_close(members->queue[i].disk);
		platform_free(members->queue[i].disk, sizeof(struct disk));
		members->queue[i].disk = NULL;
	}
}

void members_rest(struct members *members, u64 now_ns)
{
	u32 i;

	for (i = 0; i < members->array->members; i++) {
		disk_advance(members->queue[i].disk, now_ns);
		disk_rest(members->queue[i].disk);
	}
}

void members_nonvolatile(struct members *members, struct nonvolatile *stream)
{
	u32 i;

	for (i = 0; i < members->array->members; i++) {
		struct disk *disk = members->queue[i].disk;

		if (disk->config.ops->nonvolatile)
			disk->config.ops->nonvolatile(disk, stream);
	}
}

/* Adds the work of the member's mechanism since the last call to the controller's account, as destaging or as commands. */
static void account_sync(struct members *members, struct members_queue *queue, bool destages)
{
	const struct disk_account *now = &queue->disk->account;
	struct disk_account *seen = &queue->seen, *sum = members->account;
	u64 work = now->command_work_ns + now->destage_work_ns - seen->command_work_ns - seen->destage_work_ns;

	if (destages)
		sum->destage_work_ns += work;
	else
		sum->command_work_ns += work;
	sum->cache_hits += now->cache_hits - seen->cache_hits;
	sum->prefetch_work_ns += now->prefetch_work_ns - seen->prefetch_work_ns;
	sum->cleaning_work_ns += now->cleaning_work_ns - seen->cleaning_work_ns;
	sum->cleanings += now->cleanings - seen->cleanings;
	sum->media_read_bytes += now->media_read_bytes - seen->media_read_bytes;
	sum->media_write_bytes += now->media_write_bytes - seen->media_write_bytes;
	*seen = *now;
}

/* Sends what waits for the member while its queue has room. */
static void send(struct members *members, struct members_queue *queue, u64 now_ns)
{
	while (queue->first != MEMBERS_NONE && queue->disk->free != DISK_NONE) {
		u32 io = queue->first;

		queue->first = members->io[io].next;
		queue->sent[disk_add(queue->disk, now_ns, &members->io[io].io)] = io;
	}
	queue->next_ns = disk_next_ns(queue->disk);
}

static void append(struct members *members, struct members_queue *queue, u32 io)
{
	members->io[io].next = MEMBERS_NONE;
	if (queue->first == MEMBERS_NONE)
		queue->first = io;
	else
		members->io[queue->last].next = io;
	queue->last = io;
}

/* Sends the I/Os that the step has gathered. */
static void flush_open(struct members *members, u64 now_ns)
{
	u32 i;

	for (i = 0; i < members->array->members; i++) {
		struct members_queue *queue = &members->queue[i];

		if (queue->open == MEMBERS_NONE)
			continue;
		append(members, queue, queue->open);
		queue->open = MEMBERS_NONE;
		send(members, queue, now_ns);
	}
}

static void emit(struct members *members, u32 job, enum disk_op op, u32 member, u64 sector, u64 sectors)
{
	struct members_queue *queue = &members->queue[member];
	struct members_io *io;

	queue->head = sector + sectors;
	if (queue->open != MEMBERS_NONE) {
		io = &members->io[queue->open];
		if (io->io.sector + io->io.sectors == sector) {
			io->io.sectors += (u32)sectors;
			return;
		}
		append(members, queue, queue->open);
	}
	queue->open = members->free;
	io = &members->io[queue->open];
	members->free = io->next;
	members->free_ios--;
	io->io = (struct disk_io){ .op = op, .sector = sector, .sectors = (u32)sectors };
	/* A write to a member must be durable there, whatever cache it has. */
	if (op == DISK_WRITE && queue->disk->config.volatile_cache)
		io->io.flags = DISK_FUA;
	io->job = job;
	members->job[job].pending++;
	queue->load++;
}

/* Of a pair, the one with less to do; of two equal ones, the one whose head is nearer. */
static u32 reader_of(const struct members *members, const struct array_piece *piece)
{
	const struct members_queue *a = &members->queue[piece->member], *b = a + 1;
	u64 from_a = a->head > piece->sector ? a->head - piece->sector : piece->sector - a->head;
	u64 from_b = b->head > piece->sector ? b->head - piece->sector : piece->sector - b->head;

	if (a->load != b->load)
		return piece->member + (b->load < a->load);
	return piece->member + (from_b < from_a);
}

/* One chunk of the job. */
static void emit_chunk(struct members *members, u32 index, enum disk_op op)
{
	struct members_job *job = &members->job[index];
	struct array_piece piece = array_map(members->array, job->cursor, job->end - job->cursor);

	job->cursor += piece.sectors;
	if (members->array->level == ARRAY_RAID10 && op == DISK_READ) {
		emit(members, index, op, reader_of(members, &piece), piece.sector, piece.sectors);
		return;
	}
	emit(members, index, op, piece.member, piece.sector, piece.sectors);
	if (members->array->level == ARRAY_RAID10)
		emit(members, index, op, piece.member + 1, piece.sector, piece.sectors);
}

/* One row of a job that writes to a level with parity: its data and the parity over the same offsets. */
static void emit_row(struct members *members, u32 index, enum disk_op op)
{
	const struct array *array = members->array;
	struct members_job *job = &members->job[index];
	u64 row_sectors = array_row_sectors(array), row = job->cursor / row_sectors, start = job->cursor;
	u64 end = (row + 1) * row_sectors < job->end ? (row + 1) * row_sectors : job->end;
	u64 first = start % array->chunk_sectors, count = end - start;
	u32 p;

	/* Of a range over several chunks the parity is taken as touched all over. */
	if (first + count > array->chunk_sectors) {
		first = 0;
		count = array->chunk_sectors;
	}
	while (job->cursor < end) {
		struct array_piece piece = array_map(array, job->cursor, end - job->cursor);

		emit(members, index, op, piece.member, piece.sector, piece.sectors);
		job->cursor += piece.sectors;
	}
	for (p = 0; p < array_parities(array); p++)
		emit(members, index, op, array_parity_member(array, row, p), row * array->chunk_sectors + first, count);
}

/* Rows that are written whole need no old content: on to the last one, which may be partial. */
static void skip_whole_rows(const struct array *array, struct members_job *job)
{
	u64 row_sectors = array_row_sectors(array);

	if (job->cursor % row_sectors == 0 && job->end - job->cursor >= row_sectors)
		job->cursor = job->end / row_sectors * row_sectors;
}

/* Makes I/Os of the step until it is all done (true) or there is no room for more. */
static bool issue(struct members *members, u64 now_ns, u32 index)
{
	struct members_job *job = &members->job[index];
	bool rows = job->op == DISK_WRITE && array_parities(members->array);
	enum disk_op op = job->reads_old ? DISK_READ : job->op;

	for (;;) {
		if (job->reads_old)
			skip_whole_rows(members->array, job);
		if (job->cursor >= job->end || members->free_ios < ARRAY_MEMBERS + 1)
			break;
		if (rows)
			emit_row(members, index, op);
		else
			emit_chunk(members, index, op);
	}
	flush_open(members, now_ns);
	return job->cursor >= job->end;
}

static void start_step(struct members *members, u64 now_ns, u32 index)
{
	struct members_job *job = &members->job[index];

	job->cursor = job->start;
	job->step_ns = now_ns;
	if (members->first == MEMBERS_NONE && issue(members, now_ns, index))
		return;
	job->next = MEMBERS_NONE;
	if (members->first == MEMBERS_NONE)
		members->first = index;
	else
		members->job[members->last].next = index;
	members->last = index;
}

void members_start(struct members *members, u64 now_ns, u32 index, enum disk_op op, u64 start, u64 sectors)
{
	struct members_job *job = &members->job[index];
	u64 row_sectors = array_row_sectors(members->array);

	memset(job, 0, sizeof(*job));
	job->start = start;
	job->end = start + sectors;
	job->op = op;
	job->reads_old = op == DISK_WRITE && array_parities(members->array) && (start % row_sectors || job->end % row_sectors);
	start_step(members, now_ns, index);
}

u64 members_next_ns(const struct members *members)
{
	u64 next = U64_MAX;
	u32 i;

	for (i = 0; i < members->array->members; i++)
		if (members->queue[i].next_ns < next)
			next = members->queue[i].next_ns;
	return next;
}

/* Whether the job is over: its step has no I/O left, and there is no step behind it. */
static bool step_over(struct members *members, u64 now_ns, u32 index)
{
	struct members_job *job = &members->job[index];

	if (job->pending || job->cursor < job->end)
		return false;
	parts_add(&job->parts, &job->last);
	job->parts.queue_ns += now_ns - job->step_ns - members_parts_ns(&job->last);
	if (!job->reads_old)
		return true;
	job->reads_old = false;
	start_step(members, now_ns, index);
	return false;
}

static void issue_waiting(struct members *members, u64 now_ns)
{
	while (members->first != MEMBERS_NONE && members->free_ios > ARRAY_MEMBERS) {
		u32 index = members->first;

		if (!issue(members, now_ns, index))
			return;
		members->first = members->job[index].next;
	}
}

/* Takes one finished I/O of a member; returns its job when that is over. */
static u32 take_io(struct members *members, struct members_queue *queue, u64 now_ns)
{
	u32 tag = disk_take(queue->disk, now_ns), io, index;
	struct members_job *job;

	if (tag == DISK_NONE) {
		queue->next_ns = disk_next_ns(queue->disk);
		return MEMBERS_NONE;
	}
	io = queue->sent[tag];
	index = members->io[io].job;
	job = &members->job[index];
	job->last = queue->disk->command[tag].parts;
	disk_release(queue->disk, tag);
	account_sync(members, queue, index >= DISK_QUEUE_LIMIT);
	members->io[io].next = members->free;
	members->free = io;
	members->free_ios++;
	queue->load--;
	job->pending--;
	send(members, queue, now_ns);
	issue_waiting(members, now_ns);
	return step_over(members, now_ns, index) ? index : MEMBERS_NONE;
}

u32 members_take(struct members *members, u64 now_ns)
{
	u32 i;

	for (i = 0; i < members->array->members; i++) {
		while (members->queue[i].next_ns <= now_ns) {
			u32 job = take_io(members, &members->queue[i], now_ns);

			if (job != MEMBERS_NONE)
				return job;
		}
	}
	return MEMBERS_NONE;
}
