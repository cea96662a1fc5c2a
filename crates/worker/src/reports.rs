//! Messages of a prototype and its workers to the router.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_options::logging::Level;
use tutti_sys::{process, seqpacket};
use tutti_wire::control::{FromPrototype, encode};

use crate::error::StartError;
use crate::log::line;

/// The longest text of a failure, without the note about the omitted part; the whole message must fit `MAX_MESSAGE`, including escapes.
const MAX_TEXT: usize = 8 * 1024;

/// Warnings about options that have not been sent to the router yet.
static WARNINGS: Mutex<Vec<StartError>> = Mutex::new(Vec::new());

/// Warns of an option that does not keep the application from starting: in the log, and in the answer to the change that starts it. Call it
/// while the application is loaded.
pub fn warn_of_option(warning: StartError) {
    line(Level::Warn, "", warning.message.as_bytes());
    warnings().push(warning);
}

fn warnings() -> MutexGuard<'static, Vec<StartError>> {
    WARNINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the stored warnings to the router.
pub(crate) fn send_warnings(control: &OwnedFd) -> io::Result<()> {
    for warning in std::mem::take(&mut *warnings()) {
        let message = FromPrototype::Warning {
            message: cut(warning.message),
            hint: warning.hint.map(cut),
            member: warning.member.map(cut),
        };
        send(control, &message)?;
    }
    Ok(())
}

/// Sends a message; one of a process about itself carries its pidfd where process ids differ.
pub(crate) fn send(control: &OwnedFd, message: &FromPrototype) -> io::Result<()> {
    // A process id of a pid namespace is meaningless outside, so the pidfd is sent along, which the receiver's kernel translates.
    let new = match message {
        // Not for a child: the receiver knows its process id since it was forked.
        FromPrototype::WorkerReady { pid, .. } | FromPrototype::WorkerFailed { pid, .. }
            if *pid == process::id() && process::parent() == 1 =>
        {
            match process::pidfd(*pid) {
                Ok(pidfd) => Some(pidfd),
                // The receiver knows the process by this id, too: it got the pidfd with `Forked`, which came first.
                Err(error) if seqpacket::lacks_descriptors(&error) => None,
                Err(error) => return Err(error),
            }
        }
        _ => None,
    };
    let pidfds: Vec<_> = new.iter().map(AsFd::as_fd).collect();
    seqpacket::send(control.as_fd(), &encode(message), &pidfds)
}

/// Reports why this worker does not start.
pub(crate) fn report(control: &OwnedFd, worker: u32, error: StartError) -> ExitCode {
    report_of(control, worker, process::id(), error);
    ExitCode::FAILURE
}

/// Reports why the worker in the process `pid` does not start: this process, or a child that is not reaped yet.
pub(crate) fn report_of(control: &OwnedFd, worker: u32, pid: i32, error: StartError) {
    let text = error.to_string();
    let failed = FromPrototype::WorkerFailed {
        worker,
        pid,
        step: cut(error.step),
        message: cut(error.message),
        hint: error.hint.map(cut),
        member: error.member.map(cut),
    };
    if send(control, &failed).is_err() {
        eprintln!("{text}");
    }
}

/// Cuts the middle of a text that is too long for a message: the beginning names the place, and the end of a traceback has the exception.
/// Characters are not split.
pub(crate) fn cut(text: String) -> String {
    /// Bytes of the beginning; the rest is for the end.
    const HEAD: usize = MAX_TEXT / 4;
    if text.len() <= MAX_TEXT {
        return text;
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=HEAD).rev().find(is_boundary).unwrap_or(0);
    let tail = text.len() - (MAX_TEXT - HEAD);
    let tail = (tail..=text.len()).find(is_boundary).unwrap_or(text.len());
    let (beginning, end) = (text.get(..head), text.get(tail..));
    format!(
        "{}\n[… {} bytes omitted …]\n{}",
        beginning.unwrap_or_default(),
        tail - head,
        end.unwrap_or_default()
    )
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 28: the end of a long traceback, with the exception, was cut off.
    #[test]
    fn a_long_text_keeps_both_of_its_ends() {
        assert_eq!(cut("short".to_owned()), "short");
        let long = format!("Traceback: é{}é ValueError: no", "ö".repeat(10_000));
        let shown = cut(long);
        assert!(shown.starts_with("Traceback: é"), "{shown}");
        assert!(shown.ends_with("é ValueError: no"), "{shown}");
        assert!(shown.contains("bytes omitted"), "{shown}");
        assert!(shown.len() <= MAX_TEXT + 64);
    }
}
