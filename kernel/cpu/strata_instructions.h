/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_STRATA_INSTRUCTIONS_H
#define _LINUX_STRATA_INSTRUCTIONS_H

#include <linux/types.h>

struct uml_pt_regs;

/* Whether the instruction at which a program faulted is one that must not show the host, and has been carried out. */
bool strata_instruction(struct uml_pt_regs *regs);

#endif
