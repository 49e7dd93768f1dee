// SPDX-License-Identifier: GPL-2.0
/*
 * The price of the processor in virtual time. The kernel's work is counted by the compiler's plugin, in bytes and in events (strata_cpu_counters.h); a
 * program's is charged for with each of its system calls, page faults, and bytes that it reads and writes. One real processor does all of it, in no
 * time. What a task owes is then given to the virtual processor that is free first, and the task goes on when that one is done.
 *
 *   owed_ps    work done since it was last given to a processor
 *   ready_ns   when the work that was given to processors is done. A task may run ahead of it inside the kernel, never back in its program. Whom it
 *              wakes meanwhile is not ready before, either.
 *
 * An interrupt's work occupies a processor, and delays whom it wakes. What paying itself costs is not counted.
 *
 * A virtual machine's kernel counts like this one, and its counters are added to these whenever it enters this one: it pays for its work and for
 * its programs'. What this kernel does to run it, system calls that a processor would do itself, takes no time.
 */
#include <linux/cgroup.h>
#include <linux/sched/clock.h>
#include <linux/sched/stat.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/strata_cpu_prices.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <linux/unistd.h>

/* About what the scheduler gives a task before the next one's turn (base_slice_ns). */
#define SLICE_NS 700000
/* A loop in the kernel pays when it has counted this much. */
#define LOOP_UNITS 16384
#define LOOP_BYTES 131072
/* The period of cpu.max where none is given, as elsewhere. */
#define PERIOD_US 100000
/* So many readings of the clock without a step of it are a loop that waits for one. */
#define CLOCK_READS_MAX 256

unsigned long strata_cpu_counts[CPU_COUNTERS] __used;
EXPORT_SYMBOL(strata_cpu_counts);
bool strata_cpu_priced;
struct strata_cpu_use strata_cpu_use;

/* The processors of a control group: of the machine's, its tasks use no more at a time. */
struct strata_cpu_group {
	unsigned int processors;
	u64 free_at_ns[] __counted_by(processors);
};

static u64 priced_since_ns;	/* a sched_clock() of 0 */
static u64 free_at_ns[STRATA_PROCESSORS_MAX];
static unsigned long taken[CPU_COUNTERS];	/* the counters when they were last priced */
static unsigned int clock_reads;

/* The price of what was counted since the last time. */
static u64 take(void)
{
	u64 ps = 0;
	int i;

	for (i = 0; i < CPU_COUNTERS; i++) {
		ps += (strata_cpu_counts[i] - taken[i]) * strata_cpu_prices.price_ps[i];
		taken[i] = strata_cpu_counts[i];
	}
	return ps;
}

/* The boot's first task becomes the idle task; is_idle_task() is true only then. */
static bool is_idle(const struct task_struct *task)
{
	return !task->pid;
}

/* Forgets what was counted since the last time: the work of paying. */
static void forget(void)
{
	memcpy(strata_cpu_counts, taken, sizeof(taken));
}

/* The price of a task's work since the last time. Reading the clock has moved it, also for a machine. */
static u64 take_of(const struct task_struct *task)
{
	unsigned long user_ps = strata_cpu_counts[CPU_USER];

	if (task->strata_cpu.program->machine) {
		forget();
		strata_cpu_counts[CPU_USER] = user_ps;
	}
	return take();
}

/* Takes over what a machine's kernel has counted. */
static void take_machine(void)
{
	struct strata_cpu *cpu = &current->strata_cpu;
	unsigned long counts[CPU_COUNTERS];
	int i;

	cpu->owed_ps += take_of(current);
	if (copy_from_user(counts, cpu->program->counts, sizeof(counts)) || clear_user(cpu->program->counts, sizeof(counts)))
		return;
	for (i = 0; i < CPU_COUNTERS; i++)
		strata_cpu_counts[i] += counts[i];
	cpu->owed_ps += take();
}

/* Gives work that is not before `from` to the processor that is free first; returns when it begins. */
static u64 occupy(u64 free_at[], unsigned int processors, u64 from, u64 ns)
{
	unsigned int i, best = 0;
	u64 start;

	for (i = 1; i < processors; i++)
		if (free_at[i] < free_at[best])
			best = i;
	start = max(from, free_at[best]);
	free_at[best] = start + ns;
	return start;
}

