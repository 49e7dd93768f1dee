// SPDX-License-Identifier: Apache-2.0
//! The state between invocations: existing files and the positions of the rotations. Its file must not lie on what is
//! measured, because looking for the files would warm the caches.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::faults::{Fault, LoadError};
use crate::personality::file_set::Kept;
use crate::personality::records::{Personality, SetSpec};

#[derive(Serialize, Deserialize)]
pub struct KeptState {
    pub personality: String,
    pub seed: u64,
    /// The specifications that the files were drawn from.
    pub specs: Vec<SetSpec>,
    pub sets: Vec<Kept>,
}

pub fn write(path: &Path, state: &KeptState) -> Result<(), LoadError> {
    let text = serde_json::to_string(state).expect("a state is JSON");
    fs::write(path, text).map_err(|error| {
        let remedy = "give --state a file that can be written, best not on what is measured";
        Fault::new(path.display().to_string(), format!("it cannot be written: {error}"), remedy).into()
    })
}

/// The state that was written for this personality and seed.
pub fn read(path: &Path, personality: &Personality, seed: u64) -> Result<KeptState, Vec<Fault>> {
    let place = path.display().to_string();
    let remedy = "run `strata-load prepare` with the same options and --state before";
    let text = fs::read_to_string(path)
        .map_err(|error| vec![Fault::new(place.clone(), format!("it cannot be read: {error}"), remedy)])?;
    let state: KeptState = serde_json::from_str(&text)
        .map_err(|error| vec![Fault::new(place.clone(), format!("it is not a state: {error}"), remedy)])?;
    let mut faults = Vec::new();
    if state.personality != personality.name || state.seed != seed {
        let cause = format!("the files belong to {} with the seed {}", state.personality, state.seed);
        faults.push(Fault::new(place.clone(), cause, remedy));
    }
    let is_same = state.sets.len() == personality.sets.len()
        && state.sets.iter().zip(&personality.sets).all(|(kept, spec)| {
            kept.name == spec.name && kept.files as u64 == spec.files && kept.sizes.len() == kept.files
        });
    if !is_same {
        let cause = "the files are other ones, or another number of them";
        faults.push(Fault::new(place.clone(), cause, remedy));
    }
    for cause in differences(&state.specs, &personality.sets) {
        faults.push(Fault::new(place.clone(), cause, remedy));
    }
    if faults.is_empty() { Ok(state) } else { Err(faults) }
}

/// The keys of the sets that have changed since their files were drawn.
fn differences(before: &[SetSpec], now: &[SetSpec]) -> Vec<String> {
    let mut differences = Vec::new();
    for (before, now) in before.iter().zip(now) {
        let (there, here) = (fields(before), fields(now));
        for (key, value) in there.iter().filter(|(key, value)| here.get(*key) != Some(*value)) {
            let given = here.get(key).unwrap_or(&Value::Null);
            differences
                .push(format!("{}.{key} was {value} when the files were made, not {given}", before.name));
        }
    }
    differences
}

fn fields(spec: &SetSpec) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a set is an object"),
    }
}
