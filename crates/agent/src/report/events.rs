// SPDX-License-Identifier: Apache-2.0
//! The agent's events: JSON lines (docs/reference/event-format.md).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use serde::Serialize;

use crate::plan::format::Phase;
use crate::report::precision::Look;
use crate::system::clock;

/// Of the event format (docs/reference/event-format.md).
pub const EVENT_VERSION: u64 = 1;

/// A reader of a pipe who reads nothing for so long has given up on us.
const PIPE_LIMIT_MS: u16 = 60_000;
/// A ready pipe takes this much without blocking (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event<'a> {
    AgentStart {
        event_version: u64,
        agent_version: &'a str,
        plan_sha256: &'a str,
        trial: Option<&'a str>,
        runner: Option<&'a str>,
        kernel: Kernel,
    },
    StepStart {
        step: &'a str,
        phase: Phase,
        argv: &'a [String],
    },
    StepReady {
        step: &'a str,
    },
    Output {
        step: &'a str,
        stream: &'a str,
        #[serde(flatten)]
        content: Content<'a>,
    },
    File {
        step: &'a str,
        name: &'a str,
        #[serde(flatten)]
        content: Content<'a>,
        last: bool,
    },
    StepEnd {
        step: &'a str,
        #[serde(flatten)]
        ending: &'a Ending,
    },
    Sample {
        at: At,
        step: Option<&'a str>,
        disks: BTreeMap<&'a str, DiskReading>,
        memory: MemoryReading,
        cpu: CpuReading,
    },
    DiskAccount {
        step: &'a str,
        at: At,
        disk: &'a str,
        account: BTreeMap<String, u64>,
    },
    FilesystemAccount {
        step: &'a str,
        at: At,
        filesystem: &'a str,
        kind: &'a str,
        account: &'a BTreeMap<String, u64>,
    },
    ProcessorAccount {
        step: &'a str,
        at: At,
        account: BTreeMap<String, u64>,
    },
    /// How well a window is known that may end as soon as it is.
    Precision {
        step: &'a str,
        /// Whether all windows of the group were ended for it.
        known: bool,
        look: Option<Look>,
    },
    UndoStart {
        step: &'a str,
        argv: &'a [String],
    },
    UndoEnd {
        step: &'a str,
        #[serde(flatten)]
        ending: &'a Ending,
    },
    AgentEnd {
        outcome: PlanOutcome,
        failed_step: Option<&'a str>,
        reason: Option<&'a str>,
        left_behind: &'a [String],
    },
}

#[derive(Debug, Serialize)]
pub struct Kernel {
    pub release: String,
    pub version: String,
    pub machine: String,
}

impl Kernel {
    pub fn running() -> Self {
        let text = |field: &std::ffi::OsStr| field.to_string_lossy().into_owned();
        match nix::sys::utsname::uname() {
            Ok(name) => Self {
                release: text(name.release()),
                version: text(name.version()),
                machine: text(name.machine()),
            },
            Err(_) => Self { release: String::new(), version: String::new(), machine: String::new() },
        }
    }
}

/// Bytes as text where they are text: nothing is lost either way.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Content<'a> {
    Text(&'a str),
    Base64(String),
}

impl<'a> Content<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        std::str::from_utf8(bytes).map_or_else(|_| Self::Base64(STANDARD.encode(bytes)), Self::Text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum At {
    Interval,
    StepStart,
    StepEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok,
    Failed,
    Timeout,
    Signalled,
    SpawnError,
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanOutcome {
    Ok,
    Failed,
    Interrupted,
    BadPlan,
}

/// How a program ended.
#[derive(Debug, Clone, Serialize)]
pub struct Ending {
    pub outcome: Outcome,
    pub exit_code: Option<i32>,
    pub signal: Option<&'static str>,
    pub expected: Vec<i32>,
    pub duration_ns: u64,
    pub max_rss_bytes: u64,
    pub user_ns: u64,
    pub system_ns: u64,
    pub output_truncated: bool,
    pub error: Option<String>,
    pub left_running: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskReading {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub discards: u64,
    pub flushes: u64,
    pub in_flight: u64,
    pub read_ns: u64,
    pub write_ns: u64,
    pub flush_ns: u64,
    pub busy_ns: u64,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryReading {
    pub total_bytes: u64,
    pub dirty_bytes: u64,
    pub writeback_bytes: u64,
    pub cached_bytes: u64,
    pub available_bytes: u64,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuReading {
    pub user_ns: u64,
    pub system_ns: u64,
    pub idle_ns: u64,
    pub iowait_ns: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    monotonic_ns: u64,
    realtime_ns: u64,
    #[serde(flatten)]
    event: &'a Event<'a>,
}

/// Where the events go.
///
/// A sink that failed takes no more; whoever runs the plan sees it in `failure` and stops.
#[derive(Debug)]
pub struct Sink {
    file: File,
    is_pipe: bool,
    seq: u64,
    failure: Option<String>,
}

impl Sink {
    pub fn new(file: File) -> Self {
        let kind = fstat(&file).map_or(SFlag::S_IFREG, |stat| SFlag::from_bits_truncate(stat.st_mode));
        let kind = kind & SFlag::S_IFMT;
        Self { file, is_pipe: kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK, seq: 0, failure: None }
    }

    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The open file behind the sink.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Append one event, in one write.
    pub fn emit(&mut self, event: &Event) {
        if self.failure.is_some() {
            return;
        }
        let line = Line {
            seq: self.seq,
            monotonic_ns: clock::monotonic_ns(),
            realtime_ns: clock::realtime_ns(),
            event,
        };
        self.seq += 1;
        let written = serde_json::to_vec(&line).map_err(io::Error::from).and_then(|mut bytes| {
            bytes.push(b'\n');
            self.write(&bytes)
        });
        if let Err(error) = written {
            self.failure = Some(error.to_string());
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_pipe {
            return self.file.write_all(bytes);
        }
        for piece in bytes.chunks(PIPE_BYTES) {
            let mut ready = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
            if poll(&mut ready, PollTimeout::from(PIPE_LIMIT_MS))? == 0 {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads the events"));
            }
            self.file.write_all(piece)?;
        }
        Ok(())
    }
}