/* The limited groups of a task, from its own outwards; an interrupt has none. */
static struct cgroup_subsys_state *limited(struct cgroup_subsys_state *css)
{
	while (css && !css->strata_group)
		css = css->parent;
	return css;
}

static struct cgroup_subsys_state *first_limited(const struct task_struct *task)
{
	return task ? limited(task_css_check(task, cpu_cgrp_id, true)) : NULL;
}

/* Gives a task's work that is not before `from` to a processor of the machine, and of each of its groups; returns when it is done. */
static u64 reserve(const struct task_struct *task, u64 from, u64 ns)
{
	u64 start = occupy(free_at_ns, strata_cpu_prices.processors, strata_cpu_now(), ns);
	struct cgroup_subsys_state *css;

	for (css = first_limited(task); css; css = limited(css->parent))
		start = occupy(css->strata_group->free_at_ns, css->strata_group->processors, start, ns);
	strata_cpu_use.queued_ns += max(start, from) - from;
	strata_cpu_use.busy_ns += ns;
	return max(start, from) + ns;
}

static bool is_one_idle(const u64 free_at[], unsigned int processors)
{
	unsigned int i;

	for (i = 0; i < processors; i++)
		if (free_at[i] <= strata_cpu_now())
			return true;
	return false;
}

/* Whether a processor is idle that the task may use. */
static bool has_idle_processor(const struct task_struct *task)
{
	bool idle = is_one_idle(free_at_ns, strata_cpu_prices.processors);
	struct cgroup_subsys_state *css;

	for (css = first_limited(task); css && idle; css = limited(css->parent))
		idle = is_one_idle(css->strata_group->free_at_ns, css->strata_group->processors);
	return idle;
}

static bool in_interrupt_handler(void)
{
	return in_hardirq() || in_serving_softirq();
}

/* Interrupts cannot be told what they owe: a processor does it at once. */
static u64 reserve_interrupt(u64 ps)
{
	return reserve(NULL, strata_cpu_now(), ps / 1000);
}

static void settle_slice(struct strata_cpu *cpu, u64 limit_ns)
{
	u64 ns = min(cpu->owed_ps / 1000, limit_ns);

	cpu->owed_ps -= ns * 1000;
	cpu->ready_ns = reserve(container_of(cpu, struct task_struct, strata_cpu), max(strata_cpu_now(), cpu->ready_ns), ns);
}

/*
 * Moves the clock here, or sleeps while others may use the other processors. On a single processor nobody can: who was woken meanwhile runs when
 * this task leaves the kernel, or after a slice.
 */
static void wait_until(u64 end)
{
	struct strata_cpu *cpu = &current->strata_cpu;
	u64 now;

	cpu->paying = true;
	while ((now = strata_cpu_now()) < end) {
		u64 next = strata_cpu_next_event();

		clock_reads = 0;
		if (strata_cpu_prices.processors > 1 && (!single_task_running() || need_resched())) {
			strata_cpu_sleep(end - now);
			forget();
			continue;
		}
		/* An event of this very instant is delivered by a step of no length. */
		time_travel_ndelay(min(end, max(next, now)) - now);
		reserve_interrupt(take());
	}
	cpu->paying = false;
}

static void pay(void)
{
	struct strata_cpu *cpu = &current->strata_cpu;

	cpu->owed_ps += take_of(current);
	do {
		settle_slice(cpu, SLICE_NS);
		wait_until(cpu->ready_ns);
		if (cpu->owed_ps >= 1000)
			cond_resched();
	} while (cpu->owed_ps >= 1000);
}

static bool can_pay(void)
{
	return !current->strata_cpu.paying && !is_idle(current) && !(current->flags & PF_EXITING) &&
	       !irqs_disabled() && !in_interrupt_handler();
}

/* A program's work before this call or fault. */
static void charge_program(u64 event_ps, bool is_call)
{
	struct task_struct *task = current;
	struct strata_cpu *cpu = &task->strata_cpu;
	struct strata_program *program = cpu->program;
	u64 bytes[2] = { task->ioac.rchar, task->ioac.wchar };
	int i;

	for (i = 0; i < 2; i++) {
		event_ps += (bytes[i] - cpu->charged_bytes[i]) * program->byte_ps[i];
		cpu->charged_bytes[i] = bytes[i];
	}
	strata_cpu_counts[CPU_USER] += event_ps;
	program->calls += is_call;
	program->faults += !is_call;
	program->charged_ps += event_ps;
}

