//! A worker that is the application's own program, which speaks the wire protocol itself.
//!
//! The program finds its place by the environment (`spec/wire.md`, 9). The prototype executes it in a new process without forking itself.
//! Must never: fail with only an exit code. Errors of the system are reported with a hint.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use tutti_sys::exec::{self, Announcement, Executable};
use tutti_sys::process;
use tutti_wire::Versions;
use tutti_wire::control::{
    FD_CONTROL, FD_EVENTS, FD_LIFELINE, FD_SEGMENT, FD_SPOOL, FD_START, FromPrototype, encode,
};

use crate::error::StartError;

/// A program that speaks the wire protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its path; PATH is not searched.
    pub path: PathBuf,
    /// Its arguments, without its own name.
    pub arguments: Vec<OsString>,
}

/// The descriptors that the program inherits.
pub(crate) struct Handed<'a> {
    pub(crate) number: u32,
    pub(crate) control: &'a OwnedFd,
    pub(crate) segment: &'a OwnedFd,
    pub(crate) start: &'a OwnedFd,
    pub(crate) spool: Option<&'a OwnedFd>,
    pub(crate) lifeline: Option<&'a OwnedFd>,
    /// The router threads' events, then the workers', in order.
    pub(crate) events: Vec<&'a OwnedFd>,
}

impl Handed<'_> {
    /// The descriptors of which there is one, and the first of the events, with their names and numbers.
    fn single(&self) -> impl Iterator<Item = (&'static str, &OwnedFd, RawFd)> {
        [
            ("control", Some(self.control), FD_CONTROL),
            ("segment", Some(self.segment), FD_SEGMENT),
            ("spool", self.spool, FD_SPOOL),
            ("start", Some(self.start), FD_START),
            ("lifeline", self.lifeline, FD_LIFELINE),
            ("events", self.events.first().copied(), FD_EVENTS),
        ]
        .into_iter()
        .filter_map(|(name, descriptor, number)| Some((name, descriptor?, number)))
    }

    /// The variables from which the program learns its place.
    pub(crate) fn variables(&self) -> [(&'static str, String); 3] {
        let named: Vec<_> = self
            .single()
            .map(|(name, _, number)| format!("{name}={number}"))
            .collect();
        [
            ("TUTTI_WIRE", Versions::OWN.to_string()),
            ("TUTTI_WORKER", self.number.to_string()),
            ("TUTTI_DESCRIPTORS", named.join(",")),
        ]
    }

    /// Each descriptor, and its number in the program.
    pub(crate) fn placed(&self) -> Vec<(BorrowedFd<'_>, RawFd)> {
        let further = self.events.iter().copied().zip(FD_EVENTS..).skip(1);
        self.single()
            .map(|(_, descriptor, number)| (descriptor, number))
            .chain(further)
            .map(|(descriptor, number)| (descriptor.as_fd(), number))
            .collect()
    }
}

/// The process of a worker that is a program.
#[derive(Debug)]
pub(crate) struct Started {
    /// Its process id.
    pub(crate) pid: i32,
    /// Why it failed to become the program; it ends then.
    pub(crate) failure: Option<StartError>,
}

/// Starts the program in a new process, which reports itself to the router first.
pub(crate) fn start(program: &Program, handed: &Handed<'_>) -> io::Result<Started> {
    let executable = Executable::new(&program.path, &program.arguments)?
        .inherit_environment(&handed.variables())?;
    let worker = handed.number;
    let forked = |pid| encode(&FromPrototype::Forked { worker, pid });
    // In a pid namespace, as for all messages about its processes.
    let brings_pidfd = process::id() == 1;
    let announcement = Announcement::new(handed.control.as_fd(), forked, brings_pidfd)?;
    let started = exec::start(&executable, &handed.placed(), announcement)?;
    let failure = started.failure.map(|error| {
        let failure = StartError::new(format!("executing `{}`", program.path.display()), &error);
        match hint(&error) {
            Some(hint) => failure.hint(hint).member("executable"),
            None => failure.member("executable"),
        }
    });
    Ok(Started {
        pid: started.pid,
        failure,
    })
}

/// The explanation that the bare error lacks (execve(2)).
pub(crate) fn hint(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::ENOENT => Some(
            "the file exists, but the interpreter named in its first line, or its loader, does not",
        ),
        libc::ENOEXEC => Some(
            "it is not a program for this machine; a script must name its interpreter in the first line: `#!/usr/bin/env node`",
        ),
        libc::EACCES => Some("the application's user must be allowed to execute it"),
        libc::ETXTBSY => {
            Some("the file is still being written; put new versions in place by renaming")
        }
        _ => None,
    }
}

/// Enters the working directory, if there is one.
pub(crate) fn enter(folder: Option<&Path>) -> Result<(), StartError> {
    let Some(folder) = folder else {
        return Ok(());
    };
    std::env::set_current_dir(folder).map_err(|error| {
        let step = format!("entering the working directory `{}`", folder.display());
        StartError::new(step, error)
            .hint("it must exist, and the application's user must be allowed to enter it")
            .member("working_directory")
    })
}
