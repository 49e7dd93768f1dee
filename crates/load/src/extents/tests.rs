// SPDX-License-Identifier: Apache-2.0
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::PathBuf;

use super::fiemap::Extent;
use super::{Pieces, divided};

const COMPRESSED: u32 = 0x8;
const INLINE: u32 = 0x200;

fn pieces(extents: &[(u64, u64, u32)]) -> Pieces {
    let mut pieces = Pieces::default();
    for (physical, bytes, flags) in extents {
        pieces.add(Extent { physical: *physical, bytes: *bytes, flags: *flags });
    }
    pieces
}

#[test]
fn adjacent_extents_are_one_piece() {
    let file = pieces(&[(8192, 4096, 0), (12288, 8192, 0), (4096, 4096, 0), (65536, 4096, 1)]);

    assert_eq!((file.count, file.mapped, file.bytes), (3, 4, 20480));
}

#[test]
fn compressed_extents_that_lie_behind_one_another_are_one_piece() {
    let compressed = 128 << 10;
    let file = pieces(&[
        (1 << 20, compressed, COMPRESSED),
        ((1 << 20) + 40960, compressed, COMPRESSED),
        (64 << 20, compressed, COMPRESSED),
        (32 << 20, compressed, COMPRESSED),
    ]);

    assert_eq!((file.count, file.mapped), (3, 4));
}

#[test]
fn content_in_the_inode_has_no_piece() {
    assert_eq!(pieces(&[(0, 100, INLINE)]).count, 0);
}

#[test]
fn a_tree_is_walked_once_and_links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/one"), [1; 5000]).unwrap();
    fs::write(tree.join("two"), [2; 3000]).unwrap();
    fs::hard_link(tree.join("two"), tree.join("a/same")).unwrap();
    fs::write(tree.join("empty"), []).unwrap();
    fs::write(folder.path().join("outside"), [3; 1000]).unwrap();
    symlink(folder.path().join("outside"), tree.join("link")).unwrap();

    let division = divided(&[tree]).unwrap();

    assert_eq!((division.files, division.bytes, division.files_empty), (2, 8000, 1));
}

#[test]
fn a_file_with_holes_between_has_more_extents_than_one_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    let file = File::create(&path).unwrap();
    // Later parts first, and synced, so that no filesystem can lay them out one behind the other.
    for part in (0..40u64).rev() {
        file.write_all_at(&[7; 4096], part * (1 << 20)).unwrap();
        file.sync_all().unwrap();
    }
    let whole = folder.path().join("whole");
    File::create(&whole).unwrap().write_all(&[7; 4096]).unwrap();

    let division = divided(&[path]).unwrap();

    // tmpfs and ZFS tell nothing.
    if division.supported {
        assert!(division.extents_mapped.unwrap() >= 40);
        assert_eq!(divided(&[whole]).unwrap().in_one_piece, Some(1));
    } else {
        assert_eq!(division.extents, None);
    }
}

#[test]
fn a_path_that_is_missing_is_named() {
    let fault = divided(&[PathBuf::from("/nowhere/at/all")]).unwrap_err();

    assert_eq!(fault.place, "/nowhere/at/all");
}
