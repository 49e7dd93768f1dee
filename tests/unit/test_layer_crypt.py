# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from layer_factory import GIB, MIB, context, refused, step_of

from strata.layers.crypt import Crypt
from strata.layers.integrity import Integrity
from strata.model.layer import Geometry, Provided

DISK = Provided("block", (8 * GIB,))


def crypt(**keys: Any) -> Crypt:
    return Crypt.model_validate(keys)


def integrity(**keys: Any) -> Integrity:
    return Integrity.model_validate(keys)


def test_a_key_that_the_cipher_does_not_take_is_refused() -> None:
    assert refused(crypt(key_bits=128), DISK) == "key_bits: aes-xts-plain64 takes no key of 128 bits"
    assert refused(crypt(cipher="aes-cbc-essiv:sha256", key_bits=512), DISK)
    assert not refused(crypt(key_bits=256), DISK)


def test_a_device_that_the_header_fills_is_refused() -> None:
    assert "header" in refused(crypt(), Provided("block", (16 * MIB,)))


def test_encrypted_data_begin_at_a_full_stripe() -> None:
    """Then a filesystem that is aligned to the stripes above is aligned below."""
    striped = Provided("block", (8 * GIB,), Geometry(chunk_bytes=512 << 10, data_chunks=3))

    offered = crypt().provided(striped)
    made = step_of(crypt().build(context("crypt", lower=striped)), "format").argv
    begins = int(made[made.index("--offset") + 1]) * 512

    assert offered.geometry == striped.geometry
    assert begins % (3 * (512 << 10)) == 0
    assert offered.smallest_bytes == 8 * GIB - begins


def test_the_threads_that_are_not_wanted_are_switched_off() -> None:
    for workqueues, options in (
        ("both", set()),
        ("write", {"read"}),
        ("read", {"write"}),
        ("none", {"read", "write"}),
    ):
        argv = crypt(workqueues=workqueues).assemble(context("crypt"))[0].argv
        assert {word for word in argv if word.startswith("--perf")} == {
            f"--perf-no_{way}_workqueue" for way in options
        }


def test_what_checksums_leave_is_what_the_kernel_gives() -> None:
    """The numbers are ``provided_data_sectors`` of `integritysetup dump` on 1 GiB, Linux 7.2."""
    keys: dict[str, Any]
    for keys, sectors in (
        ({}, 2064392),
        ({"checksum": "sha256"}, 1957896),
        ({"sector_size": 4096}, 2079024),
        ({"checksum": "sha256", "sector_size": 4096}, 2064392),
    ):
        assert integrity(**keys).usable_bytes([GIB]) == sectors * 512


def test_a_device_that_the_journal_fills_is_refused() -> None:
    assert "leave no room" in refused(integrity(journal_size="9GiB"), DISK)


def test_a_tag_longer_than_the_checksum_is_refused() -> None:
    assert refused(integrity(tag_size=5), DISK) == "tag_size: crc32c has 4 bytes"
    assert not refused(integrity(checksum="sha256", tag_size=16), DISK)


def test_checksums_between_the_data_hide_the_stripes() -> None:
    striped = Provided("block", (8 * GIB,), Geometry(chunk_bytes=512 << 10, data_chunks=2))

    assert integrity().provided(striped).geometry is None


def test_mismatches_are_read_from_the_targets_status() -> None:
    assert integrity().scrub_errors("0 2064392 integrity 3 2064392 -\n") == 3
    assert integrity().scrub_errors("0 2064392 integrity 0 2064392 -\n") == 0


def test_larger_sectors_are_offered_and_never_become_smaller() -> None:
    for layer in (crypt, integrity):
        for own, below, offered in ((4096, 512, 4096), (512, 512, 512), (512, 4096, 4096)):
            assert layer(sector_size=own).provided(DISK.with_sectors(below)).sector_bytes == offered
