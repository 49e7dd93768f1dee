// SPDX-License-Identifier: GPL-2.0
/* A disk without latency: for the root image, and to measure a stack's cost apart from its disks. */
#include "disk.h"

static const struct disk_key null_keys[] = { { .name = NULL } };

static void null_arrive(struct disk *disk, u32 tag)
{
	const struct disk_command *command = &disk->command[tag];

	disk_durable(disk, command->io.sector, command->io.sectors, command->sequence, disk->now_ns);
	disk_finish(disk, tag, disk->now_ns);
}

const struct disk_model_ops disk_null_ops = {
	.name = "null",
	.immediate = true,
	.keys = null_keys,
	.arrive = null_arrive,
};
