/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lists of system calls: strata_list.c. A program hands many over at once by the call STRATA_LIST, whose argument is the address of a
 * strata_list in its memory.
 */
#ifndef _LINUX_STRATA_LIST_H
#define _LINUX_STRATA_LIST_H

#include <linux/types.h>

#define STRATA_LIST 21332	/* no call of Linux */

#define STRATA_LIST_OPENED 1	/* the first argument is the descriptor that the list's last openat() returned */
#define STRATA_LIST_REPEATED 2	/* is made until it returns 0, and yields the sum: reading to the end of a file */
#define STRATA_LIST_STAMPED 4	/* the clock is read after it */

struct strata_list_call {
	__u64 number;
	__u64 arguments[6];
	__s64 result;		/* negative before */
	__u64 at_ns;		/* the time after it, if it is stamped or fails */
	__u32 flags;
	__u32 skip;		/* how many calls are left out if it fails */
};

struct strata_list {
	__u64 calls;		/* address of the first */
	__u32 count;
	__u32 next;		/* the first that is to be made; count when all are done with */
	__u64 until_ns;		/* no call is made once the clock shows this */
	__s32 opened;
	__u32 unstamped;	/* 1 + the call after which the clock is still to be read */
	__u64 time[2];		/* room for a clock_gettime() */
	__u64 reads_clock;	/* the kernel's: that call is being made */
};

struct uml_pt_regs;

bool strata_list_call(struct uml_pt_regs *regs, struct strata_list_call *call);
void strata_list_done(struct uml_pt_regs *regs, struct strata_list_call *call);

#endif
