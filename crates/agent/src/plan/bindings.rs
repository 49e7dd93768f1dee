// SPDX-License-Identifier: Apache-2.0
//! The runner's bindings: the values of the plan's variables, and its disks, on this machine.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::sandbox::declared::Sandbox;
use crate::system::faults::Fault;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bindings {
    /// `lab` or `host`; it goes into the events.
    pub runner: String,
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// The names in `/sys/block` of the disks to monitor.
    #[serde(default)]
    pub stat_names: BTreeMap<String, String>,
    /// Host only: what the steps can reach; without it, whatever the agent can.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// Lab only.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Lab only: the block device with the root image.
    #[serde(default)]
    pub root_device: Option<String>,
    /// Lab only: kernel modules to load before the steps, in this order.
    #[serde(default)]
    pub modules: Vec<Module>,
    /// Lab only: programs of the initramfs that the steps run.
    #[serde(default)]
    pub programs: Vec<LabProgram>,
    /// Lab only: a shell in place of the steps after the phase `build`.
    #[serde(default)]
    pub shell: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// Of its file in the initramfs.
    pub path: String,
    /// `name=value` pairs, separated by spaces, as on insmod's command line.
    #[serde(default)]
    pub parameters: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabProgram {
    /// Of its file in the initramfs.
    pub path: String,
    /// Where the steps find it.
    pub to: String,
}

impl Bindings {
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let bindings = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| Fault::new(format!("bindings.{}", error.path()), error.inner().to_string()))?;
        reader.end().map_err(|error| Fault::new("bindings", error.to_string()))?;
        Ok(bindings)
    }
}
