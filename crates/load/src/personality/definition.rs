// SPDX-License-Identifier: Apache-2.0
//! Reads a personality's TOML and reports all of its mistakes at once.

use std::fs;
use std::io;
use std::path::Path;

use toml::Table;

use crate::faults::Fault;
use crate::personality::keys::Keys;
use crate::personality::records::{Group, Personality, Piece, SLOTS, SetSpec, Step};

const BUNDLED: [(&str, &str); 5] = [
    ("fileserver", include_str!("../../personalities/fileserver.toml")),
    ("varmail", include_str!("../../personalities/varmail.toml")),
    ("webserver", include_str!("../../personalities/webserver.toml")),
    ("webproxy", include_str!("../../personalities/webproxy.toml")),
    ("videoserver", include_str!("../../personalities/videoserver.toml")),
];

/// The personality of this name, of the file at this path, or for `-` of the standard input.
pub fn load(name: &str) -> Result<Personality, Vec<Fault>> {
    if let Some((_, text)) = BUNDLED.iter().find(|(bundled, _)| *bundled == name) {
        return parse(text, &format!("{name}.toml"));
    }
    if name == "-" {
        return match io::read_to_string(io::stdin()) {
            Ok(text) => parse(&text, "the definition"),
            Err(error) => {
                Err(vec![Fault::new("--personality", format!("its text: {error}"), "write it as TOML")])
            }
        };
    }
    if !name.contains('/') && Path::new(name).extension().is_none_or(|ending| ending != "toml") {
        let known = BUNDLED.map(|(bundled, _)| bundled).join(", ");
        let remedy = format!("there are {known}; the path of a TOML file ends in .toml");
        return Err(vec![Fault::new("--personality", format!("there is no personality \"{name}\""), remedy)]);
    }
    match fs::read_to_string(name) {
        Ok(text) => parse(&text, name),
        Err(error) => Err(vec![Fault::new(
            "--personality",
            format!("{name} cannot be read: {error}"),
            "give the path of a personality's TOML",
        )]),
    }
}

fn parse(text: &str, file: &str) -> Result<Personality, Vec<Fault>> {
    let table = match text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => {
            return Err(vec![Fault::new(file, error.message(), "see one of crates/load/personalities")]);
        }
    };
    let keys = Keys::new(table, file);
    let found = keys.found();
    let personality = personality(keys);
    if found.borrow().is_empty() { Ok(personality) } else { Err(found.take()) }
}

fn personality(mut keys: Keys) -> Personality {
    let name = keys.text("name");
    let mut sets = Vec::new();
    for mut set in keys.tables("sets") {
        sets.push(read_set(&mut set));
        set.finish();
    }
    for (index, set) in sets.iter().enumerate() {
        if sets[..index].iter().any(|earlier: &SetSpec| earlier.name == set.name) {
            keys.fault(
                &format!("sets[{index}].name"),
                format!("\"{}\" is there twice", set.name),
                "give each its own",
            );
        }
    }
    let mut groups = Vec::new();
    for mut group in keys.tables("groups") {
        groups.push(read_group(&mut group, &sets));
        group.finish();
    }
    keys.finish();
    Personality { name, sets, groups }
}

fn read_set(keys: &mut Keys) -> SetSpec {
    let name = keys.text("name");
    if name.contains('/') || name.starts_with('.') {
        keys.fault("name", "it is the name of a folder".to_owned(), "leave out slashes and a leading dot");
    }
    SetSpec {
        name,
        files: keys.number("files", 1, 100_000_000),
        file_bytes: keys.number("file_bytes", 0, 1 << 50),
        file_shape: keys.fraction("file_shape"),
        directory_width: keys.number("directory_width", 2, 1_000_000_000),
        directory_shape: keys.fraction("directory_shape"),
        preallocated_percent: keys.number("preallocated_percent", 0, 100),
        read_only: keys.flag("read_only", false),
        scales: keys.flag("scales", true),
    }
}

