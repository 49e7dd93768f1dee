/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Resources of a flash drive whose use is known ahead: a command reserves its share when it arrives, and the remainder is
 * there for later ones. No events, no queues to walk: a few comparisons for each reservation.
 */
#ifndef STRATA_TIMELINE_H
#define STRATA_TIMELINE_H

#include "platform.h"

/*
 * A link or channel: one transfer at a time, wherever there is a gap. With only the time at which it gets free, a transfer that is
 * reserved for much later would stop everything that is ready before. When there are too many reservations, the earliest gap is given up.
 */
#define LANE_SLOTS 128U

struct lane {
	u32 count;
	u64 start_ns[LANE_SLOTS];
	u64 end_ns[LANE_SLOTS];
};

/* Reserves duration_ns from ready_ns on; returns the start. Nothing may be asked for that ends before now_ns. */
u64 lane_reserve(struct lane *lane, u64 now_ns, u64 ready_ns, u64 duration_ns);

/*
 * A die: programs, erases and the reads of cleaning one after the other; reads of the host go before them and interrupt programs and
 * erases that can be suspended, so that the schedule moves back. The times that were reported when it was scheduled are not corrected: an interrupted
 * program delays the work behind it.
 */
enum die_work { DIE_PROGRAM, DIE_ERASE, DIE_CLEAN_READ, DIE_CLEAN_PROGRAM };

#define DIE_JOBS 64U		/* more are taken for one */
#define DIE_SUSPENDS_MAX 16U	/* then a program or erase is finished first: else reads could starve it */

struct die_job {
	u64 start_ns;
	u64 end_ns;
	u32 work;
	u32 suspends;
};

struct die {
	u64 free_ns;
	u64 read_free_ns;
	u64 suspended_ns;	/* until then a job is suspended anyway */
	u32 first;
	u32 count;
	u32 sensed_page;	/* whose content is in the page register: + 1, 0 is none */
	u64 reader;		/* the command that read last, and how long it has kept the die */
	u64 reader_ns;
	struct die_job job[DIE_JOBS];
};

/* How long a program and an erase take to be suspended; 0 is that they cannot. */
struct die_suspend {
	u64 program_ns;
	u64 erase_ns;
};

/* The parts of a read's wait on its die. */
struct die_wait {
	u64 queue_ns;
	u64 cleaning_ns;
};

/* Puts work behind everything else; returns its end. */
u64 die_append(struct die *die, u64 ready_ns, u64 duration_ns, enum die_work work);
/* A read of the host; returns its start. at_ns must not go back. */
u64 die_read(struct die *die, const struct die_suspend *suspend, u64 at_ns, u64 duration_ns, struct die_wait *wait);

/*
 * The write buffer: its entries, and when each leaves. A heap, because dies finish in any order.
 */
struct buffer_entry {
	u64 free_ns;
	u64 bytes;
};

struct buffer {
	struct buffer_entry *heap;
	u64 room_bytes;
	u64 used_bytes;
	u64 floor_ns;		/* writers get room in the order of their arrival */
	u32 count;
};

/* Takes bytes of the buffer as early as possible from at_ns on, and returns when. They must fit beside the bytes without an entry. */
u64 buffer_take(struct buffer *buffer, u64 at_ns, u64 bytes);
/* Bytes that were taken get free at free_ns. The heap needs room_bytes / least bytes + 1 entries. */
void buffer_give(struct buffer *buffer, u64 free_ns, u64 bytes);

#endif
