// SPDX-License-Identifier: GPL-2.0
/*
 * The modelled disks as block devices of a User-Mode Linux kernel.
 *
 * Data is copied to or from the host's file as soon as a request is issued; only its completion waits, for the instant that the model
 * computes. So the host's speed has no influence on anything that the lab can observe. One hrtimer per disk stands at the next completion.
 * Nothing here delays or polls: in virtual time a delay inside a completion would panic ("On-stack event dequeued").
 */
#define pr_fmt(fmt) "strata: " fmt

#include <linux/init.h>
#include <linux/major.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include "strata.h"

#define STRATA_SD_MINORS 16
/* As libata and AHCI set them for a SATA disk. */
#define STRATA_MAX_SECTORS 65528
#define STRATA_MAX_SEGMENTS 168
#define STRATA_MAX_SEGMENT_BYTES (4U << 20)

static char strata_disks[256];
module_param_string(disks, strata_disks, sizeof(strata_disks), 0444);
MODULE_PARM_DESC(disks, "host file descriptors, separated by commas, each with the text that describes one disk");

static blk_status_t status_of(int error)
{
	return error ? BLK_STS_IOERR : BLK_STS_OK;
}

static int move_vectors(struct strata_disk *disk, bool write, struct medium_vector *vector, u32 count, u64 offset, u64 bytes)
{
	return write ? disk->store.write(disk->store.owner, vector, count, offset, bytes) :
		       disk->store.read(disk->store.owner, vector, count, offset, bytes);
}

static int move_data(struct strata_disk *disk, struct request *rq)
{
	struct medium_vector vector[STRATA_VECTORS];
	u64 offset = (u64)blk_rq_pos(rq) << SECTOR_SHIFT, bytes = 0;
	bool write = rq_data_dir(rq) == WRITE;
	u32 count = 0;
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_bvec(bv, rq, iter) {
		void *base = page_address(bv.bv_page) + bv.bv_offset;

		if (count && vector[count - 1].base + vector[count - 1].length == base) {
			vector[count - 1].length += bv.bv_len;
		} else {
			if (count == STRATA_VECTORS) {
				int error = move_vectors(disk, write, vector, count, offset, bytes);

				if (error)
					return error;
				offset += bytes;
				bytes = 0;
				count = 0;
			}
			vector[count].base = base;
			vector[count++].length = bv.bv_len;
		}
		bytes += bv.bv_len;
	}
	return move_vectors(disk, write, vector, count, offset, bytes);
}

static blk_status_t transfer(struct strata_disk *disk, struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		return status_of(move_data(disk, rq));
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		return status_of(disk->store.punch(disk->store.owner, (u64)blk_rq_pos(rq) << SECTOR_SHIFT, blk_rq_bytes(rq)));
	default:
		return BLK_STS_OK;
	}
}

/* What the disk is asked. False for what no modelled disk knows. */
static bool command_of(struct request *rq, struct disk_io *io)
{
	io->flags = rq->cmd_flags & REQ_FUA ? DISK_FUA : 0;
	io->sector = blk_rq_pos(rq);
	io->sectors = blk_rq_sectors(rq);
	switch (req_op(rq)) {
	case REQ_OP_READ:
		io->op = DISK_READ;
		return true;
	case REQ_OP_WRITE:
	case REQ_OP_WRITE_ZEROES:	/* a drive without such a command is sent the zeros: same time on the medium */
		io->op = DISK_WRITE;
		return true;
	case REQ_OP_FLUSH:
		io->op = DISK_FLUSH;
		io->sector = 0;
		io->sectors = 0;
		return true;
	case REQ_OP_DISCARD:
		io->op = DISK_DISCARD;
		return true;
	default:
		return false;
	}
}

/* Brings the timer to where the disk wants it now; before_ns is where it was wanted before. Under the lock. */
static void arm(struct strata_disk *disk, u64 before_ns)
{
	u64 next_ns = disk_next_ns(&disk->disk);

	if (next_ns != before_ns && next_ns != U64_MAX)
		hrtimer_start(&disk->timer, ns_to_ktime(next_ns), HRTIMER_MODE_ABS);
}

