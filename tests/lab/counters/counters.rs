// SPDX-License-Identifier: Apache-2.0

//! The processor's counter and Rust's clock around the same writes.

use std::arch::x86_64::{__rdtscp, _rdtsc};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

fn main() {
    let path = std::env::args().nth(1).expect("a file");
    let file = File::create(path).expect("made");
    let mut processor = 0;
    let (counter, counter_p) = unsafe { (_rdtsc(), __rdtscp(&mut processor)) };
    let start = Instant::now();
    for i in 0..20 {
        file.write_all_at(b"x", i * 4096).expect("written");
        file.sync_all().expect("flushed");
    }
    let (counter, counter_p) = unsafe { (_rdtsc() - counter, __rdtscp(&mut processor) - counter_p) };
    println!("rdtsc {counter} rdtscp {counter_p} clock {} processors {processor}", start.elapsed().as_nanos());
}
