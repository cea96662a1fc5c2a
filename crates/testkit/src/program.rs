//! A program that speaks the wire itself, started as the host of type `external` starts it, and the router's side of its segment.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_sys::process::{Ended, pidfd, reap_one};
use tutti_sys::spawn::Spawn;
use tutti_sys::{event::EventFd, memfd, seqpacket};
use tutti_wire::control::{
    FD_CONTROL, FD_EVENTS, FD_SEGMENT, FD_START, FromPrototype, Start, decode, encode,
};
use tutti_wire::{BodyRef, Layout, RequestHead, Segment, SlotId};

const WORKERS: u32 = 3;

/// A program that serves requests itself, with a router around it.
#[derive(Debug)]
pub struct Program {
    /// What they share.
    pub segment: Segment,
    event: EventFd,
    control: OwnedFd,
    /// Its process.
    pub pid: i32,
}

impl Program {
    /// Starts it as worker 1 of three.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn start(program: &Path) -> Program {
        let layout = Layout {
            slots: 16,
            workers: WORKERS,
            threads: 1,
        };
        let segment = Segment::create("c", &layout).unwrap();
        let (control, theirs) = seqpacket::pair().unwrap();
        let event = EventFd::new().unwrap();
        let start = Start {
            threads: 1,
            workers: WORKERS,
            worker_events: true,
            concurrency: 7,
            ..Start::default()
        };
        let document = memfd::document("start", &encode(&start)).unwrap();
        let copy = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().unwrap();
        let events: Vec<OwnedFd> = (0..WORKERS)
            .map(|_| EventFd::new().unwrap().into_fd())
            .collect();
        let mut spawn = Spawn::new(program)
            .unwrap()
            .variable("TUTTI_WIRE", tutti_wire::layout::VERSION.to_string())
            .unwrap()
            .variable("TUTTI_WORKER", "1")
            .unwrap()
            .variable("TUTTI_DESCRIPTORS", "control=3,segment=4,start=6,events=8")
            .unwrap()
            .descriptor(theirs, FD_CONTROL)
            .descriptor(copy(&segment.fd()), FD_SEGMENT)
            .descriptor(document, FD_START)
            .descriptor(event.try_clone().unwrap().into_fd(), FD_EVENTS);
        for (number, event) in (FD_EVENTS + 1..).zip(&events) {
            spawn = spawn.descriptor(copy(event), number);
        }
        let pid = spawn.start().unwrap();
        segment.set_event(0, event.try_clone().unwrap().into_fd());
        segment.set_worker_events(events);
        Program {
            segment,
            event,
            control,
            pid,
        }
    }

    fn hear(&self) -> FromPrototype {
        let mut buffer = vec![0; 64 * 1024];
        wait(&self.control, "a message of the program");
        let message = seqpacket::receive(self.control.as_fd(), &mut buffer).unwrap();
        decode(&buffer[..message.unwrap().len]).unwrap()
    }

    /// Waits until it says that it is ready.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn ready(&self) {
        let ready = FromPrototype::WorkerReady {
            worker: 1,
            pid: self.pid,
        };
        assert_eq!(self.hear(), ready);
    }

    /// Hands it a request.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn submit(&self, head: &RequestHead<'_>, body: &BodyRef<'_>) -> SlotId {
        let slot = self.segment.allocate(0).unwrap();
        self.segment.write_request(slot, head, body).unwrap();
        self.segment.submit(slot);
        slot
    }

    /// Waits for something to happen in this slot.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn completion(&self, wanted: SlotId) {
        loop {
            let mut seen = false;
            self.segment
                .drain_completions(0, |slot| seen |= slot == wanted);
            if seen {
                return;
            }
            if self.segment.set_sleeping(0) {
                wait(&self.event, "a completion");
                self.event.clear();
            }
        }
    }

    /// Status, body, and whether it is whole.
    ///
    /// # Panics
    /// When it does not come.
    pub fn answer(&self, slot: SlotId) -> (u16, String, bool) {
        let (mut status, mut body) = (0, Vec::new());
        loop {
            if let Some(head) = self.segment.response_head(slot).unwrap() {
                status = head.status;
            }
            let ready = self.segment.response_ready(slot).unwrap();
            ready.copy_to(&mut body);
            self.segment.response_consume(slot, ready.len());
            if ready.finished || ready.aborted {
                assert!(self.segment.free(slot));
                return (status, String::from_utf8(body).unwrap(), ready.finished);
            }
            self.completion(slot);
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not come to that.
    pub fn ended(&self) -> Ended {
        wait(&pidfd(self.pid).unwrap(), "the program's end");
        reap_one(self.pid).unwrap()
    }
}

fn wait(fd: &impl AsFd, what: &str) {
    let limit = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    let ready = poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)).unwrap();
    assert!(ready > 0, "waited in vain for {what}");
}
