# SPDX-License-Identifier: Apache-2.0
"""fio with a measured window that ends early: its report of each second, as the interval that was added."""

from __future__ import annotations

from typing import Final

from strata.model.step import Step, Until, literal
from strata.model.workload import WorkloadContext

# fio ends by SIGINT, but with status 128. Each report counts from the window's begin. The last one is the
# result; its interval is not whole. Requests are read, write and trim; of a load that syncs, the syncs.
# Bins of 0.5 %. The status is fio's, unless it ended by itself or was asked to: then that of its reports.
_TELLING: Final = literal(
    r"""exec 3<&0
{ sh -c 'echo $$ > "$0"; exec "$@"' "$0" "$@" <&3; echo $? > "$0.status"; } | mawk -W interactive '
/^\{$/ { tell(); lines = 0; begun = 1 }
{ report[++lines] = $0 }
/^      "(read|write|trim|sync)" : \{/ { part = $1 }
/^        "lat_ns" : \{/ { is_latency = 1 }
/^          "bins" : \{/ { in_bins = is_latency; next }
/^          \}/ { in_bins = 0 }
/^        \}/ { is_latency = 0 }
/^      "error" : [1-9]/ { failed = 1 }
in_bins && !syncs && part == "\"sync\"" { split("", now); split("", before); syncs = 1 }
in_bins && syncs == (part == "\"sync\"") { now[int(log(substr($1, 2) + 1) * 200)] += $3 }
END { for (line = 1; line <= lines; line++) print report[line]; exit failed || !begun }
function tell(   count, bin, left) {
    if (!lines) return
    for (bin in now) count += now[bin] - before[bin]
    bin = 0
    for (left = count * 0.99; left > 0; bin++) left -= now[bin] - before[bin]
    printf "strata-interval %d %.0f\n", count, count ? exp((bin - 0.5) / 200) : 0 > "/dev/stderr"
    split("", before)
    for (bin in now) before[bin] = now[bin]
    split("", now)
}' &
trap 'asked=1; kill -INT "$(cat "$0")"' INT
wait $! || wait $!
told=$? status=$(cat "$0.status")
case $asked:$status in :0 | 1:0 | 1:128) exit $told ;; *) exit ${status:-1} ;; esac
"""
)


def telling(step: Step, until: Until | None, context: WorkloadContext) -> Step:
    """The step of one of fio's measured windows, which ends once it is known; as it is without ``until``."""
    if until is None:
        return step
    told = (step.argv[0], "--status-interval=1", *step.argv[1:])
    argv = ("sh", "-c", _TELLING, f"{context.scratch_path}/{step.id}.pid", *told)
    return step.model_copy(update={"argv": argv, "until": until})
