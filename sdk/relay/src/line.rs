//! The way between a worker and its program where that takes requests itself.
//!
//! The program has the worker's place in the server (`Process::hand_over`), and the worker only watches over it: it ends with the program, tells
//! it to leave, and relays once it is asked to. Messages are those of the wire's control socket in the one direction that a program uses
//! anyway (it is ready), and single words. Must never happen: both take requests at once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tutti_sys::seqpacket;
use tutti_worker::{Handover, Process};

/// The program has nothing to do any more and may be ended.
pub const LEFT: &[u8] = b"left";
/// The program takes no more requests and has none: they are to be relayed to it.
pub const RELAY: &[u8] = b"relay";
/// The program is to take no more requests, and say [`LEFT`] when it has none.
pub const LEAVE: &[u8] = b"leave";
/// Longest message.
const LONGEST: usize = 4 * 1024;

/// The last message of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    /// It takes its requests itself from now on.
    Serves,
    Relay,
    /// It may be ended.
    Left,
    /// Its end is closed: it has ended or is about to, or it never takes requests.
    Closed,
}

/// The worker's end.
#[derive(Debug)]
pub(crate) struct Line(OwnedFd);

impl Line {
    /// A new one, and what the program needs at the other end; `None` where there is no place to be handed over.
    pub(crate) fn lay(process: &Process) -> io::Result<Option<(Self, Handover)>> {
        let (own, other) = seqpacket::pair()?;
        seqpacket::set_nonblocking(own.as_fd())?;
        let handover = process.hand_over(&other)?;
        Ok(handover.map(|handover| (Self(own), handover)))
    }

    /// The next message of the program.
    pub(crate) fn heard(&self) -> Heard {
        let mut buffer = [0; LONGEST];
        let message = match seqpacket::receive(self.0.as_fd(), &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Nothing,
            Err(_) | Ok(None) => return Heard::Closed,
            Ok(Some(message)) => buffer.get(..message.len).unwrap_or_default(),
        };
        match message {
            LEFT => Heard::Left,
            RELAY => Heard::Relay,
            // The only one that it sends in the words of the wire.
            _ => Heard::Serves,
        }
    }

    /// Tells the program to leave.
    pub(crate) fn leave(&self) {
        // One that does not hear it is ended with its worker.
        let _ = seqpacket::send(self.0.as_fd(), LEAVE, &[]);
    }

    /// Readable when there is a message.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_program() {
        let (own, other) = seqpacket::pair().unwrap();
        seqpacket::set_nonblocking(own.as_fd()).unwrap();
        let line = Line(own);
        assert_eq!(line.heard(), Heard::Nothing);
        for (word, heard) in [
            (&b"{\"WorkerReady\":{}}"[..], Heard::Serves),
            (RELAY, Heard::Relay),
            (LEFT, Heard::Left),
        ] {
            seqpacket::send(other.as_fd(), word, &[]).unwrap();
            assert_eq!(line.heard(), heard);
        }
        line.leave();
        let mut buffer = [0; LONGEST];
        let length = seqpacket::receive(other.as_fd(), &mut buffer).unwrap();
        assert_eq!(&buffer[..length.unwrap().len], LEAVE);
        drop(other);
        // A program that another test starts has it too, until it is executed.
        while line.heard() == Heard::Nothing {
            std::thread::yield_now();
        }
        assert_eq!(line.heard(), Heard::Closed);
    }
}
