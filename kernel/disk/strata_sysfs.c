// SPDX-License-Identifier: GPL-2.0
/* Attributes of a modelled disk in /sys/block/<disk>. */
#include "strata.h"

static ssize_t account_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct strata_disk *disk = dev_to_disk(dev)->private_data;
	struct disk_account account;
	const u64 *value = (const u64 *)&account;
	int length = 0, i;

	strata_account(disk, &account);
	for (i = 0; i < DISK_ACCOUNT_KEYS; i++)
		length += sysfs_emit_at(buf, length, "%s %llu\n", disk_account_names[i], value[i]);
	return length;
}
static DEVICE_ATTR_RO(account);

/* Host time taken by the driver and the model, on which no result may depend. 0 without measure_cost=1 (strata_power.c). */
static ssize_t host_cost_ns_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct strata_disk *disk = dev_to_disk(dev)->private_data;

	return sysfs_emit(buf, "%llu\n", disk->host_cost_ns);
}
static DEVICE_ATTR_RO(host_cost_ns);

static struct attribute *strata_attrs[] = {
	&dev_attr_account.attr,
	&dev_attr_host_cost_ns.attr,
	NULL
};

static const struct attribute_group strata_group = {
	.attrs = strata_attrs,
};

const struct attribute_group *strata_groups[] = {
	&strata_group,
	NULL
};
