// SPDX-License-Identifier: Apache-2.0
//! Files that a step left and that go into the events.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::plan::format::Collect;
use crate::report::events::{Content, Event, Sink};
use crate::report::output::{CHUNK_BYTES, Chunker};

/// More than the longest measurement logs: a sparse file would fill the disk of the results.
const FILE_BYTES_MAX: u64 = 8 << 30;

/// Ship the files that a collection's path stands for, sorted by name and concatenated.
pub fn ship(sink: &mut Sink, step: &str, wanted: &Collect) -> Result<(), String> {
    let paths = expand(&wanted.path)?;
    let name = wanted.name.as_str();
    let mut chunker = Chunker::default();
    let mut buffer = vec![0; CHUNK_BYTES];
    for path in &paths {
        let message = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = open(path).map_err(message)?.take(FILE_BYTES_MAX + 1);
        loop {
            let count = file.read(&mut buffer).map_err(message)?;
            if count == 0 {
                break;
            }
            if file.limit() == 0 {
                return Err(format!("{}: it is larger than {FILE_BYTES_MAX} bytes", path.display()));
            }
            chunker.feed(&buffer[..count], |content| {
                sink.emit(&Event::File { step, name, content, last: false });
            });
        }
    }
    chunker.finish(|content| sink.emit(&Event::File { step, name, content, last: false }));
    sink.emit(&Event::File { step, name, content: Content::Text(""), last: true });
    Ok(())
}

/// Open a step's file, which may be anything: a pipe blocks, a device never ends, a link leads elsewhere.
fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// The regular files of a path whose last component may hold `*` and `?`.
fn expand(pattern: &str) -> Result<Vec<PathBuf>, String> {
    let path = Path::new(pattern);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(format!("{pattern} is no file"));
    };
    if folder.to_string_lossy().contains(['*', '?']) {
        return Err(format!("{pattern}: * and ? are for the last part of a path only"));
    }
    if !name.contains(['*', '?']) {
        return if path.exists() { Ok(vec![path.into()]) } else { Err(format!("{pattern} does not exist")) };
    }
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|entry| matches(name.as_bytes(), entry.as_bytes()))
        })
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    if paths.is_empty() { Err(format!("no file matches {pattern}")) } else { Ok(paths) }
}

/// Whether `name` matches a shell pattern of `*`, `?` and literal bytes.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => matches(rest, name) || (!name.is_empty() && matches(pattern, &name[1..])),
        (Some((b'?', rest)), Some((_, tail))) => matches(rest, tail),
        (Some((byte, rest)), Some((head, tail))) => byte == head && matches(rest, tail),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        matches(pattern.as_bytes(), name.as_bytes())
    }

    #[test]
    fn a_pattern_matches_as_in_a_shell() {
        assert!(fits("transactions.*", "transactions.12"));
        assert!(fits("transactions.*", "transactions.12.3"));
        assert!(!fits("transactions.*", "transactions"));
        assert!(fits("a*b?c", "axxbbyc"));
        assert!(!fits("a?c", "ac"));
        assert!(fits("*", "anything"));
    }

    #[test]
    fn files_come_sorted_and_folders_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["log.2", "log.10", "log.1", "other"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::create_dir(folder.path().join("log.3")).unwrap();

        let paths = expand(folder.path().join("log.*").to_str().unwrap()).unwrap();

        let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["log.1", "log.10", "log.2"]);
    }

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink("/etc/passwd", place("link")).unwrap();
        nix::unistd::mkfifo(&place("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();

        assert_eq!(open(&place("link")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert!(open(&place("pipe")).unwrap_err().to_string().contains("no regular file"));
        assert!(open(Path::new("/dev/zero")).is_err());
        assert!(open(Path::new("/proc/self/stat")).is_ok(), "a file of /proc is one");
    }

    #[test]
    fn nothing_to_collect_is_an_error() {
        let folder = tempfile::tempdir().unwrap();

        assert!(expand(folder.path().join("*").to_str().unwrap()).unwrap_err().contains("no file matches"));
        assert!(expand(folder.path().join("a").to_str().unwrap()).unwrap_err().contains("does not exist"));
        assert!(expand("/x*/y").unwrap_err().contains("last part"));
    }
}
