// SPDX-License-Identifier: Apache-2.0
//! The extents of many files, as a distribution.

use serde::Serialize;

/// How files are divided.
#[derive(Debug, Serialize)]
pub struct Division {
    /// Whether the filesystem reports where files lie. If not, only files and bytes are known.
    pub supported: bool,
    /// Files with content, and the bytes of their content.
    pub files: u64,
    pub bytes: u64,
    pub files_empty: u64,
    /// Pieces, each physically contiguous.
    pub extents: Option<u64>,
    /// The extents of the filesystem's own map, of which adjacent ones are one piece.
    pub extents_mapped: Option<u64>,
    pub extents_per_file: Option<PerFile>,
    /// Files of one piece, or with all of their content in the inode.
    pub in_one_piece: Option<u64>,
    /// None if no file has an extent.
    pub bytes_per_extent_mean: Option<f64>,
    /// Each group holds the files with more extents than the group before, up to this limit.
    pub distribution: Option<Vec<Group>>,
}

#[derive(Debug, Serialize)]
pub struct PerFile {
    pub mean: f64,
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    pub extents_max: u64,
    pub files: u64,
}

/// The counts so far.
#[derive(Default)]
pub struct Files {
    counts: Vec<u64>,
    mapped: u64,
    bytes: u64,
    bytes_mapped: u64,
    unknown: u64,
    empty: u64,
}

impl Files {
    pub fn add(&mut self, bytes: u64, extents: u64, mapped: u64, bytes_mapped: u64) {
        self.counts.push(extents);
        self.mapped += mapped;
        self.bytes += bytes;
        self.bytes_mapped += bytes_mapped;
    }

    pub fn add_unknown(&mut self, bytes: u64) {
        self.unknown += 1;
        self.bytes += bytes;
    }

    pub fn add_empty(&mut self) {
        self.empty += 1;
    }

    #[expect(clippy::cast_precision_loss, reason = "means")]
    pub fn division(mut self) -> Division {
        self.counts.sort_unstable();
        let files = self.counts.len() as u64 + self.unknown;
        let supported = self.unknown == 0;
        let extents = self.counts.iter().sum::<u64>();
        let per_file = self.counts.last().map(|max| PerFile {
            mean: extents as f64 / self.counts.len() as f64,
            p50: quantile(&self.counts, 50),
            p99: quantile(&self.counts, 99),
            max: *max,
        });
        let mean = (extents > 0).then(|| self.bytes_mapped as f64 / extents as f64);
        Division {
            supported,
            files,
            bytes: self.bytes,
            files_empty: self.empty,
            extents: supported.then_some(extents),
            extents_mapped: supported.then_some(self.mapped),
            extents_per_file: per_file.filter(|_| supported),
            in_one_piece: supported.then(|| self.counts.partition_point(|count| *count <= 1) as u64),
            bytes_per_extent_mean: mean.filter(|_| supported),
            distribution: supported.then(|| groups(&self.counts)),
        }
    }
}

/// The smallest count that at least `percent` of the files do not exceed (nearest rank).
fn quantile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

fn groups(sorted: &[u64]) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut start = 0;
    let mut extents_max = 1;
    while start < sorted.len() {
        let end = sorted.partition_point(|count| *count <= extents_max);
        groups.push(Group { extents_max, files: (end - start) as u64 });
        start = end;
        extents_max *= 2;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::{Files, Group};

    #[test]
    fn files_are_summed_up_as_a_distribution() {
        let mut files = Files::default();
        for extents in [1, 1, 0, 2, 9] {
            files.add(10_000, extents, extents + 1, 8_192);
        }
        files.add_empty();

        let division = files.division();

        assert!(division.supported);
        assert_eq!((division.files, division.bytes, division.files_empty), (5, 50_000, 1));
        assert_eq!(
            (division.extents, division.extents_mapped, division.in_one_piece),
            (Some(13), Some(18), Some(3))
        );
        let per_file = division.extents_per_file.unwrap();
        assert_eq!((per_file.p50, per_file.p99, per_file.max), (1, 9, 9));
        assert!((per_file.mean - 2.6).abs() < 1e-9);
        assert!((division.bytes_per_extent_mean.unwrap() - 8192.0 * 5.0 / 13.0).abs() < 1e-6);
        let expected = [(1, 3), (2, 1), (4, 0), (8, 0), (16, 1)];
        let expected: Vec<Group> =
            expected.into_iter().map(|(extents_max, files)| Group { extents_max, files }).collect();
        assert_eq!(division.distribution.unwrap(), expected);
    }

    #[test]
    fn without_extents_no_summary_is_claimed() {
        let mut files = Files::default();
        files.add_unknown(10_000);

        let division = files.division();

        assert!(!division.supported);
        assert_eq!((division.files, division.bytes), (1, 10_000));
        assert!(
            division.extents.is_none() && division.in_one_piece.is_none() && division.distribution.is_none()
        );
    }
}
