//! A worker process, as its host uses it: its places in the segment, and its requests.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use tutti_sys::process;
use tutti_wire::control::{FromPrototype, Start};
use tutti_wire::worker::{
    Attached, Descriptors, Detached, Exchange, UnstartedWorker, Worker, end_if_forked, stop_process,
};

use crate::become_program::Handed;
use crate::error::StartError;
use crate::reports::{report, send};

/// The next state of a worker after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It takes the next one.
    Again,
    /// It ends; another is started in its place if one is needed.
    Recycle,
}

/// The descriptors of a place in the server.
#[derive(Debug)]
pub(crate) struct WorkerDescriptors {
    pub(crate) segment: OwnedFd,
    pub(crate) start: OwnedFd,
    pub(crate) descriptors: Arc<Descriptors>,
}

/// Everything that another program needs to take the place of this process: descriptors with their numbers, and variables.
#[derive(Debug)]
pub struct Handover {
    /// Each with its number in the program.
    pub descriptors: Vec<(OwnedFd, RawFd)>,
    /// Names and values.
    pub variables: Vec<(&'static str, String)>,
}

impl Handover {
    /// The numbers of the descriptors in the program.
    pub fn numbers(&self) -> Vec<RawFd> {
        self.descriptors.iter().map(|(_, number)| *number).collect()
    }
}

/// A worker process: its places in the segment, one for each of its threads, and its control socket.
///
/// [`Host::process`](crate::Host::process) gets it. A host with threads of its own takes a [worker](Self::take_worker) for each and makes
/// it a [`Worker`] there; one with an event loop takes one, and [enters the loop](Worker::enter_loop).
#[derive(Debug)]
pub struct Process {
    workers: std::vec::IntoIter<UnstartedWorker>,
    numbers: Range<u32>,
    concurrency: u32,
    /// The socket to the router; closed by `ready`.
    pub(crate) control: Option<OwnedFd>,
    /// The segment's file, the start document and the other descriptors, for a program that takes this place.
    pub(crate) place: Option<WorkerDescriptors>,
    /// A thread has panicked.
    pub(crate) has_failed: bool,
    /// Stays open until this process ends.
    _lifeline: Option<OwnedFd>,
}

impl Process {
    /// Takes the places `numbers` for this process, whose termination signals end them gracefully from now on.
    pub(crate) fn take(
        numbers: Range<u32>,
        segment: &Attached,
        descriptors: &Arc<Descriptors>,
        start: &Start,
        control: OwnedFd,
        lifeline: Option<OwnedFd>,
    ) -> io::Result<Process> {
        let signals = [libc::SIGTERM, libc::SIGQUIT];
        segment.catch_signals(numbers.clone(), descriptors, &signals)?;
        let workers = numbers
            .clone()
            .map(|number| segment.unstarted(number, descriptors))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Process {
            workers: workers.into_iter(),
            numbers,
            concurrency: start.concurrency.get(),
            control: Some(control),
            place: None,
            has_failed: false,
            _lifeline: lifeline,
        })
    }

    /// Reports to the server why the process does not start, instead of [`ready`](Self::ready); the process should exit then.
    pub fn fail(&mut self, error: StartError) {
        if let Some(control) = self.control.take() {
            report(&control, self.number(), error);
        }
    }

    /// The place of this process for a program that it starts, which finds it by [`from_environment`](Self::from_environment). The program
    /// reports on `control` that it is ready, as it would to the router. Only one of the two may take requests at a time. `None`: this
    /// process is such a program itself.
    pub fn hand_over(&self, control: &OwnedFd) -> io::Result<Option<Handover>> {
        let Some(place) = &self.place else {
            return Ok(None);
        };
        let events = place.descriptors.threads.iter();
        let handed = Handed {
            number: self.number(),
            control,
            segment: &place.segment,
            start: &place.start,
            spool: place.descriptors.spool.as_ref(),
            // The program ends with this process, which holds the lifeline.
            lifeline: None,
            events: events.chain(&place.descriptors.workers).collect(),
        };
        let copied = |(descriptor, number): (BorrowedFd<'_>, RawFd)| {
            Ok((descriptor.try_clone_to_owned()?, number))
        };
        let placed = handed.placed().into_iter();
        Ok(Some(Handover {
            descriptors: placed.map(copied).collect::<io::Result<_>>()?,
            variables: handed.variables().into(),
        }))
    }

