// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Programs into which the dynamic linker preloads nothing.

use std::{
    env,
    ffi::OsStr,
    fs::{File, Metadata},
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::getxattr,
    process::{getgid, getuid},
};

/// Why the program that would be run cannot be given anything, if that can be told.
pub fn obstacle(program: &OsStr) -> Option<&'static str> {
    let path = find(program)?;
    let file = File::open(&path).ok()?;
    let mut head = [0; ELF_HEADER];
    (&file).read_exact(&mut head).ok()?;
    let header = Header::new(&head)?;
    let header = match header {
        Ok(header) => header,
        Err(obstacle) => return Some(obstacle),
    };
    let mut table = vec![0; header.table_size()];
    file.read_exact_at(&mut table, header.table_offset).ok()?;
    if !header.has_interpreter(&table) {
        return Some("it is linked statically, and nothing can be preloaded into it");
    }
    let more = is_for_another(&file.metadata().ok()?) || has_capabilities(&path);
    more.then_some(
        "it runs with the rights of another user or group, or with more rights than you have, \
         and the dynamic linker preloads nothing into such a program",
    )
}

/// What execvp(3) would find.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|path| {
            path.metadata()
                .is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0)
        })
}

fn is_for_another(metadata: &Metadata) -> bool {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    changes_rights(
        metadata.mode(),
        metadata.uid() == user,
        metadata.gid() == group,
    )
}

/// Whether a file of this mode runs with other rights than those of who runs it.
fn changes_rights(mode: u32, own_user: bool, own_group: bool) -> bool {
    const SET_USER: u32 = 0o4000;
    // Without the permission of the group the bit means something else.
    const SET_GROUP: u32 = 0o2010;
    mode & SET_USER != 0 && !own_user || mode & SET_GROUP == SET_GROUP && !own_group
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0u8; 64];
    !getuid().is_root() && getxattr(path, "security.capability", &mut value[..]).is_ok()
}

const ELF_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// Of an ELF file as this program is one.
struct Header {
    table_offset: u64,
    headers: u16,
}

impl Header {
    /// `None`: it is no program of Linux; a script, for example.
    fn new(head: &[u8; ELF_HEADER]) -> Option<Result<Self, &'static str>> {
        const CLASS: usize = 4;
        if head[..4] != *b"\x7fELF" {
            return None;
        }
        if head[CLASS] != 2 {
            return Some(Err(
                "it is a program of 32 bits, and XRC is there for 64 bits only",
            ));
        }
        Some(Ok(Header {
            table_offset: u64::from_le_bytes(head[32..40].try_into().ok()?),
            headers: u16::from_le_bytes(head[56..58].try_into().ok()?),
        }))
    }

    fn table_size(&self) -> usize {
        usize::from(self.headers) * PROGRAM_HEADER
    }

    /// It asks for the dynamic linker.
    fn has_interpreter(&self, table: &[u8]) -> bool {
        const PT_INTERP: [u8; 4] = 3u32.to_le_bytes();
        table
            .chunks_exact(PROGRAM_HEADER)
            .any(|header| header[..4] == PT_INTERP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_linked_dynamically() {
        assert_eq!(obstacle(env::current_exe().unwrap().as_os_str()), None);
        assert_eq!(obstacle("sh".as_ref()), None);
        assert_eq!(obstacle("/there/is/no/such/program".as_ref()), None);
    }

    #[test]
    fn what_is_no_elf_file_may_be_a_script() {
        let mut head = [0; ELF_HEADER];
        head[..9].copy_from_slice(b"#!/bin/sh");
        assert!(Header::new(&head).is_none());
    }

    #[test]
    fn programs_of_32_bits_are_told() {
        let mut head = [0; ELF_HEADER];
        head[..5].copy_from_slice(b"\x7fELF\x01");
        assert!(Header::new(&head).unwrap().is_err());
    }

    #[test]
    fn a_static_program_asks_for_no_linker() {
        let header = Header {
            table_offset: 64,
            headers: 2,
        };
        let mut table = [0; 2 * PROGRAM_HEADER];
        table[0] = 1;
        assert!(!header.has_interpreter(&table));
        table[PROGRAM_HEADER] = 3;
        assert!(header.has_interpreter(&table));
    }

    #[test]
    fn bits_count_if_they_change_something() {
        assert!(!changes_rights(0o755, false, false));
        assert!(changes_rights(0o4755, false, true));
        assert!(!changes_rights(0o4755, true, false));
        assert!(changes_rights(0o2755, true, false));
        assert!(!changes_rights(0o2755, false, true));
        // Mandatory locking.
        assert!(!changes_rights(0o2745, false, false));
    }
}
