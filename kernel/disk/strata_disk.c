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
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/strata_cpu.h>
#include <os.h>
#include "strata.h"

#define STRATA_SD_MINORS 16
/* As libata and AHCI set them for a SATA disk. */
#define STRATA_MAX_SECTORS 65528
#define STRATA_MAX_SEGMENTS 168
#define STRATA_MAX_SEGMENT_BYTES (4U << 20)

static char disk_list[256];
module_param_string(disks, disk_list, sizeof(disk_list), 0444);
MODULE_PARM_DESC(disks, "host file descriptors, separated by commas, each with the text that describes one disk");

struct strata_disk *strata_disks[STRATA_DISKS_LIMIT];
u32 strata_disks_count;

/* Brings the timer to where the disk wants it now; before_ns is where it was wanted before. Under the lock. */
static void arm(struct strata_disk *disk, u64 before_ns)
{
	u64 next_ns = disk_next_ns(&disk->disk);

	if (next_ns != before_ns && next_ns != U64_MAX)
		hrtimer_start(&disk->timer, ns_to_ktime(next_ns), HRTIMER_MODE_ABS);
}

/*
 * Under the lock. Returns false when the disk has no slot, which cannot be: blk-mq has no more tags than it has slots. If it does, the
 * request is tried again.
 */
static bool submit(struct strata_disk *disk, struct request *rq, const struct disk_io *io, u64 now_ns, blk_status_t status)
{
	u64 before_ns = disk_next_ns(&disk->disk);
	u32 tag = disk_add(&disk->disk, now_ns, io);
	struct strata_slot *slot;

	if (tag == DISK_NONE)
		return false;
	slot = &disk->slot[tag];
	slot->rq = rq;
	slot->status = status;
	if (tracer_on())
		strata_trace_arrival(slot, rq, disk->disk.outstanding);
	arm(disk, before_ns);
	return true;
}

/* A disk without latency: complete at once. */
static void serve_at_once(struct strata_disk *disk, struct request *rq, const struct disk_io *io, u64 now_ns, blk_status_t status)
{
	disk_count(&disk->disk.account, io->op, io->sectors);
	if (tracer_on() && !disk->content.blocks.plain) {
		struct disk_command command = { .io = *io, .arrival_ns = now_ns, .complete_ns = now_ns };
		struct strata_slot slot = { .status = status };

		strata_trace_arrival(&slot, rq, 1);
		strata_trace_completion(disk, &slot, &command);
	}
}

/* Under the lock. *done: the request is complete, with the status that is returned. */
static blk_status_t serve(struct strata_disk *disk, struct request *rq, const struct disk_io *io, bool *done)
{
	/* Without interrupts, reading the clock is free of charge and runs no timer. */
	u64 now_ns = ktime_get_ns();
	int result = strata_transfer(disk, rq, now_ns, disk->disk.sequence + 1);
	blk_status_t status = result == CONTENT_UNREADABLE ? BLK_STS_MEDIUM : BLK_STS_OK;

	*done = false;
	if (result == CONTENT_GONE)
		return BLK_STS_OFFLINE;
	if (result < 0)
		return BLK_STS_IOERR;
	if (!disk->disk.config.ops->immediate)
		return submit(disk, rq, io, now_ns, status) ? BLK_STS_OK : BLK_STS_DEV_RESOURCE;
	serve_at_once(disk, rq, io, now_ns, status);
	*done = true;
	return status;
}

static blk_status_t strata_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct strata_disk *disk = hctx->queue->queuedata;
	u64 start_ns = strata_cost_measured() ? os_nsecs() : 0;
	struct request *rq = bd->rq;
	struct disk_io io;
	unsigned long flags;
	blk_status_t status;
	bool done;

	strata_cpu_count(CPU_IO);
	blk_mq_start_request(rq);
	if (!strata_command_of(rq, &io))
		return BLK_STS_NOTSUPP;
	spin_lock_irqsave(&disk->lock, flags);
	status = serve(disk, rq, &io, &done);
	if (start_ns)
		disk->host_cost_ns += os_nsecs() - start_ns;
	spin_unlock_irqrestore(&disk->lock, flags);
	if (status == BLK_STS_OK || done)
		strata_power_count(disk);
	if (done) {
		blk_mq_end_request(rq, status);
		return BLK_STS_OK;
	}
	return status;
}

