// SPDX-License-Identifier: Apache-2.0
//! A run: threads, the window, and the result.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

use rustix::fs::statvfs;
use serde::Serialize;

use crate::clock::now_ns;
use crate::data::{Content, Source};
use crate::faults::{Fault, LoadError};
use crate::personality::durable::Promises;
use crate::personality::file_set::FileSet;
use crate::personality::kept::{self, KeptState};
use crate::personality::measured::{Measured, Schedule};
use crate::personality::prepare::RESERVE_PARTS;
use crate::personality::records::{Departure, Group, Kind, Personality, SetSpec};
use crate::personality::shared::{Ended, Pace, Reason, Shared, Window};
use crate::personality::told::{self, Telling};
use crate::personality::trace::{self, Record};
use crate::personality::tree::Tree;
use crate::personality::worker::Worker;
use crate::random::Random;
use crate::report::{self, RESULT_VERSION, Summaries, Summary, Tally};
use crate::threads;

const TRACED_AT_FIRST: usize = 1 << 16;

pub struct Plan<'a> {
    pub personality: &'a Personality,
    pub departures: Vec<Departure>,
    pub directory: &'a Path,
    pub seed: u64,
    pub content: Content,
    pub state: &'a Path,
    pub trace: Option<&'a Path>,
    pub durable: Option<&'a Path>,
    pub warmup_ns: u64,
    pub duration_ns: u64,
    pub interval_ns: u64,
    /// Operations of the largest group, the first of equally large ones, per second, in open loop.
    pub rate_per_s: Option<f64>,
    /// Where filebench leaves a deletion out because the file is open, delete the next that is not.
    pub passes_over_open: bool,
    /// The passes after which a thread ends.
    pub passes: Option<u64>,
    /// Tell intervals, and let an interrupt end the window.
    pub tells: bool,
    /// Separates this run's random choices from other runs' on the same files: `warmup`, `measure`.
    pub purpose: &'a str,
}

#[derive(Serialize)]
struct Outcome<'a> {
    result_version: u32,
    personality: &'a str,
    seed: u64,
    content: Content,
    departures: &'a [Departure],
    groups: BTreeMap<&'a str, u64>,
    sets: Vec<SetAfter<'a>>,
    rate_per_s: Option<f64>,
    passes_over_open: bool,
    /// From the beginning of the window to its end, or to where it ended early.
    window_ns: u64,
    ended_early: Option<Ended>,
    interval_ns: u64,
    /// Operations completed in each interval.
    intervals: Vec<u64>,
    operations: u64,
    read_bytes: u64,
    written_bytes: u64,
    /// The files' growth, less deletions; the warm-up included.
    growth_bytes: i64,
    /// Deletions in the window of files that somebody had open, which do not count.
    deletes_left_out: u64,
    by_operation: Summaries,
    /// In open loop including passes that were due and not completed, up to the end.
    passes: Summary,
    /// How many those were, in open loop.
    passes_unfinished: Option<u64>,
    lag: Option<Summary>,
}

#[derive(Serialize)]
struct SetAfter<'a> {
    #[serde(flatten)]
    spec: &'a SetSpec,
    files_existing: usize,
    bytes: u64,
}

