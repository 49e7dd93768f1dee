/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults of a disk, each from a line `fault=KIND,...` of its description. Times are ns since the lab's start; `until` 0 is for ever.
 *
 *     unreadable,first_sector,sectors        reads fail until the sectors are written again
 *     corrupt,first_sector,sectors,at_ns     from then on they read as something else, without any error, until they are written again
 *     gone,at_ns                             from then on every command fails
 *     slow,from_ns,until_ns,percent          a command that arrives then takes percent/100 of its time; percent >= 100. Of several
 *                                            at once each adds its share of the time that the command would take without any
 *     ignores-flush                          acknowledges a flush at once, whatever is in the write cache
 *
 * While the lab runs, a line `DISK KIND,...` written to /sys/module/strata/parameters/fault adds one (strata_fault.c). Its times count
 * from then on: 0 is at once. There is one more kind then:
 *
 *     back                                   a disk that is gone is there again, with its content
 *
 * The faults of the description begin anew at each boot, also on the content of an earlier one: times count from the boot, and sectors that
 * were written again are bad again. Another boot may be given a description without faults.
 */
#ifndef STRATA_FAULTS_H
#define STRATA_FAULTS_H

#include "model.h"

#define DISK_FAULTS_LIMIT 64

enum disk_fault_kind {
	FAULT_UNREADABLE,
	FAULT_CORRUPT,
	FAULT_GONE,
	FAULT_SLOW,
	FAULT_IGNORES_FLUSH,
	FAULT_KINDS
};

struct disk_fault {
	enum disk_fault_kind kind;
	u64 first_sector;
	u64 sectors;
	u64 from_ns;
	u64 until_ns;
	u64 percent;
};

struct disk_faults {
	u32 count;
	bool ignores_flush;
	struct disk_fault fault[DISK_FAULTS_LIMIT];
};

struct disk_command;

bool disk_faults_read(struct disk_config *config, const char *at, const char *end);	/* for KEY_READ */
/*
 * Reads `KIND,...` into the first unused fault of a disk that runs, its times from now_ns on, without counting it yet. Returns NULL, or what is
 * wrong with it.
 */
const char *disk_faults_read_now(struct disk_config *config, u64 now_ns, const char *at, const char *end);
/* Adds what a fault costs to a command's completion. */
void disk_faults_stretch(const struct disk *disk, struct disk_command *command);

#endif