void strata_cpu_enter(void)
{
	const struct uml_pt_regs *regs = &current->thread.regs.regs;
	const struct strata_program *program = current->strata_cpu.program;
	bool submits = UPT_SYSCALL_NR(regs) == __NR_io_submit || UPT_SYSCALL_NR(regs) == __NR_io_uring_enter; /* each I/O is prepared as if alone */

	strata_cpu_count(CPU_SYSTEM_CALL);
	if (!program)
		return;
	charge_program(program->call_ps * (submits ? clamp_t(u64, UPT_SYSCALL_ARG2(regs), 1, 4096) : 1), true);
	if (!strata_cpu_priced)
		return;
	if (program->machine == current->mm)
		take_machine();
	pay();
}

void strata_cpu_fault(void)
{
	strata_cpu_count(CPU_PAGE_FAULT);
	if (current->strata_cpu.program)
		charge_program(current->strata_cpu.program->fault_ps, false);
}

void strata_cpu_leave(void)
{
	if (strata_cpu_priced && can_pay())
		pay();
}

/*
 * Who waits for I/O has just asked for it, in no time: that work comes before the I/O, so it is paid afterwards. Any other wait begins when the work
 * is done, and ends no earlier.
 */
void strata_cpu_block(void)
{
	struct strata_cpu *cpu = &current->strata_cpu;

	if (!strata_cpu_priced || cpu->paying || is_idle(current) || task_is_running(current))
		return;
	cpu->owed_ps += take_of(current);
	if (!current->in_iowait && !(READ_ONCE(current->__state) & TASK_UNINTERRUPTIBLE))
		settle_slice(cpu, U64_MAX);
}

void strata_cpu_resume(bool slept)
{
	if (current->strata_cpu.paying || is_idle(current))
		return;
	if (slept)
		strata_cpu_count(CPU_SWITCH);
	if (strata_cpu_priced && (current->flags & PF_KTHREAD) && can_pay())
		pay();
}

void strata_cpu_switch(struct task_struct *prev, struct task_struct *next)
{
	if (!strata_cpu_priced)
		return;
	if (prev->strata_cpu.paying || (is_idle(prev) && next->strata_cpu.paying)) {
		forget();
		return;
	}
	if (is_idle(prev)) {
		reserve_interrupt(take());
	} else {
		prev->strata_cpu.owed_ps += take_of(prev);
		if (READ_ONCE(prev->__state) & TASK_DEAD)
			settle_slice(&prev->strata_cpu, U64_MAX);
	}
}

/*
 * A task is woken: it is not ready before its waker was. Only an idle processor takes time to begin, and the waker's is not idle: a task that runs
 * has to interrupt the other one, too. Without prices of programs that is counted as on two processors; a machine has one.
 */
void strata_cpu_wake(struct task_struct *task)
{
	struct strata_cpu *cpu = &current->strata_cpu;
	bool by_task = !(in_interrupt_handler() || is_idle(current) || cpu->paying);
	bool idle;
	u64 done;

	if (task->strata_cpu.paying)
		return;
	strata_cpu_count(CPU_WAKEUP);
	if (!strata_cpu_priced) {
		if (by_task && task != current && !cpu->program && nr_running() <= 2)
			strata_cpu_count(CPU_IDLE_WAKEUP);
		return;
	}
	if (by_task) {
		cpu->owed_ps += take_of(current);
		settle_slice(cpu, U64_MAX);
		/* A machine's kernel and its programs take turns on one processor. */
		idle = has_idle_processor(task) && task != current && !(cpu->program->machine && cpu->program == task->strata_cpu.program);
		if (idle) {
			strata_cpu_count(CPU_IDLE_WAKEUP);
			cpu->owed_ps += take_of(current);
			settle_slice(cpu, U64_MAX);
		}
		done = cpu->ready_ns;
	} else {
		idle = has_idle_processor(task);
		done = reserve_interrupt(take());
	}
	if (idle)
		done += strata_cpu_prices.wakeup_latency_ns;
	task->strata_cpu.ready_ns = max(task->strata_cpu.ready_ns, done);
}

