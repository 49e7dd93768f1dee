// SPDX-License-Identifier: GPL-2.0
/*
 * What the processor's work costs, and who pays. strata.cpu= is a descriptor of the host with a text of lines:
 *
 *     processors N
 *     wakeup_latency NS               from a wake-up until an idle processor runs the task
 *     price COUNTER PS                by the names in counter_names[]
 *     program NAME CALL FAULT READ WRITTEN    ps for each, of the executable file's last name, or of the name that it was called by; "*" is any other
 *                                             program
 *
 * Without prices, strata_cpu.c only counts. /proc/strata_cpu shows the counters, and of each program that pays as "*" what it did.
 *
 * The kernel of a virtual machine has no virtual time. Its descriptor is /proc/strata_machine outside: it reads the programs' prices there, and writes
 * the address of its counters.
 */
#include <linux/fs.h>
#include <linux/moduleparam.h>
#include <linux/proc_fs.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/strata_cpu_prices.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <os.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "strata."

#define PROGRAMS_MAX 128
#define UNPRICED_MAX 64
#define TEXT_BYTES 16384

struct strata_cpu_prices strata_cpu_prices = { .processors = 1 };

static const char *const counter_names[CPU_COUNTERS] = {
	[CPU_BLOCK] = "block_units", [CPU_COMPRESSION] = "compression_units", [CPU_COPY] = "copy_bytes",
	[CPU_CHECKSUM] = "checksum_bytes", [CPU_HASH] = "hash_bytes", [CPU_CIPHER] = "cipher_bytes",
	[CPU_PARITY] = "parity_bytes", [CPU_SYSTEM_CALL] = "system_calls", [CPU_PAGE_FAULT] = "page_faults",
	[CPU_SWITCH] = "switches", [CPU_WAKEUP] = "wakeups", [CPU_IDLE_WAKEUP] = "idle_wakeups",
	[CPU_INTERRUPT] = "interrupts", [CPU_IO] = "ios", [CPU_CLOCK_READ] = "clock_reads", [CPU_USER] = "user_ps",
};

static int text_fd = -1;
module_param_named(cpu, text_fd, int, 0444);
MODULE_PARM_DESC(cpu, "host file descriptor: the processors and their prices");

/*
 * First the programs with a price, the last of them "*" for all others. Then the programs that were started and have no price, up to
 * UNPRICED_MAX of them.
 */
static struct strata_program programs[PROGRAMS_MAX + UNPRICED_MAX];
static unsigned int program_count, named_count;

/* Of a file, or of the link by which it was started. A name that is new pays as "*"; its entry tells what it did from what others did. */
static struct strata_program *find_program(const char *file, const char *link)
{
	struct strata_program new = programs[program_count - 1];
	unsigned int i;

	strscpy(new.name, file);
	for (i = 0; new.name[i]; i++)
		if (new.name[i] <= ' ' || new.name[i] >= 127)
			new.name[i] = '?';	/* who reads /proc/strata_cpu must be able to split it */
	for (i = 0; i < named_count; i++)
		if (!strcmp(programs[i].name, new.name) || (i < program_count && !strcmp(programs[i].name, link)))
			return &programs[i];
	if (named_count == ARRAY_SIZE(programs))
		return &programs[program_count - 1];
	programs[named_count] = new;
	return &programs[named_count++];
}

/* After the task has got its name, that of the link. */
void strata_cpu_exec(const struct file *file)
{
	struct strata_program *now = current->strata_cpu.program;

	if (now && !now->machine)
		current->strata_cpu.program = find_program(file->f_path.dentry->d_name.name, current->comm);
}

static int show(struct seq_file *file, void *unused)
{
	unsigned int i;

	for (i = 0; i < CPU_COUNTERS; i++)
		seq_printf(file, "%s %lu\n", counter_names[i], strata_cpu_counts[i]);
	seq_printf(file, "busy_ns %llu\nqueued_ns %llu\nprocessors %u\n",
		   strata_cpu_use.busy_ns, strata_cpu_use.queued_ns, strata_cpu_prices.processors);
	for (i = program_count - 1; program_count && i < named_count; i++) {
		const struct strata_program *any = &programs[i];

		seq_printf(file, "unpriced_calls:%s %llu\nunpriced_faults:%s %llu\nunpriced_ps:%s %llu\n",
			   any->name, any->calls, any->name, any->faults, any->name, any->charged_ps);
	}
	return 0;
}

