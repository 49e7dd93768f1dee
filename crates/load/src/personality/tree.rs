// SPDX-License-Identifier: Apache-2.0
//! The files of a set and the tree of directories around them, as filebench populates them (`fileset.c`).

use crate::personality::gamma::gamma_of_mean;
use crate::personality::records::SetSpec;
use crate::random::Random;

/// A file of a set. Its number is its place in the order of drawing, which rotation follows.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Below the folder of the set: `00000003/00000001`.
    pub path: String,
    /// The size when written whole.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::personality::definition;

    /// At this distance, times the root of the count, one sample of a hundred that has the distribution is refused
    /// (Kolmogorov); the seeds are fixed, so what passes passes always.
    const KOLMOGOROV_1_PERCENT: f64 = 1.63;

    fn spec(name: &str) -> SetSpec {
        definition::load(name).unwrap().sets.remove(0)
    }

    /// The distribution function of the gamma distribution of shape 1.5.
    fn gamma(value: f64, mean: f64) -> f64 {
        let x = value / (mean / 1.5);
        libm::erf(libm::sqrt(x)) - 2.0 / libm::sqrt(std::f64::consts::PI) * libm::sqrt(x) * libm::exp(-x)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of thousands")]
    fn distance(mut sample: Vec<f64>, distribution: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f64::total_cmp);
        let count = sample.len() as f64;
        let apart = sample.iter().enumerate().map(|(index, value)| {
            let wanted = distribution(*value);
            (wanted - index as f64 / count).abs().max(((index + 1) as f64 / count - wanted).abs())
        });
        apart.fold(0.0, f64::max) * libm::sqrt(count)
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "sizes of files")]
    fn sizes_are_gamma_distributed_around_the_mean_of_the_definition() {
        for (name, mean) in [("fileserver", 131_072.0), ("varmail", 16_384.0), ("webserver", 16_384.0)] {
            let mut spec = spec(name);
            assert!((spec.file_bytes as f64 - mean).abs() < f64::EPSILON, "{name}");
            spec.files = 10_000;
            for seed in 1..=5 {
                let tree = Tree::of(&spec, 0, seed);
                assert_eq!(tree.entries.len(), 10_000);
                // A size is truncated: half a byte is given back.
                let sizes: Vec<f64> = tree.entries.iter().map(|entry| entry.bytes as f64 + 0.5).collect();
                let found = sizes.iter().sum::<f64>() / 10_000.0;
                // The mean's standard deviation: mean / sqrt(1.5) / sqrt(10000); three of them.
                assert!((found / mean - 1.0).abs() < 3.0 / libm::sqrt(1.5) / 100.0, "{name} {seed}: {found}");
                let apart = distance(sizes, |size| gamma(size, mean));
                assert!(apart < KOLMOGOROV_1_PERCENT, "{name} {seed}: {apart}");
            }
        }
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "counts of files")]
    fn directories_are_as_wide_as_the_definition_says() {
        let mut spec = spec("fileserver");
        spec.files = 100_000;
        for seed in 1..=3 {
            let tree = Tree::of(&spec, 0, seed);
            let mut widths: BTreeMap<&str, u32> = BTreeMap::new();
            for entry in &tree.entries {
                *widths.entry(entry.path.rsplit_once('/').unwrap().0).or_default() += 1;
            }
            // The last one is cut off by the end of the set.
            widths.pop_last();
            let count = widths.len();
            assert!(count > 3000, "{count}");
            // A drawn width is rounded up; what lies between two whole numbers is the upper one's.
            let sample: Vec<f64> = widths.values().map(|width| f64::from(*width)).collect();
            let shares =
                |width: f64| sample.iter().filter(|found| **found <= width).count() as f64 / count as f64;
            let apart =
                (1..=120).map(|width| (shares(f64::from(width)) - gamma(f64::from(width), 20.0)).abs());
            let apart = apart.fold(0.0, f64::max) * libm::sqrt(count as f64);
            assert!(apart < KOLMOGOROV_1_PERCENT, "{seed}: {apart}");
        }
    }

    #[test]
    fn a_share_of_the_files_exists_at_the_start() {
        let mut spec = spec("fileserver");
        spec.files = 10_000;
        for seed in 1..=5 {
            let existing = Tree::of(&spec, 0, seed).entries.iter().filter(|entry| entry.preallocated).count();
            // Binomial with 10000 coins of 80 %: standard deviation 40; three of them.
            assert!(existing.abs_diff(8000) < 120, "{seed}: {existing}");
        }
        let all = Tree::of(&self::spec("webserver"), 0, 1);
        assert!(all.entries.iter().all(|entry| entry.preallocated));
    }

    #[test]
    fn a_mail_server_has_one_flat_folder() {
        let tree = Tree::of(&spec("varmail"), 0, 1);
        assert_eq!(tree.directories, ["00000001"]);
        assert_eq!(tree.entries[999].path, "00000001/00001000");
    }

    #[test]
    fn a_file_depends_on_seed_and_number_alone() {
        let mut few = spec("varmail");
        let many = Tree::of(&few, 0, 1);
        few.files = 10;
        assert_eq!(Tree::of(&few, 0, 1).entries, many.entries[..10]);
        assert_ne!(Tree::of(&few, 0, 2).entries, many.entries[..10]);
        assert_ne!(Tree::of(&few, 1, 1).entries[0].bytes, many.entries[0].bytes);
    }

    #[test]
    fn a_set_of_one_file_has_a_folder_too() {
        let log = definition::load("webserver").unwrap().sets.remove(1);
        assert_eq!(Tree::of(&log, 1, 1).entries[0].path, "00000001/00000001");
    }
}
