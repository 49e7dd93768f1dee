// SPDX-License-Identifier: GPL-2.0
/*
 * Lists of system calls. Most of a call's real time is the hand-over between the program's process and the kernel's. A program that knows its next
 * calls hands them over together; the kernel then plays the program: where it would let the program run, it takes the next call of the list, and
 * reads the clock as the program would have done. All else is done as for single calls, by the same code: prices, the order of tasks, signals
 * (which suspend a list). So the virtual time of each call, and all that follows from it, is the same to the nanosecond.
 *
 * A list is the program's memory, which may change at any time; the kernel keeps its address, and of the call being made a copy.
 */
#include <linux/sched/signal.h>
#include <linux/seccomp.h>
#include <linux/strata_list.h>
#include <linux/uaccess.h>
#include <asm/unistd.h>
#include <sysdep/ptrace.h>
#include <sysdep/vdso_clock.h>
#include <os.h>
#include <skas.h>

/* Calls that need no more of a program than their arguments, and change nothing of it but descriptors and buffers. */
static bool can_list(u64 number)
{
	switch (number) {
	case __NR_read:
	case __NR_write:
	case __NR_pread64:
	case __NR_pwrite64:
	case __NR_lseek:
	case __NR_openat:
	case __NR_close:
	case __NR_newfstatat:
	case __NR_unlinkat:
	case __NR_fsync:
	case __NR_fdatasync:
		return true;
	}
	return false;
}

/* The raw copies: others are counted as work of the kernel. */
static bool get(void *to, const void __user *from, size_t bytes)
{
	return access_ok(from, bytes) && !raw_copy_from_user(to, from, bytes);
}

static bool put(void __user *to, const void *from, size_t bytes)
{
	return access_ok(to, bytes) && !raw_copy_to_user(to, from, bytes);
}

/*
 * Where the current task's list is, if it has one. A thread of the kernel has its function and argument in these places; once it runs, and in a
 * program's task, nobody reads them.
 */
static int listing(void *unused)
{
	return 0;
}

static struct strata_list __user *place(void)
{
	return current->thread.request.thread.proc == listing ? current->thread.request.thread.arg : NULL;
}

static void set_place(struct strata_list __user *list)
{
	current->thread.request.thread.proc = list ? listing : NULL;
	current->thread.request.thread.arg = list;
}

static struct strata_list_call __user *call_at(const struct strata_list *list, u32 index)
{
	return (struct strata_list_call __user *)list->calls + index;
}

static bool take(const struct strata_list *list, struct strata_list_call *call)
{
	if (list->reads_clock) {
		call->number = __NR_clock_gettime;
		call->arguments[0] = CLOCK_MONOTONIC;
		call->arguments[1] = (unsigned long)&place()->time;
		return true;
	}
	if (list->next >= list->count || !get(call, call_at(list, list->next), sizeof(*call)) || !can_list(call->number))
		return false;
	if (call->flags & STRATA_LIST_OPENED)
		call->arguments[0] = list->opened;
	return true;
}

/* The program goes on. */
static void leave(struct uml_pt_regs *regs)
{
	set_place(NULL);
	UPT_AX(regs) = 0;
}

static void stamp(struct strata_list *list, u64 at_ns)
{
	put(&call_at(list, list->unstamped - 1)->at_ns, &at_ns, sizeof(at_ns));
	list->unstamped = 0;
	if (at_ns >= list->until_ns)
		list->next = list->count;
}

/* Whether a call of a program is one of a list, and which. */
bool strata_list_call(struct uml_pt_regs *regs, struct strata_list_call *call)
{
	bool is_first = !place();
	struct strata_list list;

	if (is_first) {
		/* Whoever looks at calls one by one has them made one by one. */
		if (UPT_SYSCALL_NR(regs) != STRATA_LIST || !using_seccomp || current->ptrace || seccomp_mode(&current->seccomp))
			return false;
		set_place((struct strata_list __user *)UPT_SYSCALL_ARG1(regs));
	}
	if (!get(&list, place(), sizeof(list)) || (is_first && list.reads_clock) || !take(&list, call)) {
		set_place(NULL);
		return false;
	}
	UPT_SYSCALL_NR(regs) = call->number;
	return true;
}

static void settle(struct strata_list *list, struct strata_list_call *call, s64 result)
{
	u32 index = list->next;

	/* A restarted call would be another entry; the program makes it again. */
	if (result <= -ERESTARTSYS)
		result = -EINTR;
	if (call->number == __NR_openat && result >= 0)
		list->opened = result;
	call->result = result < 0 ? result : max(call->result, 0) + result;
	put(&call_at(list, index)->result, &call->result, sizeof(call->result));
	if ((call->flags & STRATA_LIST_REPEATED) && result > 0)
		return;
	list->next += 1 + (result < 0 ? min(call->skip, list->count - index - 1) : 0);
	if ((call->flags & STRATA_LIST_STAMPED) || result < 0)
		list->unstamped = index + 1;
}

/* A call of a list has been made. */
void strata_list_done(struct uml_pt_regs *regs, struct strata_list_call *call)
{
	struct strata_list list;

	if (!get(&list, place(), sizeof(list)))
		return leave(regs);
	if (!list.reads_clock)
		settle(&list, call, UPT_AX(regs));
	else
		stamp(&list, list.time[0] * NSEC_PER_SEC + list.time[1]);
	list.reads_clock = 0;
	put(place(), &list, sizeof(list));
	if (signal_pending(current))
		leave(regs);
}

/* Where the program would run: whether it has another call to make, after it has read the clock. */
int strata_list_next(struct vdso_clock *clock)
{
	u64 advance_ns = clock->advance_ns + clock->charge_ns;
	struct strata_list_call call;
	struct strata_list list;

	if (!place())
		return 0;
	if (!get(&list, place(), sizeof(list)))
		list = (struct strata_list) {};
	if (list.unstamped) {
		list.reads_clock = advance_ns >= clock->limit_ns;
		if (!list.reads_clock) {
			clock->advance_ns = advance_ns;
			stamp(&list, clock->monotonic_ns + advance_ns);
		}
		put(place(), &list, sizeof(list));
	}
	if (take(&list, &call))
		return 1;
	leave(&current->thread.regs.regs);
	return 0;
}
