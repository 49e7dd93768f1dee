/* SPDX-License-Identifier: GPL-2.0 */
/* The prices that the host gives, and the programs that pay them: strata_cpu_prices.c. */
#ifndef _LINUX_STRATA_CPU_PRICES_H
#define _LINUX_STRATA_CPU_PRICES_H

#include <linux/strata_cpu.h>

#define STRATA_PROCESSORS_MAX 256
#define STRATA_NAME_BYTES 32

struct strata_program {
	char name[STRATA_NAME_BYTES];
	u64 call_ps;
	u64 fault_ps;
	u64 byte_ps[2];		/* read, written */
	u64 calls, faults, charged_ps;		/* of all its tasks so far */
	/* Of a virtual machine: the memory of its kernel, and its counters there. */
	struct mm_struct *machine;
	unsigned long __user *counts;
};

struct strata_cpu_prices {
	unsigned int processors;
	u64 wakeup_latency_ns;
	u64 price_ps[CPU_COUNTERS];
};

struct strata_cpu_use {
	u64 busy_ns;
	u64 queued_ns;		/* that work waited for a processor */
};

extern struct strata_cpu_prices strata_cpu_prices;
extern struct strata_cpu_use strata_cpu_use;

void strata_cpu_start(void);		/* from now on, time has its price */

#endif
