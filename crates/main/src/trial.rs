//! The trial of an upgrade: the new program is run beside the old one with a copy of the handover, and reports whether
//! it could take over.
//!
//! [`start`] is called by the old program, [`try_takeover`] by the new one. The trial itself runs as main's user,
//! because it queries the language hosts; the configuration is checked by a separate process without privileges, like
//! everything that comes from a client.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use tutti_protocol::{BECOME, CHECK_TITLE, CheckDocument, LINE, written_user};
use tutti_sys::credentials;
use tutti_sys::process::{Ended, pidfd, reap_one};
use tutti_sys::spawn::Spawn;
use tutti_sys::{memfd, priority, seqpacket};

use super::handover::{Handover, PROTOCOL};
use super::own_process::OWN_PROGRAM;
use super::{service_manager, users};

/// A program that can take over prints exactly this.
pub(super) const READY: &str = "tutti: ready to take over";

/// Descriptor of the handover in a trial.
const TRIAL_DOCUMENT: RawFd = 3;

/// Longest message that is logged.
const LONGEST_WORDS: usize = 2000;

/// Runs the trial, in the new program.
pub fn try_takeover() -> ExitCode {
    let tried = Handover::read(TRIAL_DOCUMENT).and_then(|handover| {
        let modules = crate::modules::found(&handover.modules);
        match handover.configuration {
            Some(configuration) => check(&CheckDocument {
                modules,
                configuration,
            }),
            None => Ok(()),
        }
    });
    match tried {
        Ok(()) => {
            let _ = writeln!(io::stdout(), "{READY} {PROTOCOL}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Checks the configuration in a process of the unprivileged user.
fn check(document: &CheckDocument) -> io::Result<()> {
    let (output, write) = io::pipe()?;
    let mut spawn = Spawn::new(OWN_PROGRAM)?
        .argument_zero(CHECK_TITLE)?
        .death_signal(libc::SIGKILL)
        .no_new_privileges()
        .descriptor(File::open("/dev/null")?.into(), 0)
        .descriptor(File::options().write(true).open("/dev/null")?.into(), 1)
        .descriptor(write.into(), 2)
        .descriptor(
            memfd::document("tutti-check", &serde_json::to_vec(document)?)?,
            LINE,
        );
    for (name, value) in service_manager::environment() {
        spawn = spawn.variable(name, value)?;
    }
    if credentials::is_root() {
        spawn = spawn.variable(BECOME, written_user(&users::without_rights()?))?;
    }
    let pid = spawn
        .start()
        .map_err(|e| io::Error::new(e.source.kind(), e.to_string()))?;
    // The old program limits the time that this takes. The message is read when the process has ended, as far as it
    // fits into a pipe.
    let _ = poll(&mut [PollFd::new(&pidfd(pid)?, PollFlags::IN)], None);
    match reap_one(pid) {
        Some(Ended::Code(0)) => Ok(()),
        ended => {
            let words = words_of(output);
            let how = ended.map_or_else(|| "is gone".to_owned(), |ended| ended.to_string());
            let text = match words.is_empty() {
                true => format!("the process that checks the configuration {how}"),
                false => words,
            };
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        }
    }
}

/// Starts the trial, with the arguments of the takeover: a program that rejects one of them must not take over.
pub(super) fn start(
    program: &Path,
    arguments: &[OsString],
    handover: &Handover,
) -> io::Result<(i32, io::PipeReader)> {
    let (output, write) = io::pipe()?;
    let write = OwnedFd::from(write);
    let mut spawn = Spawn::new(program)?;
    let mut words = arguments.iter();
    if let Some(name) = words.next() {
        spawn = spawn.argument_zero(name)?;
    }
    for word in words {
        spawn = spawn.argument(word)?;
    }
    spawn = spawn
        .argument("--takeover-trial")?
        .new_session()
        .death_signal(libc::SIGKILL)
        .descriptor(File::open("/dev/null")?.into(), 0)
        .descriptor(write.try_clone()?, 1)
        .descriptor(write, 2)
        .descriptor(handover.document()?, TRIAL_DOCUMENT);
    for (name, value) in service_manager::environment() {
        spawn = spawn.variable(name, value)?;
    }
    let pid = spawn
        .start()
        .map_err(|e| io::Error::new(e.source.kind(), e.to_string()))?;
    priority::give_way(pid);
    Ok((pid, output))
}

pub(super) fn words_of(output: io::PipeReader) -> String {
    let mut text = Vec::new();
    if seqpacket::set_nonblocking(output.as_fd()).is_ok() {
        let _ = output.take(LONGEST_WORDS as u64).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).trim().replace('\n', " ")
}
