# SPDX-License-Identifier: Apache-2.0
"""Makes all that is published, into build/dist: wheels, source archive and container image.

    scripts/dist.py            # `make dist`
    scripts/dist.py source     # `make dist-source`: must stand wherever the wheel strata-storage-lab does

The container image is an archive of OCI's layout with two layers, Debian's packages and Strata. It is made
without a container engine: `podman load -i build/dist/strata-image.tar`.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

from strata import __version__
from strata.lab.apt import debian_mirror, sources_list
from strata.lab.cache import Cache, cache_root, file_hash
from strata.lab.carry import carried_parts
from strata.lab.image import DATE, ImageSpec
from strata.lab.lab import ensure_lab
from strata.lab.model import build_model
from strata.lab.progress import console_progress
from strata.lab.recipe import Recipe
from strata.lab.source import kernel_tarball

ROOT: Final = Path(__file__).resolve().parents[1]
OUT: Final = ROOT / "build/dist"
_PYTHON: Final = "3.11"
"""That of the Debian release that the container has."""
_RELEASE: Final = "bookworm"
_TYPE: Final = "application/vnd.oci.image"
_START: Final = """\
#!/usr/bin/python3
import sys

sys.path.insert(0, "/opt/strata")
from strata.program import main

sys.exit(main())
"""


def main() -> None:
    if sys.argv[1:] == ["source"]:
        write_source()
        return
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    recipe = Recipe.read(ROOT / "kernel")
    ours = [each.name for each in recipe.groups if each.source is None]
    say("the lab's parts")
    ensure_lab(console_progress(), only=["kernel", *ours, "image", "agent", "load"])
    build_model(Cache(cache_root()), ROOT)
    for title, folder, target in (
        ("the wheel strata-storage", ROOT, "wheel"),
        ("the source archive", ROOT, "sdist"),
        ("the wheel strata-storage-lab", ROOT / "packaging/lab", "wheel"),
    ):
        say(title)
        run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(OUT), cwd=folder)
    (OUT / "SOURCE.txt").unlink()  # it is in the wheel
    write_image(OUT / "strata-image.tar")
    for path in sorted(OUT.iterdir()):
        print(f"{file_hash(path)}  {path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.1f} MB")


def say(title: str) -> None:
    print(f"dist: {title} …", flush=True)


def run(*argv: str, cwd: Path = ROOT) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": DATE}
    subprocess.run(argv, cwd=cwd, env=environment, check=True, stdout=subprocess.DEVNULL)


def write_source() -> None:
    """Fetch the very tarball that the built kernel comes from."""
    kernel = carried_parts()["kernel"]
    OUT.mkdir(parents=True, exist_ok=True)
    spec = ImageSpec.read(ROOT / "image")
    package = Recipe.read(ROOT / "kernel").package
    file, version = kernel_tarball(package, spec.source_apt, OUT, console_progress())
    if (found := file_hash(file)) != kernel.inputs.found["source_sha256"]:
        sys.exit(f"dist: the mirror's {package} {version} is not the source of the built kernel: {found}")
    for deb in OUT.glob("*.deb"):
        deb.unlink()
    print(f"{found}  {file.relative_to(ROOT)}")


def write_image(file: Path) -> None:
    blobs = OUT / "image/blobs/sha256"
    blobs.mkdir(parents=True)
    base, stage = OUT / "image/base.tar", OUT / "image/stage"
    say(f"the container image: Debian {_RELEASE} with Python")
    sources = OUT / "image/sources.list"
    sources.write_text(sources_list(debian_mirror(), (_RELEASE,)))
    unread = (f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "info", "locale"))
    gone = "--customize-hook=rm -f $1/etc/apt/sources.list $1/etc/resolv.conf $1/etc/hostname"
    argv = ["--quiet", "--variant=minbase", "--include=python3", "--format=tar", *unread, gone]
    run("mmdebstrap", *argv, _RELEASE, str(base), str(sources))
    say("the container image: Strata and its lab")
    fill(stage)
    top = OUT / "image/top.tar"
    with tarfile.open(top, "w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(stage, ".", filter=_owned_by_root)
    say("the container image: packing")
    layers = [add_layer(blobs, each) for each in (base, top)]
    config: dict[str, Any] = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["strata"],
            "Cmd": ["run", "quickstart"],
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C.UTF-8"],
            "WorkingDir": "/work",
        },
        "rootfs": {"type": "layers", "diff_ids": [diff for diff, _ in layers]},
    }
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": add_json(blobs, f"{_TYPE}.config.v1+json", config),
        "layers": [described for _, described in layers],
    }
    listed = add_json(blobs, manifest["mediaType"], manifest)
    listed["annotations"] = {"org.opencontainers.image.ref.name": f"strata:{__version__}"}
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as archive:
        (OUT / "image/oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
        (OUT / "image/index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [listed]}))
        for name in ("oci-layout", "index.json", "blobs"):
            archive.add(OUT / "image" / name, name, filter=_owned_by_root)
    shutil.rmtree(OUT / "image")


def fill(stage: Path) -> None:
    """Strata's layer: what pip would install, the root image among root's shared parts, the command."""
    site = stage / "opt/strata"
    wheels = map(str, sorted(OUT.glob("*.whl")))
    options = ["--target", str(site), "--python-version", _PYTHON, "-c", str(ROOT / "requirements.lock")]
    run("scripts/setup", "--run-uv", "pip", "install", "--quiet", *options, *wheels)
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == _PYTHON:
        # Not by their times, which the archive changes.
        unchecked = ("--invalidation-mode", "unchecked-hash", "-s", str(stage))
        run(sys.executable, "-m", "compileall", "-qq", *unchecked, str(site))
    image = carried_parts()["image"]
    shutil.copytree(image.path, stage / "var/cache/strata" / image.kind / image.key)
    start = stage / "usr/local/bin/strata"
    start.parent.mkdir(parents=True)
    start.write_text(_START)
    start.chmod(0o755)
    (stage / "work").mkdir()
    (stage / "work").chmod(0o1777)  # root uses no folder in which others may rename


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = int(DATE)
    return member


def add_layer(blobs: Path, archive: Path) -> tuple[str, dict[str, Any]]:
    """Add a compressed layer; returns the hash of its content and its description."""
    packed = blobs / "layer"
    with (
        archive.open("rb") as content,
        packed.open("wb") as out,
        gzip.GzipFile("", "wb", 5, out, mtime=0) as target,
    ):
        shutil.copyfileobj(content, target, 1 << 20)
    return f"sha256:{file_hash(archive)}", _named(blobs, packed, f"{_TYPE}.layer.v1.tar+gzip")


def add_json(blobs: Path, media_type: str, content: dict[str, Any]) -> dict[str, Any]:
    written = blobs / "json"
    written.write_text(json.dumps(content, sort_keys=True))
    return _named(blobs, written, media_type)


def _named(blobs: Path, file: Path, media_type: str) -> dict[str, Any]:
    digest = file_hash(file)
    file.rename(blobs / digest)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": (blobs / digest).stat().st_size}


if __name__ == "__main__":
    main()
