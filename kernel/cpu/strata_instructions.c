// SPDX-License-Identifier: GPL-2.0
/*
 * Instructions that would show a program the host: its clock (RDTSC), its random numbers and the CPU that the lab
 * runs on (CPUID). Where the host can, they fault. CPUID then tells of no source of random numbers, and the time is
 * virtual. The kernel has them fault for itself, too: a host's switch between processes that differ in this writes
 * registers of the processor, which takes longer than all else of it in a virtual machine.
 */
#include <linux/bits.h>
#include <linux/init.h>
#include <linux/strata_cpu.h>
#include <linux/strata_instructions.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <os.h>
#include <sysdep/ptrace.h>

#define GENERAL_PROTECTION 13

#define LEAF_BASIC 0x0
#define LEAF_FEATURES 0x1
#define LEAF_CACHES 0x2
#define LEAF_MORE_FEATURES 0x7
#define LEAF_STATES 0xd			/* the last: those after it tell the frequency of the counter */
#define LEAF_EXTENDED 0x80000000
#define LEAF_EXTENDED_FEATURES 0x80000001
#define LEAF_ADDRESSES 0x80000008	/* the last, too; that of an invariant counter, before it, is 0: so programs read the clock */

/*
 * Caches are stated in the old form: with the new one the C library executes a hundred more CPUIDs in each program
 * that starts. One byte each: instructions 32 KiB, data 32 KiB, level 2 with 2 MiB, level 3 with 8 MiB.
 */
#define CACHES_A 0x7d2c3001
#define CACHES_B 0xe4
#define VENDOR "GenuineIntel"
#define FAMILY_6 0x600

#define ECX_RDRAND BIT(30)
#define EBX_CACHE_LINE (8 << 8)		/* times 8 bytes; and no number of the processor */
#define EBX_RDSEED BIT(18)

struct cpuid {
	u32 leaf, part;		/* EAX and ECX that ask for it */
	u32 a, b, c, d;
};

/* What programs are shown; all other leaves are 0. The extensions are the host's: they make programs faster. */
static const struct {
	u32 leaf, parts;
} shown[] = {
	{ LEAF_BASIC, 1 }, { LEAF_FEATURES, 1 }, { LEAF_CACHES, 1 }, { LEAF_MORE_FEATURES, 3 }, { LEAF_STATES, 32 },
	{ LEAF_EXTENDED, 1 }, { LEAF_EXTENDED_FEATURES, 1 }, { LEAF_ADDRESSES, 1 },
};
static struct cpuid known[1 + 1 + 1 + 3 + 32 + 1 + 1 + 1];

static void __init hide(struct cpuid *cpuid)
{
	switch (cpuid->leaf) {
	case LEAF_BASIC:
		cpuid->a = min_t(u32, cpuid->a, LEAF_STATES);
		memcpy(&cpuid->b, VENDOR, 4);
		memcpy(&cpuid->d, VENDOR + 4, 4);
		memcpy(&cpuid->c, VENDOR + 8, 4);
		break;
	case LEAF_FEATURES:
		cpuid->a = FAMILY_6;
		cpuid->b = EBX_CACHE_LINE;
		cpuid->c &= ~ECX_RDRAND;
		break;
	case LEAF_CACHES:
		cpuid->a = CACHES_A;
		cpuid->b = CACHES_B;
		cpuid->c = 0;
		cpuid->d = 0;
		break;
	case LEAF_MORE_FEATURES:
		if (cpuid->part == 0)
			cpuid->b &= ~EBX_RDSEED;
		break;
	case LEAF_EXTENDED:
		cpuid->a = min_t(u32, cpuid->a, LEAF_ADDRESSES);
		cpuid->b = 0;
		cpuid->c = 0;
		cpuid->d = 0;
		break;
	}
}

static int __init hide_processor(void)
{
	struct cpuid *cpuid = known;
	u32 i, part;

	for (i = 0; i < ARRAY_SIZE(shown); i++) {
		for (part = 0; part < shown[i].parts; part++, cpuid++) {
			*cpuid = (struct cpuid){ shown[i].leaf, part, .a = shown[i].leaf, .c = part };
			asm volatile("cpuid" : "+a" (cpuid->a), "=b" (cpuid->b), "+c" (cpuid->c), "=d" (cpuid->d));
			hide(cpuid);
		}
	}
	os_hide_processor();
	return 0;
}
early_initcall(hide_processor);

static void cpuid(struct uml_pt_regs *regs)
{
	u32 leaf = regs->gp[HOST_AX], part = regs->gp[HOST_CX];
	bool has_parts = leaf == LEAF_MORE_FEATURES || leaf == LEAF_STATES;
	const struct cpuid *found = NULL;
	int i;

	for (i = 0; !found && i < ARRAY_SIZE(known); i++) {
		if (known[i].leaf == leaf && (!has_parts || known[i].part == part))
			found = &known[i];
	}
	regs->gp[HOST_AX] = found ? found->a : 0;
	regs->gp[HOST_BX] = found ? found->b : 0;
	regs->gp[HOST_CX] = found ? found->c : 0;
	regs->gp[HOST_DX] = found ? found->d : 0;
}

/* A counter of nanoseconds; reading it costs what reading the clock does. */
static void rdtsc(struct uml_pt_regs *regs)
{
	u64 now_ns;

	strata_cpu_leave();	/* what it owes comes before */
	now_ns = ktime_get_ns();
	regs->gp[HOST_AX] = lower_32_bits(now_ns);
	regs->gp[HOST_DX] = upper_32_bits(now_ns);
}

/* Whether the instruction at which a program faulted is one of them, and has been carried out. */
bool strata_instruction(struct uml_pt_regs *regs)
{
	const u8 __user *ip = (const u8 __user *)UPT_IP(regs);
	u8 code[2], third;

	if (UPT_FAULTINFO(regs)->trap_no != GENERAL_PROTECTION || copy_from_user(code, ip, sizeof(code)) || code[0] != 0x0f)
		return false;
	if (code[1] == 0xa2) {
		cpuid(regs);
		UPT_IP(regs) += 2;
	} else if (code[1] == 0x31) {
		rdtsc(regs);
		UPT_IP(regs) += 2;
	} else if (code[1] == 0x01 && !get_user(third, ip + 2) && third == 0xf9) { /* RDTSCP */
		rdtsc(regs);
		regs->gp[HOST_CX] = 0;		/* the number of the processor */
		UPT_IP(regs) += 3;
	} else {
		return false;
	}
	return true;
}
