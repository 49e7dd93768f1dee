// SPDX-License-Identifier: GPL-2.0
/*
 * The keys of a flash drive.
 *
 *     dies, channels, page_bytes=N
 *     mapping_unit_bytes=N       optional, 4096
 *     pages_per_block=N          of the drive's erase blocks
 *     spare_ppm=N                over-provisioning: cells above the capacity, in millionths of it
 *     read_ns, program_ns=A,B..  1 to 4 page types, which take turns along a block
 *     erase_ns=N
 *     read_spread_ppm, read_retry_ppm, read_retry_again_ppm, read_retry_ns=N     optional: tails of reads (flash.h)
 *     refresh_page_ns, housekeeping_interval_ns, housekeeping_ns=N               optional: work that nobody asked for (flash.h)
 *     cleaning_burst_bytes=N     optional, 0: each page of the host is cleaned for
 *     program_suspend_ns, erase_suspend_ns=N     optional; 0: reads wait for the end
 *     link_bytes_per_s, command_ns, interface_read_ns, interface_write_ns, flush_ns, buffer_bytes=N
 *     link_write_bytes_per_s=N   optional; 0: link_bytes_per_s
 *     channel_bytes_per_s=N      optional; 0: never the limit
 *     link_duplex, flush_queued=0|1              optional, 0: SATA
 *     slc_bytes, slc_program_ns, slc_idle_ns=N   optional, 0
 *     in_place=0|1               optional
 *     precondition=0|1|2|3       optional: fresh, steady, filled, used
 *     used_filled_ppm, used_scattered_ppm, used_collected_ppm=N  optional: the used state (ftl.h: struct ftl_age)
 */
#include "flash_state.h"

static bool read_types(const char *at, const char *end, u64 *values, u32 *count)
{
	u32 i;

	if (!disk_read_numbers(at, end, values, FLASH_PAGE_TYPES_MAX, count))
		return false;
	for (i = 0; i < *count; i++)
		if (!values[i] || values[i] > DISK_TIME_LIMIT_NS)
			return false;
	return true;
}

static bool read_read_ns(struct disk_config *config, const char *at, const char *end)
{
	return read_types(at, end, config->flash.read_ns, &config->flash.read_types);
}

static bool read_program_ns(struct disk_config *config, const char *at, const char *end)
{
	return read_types(at, end, config->flash.program_ns, &config->flash.program_types);
}

#define OPTIONAL(key, key_kind, field, high) \
	{ .name = key, .kind = key_kind, .offset = offsetof(struct disk_config, flash.field), .maximum = high }