/*
 * When the work that completes an operation is done: a program that finds the operation completed, without having been woken, must not be earlier. On a
 * single processor it cannot.
 */
u64 strata_cpu_done(void)
{
	struct strata_cpu *cpu = &current->strata_cpu;

	if (!strata_cpu_priced || strata_cpu_prices.processors == 1)
		return 0;
	if (cpu->paying || is_idle(current) || in_interrupt_handler())
		return reserve_interrupt(take());
	cpu->owed_ps += take_of(current);
	settle_slice(cpu, U64_MAX);
	return cpu->ready_ns;
}

/* The task has found `count` operations completed, from place `first` of a ring of `size` on; `done_ns` has their strata_cpu_done(). */
void strata_cpu_not_before(const u64 done_ns[STRATA_CPU_DONE_MAX], unsigned int first, unsigned int count, unsigned int size)
{
	struct strata_cpu *cpu = &current->strata_cpu;
	u64 latest = 0;
	unsigned int i;

	for (i = 0; i < min(count, STRATA_CPU_DONE_MAX); i++)
		latest = max(latest, done_ns[(first + i) % size % STRATA_CPU_DONE_MAX]);
	if (latest <= max(cpu->ready_ns, strata_cpu_now()))
		return;
	cpu->owed_ps += take_of(current);
	settle_slice(cpu, U64_MAX);
	cpu->ready_ns = max(cpu->ready_ns, latest);
}

void strata_cpu_resched(void)
{
	if (!strata_cpu_priced ||
	    (strata_cpu_counts[CPU_BLOCK] - taken[CPU_BLOCK] < LOOP_UNITS &&
	     strata_cpu_counts[CPU_COMPRESSION] - taken[CPU_COMPRESSION] < LOOP_UNITS &&
	     strata_cpu_counts[CPU_COPY] - taken[CPU_COPY] < LOOP_BYTES))
		return;
	if (can_pay() && task_is_running(current))
		pay();
}

bool strata_cpu_read_clock(void)
{
	strata_cpu_count(CPU_CLOCK_READ);
	return strata_cpu_priced && clock_reads++ < CLOCK_READS_MAX;
}

u64 strata_cpu_clock_read_ns(void)
{
	if (!strata_cpu_priced)
		return strata_charge_clock_read_ns;
	return max(strata_cpu_prices.price_ps[CPU_CLOCK_READ] / 1000, 1ULL);
}

/* With a price, time passes while a task runs, so that the scheduler can tell whose turn it is. */
u64 strata_cpu_sched_clock(void)
{
	return strata_cpu_now() - priced_since_ns;
}

void strata_cpu_start(void)
{
	priced_since_ns = strata_cpu_now() - sched_clock();
	strata_cpu_priced = true;
}

void strata_cpu_fork(struct task_struct *child)
{
	child->strata_cpu = (struct strata_cpu) { .program = current->strata_cpu.program };
}

/*
 * cpu.max, "QUOTA PERIOD" or "max": here a group has as many processors as a period's quota fills. Elsewhere it may use more of them for a part of
 * each period, and none for the rest.
 */
int strata_cpu_max_show(struct seq_file *file, void *unused)
{
	const struct strata_cpu_group *group = seq_css(file)->strata_group;

	if (group)
		seq_printf(file, "%u %u\n", group->processors * PERIOD_US, PERIOD_US);
	else
		seq_printf(file, "max %u\n", PERIOD_US);
	return 0;
}

ssize_t strata_cpu_max_write(struct kernfs_open_file *of, char *text, size_t count, loff_t at)
{
	struct cgroup_subsys_state *css = of_css(of);
	struct strata_cpu_group *group = NULL;
	unsigned int quota_us, period_us = PERIOD_US;

	if (strncmp(text, "max", 3)) {
		if (sscanf(text, "%u %u", &quota_us, &period_us) < 1 || !quota_us || !period_us || quota_us % period_us ||
		    quota_us / period_us > STRATA_PROCESSORS_MAX)
			return -EINVAL;
		group = kzalloc(struct_size(group, free_at_ns, quota_us / period_us), GFP_KERNEL);
		if (!group)
			return -ENOMEM;
		group->processors = quota_us / period_us;
	}
	swap(css->strata_group, group);
	kfree(group);
	return count;
}
