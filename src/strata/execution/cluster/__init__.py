# SPDX-License-Identifier: Apache-2.0
"""Labs on a Dask cluster: `connection`, `pool` with the client's side, `worker` with the other."""
