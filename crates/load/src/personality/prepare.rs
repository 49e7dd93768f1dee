// SPDX-License-Identifier: Apache-2.0
//! Builds the files of a personality, in parallel, and syncs them.

use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{OFlags, statvfs, syncfs};
use serde::Serialize;

use crate::clock::now_ns;
use crate::data::{Content, Source};
use crate::faults::{Fault, LoadError};
use crate::files;
use crate::personality::durable::Promises;
use crate::personality::file_set::{Kept, c_path, set_folder};
use crate::personality::kept::{self, KeptState};
use crate::personality::records::{Departure, Personality, SetSpec};
use crate::personality::tree::{Entry, Tree};
use crate::random::Random;
use crate::report::{self, RESULT_VERSION};
use crate::threads;

/// The size of filebench's writes when it allocates a file (`FILE_ALLOC_BLOCK`).
const PIECE_BYTES: usize = 1 << 20;
/// One part in this many of the free space stays free.
pub const RESERVE_PARTS: u64 = 20;

pub struct Plan<'a> {
    pub personality: &'a Personality,
    pub departures: Vec<Departure>,
    pub directory: &'a Path,
    pub seed: u64,
    pub content: Content,
    pub builders: u64,
    pub state: &'a Path,
    pub trace: Option<&'a Path>,
    pub durable: Option<&'a Path>,
}

#[derive(Serialize)]
struct Prepared<'a> {
    result_version: u32,
    personality: &'a str,
    seed: u64,
    content: Content,
    builders: u64,
    departures: &'a [Departure],
    sets: Vec<PreparedSet<'a>>,
    build_ns: u64,
    sync_ns: u64,
}

#[derive(Serialize)]
struct PreparedSet<'a> {
    #[serde(flatten)]
    spec: &'a SetSpec,
    directories: usize,
    files_existing: usize,
    /// Of the files that exist.
    bytes: u64,
    /// Of all files, existing or not.
    bytes_of_all: u64,
}

/// Build and sync the files, and save the state for the runs that follow.
pub fn run(plan: &Plan) -> Result<(), LoadError> {
    let trees: Vec<Tree> = plan
        .personality
        .sets
        .iter()
        .zip(0..)
        .map(|(spec, number)| Tree::of(spec, number, plan.seed))
        .collect();
    check_space(plan, &trees)?;
    let begin_ns = now_ns();
    for (number, (spec, tree)) in plan.personality.sets.iter().zip(&trees).enumerate() {
        build(plan, spec, tree, number as u64)?;
    }
    let built_ns = now_ns();
    let folder =
        File::open(plan.directory).map_err(|error| cannot(plan.directory, "it cannot be opened", &error))?;
    syncfs(&folder).map_err(|error| cannot(plan.directory, "it cannot be synced", &error))?;
    let synced_ns = now_ns();
    if let Some(path) = plan.durable {
        promise(path, &trees).map_err(LoadError::World)?;
    }
    let sets = plan.personality.sets.iter().zip(&trees).map(|(spec, tree)| as_kept(spec, tree)).collect();
    kept::write(
        plan.state,
        &KeptState {
            personality: plan.personality.name.clone(),
            seed: plan.seed,
            specs: plan.personality.sets.clone(),
            sets,
        },
    )?;
    if let Some(path) = plan.trace {
        trace(path, plan.personality, &trees)
            .map_err(|error| cannot(path, "it cannot be written", &error))?;
    }
    report::print(&Prepared {
        result_version: RESULT_VERSION,
        personality: &plan.personality.name,
        seed: plan.seed,
        content: plan.content,
        builders: plan.builders,
        departures: &plan.departures,
        sets: plan.personality.sets.iter().zip(&trees).map(|(spec, tree)| summary(spec, tree)).collect(),
        build_ns: built_ns - begin_ns,
        sync_ns: synced_ns - built_ns,
    });
    Ok(())
}

/// All files are synced.
fn promise(path: &Path, trees: &[Tree]) -> Result<(), Fault> {
    let promises = Promises::create(path, trees.iter().map(|tree| tree.entries.len()))?;
    for (set, tree) in trees.iter().enumerate() {
        for (file, entry) in tree.entries.iter().enumerate().filter(|(_, entry)| entry.preallocated) {
            promises
                .promise(set, file, entry.bytes)
                .map_err(|error| Fault::of_file(path, "it cannot be written", error))?;
        }
    }
    Ok(())
}

fn cannot(path: &Path, what: &str, error: &impl std::fmt::Display) -> LoadError {
    Fault::of_file(path, what, error).into()
}

