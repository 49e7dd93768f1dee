# SPDX-License-Identifier: Apache-2.0
"""The options of fio that a study may give: they describe a load.

None of them names a file, a device, a program, a host, a user or a control group. Options that change what
fio prints, or when it ends, are left out as well: metrics are read from its output, and the length of the
window is a key of the workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from strata.model.allowed import INTEGER, SIZE, SWITCH, Form, Forms, form, named, one_of, option_text

# From 512 bytes to less than 2 GiB: smaller blocks are none, and larger ones are no requests.
_BLOCK: Final = (
    r"(?:(?:51[2-9]|5[2-9]\d|[6-9]\d\d|[1-9]\d{3,8})[bB]?|[1-9]\d{0,5}[kK](?:[iI]?[bB])?"
    r"|[1-9]\d{0,2}[mM](?:[iI]?[bB])?|1[gG](?:[iI]?[bB])?)"
)
_PERCENT: Final = r"(?:100|[1-9]?\d)"
_NUMBER: Final = r"\d{1,4}(?:\.\d{1,6})?"
_SPLIT: Final = rf"{_BLOCK}(?:/{_PERCENT}?)?(?::{_BLOCK}(?:/{_PERCENT}?)?)*"
# A zone without a size takes its part of what the others leave.
_ZONES: Final = rf"{_PERCENT}/{_PERCENT}?(?::{_PERCENT}/{_PERCENT}?)*"
_ZONES_ABS: Final = rf"{_PERCENT}/\d{{1,12}}[kKmMgGtT]?(?::{_PERCENT}/\d{{1,12}}[kKmMgGtT]?)*"
_RATE: Final = r"\d{1,15}(?:[kKmMgG](?:[iI]?[bB])?)?"


def _by_direction(pattern: str, meaning: str) -> Form:
    """One value, or one each for reads, writes and trims."""
    return form(f"(?:{pattern})(?:,(?:{pattern})){{0,2}}", meaning)


def _from_1_to(digits: int) -> Form:
    return form(rf"[1-9]\d{{0,{digits - 1}}}", f"a whole number from 1 to {'9' * digits}")


_SMALL: Final = form(r"\d{1,6}", "a whole number up to 999999")
_SHARE: Final = form(_PERCENT, "a percentage from 0 to 100")
_TIME: Final = form(r"\d{1,9}(us|ms|s)?", "a time such as 500us")
_DIRECTION: Final = form(
    r"(read|write|trim|randread|randwrite|randtrim|rw|readwrite|randrw|trimwrite|randtrimwrite)"
    r"(:\d{1,6}([kKmMgG])?)?",
    "a direction such as read, randwrite or randrw",
)
_BLOCKS: Final = _by_direction(_BLOCK, "a size from 512 to 1g, such as 4k")
_RANGES: Final = _by_direction(f"{_BLOCK}-{_BLOCK}", "sizes from 512 to 1g, such as 4k-64k")
_RATES: Final = _by_direction(_RATE, "bytes a second such as 10m")
_COUNTS: Final = _by_direction(r"\d{1,9}", "a whole number up to 999999999")
_PATTERN: Final = form(r"0x[0-9a-fA-F]{2,1024}|\d{1,10}", "a number such as 0xdeadbeef")
_CHECKSUM: Final = one_of(
    *("0", "md5", "crc7", "crc16", "crc32", "crc32c", "crc32c-intel", "crc64", "xxhash", "sha1"),
    *("sha256", "sha512", "sha3-224", "sha3-256", "sha3-384", "sha3-512", "pattern"),
)

OPTIONS: Final[Forms] = {
    **named("rw readwrite", _DIRECTION),
    "rw_sequencer": one_of("sequential", "identical"),
    **named("bs blocksize ba blockalign offset_align buffer_compress_chunk", _BLOCKS),
    **named("bsrange blocksize_range", _RANGES),
    "bssplit": form(rf"(?:{_SPLIT})(?:,(?:{_SPLIT})){{0,2}}", "sizes and percentages such as 4k/60:64k/40"),
    "ioengine": one_of(
        *("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap", "null")
    ),
    **named(
        "iodepth iodepth_batch iodepth_batch_submit iodepth_batch_complete_min iodepth_batch_complete "
        "iodepth_batch_complete_max iodepth_low",
        _from_1_to(4),
    ),
    "numjobs": _from_1_to(3),
    "io_submit_mode": one_of("inline", "offload"),
    **named(
        "direct buffered atomic invalidate serialize_overlap norandommap softrandommap bs_unaligned "
        "blocksize_unaligned bs_is_seq_rand end_fsync fsync_on_close pre_read zero_buffers refill_buffers "
        "scramble_buffers dedupe_global do_verify verify_fatal experimental_verify trim_verify_zero "
        "rate_ignore_thinktime hipri fixedbufs registerfiles sqthread_poll nonvectored uncached nowait "
        "userspace_reap latency_run overwrite file_append create_on_open",
        SWITCH,
    ),
    "fallocate": one_of("none", "native", "posix", "keep"),
    **named("fsync fdatasync write_barrier force_async rate_cycle", _SMALL),
    "sync_file_range": form(
        r"(wait_before|write|wait_after)(,(wait_before|write|wait_after)){0,2}:\d{1,6}", "such as write:8"
    ),
    "sync": one_of("0", "1", "none", "sync", "dsync"),
    "write_hint": one_of("none", "short", "medium", "long", "extreme"),
    "fadvise_hint": one_of("0", "1", "random", "sequential"),
    **named("rate rate_min", _RATES),
    **named("rate_iops rate_iops_min", _COUNTS),
    "rate_process": one_of("linear", "poisson"),
    **named("thinktime thinktime_spin thinktime_iotime latency_target latency_window max_latency", _TIME),
    "thinktime_blocks": _from_1_to(6),
    "thinktime_blocks_type": one_of("complete", "issue"),
    "latency_percentile": form(r"(100|\d{1,2}(\.\d{1,6})?)", "a percentage such as 99.9"),
    **named(
        "rwmixread rwmixwrite buffer_compress_percentage dedupe_percentage dedupe_working_set_percentage "
        "trim_percentage",
        _SHARE,
    ),
    "percentage_random": _by_direction(_PERCENT, "a percentage from 0 to 100"),
    "random_distribution": _by_direction(
        rf"random|(?:zipf|pareto|normal):{_NUMBER}(?::{_NUMBER})?|zoned:{_ZONES}|zoned_abs:{_ZONES_ABS}",
        "random, zipf:1.2, pareto:0.9, normal:10 or zoned:60/10:40/90",
    ),
    "random_generator": one_of("tausworthe", "tausworthe64", "lfsr"),
    **named(
        "offset offset_increment",
        form(rf"\d{{1,15}}(?:[kKmMgGtT](?:[iI]?[bB])?)?|{_PERCENT}%", "a size such as 64k, or 20%"),
    ),
    "number_ios": form(r"[1-9]\d{0,17}", "a whole number above 0"),
    "zonemode": one_of("none", "strided"),
    **named("zonesize zonerange zoneskip", SIZE),
    **named("buffer_pattern verify_pattern", _PATTERN),
    "dedupe_mode": one_of("repeat", "working_set"),
    "verify": _CHECKSUM,
    "verify_interval": form(_BLOCK, "a size from 512 to 1g"),
    "verify_offset": form(r"[4-9]\d|[1-9]\d{2,5}", "a number of bytes from 40 on"),
    "verify_async": form(r"\d{1,3}", "a whole number up to 999"),
    **named("verify_backlog verify_backlog_batch trim_backlog trim_backlog_batch", INTEGER),
    **named("iomem_align mem_align", form(r"(512|1024|2048|4096|4k)", "512 to 4096")),
    "prio": form(r"[0-7]", "0 to 7"),
    "prioclass": one_of("2", "3"),
}
"""fio's options by their whole names, with aliases."""