/// Run; a failure is reported after the result, which says how far the run came.
pub fn run(plan: &Plan) -> Result<(), LoadError> {
    let state = kept::read(plan.state, plan.personality, plan.seed).map_err(LoadError::Input)?;
    let sets = plan.personality.sets.iter().zip(0..).zip(&state.sets);
    let file_sets = sets
        .map(|((spec, number), kept)| {
            FileSet::new(spec.clone(), &Tree::of(spec, number, plan.seed), plan.directory, kept)
        })
        .collect();
    let mut shared = Shared::new(file_sets, growth_bytes_max(plan.directory)?);
    shared.passes_over_open = plan.passes_over_open;
    if let Some(path) = plan.durable {
        shared.promises = Some(Promises::open(path, shared.file_sets.iter().map(|set| set.files.len()))?);
    }
    if plan.tells {
        told::end_by_interrupt();
        shared.telling = Some(Telling::default());
    }
    let (window, finished) = run_threads(plan, &shared)?;
    let elapsed_ns = now_ns().saturating_sub(window.start_ns).clamp(1, plan.duration_ns);
    let sets: Vec<_> = shared.file_sets.iter().map(FileSet::kept).collect();
    let ended = shared.ended().or_else(|| Ended::known(&window));
    print(plan, &shared, elapsed_ns, &finished, ended.clone());
    kept::write(plan.state, &KeptState { sets, ..state })?;
    if let Some(path) = plan.trace {
        let names: Vec<_> = plan.personality.sets.iter().map(|set| set.name.as_str()).collect();
        let records: Vec<_> = finished.into_iter().map(|(_, records)| records.unwrap_or_default()).collect();
        trace::write(path, &records, &names)
            .map_err(|error| Fault::of_file(path, "the trace cannot be written", error))?;
    }
    match ended {
        Some(Ended { reason: Reason::Error, detail, .. }) => Err(Fault::new(
            "the run",
            detail,
            "see to what the filesystem says; the result holds what was before",
        )
        .into()),
        _ => Ok(()),
    }
}

/// The files' permitted growth: copy-on-write filesystems need room even to delete.
fn growth_bytes_max(directory: &Path) -> Result<u64, LoadError> {
    let space = statvfs(directory)
        .map_err(|error| Fault::of_file(directory, "it cannot be asked for its space", error))?;
    let free_bytes = space.f_bavail * space.f_frsize;
    Ok(free_bytes - free_bytes / RESERVE_PARTS)
}

type Finished = Vec<(Measured, Option<Vec<Record>>)>;

/// Where threads wait until all of them are there.
#[derive(Default)]
struct Gate {
    /// Opened: with the window, or without if the run is off.
    opened: OnceLock<Option<Window>>,
    turn: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    fn open(&self, window: Option<Window>) {
        let turn = self.turn.lock();
        let _ = self.opened.set(window);
        drop(turn);
        self.changed.notify_all();
    }

    fn wait(&self) -> Option<Window> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(window) = self.opened.get() {
                return *window;
            }
            turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn run_threads(plan: &Plan, shared: &Shared) -> Result<(Window, Finished), LoadError> {
    let paces: Vec<Pace> = plan.personality.groups.iter().map(|_| Pace::new()).collect();
    let mut workers = workers(plan, shared, &paces);
    // On the calling thread: a second one makes some system calls dearer, which a load of one thread would show.
    let mut last = workers.pop().expect("a personality has threads");
    let gate = Gate::default();
    let finished = thread::scope(|scope| {
        let mut running = Vec::with_capacity(workers.len());
        for mut worker in workers {
            let gate = &gate;
            let work = move || {
                if let Some(window) = gate.wait() {
                    worker.run(&window);
                }
                (worker.measured, worker.trace)
            };
            running.push(threads::start(scope, "--threads", work).inspect_err(|_| gate.open(None))?);
        }
        let begin_ns = now_ns();
        let start_ns = begin_ns + plan.warmup_ns;
        let window =
            Window { begin_ns, start_ns, end_ns: start_ns + plan.duration_ns, interval_ns: plan.interval_ns };
        gate.open(Some(window));
        last.run(&window);
        let mut finished: Finished =
            running.into_iter().map(|thread| thread.join().expect("a thread ends in order")).collect();
        finished.push((last.measured, last.trace));
        Ok::<_, Fault>((window, finished))
    })?;
    Ok(finished)
}

fn workers<'a>(plan: &'a Plan, shared: &'a Shared, paces: &'a [Pace]) -> Vec<Worker<'a>> {
    let groups = &plan.personality.groups;
    let largest = groups.iter().map(|group| group.threads).max();
    // The first of equally large ones.
    let lead = groups.iter().position(|group| Some(group.threads) == largest);
    let mut workers = Vec::new();
    for (index, (group, pace)) in groups.iter().zip(paces).enumerate() {
        let rate_per_s = plan.rate_per_s.filter(|_| Some(index) == lead);
        for _ in 0..group.threads {
            workers.push(worker(plan, shared, (group, pace), rate_per_s, workers.len() as u64));
        }
    }
    workers
}

