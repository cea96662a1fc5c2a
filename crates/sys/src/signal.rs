//! Signals as readable events, and sending them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::error::context;

/// A set of signals that is blocked and read from a descriptor instead.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks `signals` for this thread (and those it makes later) and gives the descriptor they are read from.
    pub fn take(signals: &[i32]) -> io::Result<Signals> {
        let set = set_of(signals)?;
        set.thread_block()
            .map_err(|e| context("blocking signals", e))?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(|e| context("creating a signal descriptor", e))?;
        Ok(Signals(fd))
    }

    /// The next pending signal's number, if any.
    pub fn next(&self) -> Option<i32> {
        let info = self.0.read_signal().ok().flatten()?;
        i32::try_from(info.ssi_signo).ok()
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_of(signals: &[i32]) -> io::Result<SigSet> {
    let mut set = SigSet::empty();
    for &number in signals {
        set.add(Signal::try_from(number).map_err(io::Error::from)?);
    }
    Ok(set)
}

/// Blocks `signals` in the calling thread and those it makes later.
pub fn block(signals: &[i32]) -> io::Result<()> {
    set_of(signals)?
        .thread_block()
        .map_err(|e| context("blocking signals", e))
}

/// Sets a signal to be ignored by this process and what it execs.
pub fn ignore(signal: i32) -> io::Result<()> {
    set_disposition(signal, libc::SIG_IGN)
}

/// Sets a signal back to its default action.
pub fn set_default(signal: i32) -> io::Result<()> {
    set_disposition(signal, libc::SIG_DFL)
}

fn set_disposition(signal: i32, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: SIG_IGN and SIG_DFL (the only values callers here pass) install no code to be run.
    if unsafe { libc::signal(signal, action) } == libc::SIG_ERR {
        return Err(context(
            format!("setting the action of signal {signal}"),
            io::Error::last_os_error(),
        ));
    }
    Ok(())
}

/// Sends a signal to one process (positive number only: never a group or everyone by accident).
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    if pid <= 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "process number must be positive",
        ));
    }
    kill_raw(pid, signal)
}

/// Sends a signal to a whole process group.
pub fn send_group(group: i32, signal: i32) -> io::Result<()> {
    if group <= 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "process group number must be above 1",
        ));
    }
    kill_raw(-group, signal)
}

/// Sends a signal to every process of our pid namespace but ourselves. Only for the first process of one that is not the system's: what
/// is in it descends from us.
pub fn send_to_namespace(signal: i32) -> io::Result<()> {
    if rustix::process::getpid() != rustix::process::Pid::INIT {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "only the first process of a pid namespace may signal all of it",
        ));
    }
    kill_raw(-1, signal)
}

fn kill_raw(target: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes two integers and touches no memory of ours.
    if unsafe { libc::kill(target, signal) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// True if a process with this number exists (a zombie counts).
pub fn exists(pid: i32) -> bool {
    pid > 0 && !matches!(send(pid, 0), Err(e) if e.raw_os_error() == Some(libc::ESRCH))
}

/// The usual name of a signal (`SIGSEGV`), or its number.
pub fn name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |s| s.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_process_signals_a_whole_namespace() {
        assert!(send_to_namespace(0).is_err());
    }

    #[test]
    fn taken_signal_is_read_not_delivered() {
        std::thread::spawn(|| {
            let signals = Signals::take(&[libc::SIGUSR2]).unwrap();
            assert_eq!(signals.next(), None);
            nix::sys::signal::raise(Signal::SIGUSR2).unwrap();
            assert_eq!(signals.next(), Some(libc::SIGUSR2));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn groups_and_everyone_cannot_be_hit_by_accident() {
        assert!(send(0, 0).is_err());
        assert!(send(-1, 0).is_err());
        assert!(send_group(1, 0).is_err());
        assert!(exists(std::process::id() as i32));
        assert_eq!(name(libc::SIGSEGV), "SIGSEGV");
    }
}
