/* SPDX-License-Identifier: GPL-2.0 */
/* State of a flash drive, shared by its files. Rules in flash.h. */
#ifndef STRATA_FLASH_STATE_H
#define STRATA_FLASH_STATE_H

#include "disk.h"

#define FLASH_RECENT 16384U			/* pages whose program may not have ended */
#define FLASH_OPEN_LIMIT_NS 1000000000ULL	/* so long a page waits for more data, then it is programmed: an estimate */

struct flash_open_unit {
	u32 unit;
	u64 sequence;
};

struct flash_recent {
	u32 page;	/* + 1 */
	u64 end_ns;
};

struct flash_state {
	struct ftl ftl;
	struct buffer buffer;
	u64 barrier_ns;		/* no command starts before */
	u64 complete_ns;	/* the latest completion */
	u64 programmed_ns;	/* the end of the latest program of the host's data */
	bool unsaved;		/* written or discarded something since the last flush */
	u64 saved_ns;		/* when the latest flush is complete */
	u64 open_ready_ns;
	u64 open_since_ns;
	u64 forced_start_ns;	/* of the open page's program, where it is on its die already, */
	u64 forced_end_ns;	/* and when that and the saving of the map end; 0: it is not */
	u32 open_units;
	struct flash_open_unit open[FLASH_PAGE_UNITS_MAX];
	u64 slc_used_bytes;
	u32 unpaid_pages;	/* of the host since the last burst of cleaning */
	u64 slot_ns;		/* the interval of housekeeping_interval_ns whose pause is known: its start, */
	u64 pause_ns;		/* and the pause's */
	u64 refreshed;		/* pages that have been refreshed */
	u64 recent_host_ns;	/* programs of the host's data and the cleaning that they paid for, fading */
	u64 recent_cleaning_ns;
	struct flash_recent recent[FLASH_RECENT];
	struct lane link[2];	/* to the host, from the host */
	struct lane channel[FLASH_CHANNELS_MAX];
	struct die die[FLASH_DIES_MAX];
};

/* flash_config.c */
extern const struct disk_key flash_keys[];

/* flash_media.c: the cells. */
struct flash_place {
	u32 page;	/* in the drive */
	u32 die;
	u32 row;	/* page of the drive's block, on its die */
	bool first;	/* of the map's block, on its die */
};

void flash_locate(const struct flash_config *config, u32 address, struct flash_place *place);
u64 flash_transfer_ns(u64 bytes, u64 bytes_per_s);
/* Whether the page is still in the write buffer at at_ns. */
bool flash_is_buffered(const struct disk *disk, u32 address, u64 at_ns);
/* The part of a wait for the dies that cleaning accounts for. */
u64 flash_cleaning_part_ns(const struct flash_state *state, u64 wait_ns);
/*
 * Takes a unit of the host whose data are there at ready_ns. Returns when it is programmed, or 0 while its page is open. With force the
 * page is programmed in any case; its die saves the map behind it for save_ns.
 */
u64 flash_put(struct disk *disk, u32 unit, u64 sequence, u64 ready_ns, bool force, u64 save_ns);
/* A page whose program begins before at_ns takes no more data. */
void flash_settle(struct disk *disk, u64 at_ns);
/* Programs the open page as it is; returns when that ends, or 0 when there is none. */
u64 flash_close_page(struct disk *disk, u64 ready_ns);
/* How long sensing a page takes for the host. */
u64 flash_read_ns(const struct disk *disk, const struct flash_place *place, u64 sequence);
/* Work that no command asked for, up to disk->now_ns: folding the SLC cache, refreshing pages. */
void flash_background(struct disk *disk);
/* When the drive takes a command up: not behind a barrier, nor in a pause of the firmware. Accounts for the wait. */
u64 flash_take_up(struct disk *disk, struct disk_command *command);
/* Saves the map, on one die; returns when that is done. */
u64 flash_save_map(struct disk *disk, u64 sequence, u64 ready_ns);

/* For tests: ftl_check(). */
const char *flash_check(const struct disk *disk);

#endif
