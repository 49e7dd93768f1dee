# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from execution_factory import TEXT, fake_runner, run_tiny
from results_factory import EventLog, S, good_log, metrics_of, plan_of, record_of

from strata.model.metric import Metric
from strata.model.step import Step
from strata.model.trial import TrialKey
from strata.plan.catalogue import catalogue
from strata.results.failure_reasons import console_failures
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder

PLAN = plan_of("btrfs", "oltp", 1)


def judged(
    tmp_path: Path, log: EventLog, console: str = "", metrics: list[Metric] | None = None
) -> ResultRecord:
    kernel = tmp_path / "console.log"
    kernel.write_text(console)
    return record_of(PLAN, log.written(tmp_path), metrics, kernel)


def reasons(record: ResultRecord) -> str:
    assert not record.validity.valid
    return "\n".join(record.validity.reasons)


def test_a_failed_step_is_named_with_the_first_line_of_a_long_message_and_the_kernels_last_line(
    tmp_path: Path,
) -> None:
    """mkfs.xfs names the cause before a usage of 3,000 characters, mount(8) leaves it to the kernel."""
    log = EventLog(PLAN)
    cause = "Invalid value 512k for -l su option. Value is too large."
    log.step(
        "mkfs", S, "failed", stderr=f"{cause}\nUsage: mkfs.xfs\n" + "/* an option */ [-x size=num]\n" * 90
    )
    log.finish("failed", failed_step="mkfs")
    console = (
        "Run /init as init process\nepollctl add err fd 10, Operation not permitted\n"
        "XFS (sda): Mounting V5 Filesystem 5e\nXFS (sda): invalid logbufs value: 99 [not 2-8]\n"
        "XFS (sda): Unmounting Filesystem 5e\nreboot: Power down\n"
    )

    said = judged(tmp_path, log, console, metrics=[]).validity.reasons[0]

    assert f"failed with exit code 1; it said: {cause}\n…\n" in said
    assert len(said) < 700
    assert said.endswith("; the kernel said last: XFS (sda): invalid logbufs value: 99 [not 2-8]")


def ended(load: str = "ok", *, after_s: int = 60, **said: str) -> EventLog:
    """A trial whose load ended so."""
    log = EventLog(PLAN)
    log.step("mkfs", S)
    log.step("load", after_s * S, load, **said)
    log.finish(*(("ok",) if load == "ok" else ("failed", "load")))
    return log


def killed() -> EventLog:
    log = EventLog(PLAN)
    log.step("mkfs", S)
    log.add("step_start", step="load", phase="measure", argv=["pgbench"])
    return log


# The events, the kernel's messages, the metrics, and what is said.
INVALID: tuple[tuple[EventLog, str, list[Metric] | None, str], ...] = (
    (ended("timeout", after_s=90), "", [], "step load"),
    (ended("timeout", after_s=90), "", [], "took longer than its time limit of 90 s"),
    (ended(stderr="ERROR: could not extend file: No space left on device\n"), "", None, "the stack is full"),
    (good_log(PLAN, 75), "[   12.3] strata: disk sda: host write failed: -28\n", None, "write failed: -28"),
    (killed(), "", [], "the agent was killed during step load"),
    (good_log(PLAN, 75), "", [], "yielded no metrics"),
    (good_log(plan_of("xfs", "oltp", 2), 300), "", None, "carried out another plan than this trial's"),
)


def test_what_makes_a_result_invalid_is_named(tmp_path: Path) -> None:
    found = [
        (said, reasons(judged(tmp_path, log, console, metrics))) for log, console, metrics, said in INVALID
    ]

    (tmp_path / "events.jsonl").write_text("")
    never = reasons(record_of(PLAN, tmp_path / "events.jsonl", []))
    found += [("no events from the agent: the lab did not boot, or the agent could not be started", never)]
    assert not [each for each in found if each[0] not in each[1]]


def test_a_layer_without_room_for_a_rebuild_is_no_full_stack(tmp_path: Path) -> None:
    rebuild = Step(id="rebuild", phase="alter", title="Replace the lost disk", argv=("btrfs",))
    plan = PLAN.model_copy(update={"steps": (*PLAN.steps, rebuild)})
    log = EventLog(plan)
    log.step("mkfs", S)
    log.step("rebuild", S, stderr="ERROR: ioctl(DEV_REPLACE_START) failed: No space left on device\n")
    log.step("load", 60 * S)
    log.finish()

    said = reasons(record_of(plan, log.written(tmp_path), None, tmp_path / "none"))

    assert "a layer finds no room for it" in said
    assert "the stack is full" not in said


