// SPDX-License-Identifier: Apache-2.0
//! Counts a thread's allocations, to show that the loop of a load makes none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the promises that the callee requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread has allocated.
pub fn count() -> u64 {
    COUNT.get()
}

mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::count as allocations;
    use crate::clock::{NS_PER_MS, now_ns};
    use crate::data::{Content, Source};
    use crate::files;
    use crate::personality::definition;
    use crate::personality::file_set::{FileSet, Kept};
    use crate::personality::measured::Schedule;
    use crate::personality::records::Kind;
    use crate::personality::shared::{Pace, Shared, Window};
    use crate::personality::tree::Tree;
    use crate::personality::worker::Worker;
    use crate::random::Random;

    const FILE_BYTES: usize = 5000;
    /// Enough for each kind of operation, and a count rather than a time: a busy disk may delay any of them.
    const PASSES: u64 = 20;
    const HOUR_NS: u64 = 3_600_000 * NS_PER_MS;

    /// Go through a personality's loop on this thread; how many operations it did, and how often it allocated.
    fn run(name: &str, schedule: Option<Schedule>) -> (u64, u64) {
        let folder = tempfile::tempdir().unwrap();
        let personality = definition::load(name).unwrap();
        let mut file_sets = Vec::new();
        for (mut spec, number) in personality.sets.into_iter().zip(0..) {
            spec.files = spec.files.min(300);
            let tree = Tree::of(&spec, number, 3);
            for directory in &tree.directories {
                std::fs::create_dir_all(folder.path().join(&spec.name).join(directory)).unwrap();
            }
            let sizes =
                tree.entries.iter().map(|entry| entry.preallocated.then_some(FILE_BYTES as u64)).collect();
            let files = tree.entries.len();
            let kept = Kept { name: spec.name.clone(), files, existing_next: 0, missing_next: 0, sizes };
            let file_set = FileSet::new(spec, &tree, folder.path(), &kept);
            for (file, entry) in file_set.files.iter().zip(&tree.entries) {
                if entry.preallocated {
                    let made = files::create(&file.path, rustix::fs::OFlags::RDWR).unwrap();
                    std::fs::File::from(made).write_all_at(&[7; FILE_BYTES], 0).unwrap();
                }
            }
            file_sets.push(file_set);
        }
        let shared = Shared::new(file_sets, 1 << 30);
        let pace = Pace::new();
        let content = Content { compressibility_percent: 50, duplication_percent: 10, is_zeros: false };
        let source = Source::new(content, 1, 1 << 20);
        let random = Random::derived(1, "thread", 0);
        let mut worker = Worker::new(&shared, &personality.groups[0], &pace, random, source);
        worker.time_by(schedule, 10);
        worker.passes_left = PASSES;
        let begin_ns = now_ns();
        let window =
            Window { begin_ns, start_ns: begin_ns, end_ns: begin_ns + HOUR_NS, interval_ns: HOUR_NS / 10 };
        let before = allocations();
        worker.run(&window);
        let allocated = allocations() - before;
        assert_eq!(shared.ended(), None);
        let count = worker.measured.tallies.iter().flatten().map(|tally| tally.count).sum();
        assert!(worker.measured.tallies[Kind::Close as usize].as_ref().is_some_and(|tally| tally.count > 0));
        let read = worker.measured.tallies[Kind::ReadWhole as usize].as_ref();
        assert!(read.is_some_and(|tally| tally.bytes > 0), "{name}");
        (count, allocated)
    }

    #[test]
    fn the_loop_allocates_nothing() {
        for name in ["fileserver", "varmail", "webserver", "webproxy"] {
            let (count, allocated) = run(name, None);
            assert!(count > 0, "{name}");
            assert_eq!(allocated, 0, "{name}");
        }
    }

    #[test]
    fn the_open_loop_allocates_nothing() {
        let (count, allocated) =
            run("varmail", Some(Schedule::new(Random::derived(1, "arrivals", 0), 1000.0)));
        assert!(count > 0);
        assert_eq!(allocated, 0);
    }

    #[test]
    fn allocations_are_counted() {
        let before = allocations();
        drop(std::hint::black_box(vec![0_u8; 100]));
        assert_eq!(allocations(), before + 1);
    }
}
