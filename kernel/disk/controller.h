/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STRATA_CONTROLLER_H
#define STRATA_CONTROLLER_H

#include "model.h"

struct controller_config {
	/* Every member is like this one: the lines `member.key=value`. Allocated when the first is read; belongs to the configuration. */
	struct disk_config *member;
};

#endif
