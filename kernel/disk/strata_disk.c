// SPDX-License-Identifier: GPL-2.0
/*
 * The modelled disks as block devices of a User-Mode Linux kernel.
 *
 * Data is copied to or from the host's file as soon as a request is issued; only its completion waits, for the instant that the model
 * computes. So the host's speed has no influence on anything that the lab can observe. One hrtimer per disk stands at the next completion.
 * Nothing here delays or polls: in virtual time a delay inside a completion would panic ("On-stack event dequeued").
 */
#define pr_fmt(fmt) "strata: " fmt

#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/major.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/init.h>
#include <linux/slab.h>
#include <os.h>
#include "queue.h"

#define STRATA_VECTORS 64
#define STRATA_SD_MINORS 16
#define STRATA_PUNCH_BYTES (1ULL << 30)
/* As libata and AHCI set them for a SATA disk. */
#define STRATA_MAX_SECTORS 65528
#define STRATA_MAX_SEGMENTS 168
#define STRATA_MAX_SEGMENT_BYTES (4U << 20)

struct strata_disk {
	spinlock_t lock;	/* queue, account, request, timer */
	struct hrtimer timer;
	int fd;
	unsigned int failures;
	struct gendisk *gendisk;
	struct blk_mq_tag_set tags;
	struct request *request[DISK_QUEUE_LIMIT];
	struct disk_queue queue;
};

static char strata_disks[256];
module_param_string(disks, strata_disks, sizeof(strata_disks), 0444);
MODULE_PARM_DESC(disks, "host file descriptors, separated by commas, each with the text that describes one disk");

static struct disk_config *config_of(struct strata_disk *disk)
{
	return &disk->queue.model.config;
}

/* The runner looks for this line. */
static blk_status_t host_failed(struct strata_disk *disk, const char *what, long error)
{
	const char *reason = error == -ENOSPC ? "no space left on the host" :
			     error == -EDQUOT ? "the host's disk quota is used up" :
			     error == -EFBIG ? "the host's file size limit is reached" :
			     error == -EIO ? "the host reports an I/O error" : "see the error's number";

	if (disk->failures++ < 10)
		pr_err("disk %s: host %s failed: %s (error %ld)\n", config_of(disk)->name, what, reason, -error);
	return BLK_STS_IOERR;
}

/* Moves past `done` bytes; returns the first vector that is not finished. */
static unsigned int vectors_advance(struct os_iovec *vector, unsigned int first, size_t done)
{
	while (done && done >= vector[first].length)
		done -= vector[first++].length;
	vector[first].base += done;
	vector[first].length -= done;
	return first;
}

static blk_status_t move_vectors(struct strata_disk *disk, bool write, struct os_iovec *vector, unsigned int count, u64 offset, size_t bytes)
{
	unsigned int first = 0;

	while (bytes) {
		ssize_t done = write ? os_pwritev_file(disk->fd, vector + first, count - first, offset)
				     : os_preadv_file(disk->fd, vector + first, count - first, offset);

		if (done == -EINTR)
			continue;
		if (done < 0)
			return host_failed(disk, write ? "write" : "read", done);
		if (done == 0 && write)
			return host_failed(disk, "write", -EIO);
		if (done == 0) {	/* beyond the end of the host's file: never written */
			for (; first < count; first++)
				memset(vector[first].base, 0, vector[first].length);
			return BLK_STS_OK;
		}
		bytes -= done;
		offset += done;
		if (bytes)
			first += vectors_advance(vector + first, 0, done);
	}
	return BLK_STS_OK;
}

