//! The processes that main starts for itself, as seen by main: process, connection, and queued messages.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tutti_protocol::{
    self, BECOME, CONTROLLER_TITLE, FromController, FromRouter, LINE, Packet, ROUTER_TITLE,
    RouterCounts, written_user,
};
use tutti_sys::error::context;
use tutti_sys::spawn::{Spawn, inherited};
use tutti_sys::{seqpacket, signal};

use super::handover::{HandedController, HandedRouter};
use super::heartbeat::Pulse;
use super::instance::Instance;
use super::processes::Numbered;
use super::service_manager;

/// The file that this process executes, even if another version has been installed at its path: processes of different
/// versions may be incompatible.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Maximum queued messages for a process that does not read. A process with more is no longer served: each message may
/// hold descriptors.
const MOST_WAITING: usize = 10_000;

/// Messages of another version that are skipped before other processes get their turn.
const MOST_UNKNOWN: usize = 64;

/// A process that ends closes its connection first; freeing a large configuration takes a while.
const LAST_MOMENTS: Duration = Duration::from_secs(10);

/// Why a process is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launch {
    /// To serve immediately, at the server's start or in place of one that has ended.
    Serving,
    /// To take over from a process of another version.
    Successor,
}

/// A process with a connection, on which it sends `In`.
pub(super) struct OwnProcess<In> {
    pub(super) pid: i32,
    pub(super) started: Instant,
    /// Since when it cannot send any more messages.
    closed: Option<Instant>,
    /// Started by another version of this program, whose messages may differ.
    is_foreign: bool,
    /// Longest message in a memory file.
    longest: u64,
    socket: OwnedFd,
    waiting: VecDeque<Packet>,
    /// Its heartbeats.
    pub(super) pulse: Pulse,
    says: PhantomData<fn() -> In>,
}

/// The running controller.
pub(super) struct ControllerProcess {
    pub(super) process: OwnProcess<FromController>,
    /// It serves the control socket.
    pub(super) is_serving: bool,
}

/// A running router.
pub(super) struct RouterProcess {
    pub(super) process: OwnProcess<FromRouter>,
    /// It serves its configuration.
    pub(super) is_ready: bool,
    /// Its counters, while it retires.
    pub(super) totals: RouterCounts,
}

impl ControllerProcess {
    pub(super) fn start(instance: &Instance) -> io::Result<ControllerProcess> {
        Ok(ControllerProcess {
            process: OwnProcess::start(instance, CONTROLLER_TITLE, tutti_protocol::LONGEST)?,
            is_serving: false,
        })
    }

    /// Takes over one that another program has started.
    pub(super) fn adopt(handed: &HandedController) -> io::Result<ControllerProcess> {
        Ok(ControllerProcess {
            process: OwnProcess::adopt(handed.pid, handed.socket, tutti_protocol::LONGEST)?,
            is_serving: true,
        })
    }

    pub(super) fn handed(&self) -> HandedController {
        HandedController {
            pid: self.process.pid,
            socket: self.process.socket.as_raw_fd(),
        }
    }
}

impl Numbered for ControllerProcess {
    fn pid(&self) -> i32 {
        self.process.pid
    }
}

impl Numbered for RouterProcess {
    fn pid(&self) -> i32 {
        self.process.pid
    }
}

impl RouterProcess {
    pub(super) fn start(instance: &Instance) -> io::Result<RouterProcess> {
        Ok(RouterProcess {
            process: OwnProcess::start(instance, ROUTER_TITLE, tutti_protocol::LONGEST_OF_ROUTER)?,
            is_ready: false,
            totals: RouterCounts::default(),
        })
    }

    /// Takes over one that another program has started.
    pub(super) fn adopt(handed: &HandedRouter) -> io::Result<RouterProcess> {
        Ok(RouterProcess {
            process: OwnProcess::adopt(
                handed.pid,
                handed.socket,
                tutti_protocol::LONGEST_OF_ROUTER,
            )?,
            is_ready: handed.is_ready,
            totals: RouterCounts::default(),
        })
    }

    /// Returns the number of its socket, for the handover.
    pub(super) fn socket_number(&self) -> RawFd {
        self.process.socket.as_raw_fd()
    }

    /// Sends a message, now or when there is room.
    pub(super) fn send<T: Serialize>(
        &mut self,
        message: &T,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        self.process.send(message, descriptors)
    }
}