_SIZES: Final = re.compile(r"(\d+)([kmg]?)", re.IGNORECASE)
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SHARES: Final = re.compile(r"/\d*")


_OWNED: Final = {
    option: remedy
    for options, remedy in (
        ("runtime timeout time_based", 'write duration = "60s" beside it instead'),
        ("ramp_time", 'write warmup = "10s" beside it instead; it is a run of its own'),
        ("size filesize io_size io_limit", 'write size = "2GiB" beside it instead'),
        (
            "filename directory filename_format nrfiles openfiles opendir unlink create_only",
            "the workload has one file on the measured stack: leave it out",
        ),
        (
            "output output_format minimal append_terse terse_version eta eta_newline status_interval "
            "group_reporting lat_percentiles clat_percentiles slat_percentiles percentile_list disable_lat "
            "gtod_reduce name section thread",
            "the metrics are read from fio's output. Strata gives it itself: leave it out",
        ),
        (
            "write_bw_log write_lat_log write_iops_log write_hist_log write_iolog bandwidth_log aux_path "
            "verify_state_save verify_state_load",
            "a trial neither takes such files from the machine nor leaves them there: leave it out",
        ),
        (
            "clocksource gtod_cpu",
            "every clock shows virtual time in the lab, clock_gettime with the least work. Strata gives it "
            "itself: leave it out",
        ),
        (
            "randseed randrepeat allrandrepeat random_generator_seed use_os_rand",
            "it derives from the trial's seed: leave it out",
        ),
        (
            "client server daemonize remote_config trigger trigger_file exec_prerun exec_postrun profile "
            "showcmd cmdhelp parse_only idle_prof max_jobs",
            "it does not go with a step of a plan: leave it out",
        ),
    )
    for option in options.split()
}


def owned(name: str) -> str | None:
    """Why an option cannot be given, or None: fio takes any beginning of an option's name for the option."""
    plain = name.replace("-", "_")
    if name in OPTIONS or not plain:
        return None
    return next((remedy for option, remedy in _OWNED.items() if option.startswith(plain)), None)


def block_sizes_bytes(options: Mapping[str, object]) -> list[int]:
    """The sizes of blocks that options name, whose forms have been checked; fio's own without any."""
    text = ",".join(
        _SHARES.sub("", str(options[name]))
        for name in ("bs", "blocksize", "bsrange", "blocksize_range", "bssplit")
        if name in options
    )
    return [int(n) * _FACTORS[unit.lower()] for n, unit in _SIZES.findall(text)] or [4096]


def buffer_bytes(options: Mapping[str, object]) -> int:
    """The memory that fio sets aside for the blocks in flight, by options whose forms have been checked."""
    iodepth, numjobs = (int(option_text(options.get(name, 1))) for name in ("iodepth", "numjobs"))
    return max(block_sizes_bytes(options)) * iodepth * numjobs
