/* SPDX-License-Identifier: GPL-2.0 */
/* The text that describes one disk: `key=value` lines. config.c has the keys that all models share, each model's file its own. */
#ifndef STRATA_CONFIG_H
#define STRATA_CONFIG_H

#include "model.h"
#include "drive.h"
#include "flash.h"
#include "controller.h"
#include "network.h"
#include "faults.h"

#define DISK_NAME_BYTES 32
#define DISK_QUEUE_LIMIT 1024
#define DISK_TEXT_LIMIT 65536
#define DISK_MESSAGE_BYTES 160
#define DISK_TIME_LIMIT_NS 1000000000000ULL	/* 1000 s: sums of a few stay far from overflow */

struct disk_config {
	char name[DISK_NAME_BYTES];
	u64 capacity_sectors;
	u64 backing_fd;
	u64 seed;		/* of everything that the model draws at random */
	bool read_only;
	bool discard;
	bool volatile_cache;	/* acknowledges writes that a loss of power destroys: the block layer sends flushes */
	bool write_through;	/* the machine has switched the volatile cache off: every write is to be one with DISK_FUA */
	bool fua;		/* takes writes with DISK_FUA; else the block layer flushes after them */
	u32 physical_block_bytes;
	u32 atomic_unit_bytes;	/* a loss of power never tears one */
	u32 queue_depth;
	u32 hardware_queues;
	const struct disk_model_ops *ops;
	struct disk_faults faults;
	struct rotating_config rotating;
	struct drive_config drive;
	struct flash_config flash;
	struct controller_config controller;
	struct network_config network;
};

enum disk_key_kind {
	KEY_U64,
	KEY_U32,
	KEY_BOOL,
	KEY_READ	/* by a function */
};

/* A model has at most 64. */
struct disk_key {
	const char *name;
	enum disk_key_kind kind;
	bool needed;
	bool repeats;		/* may be given several times */
	size_t offset;		/* in struct disk_config */
	u64 minimum;
	u64 maximum;
	bool (*read)(struct disk_config *config, const char *at, const char *end);
};

#define DISK_KEY_U64(key, field, low, high) \
	{ .name = key, .kind = KEY_U64, .needed = true, .offset = offsetof(struct disk_config, field), .minimum = low, .maximum = high }
#define DISK_KEY_U32(key, field, low, high) \
	{ .name = key, .kind = KEY_U32, .needed = true, .offset = offsetof(struct disk_config, field), .minimum = low, .maximum = high }
#define DISK_KEY_BOOL(key, field) \
	{ .name = key, .kind = KEY_BOOL, .needed = true, .offset = offsetof(struct disk_config, field), .maximum = 1 }
#define DISK_KEY_READ(key, function, must) { .name = key, .kind = KEY_READ, .needed = must, .read = function }

/*
 * Reads `text` (length bytes) into config. Returns 0, or -1 with the reason and the line's number in message
 * (DISK_MESSAGE_BYTES long). Release with disk_config_free().
 */
int disk_config_parse(struct disk_config *config, const char *text, size_t length, char *message);
void disk_config_free(struct disk_config *config);

/* For KEY_READ: one unsigned number; moves *at behind it. False when there is none, or it is above U64_MAX / 2. */
bool disk_read_number(const char **at, const char *end, u64 *value);
/* Numbers separated by commas, at most `room`; false if it is anything else. */
bool disk_read_numbers(const char *at, const char *end, u64 *values, u32 room, u32 *count);

#endif
