//! The `node` that runs an application.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tutti_relay::executable;
use tutti_worker::{Program, StartError};

use crate::preload::library;

/// Names of the program: Debian once had the second one.
const NAMES: [&str; 2] = ["node", "nodejs"];

/// Where Debian's `node` has its own modules.
const OWN_MODULES: &str = "/usr/share/nodejs";

/// Longest first line of a script that is looked at (`BINPRM_BUF_SIZE`, execve(2)).
const LONGEST_FIRST_LINE: u64 = 256;

/// The program that `runtime` names: a path, or a name that is looked for in `PATH`.
pub(crate) fn find(runtime: &Path) -> Result<PathBuf, StartError> {
    let shown = runtime.display();
    let step = format!("looking for the runtime `{shown}`");
    let hint = "install Node.js 18 or later, or name it: `\"runtime\": \"/opt/node/bin/node\"`";
    let is_name = runtime.components().count() == 1 && !runtime.is_absolute();
    if !is_name {
        let path = std::path::absolute(runtime).map_err(|error| StartError::new(&step, error))?;
        executable::check(&path, &step, hint.to_owned())
            .map_err(|error| error.member("runtime"))?;
        return Ok(path);
    }
    in_path(runtime.as_os_str()).ok_or_else(|| {
        let path = std::env::var("PATH").unwrap_or_default();
        StartError::new(step, format!("there is no `{shown}` in PATH ({path})"))
            .member("runtime")
            .hint(hint)
    })
}

/// The program of this name in `PATH`.
fn in_path(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_absolute() && executable::check(path, "", String::new()).is_ok())
}

/// The files that the `node` in `PATH` needs, beside those that every program does.
pub fn dependencies() -> Vec<PathBuf> {
    let found = in_path(OsStr::new("node"));
    let real = found.as_deref().and_then(|path| path.canonicalize().ok());
    let mut all: Vec<PathBuf> = found.into_iter().chain(real).collect();
    all.push(PathBuf::from(OWN_MODULES));
    all.extend(library());
    all
}

/// True if this program is `node`, or a script for it, or `env` with its name.
pub fn runs_node(program: &Program) -> bool {
    let arguments = program.arguments.iter().map(|argument| argument.as_bytes());
    let path = program.path.as_os_str().as_bytes();
    is_node(path, arguments) || {
        let line = first_line(&program.path);
        let mut words = line
            .strip_prefix(b"#!")
            .unwrap_or_default()
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        words.next().is_some_and(|path| is_node(path, words))
    }
}

/// True if this command is `node`, by itself or by `env`.
fn is_node<'a>(path: &[u8], mut arguments: impl Iterator<Item = &'a [u8]>) -> bool {
    if is_named(path, "env") {
        // Its options and variables come first.
        let command = arguments.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        return command.is_some_and(|command| NAMES.iter().any(|name| is_named(command, name)));
    }
    NAMES.iter().any(|name| is_named(path, name))
}

fn is_named(path: &[u8], name: &str) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(name.as_bytes())
}

fn first_line(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(LONGEST_FIRST_LINE).read_to_end(&mut start);
    }
    let end = start.iter().position(|byte| *byte == b'\n');
    start.truncate(end.unwrap_or(start.len()));
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: impl Into<PathBuf>, arguments: &[&str]) -> Program {
        Program {
            path: path.into(),
            arguments: arguments.iter().map(Into::into).collect(),
        }
    }

    #[test]
    fn node_is_known_by_its_name_and_by_the_first_line_of_a_script() {
        let folder = tempfile::tempdir().unwrap();
        let script = |text: &str| {
            let path = folder.path().join("app");
            std::fs::write(&path, text).unwrap();
            program(path, &[])
        };
        for yes in [
            program("/usr/bin/node", &["app.js"]),
            program("/usr/bin/env", &["node", "--loader", "x", "app.js"]),
            program("/usr/bin/env", &["-i", "A=b", "/opt/bin/node", "app.js"]),
            script("#!/usr/bin/env node\nx"),
            script("#! /usr/bin/node --harmony\n"),
            script("#!/usr/bin/env -S node --harmony\n"),
        ] {
            assert!(runs_node(&yes), "{yes:?}");
        }
        for no in [
            program("/usr/bin/env", &["python3", "node"]),
            program("/usr/bin/env", &[]),
            program("/srv/node-like", &["node"]),
            script("#!/bin/sh\nnode\n"),
            script(""),
            program("/no/such/file", &[]),
        ] {
            assert!(!runs_node(&no), "{no:?}");
        }
    }
}