/* Under the lock: a command that is complete, and forgotten by the disk. */
static bool take(struct strata_disk *disk, u64 now_ns, struct strata_slot *slot)
{
	u32 tag = disk_take(&disk->disk, now_ns);
	const struct disk_command *command;

	if (tag == DISK_NONE)
		return false;
	command = &disk->disk.command[tag];
	*slot = disk->slot[tag];
	if (command->complete_ns >= disk->content.defects.gone_ns)
		slot->status = BLK_STS_OFFLINE;
	else if (command->failed && !slot->status)
		slot->status = BLK_STS_IOERR;
	if (tracer_on())
		strata_trace_completion(disk, slot, command);
	disk->slot[tag].rq = NULL;
	disk_release(&disk->disk, tag);
	return true;
}

static enum hrtimer_restart strata_timer(struct hrtimer *timer)
{
	struct strata_disk *disk = container_of(timer, struct strata_disk, timer);
	bool measured = strata_cost_measured();
	u64 now_ns = ktime_get_ns(), start_ns = measured ? os_nsecs() : 0;
	struct strata_slot slot;
	unsigned long flags;

	strata_cpu_count(CPU_INTERRUPT);
	spin_lock_irqsave(&disk->lock, flags);
	while (take(disk, now_ns, &slot)) {
		if (measured)
			disk->host_cost_ns += os_nsecs() - start_ns;
		spin_unlock_irqrestore(&disk->lock, flags);
		blk_mq_end_request(slot.rq, slot.status);
		if (measured)
			start_ns = os_nsecs();
		spin_lock_irqsave(&disk->lock, flags);
	}
	arm(disk, 0);
	if (measured)
		disk->host_cost_ns += os_nsecs() - start_ns;
	spin_unlock_irqrestore(&disk->lock, flags);
	return HRTIMER_NORESTART;	/* a completion may have led to a request that has started the timer already */
}

u64 strata_catch_up(struct strata_disk *disk)
{
	u64 now_ns = ktime_get_ns();

	if (!disk->disk.config.ops->immediate) {
		u64 before_ns = disk_next_ns(&disk->disk);

		disk_advance(&disk->disk, now_ns);
		arm(disk, before_ns);
	}
	return now_ns;
}

void strata_account(struct strata_disk *disk, struct disk_account *account)
{
	unsigned long flags;

	spin_lock_irqsave(&disk->lock, flags);
	strata_catch_up(disk);
	*account = disk->disk.account;
	spin_unlock_irqrestore(&disk->lock, flags);
}

static const struct blk_mq_ops strata_mq_ops = {
	.queue_rq = strata_queue_rq,
};

static const struct block_device_operations strata_fops = {
	.owner = THIS_MODULE,
};

/* sda..sdp get the numbers that they have everywhere: LVM accepts the major "sd" by default. */
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

	bool cached = config->volatile_cache && !config->write_through;

	return (rotating ? BLK_FEAT_ROTATIONAL : 0) | (cached ? BLK_FEAT_WRITE_CACHE : 0) | (cached && config->fua ? BLK_FEAT_FUA : 0);
}

