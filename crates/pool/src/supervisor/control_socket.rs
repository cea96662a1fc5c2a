//! The router's end of a prototype's control socket.
//!
//! A prototype with its own pid namespace knows its workers by process ids that are meaningless here. Its messages about a worker carry a
//! pidfd, from which the kernel gives the process id as we see it; that is the worker's id from here on.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::net::SendFlags;
use tutti_sys::seqpacket;
use tutti_wire::control::{FromPrototype, MAX_MESSAGE, ToPrototype, decode, encode};

use crate::readiness::readable;
use crate::runtime::{AsyncFd, sleep};

/// The socket, and the mapping of process ids.
#[derive(Debug)]
pub(super) struct ControlSocket {
    socket: AsyncFd<OwnedFd>,
    /// From the prototype's ids to ours; empty if both are the same.
    numbers: Mutex<HashMap<i32, i32>>,
}

impl ControlSocket {
    /// Takes the socket, which must be non-blocking.
    pub(super) fn new(socket: OwnedFd) -> io::Result<ControlSocket> {
        Ok(ControlSocket {
            socket: readable(socket)?,
            numbers: Mutex::default(),
        })
    }

    /// Sends a message; false if the prototype cannot take it now.
    pub(super) fn send(&self, message: &ToPrototype) -> bool {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::send(self.socket.get_ref().as_fd(), &encode(message), flags).is_ok()
    }

    /// The next message, if there is one now.
    pub(super) fn receive_now(&self) -> Option<FromPrototype> {
        let mut buffer = vec![0; MAX_MESSAGE];
        self.take(&mut buffer).ok()?
    }

    /// The next message; `None` at the end, and for an invalid message: a prototype that breaks the protocol is treated as ended.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> Option<FromPrototype> {
        loop {
            let mut guard = self.socket.readable().await.ok()?;
            match self.take(buffer) {
                Ok(message) => return message,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if seqpacket::lacks_descriptors(&error) => {
                    sleep(seqpacket::LACK_PAUSE).await;
                }
                Err(_) => return None,
            }
        }
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<Option<FromPrototype>> {
        let Some(received) = seqpacket::receive(self.socket.get_ref().as_fd(), buffer)? else {
            return Ok(None);
        };
        let bytes = buffer.get(..received.len).unwrap_or_default();
        let Ok(mut message) = decode(bytes) else {
            return Ok(None);
        };
        let is_new = matches!(message, FromPrototype::Forked { .. });
        if let Some(pid) = pid_of(&mut message) {
            self.translate(pid, received.descriptors.first(), is_new);
        }
        Ok(Some(message))
    }

    /// `is_new`: the id is that of a new process, and may have been another's before.
    fn translate(&self, pid: &mut i32, pidfd: Option<&OwnedFd>, is_new: bool) {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pidfd) = pidfd {
            let number = number_of(pidfd);
            // A reaped process has no id any more; a negative id belongs to no process.
            let known = number.unwrap_or(-*pid);
            if is_new || number.is_some() {
                numbers.insert(*pid, known);
            } else {
                // It keeps the id that it had when it was forked.
                numbers.entry(*pid).or_insert(known);
            }
        }
        if let Some(ours) = numbers.get(pid) {
            *pid = *ours;
        }
    }
}

/// The process id in a message about a worker.
fn pid_of(message: &mut FromPrototype) -> Option<&mut i32> {
    match message {
        FromPrototype::Forked { pid, .. }
        | FromPrototype::WorkerReady { pid, .. }
        | FromPrototype::WorkerFailed { pid, .. }
        | FromPrototype::Exited { pid, .. } => Some(pid),
        _ => None,
    }
}

/// A process's id as this process sees it (pidfd_open(2): `Pid:` in the fdinfo).
pub fn number_of(pidfd: &OwnedFd) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forked(pid: i32) -> Vec<u8> {
        encode(&FromPrototype::Forked { worker: 3, pid })
    }

    #[tokio::test]
    async fn numbers_of_a_pid_namespace_become_ours() {
        let (ours, theirs) = seqpacket::pair().unwrap();
        seqpacket::set_nonblocking(ours.as_fd()).unwrap();
        let control = ControlSocket::new(ours).unwrap();
        let own = tutti_sys::process::id();
        let pidfd = tutti_sys::process::pidfd(own).unwrap();
        let mut buffer = vec![0; MAX_MESSAGE];
        seqpacket::send(theirs.as_fd(), &forked(7), &[pidfd.as_fd()]).unwrap();
        seqpacket::send(theirs.as_fd(), &forked(8), &[]).unwrap();
        let exited = FromPrototype::Exited {
            worker: 3,
            pid: 7,
            status: tutti_wire::control::ExitStatus::Code(0),
        };
        seqpacket::send(theirs.as_fd(), &encode(&exited), &[]).unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut message = control.receive(&mut buffer).await.unwrap();
            seen.push(*pid_of(&mut message).unwrap());
        }
        assert_eq!(seen, [own, 8, own]);
        assert!(control.receive_now().is_none());
        drop(theirs);
        assert!(control.receive(&mut buffer).await.is_none());
    }

    #[tokio::test]
    async fn a_process_that_has_been_reaped_is_known_by_the_number_it_had() {
        let (ours, theirs) = seqpacket::pair().unwrap();
        seqpacket::set_nonblocking(ours.as_fd()).unwrap();
        let control = ControlSocket::new(ours).unwrap();
        let own = tutti_sys::process::id();
        let alive = tutti_sys::process::pidfd(own).unwrap();
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let reaped = tutti_sys::process::pidfd(child.id() as i32).unwrap();
        child.wait().unwrap();
        let failed = encode(&FromPrototype::WorkerFailed {
            worker: 3,
            pid: 7,
            step: String::new(),
            message: String::new(),
            hint: None,
            member: None,
        });
        let mut buffer = vec![0; MAX_MESSAGE];
        for (message, pidfd, number) in [
            (forked(7), &alive, own),
            (failed.clone(), &reaped, own),
            // The id belongs to another process now, which has been reaped, too.
            (forked(7), &reaped, -7),
            (failed, &reaped, -7),
        ] {
            seqpacket::send(theirs.as_fd(), &message, &[pidfd.as_fd()]).unwrap();
            let mut message = control.receive(&mut buffer).await.unwrap();
            assert_eq!(*pid_of(&mut message).unwrap(), number);
        }
    }
}