/* Under the lock. Cannot fail, blk-mq has no more tags than the disk has slots; if it does, the request is tried again. */
static blk_status_t submit(struct strata_disk *disk, struct request *rq, const struct disk_io *io, u64 now_ns, blk_status_t status)
{
	u64 before_ns = disk_next_ns(&disk->disk);
	u32 tag = disk_add(&disk->disk, now_ns, io);

	if (tag == DISK_NONE)
		return BLK_STS_DEV_RESOURCE;
	disk->slot[tag].rq = rq;
	disk->slot[tag].status = status;
	arm(disk, before_ns);
	return BLK_STS_OK;
}

static blk_status_t strata_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct strata_disk *disk = hctx->queue->queuedata;
	bool immediate = disk->disk.config.ops->immediate;
	struct request *rq = bd->rq;
	struct disk_io io;
	unsigned long flags;
	blk_status_t status;

	blk_mq_start_request(rq);
	if (!command_of(rq, &io))
		return BLK_STS_NOTSUPP;
	spin_lock_irqsave(&disk->lock, flags);
	status = transfer(disk, rq);
	if (!status) {
		if (immediate)
			disk_count(&disk->disk.account, io.op, io.sectors);
		else	/* without interrupts, reading the clock is free of charge and lets no time pass */
			status = submit(disk, rq, &io, ktime_get_ns(), BLK_STS_OK);
	}
	spin_unlock_irqrestore(&disk->lock, flags);
	if (!status && immediate)
		blk_mq_end_request(rq, BLK_STS_OK);
	return status;
}

static enum hrtimer_restart strata_timer(struct hrtimer *timer)
{
	struct strata_disk *disk = container_of(timer, struct strata_disk, timer);
	u64 now_ns = ktime_get_ns();
	unsigned long flags;
	u32 tag;

	spin_lock_irqsave(&disk->lock, flags);
	while ((tag = disk_take(&disk->disk, now_ns)) != DISK_NONE) {
		struct strata_slot slot = disk->slot[tag];

		disk->slot[tag].rq = NULL;
		disk_release(&disk->disk, tag);
		spin_unlock_irqrestore(&disk->lock, flags);
		blk_mq_end_request(slot.rq, slot.status);
		spin_lock_irqsave(&disk->lock, flags);
	}
	arm(disk, 0);
	spin_unlock_irqrestore(&disk->lock, flags);
	return HRTIMER_NORESTART;	/* a completion may have led to a request that has started the timer already */
}

void strata_account(struct strata_disk *disk, struct disk_account *account)
{
	unsigned long flags;

	spin_lock_irqsave(&disk->lock, flags);
	if (!disk->disk.config.ops->immediate) {
		u64 before_ns = disk_next_ns(&disk->disk);

		disk_advance(&disk->disk, ktime_get_ns());
		arm(disk, before_ns);
	}
	*account = disk->disk.account;
	spin_unlock_irqrestore(&disk->lock, flags);
}

static const struct blk_mq_ops strata_mq_ops = {
	.queue_rq = strata_queue_rq,
};

static const struct block_device_operations strata_fops = {
	.owner = THIS_MODULE,
};

/* sda..sdp get the numbers that they have everywhere: LVM accepts the major "sd" without being told. */
static void set_number(struct gendisk *gendisk, const char *name, bool sd)
{
	strscpy(gendisk->disk_name, name, DISK_NAME_LEN);
	if (!sd || strlen(name) != 3 || name[0] != 's' || name[1] != 'd' || name[2] > 'p')
		return;
	gendisk->major = SCSI_DISK0_MAJOR;
	gendisk->first_minor = (name[2] - 'a') * STRATA_SD_MINORS;
	gendisk->minors = STRATA_SD_MINORS;
}

static blk_features_t features_of(const struct disk_config *config)
{
	const struct disk_config *member = config->controller.member;
	bool rotating = config->ops == &disk_rotating_ops || (member && member->ops == &disk_rotating_ops);

	return (rotating ? BLK_FEAT_ROTATIONAL : 0) | (config->volatile_cache ? BLK_FEAT_WRITE_CACHE : 0) |
	       (config->fua ? BLK_FEAT_FUA : 0);
}

