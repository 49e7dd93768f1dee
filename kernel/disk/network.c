// SPDX-License-Identifier: GPL-2.0
#include "disk.h"

static const struct disk_key network_keys[] = { { .name = NULL } };

static void network_arrive(struct disk *disk, u32 tag)
{
	disk_finish(disk, tag, disk->now_ns);
}

const struct disk_model_ops disk_network_ops = {
	.name = "network",
	.keys = network_keys,
	.arrive = network_arrive,
};
