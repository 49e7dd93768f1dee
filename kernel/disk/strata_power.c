// SPDX-License-Identifier: GPL-2.0
/*
 * The lab's end. At a cut of the power all modelled disks lose it at the same instant: nothing that is in flight is acknowledged any
 * more, the backing files get what the medium holds then, and the process ends between two instructions with exit status 86. With
 * strata.media=keep the files are made complete (blocks.h), at a cut and at a power-off, so that another boot can go on with them.
 *
 *     strata.power_cut=time:NS     at this time of the monotonic clock
 *     strata.power_cut=ios:N       when the disks, all together, have accepted N commands, the last of which is still in flight
 *     strata.power_cut=manual      when something is written to /sys/module/strata/parameters/power_cut, as it is with the other two
 *     strata.power_cut=none        never; nothing needs to be kept for it
 *     strata.power_seed=N          decides what survives of the writes that are not durable
 */
#define pr_fmt(fmt) "strata: " fmt

#include <linux/moduleparam.h>
#include <linux/syscore_ops.h>
#include <os.h>
#include "strata.h"

#define EXIT_POWER_CUT 86
#define CONSOLE_FD 1

static bool armed;
static u64 cut_at_ns = U64_MAX;
static u64 cut_at_command = U64_MAX;
static u64 commands;
static struct hrtimer cut_timer;

static unsigned long long power_seed;
module_param(power_seed, ullong, 0444);
MODULE_PARM_DESC(power_seed, "decides what a cut of the power leaves of the writes that are not durable");
static char media[8];
module_param_string(media, media, sizeof(media), 0444);
MODULE_PARM_DESC(media, "keep: the backing files are of an earlier boot, or for a later one");

bool strata_power_armed(void)
{
	return armed;
}

bool strata_media_kept(void)
{
	return !strcmp(media, "keep");
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

/* Straight to the host: the console's lock may be held by what was interrupted. The runner reads these lines. */
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
	if (disk->medium.armed)
		error = loss_cut(&disk->medium.loss, now_ns, seed, acknowledged, disk, &report);
	if (!error && strata_media_kept())
		error = blocks_save(&disk->medium.blocks);
	say("strata: power cut at %llu ns: disk=%s writes_acknowledged=%llu volatile=%llu kept=%llu lost=%llu torn=%llu lost_acknowledged=%llu settled=%llu marks_lost=%llu error=%d\n",
	    now_ns, disk->disk.config.name, disk->disk.account.writes, report.open, report.kept, report.lost, report.torn,
	    report.lost_acknowledged, report.settled, disk->medium.armed ? disk->medium.loss.marks_lost : 0, -error);
}

static void __noreturn cut(void)
{
	u64 now_ns;
	u32 i;

	local_irq_disable();
	now_ns = ktime_get_ns();
	for (i = 0; i < strata_disks_count; i++)
		if (!strata_disks[i]->medium.blocks.plain)
			cut_disk(strata_disks[i], now_ns);
	end_trace();
	os_exit_at_once(EXIT_POWER_CUT);
}

static enum hrtimer_restart cut_timer_expired(struct hrtimer *timer)
{
	cut();
}

void strata_power_count(const struct strata_disk *disk)
{
	if (!disk->medium.blocks.plain && ++commands == cut_at_command)
		cut();
}

static int power_cut_set(const char *text, const struct kernel_param *param)
{
	int error = 0;

	if (system_state >= SYSTEM_RUNNING) {
		if (!armed)
			return -EPERM;	/* nothing was kept for it */
		cut();
	}
	if (strstarts(text, "time:"))
		error = kstrtou64(text + 5, 10, &cut_at_ns);
	else if (strstarts(text, "ios:"))
		error = kstrtou64(text + 4, 10, &cut_at_command);
	else if (strcmp(text, "manual") && strcmp(text, "none"))
		error = -EINVAL;
	armed = !error && strcmp(text, "none");
	return error;
}

static int power_cut_get(char *text, const struct kernel_param *param)
{
	if (cut_at_ns != U64_MAX)
		return sysfs_emit(text, "time:%llu\n", cut_at_ns);
	if (cut_at_command != U64_MAX)
		return sysfs_emit(text, "ios:%llu\n", cut_at_command);
	return sysfs_emit(text, "%s\n", armed ? "manual" : "none");
}

static const struct kernel_param_ops power_cut_ops = {
	.set = power_cut_set,
	.get = power_cut_get,
};
module_param_cb(power_cut, &power_cut_ops, NULL, 0644);
MODULE_PARM_DESC(power_cut, "time:NS, ios:N, manual or none; writing to it cuts the power");

/* After all filesystems and devices: nothing is written any more. */
static void strata_shutdown(void *unused)
{
	u32 i;

	for (i = 0; i < strata_disks_count; i++) {
		struct strata_disk *disk = strata_disks[i];
		int error = 0;

		if (strata_media_kept() && !disk->medium.blocks.plain)
			error = blocks_save(&disk->medium.blocks);
		if (error)
			pr_err("disk %s: its medium could not be saved (error %d)\n", disk->disk.config.name, -error);
	}
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
	register_syscore(&shutdown);
	if (cut_at_ns == U64_MAX)
		return;
	hrtimer_setup(&cut_timer, cut_timer_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	hrtimer_start(&cut_timer, ns_to_ktime(cut_at_ns), HRTIMER_MODE_ABS);
}