    /// The first of its numbers.
    pub fn number(&self) -> u32 {
        self.numbers.start
    }

    /// The control socket, on which [`ready`](Self::ready) reports; `None` after that.
    pub fn control(&self) -> Option<BorrowedFd<'_>> {
        self.control.as_ref().map(AsFd::as_fd)
    }

    /// The number of threads to serve with.
    pub fn threads(&self) -> u32 {
        self.numbers.end - self.numbers.start
    }

    /// The most exchanges that an event loop may hold, or a thread in addition to the one it serves; at least 1.
    pub fn concurrency(&self) -> u32 {
        self.concurrency
    }

    /// The place of the next thread; there are as many as [threads](Self::threads). One that is not taken serves nothing.
    pub fn take_worker(&mut self) -> Option<UnstartedWorker> {
        self.workers.next()
    }

    /// Reports to the router that the process serves: an error of [`Host::process`](crate::Host::process) before that is a failed start.
    /// Call it after each of its workers has called [`Worker::ready`]. Only the first call has an effect.
    pub fn ready(&mut self) {
        end_if_forked(0);
        let Some(control) = self.control.take() else {
            return;
        };
        let ready = FromPrototype::WorkerReady {
            worker: self.number(),
            pid: process::id(),
        };
        // Without a router there will be no requests either, and the prototype ends this process. User code must not be able to write to
        // the router: the socket is closed here.
        let _ = send(&control, &ready);
    }

    /// Ends all workers of the process after their current work, as SIGTERM does. May be called from any thread.
    pub fn stop() {
        stop_process();
    }

    /// Serves on the calling thread alone: `run` is its loop.
    pub fn serve_alone(
        &mut self,
        run: impl FnOnce(&mut Requests<'_>) -> Result<(), StartError>,
    ) -> Result<(), StartError> {
        let Some(unstarted) = self.take_worker() else {
            return Ok(());
        };
        let mut worker = unstarted.into_worker();
        run(&mut Requests {
            worker: &mut worker,
            process: Some(self),
            course: Course::default(),
        })
    }

    /// The places of the process's threads, for a host whose language starts the threads itself. When each has
    /// [begun](UnstartedThread::begin), the host calls [`ready`](Self::ready).
    pub fn take_threads(&mut self) -> Vec<UnstartedThread> {
        self.workers.by_ref().map(UnstartedThread).collect()
    }

    /// Serves on all of the process's threads, which are started here with this stack size: `run` is the loop of each, called with its
    /// place among them. Returns when all have ended. When one ends, the others are asked to end.
    pub fn serve_threads(
        &mut self,
        stack_size: Option<usize>,
        run: impl Fn(u32, &mut Requests<'_>) + Sync,
    ) -> Result<(), StartError> {
        let places = self.take_threads();
        let run = &run;
        let serve = move |index: u32, place: UnstartedThread, up: mpsc::Sender<()>| {
            let mut thread = place.begin();
            // The receiver has been dropped when another thread could not be started; then this one is asked to end.
            let _ = up.send(());
            catch_unwind(AssertUnwindSafe(|| run(index, &mut thread.requests()))).is_ok()
        };
        let outcome = std::thread::scope(|scope| {
            let (up, are_up) = mpsc::channel();
            let mut threads = Vec::new();
            for (index, place) in (0..).zip(places) {
                let mut builder = std::thread::Builder::new().name(format!("request-{index}"));
                if let Some(size) = stack_size {
                    builder = builder.stack_size(size);
                }
                let up = up.clone();
                match builder.spawn_scoped(scope, move || serve(index, place, up)) {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        stop_process();
                        return Err(StartError::new("starting a thread", error));
                    }
                }
            }
            for _ in &threads {
                // Every thread sends this before anything that may fail.
                let _ = are_up.recv();
            }
            self.ready();
            let ended = threads.into_iter().map(|thread| thread.join());
            Ok(ended.fold(true, |good, outcome| good & outcome.unwrap_or(false)))
        });
        self.has_failed = !outcome?;
        Ok(())
    }
}