fn read_group(keys: &mut Keys, sets: &[SetSpec]) -> Group {
    let name = keys.text("name");
    let threads = keys.number("threads", 1, 10_000);
    let scales = keys.flag("scales", true);
    let mut steps = Vec::new();
    let mut open = [None; SLOTS];
    for mut entry in keys.tables("loop") {
        if let Some(step) = read_step(&mut entry, sets) {
            follow(step, &mut open, sets, &mut entry);
            steps.push(step);
        }
        entry.finish();
    }
    if !steps.is_empty() && steps.iter().all(|step| step.kind().is_none()) {
        keys.fault("loop", "nothing in it is an operation".to_owned(), "add one, or it would spin");
    }
    for (fd, _) in open.iter().enumerate().filter(|(_, held)| matches!(held, Some(Held::Explicitly(_)))) {
        keys.fault(
            "loop",
            format!("file {fd} is still open at its end"),
            "add a close, since the loop begins again",
        );
    }
    Group { name, threads, scales, steps }
}

/// How a file came to be open, and of which set it is.
#[derive(Clone, Copy)]
enum Held {
    Explicitly(usize),
    /// By an append, read or write that names its set; stays open from one pass to the next.
    Implicitly(usize),
}

/// Simulate a step of a thread, to know which files are open.
fn follow(step: Step, open: &mut [Option<Held>; SLOTS], sets: &[SetSpec], entry: &mut Keys) {
    let closed = "open or create a file with this fd before";
    match step {
        Step::Create { set, fd } | Step::Open { set, fd } => {
            if open[fd].is_some() {
                entry.fault(
                    "fd",
                    format!("file {fd} is open already"),
                    "close it before, or take another fd",
                );
            }
            open[fd] = Some(Held::Explicitly(set));
        }
        Step::Close { fd } => {
            if !matches!(open[fd], Some(Held::Explicitly(_))) {
                entry.fault("fd", format!("file {fd} is not open"), closed);
            }
            open[fd] = None;
        }
        Step::Fsync { fd } | Step::ReadWhole { fd, .. } | Step::WriteWhole { fd, .. }
            if open[fd].is_none() =>
        {
            entry.fault("fd", format!("file {fd} is not open"), closed);
        }
        Step::Append(piece) | Step::Read(piece) | Step::Write(piece) => {
            let Piece { fd, set, .. } = piece;
            match (open[fd], set) {
                (None, None) => entry.fault("fd", format!("file {fd} is not open"), closed),
                (None, Some(set)) => open[fd] = Some(Held::Implicitly(set)),
                _ => {}
            }
        }
        _ => {}
    }
    let written = match step {
        Step::WriteWhole { fd, .. } | Step::Append(Piece { fd, .. }) | Step::Write(Piece { fd, .. }) => {
            open[fd]
        }
        Step::Create { set, .. } | Step::Delete { set } => Some(Held::Explicitly(set)),
        _ => None,
    };
    if let Some(Held::Explicitly(set) | Held::Implicitly(set)) = written {
        if sets.get(set).is_some_and(|set| set.read_only) {
            entry.fault("op", format!("\"{}\" is read-only", sets[set].name), "take another set");
        }
    }
}

fn read_step(keys: &mut Keys, sets: &[SetSpec]) -> Option<Step> {
    const OPERATIONS: &str = "create, open, close, delete, stat, fsync, read_whole, write_whole, append, append_random, \
        read, read_random, write, write_random, delay, limit";
    let operation = keys.text("op");
    let step = match operation.as_str() {
        "create" => Step::Create { set: set(keys, sets), fd: fd(keys) },
        "open" => Step::Open { set: set(keys, sets), fd: fd(keys) },
        "close" => Step::Close { fd: fd(keys) },
        "delete" => Step::Delete { set: set(keys, sets) },
        "stat" => Step::Stat { set: set(keys, sets) },
        "fsync" => Step::Fsync { fd: fd(keys) },
        "read_whole" => Step::ReadWhole { fd: fd(keys), bytes: piece(keys) },
        "write_whole" => Step::WriteWhole { fd: fd(keys), bytes: piece(keys) },
        "append" | "append_random" | "read" | "read_random" | "write" | "write_random" => {
            let random = operation.ends_with("_random");
            let piece = Piece { fd: fd(keys), set: optional_set(keys, sets), bytes: piece(keys), random };
            match operation.trim_end_matches("_random") {
                "append" => Step::Append(piece),
                "read" => Step::Read(piece),
                _ => Step::Write(piece),
            }
        }
        "delay" => Step::Delay { time_ns: keys.number("time_ns", 1, 1 << 50) },
        "limit" => Step::Limit { bytes_per_s: keys.number("bytes_per_s", 1, 1 << 50) },
        "" => return None,
        other => {
            keys.fault(
                "op",
                format!("there is no operation \"{other}\""),
                &format!("there are {OPERATIONS}"),
            );
            return None;
        }
    };
    Some(step)
}

