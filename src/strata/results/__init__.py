# SPDX-License-Identifier: Apache-2.0
"""What trials leave behind: events read, result records built, stored durably and queried."""
