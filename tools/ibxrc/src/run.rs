// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB

//! Runs a program with the library before libibverbs that gives it XRC.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{Error, ErrorKind},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{bail, Context, Result};

use crate::preloadable;

const LIBRARY: &str = "libibxrc_interpose.so";
const PRELOAD: &str = "LD_PRELOAD";

/// Becomes the program. Returns only if that does not work, with the code that a shell has
/// for it.
pub fn run(verbose: bool, command: &[OsString]) -> Result<ExitCode> {
    let (program, arguments) = command
        .split_first()
        .context("there is no program to run")?;
    let exe = env::current_exe().context("cannot tell where this program is")?;
    let Some(library) = candidates(&exe).into_iter().find(|path| path.is_file()) else {
        bail!("{LIBRARY} is not where it is installed, {}", describe(&exe));
    };
    let preload = preload(&library, env::var_os(PRELOAD).as_deref())?;
    let mut child = Command::new(program);
    child.args(arguments).env(PRELOAD, preload);
    if verbose {
        child.env("IBXRC_RUN_VERBOSE", "1");
    }
    if let Some(obstacle) = preloadable::obstacle(program) {
        eprintln!(
            "ibxrc: {} runs without XRC: {obstacle}",
            program.to_string_lossy()
        );
    }
    let error = child.exec();
    eprintln!("ibxrc: {}: {}", program.to_string_lossy(), text(&error));
    Ok(match error.kind() {
        ErrorKind::NotFound => 127.into(),
        _ => 126.into(),
    })
}

/// An error without its number.
fn text(error: &Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Where the library may be: beside this program, as it is built, or where it is installed.
fn candidates(exe: &Path) -> Vec<PathBuf> {
    let Some(dir) = exe.parent() else {
        return Vec::new();
    };
    vec![dir.join(LIBRARY), dir.join("../lib/ibxrc").join(LIBRARY)]
}

fn describe(exe: &Path) -> String {
    let paths: Vec<_> = candidates(exe)
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(" or ")
}

/// The library before what is to be preloaded anyway.
fn preload(library: &Path, before: Option<&OsStr>) -> Result<OsString> {
    if library
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|c| b" :".contains(c))
    {
        bail!(
            "the dynamic linker cannot preload {}: it takes colons and spaces for separators",
            library.display()
        );
    }
    let mut value = library.as_os_str().to_owned();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(":");
        value.push(before);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_stays() {
        let library = Path::new("/lib/x.so");
        assert_eq!(preload(library, None).unwrap(), "/lib/x.so");
        assert_eq!(preload(library, Some("".as_ref())).unwrap(), "/lib/x.so");
        let both = preload(library, Some("/a.so:/b.so".as_ref())).unwrap();
        assert_eq!(both, "/lib/x.so:/a.so:/b.so");
        assert!(preload(Path::new("/a b/x.so"), None).is_err());
        assert!(preload(Path::new("/a:b/x.so"), None).is_err());
    }

    #[test]
    fn errors_are_words() {
        let error = Error::from_raw_os_error(2);
        assert_eq!(text(&error), "No such file or directory");
    }

    #[test]
    fn it_is_beside_the_program_or_installed() {
        let found = candidates(Path::new("/usr/bin/ibxrc"));
        assert_eq!(found[0], Path::new("/usr/bin/libibxrc_interpose.so"));
        assert_eq!(
            found[1],
            Path::new("/usr/bin/../lib/ibxrc/libibxrc_interpose.so")
        );
    }
}
