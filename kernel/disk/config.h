/* SPDX-License-Identifier: GPL-2.0 */
/* The text that describes one disk: `key=value` lines, see config.c for the keys. */
#ifndef STRATA_CONFIG_H
#define STRATA_CONFIG_H

#include "model.h"
#include "rotating.h"

#define DISK_NAME_BYTES 32
#define DISK_QUEUE_LIMIT 1024
#define DISK_TEXT_LIMIT 65536
#define DISK_MESSAGE_BYTES 160

struct disk_config {
	char name[DISK_NAME_BYTES];
	u64 capacity_sectors;
	s64 backing_fd;
	bool read_only;
	bool discard;
	u32 physical_block_bytes;
	u32 queue_depth;
	u32 window;
	u64 overhead_ns;
	u64 wait_limit_ns;
	const struct disk_model_ops *ops;
	struct rotating_config rotating;
};

/*
 * Reads `text` (length bytes) into config. Returns 0, or -1 with the reason and the line's number in message
 * (DISK_MESSAGE_BYTES long).
 */
int disk_config_parse(struct disk_config *config, const char *text, size_t length, char *message);

#endif
