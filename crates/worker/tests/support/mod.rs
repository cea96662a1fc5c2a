//! A test as main and router in one: a prototype of the sample host, a segment, one router thread.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_sys::process::{Ended, pidfd, reap_one};
use tutti_sys::spawn::Spawn;
use tutti_sys::{event::EventFd, file, lifeline, memfd, seqpacket, signal};
use tutti_testkit::{PATIENCE, server};
use tutti_wire::control::{
    ExitStatus, FD_CONTROL, FD_EVENTS, FD_LIFELINE, FD_SEGMENT, FD_SPOOL, FD_START, FromPrototype,
    Start, ToPrototype, decode, encode,
};
use tutti_wire::{BodyRef, Fate, Layout, RequestHead, ResponseHead, Segment, SlotId};

const LIMIT: Timespec = Timespec {
    tv_sec: PATIENCE.as_secs().cast_signed(),
    tv_nsec: 0,
};

pub struct Pool {
    pub segment: Segment,
    pub control: OwnedFd,
    pub event: EventFd,
    pub lifeline: Option<OwnedFd>,
    pub spool: OwnedFd,
    /// Threads of a worker process.
    pub threads: u32,
    pub prototype: i32,
    ended: bool,
    _folder: tempfile::TempDir,
}

pub fn start() -> Start {
    Start {
        name: "demo".to_owned(),
        kind: "sample".to_owned(),
        config: serde_json::json!({}),
        threads: 1,
        workers: 4,
        ..Start::default()
    }
}

impl Pool {
    pub fn new(start: &Start) -> Pool {
        let layout = Layout {
            slots: 64,
            workers: start.workers,
            threads: 1,
        };
        let segment = Segment::create("test", &layout).unwrap();
        let (control, theirs) = seqpacket::pair().unwrap();
        let (keep, give) = lifeline::pair().unwrap();
        let event = EventFd::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let spool: OwnedFd = file::unlinked(folder.path()).unwrap().into();
        let document = memfd::document("start", &encode(start)).unwrap();
        let copy = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().unwrap();
        let prototype = Spawn::new(server::built("tutti-sample"))
            .unwrap()
            .new_session()
            .variable("RUST_BACKTRACE", "0")
            .unwrap()
            .descriptor(theirs, FD_CONTROL)
            .descriptor(copy(&segment.fd()), FD_SEGMENT)
            .descriptor(copy(&spool), FD_SPOOL)
            .descriptor(document, FD_START)
            .descriptor(give, FD_LIFELINE)
            .descriptor(event.try_clone().unwrap().into_fd(), FD_EVENTS)
            .start()
            .unwrap();
        segment.set_event(0, event.try_clone().unwrap().into_fd());
        if start.worker_events {
            let events: Vec<OwnedFd> = (0..start.workers)
                .map(|_| EventFd::new().unwrap().into_fd())
                .collect();
            for (first, batch) in (0..).step_by(3).zip(events.chunks(3)) {
                let batch: Vec<_> = batch.iter().map(AsFd::as_fd).collect();
                let message = encode(&ToPrototype::WorkerEvents { first });
                seqpacket::send(control.as_fd(), &message, &batch).unwrap();
            }
            segment.set_worker_events(events);
        }
        Pool {
            segment,
            control,
            event,
            lifeline: Some(keep),
            spool,
            threads: start.worker_threads.max(1),
            prototype,
            ended: false,
            _folder: folder,
        }
    }

    pub fn tell(&self, message: &ToPrototype) {
        seqpacket::send(self.control.as_fd(), &encode(message), &[]).unwrap();
    }

    pub fn hear(&self) -> FromPrototype {
        let mut buffer = vec![0; 64 * 1024];
        assert!(readable(&self.control), "prototype says nothing");
        let message = seqpacket::receive(self.control.as_fd(), &mut buffer)
            .unwrap()
            .expect("prototype closed its socket");
        decode(&buffer[..message.len]).unwrap()
    }

