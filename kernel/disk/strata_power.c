// SPDX-License-Identifier: GPL-2.0
/*
 * The lab's end. At a cut of the power all modelled disks lose it at the same instant: nothing that is in flight is acknowledged any
 * more, the backing files get the content of that instant, and the process ends between two instructions with exit status 86. With media=keep
 * the files are made complete (blocks.h), at a cut and at a power-off, so that another boot can go on with them.
 *
 * The text of the host's descriptor strata.control= asks for it, in lines `key=value`. Kernel arguments would not do: the kernel takes its
 * command line for a source of randomness, and nothing of this may change what happens in the lab.
 *
 *     power_cut=time:NS    at this time of the monotonic clock
 *     power_cut=ios:N      when the disks, all together, have accepted N commands, the last of which is still in flight
 *     power_cut=manual     when something is written to /sys/module/strata/parameters/power_cut, as it is with the other two
 *     power_seed=N         decides what survives of the writes that are not durable
 *     media=keep           the backing files are of an earlier boot, or for a later one; what outlives a power-off of the models' state
 *                          (nonvolatile.h) is kept in them, too
 *     trace=N              the host's descriptor that the trace is appended to (tracer.h)
 *     trace_limit=N        records after which it ends; 2,000,000
 *     measure_cost=0|1     1: /sys/block/DISK/host_cost_ns has the host's time that the driver and the models took. Only from outside, and
 *                          never in a trial: a program in the lab could make its results depend on the host
 */
#define pr_fmt(fmt) "strata: " fmt

#include <linux/moduleparam.h>
#include <linux/syscore_ops.h>
#include <linux/time-internal.h>
#include <os.h>
#include "strata.h"

#define EXIT_POWER_CUT 86
#define CONSOLE_FD 1

static bool armed;
static u64 cut_at_ns = U64_MAX;
static u64 cut_at_command = U64_MAX;
static u64 commands;
/* Not a timer: one more of them would change how long the kernel looks for its next timer, which has a price. */
static struct time_travel_event cut_event;

static u64 power_seed;
static bool media_kept;
static bool cost_measured;

static int control_fd = -1;
module_param_named(control, control_fd, int, 0444);
MODULE_PARM_DESC(control, "host file descriptor: the fate of the disks at the lab's end");

bool strata_power_armed(void)
{
	return armed;
}

bool strata_media_kept(void)
{
	return media_kept;
}

bool strata_cost_measured(void)
{
	return cost_measured;
}

static bool acknowledged(void *owner, u64 sequence)
{
	const struct strata_disk *disk = owner;
	u32 tag;

	for (tag = 0; tag < disk->disk.config.queue_depth; tag++)
		if (disk->slot[tag].rq && disk->disk.command[tag].sequence == sequence)
			return false;
	return true;
}

/* Straight to the host: the interrupted code may hold the console's lock. The runner reads these lines. */
static __printf(1, 2) void say(const char *format, ...)
{
	char text[320];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vscnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	os_write_file(CONSOLE_FD, text, length);
}

static void end_trace(void)
{
	tracer_flush();
	if (tracer_failed())
		say("strata: trace: host write failed\n");	/* at a cut the kernel's own message may not come out any more */
	if (tracer_left_out())
		say("strata: trace: %llu requests left out\n", tracer_left_out());
}

static void cut_disk(struct strata_disk *disk, u64 now_ns)
{
	u64 seed = platform_mix(power_seed + disk->index);
	struct loss_report report = { 0 };
	int error = 0;

	if (!disk->disk.config.ops->immediate)
		disk_advance(&disk->disk, now_ns);
	if (disk->content.armed)
		error = loss_cut(&disk->content.loss, now_ns, seed, acknowledged, disk, &report);
	if (!error && strata_media_kept())
		error = blocks_save(&disk->content.blocks);
	say("strata: power cut at %llu ns: disk=%s writes_acknowledged=%llu volatile=%llu kept=%llu lost=%llu torn=%llu lost_acknowledged=%llu settled_blocks=%llu marks_lost=%llu error=%d\n",
	    now_ns, disk->disk.config.name, disk->disk.account.writes, report.open, report.kept, report.lost, report.torn,
	    report.lost_acknowledged, report.settled_blocks, disk->content.armed ? disk->content.loss.marks_lost : 0, -error);
}

