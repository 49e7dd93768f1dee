// SPDX-License-Identifier: Apache-2.0
//! The kernel's table of processes.

use std::collections::BTreeSet;
use std::fs;

use nix::unistd::Pid;

/// A process.
pub struct Row {
    pub pid: i32,
    pub lower_pid: i32,
    session: i32,
    comm: String,
    pub is_zombie: bool,
    start_ticks: u64,
}

/// A process's pid and start time: unique.
pub type Identity = (i32, u64);

impl Row {
    pub fn identity(&self) -> Identity {
        (self.pid, self.start_ticks)
    }

    pub fn name(&self) -> String {
        format!("{} ({})", self.comm, self.pid)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.pid)
    }

    /// Whether an orphan is in the session of one of these programs: then nobody else has started it.
    pub fn is_surely_of(&self, programs: &[Pid]) -> bool {
        programs.contains(&Pid::from_raw(self.session))
    }

    /// Whether one of these programs may have started an orphan. One that has left its session can be anybody's
    /// who is in the same control group.
    pub fn may_be_of(&self, programs: &[Pid]) -> bool {
        self.is_surely_of(programs) || programs.iter().any(|program| shares_cgroup(self.pid(), *program))
    }
}

/// The agent's own children, zombies excepted.
pub fn children() -> Vec<Row> {
    let own = Pid::this().as_raw();
    rows().into_iter().filter(|row| row.lower_pid == own && !row.is_zombie).collect()
}

/// The agent's children now.
pub fn pids_of_children() -> Vec<Pid> {
    children().iter().map(Row::pid).collect()
}

/// Every process that there is now.
pub fn identities() -> BTreeSet<Identity> {
    rows().iter().map(Row::identity).collect()
}

/// The name of a process, also of one that has ended and is not reaped.
pub fn name_of(pid: Pid) -> Option<String> {
    Some(parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)?.comm)
}

/// Whether two processes are in the same control group, as far as that can be seen.
pub fn shares_cgroup(one: Pid, other: Pid) -> bool {
    let of = |pid: Pid| fs::read(format!("/proc/{pid}/cgroup"));
    of(one).and_then(|one| Ok(one == of(other)?)).unwrap_or(true)
}

/// Every process, by number.
pub fn rows() -> Vec<Row> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let mut pids: Vec<i32> =
        folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(|pid| parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

fn parse(stat: &[u8]) -> Option<Row> {
    let stat = String::from_utf8_lossy(stat);
    // The name is in parentheses and may hold anything, also parentheses.
    let (start, end) = (stat.find('(')?, stat.rfind(')')?);
    let mut fields = stat.get(end + 1..)?.split_whitespace();
    Some(Row {
        pid: stat[..start].trim().parse().ok()?,
        comm: stat.get(start + 1..end)?.to_owned(),
        is_zombie: fields.next()? == "Z",
        lower_pid: fields.next()?.parse().ok()?,
        session: fields.nth(1)?.parse().ok()?,
        // proc_pid_stat(5): session is the 6th field, starttime the 22nd.
        start_ticks: fields.nth(15)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_parentheses() {
        let row = parse(b"12 (a) Z 3 (b) S 7 12 13 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9876 0").unwrap();

        assert_eq!((row.pid, row.lower_pid, row.session, row.is_zombie), (12, 7, 13, false));
        assert_eq!(row.identity(), (12, 9876));
        assert_eq!(row.comm, "a) Z 3 (b");
    }
}
