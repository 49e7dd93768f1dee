// SPDX-License-Identifier: GPL-2.0
/*
 * The processor's time-stamp counter, which would show programs the host's time. In virtual time RDTSC and RDTSCP fault and are answered here: the
 * counter is CLOCK_MONOTONIC in ns (1 GHz), on processor 0. A reading has the price of one of the clock.
 *
 * They fault for the kernel's process, too, and its stubs inherit that. Else the host would write a register of the processor (CR4) whenever it
 * switches between the two, which in a virtual machine takes longer than all else of the switch.
 */
#include <linux/init.h>
#include <linux/strata_cpu.h>
#include <linux/time-internal.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <sysdep/ptrace.h>
#include <sysdep/vdso_clock.h>

#define GENERAL_PROTECTION 13
#define RDTSC "\x0f\x31"
#define RDTSCP "\x0f\x01\xf9"

/*
 * The fault takes microseconds of real time. A program that waits for the counter in a loop, or measures its frequency (fio does whenever it starts),
 * would read it millions of times: after BURST readings without a call or fault, each takes PACE_NS.
 */
#define PACE_NS 1000ULL
#define BURST 1024

static int __init trap_counter(void)
{
	int err = time_travel_mode == TT_MODE_INFCPU ? os_trap_counter() : 0;

	if (err)
		panic("The host does not let RDTSC fault, errno = %d", -err);
	return 0;
}
early_initcall(trap_counter);

/* Reads the clock of a process that has only paused, as the vDSO does; 0 if an event is due before. */
static u64 read_paused(struct vdso_clock *clock)
{
	u64 price_ns = clock->readings++ < BURST ? clock->charge_ns : max(clock->charge_ns, PACE_NS);
	u64 advance_ns = clock->advance_ns + price_ns;

	if (advance_ns >= clock->limit_ns)
		return 0;
	clock->advance_ns = advance_ns;
	return clock->monotonic_ns + advance_ns;
}

static u64 read_counter(void)
{
	unsigned long flags;
	u64 now_ns;

	if (strata_cpu_priced) {
		strata_cpu_counts[CPU_USER] += strata_cpu_clock_read_ns() * 1000;
		strata_cpu_leave();
	} else {
		time_travel_ndelay(strata_cpu_clock_read_ns());
	}

	/* Reading the clock is free while interrupts are off. */
	local_irq_save(flags);
	now_ns = ktime_get_ns();
	local_irq_restore(flags);
	return now_ns;
}

/*
 * Whether the instruction at which a program faulted reads the counter, and has been carried out: with the clock of the stub's page, which is NULL
 * when the program has come back to the kernel.
 */
int strata_tsc(struct uml_pt_regs *regs, struct vdso_clock *clock)
{
	const u8 __user *ip = (const u8 __user *)UPT_IP(regs);
	bool is_code, has_processor;
	u8 code[3] = {};
	u64 counter;

	if (time_travel_mode != TT_MODE_INFCPU || UPT_FAULTINFO(regs)->trap_no != GENERAL_PROTECTION)
		return 0;
	pagefault_disable();	/* the program has just read it */
	is_code = !copy_from_user(code, ip, 2) && (code[1] != 0x01 || !get_user(code[2], ip + 2));
	pagefault_enable();
	has_processor = is_code && !memcmp(code, RDTSCP, 3);
	if (!has_processor && !(is_code && !memcmp(code, RDTSC, 2)))
		return 0;

	counter = clock ? read_paused(clock) : read_counter();
	if (!counter)
		return 0;
	regs->gp[HOST_AX] = lower_32_bits(counter);
	regs->gp[HOST_DX] = upper_32_bits(counter);
	if (has_processor)
		regs->gp[HOST_CX] = 0;
	UPT_IP(regs) += has_processor ? 3 : 2;
	return 1;
}
