//! The processes of applications: each prototype leads a process group, which a lifeline ties to the life of main.
//!
//! Must never: signal a process outside these groups, or forget a group while one of its processes lives.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_protocol::{ApplicationGrant, CommandGrant};
use tutti_sys::spawn::{Spawn, inherited};
use tutti_sys::{lifeline, oom, priority, proc, signal};
use tutti_wire::command;
use tutti_wire::control::{FD_CONTROL, FD_LIFELINE, FD_START, MODULE_VARIABLE};

use super::handover::{HandedCommand, HandedGroup};
use super::hosts::Hosts;
use super::isolation::{IsolationError, PrototypeEnvironment};
use super::service_manager;

/// Time between asking a group to end and killing it.
const GRACE: Duration = Duration::from_secs(2);

/// Prototypes of one application that a router may have at once.
const MOST_OF_ONE: usize = 64;

/// Runners of a router that check commands at once: a change has one for each new command.
const MOST_LOOKS: usize = 4096;

struct Group {
    /// Closing it ends the rest of the group.
    lifeline: OwnedFd,
    /// The router it belongs to.
    router: i32,
    /// The grant it was started with; `None` if it was started by a former program of this process.
    grant: Option<Rc<ApplicationGrant>>,
    /// When it will be killed.
    doomed: Option<Instant>,
    /// The command that it runs, if it is not a group of workers.
    command: Option<HandedCommand>,
}

/// All groups, by the process id of their leader.
#[derive(Default)]
pub(super) struct Children {
    groups: HashMap<i32, Group>,
    hosts: Hosts,
}

/// A prototype to start.
pub(super) struct Prototype<'a> {
    /// Process id of the requesting router.
    pub(super) router: i32,
    pub(super) host: &'a Path,
    /// The grant that defines it; the router contributes nothing.
    pub(super) grant: Rc<ApplicationGrant>,
    pub(super) surroundings: PrototypeEnvironment,
    pub(super) start_document: OwnedFd,
    /// In the order of [`tutti_protocol::FromRouter::Start`].
    pub(super) descriptors: Vec<OwnedFd>,
}

/// A runner to start.
pub(super) struct Runner<'a> {
    /// Process id of the requesting router.
    pub(super) router: i32,
    pub(super) host: &'a Path,
    /// The grant that defines it.
    pub(super) grant: Rc<CommandGrant>,
    pub(super) surroundings: PrototypeEnvironment,
    pub(super) start_document: OwnedFd,
    /// In the order of [`tutti_protocol::FromRouter::RunCommand`].
    pub(super) descriptors: Vec<OwnedFd>,
    /// The number of the command's process; `None`: it only checks the command.
    pub(super) process: Option<u32>,
}

/// Descriptors before the events: control, segment, spool, output.
const FIXED_DESCRIPTORS: usize = 4;

