// SPDX-License-Identifier: GPL-2.0
/* Reservations of lanes, dies and the write buffer: rules in timeline.h. */
#include "timeline.h"

static void lane_remove(struct lane *lane, u32 at, u32 count)
{
	size_t left = (lane->count - at - count) * sizeof(u64);

	memmove(lane->start_ns + at, lane->start_ns + at + count, left);
	memmove(lane->end_ns + at, lane->end_ns + at + count, left);
	lane->count -= count;
}

/* Before slot `at`, which starts no earlier. */
static void lane_insert(struct lane *lane, u32 at, u64 start_ns, u64 end_ns)
{
	size_t left;

	if (at && lane->end_ns[at - 1] == start_ns) {
		lane->end_ns[at - 1] = end_ns;
		if (at < lane->count && lane->start_ns[at] == end_ns) {
			lane->end_ns[at - 1] = lane->end_ns[at];
			lane_remove(lane, at, 1);
		}
		return;
	}
	if (at < lane->count && lane->start_ns[at] == end_ns) {
		lane->start_ns[at] = start_ns;
		return;
	}
	if (lane->count == LANE_SLOTS) {
		/* No room to remember another gap: the first one is given up. */
		if (at < 2) {
			lane->start_ns[at ? 1 : 0] = start_ns;
			return;
		}
		lane->end_ns[0] = lane->end_ns[1];
		lane_remove(lane, 1, 1);
		at--;
	}
	left = (lane->count - at) * sizeof(u64);
	memmove(lane->start_ns + at + 1, lane->start_ns + at, left);
	memmove(lane->end_ns + at + 1, lane->end_ns + at, left);
	lane->start_ns[at] = start_ns;
	lane->end_ns[at] = end_ns;
	lane->count++;
}

u64 lane_reserve(struct lane *lane, u64 now_ns, u64 ready_ns, u64 duration_ns)
{
	u64 start = ready_ns;
	u32 past = 0, at;

	if (!duration_ns)
		return ready_ns;
	while (past < lane->count && lane->end_ns[past] <= now_ns)
		past++;
	if (past)
		lane_remove(lane, 0, past);
	if (lane->count && ready_ns >= lane->end_ns[lane->count - 1]) {
		lane_insert(lane, lane->count, start, start + duration_ns);
		return start;
	}
	for (at = 0; at < lane->count; at++) {
		if (start + duration_ns <= lane->start_ns[at])
			break;
		start = platform_later(start, lane->end_ns[at]);
	}
	lane_insert(lane, at, start, start + duration_ns);
	return start;
}

static struct die_job *die_job(struct die *die, u32 index)
{
	return &die->job[(die->first + index) % DIE_JOBS];
}

u64 die_append(struct die *die, u64 ready_ns, u64 duration_ns, enum die_work work)
{
	u64 start = platform_later(die->free_ns, ready_ns);
	struct die_job *job;

	die->free_ns = start + duration_ns;
	die->sensed_page = 0;
	if (die->count == DIE_JOBS) {
		die_job(die, die->count - 1)->end_ns = die->free_ns;
		return die->free_ns;
	}
	job = die_job(die, die->count++);
	job->start_ns = start;
	job->end_ns = die->free_ns;
	job->work = work;
	job->suspends = 0;
	return die->free_ns;
}

/* The jobs from `index` on begin no earlier than `from_ns`. */
static void die_push(struct die *die, u32 index, u64 from_ns)
{
	for (; index < die->count; index++) {
		struct die_job *job = die_job(die, index);

		if (job->start_ns >= from_ns)
			return;
		job->end_ns += from_ns - job->start_ns;
		job->start_ns = from_ns;
		from_ns = job->end_ns;
	}
	die->free_ns = platform_later(die->free_ns, from_ns);
}

static u64 suspend_ns(const struct die_suspend *suspend, const struct die_job *job)
{
	if (job->suspends >= DIE_SUSPENDS_MAX || job->work == DIE_CLEAN_READ)
		return 0;
	return job->work == DIE_ERASE ? suspend->erase_ns : suspend->program_ns;
}

u64 die_read(struct die *die, const struct die_suspend *suspend, u64 at_ns, u64 duration_ns, struct die_wait *wait)
{
	u64 start = platform_later(at_ns, die->read_free_ns), cleaning = 0;
	u32 index;

	while (die->count && die->job[die->first].end_ns <= at_ns) {
		die->first = (die->first + 1) % DIE_JOBS;
		die->count--;
	}
	for (index = 0; index < die->count; index++) {
		struct die_job *job = die_job(die, index);
		u64 delay, before = start;

		if (job->end_ns <= start)
			continue;
		if (job->start_ns > start) {
			die_push(die, index, start + duration_ns);
			break;
		}
		delay = suspend_ns(suspend, job);
		if (delay) {
			start = start <= die->suspended_ns ? start : start + delay;
			die->suspended_ns = start + duration_ns;
			job->suspends++;
			job->end_ns += start - before + duration_ns;
			die_push(die, index + 1, job->end_ns);
		} else {
			start = job->end_ns;
		}
		if (job->work != DIE_PROGRAM)
			cleaning += start - before;
		if (delay)
			break;
	}
	wait->cleaning_ns = cleaning;
	wait->queue_ns = start - at_ns - cleaning;
	die->read_free_ns = start + duration_ns;
	die->free_ns = platform_later(die->free_ns, die->read_free_ns);
	if (die->count)
		die->free_ns = platform_later(die->free_ns, die_job(die, die->count - 1)->end_ns);
	return start;
}

static void sift_down(struct buffer *buffer, struct buffer_entry entry)
{
	u32 at = 0;

	for (;;) {
		u32 below = 2 * at + 1;

		if (below >= buffer->count)
			break;
		if (below + 1 < buffer->count && buffer->heap[below + 1].free_ns < buffer->heap[below].free_ns)
			below++;
		if (buffer->heap[below].free_ns >= entry.free_ns)
			break;
		buffer->heap[at] = buffer->heap[below];
		at = below;
	}
	buffer->heap[at] = entry;
}

static u64 buffer_pop(struct buffer *buffer)
{
	u64 free = buffer->heap[0].free_ns;

	buffer->used_bytes -= buffer->heap[0].bytes;
	if (--buffer->count)
		sift_down(buffer, buffer->heap[buffer->count]);
	return free;
}

u64 buffer_take(struct buffer *buffer, u64 at_ns, u64 bytes)
{
	at_ns = platform_later(at_ns, buffer->floor_ns);
	while (buffer->count && buffer->heap[0].free_ns <= at_ns)
		buffer_pop(buffer);
	while (buffer->count && buffer->used_bytes + bytes > buffer->room_bytes)
		at_ns = platform_later(at_ns, buffer_pop(buffer));
	buffer->used_bytes += bytes;
	buffer->floor_ns = at_ns;
	return at_ns;
}

void buffer_give(struct buffer *buffer, u64 free_ns, u64 bytes)
{
	u32 at = buffer->count++;

	while (at && buffer->heap[(at - 1) / 2].free_ns > free_ns) {
		buffer->heap[at] = buffer->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	buffer->heap[at].free_ns = free_ns;
	buffer->heap[at].bytes = bytes;
}
