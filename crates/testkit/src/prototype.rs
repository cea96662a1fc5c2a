//! A prototype of any language host with its workers, and the test as main and router in one.

use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use tutti_sys::anonymous_file::UnnamedFile;
use tutti_sys::process::Ended;
use tutti_sys::spawn::Spawn;
use tutti_sys::{event::EventFd, lifeline, memfd, seqpacket, signal};
use tutti_wire::control::{
    ExitStatus, FD_CONTROL, FD_EVENTS, FD_LIFELINE, FD_SEGMENT, FD_SPOOL, FD_START, FromPrototype,
    Start, ToPrototype, encode,
};
use tutti_wire::{BodyRef, Fate, SlotId, Versions, WireRequestHead};

use crate::wire::{Wire, wait_for_end};

/// A prototype, whose workers are asked for one by one. Dropped, all of it ends.
#[derive(Debug)]
pub struct Prototype {
    wire: Wire,
    /// Everything ends when this closes.
    pub lifeline: Option<OwnedFd>,
    /// The file that large bodies are in.
    pub spool: OwnedFd,
    /// A folder for the test.
    pub folder: tempfile::TempDir,
    /// Threads of a worker process.
    pub threads: NonZeroU32,
    has_ended: bool,
}

impl Deref for Prototype {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Prototype {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl Prototype {
    /// Starts the host; does not wait until it is ready.
    pub fn launch(host: &Path, start: &Start) -> Prototype {
        Self::launch_behind(Versions::OWN, host, start)
    }

    /// The same, behind a server with these versions of the wire.
    pub fn launch_behind(versions: Versions, host: &Path, start: &Start) -> Prototype {
        let (mut wire, theirs) = Wire::new(64, start.workers.unwrap());
        wire.set_versions(versions);
        let (keep, give) = lifeline::pair().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let spool = UnnamedFile::create(folder.path()).unwrap().file;
        let document = memfd::document("start", &encode(start)).unwrap();
        let copy = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().unwrap();
        wire.pid = Spawn::new(host)
            .unwrap()
            .new_session()
            .variable("RUST_BACKTRACE", "0")
            .unwrap()
            .descriptor(theirs, FD_CONTROL)
            .descriptor(copy(&wire.segment.fd()), FD_SEGMENT)
            .descriptor(copy(&spool), FD_SPOOL)
            .descriptor(document, FD_START)
            .descriptor(give, FD_LIFELINE)
            .descriptor(wire.event.try_clone().unwrap().into_fd(), FD_EVENTS)
            .start()
            .unwrap();
        if start.worker_events {
            let events: Vec<OwnedFd> = (0..start.workers.unwrap())
                .map(|_| EventFd::new().unwrap().into_fd())
                .collect();
            for (first, batch) in (0..).step_by(3).zip(events.chunks(3)) {
                let batch: Vec<_> = batch.iter().map(AsFd::as_fd).collect();
                let message = encode(&ToPrototype::WorkerEvents { first });
                seqpacket::send(wire.control.as_fd(), &message, &batch).unwrap();
            }
            wire.segment.set_worker_events(events);
        }
        Prototype {
            wire,
            lifeline: Some(keep),
            spool,
            folder,
            threads: start.worker_threads,
            has_ended: false,
        }
    }

    /// Starts the host with this many workers, all ready.
    pub fn ready(host: &Path, start: &Start, workers: u32) -> Prototype {
        let prototype = Prototype::launch(host, start);
        assert_eq!(prototype.receive(), FromPrototype::Ready);
        for worker in 0..workers {
            prototype.fork(worker);
        }
        prototype
    }

    /// Has it make a worker; its process, which is ready.
    pub fn fork(&self, worker: u32) -> i32 {
        self.send(&ToPrototype::Fork {
            worker,
            threads: self.threads,
        });
        let (mut forked, mut ready) = (None, None);
        while forked.is_none() || ready.is_none() {
            match self.receive() {
                FromPrototype::Forked { worker: w, pid } if w == worker => forked = Some(pid),
                FromPrototype::WorkerReady { worker: w, pid } if w == worker => ready = Some(pid),
                other => panic!("unexpected: {other:?}"),
            }
        }
        assert_eq!(forked, ready);
        let pid = forked.unwrap();
        for worker in worker..worker + self.threads.get() {
            self.segment.worker_started(worker, pid.try_into().unwrap());
        }
        pid
    }

    /// The worker that it says has ended, how, and what became of its requests.
    pub fn exited(&self) -> (u32, ExitStatus, Vec<(SlotId, Fate)>) {
        match self.receive() {
            FromPrototype::Exited { worker, status, .. } => {
                let numbers = worker..worker + self.threads.get();
                let fates = numbers.flat_map(|number| self.segment.worker_died(number));
                (worker, status, fates.collect())
            }
            other => panic!("unexpected: {other:?}"),
        }
    }

    /// Hands over a GET.
    pub fn submit(&self, path: &str, body: &BodyRef<'_>) -> SlotId {
        self.submit_as(path, body, false)
    }

    /// The same, as a WebSocket if so.
    pub fn submit_as(&self, path: &str, body: &BodyRef<'_>, websocket: bool) -> SlotId {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let head = WireRequestHead {
            method: b"GET",
            path: path.as_bytes(),
            query: query.as_bytes(),
            websocket,
            ..WireRequestHead::default()
        };
        self.submit_head(&head, body)
    }

    /// The body of an answer that must be right.
    pub fn get(&self, path: &str) -> String {
        let answer = self.answer(self.submit(path, &BodyRef::None));
        assert_eq!(answer.status(), 200, "{path}");
        answer.text()
    }

    /// Waits until it has ended, and says how.
    pub fn wait_for_end(&mut self) -> Ended {
        let ended = wait_for_end(self.pid);
        self.has_ended = true;
        ended
    }
}

impl Drop for Prototype {
    fn drop(&mut self) {
        // The whole group ends, killed by the lifeline.
        self.lifeline = None;
        if !self.has_ended {
            let _ = signal::send(self.pid, libc::SIGKILL);
            wait_for_end(self.pid);
        }
    }
}
