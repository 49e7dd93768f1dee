// SPDX-License-Identifier: GPL-2.0
/*
 * Faults while the lab runs: the write-only parameter /sys/module/strata/parameters/fault takes lines `DISK KIND,...` (faults.h), such as
 *
 *     sda gone,0                        the disk disappears now
 *     sda back                          and is there again, with its content
 *     /dev/sdb corrupt,2048,8,0         sectors 2048 to 2055 read as something else from now on, without any error
 *     sdc unreadable,2048,2097152       a GiB of it cannot be read
 *
 * A program in the lab writes it, so that it happens at the same instant each time. The write takes no time; its effect is in the trace and
 * in the account as that of a declared fault is. What cannot be done is refused with EINVAL; the kernel's log says why.
 */
#define pr_fmt(fmt) "strata: " fmt

#include <linux/moduleparam.h>
#include <linux/string.h>
#include "strata.h"

static struct strata_disk *find_disk(const char *name, size_t length)
{
	u32 i;

	for (i = 0; i < strata_disks_count; i++) {
		const char *found = strata_disks[i]->disk.config.name;

		if (strlen(found) == length && !memcmp(found, name, length))
			return strata_disks[i];
	}
	return NULL;
}

static const char *add_fault(struct strata_disk *disk, const char *at, const char *end)
{
	const char *wrong;
	unsigned long flags;
	u64 now_ns;

	if (disk->content.blocks.plain)
		return "the root image has no faults";
	spin_lock_irqsave(&disk->lock, flags);
	now_ns = strata_catch_up(disk);
	wrong = content_fault(&disk->content, &disk->disk.config, now_ns, at, end);
	spin_unlock_irqrestore(&disk->lock, flags);
	return wrong;
}

static int fault_set(const char *text, const struct kernel_param *param)
{
	const char *name = skip_spaces(text), *wrong = "no such disk";
	const char *blank, *fault, *end;
	struct strata_disk *disk;

	if (system_state < SYSTEM_RUNNING)
		return -EPERM;	/* the host describes a disk's faults with the disk */
	if (strstarts(name, "/dev/"))
		name += 5;
	blank = name + strcspn(name, " \t\n");
	fault = skip_spaces(blank);
	end = fault + strcspn(fault, " \t\n");
	disk = find_disk(name, blank - name);
	if (disk)
		wrong = *skip_spaces(end) ? "one fault at a time" : add_fault(disk, fault, end);
	if (!wrong)
		return 0;
	pr_err("fault \"%.*s\": %s\n", (int)strcspn(text, "\n"), text, wrong);
	return -EINVAL;
}

static const struct kernel_param_ops fault_ops = {
	.set = fault_set,
};
module_param_cb(fault, &fault_ops, NULL, 0200);
MODULE_PARM_DESC(fault, "writing DISK KIND,... to it adds a fault to a modelled disk");
