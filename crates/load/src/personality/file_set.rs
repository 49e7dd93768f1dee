// SPDX-License-Identifier: Apache-2.0
//! Which files of a set exist, are open, are being worked on; and which is the next, as filebench picks them (`fileset.c`).
//!
//! Existing files are taken in rotation, by opening, deleting and looking alike; so are those to be created. A file that
//! another thread is opening, closing, deleting or looking at is passed over.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::personality::records::SetSpec;
use crate::personality::tree::Tree;

/// A set of files while threads work on it.
pub struct FileSet {
    pub spec: SetSpec,
    pub files: Vec<File>,
    state: Mutex<State>,
    became_idle: Condvar,
}

pub struct File {
    pub path: CString,
    /// Of the folder that it is in.
    pub folder: CString,
    /// The size when written whole.
    pub bytes: u64,
    /// The current size.
    pub bytes_now: AtomicU64,
}

/// The state of a set between invocations.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    pub name: String,
    pub files: usize,
    /// Where the rotation through existing files is.
    pub existing_next: usize,
    /// Where the rotation through files to be created is.
    pub missing_next: usize,
    /// The size of each file; nothing for one that does not exist.
    pub sizes: Vec<Option<u64>>,
}

struct State {
    existing: Bits,
    busy: Bits,
    busy_count: usize,
    opened: Vec<u32>,
    existing_next: usize,
    missing_next: usize,
    waiting: usize,
}

/// Which files a pick may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Existing,
    Missing,
    /// Existing, and open nowhere.
    Closed,
}

/// The state change of a picked file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Opened,
    CreatedAndOpened,
    Deleted,
    Unchanged,
}

impl FileSet {
    /// The set below `directory`, of which the files in `kept` exist.
    pub fn new(spec: SetSpec, tree: &Tree, directory: &Path, kept: &Kept) -> Self {
        let root = set_folder(directory, &spec.name);
        let mut existing = Bits::new(tree.entries.len());
        let mut files = Vec::with_capacity(tree.entries.len());
        for (index, entry) in tree.entries.iter().enumerate() {
            let size = kept.sizes.get(index).copied().flatten();
            existing.set(index, size.is_some());
            let path = root.join(&entry.path);
            files.push(File {
                folder: c_path(path.parent().unwrap_or(&root)),
                path: c_path(&path),
                bytes: entry.bytes,
                bytes_now: AtomicU64::new(size.unwrap_or(0)),
            });
        }
        let state = State {
            busy: Bits::new(files.len()),
            busy_count: 0,
            opened: vec![0; files.len()],
            existing,
            existing_next: kept.existing_next,
            missing_next: kept.missing_next,
            waiting: 0,
        };
        Self { spec, files, state: Mutex::new(state), became_idle: Condvar::new() }
    }