fn fd(keys: &mut Keys) -> usize {
    usize::try_from(keys.number("fd", 0, SLOTS as u64 - 1)).unwrap_or(0)
}

/// The largest piece of a read or write.
fn piece(keys: &mut Keys) -> usize {
    usize::try_from(keys.number("bytes", 1, 1 << 30)).unwrap_or(1)
}

fn set(keys: &mut Keys, sets: &[SetSpec]) -> usize {
    let name = keys.text("set");
    named(keys, &name, sets).unwrap_or(0)
}

fn optional_set(keys: &mut Keys, sets: &[SetSpec]) -> Option<usize> {
    if !keys.has("set") {
        return None;
    }
    let name = keys.text("set");
    named(keys, &name, sets)
}

fn named(keys: &mut Keys, name: &str, sets: &[SetSpec]) -> Option<usize> {
    let found = sets.iter().position(|set| set.name == name);
    if found.is_none() && !name.is_empty() {
        let known = sets.iter().map(|set| set.name.as_str()).collect::<Vec<_>>().join(", ");
        keys.fault("set", format!("there is no set \"{name}\""), &format!("there are {known}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_personality_is_sound_and_named_after_its_file() {
        for (name, _) in BUNDLED {
            assert_eq!(load(name).expect(name).name, name);
        }
    }

    #[test]
    fn loops_have_as_many_operations_as_filebench_lists() {
        let operations = |name| load(name).unwrap().groups[0].operations();
        let wanted = [("fileserver", 11), ("varmail", 13), ("webserver", 31), ("webproxy", 19)];
        assert_eq!(wanted.map(|(name, _)| operations(name)), wanted.map(|(_, count)| count));
    }

    #[test]
    fn every_mistake_is_reported_at_once_with_its_place() {
        let text = r#"
            name = "x"
            [[sets]]
            name = "a"
            files = 0
            file_bytes = "big"
            file_shape = 1.5
            directory_width = 20
            directory_shape = 1.5
            preallocated_percent = 101
            read_only = true
            sise = 1
            [[groups]]
            name = "g"
            threads = 1
            loop = [
                { op = "close", fd = 1 },
                { op = "open", set = "b", fd = 1 },
                { op = "open", set = "a", fd = 1 },
                { op = "fly" },
                { op = "delete", set = "a" },
            ]
        "#;
        let faults = parse(text, "x.toml").unwrap_err();
        let places: Vec<_> = faults.iter().map(|fault| fault.place.as_str()).collect();
        assert_eq!(
            places,
            [
                "x.toml: sets[0].files",
                "x.toml: sets[0].file_bytes",
                "x.toml: sets[0].preallocated_percent",
                "x.toml: sets[0].sise",
                "x.toml: groups[0].loop[0].fd",
                "x.toml: groups[0].loop[1].set",
                "x.toml: groups[0].loop[2].fd",
                "x.toml: groups[0].loop[3].op",
                "x.toml: groups[0].loop[4].op",
                "x.toml: groups[0].loop",
            ]
        );
        assert!(faults.iter().all(|fault| !fault.remedy.is_empty()));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let faults = load("mailserver").unwrap_err();
        assert!(faults[0].remedy.contains("varmail"), "{faults:?}");
    }
}
