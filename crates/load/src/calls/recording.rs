// SPDX-License-Identifier: Apache-2.0
//! The calls of a recorded application: `docs/reference/calls-format.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::faults::Fault;

const HEAD: &str = "strata-calls 1 ";
const FAULTS_MAX: usize = 20;
/// One call's data at the most; a larger one fits no disk of a lab.
const DATA_BYTES_MAX: u64 = 1 << 30;
const FILE_BYTES_MAX: u64 = 1 << 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Open,
    Close,
    Read,
    ReadAt,
    Write,
    WriteAt,
    Seek,
    Fsync,
    Fdatasync,
    SyncRange,
    SyncFilesystem,
    Sync,
    Truncate,
    Allocate,
    Advise,
    Copy,
    List,
    Map,
    Stat,
    MakeFolder,
    RemoveFolder,
    Unlink,
    Rename,
    Link,
    Symlink,
    Touch,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Argument {
    /// The file that an `open` before it has opened.
    Handle,
    /// The next number of a handle.
    New,
    Path,
    Flags,
    Data,
    Number,
}

use Argument::{Data, Flags, Handle, New, Number, Path as Name};

impl Kind {
    const ALL: [(Self, &str, &[Argument]); 26] = [
        (Self::Open, "open", &[New, Name, Flags]),
        (Self::Close, "close", &[Handle]),
        (Self::Read, "read", &[Handle, Data]),
        (Self::ReadAt, "pread", &[Handle, Data, Number]),
        (Self::Write, "write", &[Handle, Data]),
        (Self::WriteAt, "pwrite", &[Handle, Data, Number]),
        (Self::Seek, "seek", &[Handle, Number]),
        (Self::Fsync, "fsync", &[Handle]),
        (Self::Fdatasync, "fdatasync", &[Handle]),
        (Self::SyncRange, "sync_file_range", &[Handle, Number, Number, Number]),
        (Self::SyncFilesystem, "syncfs", &[Handle]),
        (Self::Sync, "sync", &[]),
        (Self::Truncate, "truncate", &[Handle, Number]),
        (Self::Allocate, "fallocate", &[Handle, Number, Number, Number]),
        (Self::Advise, "fadvise", &[Handle, Number, Number, Number]),
        (Self::Copy, "copy", &[Handle, Handle, Data]),
        (Self::List, "list", &[Handle]),
        (Self::Map, "map", &[Handle, Number, Number, Flags]),
        (Self::Stat, "stat", &[Name]),
        (Self::MakeFolder, "mkdir", &[Name]),
        (Self::RemoveFolder, "rmdir", &[Name]),
        (Self::Unlink, "unlink", &[Name]),
        (Self::Rename, "rename", &[Name, Name]),
        (Self::Link, "link", &[Name, Name]),
        (Self::Symlink, "symlink", &[Name]),
        (Self::Touch, "touch", &[Name]),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub const COUNT: usize = Self::ALL.len();
}

/// A call; what `arguments` are, `Kind::ALL` says.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    pub at_ns: u64,
    /// From the end of the latest call before it, of its thread and of `after`, to its begin.
    pub think_ns: u64,
    pub thread: usize,
    /// The calls of other threads that it waits for.
    pub after: Vec<usize>,
    pub kind: Kind,
    pub arguments: [u64; 4],
}

impl Call {
    pub fn handle(&self, number: usize) -> usize {
        index(self.arguments[number])
    }
}

/// Lines and calls are counted within memory, so their numbers fit.
pub fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What was there before, by a path's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Nothing,
    Folder,
    File { bytes: u64 },
}

/// What of its head matters here: what the recorder could not see, by name.
#[derive(Default, Deserialize)]
struct About {
    #[serde(default)]
    unseen: BTreeMap<String, u64>,
}

#[derive(Default)]
pub struct Recording {
    pub unseen: BTreeMap<String, u64>,
    pub paths: Vec<(PathBuf, Before)>,
    pub calls: Vec<Call>,
    pub handles: usize,
    pub threads: usize,
}

