// SPDX-License-Identifier: Apache-2.0
//! Programs of the initramfs that the steps run: taken along when the lab moves into its root image.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::plan::bindings::LabProgram;

/// A program on its way from the initramfs to where the steps find it.
#[derive(Debug)]
pub struct Taken {
    to: String,
    content: Vec<u8>,
}

/// To be called while the initramfs is the root. The files are removed there: they take memory.
pub fn take(programs: &[LabProgram]) -> Result<Vec<Taken>, String> {
    let take_one = |program: &LabProgram| {
        let content = fs::read(&program.path)?;
        fs::remove_file(&program.path)?;
        Ok(Taken { to: program.to.clone(), content })
    };
    let message = |program: &LabProgram, error: io::Error| {
        format!("the program {} cannot be taken along: {error}", program.path)
    };
    programs.iter().map(|program| take_one(program).map_err(|error| message(program, error))).collect()
}

/// To be called in the root image.
pub fn put(programs: &[Taken]) -> Result<(), String> {
    for Taken { to, content } in programs {
        let folder = Path::new(to).parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(to, content))
            .and_then(|()| fs::set_permissions(to, Permissions::from_mode(0o755)))
            .map_err(|error| format!("the program {to} cannot be written: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_arrives_executable_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("initial"), "#!/bin/sh\n").unwrap();
        let program = LabProgram { path: path("initial"), to: path("run/strata/load") };

        let taken = take(&[program]).unwrap();
        put(&taken).unwrap();

        assert!(!Path::new(&path("initial")).exists());
        let arrived = fs::metadata(path("run/strata/load")).unwrap();
        assert_eq!(arrived.permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let program = LabProgram { path: "/nonexistent/load".to_owned(), to: "/run/load".to_owned() };

        let cause = take(&[program]).unwrap_err();

        assert!(cause.starts_with("the program /nonexistent/load cannot be taken along: "), "{cause}");
    }
}
