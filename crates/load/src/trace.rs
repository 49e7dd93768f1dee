// SPDX-License-Identifier: Apache-2.0
//! What was issued, for tests of the mix: per thread every operation with its file and bytes.
