//! The processes of applications: a group for each prototype, led by it, tied to our life by a lifeline.
//!
//! Must never: signal a process that is not of one of these groups, or forget a group while one of its processes
//! lives.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use tutti_sys::spawn::Spawn;
use tutti_sys::{lifeline, proc, signal};

use super::isolation::{Refusal, Surroundings};

/// Time between being asked to end and being made to.
const GRACE: Duration = Duration::from_secs(2);

struct Group {
    /// Closing it ends what is left of the group.
    _lifeline: OwnedFd,
    /// When it will be killed.
    doomed: Option<Instant>,
}

/// All groups, by the number of their leader.
#[derive(Default)]
pub(super) struct Children {
    groups: HashMap<i32, Group>,
}

/// Descriptors of a new prototype, in the order of [`crate::protocol::ToMain::Start`].
pub(super) struct Prototype<'a> {
    pub(super) host: &'a Path,
    pub(super) name: &'a str,
    pub(super) surroundings: Surroundings,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Descriptors before the events: control, segment, spool, start document, output.
const FIXED_DESCRIPTORS: usize = 5;

impl Children {
    /// Starts a prototype; its number.
    pub(super) fn start(&mut self, prototype: Prototype<'_>) -> Result<i32, Refusal> {
        if prototype.descriptors.len() <= FIXED_DESCRIPTORS {
            return Err(Refusal::from(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too few descriptors for a prototype",
            )));
        }
        let (ours, theirs) = lifeline::pair()?;
        let mut spawn = Spawn::new(prototype.host)?
            .argument_zero(title(prototype.name))?
            .new_session()
            .death_signal(libc::SIGKILL)
            .descriptor(File::open("/dev/null")?.into(), 0)
            .descriptor(theirs, 7);
        for (name, value) in std::env::vars_os() {
            spawn = spawn.variable(name, value)?;
        }
        for (place, fd) in prototype.descriptors.into_iter().enumerate() {
            spawn = match place {
                // Control, segment, spool, start document.
                0..=3 => spawn.descriptor(fd, [3, 4, 5, 6][place]),
                4 => {
                    let twin = fd.try_clone()?;
                    spawn.descriptor(fd, 1).descriptor(twin, 2)
                }
                _ => spawn.descriptor(
                    fd,
                    i32::try_from(place - FIXED_DESCRIPTORS).unwrap_or(0) + 8,
                ),
            };
        }
        let kind = prototype.surroundings.kind();
        let pid = prototype
            .surroundings
            .put_around(spawn)
            .start()
            .map_err(|error| kind.explain(&error))?;
        self.groups.insert(
            pid,
            Group {
                _lifeline: ours,
                doomed: None,
            },
        );
        Ok(pid)
    }

    /// Whether a process is of one of the groups.
    pub(super) fn owns(&self, pid: i32) -> bool {
        pid > 1 && proc::stat(pid).is_ok_and(|s| self.groups.contains_key(&s.group))
    }

    /// Forgets groups without processes.
    pub(super) fn forget_empty(&mut self) {
        // A group exists as long as any process, also a zombie, is in it.
        self.groups.retain(|&leader, _| group_exists(leader));
    }

    /// Asks all groups to end, and makes those that have not after a while.
    pub(super) fn end_all(&mut self, now: Instant) {
        for (&leader, group) in &mut self.groups {
            if group.doomed.is_none() {
                group.doomed = Some(now + GRACE);
                let _ = signal::send_group(leader, libc::SIGTERM);
            }
        }
    }

    /// Kills the groups whose time is over.
    pub(super) fn kill_overdue(&mut self, now: Instant) {
        for (&leader, group) in &mut self.groups {
            if group.doomed.is_some_and(|at| at <= now) {
                let _ = signal::send_group(leader, libc::SIGKILL);
                group.doomed = Some(now + GRACE);
            }
        }
    }

    /// When [`Children::kill_overdue`] is next to be called.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.groups.values().filter_map(|g| g.doomed).min()
    }

    /// Whether there is any group.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// The title of a prototype. A name may be a megabyte long, an argument only 128 KB (`MAX_ARG_STRLEN`, execve(2)).
fn title(name: &str) -> String {
    const LONGEST_NAME: usize = 1000;
    let name: String = name
        .chars()
        .filter(|&c| c != '\0')
        .take(LONGEST_NAME)
        .collect();
    format!("tutti: \"{name}\" prototype")
}

fn group_exists(leader: i32) -> bool {
    !matches!(signal::send_group(leader, 0), Err(e) if e.raw_os_error() == Some(libc::ESRCH))
}

/// Kills every descendant that is left, whatever group or session it has moved to.
pub(super) fn kill_strays() {
    for pid in proc::children(tutti_sys::process::id()) {
        let _ = signal::send(pid, libc::SIGKILL);
    }
}
