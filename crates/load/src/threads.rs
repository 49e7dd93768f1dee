// SPDX-License-Identifier: Apache-2.0
//! Threads of a load: how they are started, and how the first that fails ends the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

use crate::faults::Fault;

/// A thread's stack; its data are in buffers, so most of a larger one would never be touched.
const STACK_BYTES: usize = 256 << 10;

/// Start a thread; `option` sets the number of threads.
pub fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    option: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Fault> {
    thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).map_err(|error| {
        let cause = format!("a thread cannot be started: {error}");
        Fault::new(option, cause, "run fewer threads, or allow more tasks")
    })
}

/// Let each worker `work` on a thread of its own. When one fails, or cannot be started, the others stop.
pub fn all<W: Send, T: Send>(
    option: &str,
    workers: Vec<W>,
    work: impl Fn(W, &AtomicBool) -> Result<T, Fault> + Sync,
) -> Result<Vec<T>, Fault> {
    let (work, is_stopped) = (&work, &AtomicBool::new(false));
    thread::scope(|scope| {
        let mut running = Vec::with_capacity(workers.len());
        let mut fault = None;
        for worker in workers {
            let started = start(scope, option, move || {
                let done = work(worker, is_stopped);
                if done.is_err() {
                    is_stopped.store(true, Ordering::Relaxed);
                }
                done
            });
            match started {
                Ok(thread) => running.push(thread),
                Err(refused) => {
                    is_stopped.store(true, Ordering::Relaxed);
                    fault = Some(refused);
                    break;
                }
            }
        }
        let mut all = Vec::with_capacity(running.len());
        for thread in running {
            match thread.join().expect("a thread does not panic") {
                Ok(done) => all.push(done),
                Err(failed) => drop(fault.get_or_insert(failed)),
            }
        }
        fault.map_or(Ok(all), Err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_fails_stops_the_others() {
        let fault = || Fault::new("/mnt/files/3", "the filesystem said: no", "see to it");

        let done = all("--threads", vec![1, 2, 3], |number, is_stopped| {
            if number == 2 {
                return Err(fault());
            }
            while !is_stopped.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Ok(number)
        });

        assert_eq!(done, Err(fault()));
        assert_eq!(all("--threads", vec![1, 2], |number, _| Ok(number)), Ok(vec![1, 2]));
    }
}