const struct disk_key flash_keys[] = {
	DISK_KEY_U32("dies", flash.dies, 1, FLASH_DIES_MAX),
	DISK_KEY_U32("channels", flash.channels, 1, FLASH_CHANNELS_MAX),
	DISK_KEY_U32("page_bytes", flash.page_bytes, 512, 1 << 20),
	OPTIONAL("mapping_unit_bytes", KEY_U32, mapping_unit_bytes, 65536),
	DISK_KEY_U32("pages_per_block", flash.pages_per_block, 1, 65536),
	DISK_KEY_U32("spare_ppm", flash.spare_ppm, 1000, 10000000),
	DISK_KEY_READ("read_ns", read_read_ns, true),
	DISK_KEY_READ("program_ns", read_program_ns, true),
	DISK_KEY_U64("erase_ns", flash.erase_ns, 0, DISK_TIME_LIMIT_NS),
	OPTIONAL("read_spread_ppm", KEY_U32, read_spread_ppm, 1000000),
	OPTIONAL("read_retry_ppm", KEY_U32, read_retry_ppm, 1000000),
	OPTIONAL("read_retry_again_ppm", KEY_U32, read_retry_again_ppm, 1000000),
	OPTIONAL("read_retry_ns", KEY_U64, read_retry_ns, DISK_TIME_LIMIT_NS / FLASH_RETRIES_MAX),
	OPTIONAL("refresh_page_ns", KEY_U64, refresh_page_ns, 1ULL << 60),
	OPTIONAL("housekeeping_interval_ns", KEY_U64, housekeeping_interval_ns, DISK_TIME_LIMIT_NS),
	OPTIONAL("housekeeping_ns", KEY_U64, housekeeping_ns, DISK_TIME_LIMIT_NS),
	OPTIONAL("cleaning_burst_bytes", KEY_U64, cleaning_burst_bytes, 1ULL << 30),
	OPTIONAL("program_suspend_ns", KEY_U64, suspend.program_ns, DISK_TIME_LIMIT_NS),
	OPTIONAL("erase_suspend_ns", KEY_U64, suspend.erase_ns, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("link_bytes_per_s", flash.link_bytes_per_s, 1000000, 1ULL << 40),
	OPTIONAL("link_write_bytes_per_s", KEY_U64, link_write_bytes_per_s, 1ULL << 40),
	OPTIONAL("link_duplex", KEY_BOOL, link_duplex, 1),
	OPTIONAL("channel_bytes_per_s", KEY_U64, channel_bytes_per_s, 1ULL << 40),
	DISK_KEY_U64("command_ns", flash.command_ns, 0, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("interface_read_ns", flash.interface_read_ns, 0, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("interface_write_ns", flash.interface_write_ns, 0, DISK_TIME_LIMIT_NS),
	DISK_KEY_U64("flush_ns", flash.flush_ns, 0, DISK_TIME_LIMIT_NS),
	OPTIONAL("flush_queued", KEY_BOOL, flush_queued, 1),
	DISK_KEY_U64("buffer_bytes", flash.buffer_bytes, 4096, 1ULL << 36),
	OPTIONAL("slc_bytes", KEY_U64, slc_bytes, 1ULL << 50),
	OPTIONAL("slc_program_ns", KEY_U64, slc_program_ns, DISK_TIME_LIMIT_NS),
	OPTIONAL("slc_idle_ns", KEY_U64, slc_idle_ns, DISK_TIME_LIMIT_NS),
	OPTIONAL("in_place", KEY_BOOL, in_place, 1),
	OPTIONAL("precondition", KEY_U32, precondition, FLASH_PRECONDITIONS - 1),
	OPTIONAL("used_filled_ppm", KEY_U32, used.filled_ppm, 1000000),
	OPTIONAL("used_scattered_ppm", KEY_U32, used.scattered_ppm, 1000000),
	OPTIONAL("used_collected_ppm", KEY_U32, used.collected_ppm, 1000000),
	{ .name = NULL },
};

static const char *check_pages(struct flash_config *flash)
{
	u32 unit = flash->mapping_unit_bytes;

	if (unit < 512 || unit & (unit - 1) || flash->page_bytes & (flash->page_bytes - 1))
		return "page_bytes and mapping_unit_bytes must be powers of two";
	if (flash->page_bytes < unit || flash->page_bytes / unit > FLASH_PAGE_UNITS_MAX)
		return "a page must hold 1 to 64 mapping units";
	if (flash->in_place && flash->page_bytes != unit)
		return "in_place needs pages of one mapping unit";
	if (flash->buffer_bytes < 2 * flash->page_bytes)
		return "buffer_bytes must be two pages or more";
	if (flash->channels > flash->dies)
		return "there are more channels than dies";
	if (flash->housekeeping_ns > flash->housekeeping_interval_ns / 2)
		return "housekeeping_ns must be at most half of housekeeping_interval_ns";
	if (flash->slc_bytes && !flash->slc_program_ns)
		return "slc_bytes needs slc_program_ns";
	return NULL;
}

const char *flash_config_check(struct disk_config *config)
{
	struct flash_config *flash = &config->flash;
	const char *problem;
	u64 units;

	if (!flash->mapping_unit_bytes)
		flash->mapping_unit_bytes = 4096;
	if (!flash->link_write_bytes_per_s)
		flash->link_write_bytes_per_s = flash->link_bytes_per_s;
	problem = check_pages(flash);
	if (problem)
		return problem;
	units = flash->mapping_unit_bytes / STRATA_SECTOR_BYTES;
	units = (config->capacity_sectors + units - 1) / units;
	if (!ftl_size(&flash->size, units, flash->page_bytes / flash->mapping_unit_bytes, flash->dies, flash->pages_per_block,
		      flash->spare_ppm) && !flash->in_place)
		return "too many mapping units for addresses of 32 bits";
	return flash->in_place && units >= FTL_NONE ? "too many mapping units for addresses of 32 bits" : NULL;
}
