// SPDX-License-Identifier: GPL-2.0
/* A disk without latency: for the root image, and to see what a stack costs apart from its disks. */
#include "queue.h"

static void null_prepare(const struct disk_model *model, struct disk_io *io)
{
	(void)model;
	(void)io;
}

static u64 null_positioning_ns(const struct disk_model *model, u64 now_ns, const struct disk_io *io)
{
	(void)model;
	(void)now_ns;
	(void)io;
	return 0;
}

static u64 null_submit(struct disk_model *model, u64 now_ns, const struct disk_io *io, struct disk_account *account)
{
	(void)model;
	(void)io;
	(void)account;
	return now_ns;
}

const struct disk_model_ops disk_null_ops = {
	.name = "null",
	.immediate = true,
	.prepare = null_prepare,
	.positioning_ns = null_positioning_ns,
	.submit = null_submit,
};