impl<In: DeserializeOwned> OwnProcess<In> {
    /// Starts one. It switches to the unprivileged user by itself, after making its memory inaccessible: as that user
    /// it must never be inspectable while its connection is open.
    pub(super) fn start(
        instance: &Instance,
        title: &str,
        longest: u64,
    ) -> io::Result<OwnProcess<In>> {
        let (ours, theirs) = seqpacket::pair()?;
        seqpacket::set_nonblocking(ours.as_fd())?;
        let mut spawn = Spawn::new(OWN_PROGRAM)?
            .argument_zero(title)?
            .new_session()
            .death_signal(libc::SIGKILL)
            .no_new_privileges()
            .descriptor(theirs, LINE);
        for (name, value) in service_manager::environment() {
            spawn = spawn.variable(name, value)?;
        }
        if let Some(credentials) = &instance.own_credentials {
            spawn = spawn.variable(BECOME, written_user(credentials))?;
        }
        let pid = spawn.start().map_err(|e| {
            context(
                format!("starting `{title}`"),
                io::Error::new(e.source.kind(), e.to_string()),
            )
        })?;
        Ok(OwnProcess::of(pid, ours, longest))
    }

    fn adopt(pid: i32, socket: RawFd, longest: u64) -> io::Result<OwnProcess<In>> {
        let mut adopted = OwnProcess::of(pid, inherited(socket)?, longest);
        adopted.is_foreign = true;
        Ok(adopted)
    }

    fn of(pid: i32, socket: OwnedFd, longest: u64) -> OwnProcess<In> {
        OwnProcess {
            pid,
            started: Instant::now(),
            closed: None,
            is_foreign: false,
            longest,
            socket,
            waiting: VecDeque::new(),
            pulse: Pulse::new(),
            says: PhantomData,
        }
    }

    /// True if it has this version, whose probes it answers.
    pub(super) fn understands_probes(&self) -> bool {
        !self.is_foreign && self.closed.is_none()
    }

    /// Sends all queued messages, within a second: unsent ones cannot be handed over.
    pub(super) fn flush_all(&mut self) -> io::Result<()> {
        const PATIENCE: Timespec = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        self.flush();
        if self.has_waiting() {
            let mut polls = [PollFd::new(&self.socket, PollFlags::OUT)];
            let _ = poll(&mut polls, Some(&PATIENCE));
            self.flush();
        }
        if self.has_waiting() {
            return Err(self.deaf());
        }
        Ok(())
    }

    fn deaf(&self) -> io::Error {
        io::Error::new(
            io::ErrorKind::WouldBlock,
            format!("process {} does not read its messages", self.pid),
        )
    }

    /// Returns the socket to wait on, while anything can be received, and whether to wait for room in it too.
    pub(super) fn waits_on(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.closed
            .is_none()
            .then(|| (self.socket.as_fd(), self.has_waiting()))
    }

    fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends a message, now or when there is room: main never waits for it.
    pub(super) fn send<T: Serialize>(
        &mut self,
        message: &T,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        if self.waiting.len() >= MOST_WAITING {
            self.kill();
            self.waiting.clear();
            return Err(self.deaf());
        }
        self.waiting.push_back(Packet::new(message, descriptors)?);
        self.flush();
        Ok(())
    }

    /// Returns when it must have ended, after it has closed its socket.
    pub(super) fn end_deadline(&self) -> Option<Instant> {
        Some(self.closed? + LAST_MOMENTS)
    }

    /// Kills it if it has closed its socket and not ended; returns a message for the log.
    pub(super) fn kill_overdue(&mut self, now: Instant) -> Option<String> {
        self.end_deadline().filter(|&at| at <= now)?;
        self.closed = Some(now);
        self.kill();
        Some(format!(
            "process {} has closed its connection to the main process without exiting; killing it",
            self.pid
        ))
    }

    /// Kills it.
    pub(super) fn kill(&self) {
        let _ = signal::send(self.pid, libc::SIGKILL);
    }

    /// Sends queued messages, as far as there is room. A process that has ended is noticed by its end.
    pub(super) fn flush(&mut self) {
        while let Some(packet) = self.waiting.front() {
            match packet.send(self.socket.as_fd()) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Ok(()) | Err(_) => drop(self.waiting.pop_front()),
            }
        }
    }

    /// Returns the next message, if there is one now.
    pub(super) fn receive(&mut self) -> io::Result<Option<(In, Vec<OwnedFd>)>> {
        for _ in 0..MOST_UNKNOWN {
            match tutti_protocol::receive(self.socket.as_fd(), self.longest) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Ok(None) => {
                    // It is ending. If it has only closed the socket, it is no longer useful.
                    self.closed.get_or_insert_with(Instant::now);
                    return Ok(None);
                }
                // A message of another version that this one does not know: it needs no answer.
                Err(e) if self.is_foreign && e.kind() == io::ErrorKind::InvalidData => {}
                // A request without its descriptors is refused.
                other => {
                    return other.map(|found| {
                        found.map(|(message, descriptors)| {
                            (message, descriptors.unwrap_or_default())
                        })
                    });
                }
            }
        }
        Ok(None)
    }
}
