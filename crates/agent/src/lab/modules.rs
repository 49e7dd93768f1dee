// SPDX-License-Identifier: Apache-2.0
//! Kernel modules of the initramfs, loaded before the steps in the order in which the bindings name them.

use std::ffi::CString;
use std::fs::{self, File};

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use crate::plan::bindings::Module;

/// To be called while the initramfs is the root. A module's file is removed afterwards: it takes memory.
pub fn load(modules: &[Module]) -> Result<(), String> {
    for module in modules {
        load_one(module).map_err(|cause| format!("the kernel module {} {cause}", module.path))?;
    }
    Ok(())
}

fn load_one(module: &Module) -> Result<(), String> {
    let parameters = CString::new(module.parameters.as_str())
        .map_err(|_| "cannot be loaded: its parameters have a NUL byte".to_owned())?;
    let file = File::open(&module.path).map_err(|error| format!("cannot be opened: {error}"))?;
    finit_module(&file, &parameters, ModuleInitFlags::empty())
        .map_err(|errno| format!("cannot be loaded: {}", explain(errno)))?;
    fs::remove_file(&module.path).map_err(|error| format!("cannot be removed: {error}"))
}

fn explain(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOEXEC => "it is not for this kernel",
        Errno::ENOENT => "it needs something that neither the kernel nor a module before it has",
        Errno::ENOSYS => "this kernel takes no modules",
        _ => errno.desc(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Module, load};

    fn module(path: &str, parameters: &str) -> Module {
        Module { path: path.to_owned(), parameters: parameters.to_owned() }
    }

    #[test]
    fn no_modules_are_loaded_without_a_word() {
        assert_eq!(load(&[]), Ok(()));
    }

    #[test]
    fn what_cannot_be_loaded_is_named() {
        let missing = load(&[module("/nonexistent/zfs.ko", "")]).unwrap_err();
        assert!(missing.starts_with("the kernel module /nonexistent/zfs.ko cannot be opened: "), "{missing}");
        let nul = load(&[module("/nonexistent/zfs.ko", "a\0b")]).unwrap_err();
        assert!(nul.ends_with("its parameters have a NUL byte"), "{nul}");
    }
}
