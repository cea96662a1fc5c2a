//! Limits the processor time that a process that is getting ready takes from those that serve.
//!
//! On a busy machine a process that boots gets as much of the processors as each of those that answer requests. Where the kernel groups
//! processes by session (autogroup) it even gets as much as all of a session together, so that both the nice value and that of the
//! session's group count. What must never happen: a process whose priority stays lowered because no process may raise it again.

use std::io;
use std::path::Path;

use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::CapabilitySet;

/// The nice value of a process that gets ready: it has a third of the weight of one that serves.
const GETTING_READY: i32 = 5;

/// The last of the nice values.
const LEAVING: i32 = 19;

/// True if this process may lift others up again: raising a nice value needs one of these, the group's in quick succession the other.
pub fn may_lift() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| {
        sets.effective
            .contains(CapabilitySet::SYS_NICE | CapabilitySet::SYS_ADMIN)
    })
}

/// Lowers the priority of a new process and of its children below those that serve. Where it cannot be done, nothing fails.
pub fn give_way(pid: i32) {
    set_group(&pid.to_string(), GETTING_READY);
    if let (Some(process), Ok(nice)) = (Pid::from_raw(pid), lowered()) {
        let _ = setpriority_process(Some(process), nice);
    }
}

/// The lowered nice value: this process's own and more.
fn lowered() -> rustix::io::Result<i32> {
    Ok((getpriority_process(None)? + GETTING_READY).min(LEAVING))
}

/// Gives this process, whose session ends with it, the lowest priority.
pub fn give_way_to_all() {
    set_group("self", LEAVING);
    let _ = setpriority_process(None, LEAVING);
}

/// Makes a process, its threads and its children this one's equals again. Those that have chosen another nice value keep it.
///
/// # Errors
/// One of them could not be lifted up. That one of them has ended is no error.
pub fn lift(pid: i32) -> io::Result<()> {
    set_group(&pid.to_string(), 0);
    for thread in entries(&format!("/proc/{pid}/task"))? {
        match lift_one(thread) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
        let path = format!("/proc/{pid}/task/{thread}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        for child in children.split_ascii_whitespace() {
            lift(child.parse().map_err(io::Error::other)?)?;
        }
    }
    Ok(())
}

/// The numbers in a folder of /proc; none where the process has ended.
fn entries(folder: &str) -> io::Result<Vec<i32>> {
    let entries = match Path::new(folder).read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let number =
        |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(entries.filter_map(number).collect())
}

fn lift_one(thread: i32) -> rustix::io::Result<()> {
    let thread = Pid::from_raw(thread);
    if thread.is_some() && getpriority_process(thread)? == lowered()? {
        setpriority_process(thread, getpriority_process(None)?)?;
    }
    Ok(())
}

/// A kernel without such groups, or a `/proc` that is not there, has nothing to set.
fn set_group(process: &str, nice: i32) {
    let _ = std::fs::write(format!("/proc/{process}/autogroup"), nice.to_string());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;

    fn nice(pid: i32) -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        rest.split_ascii_whitespace()
            .nth(16)
            .unwrap()
            .parse()
            .unwrap()
    }

    #[test]
    fn a_process_with_its_children_gives_way_and_is_lifted_up_again() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .spawn()
            .unwrap();
        let pid = shell.id().cast_signed();
        let children = || {
            let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            text.split_ascii_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect::<Vec<i32>>()
        };
        tutti_testkit::wait_until("the shell has a child", || !children().is_empty());
        let all = [children(), vec![pid]].concat();
        let before = nice(pid);
        assert!(
            before + GETTING_READY <= LEAVING,
            "the tests run at nice value {before}"
        );
        for &process in &all {
            give_way(process);
            assert_eq!(nice(process), before + GETTING_READY);
        }
        if may_lift() {
            lift(pid).unwrap();
            for &process in &all {
                assert_eq!(nice(process), before);
            }
        }
        for process in all {
            crate::signal::send(process, libc::SIGKILL).unwrap();
        }
        shell.wait().unwrap();
        // Neither is one that has ended a fault.
        give_way(pid);
        lift(pid).unwrap();
    }
}
