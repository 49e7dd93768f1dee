// SPDX-License-Identifier: Apache-2.0
//! A sandbox as the bindings declare it.

use std::path::PathBuf;

use serde::Deserialize;

use crate::sandbox::kinds::Kind;

/// The parts of the machine that a plan's steps can reach.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// The one folder of the machine that the steps may write to.
    pub folder: PathBuf,
    /// An empty folder, where the sandbox's view of the machine is put together.
    pub root: PathBuf,
    /// The name of its control group, which the names of all that the trial assembles begin with.
    pub stack: String,
    /// Files that steps read, wherever they lie.
    #[serde(default)]
    pub reads: Vec<PathBuf>,
    /// Files and folders of /proc and /sys that steps write to.
    #[serde(default)]
    pub writes: Vec<PathBuf>,
    /// The devices that the steps have, by their paths in /dev.
    #[serde(default)]
    pub nodes: Vec<PathBuf>,
    /// Devices that the trial may assemble.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Types of filesystems that the trial may mount.
    #[serde(default)]
    pub filesystems: Vec<String>,
    /// Controllers of control groups that steps use.
    #[serde(default)]
    pub controllers: Vec<String>,
    /// Whether the steps stay in the machine's network: the driver of nbd answers in no other.
    #[serde(default)]
    pub network: bool,
    /// What containers see; without it, steps have none.
    #[serde(default)]
    pub container: Option<Seen>,
}

/// What containers of a trial see besides their roots, all read-only.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// A folder with the root image, whose `/usr` is theirs.
    pub image: PathBuf,
    /// Files that their programs read.
    pub reads: Vec<PathBuf>,
}