fn as_kept(spec: &SetSpec, tree: &Tree) -> Kept {
    Kept {
        name: spec.name.clone(),
        files: tree.entries.len(),
        existing_next: 0,
        missing_next: 0,
        sizes: tree.entries.iter().map(|entry| entry.preallocated.then_some(entry.bytes)).collect(),
    }
}

fn preallocated(tree: &Tree) -> impl Iterator<Item = &Entry> {
    tree.entries.iter().filter(|entry| entry.preallocated)
}

fn summary<'a>(spec: &'a SetSpec, tree: &Tree) -> PreparedSet<'a> {
    PreparedSet {
        spec,
        directories: tree.directories.len(),
        files_existing: preallocated(tree).count(),
        bytes: preallocated(tree).map(|entry| entry.bytes).sum(),
        bytes_of_all: tree.bytes(),
    }
}

/// Say before anything is written that it will not fit.
fn check_space(plan: &Plan, trees: &[Tree]) -> Result<(), LoadError> {
    let space = statvfs(plan.directory)
        .map_err(|error| cannot(plan.directory, "it cannot be asked for its space", &error))?;
    let free_bytes = space.f_bavail * space.f_frsize;
    let wanted_bytes: u64 = trees.iter().flat_map(preallocated).map(|entry| entry.bytes).sum();
    if wanted_bytes > free_bytes - free_bytes / RESERVE_PARTS {
        return Err(LoadError::Input(vec![Fault::new(
            plan.directory.display().to_string(),
            format!("the files take {wanted_bytes} bytes, and {free_bytes} are free"),
            "take fewer or smaller files (--files, --file-bytes), or a larger filesystem",
        )]));
    }
    Ok(())
}

/// Make a set's folders in order, then its files in a drawn order, as filebench does, so that neighbours in a folder do
/// not lie behind one another.
fn build(plan: &Plan, spec: &SetSpec, tree: &Tree, number: u64) -> Result<(), LoadError> {
    let root = set_folder(plan.directory, &spec.name);
    let mut maker = DirBuilder::new();
    maker.mode(0o755);
    let folders = tree.directories.iter().map(|folder| root.join(folder));
    for folder in std::iter::once(root.clone()).chain(folders) {
        maker.create(&folder).map_err(|error| cannot(&folder, "the folder cannot be made", &error))?;
    }
    let mut order: Vec<usize> =
        (0..tree.entries.len()).filter(|index| tree.entries[*index].preallocated).collect();
    Random::derived(plan.seed, "order", number).shuffle(&mut order);
    let building = Building { root, tree, order, next: AtomicUsize::new(0) };
    // Each file is a stream of its own, so that its content does not depend on who writes it.
    let seed = Random::derived(plan.seed, "content of set", number).bits();
    let sources = (0..plan.builders).map(|_| Source::new(plan.content, seed, PIECE_BYTES)).collect();
    threads::all("--builders", sources, |source, is_stopped| building.work(source, is_stopped))?;
    Ok(())
}

struct Building<'a> {
    root: PathBuf,
    tree: &'a Tree,
    order: Vec<usize>,
    next: AtomicUsize,
}

impl Building<'_> {
    fn work(&self, mut source: Source, is_stopped: &AtomicBool) -> Result<(), Fault> {
        while !is_stopped.load(Ordering::Relaxed) {
            let Some(index) = self.order.get(self.next.fetch_add(1, Ordering::Relaxed)) else { break };
            let entry = &self.tree.entries[*index];
            let path = self.root.join(&entry.path);
            source.restart(*index as u64);
            write_file(&path, entry.bytes, &mut source)
                .map_err(|error| Fault::of_file(&path, "the file cannot be written", error))?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, bytes: u64, source: &mut Source) -> rustix::io::Result<()> {
    let file = files::create(&c_path(path), OFlags::RDWR)?;
    files::write_from(&file, source, bytes, PIECE_BYTES)
}

/// Write the files as lines of `set`, `file`, `path`, `bytes` and whether it exists, apart by tabs.
fn trace(path: &Path, personality: &Personality, trees: &[Tree]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "set\tfile\tpath\tbytes\texists")?;
    for (spec, tree) in personality.sets.iter().zip(trees) {
        for (index, entry) in tree.entries.iter().enumerate() {
            let exists = u8::from(entry.preallocated);
            writeln!(out, "{}\t{index}\t{}\t{}\t{exists}", spec.name, entry.path, entry.bytes)?;
        }
    }
    out.flush()
}
