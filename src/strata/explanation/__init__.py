# SPDX-License-Identifier: Apache-2.0
"""Why a trial took its time: the disks' time by kind of request and part of the mechanism."""