# Messages of each layer as the kernel's source formats them, with a prefix of `dmesg`.
TROUBLE = [
    ("ext4", "EXT4-fs error (device sda): ext4_lookup:1855: inode #2: comm x: deleted inode referenced: 12"),
    ("ext2", "EXT4-fs (sda): Remounting filesystem read-only"),
    ("ext3", "JBD2: I/O error when updating journal superblock for sda-8."),
    ("btrfs", "BTRFS error (device sda): parent transid verify failed"),
    ("btrfs", "BTRFS warning (device sda): csum failed root 5 ino 257 off 0 csum 0x98f9 expected csum 0x2f"),
    ("xfs", "XFS (sda): Metadata corruption detected at xfs_agf_read_verify"),
    ("xfs", "XFS (sda): Metadata CRC error detected at xfs_agi_read_verify+0xce/0x120, xfs_agi block 0x2"),
    ("f2fs", "F2FS-fs (sda): inconsistent node block, node_type:0, nid:4, node_footer[nid:0,ino:0]"),
    (
        "f2fs",
        "F2FS-fs (sda): sanity_check_inode: corrupted inode i_blocks iblocks=1, run fsck to fix.",
    ),
    ("zpool", "WARNING: Pool 'strata' has encountered an uncorrectable I/O failure and has been suspended."),
    ("zpool", "zio pool=strata vdev=/dev/sda error=5 type=1 offset=270336 size=8192 flags=721601"),
    ("md", "md/raid1:md127: sda: unrecoverable I/O read error for block 128"),
    ("md", "md127: mismatch sector in range 8-16"),
    ("lvm", "md/raid:mdX: Disk failure on dm-3, disabling device."),
    ("lvm", "device-mapper: snapshots: Invalidating snapshot: Unable to allocate exception."),
    (
        "lvm-thin",
        "device-mapper: thin: 253:2: metadata operation 'commit' failed: error = -5",
    ),
    ("lvm-thin", "device-mapper: block manager: btree_node validator check failed for block 15"),
    ("dm-cache", "device-mapper: cache: 253:2: could not write cache metadata"),
    ("bcache", "bcache: bch_count_io_errors() sdb: IO error on reading from cache, recovering."),
    ("bcache", "bcache: bch_cache_set_error() error on 6f: bad btree header at bucket 8, disabling caching"),
    ("integrity", "device-mapper: integrity: sda: Checksum failed at sector 0x40"),
    ("qcow2", "block nbd0: Receive control failed (result -32)"),
    ("raw", "block nbd0: Other side returned error (5)"),
]
HARMLESS = [
    ("ext4", "EXT4-fs (sda): mounted filesystem 5e r/w with ordered data mode. Quota mode: none."),
    ("xfs", "XFS (sda): Ending clean mount"),
    ("btrfs", "BTRFS info (device sda): using crc32c (crc32c-lib) checksum algorithm"),
    ("f2fs", "F2FS-fs (sda): Mounted with checkpoint version = 3bf5"),
    ("md", "md/raid1:md127: active with 2 out of 2 mirrors"),
    ("md", "md: resync of RAID array md127"),
    ("lvm-thin", "device-mapper: thin: 253:2: reached low water mark for data device: sending event."),
    ("bcache", "bcache: bch_cached_dev_attach() Caching sda as bcache0 on set 6f"),
    ("qcow2", "block nbd0: NBD_DISCONNECT"),
    ("qcow2", "block nbd0: shutting down sockets"),
]


def test_what_the_kernel_says_of_a_layer_in_trouble_counts_in_its_stacks(tmp_path: Path) -> None:
    for counts in (True, False):
        for layer, line in (*TROUBLE, *HARMLESS):
            console = tmp_path / "console.log"
            console.write_text(f"<3>[    1.00] {line}\n")
            logs = [catalogue().layers[layer].kernel_log] if counts else []
            expected = counts and (layer, line) in TROUBLE
            assert console_failures(console, logs) == ([f"the kernel said: {line}"] if expected else [])


def test_what_the_kernel_says_of_the_machine_in_trouble_counts_in_every_stack(tmp_path: Path) -> None:
    for line in (
        "I/O error, dev sda, sector 2048 op 0x1:(WRITE)",
        "Kernel panic - not syncing: Attempted to kill init!",
        "Memory cgroup out of memory: Killed process 12 (postgres) total-vm:12kB",
        "BUG: Bad page map in process incusd  pte:8000000012345067 pmd:12346067",
        "BUG: Bad rss-counter state mm:000000001c0de5a5 type:MM_FILEPAGES val:3 Comm:incusd Pid:93",
        "BUG kmalloc-64 (Not tainted): Redzone overwritten",
        "kernel BUG at mm/slub.c:565!",
        "BUG: failure at fs/ext4/inode.c:2817/ext4_do_writepages()!",
        "list_del corruption. prev->next should be 0000000060f3c010, but was 0000000000000000.",
        "refcount_t: underflow; use-after-free.",
        "kmem_cache_free: Wrong slab cache. kioctx but object is from mm_struct",
        "Trying to vfree() nonexistent vm area (000000006a3c1000)",
        "kthreadd: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_ZERO), nodemask=(null)",
        "postgres: vmalloc error: size 65536, failed to allocate pages, mode:0xdc0(GFP_KERNEL|__GFP_ZERO)",
        "Oops: general protection fault, maybe for address 0x8",
        "Unexpectedly lost MM child! Affected tasks will segfault.",
    ):
        assert line in reasons(judged(tmp_path, good_log(PLAN, 75), f"<3>[    1.00] {line}\n"))


