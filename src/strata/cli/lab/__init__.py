# SPDX-License-Identifier: Apache-2.0
"""Build, show, carry, enter, check and clean the lab.

Its parts: kernel, groups of kernel modules, root image, agent, load generator, the kernel of QEMU's
virtual machines. Modules, load generator and QEMU's kernel are also built when a study first needs them.

Examples:
    strata lab build
    strata lab show
    strata lab enter studies/quickstart.toml --stack xfs
    strata lab validate --quick
"""
