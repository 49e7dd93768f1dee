/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A flash drive: dies behind channels behind a link, a write buffer, and the map of ftl.h.
 *
 * Read    sense each page on its die (unless the write buffer, or the die's page register, has it), pass the channel, pass the link.
 *         Units that were never written, or were discarded, have no cells to read: link only.
 * Write   wait for room in the buffer, pass the link: complete. Units gather in an open page; when it is full it goes over a channel
 *         into its die, the pages to the dies in turn. Cleaning (ftl.h) then moves what it owes, on the same dies.
 * Flush   with power-loss protection (volatile_cache=0) takes flush_ns. Without, it programs the open page as it is and waits for all
 *         programs, then flush_ns, in which the drive saves its map; with nothing written since the last one there is nothing to save. Unless
 *         flush_queued it waits for every command before it, and those after it wait (SATA).
 * FUA     without power-loss protection: complete when its pages are in the cells, and the map, which the die of one of them saves behind
 *         it for flush_ns. While a page waits for its die, other writes join it, and share the program and the saving: one at a time
 *         each has a page of its own, at depth pages are full. So does every write where the cache is switched off.
 * Discard unmaps whole units.
 *
 * Random read, mean, queue depth 1     interface_read_ns + E[read_ns] + retries + bytes / channel + command_ns + bytes / link
 *
 * Tails. Beside collisions on dies, and cleaning and programs that a read meets on its die:
 *   page types     the pages of a word line are sensed in several times (read_ns)
 *   spread         each page, for good, differs from its type's time by up to read_spread_ppm (the mean of two uniform draws)
 *   retries        a sensing fails with read_retry_ppm and is repeated, with read_retry_again_ppm once more, and so on: read_retry_ns each
 *   bursts         cleaning is done for each cleaning_burst_bytes of the host's pages at once, not page by page: writes find no room while it
 *                  lasts, then that much room, so most of them are fast
 *   refresh        the drive rewrites all of its cells in turn, against the loss of charge and for even wear: every refresh_page_ns a page
 *                  is read on one die and programmed on another one, and after each block of pages a block is erased
 *   housekeeping   once in each housekeeping_interval_ns, at a drawn instant of it, the firmware takes no command for housekeeping_ns
 *   saved map      a flush that saves the map keeps one die busy for flush_ns
 * All draws are hashes of the disk's seed and of the page, the command's sequence number or the event's.
 *
 * SLC cache: the first slc_bytes take slc_program_ns a page. After slc_idle_ns of idleness their content is folded, on all dies at once,
 * and they are fast again. Reads do not distinguish. Cleaning never programs into it.
 *
 * in_place: no map and no cleaning: media that can be overwritten, such as 3D XPoint; every unit has its place from the start.
 *
 * One thing that is simpler than a drive: work is put on a die when it is known, so cleaning's programs do not wait for its reads (a
 * drive reads ahead for them), and a suspended program delays the work behind it by as much (timeline.h).
 */
#ifndef STRATA_FLASH_H
#define STRATA_FLASH_H

#include "model.h"
#include "ftl.h"
#include "timeline.h"

#define FLASH_DIES_MAX 512U
#define FLASH_CHANNELS_MAX 64U
#define FLASH_PAGE_UNITS_MAX 64U
#define FLASH_PAGE_TYPES_MAX 4U
#define FLASH_RETRIES_MAX 16U

enum flash_precondition {
	FLASH_EMPTY,		/* nothing was ever written */
	FLASH_STEADY,		/* after long uniform random overwriting of every unit, a moment ago: the SLC cache is full */
	FLASH_FILLED,		/* written once in order, long ago */
	FLASH_USED,		/* after months of mixed use and a pause: flash_config.used */
	FLASH_PRECONDITIONS
};

struct flash_config {
	u32 dies;
	u32 channels;
	u32 page_bytes;
	u32 mapping_unit_bytes;
	u32 pages_per_block;
	u32 spare_ppm;			/* of the capacity */
	u32 read_types;
	u32 program_types;
	u64 read_ns[FLASH_PAGE_TYPES_MAX];	/* of page i of a block: [i % read_types] */
	u64 program_ns[FLASH_PAGE_TYPES_MAX];
	u64 erase_ns;
	u32 read_spread_ppm;
	u32 read_retry_ppm;
	u32 read_retry_again_ppm;
	u64 read_retry_ns;
	u64 refresh_page_ns;
	u64 housekeeping_interval_ns;
	u64 housekeeping_ns;
	u64 cleaning_burst_bytes;
	struct die_suspend suspend;
	u64 link_bytes_per_s;
	u64 link_write_bytes_per_s;
	bool link_duplex;
	u64 channel_bytes_per_s;	/* 0: never the limit */
	u64 command_ns;			/* of the link's time, for each command */
	u64 interface_read_ns;
	u64 interface_write_ns;
	u64 flush_ns;
	bool flush_queued;
	u64 buffer_bytes;
	u64 slc_bytes;
	u64 slc_program_ns;
	u64 slc_idle_ns;
	u32 precondition;
	struct ftl_age used;
	bool in_place;
	struct ftl_size size;		/* follows from the others */
};

struct disk_config;

const char *flash_config_check(struct disk_config *config);

#endif
