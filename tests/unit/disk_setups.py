# SPDX-License-Identifier: Apache-2.0
"""Dangerous set-ups of disks: how each is made, the path that a careless user names, and the answer."""

from __future__ import annotations

from collections.abc import Callable

from disk_machine import BY_ID, GIB, Tree

SDA = f"{BY_ID}/ata-DISK_S1"
SDB = f"{BY_ID}/ata-DISK_S2"
N1 = f"{BY_ID}/ata-DISK_N1"
IDS = "dev/disk/by-id"
NETWORK = ("nbd", "rbd", "drbd")


def made(tree: Tree, name: str, lower: str, uuid: str = "", label: str = "") -> Tree:
    files = {"dm__uuid": uuid, "dm__name": label} if name.startswith("dm-") else {}
    return tree.disk(name, "", 100 * GIB, "virtual", **files).hold(lower, name)


def mounted_above(tree: Tree) -> None:
    made(tree, "dm-0", tree.part("sda", 2), "LVM-abc", "vg-home")
    tree.mount("/dev/dm-0", "/home")


def inactive_array(tree: Tree) -> None:
    tree.write("proc/mdstat", "Personalities : [raid1]\nmd0 : inactive sda[1](S)\n      1 blocks\n")


def imported_pool(tree: Tree) -> None:
    tree.write("proc/spl/kstat/zfs/tank/state", "ONLINE\n")
    tree.pools = "tank\t1T\n\tmirror-0\t1T\n\t/dev/sda\t1T\n"


def second_of_btrfs(tree: Tree) -> None:
    tree.mount("/dev/sdb", "/srv", "btrfs", number="0:44")
    for name in ("sda", "sdb"):
        (tree.root / f"sys/fs/btrfs/u-1/devices/{name}").mkdir(parents=True)


def sibling_mounted(tree: Tree) -> None:
    tree.part("sda", 1)
    tree.mount(f"/dev/{tree.part('sda', 2)}", "/srv")


def disk_held(tree: Tree) -> None:
    tree.part("sda", 1)
    made(tree, "dm-3", "sda", "mpath-1", "mpatha")


def root_on_lvm(tree: Tree) -> None:
    made(tree, "dm-0", tree.part("sda", 2), "LVM-abc", "vg-root")
    tree.root_on("dm-0")


def root_on_array(tree: Tree) -> None:
    made(tree, "md0", tree.part("sda", 1))
    tree.root_on("md0")


def root_in_a_file(tree: Tree) -> None:
    tree.loop("loop7", "/host/root.img", 9)
    tree.root_on("loop7")
    tree.mount("/dev/sda", "/host")


def shared_file(tree: Tree) -> None:
    tree.loop("loop1", "/srv/a.img", 5)
    tree.loop("loop2", "/srv/same.img", 5)


def swap_file(tree: Tree) -> None:
    tree.loop("loop1", "/srv/a.img", 5)
    tree.swap("/srv/a.img")


def guests_file(tree: Tree) -> None:
    tree.loop("loop1", "/srv/a.img", 5)
    tree.opened("77", "/srv/a.img", "qemu-system-x86")


def behind_loop(tree: Tree) -> None:
    tree.loop("loop1", "/dev/sda", 5)


def other_namespace(tree: Tree) -> None:
    tree.mount("/dev/sda", "/inner", process="77")


def leading(name: str, target: str) -> Callable[[Tree], None]:
    def make(tree: Tree) -> None:
        tree.write("tmp/sda", "")
        tree.link(name, target)

    return make


def disk(name: str, size: int = 100 * GIB, **files: str) -> Callable[[Tree], Tree]:
    return lambda tree: tree.disk(name, "N1", size, "ata1", **files)


def twin(tree: Tree) -> None:
    tree.disk("sdc").write("sys/block/sdc/serial", "S1")


def mapped(tree: Tree) -> Tree:
    return made(tree, "dm-5", "sdb").link("dev/mapper/x", "../dm-5")


def dm_by_id(tree: Tree) -> None:
    made(tree, "dm-5", "sdb").link("dev/disk/by-id/dm-name-x", "../../dm-5")


def root_beside(tree: Tree) -> None:
    tree.part("sda", 1)
    tree.root_on(tree.part("sda", 2))


def fabrics(tree: Tree) -> None:
    """A namespace that stands on its subsystem, of which each controller is a path (nvme_core.multipath)."""
    tree.disk("nvme1n1", "N1", device__nvme1__transport="rdma", device__nvme1__serial="N1")


def iscsi(tree: Tree) -> None:
    place = tree.root / "sys/devices/platform/host3/session1/target/block"
    place.mkdir(parents=True)
    tree.disk("sdi", "N1")
    (tree.root / "sys/block/sdi").rename(place / "sdi")
    tree.link("sys/block/sdi", str(place / "sdi"))