static int show_programs(struct seq_file *file, void *unused)
{
	unsigned int i;

	for (i = 0; i < program_count; i++)
		seq_printf(file, "program %s %llu %llu %llu %llu\n", programs[i].name, programs[i].call_ps, programs[i].fault_ps,
			   programs[i].byte_ps[0], programs[i].byte_ps[1]);
	return 0;
}

static int open_programs(struct inode *inode, struct file *file)
{
	return single_open(file, show_programs, NULL);
}

/* Whoever writes is a machine's kernel from now on, and the processes that it starts belong to it. */
static ssize_t add_machine(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct strata_program *machine;
	unsigned long __user *counts;

	if (count != sizeof(counts) || copy_from_user(&counts, from, count))
		return -EINVAL;
	machine = kzalloc_obj(*machine);
	if (!machine)
		return -ENOMEM;
	machine->machine = current->mm;
	machine->counts = counts;
	current->strata_cpu.program = machine;
	return count;
}

static const struct proc_ops machine_ops = {
	.proc_open = open_programs,
	.proc_read = seq_read,
	.proc_write = add_machine,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int __init read_line(char *line)
{
	char name[STRATA_NAME_BYTES];
	u64 number[4];
	int i;

	if (sscanf(line, "processors %llu", &number[0]) == 1) {
		strata_cpu_prices.processors = clamp_t(u64, number[0], 1, STRATA_PROCESSORS_MAX);
		return 0;
	}
	if (sscanf(line, "wakeup_latency %llu", &strata_cpu_prices.wakeup_latency_ns) == 1)
		return 0;
	if (sscanf(line, "price %31s %llu", name, &number[0]) == 2) {
		i = match_string(counter_names, CPU_COUNTERS, name);
		if (i >= 0)
			strata_cpu_prices.price_ps[i] = number[0];
		return i < 0 ? i : 0;
	}
	if (program_count < PROGRAMS_MAX && sscanf(line, "program %31s %llu %llu %llu %llu", name, &number[0], &number[1], &number[2], &number[3]) == 5) {
		struct strata_program *program = &programs[program_count++];

		strscpy(program->name, name);
		program->call_ps = number[0];
		program->fault_ps = number[1];
		program->byte_ps[0] = number[2];
		program->byte_ps[1] = number[3];
		return 0;
	}
	return -EINVAL;
}

static int __init strata_cpu_init(void)
{
	unsigned long *counts = strata_cpu_counts;
	struct task_struct *task;
	size_t length = 0;
	char *text, *rest, *line;
	int done;

	/* Before now the host shows: its process numbers were printed and waited for. */
	memset(strata_cpu_counts, 0, sizeof(strata_cpu_counts));
	proc_create_single("strata_cpu", 0444, NULL, show);
	proc_create("strata_machine", 0600, NULL, &machine_ops);
	if (text_fd < 0)
		return 0;
	text = kzalloc(TEXT_BYTES, GFP_KERNEL);
	if (!text)
		panic("strata: no memory for the text of strata.cpu=");
	while (length < TEXT_BYTES - 1) {
		done = os_pread_file(text_fd, text + length, TEXT_BYTES - 1 - length, length);
		if (done == -EINTR)
			continue;
		if (done < 0)
			panic("strata: the text of strata.cpu= cannot be read (error %d)", -done);
		if (!done)
			break;
		length += done;
	}
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (*line && read_line(line))
			panic("strata: strata.cpu= does not understand \"%s\"", line);
	kfree(text);
	strata_cpu_prices.price_ps[CPU_USER] = 1;
	if (!program_count)
		return 0;
	named_count = program_count;
	for_each_process(task)
		task->strata_cpu.program = &programs[program_count - 1];
	if (time_travel_mode != TT_MODE_OFF)
		strata_cpu_start();
	else if (os_write_file(text_fd, &counts, sizeof(counts)) < 0)
		panic("strata: the lab outside does not take the counters");
	return 0;
}
late_initcall_sync(strata_cpu_init);	/* after the driver of the disks has read what the host tells it */