fn worker<'a>(
    plan: &Plan,
    shared: &'a Shared,
    (group, pace): (&'a Group, &'a Pace),
    rate_per_s: Option<f64>,
    number: u64,
) -> Worker<'a> {
    let purpose = |what: &str| format!("{what} of {}", plan.purpose);
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let schedule = rate_per_s.map(|operations_per_s| {
        let passes_per_s = operations_per_s / group.operations() as f64 / group.threads as f64;
        Schedule::new(Random::derived(plan.seed, &purpose("arrivals"), number), passes_per_s)
    });
    let written_bytes = group.steps.iter().map(|step| step.buffers().1).max().unwrap_or(0);
    let seed = Random::derived(plan.seed, &purpose("content"), number).bits();
    let source = Source::new(plan.content, seed, written_bytes);
    let random = Random::derived(plan.seed, &purpose("thread"), number);
    let intervals = plan.duration_ns.div_ceil(plan.interval_ns);
    let mut worker = Worker::new(shared, group, pace, random, source);
    worker.time_by(schedule, usize::try_from(intervals).unwrap_or(0));
    worker.passes_left = plan.passes.unwrap_or(u64::MAX);
    worker.trace = plan.trace.map(|_| Vec::with_capacity(TRACED_AT_FIRST));
    worker
}

fn print(plan: &Plan, shared: &Shared, elapsed_ns: u64, finished: &Finished, ended: Option<Ended>) {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let (mut passes, mut lag) = (Tally::new(), None::<Tally>);
    let mut intervals = vec![0; finished.first().map_or(0, |(measured, _)| measured.intervals.len())];
    let mut bytes = [0, 0];
    for (measured, _) in finished {
        for ((kind, name), tally) in Kind::ALL.into_iter().zip(&measured.tallies) {
            if let Some(tally) = tally {
                bytes[usize::from(!kind.is_read())] += tally.bytes;
                tallies.entry(name).or_default().add(tally);
            }
        }
        passes.add(&measured.passes);
        if let Some(other) = &measured.lag {
            lag.get_or_insert_default().add(other);
        }
        for (sum, count) in intervals.iter_mut().zip(&measured.intervals) {
            *sum += count;
        }
    }
    let after = |file_set: &FileSet| {
        let sizes = file_set.kept().sizes;
        (sizes.iter().flatten().count(), sizes.iter().flatten().sum())
    };
    let sets = plan.personality.sets.iter().zip(&shared.file_sets).map(|(spec, file_set)| {
        let (files_existing, bytes) = after(file_set);
        SetAfter { spec, files_existing, bytes }
    });
    report::print(&Outcome {
        result_version: RESULT_VERSION,
        personality: &plan.personality.name,
        seed: plan.seed,
        content: plan.content,
        departures: &plan.departures,
        groups: plan.personality.groups.iter().map(|group| (group.name.as_str(), group.threads)).collect(),
        sets: sets.collect(),
        rate_per_s: plan.rate_per_s,
        passes_over_open: plan.passes_over_open,
        // Threads come to an end some time after the window.
        window_ns: ended.as_ref().map_or(elapsed_ns, |ended| ended.at_ns.min(plan.duration_ns)),
        ended_early: ended,
        interval_ns: plan.interval_ns,
        operations: intervals.iter().sum(),
        intervals,
        read_bytes: bytes[0],
        written_bytes: bytes[1],
        growth_bytes: shared.growth_bytes(),
        deletes_left_out: finished.iter().map(|(measured, _)| measured.deletes_left_out).sum(),
        by_operation: tallies.iter().map(|(name, tally)| ((*name).to_owned(), tally.summary())).collect(),
        passes: passes.summary(),
        passes_unfinished: lag
            .is_some()
            .then(|| finished.iter().map(|(measured, _)| measured.passes_unfinished).sum()),
        lag: lag.map(|lag| lag.summary()),
    });
}
