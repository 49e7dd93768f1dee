// SPDX-License-Identifier: GPL-2.0
/* From the block layer's requests to the models' commands, the disk's content and the trace's records. */
#include <linux/mm.h>
#include "strata.h"

/* The model's command for a request. False for an operation that no modelled disk has. */
bool strata_command_of(struct request *rq, struct disk_io *io)
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

static int move_data(struct strata_disk *disk, struct request *rq, u64 now_ns, u64 sequence)
{
	struct content_vector vector[STRATA_VECTORS];
	bool write = rq_data_dir(rq) == WRITE;
	u64 sector = blk_rq_pos(rq), next = sector;
	struct req_iterator iter;
	struct bio_vec bv;
	u32 count = 0;

	rq_for_each_bvec(bv, rq, iter) {
		void *base = page_address(bv.bv_page) + bv.bv_offset;

		if (count && vector[count - 1].base + vector[count - 1].length == base) {
			vector[count - 1].length += bv.bv_len;
		} else {
			if (count == STRATA_VECTORS) {
				int result = write ? content_write(&disk->content, now_ns, sequence, sector, vector, count) :
						     content_read(&disk->content, now_ns, sector, vector, count);

				if (result)
					return result;
				sector = next;
				count = 0;
			}
			vector[count].base = base;
			vector[count++].length = bv.bv_len;
		}
		next += bv.bv_len >> SECTOR_SHIFT;
	}
	return write ? content_write(&disk->content, now_ns, sequence, sector, vector, count) :
		       content_read(&disk->content, now_ns, sector, vector, count);
}

int strata_transfer(struct strata_disk *disk, struct request *rq, u64 now_ns, u64 sequence)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
	case REQ_OP_WRITE:
		return move_data(disk, rq, now_ns, sequence);
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		return content_erase(&disk->content, now_ns, blk_rq_pos(rq), blk_rq_sectors(rq));
	default:
		return content_flush(&disk->content, now_ns);
	}
}

static enum trace_kind write_kind(blk_opf_t flags)
{
	if (flags & (REQ_PREFLUSH | REQ_FUA))
		return TRACE_WRITE_JOURNAL;
	if (flags & REQ_META)
		return flags & REQ_SYNC ? TRACE_WRITE_JOURNAL : TRACE_WRITE_METADATA;
	return flags & REQ_SYNC ? TRACE_WRITE_SYNC : TRACE_WRITE;
}

static enum trace_kind kind_of(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return rq->cmd_flags & REQ_META ? TRACE_READ_METADATA : TRACE_READ;
	case REQ_OP_FLUSH:
		return TRACE_FLUSH;
	case REQ_OP_DISCARD:
		return TRACE_DISCARD;
	default:
		return write_kind(rq->cmd_flags);
	}
}

void strata_trace_arrival(struct strata_slot *slot, struct request *rq, u32 outstanding)
{
	slot->trace_kind = kind_of(rq);
	slot->trace_flags = (rq->cmd_flags & REQ_FUA ? TRACE_FLAG_FUA : 0) | (rq->cmd_flags & REQ_RAHEAD ? TRACE_FLAG_READ_AHEAD : 0) |
			    (req_op(rq) == REQ_OP_WRITE_ZEROES ? TRACE_FLAG_ZEROES : 0);
	slot->outstanding = outstanding;
}

void strata_trace_completion(struct strata_disk *disk, const struct strata_slot *slot, const struct disk_command *command)
{
	struct trace_record record = {
		.arrival_ns = command->arrival_ns,
		.complete_ns = command->complete_ns,
		.sector = command->io.sector,
		.sectors = command->io.sectors,
		.op = command->io.op,
		.kind = slot->trace_kind,
		.flags = slot->trace_flags | (slot->status ? TRACE_FLAG_FAILED : 0) | (command->overdue ? TRACE_FLAG_OVERDUE : 0),
		.disk = disk->index,
		.outstanding = slot->outstanding,
		.parts = command->parts,
	};

	tracer_add(&record);
}
