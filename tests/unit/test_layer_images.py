# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TypeVar

import pytest
from pydantic import ValidationError

from strata.layers.guest import Guest
from strata.layers.image import ImageFile, Qcow2, Raw
from strata.model.layer import Layer, LayerContext, Provided
from strata.model.step import Step

L = TypeVar("L", bound=Layer)

GIB = 1 << 30
IMAGES: list[type[ImageFile]] = [Raw, Qcow2]


def made(kind: type[L], **keys: object) -> L:
    """A layer as it is declared in a study file."""
    return kind.model_validate(keys)


def placed(layer: ImageFile | Guest, lower_bytes: int = 16 * GIB) -> LayerContext:
    lower = "/dev/vg/disk" if isinstance(layer, Guest) else "${mounts}/ext4"
    return LayerContext(layer.layer, 1, (lower,), Provided(layer.requires.kind, (lower_bytes,)))


def refused(layer: ImageFile, lower_bytes: int = 16 * GIB) -> dict[str | None, str]:
    return {each.key: each.cause for each in layer.diagnostics(placed(layer, lower_bytes).provided, {})}


def serving(layer: ImageFile) -> Step:
    (service,) = [step for step in layer.assemble(placed(layer)) if step.background]
    return service


def nodes_of(service: Step) -> list[dict[str, object]]:
    """The storage daemon's options that are written as JSON: the file, the image, the export."""
    return [json.loads(word) for word in service.argv if word.startswith("{")]


def test_an_image_takes_three_quarters_of_its_filesystem_by_default() -> None:
    for kind in IMAGES:
        assert made(kind).usable_bytes([16 * GIB]) == 12 * GIB
        assert made(kind, size="2GiB").usable_bytes([16 * GIB]) == 2 * GIB
        assert made(Qcow2, backing=True).usable_bytes([16 * GIB]) == 6 * GIB


def test_a_size_that_no_disk_has_is_refused() -> None:
    for kind in IMAGES:
        for size in ("512B", "1000kB", "0B"):
            with pytest.raises(ValidationError, match="not a multiple of 4KiB, 1MiB at least"):
                made(kind, size=size)


def test_only_an_image_that_is_preallocated_must_fit() -> None:
    for kind in IMAGES:
        assert refused(made(kind, size="32GiB")) == {}
        assert "does not fit" in refused(made(kind, size="32GiB", preallocation="falloc"))["size"]
        assert refused(made(kind), lower_bytes=1 << 20) == {
            None: "the filesystem below holds 1MiB, too little for an image"
        }
        assert refused(made(kind), lower_bytes=2 << 20) == {}


def test_keys_that_contradict_each_other_are_refused() -> None:
    assert "aio" in refused(made(Raw, cache="writeback", aio="native"))
    assert "cache" in refused(made(Raw, server="loop", cache="directsync"))
    assert "aio" in refused(made(Raw, server="loop", aio="threads"))
    assert "discard" in refused(made(Raw, server="loop", discard=False))
    assert "preallocation" in refused(made(Qcow2, backing=True, preallocation="metadata"))
    assert "size" in refused(made(Qcow2, backing=True, size="32GiB"))
    assert "extended_l2" in refused(made(Qcow2, extended_l2=True, cluster="8KiB"))
    assert "l2_cache" in refused(made(Qcow2, l2_cache="64KiB"))
    assert refused(made(Qcow2, backing=True, extended_l2=True, l2_cache="128KiB", cluster="16KiB")) == {}


def test_a_cluster_that_qcow2_does_not_have_is_refused() -> None:
    for cluster in ("256B", "4MiB", "96KiB"):
        with pytest.raises(ValidationError, match="is not a power of two from 512B to 2MiB"):
            made(Qcow2, cluster=cluster)


def test_going_back_to_a_snapshot_opens_the_image_as_it_was_opened() -> None:
    layer = made(Qcow2, cache="directsync", l2_cache="1MiB")

    steps = layer.restore(placed(layer), "before") or []
    reopened = [json.loads(word)["arguments"] for word in steps[-2].argv if word.startswith("{")]

    assert reopened == nodes_of(serving(layer))
    assert steps[-1].undo is None, "the undo of the first connection is enough"


def test_what_an_image_has_taken_is_read_in_blocks() -> None:
    assert Raw().allocated_bytes("16\n") == 8192


class Monitor(threading.Thread):
    """A QMP monitor that answers each command with the next of ``answers``, a list of messages."""

    def __init__(self, path: Path, answers: list[list[dict[str, object]]]) -> None:
        super().__init__(daemon=True)
        self.asked: list[str] = []
        self._answers = answers
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()

    def run(self) -> None:
        stream = self._listening.accept()[0].makefile("rw")
        print('{"QMP": {}}', file=stream, flush=True)
        for answer in self._answers:
            self.asked.append(json.loads(stream.readline())["execute"])
            for message in answer:
                print(json.dumps(message), file=stream, flush=True)


DONE: dict[str, object] = {"return": {}}
DELETED: dict[str, object] = {"event": "BLOCK_EXPORT_DELETED"}
CLOSING = ["qmp_capabilities", "block-export-del", "blockdev-del", "blockdev-del"]


def close(
    tmp_path: Path, answers: list[list[dict[str, object]]]
) -> tuple[Monitor, subprocess.CompletedProcess[str]]:
    layer = Qcow2()
    _, step, *_ = layer.restore(placed(layer), "before") or []
    monitor = Monitor(tmp_path / "qcow2.qmp", answers)
    monitor.start()
    argv = [word.replace("${scratch}", str(tmp_path)) for word in step.argv[1:]]
    ended = subprocess.run([sys.executable, *argv], capture_output=True, text=True, timeout=60, check=False)
    return monitor, ended


def test_the_monitor_is_asked_one_thing_after_the_other_and_its_events_awaited(tmp_path: Path) -> None:
    deleted: list[dict[str, object]]
    for name, deleted in (("first", [DONE, DELETED]), ("last", [DELETED, DONE])):
        (tmp_path / name).mkdir()
        monitor, ended = close(tmp_path / name, [[DONE], deleted, [DONE], [DONE]])
        assert ended.returncode == 0, ended.stderr
        assert monitor.asked == CLOSING


def test_what_the_monitor_refuses_fails_the_step_with_its_words(tmp_path: Path) -> None:
    diagnostic: dict[str, object] = {"error": {"class": "GenericError", "desc": "Export 'image' is in use"}}

    monitor, ended = close(tmp_path, [[DONE], [diagnostic]])

    assert ended.returncode == 1
    assert ended.stderr.strip() == "Export 'image' is in use"
    assert monitor.asked == CLOSING[:2]


def test_a_guest_with_too_little_memory_is_refused() -> None:
    with pytest.raises(ValidationError, match="too little memory"):
        made(Guest, memory="16MiB")
