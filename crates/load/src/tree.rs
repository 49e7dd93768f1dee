// SPDX-License-Identifier: Apache-2.0
//! The files of a set and the tree of directories around them, as filebench populates them (`fileset.c`).

use crate::gamma::gamma_of_mean;
use crate::personality::SetSpec;
use crate::random::Random;

/// A file of a set. Its number is its place in the order in which the tree was drawn, by which files are rotated through.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Below the folder of the set: `00000003/00000001`.
    pub path: String,
    /// What it has when it is written as a whole.
    pub bytes: u64,
    /// Whether it exists at the start.
    pub preallocated: bool,
}

/// The files, and the directories in an order in which they can be made.
#[derive(Debug, PartialEq, Eq)]
pub struct Tree {
    pub directories: Vec<String>,
    pub entries: Vec<Entry>,
}

impl Tree {
    /// The tree of set `number`. Everything about a file depends on the seed, the set and its number alone.
    pub fn of(spec: &SetSpec, number: u64, seed: u64) -> Self {
        let mut tree = Self { directories: Vec::new(), entries: Vec::new() };
        let mut drawing = Drawing {
            spec,
            seed: Random::derived(seed, "set", number).bits(),
            shape: Random::derived(seed, "directories", number),
            depth_mean: mean_depth(spec),
            tree: &mut tree,
        };
        drawing.directory("", true, 0);
        tree
    }

    /// The sizes of all files, existing or not, in bytes.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of files and entries")]
fn mean_depth(spec: &SetSpec) -> f64 {
    libm::log(spec.files as f64) / libm::log(spec.directory_width.max(2) as f64)
}

struct Drawing<'a> {
    spec: &'a SetSpec,
    seed: u64,
    shape: Random,
    depth_mean: f64,
    tree: &'a mut Tree,
}

impl Drawing<'_> {
    fn is_complete(&self) -> bool {
        self.tree.entries.len() as u64 >= self.spec.files
    }

    /// Fill one directory at depth `above` + 1 with files if its drawn depth is reached, else with directories.
    ///
    /// The root is filled until the set is complete, and never with files.
    fn directory(&mut self, path: &str, is_root: bool, above: u32) {
        let depth = above + 1;
        // The draw is truncated, and nothing is at depth 0.
        let depth_drawn =
            gamma_of_mean(&mut self.shape, self.depth_mean, self.spec.directory_shape).floor().max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "a count of entries")]
        let width_mean = self.spec.directory_width as f64;
        let drawn = gamma_of_mean(&mut self.shape, width_mean, self.spec.directory_shape);
        let width = if drawn == 0.0 { 1.0 } else { drawn };
        let is_leaf = f64::from(depth) >= depth_drawn;
        let mut serial: u32 = 1;
        while (is_root || f64::from(serial) < width + 1.0) && !self.is_complete() {
            let name = if is_root { format!("{serial:08}") } else { format!("{path}/{serial:08}") };
            if is_leaf && !is_root {
                self.file(name);
            } else {
                self.tree.directories.push(name.clone());
                self.directory(&name, false, depth);
            }
            serial += 1;
        }
    }

    fn file(&mut self, path: String) {
        let mut random = Random::derived(self.seed, "file", self.tree.entries.len() as u64);
        #[expect(clippy::cast_precision_loss, reason = "a mean size")]
        let drawn = gamma_of_mean(&mut random, self.spec.file_bytes as f64, self.spec.file_shape);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "filebench truncates it too"
        )]
        let bytes = drawn as u64;
        let preallocated = random.below(100) < self.spec.preallocated_percent;
        self.tree.entries.push(Entry { path, bytes, preallocated });
    }
}
