// SPDX-License-Identifier: GPL-2.0
#include "disk.h"

static const struct disk_key controller_keys[] = { { .name = NULL } };

static void controller_arrive(struct disk *disk, u32 tag)
{
	disk_finish(disk, tag, disk->now_ns);
}

const struct disk_model_ops disk_controller_ops = {
	.name = "controller",
	.keys = controller_keys,
	.arrive = controller_arrive,
};
