/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STRATA_MEDIUM_H
#define STRATA_MEDIUM_H
#include "blocks.h"
#endif
