//! Becoming another program without becoming another process.
//!
//! Called by main for an upgrade: number, children, blocked signals and the descriptors chosen stay.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::context;
use crate::isolation::c_string;

/// Keeps the descriptor of this number open over [`become_program`], or closes it then.
pub fn keep_number(number: RawFd, stays: bool) -> io::Result<()> {
    let flags = if stays { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: F_SETFD takes an integer; a number that is not open is an error, and no descriptor's ownership changes.
    if unsafe { libc::fcntl(number, libc::F_SETFD, flags) } < 0 {
        return Err(context(
            format!("keeping descriptor {number}"),
            io::Error::last_os_error(),
        ));
    }
    Ok(())
}

/// Runs `program` in place of this one, with this process's environment. Comes back only if that fails; then nothing has
/// changed.
pub fn become_program(program: &Path, arguments: &[OsString]) -> io::Result<Infallible> {
    let program = c_string(program.as_os_str().as_bytes())?;
    let list = |texts: &mut dyn Iterator<Item = OsString>| -> io::Result<Vec<CString>> {
        texts.map(|text| c_string(OsStr::as_bytes(&text))).collect()
    };
    let arguments = list(&mut arguments.iter().cloned())?;
    let environment = list(&mut std::env::vars_os().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        name
    }))?;
    Ok(nix::unistd::execve(&program, &arguments, &environment)?)
}
