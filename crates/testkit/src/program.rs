//! A program that speaks the wire itself, started as the host of type `external` starts it.

use std::num::NonZeroU32;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use tutti_sys::process::Ended;
use tutti_sys::spawn::Spawn;
use tutti_sys::{event::EventFd, memfd};
use tutti_wire::Versions;
use tutti_wire::control::{
    FD_CONTROL, FD_EVENTS, FD_SEGMENT, FD_START, FromPrototype, Start, encode,
};

use crate::wire::{Wire, wait_for_end};

const WORKERS: u32 = 3;

/// A program that serves requests itself, with a router around it.
#[derive(Debug)]
pub struct Program(Wire);

impl Deref for Program {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.0
    }
}

impl Program {
    /// Starts it as worker 1 of three.
    pub fn start(program: &Path) -> Program {
        Self::start_behind(Versions::OWN, program)
    }

    /// Starts it behind a server with these versions of the wire.
    pub fn start_behind(versions: Versions, program: &Path) -> Program {
        let (mut wire, theirs) = Wire::new(16, WORKERS);
        wire.set_versions(versions);
        let start = Start {
            worker_events: true,
            concurrency: NonZeroU32::MIN.saturating_add(6),
            ..Start::default()
        };
        let document = memfd::document("start", &encode(&start)).unwrap();
        let copy = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().unwrap();
        let events: Vec<OwnedFd> = (0..WORKERS)
            .map(|_| EventFd::new().unwrap().into_fd())
            .collect();
        let mut spawn = Spawn::new(program)
            .unwrap()
            .variable("TUTTI_WIRE", versions.to_string())
            .unwrap()
            .variable("TUTTI_WORKER", "1")
            .unwrap()
            .variable("TUTTI_DESCRIPTORS", "control=3,segment=4,start=6,events=8")
            .unwrap()
            .descriptor(theirs, FD_CONTROL)
            .descriptor(copy(&wire.segment.fd()), FD_SEGMENT)
            .descriptor(document, FD_START)
            .descriptor(wire.event.try_clone().unwrap().into_fd(), FD_EVENTS);
        for (number, event) in (FD_EVENTS + 1..).zip(&events) {
            spawn = spawn.descriptor(copy(event), number);
        }
        wire.pid = spawn.start().unwrap();
        wire.segment.set_worker_events(events);
        Program(wire)
    }

    /// Waits until it says that it is ready.
    pub fn ready(&self) {
        let ready = FromPrototype::WorkerReady {
            worker: 1,
            pid: self.pid,
        };
        assert_eq!(self.receive(), ready);
    }

    /// Waits for its end.
    pub fn ended(&self) -> Ended {
        wait_for_end(self.pid)
    }
}
