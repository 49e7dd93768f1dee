// SPDX-License-Identifier: GPL-2.0
#include "disk.h"

static const struct disk_key flash_keys[] = { { .name = NULL } };

static void flash_arrive(struct disk *disk, u32 tag)
{
	disk_finish(disk, tag, disk->now_ns);
}

const struct disk_model_ops disk_flash_ops = {
	.name = "flash",
	.keys = flash_keys,
	.arrive = flash_arrive,
};
