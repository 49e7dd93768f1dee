# SPDX-License-Identifier: Apache-2.0
"""Results of trials: events read, records built, stored durably and queried."""