static int add_disk_for(struct strata_disk *disk, bool sd)
{
	struct disk_config *config = &disk->disk.config;
	struct queue_limits limits = {
		.features = features_of(config),
		.logical_block_size = STRATA_SECTOR_BYTES,
		.physical_block_size = config->physical_block_bytes,
		.max_hw_sectors = STRATA_MAX_SECTORS,
		.max_segments = STRATA_MAX_SEGMENTS,
		.max_segment_size = STRATA_MAX_SEGMENT_BYTES,
		.max_write_zeroes_sectors = STRATA_MAX_SECTORS,
		.max_hw_discard_sectors = config->discard ? UINT_MAX >> SECTOR_SHIFT : 0,
		.discard_granularity = config->discard ? PAGE_SIZE : 0,
	};
	int error;

	disk->tags.ops = &strata_mq_ops;
	disk->tags.nr_hw_queues = config->hardware_queues;	/* blk-mq makes it one for each processor at most */
	disk->tags.queue_depth = config->queue_depth;
	disk->tags.numa_node = NUMA_NO_NODE;
	/* As real drivers do: a disk with several queues gets no scheduler unless somebody asks for one. */
	disk->tags.flags = config->ops->immediate || config->hardware_queues > 1 ? BLK_MQ_F_NO_SCHED_BY_DEFAULT : 0;
	error = blk_mq_alloc_tag_set(&disk->tags);
	if (error)
		return error;
	disk->gendisk = blk_mq_alloc_disk(&disk->tags, &limits, disk);
	if (IS_ERR(disk->gendisk)) {
		error = PTR_ERR(disk->gendisk);
		goto free_tags;
	}
	set_number(disk->gendisk, config->name, sd);
	disk->gendisk->fops = &strata_fops;
	disk->gendisk->private_data = disk;
	set_capacity(disk->gendisk, config->capacity_sectors);
	set_disk_ro(disk->gendisk, config->read_only);
	error = device_add_disk(NULL, disk->gendisk, strata_groups);
	if (!error)
		return 0;
	put_disk(disk->gendisk);
free_tags:
	blk_mq_free_tag_set(&disk->tags);
	return error;
}

static int read_config(struct strata_disk *disk, int fd, char *text)
{
	struct disk_config *config = &disk->disk.config;
	char message[DISK_MESSAGE_BYTES];
	size_t length;
	int error = strata_read_text(fd, text, DISK_TEXT_LIMIT, &length);

	if (error) {
		pr_err("descriptor %d: cannot read the disk's description (error %d)\n", fd, -error);
		return error;
	}
	if (disk_config_parse(config, text, length, message)) {
		pr_err("descriptor %d: %s\n", fd, message);
		return -EINVAL;
	}
	disk->file.fd = config->backing_fd;
	disk->file.disk_name = config->name;
	strata_store_init(&disk->store, &disk->file);
	return 0;
}

static int add_one(int fd, char *text, bool sd)
{
	struct strata_disk *disk = platform_alloc(sizeof(*disk));
	int error;

	if (!disk)
		return -ENOMEM;
	error = read_config(disk, fd, text);
	if (error)
		goto free;
	spin_lock_init(&disk->lock);
	hrtimer_setup(&disk->timer, strata_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	error = -ENOMEM;
	if (!disk_open(&disk->disk))
		goto free_config;
	error = add_disk_for(disk, sd);
	if (!error)
		return 0;
	disk_close(&disk->disk);
free_config:
	pr_err("disk %s: cannot be added (error %d)\n", disk->disk.config.name, -error);
	disk_config_free(&disk->disk.config);
free:
	platform_free(disk, sizeof(*disk));
	return error;
}

/* A lab without one of its disks must not run: it would measure something else. */
static int __init strata_init(void)
{
	bool sd = register_blkdev(SCSI_DISK0_MAJOR, "sd") == 0;
	char *list = strata_disks, *item;
	char *text = kvmalloc(DISK_TEXT_LIMIT, GFP_KERNEL);

	if (!text)
		panic("strata: no memory");
	while ((item = strsep(&list, ",")) != NULL) {
		int fd;

		if (!*item)
			continue;
		if (kstrtoint(item, 10, &fd) || fd < 0 || add_one(fd, text, sd))
			panic("strata: bad disk in strata.disks= (%s)", item);
	}
	kvfree(text);
	return 0;
}
device_initcall(strata_init);
