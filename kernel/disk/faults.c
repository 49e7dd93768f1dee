// SPDX-License-Identifier: GPL-2.0
/* Faults in time; faults of the content are in content.c. Rules in faults.h. */
#include "disk.h"

static const struct {
	const char *name;
	u32 numbers;
} fault_kinds[FAULT_KINDS] = {
	{ "unreadable", 2 }, { "corrupt", 3 }, { "gone", 1 }, { "slow", 3 }, { "ignores-flush", 0 },
};

static bool place_numbers(struct disk_fault *fault, const u64 *value)
{
	switch (fault->kind) {
	case FAULT_UNREADABLE:
	case FAULT_CORRUPT:
		fault->first_sector = value[0];
		fault->sectors = value[1];
		fault->from_ns = fault->kind == FAULT_CORRUPT ? value[2] : 0;
		return fault->sectors > 0;
	case FAULT_GONE:
		fault->from_ns = value[0];
		return true;
	case FAULT_SLOW:
		fault->from_ns = value[0];
		fault->until_ns = value[1];
		fault->percent = value[2];
		return fault->percent >= 100 && fault->percent <= 1000000;
	default:
		return true;
	}
}

/* Returns NULL, or a description of the error. */
static const char *read_fault(struct disk_fault *fault, const char *at, const char *end)
{
	const char *comma = at;
	u64 value[3] = { 0, 0, 0 };
	u32 kind, count = 0;

	while (comma < end && *comma != ',')
		comma++;
	for (kind = 0; kind < FAULT_KINDS; kind++)
		if ((size_t)(comma - at) == strlen(fault_kinds[kind].name) && !memcmp(at, fault_kinds[kind].name, (size_t)(comma - at)))
			break;
	if (kind == FAULT_KINDS)
		return "unknown kind of fault";
	if (comma < end && !disk_read_numbers(comma + 1, end, value, 3, &count))
		return "what follows the kind is not up to three numbers, separated by commas";
	if (count != fault_kinds[kind].numbers)
		return "another number of arguments than this kind of fault has";
	memset(fault, 0, sizeof(*fault));
	fault->kind = (enum disk_fault_kind)kind;
	return place_numbers(fault, value) ? NULL : "no sectors, or not between 100 and 1000000 percent";
}

bool disk_faults_read(struct disk_config *config, const char *at, const char *end)
{
	struct disk_faults *faults = &config->faults;
	struct disk_fault *fault = &faults->fault[faults->count];

	if (faults->count == DISK_FAULTS_LIMIT || read_fault(fault, at, end))
		return false;
	faults->ignores_flush = faults->ignores_flush || fault->kind == FAULT_IGNORES_FLUSH;
	faults->count++;
	return true;
}

const char *disk_faults_read_now(struct disk_config *config, u64 now_ns, const char *at, const char *end)
{
	struct disk_faults *faults = &config->faults;
	struct disk_fault *fault = &faults->fault[faults->count];
	const char *wrong;

	if (faults->count == DISK_FAULTS_LIMIT)
		return "the disk has as many faults as it can have";
	wrong = read_fault(fault, at, end);
	if (wrong)
		return wrong;
	if (fault->sectors > config->capacity_sectors || fault->first_sector > config->capacity_sectors - fault->sectors)
		return "the disk has no such sectors";
	fault->from_ns += now_ns;	/* no overflow: a number is at most U64_MAX / 2 */
	if (fault->until_ns)
		fault->until_ns += now_ns;
	return NULL;
}

/* More than two years: nothing waits longer, and no sum of times overflows. */
#define STRETCH_LIMIT_NS (1ULL << 56)

void disk_faults_stretch(const struct disk *disk, struct disk_command *command)
{
	const struct disk_faults *faults = &disk->config.faults;
	u64 taken = command->complete_ns - command->arrival_ns, percent = 0, more;
	u32 i;

	for (i = 0; i < faults->count; i++) {
		const struct disk_fault *fault = &faults->fault[i];

		if (fault->kind == FAULT_SLOW && command->arrival_ns >= fault->from_ns &&
		    (!fault->until_ns || command->arrival_ns < fault->until_ns))
			percent += fault->percent - 100;
	}
	if (!percent)
		return;
	more = taken > STRETCH_LIMIT_NS * 100 / percent ? STRETCH_LIMIT_NS : taken * percent / 100;
	command->parts.fault_ns += more;
	command->complete_ns += more;
}
