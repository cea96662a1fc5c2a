//! The processes that main starts for itself, as main sees them: process, line, and what still waits to be sent.

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

/// The very file this process runs, also when another version has been put at its path meanwhile: processes of different versions
/// need not understand each other.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Messages that wait for a process which does not read them. One with so many is not served any more: each may hold descriptors.
const MOST_WAITING: usize = 10_000;

/// Messages of another version that are passed over before others get their turn.
const MOST_UNKNOWN: usize = 64;

/// A process that ends closes its line first; freeing a large configuration takes a while.
const LAST_MOMENTS: Duration = Duration::from_secs(10);

/// The reason for which a process is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launch {
    /// It is to serve at once, with the server's start or in place of one that has ended.
    Serving,
    /// It is to take over from a process of another version.
    Successor,
}

/// A process with a line, over which it says `In`.
pub(super) struct OwnProcess<In> {
    pub(super) pid: i32,
    pub(super) started: Instant,
    /// Since when nothing more can come from it.
    closed: Option<Instant>,
    /// Made by another version of this program, whose messages may be others.
    is_foreign: bool,
    /// Longest message in a memory file.
    longest: u64,
    socket: OwnedFd,
    waiting: VecDeque<Packet>,
    /// Its signs of life.
    pub(super) pulse: Pulse,
    says: PhantomData<fn() -> In>,
}

/// The running controller.
pub(super) struct ControllerProcess {
    pub(super) process: OwnProcess<FromController>,
    /// It answers the control socket.
    pub(super) is_serving: bool,
}

/// A running router.
pub(super) struct RouterProcess {
    pub(super) process: OwnProcess<FromRouter>,
    /// It serves what it has been told to.
    pub(super) is_ready: bool,
    /// Its counts, while it retires.
    pub(super) totals: RouterCounts,
}

impl ControllerProcess {
    pub(super) fn start(instance: &Instance) -> io::Result<ControllerProcess> {
        Ok(ControllerProcess {
            process: OwnProcess::start(instance, CONTROLLER_TITLE, tutti_protocol::LONGEST)?,
            is_serving: false,
        })
    }

    /// Goes on with one that another program has started.
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

    /// Goes on with one that another program has started.
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

    /// The number of its socket, for the handover.
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
    /// Starts one. It becomes the unprivileged user by itself, once its memory is hidden: as that user it is never to be looked into
    /// with its line open.
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

    /// It is of this version, whose probes it answers.
    pub(super) fn understands_probes(&self) -> bool {
        !self.is_foreign && self.closed.is_none()
    }

    /// Sends all that waits, within a second: what is not sent cannot be handed over.
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

    /// The socket to wait on, while anything can come, and whether to wait for room in it too.
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

    /// When it has to have ended, after it has closed its socket.
    pub(super) fn end_deadline(&self) -> Option<Instant> {
        Some(self.closed? + LAST_MOMENTS)
    }

    /// Kills it if it has closed its socket and not ended; what the log is to tell of that.
    pub(super) fn kill_overdue(&mut self, now: Instant) -> Option<String> {
        self.end_deadline().filter(|&at| at <= now)?;
        self.closed = Some(now);
        self.kill();
        Some(format!(
            "process {} has closed its line to the main process and not ended; it is killed",
            self.pid
        ))
    }

    /// Ends it at once.
    pub(super) fn kill(&self) {
        let _ = signal::send(self.pid, libc::SIGKILL);
    }

    /// Sends what waits, as far as there is room. A process that has gone is noticed by its end.
    pub(super) fn flush(&mut self) {
        while let Some(packet) = self.waiting.front() {
            match packet.send(self.socket.as_fd()) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Ok(()) | Err(_) => drop(self.waiting.pop_front()),
            }
        }
    }

    /// The next message, if there is one now.
    pub(super) fn receive(&mut self) -> io::Result<Option<(In, Vec<OwnedFd>)>> {
        for _ in 0..MOST_UNKNOWN {
            match tutti_protocol::receive(self.socket.as_fd(), self.longest) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Ok(None) => {
                    // It is ending. Should it only have closed the socket, it is of no use any more.
                    self.closed.get_or_insert_with(Instant::now);
                    return Ok(None);
                }
                // A message of another version that this one does not know: nothing that it could be told matters here.
                Err(e) if self.is_foreign && e.kind() == io::ErrorKind::InvalidData => {}
                other => return other,
            }
        }
        Ok(None)
    }
}