static blk_status_t move_data(struct strata_disk *disk, struct request *rq)
{
	struct os_iovec vector[STRATA_VECTORS];
	u64 offset = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	bool write = rq_data_dir(rq) == WRITE;
	unsigned int count = 0;
	size_t bytes = 0;
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_bvec(bv, rq, iter) {
		void *base = page_address(bv.bv_page) + bv.bv_offset;

		if (count && vector[count - 1].base + vector[count - 1].length == base) {
			vector[count - 1].length += bv.bv_len;
		} else {
			if (count == STRATA_VECTORS) {
				blk_status_t status = move_vectors(disk, write, vector, count, offset, bytes);

				if (status)
					return status;
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

static blk_status_t write_zeros(struct strata_disk *disk, u64 offset, u64 bytes)
{
	struct os_iovec vector[STRATA_VECTORS];

	while (bytes) {
		size_t part = min_t(u64, bytes, STRATA_VECTORS * PAGE_SIZE), left = part;
		unsigned int count = 0;
		blk_status_t status;

		for (; left; left -= vector[count++].length) {
			vector[count].base = page_address(ZERO_PAGE(0));
			vector[count].length = min_t(size_t, left, PAGE_SIZE);
		}
		status = move_vectors(disk, true, vector, count, offset, part);
		if (status)
			return status;
		offset += part;
		bytes -= part;
	}
	return BLK_STS_OK;
}

/* Discarded and zeroed sectors read as zeros and cost the host nothing, if its filesystem can punch holes. */
static blk_status_t punch(struct strata_disk *disk, struct request *rq)
{
	u64 offset = (u64)blk_rq_pos(rq) << SECTOR_SHIFT;
	u64 bytes = blk_rq_bytes(rq);

	while (bytes) {
		u64 part = min_t(u64, bytes, STRATA_PUNCH_BYTES);
		int error = os_falloc_punch(disk->fd, offset, part);

		if (error == -EINTR)
			continue;
		if (error == -EOPNOTSUPP || error == -ENODEV)
			return write_zeros(disk, offset, bytes);
		if (error < 0)
			return host_failed(disk, "hole punching", error);
		offset += part;
		bytes -= part;
	}
	return BLK_STS_OK;
}

static blk_status_t transfer(struct strata_disk *disk, struct request *rq, enum disk_op *op)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		*op = DISK_READ;
		return move_data(disk, rq);
	case REQ_OP_WRITE:
		*op = DISK_WRITE;
		return move_data(disk, rq);
	case REQ_OP_FLUSH:
		*op = DISK_FLUSH;
		return BLK_STS_OK;
	case REQ_OP_DISCARD:
		*op = DISK_DISCARD;
		return punch(disk, rq);
	case REQ_OP_WRITE_ZEROES:	/* a drive without such a command is sent the zeros: same time on the medium */
		*op = DISK_WRITE;
		return punch(disk, rq);
	default:
		return BLK_STS_NOTSUPP;
	}
}

static void arm(struct strata_disk *disk, u64 next_ns)
{
	if (next_ns != U64_MAX)
		hrtimer_start(&disk->timer, ns_to_ktime(next_ns), HRTIMER_MODE_ABS);
}

static blk_status_t strata_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct strata_disk *disk = hctx->queue->queuedata;
	struct disk_queue *queue = &disk->queue;
	struct request *rq = bd->rq;
	unsigned long flags;
	enum disk_op op;
	blk_status_t status;
	u64 now_ns, before_ns, next_ns;
	u32 tag;

	blk_mq_start_request(rq);
	status = transfer(disk, rq, &op);
	if (status)
		return status;
	if (config_of(disk)->ops->immediate) {
		disk_account_request(&queue->account, op, blk_rq_sectors(rq));
		blk_mq_end_request(rq, BLK_STS_OK);
		return BLK_STS_OK;
	}
	/* Before the lock: reading the clock advances virtual time, which may run this disk's timer. */
	now_ns = ktime_get_ns();
	spin_lock_irqsave(&disk->lock, flags);
	before_ns = disk_queue_next_ns(queue);
	tag = disk_queue_add(queue, now_ns, op, blk_rq_pos(rq), blk_rq_sectors(rq));
	if (tag != DISK_NONE) {
		disk->request[tag] = rq;
		next_ns = disk_queue_next_ns(queue);
		if (next_ns != before_ns)
			arm(disk, next_ns);
	}
	spin_unlock_irqrestore(&disk->lock, flags);
	/* Cannot happen, blk-mq has no more tags than the queue has slots; if it does, the request is tried again. */
	return tag == DISK_NONE ? BLK_STS_DEV_RESOURCE : BLK_STS_OK;
}

static enum hrtimer_restart strata_timer(struct hrtimer *timer)
{
	struct strata_disk *disk = container_of(timer, struct strata_disk, timer);
	u64 now_ns = ktime_get_ns();	/* free of charge in an interrupt */
	struct request *rq;
	unsigned long flags;
	u64 next_ns;
	u32 tag;

	spin_lock_irqsave(&disk->lock, flags);
	while ((tag = disk_queue_take(&disk->queue, now_ns)) != DISK_NONE) {
		rq = disk->request[tag];
		disk_queue_release(&disk->queue, tag);
		spin_unlock_irqrestore(&disk->lock, flags);
		blk_mq_end_request(rq, BLK_STS_OK);
		spin_lock_irqsave(&disk->lock, flags);
	}
	next_ns = disk_queue_next_ns(&disk->queue);
	spin_unlock_irqrestore(&disk->lock, flags);
	if (next_ns == U64_MAX)
		return HRTIMER_NORESTART;
	hrtimer_set_expires(timer, ns_to_ktime(next_ns));
	return HRTIMER_RESTART;
}

static const struct blk_mq_ops strata_mq_ops = {
	.queue_rq = strata_queue_rq,
};

static ssize_t account_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct strata_disk *disk = dev_to_disk(dev)->private_data;
	struct disk_account account;
	unsigned long flags;
	const u64 *value = (const u64 *)&account;
	int length = 0, i;

	spin_lock_irqsave(&disk->lock, flags);
	account = disk->queue.account;
	spin_unlock_irqrestore(&disk->lock, flags);
	for (i = 0; i < DISK_ACCOUNT_KEYS; i++)
		length += sysfs_emit_at(buf, length, "%s %llu\n", disk_account_names[i], value[i]);
	return length;
}
static DEVICE_ATTR_RO(account);

