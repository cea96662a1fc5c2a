//! The process itself and its children: death signals, reaping, limits, pidfd, daemonising.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, WaitOptions};

use crate::error::context;

/// The end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By leaving with this code.
    Code(i32),
    /// By this signal; whether it left a core file.
    Signal(i32, bool),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "exited with code {code}"),
            Ended::Signal(signal, core) => {
                write!(
                    f,
                    "exited on signal {signal} ({})",
                    crate::signal::name(*signal)
                )?;
                if *core {
                    f.write_str(" (core dumped)")
                } else {
                    Ok(())
                }
            }
        }
    }
}

/// The number of this process.
pub fn id() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The number of the calling thread.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// The signal this process gets when the *thread* that made it ends. Cleared by a change of credentials: set it
/// after that, and check the parent afterwards.
pub fn set_parent_death_signal(signal: i32) -> io::Result<()> {
    let signal = rustix::process::Signal::from_named_raw(signal)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such signal"))?;
    rustix::process::set_parent_process_death_signal(Some(signal))
        .map_err(|e| context("setting the death signal", e))
}

/// The parent's number (0 when it is outside our namespace).
pub fn parent() -> i32 {
    rustix::process::getppid().map_or(0, |p| p.as_raw_nonzero().get())
}

/// Makes this process the one that orphaned descendants fall to.
pub fn become_subreaper() -> io::Result<()> {
    // Any number but 0 turns it on.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| context("becoming subreaper", e))
}

/// Nothing this process execs can gain privileges by set-uid bits.
pub fn forbid_new_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true).map_err(|e| context("setting no_new_privs", e))
}

/// Keeps other processes of the same user from attaching to this one, reading its memory, or taking its descriptors. One that
/// is hidden already stays as it is: with `fs.suid_dumpable` 2 root gets its core dumps (proc_sys_fs(5)).
pub fn hide_memory() -> io::Result<()> {
    if rustix::process::dumpable_behavior().is_ok_and(|now| now != DumpableBehavior::Dumpable) {
        return Ok(());
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|e| context("setting not dumpable", e))
}

/// Names the calling thread, and with it, in the first thread, the process as `top` and `killall` know it. Cut to what the
/// kernel keeps: 15 bytes (PR_SET_NAME(2const)).
pub fn set_name(name: &str) {
    let name: Vec<u8> = name.bytes().filter(|&byte| byte != 0).take(15).collect();
    if let Ok(name) = std::ffi::CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Raises the limit of open descriptors to what is allowed; the limit then in force.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, raised)
        .map_err(|e| context("raising the descriptor limit", e))?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Takes the next child that has ended, without waiting.
pub fn reap() -> Option<(i32, Ended)> {
    reap_with(None)
}

/// Takes this child if it has ended, without waiting.
pub fn reap_one(pid: i32) -> Option<Ended> {
    reap_with(Some(Pid::from_raw(pid)?)).map(|(_, ended)| ended)
}

fn reap_with(pid: Option<Pid>) -> Option<(i32, Ended)> {
    // Not `waitpid(None)`: that is waitpid(2)'s 0, the children of our own process group, and hosts have sessions of
    // their own.
    let (pid, status) = match pid {
        Some(pid) => rustix::process::waitpid(Some(pid), WaitOptions::NOHANG).ok()??,
        None => rustix::process::wait(WaitOptions::NOHANG).ok()??,
    };
    let ended = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, Some(signal)) => Ended::Signal(signal, libc::WCOREDUMP(status.as_raw())),
        (None, None) => return None,
    };
    Some((pid.as_raw_nonzero().get(), ended))
}

/// True if any child is left, ended or not.
pub fn has_children() -> bool {
    use rustix::process::{WaitId, WaitIdOptions};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(
        rustix::process::waitid(WaitId::All, options),
        Err(rustix::io::Errno::CHILD)
    )
}

/// A descriptor that becomes readable when the process ends.
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such process"))?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Makes the calling process the leader of a new session and process group.
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()
        .map(drop)
        .map_err(|e| context("making a session", e))
}

/// Sets the file mode mask; the old one.
pub fn set_umask(mask: u32) -> u32 {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask)).as_raw_mode()
}

/// The process that made the socket at the other end of `stream` listen, as a descriptor for [`await_end`]. Fails for process 1, which
/// hands sockets to others.
pub fn listening(stream: &UnixStream) -> io::Result<OwnedFd> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    match peer.pid.as_raw_nonzero().get() {
        1 => Err(io::Error::from(io::ErrorKind::Unsupported)),
        pid => pidfd(pid),
    }
}

/// Waits until a process has ended.
pub fn await_end(process: &OwnedFd) -> io::Result<()> {
    let mut asked = [PollFd::new(process, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut asked, None) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return Ok(outcome.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    #[test]
    fn pidfd_shows_the_end_and_reap_returns_how() {
        #[expect(clippy::zombie_processes, reason = "reaped by the function under test")]
        let child = std::process::Command::new("sh")
            .args(["-c", "exit 7"])
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let fd = pidfd(pid).unwrap();
        let mut polls = [PollFd::new(&fd, PollFlags::IN)];
        poll(&mut polls, None).unwrap();
        assert_eq!(reap_one(pid), Some(Ended::Code(7)));
        assert_eq!(reap_one(pid), None);
    }

    #[test]
    fn ended_reads_well() {
        assert_eq!(
            Ended::Signal(11, true).to_string(),
            "exited on signal 11 (SIGSEGV) (core dumped)"
        );
        assert_eq!(Ended::Code(3).to_string(), "exited with code 3");
    }
}