impl Recording {
    /// The recording of a file; else its mistakes.
    pub fn read(path: &Path) -> Result<Self, Vec<Fault>> {
        let text = fs::read_to_string(path)
            .map_err(|error| vec![Fault::of_file(path, "the recording cannot be read", error)])?;
        let place = |number: usize| format!("{}:{}", path.display(), number + 1);
        let mut lines = text.trim_end_matches('\0').lines().enumerate();
        let head = lines.next().and_then(|(_, line)| line.strip_prefix(HEAD));
        let Some(about) = head.and_then(|about| serde_json::from_str::<About>(about).ok()) else {
            let cause = "it does not begin with \"strata-calls 1\" and what is known of it";
            return Err(vec![Fault::new(place(0), cause, "name a file that `strata record` wrote")]);
        };
        let (mut recording, mut faults) = (Self { unseen: about.unseen, ..Self::default() }, Vec::new());
        for (number, line) in lines {
            let taken = match line.split_once(' ') {
                Some(("folder", name)) => recording.name(name, Before::Folder),
                Some(("later", name)) => recording.name(name, Before::Nothing),
                Some(("file", rest)) => rest.split_once(' ').and_then(|(bytes, name)| {
                    let bytes = bytes.parse().ok().filter(|bytes| *bytes <= FILE_BYTES_MAX)?;
                    recording.name(name, Before::File { bytes })
                }),
                _ => recording.call(line),
            };
            if taken.is_none() && faults.len() < FAULTS_MAX {
                faults.push(Fault::new(place(number), "it is no line of the format", "record it again"));
            }
        }
        if recording.calls.is_empty() && faults.is_empty() {
            faults.push(Fault::new(place(0), "no call was recorded", "name the application's folder"));
        }
        if faults.is_empty() { Ok(recording) } else { Err(faults) }
    }

    /// A path, which may not lead out of the folder.
    fn name(&mut self, name: &str, before: Before) -> Option<()> {
        let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let is_sound = !name.is_empty() && !name.contains('\0') && Path::new(name).components().all(inside);
        is_sound.then(|| self.paths.push((name.into(), before)))
    }

    fn call(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (at_ns, _took_ns, think_ns, thread) = (number()?, number()?, number()?, index(number()?));
        let after: Vec<usize> = match words.next()? {
            "-" => Vec::new(),
            list => list.split(',').map(|each| each.parse().ok()).collect::<Option<_>>()?,
        };
        let name = words.next()?;
        let (kind, _, wanted) = *Kind::ALL.iter().find(|(_, known, _)| *known == name)?;
        let mut arguments = [0; 4];
        for (argument, place) in wanted.iter().zip(&mut arguments) {
            let word = words.next()?;
            *place = if *argument == Flags { flags(word)? } else { word.parse().ok()? };
            let is_sound = match argument {
                Handle => index(*place) < self.handles,
                New => index(*place) == self.handles,
                Name => index(*place) < self.paths.len(),
                Data => *place <= DATA_BYTES_MAX,
                Flags | Number => i64::try_from(*place).is_ok(),
            };
            is_sound.then_some(())?;
        }
        // A thread's number is the next one at the most, and nobody waits for a later call.
        let is_sound = thread <= self.threads && after.iter().all(|each| *each < self.calls.len());
        (is_sound && words.next().is_none()).then_some(())?;
        self.handles += usize::from(kind == Kind::Open);
        self.threads = self.threads.max(thread + 1);
        self.calls.push(Call { at_ns, think_ns, thread, after, kind, arguments });
        Some(())
    }
}

/// How a file was opened, as a bit for each letter.
pub const FLAGS: &str = "rwcxtadsyD";

fn flags(word: &str) -> Option<u64> {
    word.chars().try_fold(0, |bits, letter| FLAGS.find(letter).map(|bit| bits | 1 << bit))
}