static struct attribute *strata_attrs[] = {
	&dev_attr_account.attr,
	NULL
};
ATTRIBUTE_GROUPS(strata);

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

static int add_disk_for(struct strata_disk *disk, bool sd)
{
	struct disk_config *config = config_of(disk);
	bool immediate = config->ops->immediate;
	struct queue_limits limits = {
		.features = config->ops == &disk_rotating_ops ? BLK_FEAT_ROTATIONAL : 0,
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
	disk->tags.nr_hw_queues = 1;
	disk->tags.queue_depth = config->queue_depth;
	disk->tags.numa_node = NUMA_NO_NODE;
	disk->tags.flags = immediate ? BLK_MQ_F_NO_SCHED_BY_DEFAULT : 0;
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
	char message[DISK_MESSAGE_BYTES];
	size_t length = 0;

	for (;;) {
		int done = os_pread_file(fd, text + length, DISK_TEXT_LIMIT - length, length);

		if (done == -EINTR)
			continue;
		if (done < 0) {
			pr_err("descriptor %d: cannot read the disk's description (error %d)\n", fd, -done);
			return done;
		}
		length += done;
		if (done == 0)
			break;
	}
	if (disk_config_parse(config_of(disk), text, length, message)) {
		pr_err("descriptor %d: %s\n", fd, message);
		return -EINVAL;
	}
	disk->fd = config_of(disk)->backing_fd;
	return 0;
}

static int add_one(int fd, char *text, bool sd)
{
	struct strata_disk *disk = kvzalloc(sizeof(*disk), GFP_KERNEL);
	int error;

	if (!disk)
		return -ENOMEM;
	error = read_config(disk, fd, text);
	if (error)
		goto free;
	spin_lock_init(&disk->lock);
	hrtimer_setup(&disk->timer, strata_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	disk_queue_init(&disk->queue);
	error = add_disk_for(disk, sd);
	if (!error)
		return 0;
	pr_err("disk %s: cannot be added (error %d)\n", config_of(disk)->name, -error);
free:
	kvfree(disk);
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