Setup = tuple[str, Callable[[Tree], object], str, str, str]

HOLDS_ROOT = "sda holds the root filesystem (/)"
OWN_NAME = f"name it as {SDA}"
OTHER = "name another disk"
DISKS = "name the disks themselves"
FILE = "attach another file"
LIST = "name one disk as /dev/disk/by-id/"
THERE = "run the study on the machine that the disk is in"
LINKS = {
    "by-path": "names a place where a disk is plugged in",
    "by-uuid": "names a filesystem, and a copy of it has the same name",
    "by-label": "another one can have the same label",
    "by-partuuid": "names a partition",
    "by-diskseq": "anew at each start",
}

IN_USE: list[Setup] = [
    ("mounted", lambda t: t.mount("/dev/sda", "/srv"), SDA, "sda is mounted at /srv", "umount"),
    ("by-number", lambda t: t.mount("/dev/root", "/srv", number="253:32"), SDA, "sda is mounted", "umount"),
    ("partition", lambda t: t.mount(f"/dev/{t.part('sda', 1)}", "/srv"), SDA, "sda1 is mounted", "umount"),
    ("other-namespace", other_namespace, SDA, "sda is mounted at /inner", "umount"),
    ("swap", lambda t: t.swap("/dev/sda"), SDA, "sda is a swap area in use", "swapoff"),
    ("partition-swap", lambda t: t.swap(f"/dev/{t.part('sda', 3)}"), SDA, "sda3 is a swap area", "swapoff"),
    (
        "dm",
        lambda t: made(t, "dm-1", "sda", "x", "c"),
        SDA,
        "held by dm-1 (device mapper c)",
        "dmsetup remove",
    ),
    ("lvm", mounted_above, SDA, "held by dm-0 (LVM vg-home), which is mounted at /home", "vgchange -an"),
    ("luks", lambda t: made(t, "dm-1", "sda", "CRYPT-L", "s"), SDA, "dm-1 (dm-crypt s)", "cryptsetup close"),
    ("multipath", lambda t: made(t, "dm-1", "sda", "mpath-36", "m"), SDA, "by dm-1 (multipath m)", OTHER),
    ("array", lambda t: made(t, "md0", "sda"), SDA, "sda is held by the MD array md0", "mdadm --stop"),
    ("inactive-array", inactive_array, SDA, "sda belongs to the MD array md0", "mdadm --stop"),
    ("bcache", lambda t: made(t, "bcache0", "sda"), SDA, "by the bcache device bcache0", "bcache/stop"),
    ("cache", lambda t: t.write("sys/block/sda/bcache/set"), SDA, "is registered with bcache", "bcache/stop"),
    ("zfs", imported_pool, SDA, "sda belongs to an imported ZFS pool", "zpool export"),
    ("btrfs", second_of_btrfs, SDA, "sda belongs to the mounted btrfs u-1", "unmount the filesystem"),
    ("sibling-mounted", sibling_mounted, f"{SDA}-part1", "sda2 is mounted at /srv", "umount"),
    ("whole-disk-held", disk_held, f"{SDA}-part1", "sda is held by dm-3 (multipath mpatha)", OTHER),
    ("root-disk", lambda t: t.root_on("sda"), SDA, HOLDS_ROOT, "name a disk without data of yours"),
    ("root-sibling", root_beside, f"{SDA}-part1", "sda1 holds the root filesystem", "name a disk"),
    ("root-on-lvm", root_on_lvm, SDA, HOLDS_ROOT, "name a disk without data of yours"),
    ("root-on-array", root_on_array, SDA, HOLDS_ROOT, "name a disk without data of yours"),
    ("root-in-a-file", root_in_a_file, SDA, HOLDS_ROOT, "name a disk without data of yours"),
    ("behind-a-loop", behind_loop, SDA, "sda is behind the loop device loop1", "losetup --detach"),
    ("guest", lambda t: t.opened("77", "/dev/sda", "qemu"), SDA, "open in the process 77 (qemu)", "end that"),
    ("busy", lambda t: t.busy("sda"), SDA, "sda cannot be opened by one process alone", "end what holds it"),
    ("loop-shared-file", shared_file, "/dev/loop1", "loop1 shares its file /srv/a.img with loop2", FILE),
    ("loop-swap-file", swap_file, "/dev/loop1", "has a file behind it that is a swap area", FILE),
    ("loop-guests-file", guests_file, "/dev/loop1", "is open in the process 77 (qemu-system-x86)", FILE),
]
NAMES: list[Setup] = [
    ("sda", lambda t: t, "/dev/sda", "the kernel gives the name sda anew at each start", OWN_NAME),
    ("nvme", lambda t: t.disk("nvme0n1", "NV1"), "/dev/nvme0n1", "the name nvme0n1 anew", "name it as /dev/"),
    *(
        (
            where,
            lambda t, to=f"dev/disk/{where}/x": t.link(to, "../../sda"),
            f"/dev/disk/{where}/x",
            why,
            OWN_NAME,
        )
        for where, why in LINKS.items()
    ),
    ("id-unlike", lambda t: t.link(f"{IDS}/mine", "../../sda"), f"{BY_ID}/mine", "not the serial", OWN_NAME),
    ("other-id", lambda t: t.link(f"{IDS}/a-X", "../../sda"), f"{BY_ID}/a-X", "not the serial", OWN_NAME),
    (
        "own-link",
        leading("home/disk", "../dev/sda"),
        "/home/disk",
        "a link outside /dev/disk/by-id",
        OWN_NAME,
    ),
    ("out-of-dev", leading(f"{IDS}/a-Q", "../../../tmp/sda"), f"{BY_ID}/a-Q", "no device of /dev", LIST),
    ("glob", lambda t: t, f"{BY_ID}/ata-*", "a pattern can mean any number of disks", LIST),
    ("braces", lambda t: t, "/dev/sd{a,b}", "a pattern can mean any number of disks", LIST),
    ("relative", lambda t: t, "sda", "not a plain absolute path", LIST),
    ("dots", lambda t: t, f"{BY_ID}/../../sda", "not a plain absolute path", LIST),
    ("missing", lambda t: t, f"{BY_ID}/ata-GONE", "there is no such device", "strata list disks"),
    ("character", lambda t: t.character("null"), "/dev/null", "this is a character device", LIST),
    ("file", lambda t: t.write("srv/a.img"), "/srv/a.img", "this is a file, not a disk", "losetup --find"),
    ("folder", lambda t: t, "/dev", "this is a folder, not a disk", LIST),
    ("twin", twin, SDA, "sda states the same serial number as sdc", "detach the other one"),
    ("no-serial", lambda t: t.disk("vdb"), "/dev/vdb", "vdb has no name that stays", "QEMU: `serial=`"),
]
KINDS: list[Setup] = [
    ("dm-name", lambda t: made(t, "dm-5", "sdb"), "/dev/dm-5", "is made by the device mapper", DISKS),
    ("md-name", lambda t: made(t, "md5", "sdb"), "/dev/md5", "md5 is no disk: it is made by MD", DISKS),
    ("mapper", mapped, "/dev/mapper/x", "mapper", DISKS),
    ("id-of-dm", dm_by_id, f"{BY_ID}/dm-name-x", "dm-5 is no disk", DISKS),
    (
        "zvol",
        lambda t: t.disk("zd0", "Z1"),
        f"{BY_ID}/ata-DISK_Z1",
        "zd0 is no disk: it is made by ZFS",
        DISKS,
    ),
    *((name, disk(f"{name}0"), N1, f"{name}0 is a disk across the network", THERE) for name in NETWORK),
    ("iscsi", iscsi, N1, "sdi is a disk across the network (iscsi)", THERE),
    ("nvme-tcp", disk("nvme1n1", device__transport="tcp"), N1, "across the network (nvme-tcp)", THERE),
    ("nvme-multipath", fabrics, N1, "across the network (nvme-rdma)", THERE),
    ("nvme-path", disk("nvme1n1", hidden="1"), N1, "one path of a disk that has several", "that joins them"),
    ("zram", disk("zram0"), N1, "zram0 is no disk: it lies in memory", "name a disk"),
    ("optical", disk("sr0"), N1, "sr0 is a drive for optical media", "name a disk"),
    ("zones", lambda t: t.write("sys/block/sda/queue/zoned", "host-managed"), SDA, "zone by zone", OTHER),
    ("read-only", lambda t: t.write("sys/block/sda/ro", "1\n"), SDA, "sda is read-only", OTHER),
    ("no-medium", disk("sdc", 0, removable="1"), N1, "sdc has no medium in it", "insert a medium"),
    ("size-0", disk("sdc", 0), N1, "sdc has a size of 0", OTHER),
    ("small", disk("sdc", GIB), N1, "sdc has 1 GiB, and the study's device 4 GiB", "name a larger disk"),
    (
        "deleted",
        lambda t: t.loop("loop1", "/a (deleted)", 5),
        "/dev/loop1",
        "has been deleted",
        "attach a file",
    ),
    (
        "loop-over-disk",
        behind_loop,
        "/dev/loop1",
        "stands on a block device (/dev/sda)",
        "name that disk itself",
    ),
]
SETUPS = [*IN_USE, *NAMES, *KINDS]