impl Children {
    /// Starts a prototype; returns its process id.
    pub(super) fn start(&mut self, prototype: Prototype<'_>) -> Result<i32, IsolationError> {
        if prototype.descriptors.len() <= FIXED_DESCRIPTORS {
            return Err(IsolationError::from(io::Error::new(
                io::ErrorKind::InvalidInput,
                "too few descriptors for a prototype",
            )));
        }
        let (ours, theirs) = lifeline::pair()?;
        let mut spawn = Spawn::new(prototype.host)?
            .argument_zero(title(&prototype.grant.name))?
            .variable(MODULE_VARIABLE, prototype.host)?
            .new_session()
            .death_signal(libc::SIGKILL)
            .oom_value(oom::value_of_applications())
            .descriptor(File::open("/dev/null")?.into(), 0)
            .descriptor(prototype.start_document, 6)
            .descriptor(theirs, 7);
        if let Some(program) = self.hosts.unreadable(prototype.host)? {
            spawn = spawn.program_file(program);
        }
        for (name, value) in service_manager::environment() {
            spawn = spawn.variable(name, value)?;
        }
        for (place, fd) in prototype.descriptors.into_iter().enumerate() {
            spawn = match place {
                // Control, segment, spool.
                0..=2 => spawn.descriptor(fd, [3, 4, 5][place]),
                3 => {
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
            .put_around(spawn)?
            .start()
            .map_err(|error| kind.explain(&error))?;
        // Others are serving, perhaps those that this one is to replace.
        if !self.groups.is_empty() && priority::may_lift() {
            priority::give_way(pid);
        }
        self.add(
            pid,
            Group {
                lifeline: ours,
                router: prototype.router,
                grant: Some(prototype.grant),
                doomed: None,
                command: None,
            },
        );
        Ok(pid)
    }

    /// Starts the runner of a command; returns its process id. `None`: a former process with this place and number has
    /// not ended yet.
    pub(super) fn run_command(
        &mut self,
        runner: Runner<'_>,
    ) -> Result<Option<i32>, IsolationError> {
        let command = HandedCommand {
            place: runner
                .process
                .map(|process| (runner.grant.place.clone(), process)),
            stop_timeout: runner.grant.stop_timeout,
        };
        let is_same = |group: &Group| {
            let other = group
                .command
                .as_ref()
                .and_then(|other| other.place.as_ref());
            other.is_some() && other == command.place.as_ref()
        };
        if self.groups.values().any(is_same) {
            return Ok(None);
        }
        let [control, output] = <[OwnedFd; 2]>::try_from(runner.descriptors).map_err(|_| {
            let text = "a command takes two descriptors";
            IsolationError::from(io::Error::new(io::ErrorKind::InvalidInput, text))
        })?;
        let (ours, theirs) = lifeline::pair()?;
        let twin = output.try_clone()?;
        let role = match runner.process {
            Some(_) => command::RUN,
            None => command::LOOK,
        };
        let mut spawn = Spawn::new(runner.host)?
            .argument_zero("tutti: runner")?
            .argument(role)?
            .variable(MODULE_VARIABLE, runner.host)?
            .new_session()
            // It notices the end of main by its lifeline, and ends all its child processes before itself; if it is
            // stopped, this signal wakes it.
            .death_signal(libc::SIGCONT)
            .oom_value(oom::value_of_applications())
            .descriptor(File::open("/dev/null")?.into(), 0)
            .descriptor(output, 1)
            .descriptor(twin, 2)
            .descriptor(control, FD_CONTROL)
            .descriptor(runner.start_document, FD_START)
            .descriptor(theirs, FD_LIFELINE);
        if let Some(program) = self.hosts.unreadable(runner.host)? {
            spawn = spawn.program_file(program);
        }
        for (name, value) in service_manager::environment() {
            spawn = spawn.variable(name, value)?;
        }
        let kind = runner.surroundings.kind();
        let pid = runner
            .surroundings
            .put_around(spawn)?
            .start()
            .map_err(|error| kind.explain(&error))?;
        self.add(
            pid,
            Group {
                lifeline: ours,
                router: runner.router,
                grant: None,
                doomed: None,
                command: Some(command),
            },
        );
        Ok(Some(pid))
    }

    /// Handles the end of a child. If it was the runner of a command, nothing supervises the rest of its group any
    /// more.
    pub(super) fn ended(&self, pid: i32) {
        if self
            .groups
            .get(&pid)
            .is_some_and(|group| group.command.is_some())
        {
            let _ = signal::send_group(pid, libc::SIGKILL);
        }
    }

    /// A prototype of this router is ready: its priority is restored.
    pub(super) fn settle(&self, router: i32, pid: i32) -> io::Result<()> {
        match self.is_led_by(router, pid) && priority::may_lift() {
            true => priority::lift(pid),
            false => Ok(()),
        }
    }

    /// True if a process belongs to the group of this leader or is its child, and the leader is one of this router's. A
    /// router of a former version names no leader: then any of its leaders counts.
    pub(super) fn owns(&self, router: i32, leader: Option<i32>, pid: i32) -> bool {
        let is_of = |&leader: &i32| {
            self.is_led_by(router, leader) && proc::is_of(pid, leader).is_ok_and(|is_of| is_of)
        };
        pid > 1
            && match leader {
                Some(leader) => is_of(&leader),
                None => self.groups.keys().any(is_of),
            }
    }

    fn add(&mut self, leader: i32, group: Group) {
        // kill(2): 0, 1 and -1 are not single groups.
        assert!(leader > 1, "{leader} leads no group of ours");
        self.groups.insert(leader, group);
    }

    fn is_led_by(&self, router: i32, leader: i32) -> bool {
        let group = self.groups.get(&leader);
        group.is_some_and(|group| group.router == router)
    }

    /// True if this router has a group that was started with this grant, as far as known.
    pub(super) fn has_of(&self, router: i32, grant: &Rc<ApplicationGrant>) -> bool {
        self.groups.values().any(|group| {
            let started_as = group.grant.as_ref();
            let is_application = group.command.is_none() && group.router == router;
            is_application && started_as.is_none_or(|own| Rc::ptr_eq(own, grant))
        })
    }

    /// True if this router has the maximum number of groups that were started with this grant: a correct router has a
    /// few, while former ones finish their requests, and a compromised one would fill the machine with them.
    pub(super) fn has_most_of(&self, router: i32, grant: &Rc<ApplicationGrant>) -> bool {
        let is_one = |group: &&Group| {
            let started_as = group.grant.as_ref();
            group.router == router && started_as.is_some_and(|own| Rc::ptr_eq(own, grant))
        };
        self.groups.values().filter(is_one).count() >= MOST_OF_ONE
    }

    /// True if this router has the maximum number of groups that only check commands.
    pub(super) fn has_most_looks(&self, router: i32) -> bool {
        let is_look = |group: &&Group| {
            let command = group.command.as_ref();
            group.router == router && command.is_some_and(|command| command.place.is_none())
        };
        self.groups.values().filter(is_look).count() >= MOST_LOOKS
    }

    /// Forgets groups without processes.
    pub(super) fn forget_empty(&mut self) {
        // A group exists as long as it contains any process, including a zombie.
        self.groups.retain(|&leader, _| group_exists(leader));
    }

    /// Returns the current groups for a handover.
    pub(super) fn handed(&self) -> Vec<HandedGroup> {
        let handed = |(&leader, group): (&i32, &Group)| HandedGroup {
            leader,
            lifeline: group.lifeline.as_raw_fd(),
            router: group.router,
            command: group.command.clone(),
        };
        self.groups.iter().map(handed).collect()
    }

    /// Takes over a group from a handover.
    pub(super) fn adopt(&mut self, handed: &HandedGroup) -> io::Result<()> {
        let group = Group {
            lifeline: inherited(handed.lifeline)?,
            router: handed.router,
            grant: None,
            doomed: None,
            command: handed.command.clone(),
        };
        self.add(handed.leader, group);
        Ok(())
    }

    /// Kills the groups of a router, and forgets them.
    pub(super) fn kill_of(&mut self, router: i32) {
        self.groups.retain(|&leader, group| {
            let is_its = group.router == router;
            if is_its {
                kill_group(leader);
            }
            !is_its
        });
    }

    /// Asks the groups of a router, or all, to end, and kills those that have not after a while. Runners of commands
    /// have noticed the end of their router, and give the command its own signal and time; only if everything ends do
    /// they have no more time than others.
    pub(super) fn end(&mut self, router: Option<i32>, now: Instant) {
        for (&leader, group) in &mut self.groups {
            let is_meant = router.is_none_or(|router| router == group.router);
            match &group.command {
                Some(command) if is_meant => {
                    let own = Duration::from_millis(command.stop_timeout);
                    let until = now + if router.is_some() { own + GRACE } else { GRACE };
                    group.doomed = Some(group.doomed.map_or(until, |doomed| doomed.min(until)));
                }
                None if is_meant && group.doomed.is_none() => {
                    group.doomed = Some(now + GRACE);
                    let _ = signal::send_group(leader, libc::SIGTERM);
                }
                _ => {}
            }
        }
    }

    /// Does the same with the groups of routers other than these, which have ended.
    pub(super) fn end_orphans(&mut self, routers: &[i32], now: Instant) {
        let owners = self.groups.values().map(|group| group.router);
        let ended: BTreeSet<i32> = owners.filter(|owner| !routers.contains(owner)).collect();
        for router in ended {
            self.end(Some(router), now);
        }
    }

    /// Kills the groups whose time is over.
    pub(super) fn kill_overdue(&mut self, now: Instant) {
        for (&leader, group) in &mut self.groups {
            if group.doomed.is_some_and(|at| at <= now) {
                kill_group(leader);
                group.doomed = Some(now + GRACE);
            }
        }
    }

    /// Returns when [`Children::kill_overdue`] must be called next.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.groups.values().filter_map(|g| g.doomed).min()
    }

    /// True if there is any group.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// Returns the title of a prototype. A name may be a megabyte long, an argument only 128 KB (`MAX_ARG_STRLEN`,
/// execve(2)).
fn title(name: &str) -> String {
    const LONGEST_NAME: usize = 1000;
    let name: String = name
        .chars()
        .filter(|&c| c != '\0')
        .take(LONGEST_NAME)
        .collect();
    format!("tutti: \"{name}\" prototype")
}

/// Kills a group, and before that the children of its leader that have left it: they are not known as such afterwards.
fn kill_group(leader: i32) {
    for child in proc::started_by(leader) {
        let _ = signal::send(child, libc::SIGKILL);
    }
    let _ = signal::send_group(leader, libc::SIGKILL);
}

fn group_exists(leader: i32) -> bool {
    !matches!(signal::send_group(leader, 0), Err(e) if e.raw_os_error() == Some(libc::ESRCH))
}

/// Kills every remaining descendant, whatever group or session it has moved to.
pub(super) fn kill_strays() {
    for pid in proc::children(tutti_sys::process::id()) {
        let _ = signal::send(pid, libc::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::IntoRawFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use tutti_testkit::wait_until;

    use super::*;

    /// Adopts a process that leads a group and ignores SIGTERM.
    fn adopted(children: &mut Children, router: i32) -> Child {
        let mut command = Command::new("sh");
        let script = "trap '' TERM; echo; while :; do sleep 100; done";
        command.args(["-c", script]).process_group(0);
        let (mut output, write) = io::pipe().unwrap();
        let child = command.stdout(write).spawn().unwrap();
        drop(command);
        // It ignores the signal from now on.
        io::Read::read_exact(&mut output, &mut [0]).unwrap();
        let handed = HandedGroup {
            leader: child.id().cast_signed(),
            lifeline: OwnedFd::from(output).into_raw_fd(),
            router,
            command: None,
        };
        children.adopt(&handed).unwrap();
        child
    }

    #[test]
    fn a_process_belongs_to_its_own_leader_and_router() {
        let mut children = Children::default();
        let (mut one, mut other) = (adopted(&mut children, 11), adopted(&mut children, 11));
        let (pid, foreign) = (one.id().cast_signed(), other.id().cast_signed());
        assert!(children.owns(11, Some(pid), pid));
        assert!(!children.owns(11, Some(pid), foreign));
        assert!(!children.owns(12, Some(pid), pid));
        // A router of a former version.
        assert!(children.owns(11, None, pid) && !children.owns(12, None, pid));
        children.kill_of(11);
        one.wait().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_process_that_has_left_the_group_of_its_leader_belongs_to_it_and_ends_with_it() {
        let mut children = Children::default();
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 1000 & echo $!; wait"]);
        let (output, write) = io::pipe().unwrap();
        let mut leader = command.process_group(0).stdout(write).spawn().unwrap();
        drop(command);
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let worker: i32 = line.trim().parse().unwrap();
        let pid = leader.id().cast_signed();
        wait_until("it has left the group", || {
            proc::stat(worker).unwrap().group == worker
        });
        let handed = HandedGroup {
            leader: pid,
            lifeline: OwnedFd::from(File::open("/dev/null").unwrap()).into_raw_fd(),
            router: 11,
            command: None,
        };
        children.adopt(&handed).unwrap();
        assert!(children.owns(11, Some(pid), worker) && children.owns(11, None, worker));
        assert!(!children.owns(12, Some(pid), worker));
        children.kill_of(11);
        leader.wait().unwrap();
        // The end of the file: the process had it, too.
        assert_eq!(output.read_line(&mut line).unwrap(), 0);
    }

    #[test]
    fn groups_of_routers_that_have_ended_are_killed_after_a_takeover() {
        let mut children = Children::default();
        let (mut orphan, mut other) = (adopted(&mut children, 11), adopted(&mut children, 12));
        let now = Instant::now();
        children.end_orphans(&[12], now);
        assert_eq!(children.next_deadline(), Some(now + GRACE));
        children.kill_overdue(now + GRACE);
        orphan.wait().unwrap();
        assert!(other.try_wait().unwrap().is_none());
        children.kill_of(12);
        other.wait().unwrap();
    }
}
