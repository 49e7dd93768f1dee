# SPDX-License-Identifier: Apache-2.0
"""Why a trial took as long as it did: its disks' time, by kind of request and by part of the mechanism."""
