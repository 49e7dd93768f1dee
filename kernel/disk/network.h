/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STRATA_NETWORK_H
#define STRATA_NETWORK_H

#include "model.h"

struct network_config {
	u64 placeholder;
};

#endif
