//! The router's side of the wire: a segment with one thread, requests that are put into it, answers that are taken out.
//!
//! The other side is a prototype's workers ([`crate::prototype`]) or a program of its own ([`crate::program`]).

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_sys::process::{Ended, pidfd, reap_one};
use tutti_sys::{event::EventFd, seqpacket};
use tutti_wire::control::{FromPrototype, ToPrototype, decode, encode};
use tutti_wire::{
    BodyRef, Layout, ResponseFields, Segment, SlotId, Versions, WireRequestHead, WireResponseHead,
};

use crate::PATIENCE;

/// A segment, and the connection to the process on its other side.
#[derive(Debug)]
pub struct Wire {
    /// The memory that both sides share.
    pub segment: Segment,
    /// The connection over which processes are started and their ends reported.
    pub control: OwnedFd,
    /// Wakes this thread for completions.
    pub event: EventFd,
    /// The process at the other end of the line.
    pub pid: i32,
}

/// An answer as it came.
#[derive(Debug, Default)]
pub struct WireResponse {
    /// The heads of interim answers before it.
    pub interims: Vec<WireResponseHead>,
    /// Its head; `None` where it was given up before.
    pub head: Option<WireResponseHead>,
    /// Its body.
    pub body: Vec<u8>,
    /// The fields behind its body.
    pub trailers: ResponseFields,
    /// False if it broke off.
    pub is_finished: bool,
}

impl WireResponse {
    /// The status.
    pub fn status(&self) -> u16 {
        self.head.as_ref().expect("a head").status
    }

    /// The body of an answer that is whole, as text.
    pub fn text(&self) -> String {
        assert!(self.is_finished, "the answer broke off");
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The same as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The first value of this field.
    pub fn field(&self, wanted: &str) -> Option<String> {
        let head = self.head.as_ref().expect("a head");
        let found = head.fields().find(|(name, _)| *name == wanted.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

impl Wire {
    /// A segment for these workers; the other end of the line.
    pub(crate) fn new(slots: u32, workers: u32) -> (Wire, OwnedFd) {
        let layout = Layout {
            slots,
            workers,
            threads: 1,
        };
        let segment = Segment::create("test", &layout).unwrap();
        let (control, theirs) = seqpacket::pair().unwrap();
        let event = EventFd::new().unwrap();
        segment.set_event(0, event.try_clone().unwrap().into_fd());
        let wire = Wire {
            segment,
            control,
            event,
            pid: 0,
        };
        (wire, theirs)
    }

    /// Has the header say that the router has these versions of the wire, before the other side reads it.
    pub(crate) fn set_versions(&self, versions: Versions) {
        for (place, version) in [(8, versions.newest), (112, versions.oldest)] {
            let word = version.to_ne_bytes();
            assert_eq!(rustix::io::pwrite(self.segment.fd(), &word, place), Ok(4));
        }
    }

    /// Sends a message over the line.
    pub fn send(&self, message: &ToPrototype) {
        self.send_bytes(&encode(message));
    }

    /// Sends bytes over the line as one message.
    pub fn send_bytes(&self, message: &[u8]) {
        seqpacket::send(self.control.as_fd(), message, &[]).unwrap();
    }

    /// The next message from the line.
    pub fn receive(&self) -> FromPrototype {
        let mut buffer = vec![0; 64 * 1024];
        wait(&self.control, "a message");
        let message = seqpacket::receive(self.control.as_fd(), &mut buffer).unwrap();
        let message = message.expect("the other side has not closed the line");
        decode(&buffer[..message.len]).unwrap()
    }

    /// Hands over a request.
    pub fn submit_head(&self, head: &WireRequestHead<'_>, body: &BodyRef<'_>) -> SlotId {
        let slot = self.segment.allocate(0).unwrap();
        self.segment.write_request(slot, head, body).unwrap();
        self.segment.submit(slot);
        slot
    }

    /// Waits for something to happen in this slot.
    pub fn completion(&self, wanted: SlotId) {
        loop {
            let mut is_seen = false;
            self.segment
                .drain_completions(0, |slot| is_seen |= slot == wanted);
            if is_seen {
                return;
            }
            if self.segment.set_sleeping(0) {
                wait(&self.event, "a completion");
                self.event.clear();
            }
        }
    }

    /// Waits for the answer in this slot, and frees it.
    pub fn answer(&self, slot: SlotId) -> WireResponse {
        let mut answer = WireResponse::default();
        loop {
            while let Some(head) = self.segment.response_head(slot).unwrap() {
                answer.interims.extend(answer.head.replace(head));
            }
            let ready = self.segment.response_ready(slot).unwrap();
            ready.copy_to(&mut answer.body);
            self.segment.response_consume(slot, ready.len());
            if ready.finished || ready.aborted {
                answer.is_finished = ready.finished;
                answer.trailers = self.segment.response_trailers(slot).unwrap();
                assert!(self.segment.free(slot));
                return answer;
            }
            self.completion(slot);
        }
    }
}

/// Waits until something can be read from it.
pub fn wait(fd: &impl AsFd, what: &str) {
    let limit = Timespec {
        tv_sec: PATIENCE.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    let ready = poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)).unwrap();
    assert!(ready > 0, "waited in vain for {what}");
}

/// Waits for the end of a child, and reaps it.
pub fn wait_for_end(pid: i32) -> Ended {
    wait(&pidfd(pid).unwrap(), "the end of a process");
    reap_one(pid).unwrap()
}

/// Waits until a process has gone that is not our child.
pub fn wait_until_gone(pid: i32) {
    if let Ok(fd) = pidfd(pid) {
        wait(&fd, "the end of a process");
    }
}
