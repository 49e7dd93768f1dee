/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STRATA_FLASH_H
#define STRATA_FLASH_H

#include "model.h"

struct flash_config {
	u64 placeholder;
};

#endif