    pub fn kept(&self) -> Kept {
        let state = self.lock();
        let size = |(index, file): (usize, &File)| {
            state.existing.get(index).then(|| file.bytes_now.load(Ordering::Relaxed))
        };
        Kept {
            name: self.spec.name.clone(),
            files: self.files.len(),
            existing_next: state.existing_next,
            missing_next: state.missing_next,
            sizes: self.files.iter().enumerate().map(size).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panics ends the run anyhow.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next wanted file in rotation, reserved until it is put back.
    ///
    /// None: there is none, or others work on all there are. Then filebench ends the run.
    pub fn pick(&self, wanted: Wanted) -> Option<usize> {
        let mut state = self.lock();
        while state.busy_count == self.files.len() {
            state = self.wait(state);
        }
        let missing = wanted == Wanted::Missing;
        let start = if missing { state.missing_next } else { state.existing_next };
        let first = state.existing.next(start, !missing)?;
        if missing {
            state.missing_next = first + 1;
        } else {
            state.existing_next = first + 1;
        }
        let mut index = first;
        while state.busy.get(index) || (wanted == Wanted::Closed && state.opened[index] > 0) {
            index = state.existing.next(index + 1, !missing)?;
            if index == first {
                return None;
            }
        }
        state.take(index);
        Some(index)
    }

    /// Whether somebody has a file open that was picked; filebench does not delete it then, and says nothing.
    pub fn is_open(&self, index: usize) -> bool {
        self.lock().opened[index] > 0
    }

    /// Wait until no thread works on a file that this thread has open, and reserve it for closing.
    pub fn take_to_close(&self, index: usize) {
        let mut state = self.lock();
        while state.busy.get(index) {
            state = self.wait(state);
        }
        state.take(index);
    }

    /// It is closed, and others may have it.
    pub fn put_back_closed(&self, index: usize) {
        let mut state = self.lock();
        state.opened[index] -= 1;
        self.put(state, index);
    }

    pub fn put_back(&self, index: usize, outcome: Outcome) {
        let mut state = self.lock();
        match outcome {
            Outcome::Opened => state.opened[index] += 1,
            Outcome::CreatedAndOpened => {
                state.opened[index] += 1;
                state.existing.set(index, true);
            }
            Outcome::Deleted => state.existing.set(index, false),
            Outcome::Unchanged => {}
        }
        self.put(state, index);
    }

    fn put(&self, mut state: MutexGuard<'_, State>, index: usize) {
        state.busy.set(index, false);
        state.busy_count -= 1;
        // A wake-up is a system call even without waiters.
        let is_waited_for = state.waiting > 0;
        drop(state);
        if is_waited_for {
            self.became_idle.notify_all();
        }
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        let mut state = self.became_idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }
}

impl State {
    fn take(&mut self, index: usize) {
        self.busy.set(index, true);
        self.busy_count += 1;
    }
}

/// The folder of a set.
pub fn set_folder(directory: &Path, name: &str) -> PathBuf {
    directory.join(name)
}

pub fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path from the command line has no zero byte")
}

/// One bit per file.
struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    fn new(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)], count }
    }

    fn get(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    fn set(&mut self, index: usize, value: bool) {
        let bit = 1 << (index % 64);
        if value {
            self.words[index / 64] |= bit;
        } else {
            self.words[index / 64] &= !bit;
        }
    }

    /// The first index from `start` on that has `value`, else the first of all.
    fn next(&self, start: usize, value: bool) -> Option<usize> {
        self.find(start, value).or_else(|| self.find(0, value))
    }

    fn find(&self, start: usize, value: bool) -> Option<usize> {
        let mut word = start / 64;
        let mut mask = u64::MAX << (start % 64);
        while word < self.words.len() {
            let bits = if value { self.words[word] } else { !self.words[word] } & mask;
            if bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                return (index < self.count).then_some(index);
            }
            mask = u64::MAX;
            word += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::personality::definition;

    fn file_set(existing: &[bool]) -> FileSet {
        let mut spec = definition::load("varmail").unwrap().sets.remove(0);
        spec.files = existing.len() as u64;
        let tree = Tree::of(&spec, 0, 1);
        let kept = Kept {
            name: spec.name.clone(),
            files: existing.len(),
            existing_next: 0,
            missing_next: 0,
            sizes: existing.iter().map(|exists| exists.then_some(1)).collect(),
        };
        FileSet::new(spec, &tree, Path::new("/nowhere"), &kept)
    }

    #[test]
    fn existing_files_are_taken_in_rotation() {
        let file_set = file_set(&[true, false, true, true]);
        let mut taken = Vec::new();
        for _ in 0..5 {
            let index = file_set.pick(Wanted::Existing).unwrap();
            file_set.put_back(index, Outcome::Unchanged);
            taken.push(index);
        }
        assert_eq!(taken, [0, 2, 3, 0, 2]);
    }

    #[test]
    fn a_file_that_somebody_works_on_is_passed_over() {
        let file_set = file_set(&[true; 3]);
        assert_eq!(file_set.pick(Wanted::Existing), Some(0));
        assert_eq!(file_set.pick(Wanted::Existing), Some(1));
        file_set.put_back(1, Outcome::Unchanged);
        assert_eq!(file_set.pick(Wanted::Existing), Some(2));
        // The rotation is at 0, which is being worked on.
        assert_eq!(file_set.pick(Wanted::Existing), Some(1));
    }

    #[test]
    fn nothing_is_left_to_create_when_all_exist_or_are_being_created() {
        let file_set = file_set(&[true, false, true]);
        assert_eq!(file_set.pick(Wanted::Missing), Some(1));
        assert_eq!(file_set.pick(Wanted::Missing), None);
        file_set.put_back(1, Outcome::CreatedAndOpened);
        assert_eq!(file_set.pick(Wanted::Missing), None);
    }

    #[test]
    fn a_file_is_open_until_it_is_closed() {
        let file_set = file_set(&[true, true]);
        let opened = file_set.pick(Wanted::Existing).unwrap();
        file_set.put_back(opened, Outcome::Opened);
        assert!(file_set.is_open(opened));
        // The rotation comes to it, but it is open.
        assert_eq!(file_set.pick(Wanted::Closed), Some(1));
        assert_eq!(file_set.pick(Wanted::Closed), None);
        file_set.put_back(1, Outcome::Unchanged);
        file_set.take_to_close(opened);
        file_set.put_back_closed(opened);
        assert!(!file_set.is_open(opened));
    }

    #[test]
    fn what_exists_lasts_from_one_invocation_to_the_next() {
        let first = file_set(&[true, false, true]);
        let created = first.pick(Wanted::Missing).unwrap();
        first.put_back(created, Outcome::CreatedAndOpened);
        let kept = first.kept();
        let tree = Tree::of(&first.spec, 0, 1);
        assert_eq!(FileSet::new(first.spec.clone(), &tree, Path::new("/nowhere"), &kept).kept(), kept);
    }
}
