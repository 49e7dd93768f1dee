# SPDX-License-Identifier: Apache-2.0
"""filebench's language: its own workloads are the bundled personalities; losses are named by line."""

from __future__ import annotations

import tomllib
from typing import Any, Final

from strata.bundled import project_root
from strata.workloads.generator.definition import Definition, read_definition
from strata.workloads.generator.filebench import read_filebench
from strata.workloads.generator.load import Load

# Without comments from filebench's workloads/varmail.f, fileserver.f, webproxy.f and videoserver.f.
_HEAD: Final = """\
set $dir=/tmp
set $nfiles={files}
set $meandirwidth={width}
set $filesize=cvar(type=cvar-gamma,parameters=mean:{bytes};gamma:1.5)
set $nthreads={threads}
set $iosize=1m
set $meanappendsize=16k

define fileset name=bigfileset,path=$dir,size=$filesize,entries=$nfiles,dirwidth=$meandirwidth,prealloc=80

define process name=filereader,instances=1
{{
  thread name=filereaderthread,memsize=10m,instances=$nthreads
  {{
"""
_TAIL: Final = '  }\n}\n\necho  "personality successfully loaded"\n\nrun 60\n'
_READ: Final = """\
    flowop openfile name=openfile4,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile4,fd=1,iosize=$iosize
"""
_CLOSE: Final = "    flowop closefile name=closefile4,fd=1\n"
_APPEND: Final = "    flowop appendfilerand name=appendfilerand2,iosize=$meanappendsize,fd=1\n"
_MAIL: Final = _APPEND + "    flowop fsync name=fsyncfile2,fd=1\n" + _CLOSE
_REPLACE: Final = """\
    flowop deletefile name=deletefile1,filesetname=bigfileset
    flowop createfile name=createfile2,filesetname=bigfileset,fd=1
"""
WORKLOADS: Final = {
    "varmail": _HEAD.format(files=1000, width=1000000, bytes=16384, threads=16)
    + f"{_REPLACE}{_MAIL}{_READ}{_MAIL}{_READ}{_CLOSE}{_TAIL}",
    "webproxy": _HEAD.format(files=10000, width=1000000, bytes=16384, threads=100)
    + f"{_REPLACE}{_APPEND}{_CLOSE}{(_READ + _CLOSE) * 5}    flowop opslimit name=limit\n{_TAIL}",
    "fileserver": _HEAD.format(files=10000, width=20, bytes=131072, threads=50)
    + """\
    flowop createfile name=createfile1,filesetname=bigfileset,fd=1
    flowop writewholefile name=wrtfile1,srcfd=1,fd=1,iosize=$iosize
    flowop closefile name=closefile1,fd=1
    flowop openfile name=openfile1,filesetname=bigfileset,fd=1
    flowop appendfilerand name=appendfilerand1,iosize=$meanappendsize,fd=1
    flowop closefile name=closefile2,fd=1
    flowop openfile name=openfile2,filesetname=bigfileset,fd=1
    flowop readwholefile name=readfile1,fd=1,iosize=$iosize
    flowop closefile name=closefile3,fd=1
    flowop deletefile name=deletefile1,filesetname=bigfileset
    flowop statfile name=statfile1,filesetname=bigfileset
"""
    + _TAIL,
    "videoserver": """\
set $dir=/tmp
set $eventrate=96
set $filesize=10g
set $reuseit=false
set $passvidsname=passivevids
set $actvidsname=activevids
eventgen rate=$eventrate
define fileset name=$actvidsname,path=$dir,size=$filesize,entries=32,dirwidth=4,prealloc,paralloc,
    reuse=$reuseit
define fileset name=$passvidsname,path=$dir,size=$filesize,entries=194,dirwidth=20,prealloc=50,paralloc,
    reuse=$reuseit
define process name=vidwriter,instances=1
{
  thread name=vidwriter,memsize=10m,instances=1
  {
    flowop deletefile name=vidremover,filesetname=$passvidsname
    flowop createfile name=wrtopen,filesetname=$passvidsname,fd=1
    flowop writewholefile name=newvid,iosize=1m,fd=1,srcfd=1
    flowop closefile name=wrtclose, fd=1
    flowop delay name=replaceinterval, value=10
  }
}
define process name=vidreaders,instances=1
{
  thread name=vidreaders,memsize=10m,instances=48
  {
    flowop read name=vidreader,filesetname=$actvidsname,iosize=256k
    flowop bwlimit name=serverlimit, target=vidreader
  }
}
""",
}


def like(toml: str) -> dict[str, Any]:
    """A definition without its name, with groups by name and defaults stated."""
    tables = tomllib.loads(toml)
    sets = [{"read_only": False, **each, "scales": None} for each in tables["sets"]]
    if tables["name"] == "videoserver":  # of the time when sizes without cvar were gamma-distributed
        sets = [{**each, "file_shape": 0} for each in sets]
    groups = {(each["threads"], len(each["loop"])): each["loop"] for each in tables["groups"]}
    return {"sets": sets, "groups": groups}


def test_filebenchs_own_workloads_are_the_bundled_personalities() -> None:
    for name, text in WORKLOADS.items():
        found = read_definition(text)
        assert isinstance(found, Definition), (name, found)
        own = (project_root() / "crates" / "load" / "personalities" / f"{name}.toml").read_text()
        assert like(found.text) == like(own), name


def test_what_is_lost_is_named_by_line_at_once() -> None:
    text = WORKLOADS["varmail"].replace("flowop fsync", "flowop aiowrite").replace("dirwidth", "leafdirs")
    causes = [each.cause for each in read_filebench(text + 'system "rm"\n').mistakes]
    for said in ("leafdirs of a fileset", "line 18: aiowrite", "line 23: aiowrite", '"system" is not'):
        assert any(said in cause for cause in causes), (said, causes)
    found = read_definition(WORKLOADS["varmail"].replace("closefile", "statfile", 1))
    assert not isinstance(found, Definition)
    line = WORKLOADS["varmail"].partition("closefile")[0].count("\n") + 1
    assert [f"line {line} of the text" in each.cause for each in found] == [True]
    for text in (
        "define",
        "set",
        "define process {",
        'define fileset name="a',
        "set $a\nflowop x=,={",
        "{" * 9,
    ):
        assert read_filebench(f"set $x=1\n{text}").mistakes, text
    eventgen = WORKLOADS["webproxy"].replace("define fileset", "eventgen rate=5\ndefine fileset")
    assert [each.remedy for each in read_filebench(eventgen).mistakes] == [
        "leave it out, and write rate = 5 in the study"
    ]


def test_instances_iterations_and_random_places_are_carried_over() -> None:
    text = WORKLOADS["varmail"].replace("filereader,instances=1", "filereader,instances=3")
    read = "flowop read name=r,filesetname=bigfileset,random,iosize=4k,iters=2"
    text = text.replace("flowop deletefile name=deletefile1,filesetname=bigfileset", read)
    (group,) = tomllib.loads(read_filebench(text).toml)["groups"]
    assert group["threads"] == 3 * 16
    assert [(each["op"], each["bytes"]) for each in group["loop"][:2]] == [("read_random", 4096)] * 2


def test_an_unnamed_run_time_is_remarked() -> None:
    load = Load.model_validate({"workload": "load", "definition": WORKLOADS["varmail"], "duration": "5s"})
    assert not list(load.diagnostics(1 << 40))
    assert any("run 60" in each for each in load.remarks("filesystem"))