def test_other_messages_of_the_kernel_leave_a_result_valid(tmp_path: Path) -> None:
    for line in (
        "WARNING: fs/btrfs/space-info.c:201 at btrfs_clear_space_info_full+0x20/0x40, CPU#0: btrfs/77",
        "fio[77]: segfault at 10 ip 00000000100012ab sp 00000000407fe000 error 4",
        "DEBUG: 3 pages",
    ):
        console = tmp_path / "console.log"
        console.write_text(f"<4>[    1.00] {line}\n")
        assert console_failures(console) == []


def test_what_the_kernel_says_of_a_disk_that_the_plan_lets_fail_is_no_trouble(tmp_path: Path) -> None:
    for layer, line in (
        ("ext4", "I/O error, dev sdb, sector 2048 op 0x1:(WRITE)"),
        ("btrfs", "BTRFS error (device sda): bdev /dev/sdb errs: wr 2, rd 0, flush 1, corrupt 0, gen 0"),
        ("btrfs", "BTRFS error (device sda): error writing primary super block to device 2"),
        ("md", "md/raid10:md127: Disk failure on sdb, disabling device."),
        ("lvm", "md: super_written gets error=-5"),
        ("zpool", "zio pool=strata vdev=/dev/sdb error=5 type=2 offset=270336 size=8192 flags=721601"),
    ):
        console = tmp_path / "console.log"
        console.write_text(f"[    1.00] {line}\n")
        logs = [catalogue().layers[layer].kernel_log]
        assert console_failures(console, logs, disk_lost=True) == []
        assert console_failures(console, logs) == [f"the kernel said: {line}"]


def test_a_metric_that_is_no_number_is_left_out_and_said_so(tmp_path: Path) -> None:
    broken = Metric(name="iops", value=float("inf"), unit="1/s", better="higher")

    record = judged(tmp_path, good_log(PLAN, 75), metrics=[broken, *metrics_of("oltp", 75, 1)])

    assert "iops is not a number" in reasons(record)
    assert record.metric("iops") is None


def test_a_service_that_ends_by_its_stop_signal_is_no_trouble_one_that_was_killed_is(tmp_path: Path) -> None:
    def trial(stop_signal: str) -> ResultRecord:
        service = PLAN.steps[0].model_copy(update={"background": True, "stop_signal": stop_signal})
        plan = PLAN.model_copy(update={"steps": (service, PLAN.steps[1])})
        log = EventLog(plan)
        log.add("step_start", step="mkfs", phase="prepare", argv=["postgres"])
        log.step("load", 60 * S)
        log.end("mkfs", "signalled", 61 * S)
        log.finish()
        return record_of(plan, log.written(tmp_path))

    assert trial("KILL").validity.valid
    assert "was ended by signal SIGKILL" in reasons(trial("TERM"))


def test_what_the_teardown_left_behind_makes_a_result_invalid(tmp_path: Path) -> None:
    log = good_log(PLAN, 75)
    log.lines.pop()
    log.add("undo_end", step="mkfs", outcome="failed")
    log.add("agent_end", outcome="ok", failed_step=None, reason="", left_behind=["md127 on sda and sdb"])

    said = judged(tmp_path, log).validity.reasons

    assert said == (
        "step mkfs could not be undone at teardown",
        "left behind by the teardown: md127 on sda and sdb",
    )


def test_that_a_failed_step_could_not_be_undone_either_is_no_further_reason(tmp_path: Path) -> None:
    log = EventLog(PLAN)
    log.step("mkfs", S, "failed")
    log.add("undo_end", step="mkfs", outcome="failed")
    log.finish("failed", failed_step="mkfs")

    assert "undone" not in reasons(judged(tmp_path, log, metrics=[]))


def test_a_scrub_that_does_not_report_its_errors_makes_the_result_invalid_and_loses_nothing(
    tmp_path: Path,
) -> None:
    text = TEXT.replace('[stacks.ext4]\nlayers = [{ layer = "ext4" }]\n\n', "").replace(
        'layers = [{ layer = "xfs", mount = ["noatime"] }]',
        'devices = ["disk0", "disk1"]\nlayers = [{ layer = "md", level = 1 }, { layer = "xfs" }]',
    )
    text = (
        text.replace("[stacks.xfs]", '[devices.disk1]\nmodel = "wd-re4-500gb"\n\n[stacks.xfs]')
        + "scrub = true\n"
    )

    summary = run_tiny(tmp_path, fake_runner(), text=text, only="*.s1")

    ((reasons),) = summary.invalid.values()
    assert "the scrub does not report its errors" in reasons[0]
    assert ResultsFolder.open(tmp_path / "results").read_trial(TrialKey("xfs", "mix", 1)).record is not None
