//! The router as main sees it: its process, the socket to it, and what still waits to be sent.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use tutti_sys::error::context;
use tutti_sys::spawn::{Spawn, inherited};
use tutti_sys::{seqpacket, signal};

use super::Instance;
use super::handover::HandedRouter;
use super::service_manager;
use crate::protocol::{self, Packet, ROUTER_SOCKET, ROUTER_TITLE, ToMain, Totals};

/// The very file this process runs, also when another version has been put at its path meanwhile: main and router of
/// different versions need not understand each other.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A running router.
pub(super) struct RouterProcess {
    pub(super) pid: i32,
    pub(super) started: Instant,
    /// It has answered its control socket.
    pub(super) is_ready: bool,
    /// Nothing more can come from it.
    is_closed: bool,
    /// Made by another version of this program, whose messages may be others.
    is_foreign: bool,
    /// What it has counted, while it retires.
    pub(super) totals: Totals,
    socket: OwnedFd,
    waiting: VecDeque<Packet>,
}

impl RouterProcess {
    /// Starts one, as the unprivileged user.
    pub(super) fn start(instance: &Instance) -> io::Result<RouterProcess> {
        let (ours, theirs) = seqpacket::pair()?;
        seqpacket::set_nonblocking(ours.as_fd(), true)?;
        let mut spawn = Spawn::new(OWN_PROGRAM)?
            .argument_zero(ROUTER_TITLE)?
            .new_session()
            .death_signal(libc::SIGKILL)
            .no_new_privileges()
            .descriptor(theirs, ROUTER_SOCKET);
        for (name, value) in service_manager::environment() {
            spawn = spawn.variable(name, value)?;
        }
        if let Some(credentials) = &instance.default_credentials {
            spawn = spawn.credentials(credentials.clone());
        }
        let pid = spawn.start().map_err(|e| {
            context(
                "starting the router",
                io::Error::new(e.source.kind(), e.to_string()),
            )
        })?;
        Ok(RouterProcess {
            pid,
            started: Instant::now(),
            is_ready: false,
            is_closed: false,
            is_foreign: false,
            totals: Totals::default(),
            socket: ours,
            waiting: VecDeque::new(),
        })
    }

    /// Goes on with one that another program has started.
    pub(super) fn adopt(handed: &HandedRouter) -> io::Result<RouterProcess> {
        Ok(RouterProcess {
            pid: handed.pid,
            started: Instant::now(),
            is_ready: handed.is_ready,
            is_closed: false,
            is_foreign: true,
            totals: Totals::default(),
            socket: inherited(handed.socket)?,
            waiting: VecDeque::new(),
        })
    }

    pub(super) fn handed(&self) -> HandedRouter {
        HandedRouter {
            pid: self.pid,
            socket: self.socket.as_raw_fd(),
            is_ready: self.is_ready,
        }
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
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("router process {} does not read its messages", self.pid),
            ));
        }
        Ok(())
    }

    /// The socket to wait on, while anything can come.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_closed).then(|| self.socket.as_fd())
    }

    /// Whether to wait for room in the socket.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends a message, now or when there is room: main never waits for the router.
    pub(super) fn send<T: Serialize>(
        &mut self,
        message: &T,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        self.waiting.push_back(Packet::new(message, descriptors)?);
        self.flush();
        Ok(())
    }

    /// Sends what waits, as far as there is room. A router that has gone is noticed by its end as a process.
    pub(super) fn flush(&mut self) {
        while let Some(packet) = self.waiting.front() {
            match packet.send(self.socket.as_fd()) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Ok(()) | Err(_) => drop(self.waiting.pop_front()),
            }
        }
    }

    /// The next message, if there is one now.
    pub(super) fn receive(&mut self) -> io::Result<Option<(ToMain, Vec<OwnedFd>)>> {
        match protocol::receive(self.socket.as_fd()) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Ok(None) => {
                // It is ending; should it only have closed the socket, it is of no use any more.
                self.is_closed = true;
                let _ = signal::send(self.pid, libc::SIGKILL);
                Ok(None)
            }
            // A message of another version that this one does not know: nothing that it could be told matters here.
            Err(e) if self.is_foreign && e.kind() == io::ErrorKind::InvalidData => self.receive(),
            other => other,
        }
    }
}
