// SPDX-License-Identifier: Apache-2.0
//! Users and groups, read from `/etc/passwd` and `/etc/group`: a static program cannot ask NSS.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

const NOBODY: u32 = 65534;

/// Whom a program runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups with the primary one, sorted.
    pub groups: Vec<u32>,
}

impl User {
    /// A user of a virtual machine or a container, whose agent looks the numbers up.
    pub fn elsewhere(name: &str) -> Self {
        Self { name: name.into(), uid: NOBODY, gid: NOBODY, groups: vec![NOBODY] }
    }
}

/// The machine's users and groups.
#[derive(Debug)]
pub struct Users {
    passwd: String,
    group: String,
}

impl Users {
    /// Those of this machine. A missing file holds no users, which shows when one is looked for.
    pub fn load() -> Self {
        Self::load_from(Path::new("/etc"))
    }

    fn load_from(folder: &Path) -> Self {
        let read = |name| {
            fs::read(folder.join(name)).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
        };
        Self { passwd: read("passwd"), group: read("group") }
    }

    pub fn find(&self, name: &str) -> Option<User> {
        let (uid, gid) = self.passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            if fields.next()? != name {
                return None;
            }
            Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
        })?;
        let mut groups: Vec<u32> = self
            .group
            .lines()
            .filter_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                let [_, _, gid, members] = fields[..] else { return None };
                members.split(',').any(|member| member.trim() == name).then(|| gid.parse().ok())?
            })
            .chain([gid])
            .collect();
        groups.sort_unstable();
        groups.dedup();
        Some(User { name: name.into(), uid, gid, groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_primary_and_the_supplementary_groups() {
        let users = Users {
            passwd: "root:x:0:0::/root:/bin/sh\npostgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n"
                .into(),
            group: "root:x:0:\nssl-cert:x:103:postgres\npostgres:x:104:\ndisk:x:6:other,postgres\n".into(),
        };

        let user = users.find("postgres").unwrap();

        assert_eq!(user, User { name: "postgres".into(), uid: 101, gid: 104, groups: vec![6, 103, 104] });
        assert_eq!(users.find("root").unwrap().groups, [0]);
        assert_eq!(users.find("post"), None);
    }

    #[test]
    fn a_machine_without_the_files_has_no_users() {
        let folder = tempfile::tempdir().unwrap();

        assert_eq!(Users::load_from(folder.path()).find("root"), None);
    }
}
