# SPDX-License-Identifier: Apache-2.0
"""dm-crypt on one block device, with a LUKS2 header, as cryptsetup makes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from pydantic import Field, StrictBool

from strata.diagnostics.names import Diagnostic
from strata.layers.options import aligned_bytes
from strata.model.layer import KernelLog, Layer, LayerContext, LowerInterface, Provided
from strata.model.step import Command, Prerequisites, Step
from strata.units import describe_size
from strata.words import listed

# The default size of LUKS2's header with its key slots (cryptsetup 2.1 and later).
_HEADER_BYTES: Final = 16 << 20
_KEY_BITS: Final = {"aes-xts-plain64": (512, 256), "aes-cbc-essiv:sha256": (256, 128)}
# It protects nothing: the volume key derives from the seed, which stands in the plan.
_PASSPHRASE: Final = "strata"  # noqa: S105
_ITERATIONS: Final = "1000"  # the least that cryptsetup takes; they cost time only when the layer is opened


class Crypt(Layer):
    """LUKS2 on one block device.

    The key derivation has a fixed cost, and only salts are random: the volume key and the UUID derive from
    the trial's seed.
    """

    family = "caches, encryption, integrity"
    requires = LowerInterface("block")
    provides = "block"
    prerequisites = Prerequisites(tools=("cryptsetup", "tee"), features=("dm:crypt",))
    kernel_log = KernelLog(silent="Without authentication the target decrypts whatever it reads.")
    packages = ("cryptsetup-bin",)
    also_called = ("cryptsetup", "dm-crypt", "luks", "luks2")

    layer: Literal["crypt"] = "crypt"
    cipher: Literal["aes-xts-plain64", "aes-cbc-essiv:sha256"] = "aes-xts-plain64"
    """Cipher, mode and initial vector, as cryptsetup writes them"""
    key_bits: Literal[128, 256, 512] | None = Field(None, examples=[256])
    """Length of the volume key (XTS splits it in two); default: 512 for XTS, 256 for CBC"""
    sector_bytes: Literal[512, 4096] = Field(512, alias="sector_size", examples=[4096])
    """The unit of encryption, in bytes; no smaller I/O is then possible above"""
    discard: StrictBool = False
    """Pass discards on (--allow-discards), which shows which sectors are in use"""
    workqueues: Literal["both", "read", "write", "none"] = Field("both", examples=["none"])
    """Which requests are handed to a kernel thread instead of being encrypted where they are submitted or
    completed (--perf-no_read_workqueue, --perf-no_write_workqueue)"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        lengths = _KEY_BITS[self.cipher]
        if self.key_bits is not None and self.key_bits not in lengths:
            yield Diagnostic(
                f"{self.cipher} takes no key of {self.key_bits} bits",
                remedy=f"write one of {', '.join(map(str, lengths))}, or leave it out",
                key="key_bits",
            )
        header_bytes = aligned_bytes(_HEADER_BYTES, lower)
        if lower.smallest_bytes <= header_bytes:
            yield Diagnostic(
                f"the header of LUKS2 alone takes {describe_size(header_bytes)}, and the device below has "
                f"{describe_size(lower.smallest_bytes)}",
                remedy="raise the `capacity` of the device",
            )

    def provided(self, lower: Provided) -> Provided:
        data_bytes = max(0, lower.smallest_bytes - aligned_bytes(_HEADER_BYTES, lower))
        return lower.of(data_bytes // self.sector_bytes * self.sector_bytes).with_sectors(self.sector_bytes)

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        return self.provided(Provided("block", tuple(lower_bytes))).smallest_bytes

    def path(self, context: LayerContext) -> str:
        return f"/dev/mapper/{context.label}"

    def build(self, context: LayerContext) -> list[Step]:
        key = f"${{scratch}}/{context.name}-volume-key"
        key_bits = self.key_bits or _KEY_BITS[self.cipher][0]
        offset_sectors = aligned_bytes(_HEADER_BYTES, context.provided) // 512
        drawn = context.derived_uuid("volume-key").hex + context.derived_uuid("volume-key-2").hex
        format_ = context.step(
            "format",
            f"Make the encrypted volume on {listed(context.devices) or 'what is below'}",
            *("cryptsetup", "luksFormat", "--batch-mode", "--type", "luks2"),
            *("--uuid", str(context.derived_uuid("uuid"))),
            *("--cipher", self.cipher, "--key-size", str(key_bits), "--volume-key-file", key),
            *("--sector-size", str(self.sector_bytes), "--offset", str(offset_sectors)),
            *("--pbkdf", "pbkdf2", "--hash", "sha256", "--pbkdf-force-iterations", _ITERATIONS),
            *("--key-file", "-", context.lower[0]),
            stdin=_PASSPHRASE,
            destroys=context.devices,
        )
        return [
            # The key's bytes are hexadecimal digits, which does not affect the cipher's speed.
            context.step("key", "Derive the volume key", "tee", key, stdin=drawn[: key_bits // 8]),
            format_,
            *self.assemble(context),
        ]

    def assemble(self, context: LayerContext) -> list[Step]:
        options = ["--allow-discards"] if self.discard else []
        options += [
            f"--perf-no_{each}_workqueue"
            for each in ("read", "write")
            if self.workqueues not in (each, "both")
        ]
        return [
            context.step(
                "open",
                "Open the encrypted volume",
                *("cryptsetup", "open", "--type", "luks2", *options, "--key-file", "-"),
                *(context.lower[0], context.label),
                stdin=_PASSPHRASE,
                undo=Command(argv=("cryptsetup", "close", context.label)),
            )
        ]

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        """Follow the device below: take all of it, or give up the part that it is about to lose."""
        data_bytes = self.provided(context.provided.of(capacity_bytes)).smallest_bytes
        size = [] if grow else ["--size", str(data_bytes // 512)]
        words = ("cryptsetup", "resize", *size, "--key-file", "-", context.label)
        return [context.act("resize", "Fit the encrypted volume to what is below", *words, stdin=_PASSPHRASE)]