static void __noreturn cut(void)
{
	u64 now_ns;
	u32 i;

	local_irq_disable();
	now_ns = ktime_get_ns();
	for (i = 0; i < strata_disks_count; i++)
		if (!strata_disks[i]->content.blocks.plain)
			cut_disk(strata_disks[i], now_ns);
	end_trace();
	os_exit_at_once(EXIT_POWER_CUT);
}

static void cut_time_has_come(struct time_travel_event *event)
{
	cut();
}

void strata_power_count(const struct strata_disk *disk)
{
	if (!disk->content.blocks.plain && ++commands == cut_at_command)
		cut();
}

/* The parameter is there to be written to, by a program in the lab. */
static int power_cut_set(const char *text, const struct kernel_param *param)
{
	if (!armed || system_state < SYSTEM_RUNNING)
		return -EPERM;	/* nothing was kept for it */
	cut();
}

static const struct kernel_param_ops power_cut_ops = {
	.set = power_cut_set,
};
module_param_cb(power_cut, &power_cut_ops, NULL, 0200);
MODULE_PARM_DESC(power_cut, "writing to it cuts the power of all modelled disks");

static int read_cut(const char *value)
{
	armed = true;
	if (strstarts(value, "time:"))
		return kstrtou64(value + 5, 10, &cut_at_ns);
	if (strstarts(value, "ios:"))
		return kstrtou64(value + 4, 10, &cut_at_command);
	return strcmp(value, "manual") ? -EINVAL : 0;
}

static int read_control(const char *key, const char *value)
{
	u64 number;
	int error;

	if (!strcmp(key, "power_cut"))
		return read_cut(value);
	if (!strcmp(key, "media")) {
		media_kept = !strcmp(value, "keep");
		return media_kept ? 0 : -EINVAL;
	}
	error = kstrtou64(value, 10, &number);
	if (error)
		return error;
	if (!strcmp(key, "power_seed"))
		power_seed = number;
	else if (!strcmp(key, "trace"))
		tracer_open((int)number);
	else if (!strcmp(key, "measure_cost"))
		cost_measured = number == 1;
	else if (!strcmp(key, "trace_limit"))
		tracer_limit(number);
	else
		return -EINVAL;
	return 0;
}

/* Before the disks are made. A lab with a bad control text must not run. */
void strata_control_init(char *text, size_t room)
{
	char *line, *value;
	size_t length;

	if (control_fd < 0)
		return;
	if (strata_read_text(control_fd, text, room - 1, &length))
		panic("strata: strata.control=%d cannot be read", control_fd);
	text[length] = 0;
	while ((line = strsep(&text, "\n")) != NULL) {
		value = strchr(line, '=');
		if (!*line)
			continue;
		if (value)
			*value++ = 0;
		if (!value || read_control(line, value))
			panic("strata: bad line in strata.control= (%s)", line);
	}
}

/* After all filesystems and devices: nothing is written any more. All disks rest at the same instant. */
static void save_disks(void)
{
	u32 i;

	for (i = 0; i < strata_disks_count; i++) {
		strata_catch_up(strata_disks[i]);
		if (!strata_disks[i]->disk.config.ops->immediate)
			disk_rest(&strata_disks[i]->disk);
	}
	for (i = 0; i < strata_disks_count; i++) {
		struct strata_disk *disk = strata_disks[i];
		int error = disk->content.blocks.plain ? 0 : nonvolatile_save(&disk->disk, &disk->content.blocks);

		if (error)
			pr_err("disk %s: its content could not be saved (error %d)\n", disk->disk.config.name, -error);
	}
}

static void strata_shutdown(void *unused)
{
	if (strata_media_kept())
		save_disks();
	end_trace();
}

static const struct syscore_ops shutdown_ops = {
	.shutdown = strata_shutdown,
};

static struct syscore shutdown = {
	.ops = &shutdown_ops,
};

void strata_power_init(void)
{
	unsigned long flags;

	register_syscore(&shutdown);
	if (cut_at_ns == U64_MAX)
		return;
	time_travel_set_event_fn(&cut_event, cut_time_has_come);
	local_irq_save(flags);	/* reading the clock is free then */
	time_travel_add_event_rel(&cut_event, cut_at_ns - min(cut_at_ns, ktime_get_ns()));
	local_irq_restore(flags);
}
