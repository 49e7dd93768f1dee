// SPDX-License-Identifier: Apache-2.0
//! The requests of a trace, a line each: nanoseconds since the first, kind, offset and bytes.

use std::fs;
use std::path::Path;

use crate::faults::Fault;

/// Larger ones no disk takes at once; a discard moves nothing.
const DATA_BYTES_MAX: usize = 256 << 20;
const FAULTS_MAX: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// A write that is durable when it is complete.
    Fua,
    Flush,
    Discard,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Fua, Self::Flush, Self::Discard];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Fua => "fua",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub at_ns: u64,
    pub kind: Kind,
    pub offset: u64,
    pub bytes: usize,
}

impl Request {
    fn parse(line: &str) -> Option<Self> {
        let [at_ns, kind, offset, bytes] = line.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        let kind = Kind::ALL.into_iter().find(|each| each.name() == kind)?;
        let (at_ns, offset, bytes) = (at_ns.parse().ok()?, offset.parse().ok()?, bytes.parse().ok()?);
        let is_sound = if kind == Kind::Flush { bytes == 0 } else { bytes > 0 };
        let is_small = kind == Kind::Discard || bytes <= DATA_BYTES_MAX;
        (is_sound && is_small).then_some(Self { at_ns, kind, offset, bytes })
    }
}

/// The requests of a file, which must be in the order of their times; else its mistakes.
pub fn read(path: &Path) -> Result<Vec<Request>, Vec<Fault>> {
    let text = fs::read_to_string(path)
        .map_err(|error| vec![Fault::of_file(path, "the requests cannot be read", error)])?;
    let (mut requests, mut faults, mut last_ns) = (Vec::new(), Vec::new(), 0);
    for (number, line) in text.lines().enumerate() {
        match Request::parse(line) {
            Some(request) if request.at_ns >= last_ns => {
                last_ns = request.at_ns;
                requests.push(request);
            }
            parsed => {
                let cause =
                    if parsed.is_some() { "it is earlier than the line before" } else { "it is no request" };
                let remedy = "write for example \"1500 read 4096 8192\", in the order of the times";
                faults.push(Fault::new(format!("{}:{}", path.display(), number + 1), cause, remedy));
            }
        }
    }
    if requests.is_empty() && faults.is_empty() {
        let place = path.display().to_string();
        faults.push(Fault::new(place, "it holds no requests", "give a trace of a disk"));
    }
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() { Ok(requests) } else { Err(faults) }
}

/// Refuse requests beyond the end of the target.
pub fn fit(requests: &[Request], target_bytes: u64, path: &Path) -> Result<(), Fault> {
    let ends_beyond = |each: &Request| {
        each.offset.checked_add(each.bytes as u64).is_none_or(|end_bytes| end_bytes > target_bytes)
    };
    let Some(line) = requests.iter().position(ends_beyond) else { return Ok(()) };
    let cause = format!("the request ends beyond the target's {target_bytes} bytes");
    Err(Fault::new(format!("{}:{}", path.display(), line + 1), cause, "give a larger device or file"))
}
