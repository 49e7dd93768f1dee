// SPDX-License-Identifier: Apache-2.0
//! The device filter: a BPF program of a control group, which the kernel asks before a device is opened or its
//! node is made, and a map of what it answers.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use crate::system::calls::{checked, failed};

/// A device as the kernel numbers it. Any minor number: `ANY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    pub kind: u32,
    pub major: u32,
    pub minor: u32,
}

pub const BLOCK: u32 = 1; // BPF_DEVCG_DEV_BLOCK of linux/bpf.h
pub const CHARACTER: u32 = 2;
pub const ANY: u32 = u32::MAX;

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP: u32 = 1;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const PROG_LOAD: u32 = 5;
const PROG_ATTACH: u32 = 8;
const MAP_TYPE_HASH: u32 = 1;
const PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const CGROUP_DEVICE: u32 = 6;
// A manager of control groups may have attached a program further up, or want to further down: all have to agree.
const ALLOW_MULTI: u32 = 2;
const ENTRIES_MAX: u32 = 8192;

/// `union bpf_attr`, as far as it is used: zeros otherwise.
#[repr(C, align(8))]
struct Attributes([u32; 32]);

impl Attributes {
    fn of(words: &[(usize, u32)], pointers: &[(usize, *const u8)]) -> Self {
        let mut all = Self([0; 32]);
        for (at, word) in words {
            all.0[*at] = *word;
        }
        for (at, pointer) in pointers {
            // SAFETY: a pointer takes two words, of which any content is a value.
            all.0[*at..*at + 2]
                .copy_from_slice(&unsafe { std::mem::transmute::<u64, [u32; 2]>(*pointer as u64) });
        }
        all
    }

    fn call(&self, command: u32) -> io::Result<libc::c_long> {
        // SAFETY: whoever made the attributes has seen to the pointers in them.
        checked(unsafe { libc::syscall(libc::SYS_bpf, command, self, size_of::<Self>()) })
    }

    fn make(&self, command: u32) -> io::Result<OwnedFd> {
        let made = RawFd::try_from(self.call(command)?).expect("a file descriptor");
        // SAFETY: these commands return a new file descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(made) })
    }
}

fn word(fd: &OwnedFd) -> u32 {
    u32::try_from(fd.as_raw_fd()).expect("a file descriptor")
}

#[derive(Debug)]
pub struct DeviceFilter {
    map: OwnedFd,
}

impl DeviceFilter {
    /// Attach a filter to a control group that denies all devices, until others are allowed.
    pub fn attach(group: &Path) -> Result<Self, String> {
        let remedy = "the kernel cannot filter the devices of a control group (CONFIG_CGROUP_BPF); run the study in \
                      the lab";
        let entry = [(0, MAP_TYPE_HASH), (1, 12), (2, 4), (3, ENTRIES_MAX)];
        let map = Attributes::of(&entry, &[]).make(MAP_CREATE).map_err(failed(remedy))?;
        let (program, license) = (instructions(map.as_raw_fd()), c"Apache-2.0");
        let length = u32::try_from(program.len()).expect("a short program");
        let pointers = [(2, program.as_ptr().cast()), (4, license.as_ptr().cast())];
        let program = Attributes::of(&[(0, PROG_TYPE_CGROUP_DEVICE), (1, length)], &pointers)
            .make(PROG_LOAD)
            .map_err(failed(remedy))?;
        let group = OwnedFd::from(File::open(group).map_err(failed("the sandbox's control group"))?);
        let words = [(0, word(&group)), (1, word(&program)), (2, CGROUP_DEVICE), (3, ALLOW_MULTI)];
        Attributes::of(&words, &[]).call(PROG_ATTACH).map_err(failed(remedy))?;
        Ok(Self { map })
    }

    /// Answer for a device, or for all of a major number that nothing else is said of.
    pub fn set(&self, number: Number, allowed: bool) -> io::Result<()> {
        let (key, value) = (key(number), u32::from(allowed));
        let pointers = [(2, key.as_ptr().cast()), (4, (&raw const value).cast())];
        Attributes::of(&[(0, word(&self.map))], &pointers).call(MAP_UPDATE).map(|_| ())
    }

    /// Say nothing of a device any longer.
    pub fn forget(&self, number: Number) {
        let key = key(number);
        let _ = Attributes::of(&[(0, word(&self.map))], &[(2, key.as_ptr().cast())]).call(MAP_DELETE);
    }

    /// The program's answer.
    pub fn allows(&self, number: Number) -> bool {
        let said = |number| {
            let (key, mut value) = (key(number), 0_u32);
            let pointers = [(2, key.as_ptr().cast()), (4, (&raw mut value).cast_const().cast())];
            Attributes::of(&[(0, word(&self.map))], &pointers).call(MAP_LOOKUP).ok().map(|_| value)
        };
        said(number).or_else(|| said(Number { minor: ANY, ..number })).unwrap_or(0) == 1
    }
}

fn key(number: Number) -> [u32; 3] {
    [number.kind, number.major, number.minor]
}

#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// The entry for type, major and minor; else for type, major and `ANY`; else 0, which denies.
fn instructions(map: RawFd) -> Vec<Instruction> {
    const LOAD_WORD: u8 = 0x61; // BPF_LDX | BPF_MEM | BPF_W
    const STORE_WORD: u8 = 0x63; // BPF_STX | BPF_MEM | BPF_W
    const STORE_VALUE: u8 = 0x62; // BPF_ST | BPF_MEM | BPF_W
    const LOAD_MAP: u8 = 0x18; // BPF_LD | BPF_IMM | BPF_DW, in two instructions
    const MOVE: u8 = 0xbf;
    const MOVE_VALUE: u8 = 0xb7;
    const ADD_VALUE: u8 = 0x07;
    const AND_VALUE: u8 = 0x57;
    const IF_EQUAL_VALUE: u8 = 0x15;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    const MAP_FD: u8 = 1; // BPF_PSEUDO_MAP_FD
    let one = |code, to: u8, from: u8, offset, immediate| Instruction {
        code,
        registers: to | from << 4,
        offset,
        immediate,
    };
    // struct bpf_cgroup_dev_ctx in register 1: access and type in one word, major, minor. The key is on the stack.
    let mut program = vec![
        one(LOAD_WORD, 2, 1, 0, 0),
        one(AND_VALUE, 2, 0, 0, 0xffff),
        one(STORE_WORD, 10, 2, -12, 0),
        one(LOAD_WORD, 2, 1, 4, 0),
        one(STORE_WORD, 10, 2, -8, 0),
        one(LOAD_WORD, 2, 1, 8, 0),
        one(STORE_WORD, 10, 2, -4, 0),
    ];
    for last in [false, true] {
        program.extend([
            one(LOAD_MAP, 1, MAP_FD, 0, map),
            one(0, 0, 0, 0, 0),
            one(MOVE, 2, 10, 0, 0),
            one(ADD_VALUE, 2, 0, 0, -12),
            one(CALL, 0, 0, 0, 1), // bpf_map_lookup_elem
            one(IF_EQUAL_VALUE, 0, 0, 3, 0),
            one(LOAD_WORD, 0, 0, 0, 0),
            one(AND_VALUE, 0, 0, 0, 1), // the kernel wants to see that it is 0 or 1
            one(EXIT, 0, 0, 0, 0),
        ]);
        if last {
            program.extend([one(MOVE_VALUE, 0, 0, 0, 0), one(EXIT, 0, 0, 0, 0)]);
        } else {
            program.push(one(STORE_VALUE, 10, 0, -4, -1));
        }
    }
    program
}
