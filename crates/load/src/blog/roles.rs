// SPDX-License-Identifier: Apache-2.0
//! The operations of writers, rewriters, commenters and readers, until the time is over.

use rustix::io::Errno;

use super::Options;
use super::files::{FILE_CALLS, Kind, NUMBER_MAX, Operation, PATH_BYTES, Paths, READ_BYTES, WRITE_BYTES};
use super::site::{Counts, Event, Site};
use crate::buffer::Buffer;
use crate::clock::{NS_PER_S, now_ns, sleep_until_ns};
use crate::data::{Content, Source};
use crate::faults::Fault;
use crate::list::{self, List};
use crate::random::Random;
use crate::report::Tally;

const NS_PER_US: u64 = 1000;
/// How many files a reader reads by one list, and the calls for each.
const LISTED_FILES: usize = 32;
/// More than any file has.
const WRITTEN_BYTES_MAX: usize = 65_536;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Writer,
    Rewriter,
    Commenter,
    Reader,
}

/// Why a thread does not go on with a blog.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing to do there, or another thread took the file away: the original waits for a second.
    Missing,
    /// The time is over, or a fault was reported.
    Over,
}

/// One thread, with all the memory that it will ever need.
pub struct Thread<'a> {
    role: Role,
    site: &'a Site,
    counts: &'a Counts,
    random: Random,
    paths: Paths,
    source: Source,
    buffer: Buffer,
    list: Option<List>,
    tallies: [Tally; Operation::ALL.len()],
    pause_ns: u64,
    /// The end of the last operation, which is the start of the next: one reading of the clock for each.
    last_ns: u64,
}

impl<'a> Thread<'a> {
    pub fn new(role: Role, number: u64, site: &'a Site, counts: &'a Counts, options: &Options) -> Self {
        // A reader writes nothing, and zeros take no memory.
        let (content, written_bytes, read_bytes) = match role {
            Role::Reader => (Content::ZEROS, 0, READ_BYTES),
            _ => (options.content.content(), WRITE_BYTES, 0),
        };
        let mut source = Source::new(content, options.seed, written_bytes);
        source.restart(number);
        Self {
            role,
            site,
            counts,
            random: Random::derived(options.seed, "blog", number),
            paths: Paths::new(),
            source,
            buffer: Buffer::new(read_bytes),
            list: List::new(
                list::chosen(),
                LISTED_FILES * FILE_CALLS,
                LISTED_FILES * PATH_BYTES + if role == Role::Reader { 0 } else { WRITTEN_BYTES_MAX },
                READ_BYTES,
            ),
            tallies: Operation::ALL.map(|_| Tally::new()),
            pause_ns: if role == Role::Reader { options.reader_pause_us * NS_PER_US } else { 0 },
            last_ns: 0,
        }
    }

    pub fn tally(&self, operation: Operation) -> &Tally {
        &self.tallies[operation.index()]
    }

    /// Play the role until the time is over; returns the thread with its tallies.
    pub fn run(mut self) -> Self {
        self.last_ns = now_ns();
        while self.last_ns < self.site.end_ns() && !self.site.is_stopped() {
            let done = match self.role {
                Role::Writer => self.write_blog(),
                Role::Rewriter => self.rewrite_some_blog(),
                Role::Commenter => self.comment_some_blog(),
                Role::Reader => self.read_some_blog(),
            };
            match done {
                Ok(()) if self.pause_ns > 0 => self.sleep(self.pause_ns),
                Ok(()) => {}
                Err(Stop::Missing) => {
                    self.counts.count(Event::Wait);
                    self.sleep(NS_PER_S);
                }
                Err(Stop::Over) => break,
            }
        }
        self
    }

    fn sleep(&mut self, time_ns: u64) {
        sleep_until_ns((now_ns() + time_ns).min(self.site.end_ns()));
        self.last_ns = now_ns();
    }

    pub(super) fn write_blog(&mut self) -> Result<(), Stop> {
        let blog = self.site.new_blog();
        let made = self.paths.make_blog(&self.site.folder, blog);
        self.settled(made)?;
        // Making the folder is none of the operations.
        self.last_ns = now_ns();
        for kind in [Kind::Article, Kind::Picture] {
            for number in (1..=self.some_number()).rev() {
                self.write(blog, kind, number)?;
            }
        }
        self.counts.count(Event::BlogWritten);
        Ok(())
    }

    pub(super) fn rewrite_some_blog(&mut self) -> Result<(), Stop> {
        let blog = self.some_known_blog()?;
        if self.random.below(2) == 0 {
            let number = self.some_number();
            self.write(blog, Kind::Picture, number)?;
        }
        let number = self.some_number();
        self.write(blog, Kind::Article, number)
    }

    pub(super) fn comment_some_blog(&mut self) -> Result<(), Stop> {
        let blog = self.site.some_blog(&mut self.random);
        for number in (1..=self.some_number()).rev() {
            self.write(blog, Kind::Comment, number)?;
        }
        Ok(())
    }

