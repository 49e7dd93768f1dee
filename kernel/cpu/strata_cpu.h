/* SPDX-License-Identifier: GPL-2.0 */
/* The price of the processor in virtual time: strata_cpu.c. */
#ifndef _LINUX_STRATA_CPU_H
#define _LINUX_STRATA_CPU_H

#include <linux/strata_cpu_counters.h>
#include <linux/types.h>

#define STRATA_CPU_DONE_MAX 128U	/* of more operations in one ring, some share their place */

struct file;
struct kernfs_open_file;
struct seq_file;
struct strata_program;
struct task_struct;

/* Of a task. */
struct strata_cpu {
	struct strata_program *program;
	u64 owed_ps;		/* work that has not been given to a processor */
	u64 ready_ns;		/* when the work before now is done */
	u64 charged_bytes[2];	/* read and written, as far as they have been charged for */
	bool paying;		/* waits for its own work to be done */
};

extern unsigned long strata_cpu_counts[CPU_COUNTERS];
extern bool strata_cpu_priced;

static inline void strata_cpu_count(enum strata_cpu_counter counter)
{
	strata_cpu_counts[counter]++;
}

void strata_cpu_fork(struct task_struct *child);
void strata_cpu_exec(const struct file *file);
void strata_cpu_enter(void);		/* a system call begins */
void strata_cpu_fault(void);		/* a page fault of a program begins */
void strata_cpu_leave(void);		/* back to the program */
void strata_cpu_block(void);		/* schedule() begins */
void strata_cpu_resume(bool slept);	/* schedule() ends */
void strata_cpu_switch(struct task_struct *prev, struct task_struct *next);
void strata_cpu_wake(struct task_struct *task);
u64 strata_cpu_done(void);
void strata_cpu_not_before(const u64 done_ns[STRATA_CPU_DONE_MAX], unsigned int first, unsigned int count, unsigned int size);
void strata_cpu_resched(void);		/* a long loop in the kernel may pause */
bool strata_cpu_read_clock(void);	/* false if reading the clock must move it */
u64 strata_cpu_clock_read_ns(void);
u64 strata_cpu_sched_clock(void);
int strata_cpu_max_show(struct seq_file *file, void *unused);
ssize_t strata_cpu_max_write(struct kernfs_open_file *of, char *text, size_t count, loff_t at);

/* kernel/sched/core.c: sleeps below schedule(), so that a worker that pays counts as busy */
void strata_cpu_sleep(u64 ns);

/* arch/um/kernel/time.c */
u64 strata_cpu_now(void);
u64 strata_cpu_next_event(void);

#endif