static int add_disk_for(struct strata_disk *disk, bool sd)
{
	struct disk_config *config = &disk->disk.config;
	bool discard = config->discard && !config->read_only;
	struct queue_limits limits = {
		.features = features_of(config),
		.logical_block_size = STRATA_SECTOR_BYTES,
		.physical_block_size = config->physical_block_bytes,
		.max_hw_sectors = STRATA_MAX_SECTORS,
		.max_segments = STRATA_MAX_SEGMENTS,
		.max_segment_size = STRATA_MAX_SEGMENT_BYTES,
		.max_write_zeroes_sectors = config->read_only ? 0 : STRATA_MAX_SECTORS,
		.max_hw_discard_sectors = discard ? UINT_MAX >> SECTOR_SHIFT : 0,
		.discard_granularity = discard ? PAGE_SIZE : 0,
	};
	int error;

	disk->tags.ops = &strata_mq_ops;
	disk->tags.nr_hw_queues = config->hardware_queues;	/* blk-mq makes it one for each processor at most */
	disk->tags.queue_depth = config->queue_depth;
	disk->tags.numa_node = NUMA_NO_NODE;
	/* As real drivers do: a disk with several queues gets no scheduler unless one is requested. */
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
	return 0;
}

/* What an earlier boot has left, if there was one. */
static int load_content(struct strata_disk *disk)
{
	static const char *const reason[] = {
		[BLOCKS_UNFINISHED] = "was in use by a lab that did not come to its end",
		[BLOCKS_OTHER] = "is of another disk, or damaged",
	};
	enum blocks_state state;
	int error = blocks_load(&disk->content.blocks, &state);

	if (error || state == BLOCKS_NEW || state == BLOCKS_LOADED)
		return error;
	pr_err("disk %s: its content %s\n", disk->disk.config.name, reason[state]);
	return -EINVAL;
}

static int open_content(struct strata_disk *disk)
{
	const struct disk_config *config = &disk->disk.config;
	bool plain = config->read_only, armed = strata_power_armed() && !config->ops->immediate;
	struct content_store store;
	int error = 0;

	strata_store_init(&store, &disk->file);
	if (!content_open(&disk->content, config, &store, plain, armed))
		return -ENOMEM;
	if (strata_media_kept() && !plain)
		error = load_content(disk);
	if (error) {
		content_close(&disk->content);
		return error;
	}
	if (disk->content.armed) {
		disk->disk.durable = content_durable;
		disk->disk.owner = &disk->content;
	}
	return 0;
}

static int add_one(int fd, char *text, bool sd)
{
	struct strata_disk *disk;
	int error;
	u32 i;

	if (strata_disks_count == STRATA_DISKS_LIMIT)
		return -ENOSPC;
	disk = platform_alloc(sizeof(*disk));
	if (!disk)
		return -ENOMEM;
	error = read_config(disk, fd, text);
	if (error)
		goto free;
	spin_lock_init(&disk->lock);
	hrtimer_setup(&disk->timer, strata_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	error = open_content(disk);
	if (error)
		goto free_config;
	error = -ENOMEM;
	if (!disk_open(&disk->disk))
		goto close_content;
	/* Their locks differ, but there is one processor, and nothing interrupts it under a lock. */
	for (i = 0; i < strata_disks_count; i++)
		network_join(&disk->disk, &strata_disks[i]->disk);
	error = nonvolatile_load(&disk->disk, &disk->content.blocks);
	if (error)
		goto close_disk_alone;
	/* Before it is added: its partition table is read then, and the power may be cut at that command. */
	disk->index = strata_disks_count;
	strata_disks[strata_disks_count++] = disk;
	error = add_disk_for(disk, sd);
	if (error)
		goto close_disk;
	return 0;
close_disk:
	strata_disks_count--;
close_disk_alone:
	disk_close(&disk->disk);
close_content:
	content_close(&disk->content);
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
	char *list = disk_list, *item;
	char *text = kvmalloc(DISK_TEXT_LIMIT, GFP_KERNEL);

	if (!text)
		panic("strata: no memory");
	strata_control_init(text, DISK_TEXT_LIMIT);
	while ((item = strsep(&list, ",")) != NULL) {
		int fd;

		if (!*item)
			continue;
		if (kstrtoint(item, 10, &fd) || fd < 0 || add_one(fd, text, sd))
			panic("strata: bad disk in strata.disks= (%s)", item);
	}
	kvfree(text);
	strata_power_init();
	return 0;
}
device_initcall(strata_init);
