/* SPDX-License-Identifier: GPL-2.0 */
/* What the processor's work is counted in: strata_cpu_counts[], for the compiler's plugin and the kernel. */
#ifndef _LINUX_STRATA_CPU_COUNTERS_H
#define _LINUX_STRATA_CPU_COUNTERS_H

enum strata_cpu_counter {
	CPU_BLOCK,		/* units of the plugin */
	CPU_COMPRESSION,	/* units in compressors and decompressors */
	CPU_COPY,		/* bytes */
	CPU_CHECKSUM,		/* bytes */
	CPU_HASH,		/* bytes */
	CPU_CIPHER,		/* bytes */
	CPU_PARITY,		/* bytes */
	CPU_SYSTEM_CALL,	/* events from here on */
	CPU_PAGE_FAULT,
	CPU_SWITCH,
	CPU_WAKEUP,
	CPU_IDLE_WAKEUP,	/* by a task that runs, while another processor is idle */
	CPU_INTERRUPT,
	CPU_IO,
	CPU_CLOCK_READ,
	CPU_USER,		/* ps of programs */
	CPU_COUNTERS,
};

#endif