    pub(super) fn read_some_blog(&mut self) -> Result<(), Stop> {
        let blog = self.some_known_blog()?;
        if self.random.below(2) == 0 {
            self.read_all(blog, &[Kind::Comment])?;
        }
        self.read_all(blog, &[Kind::Picture, Kind::Article])?;
        self.counts.count(Event::BlogRead);
        Ok(())
    }

    /// Read files of these kinds by turns, up to the first that is missing of the last kind.
    fn read_all(&mut self, blog: u64, kinds: &[Kind]) -> Result<(), Stop> {
        if let Some(mut list) = self.list.take() {
            let read = self.read_listed(blog, kinds, &mut list);
            self.list = Some(list);
            return read;
        }
        for number in 1.. {
            let mut is_there = false;
            for kind in kinds {
                is_there = self.read(blog, *kind, number)?;
            }
            if !is_there {
                break;
            }
        }
        Ok(())
    }

    /// The same, many files at a time.
    fn read_listed(&mut self, blog: u64, kinds: &[Kind], list: &mut List) -> Result<(), Stop> {
        let mut number = 1;
        loop {
            let begin = number;
            list.clear();
            while list.has_room(kinds.len() * FILE_CALLS, kinds.len() * PATH_BYTES) {
                for kind in kinds {
                    let ends = kinds.last() == Some(kind);
                    self.paths.list_read(list, &self.site.folder, (blog, *kind, number), ends);
                }
                number += 1;
            }
            list.run(self.site.end_ns());
            let numbers = (begin..number).flat_map(|number| kinds.iter().map(move |kind| (number, *kind)));
            for (first, (number, kind)) in (0..list.len()).step_by(FILE_CALLS).zip(numbers) {
                let opened = list.result(first).ok_or(Stop::Over)?;
                let close = first + FILE_CALLS - 1;
                let at_ns = if opened.is_err() { list.made_ns(first) } else { list.made_ns(close) };
                let read = opened.and_then(|_| list.result(first + 1).unwrap_or(Ok(0)));
                self.paths.name(blog, kind, number);
                let is_there = self.count_read(kind, read, at_ns.ok_or(Stop::Over)?)?;
                if !is_there && kinds.last() == Some(&kind) {
                    return Ok(());
                }
            }
        }
    }

    fn some_known_blog(&mut self) -> Result<u64, Stop> {
        match self.site.some_blog(&mut self.random) {
            0 => Err(Stop::Missing),
            blog => Ok(blog),
        }
    }

    fn some_number(&mut self) -> u64 {
        1 + self.random.below(NUMBER_MAX)
    }

    fn write(&mut self, blog: u64, kind: Kind, number: u64) -> Result<(), Stop> {
        let (least, end) = kind.sizes();
        let bytes = least + self.random.below(end - least);
        let Self { paths, source, list, .. } = self;
        let written = paths.write(&self.site.folder, (blog, kind, number), source, list.as_mut(), bytes);
        self.settled(written)?;
        self.record(Operation::Write(kind), bytes, now_ns())?;
        self.counts.count(match kind {
            Kind::Article => Event::ArticleWritten,
            Kind::Picture => Event::PictureWritten,
            Kind::Comment => Event::CommentWritten,
        });
        Ok(())
    }

    /// Read a file; returns whether it is there.
    fn read(&mut self, blog: u64, kind: Kind, number: u64) -> Result<bool, Stop> {
        let read = self.paths.read(&self.site.folder, (blog, kind, number), &mut self.buffer);
        self.count_read(kind, read, now_ns())
    }

    fn count_read(&mut self, kind: Kind, read: Result<u64, Errno>, at_ns: u64) -> Result<bool, Stop> {
        if read == Err(Errno::NOENT) {
            self.record(Operation::Miss, 0, at_ns)?;
            return Ok(false);
        }
        let bytes = self.settled(read)?;
        self.record(Operation::Read(kind), bytes, at_ns)?;
        self.counts.count(match kind {
            Kind::Article => Event::ArticleRead,
            Kind::Picture => Event::PictureRead,
            Kind::Comment => Event::CommentRead,
        });
        Ok(true)
    }

    /// Missing files are part of the load; any other error ends it.
    fn settled<T>(&self, result: Result<T, Errno>) -> Result<T, Stop> {
        result.map_err(|error| {
            if error == Errno::NOENT {
                return Stop::Missing;
            }
            let remedy = match error {
                Errno::NOSPC | Errno::DQUOT => {
                    "run fewer or shorter intervals, or give it a larger filesystem"
                }
                Errno::MFILE | Errno::NFILE => "run fewer readers, or allow more open files",
                _ => "see the filesystem's error, and start again on an empty folder",
            };
            self.site.fail(Fault::new(self.paths.last(), format!("the filesystem said: {error}"), remedy));
            Stop::Over
        })
    }

    /// Time an operation, if it ended in time.
    fn record(&mut self, operation: Operation, bytes: u64, end_ns: u64) -> Result<(), Stop> {
        if end_ns > self.site.end_ns() || self.site.is_stopped() {
            return Err(Stop::Over);
        }
        self.tallies[operation.index()].record(bytes, end_ns - self.last_ns);
        self.last_ns = end_ns;
        Ok(())
    }
}