/// The place of a thread of a process, which no thread has taken yet.
#[derive(Debug)]
pub struct UnstartedThread(UnstartedWorker);

impl UnstartedThread {
    /// Makes the calling thread the one of this place, and reports to the router that it is ready for requests.
    pub fn begin(self) -> Thread {
        let worker = self.0.into_worker();
        worker.set_lives_on();
        worker.ready();
        Thread {
            worker,
            course: Course::default(),
        }
    }
}

/// A thread that serves. When it is dropped, the process's other threads are asked to end.
#[derive(Debug)]
pub struct Thread {
    worker: Worker,
    course: Course,
}

impl Thread {
    /// Waits for the next request. `None`: the thread should end.
    pub fn next_request(&mut self) -> Option<Exchange> {
        self.course.next_request(&mut self.worker)
    }

    /// Ends a request, as [`Requests::done`] does.
    pub fn done(&mut self, exchange: Exchange, then: Served) {
        self.course.done(&mut self.worker, exchange, then);
    }

    /// Detaches an exchange that continues beside later requests: it is ended there, not by [`done`](Self::done).
    pub fn detach(&mut self, exchange: Exchange, then: Served) -> Detached {
        self.course.next_step(&mut self.worker, then);
        exchange.detach()
    }

    /// Number of detached exchanges that have not ended.
    pub fn detached(&self) -> u32 {
        self.worker.open()
    }

    /// Takes no further request.
    pub fn leave(&mut self) {
        self.course.leave(&mut self.worker);
    }

    /// Its requests, for a loop that takes them from there.
    fn requests(&mut self) -> Requests<'_> {
        Requests {
            worker: &mut self.worker,
            process: None,
            course: self.course,
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.worker.retire();
        stop_process();
    }
}

/// Handles the end of a worker, which takes no further requests once it leaves.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    is_leaving: bool,
}

impl Course {
    fn next_request(&mut self, worker: &mut Worker) -> Option<Exchange> {
        if self.is_leaving {
            return None;
        }
        let next = worker.next_request();
        self.is_leaving = next.is_none();
        next
    }

    fn done(&mut self, worker: &mut Worker, mut exchange: Exchange, then: Served) {
        if !exchange.is_ended() {
            if exchange.is_started() {
                exchange.finish();
            } else {
                exchange.abort();
            }
        }
        self.next_step(worker, then);
    }

    fn next_step(&mut self, worker: &mut Worker, then: Served) {
        if then == Served::Recycle {
            self.leave(worker);
        }
    }

    fn leave(&mut self, worker: &mut Worker) {
        if !self.is_leaving {
            self.is_leaving = true;
            worker.retire();
        }
    }
}

/// The requests of a worker: one after the other, until it must end.
///
/// [`Host::run`](crate::Host::run) gets it. Most hosts do not override that; one whose user code owns the loop calls it from within.
#[derive(Debug)]
pub struct Requests<'a> {
    worker: &'a mut Worker,
    /// The process, if this is its only worker.
    process: Option<&'a mut Process>,
    course: Course,
}

impl Requests<'_> {
    /// Reports to the router that the worker is ready: an error of [`Host::run`](crate::Host::run) before that is a failed start. Only the
    /// first call has an effect. Threads of [`Process::serve_threads`] have reported it themselves.
    pub fn ready(&mut self) {
        if let Some(process) = self.process.take() {
            self.worker.ready();
            process.ready();
        }
    }

    /// Waits for the next request. `None`: `run` should return.
    pub fn next_request(&mut self) -> Option<Exchange> {
        self.course.next_request(self.worker)
    }

    /// Ends a request: an unfinished response is finished now (or aborted and answered 502, if it was not started).
    pub fn done(&mut self, exchange: Exchange, then: Served) {
        self.course.done(self.worker, exchange, then);
    }

    /// Takes no further request: another worker takes them.
    pub fn leave(&mut self) {
        self.course.leave(self.worker);
    }
}