    /// Starts a worker; its process.
    pub fn fork(&self, worker: u32) -> i32 {
        self.tell(&ToPrototype::Fork {
            worker,
            threads: self.threads,
        });
        let (mut forked, mut ready) = (None, None);
        while forked.is_none() || ready.is_none() {
            match self.hear() {
                FromPrototype::Forked { worker: w, pid } if w == worker => forked = Some(pid),
                FromPrototype::WorkerReady { worker: w, pid } if w == worker => ready = Some(pid),
                other => panic!("unexpected: {other:?}"),
            }
        }
        assert_eq!(forked, ready);
        let pid = forked.unwrap();
        for worker in worker..worker + self.threads {
            self.segment.worker_started(worker, pid as u32);
        }
        pid
    }

    pub fn exited(&self) -> (u32, ExitStatus, Vec<(SlotId, Fate)>) {
        match self.hear() {
            FromPrototype::Exited { worker, status, .. } => {
                let numbers = worker..worker + self.threads;
                let fates = numbers.flat_map(|number| self.segment.worker_died(number));
                (worker, status, fates.collect())
            }
            other => panic!("unexpected: {other:?}"),
        }
    }

    pub fn submit(&self, path: &str, body: &BodyRef<'_>) -> SlotId {
        self.submit_as(path, body, false)
    }

    pub fn submit_as(&self, path: &str, body: &BodyRef<'_>, websocket: bool) -> SlotId {
        let slot = self.segment.allocate(0).unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let head = RequestHead {
            method: b"GET",
            path: path.as_bytes(),
            query: query.as_bytes(),
            websocket,
            ..RequestHead::default()
        };
        self.segment.write_request(slot, &head, body).unwrap();
        self.segment.submit(slot);
        slot
    }

    /// Waits for something to happen in this slot.
    pub fn completion(&self, wanted: SlotId) {
        loop {
            let mut seen = false;
            self.segment
                .drain_completions(0, |slot| seen |= slot == wanted);
            if seen {
                return;
            }
            if self.segment.set_sleeping(0) {
                assert!(readable(&self.event), "no completion");
                self.event.clear();
            }
        }
    }

    pub fn answer(&self, slot: SlotId) -> (Option<ResponseHead>, Vec<u8>, bool) {
        let mut head = None;
        let mut body = Vec::new();
        loop {
            head = self.segment.response_head(slot).unwrap().or(head);
            let ready = self.segment.response_ready(slot).unwrap();
            ready.copy_to(&mut body);
            self.segment.response_consume(slot, ready.len());
            if ready.finished || ready.aborted {
                assert!(self.segment.free(slot));
                return (head, body, ready.finished);
            }
            self.completion(slot);
        }
    }

    pub fn get(&self, path: &str) -> String {
        let (head, body, finished) = self.answer(self.submit(path, &BodyRef::None));
        assert!(finished && head.unwrap().status == 200, "{path}");
        String::from_utf8(body).unwrap()
    }

    pub fn wait_for_prototype(&mut self) -> Ended {
        let ended = wait_for(self.prototype);
        self.ended = true;
        ended
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // The whole group: SIGIO by the lifeline.
        self.lifeline = None;
        if !self.ended {
            let _ = signal::send(self.prototype, libc::SIGKILL);
            wait_for(self.prototype);
        }
    }
}

pub fn readable(fd: &impl AsFd) -> bool {
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&LIMIT)).unwrap() > 0
}

pub fn wait_for(pid: i32) -> Ended {
    let fd = pidfd(pid).unwrap();
    assert!(readable(&fd), "process {pid} does not end");
    reap_one(pid).unwrap()
}

/// Waits until a process that is not our child has gone.
pub fn wait_until_gone(pid: i32) {
    if let Ok(fd) = pidfd(pid) {
        assert!(readable(&fd), "process {pid} does not end");
    }
}
