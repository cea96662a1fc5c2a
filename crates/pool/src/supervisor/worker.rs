//! One worker process, from the request to fork it until its end.
//!
//! Owned by the process table. A worker is starting, ready, leaving or killed, only in this order, and data of one state are dropped with
//! it. Its load and its requests are in the segment, where the worker itself writes them.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_wire::{Readiness, WorkerSnapshot};

use crate::counters::End;
use crate::failure::StartFailure;
use crate::generation::Generation;
use crate::launcher::{AppProcess, Launcher};

/// signal(7)
pub(super) const SIGKILL: i32 = 9;

/// Maximum time for a ready worker to begin its first request: on a busy machine it waits for a core. After that time it counts as stuck,
/// and others are started.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// A worker process.
#[derive(Debug)]
pub(super) struct Worker {
    /// The first of its numbers in the segment.
    pub(super) number: u32,
    /// The count of its numbers: one for each thread.
    threads: u32,
    /// The prototype that forked it.
    pub(super) prototype: u64,
    /// The process id of that prototype.
    prototype_pid: i32,
    pub(super) generation: Arc<Generation>,
    /// Its process id, once it is known.
    pub(super) pid: Option<i32>,
    /// When it entered its state.
    pub(super) since: Instant,
    /// When it was asked where it is, because its drain time was over.
    pub(super) asked_at: Option<Instant>,
    /// Why it is to end, if the server did not choose that.
    pub(super) doom: Option<End>,
    state: State,
}

/// The state of a worker.
#[derive(Debug)]
enum State {
    /// Requested, and perhaps forked.
    Starting(Starting),
    /// It takes requests.
    Ready(Ready),
    /// It is draining: it ends after its current requests.
    Leaving,
    /// It has been killed, or will be as soon as its process id is known.
    Killed,
}

/// The state of a worker that is not ready yet.
#[derive(Debug)]
struct Starting {
    report: Report,
}

/// The state of a worker that takes requests.
#[derive(Debug)]
struct Ready {
    report: Report,
    /// The progress of its threads in the last round; `None` before the first.
    progress: Option<u64>,
    /// It could take nothing in the last round.
    is_taken: bool,
    /// Its size has been logged.
    is_size_logged: bool,
    /// Its requests and CPU time in the last round.
    used: Used,
    /// When it was first seen to take no more requests.
    done_at: Option<Instant>,
}

/// A worker that takes no more requests, by its own account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// When it was first seen.
    pub(super) since: Instant,
    /// Requests that wait are a reason to replace it at once. They are not if another program may take its place in a moment, or before
    /// its first request: those that replace it may end just as early.
    pub(super) is_final: bool,
}

/// Requests and their CPU time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) requests: u64,
    /// `None` if it was not read.
    pub(super) cpu: Option<Duration>,
}

/// The report of a start, used if it fails.
#[derive(Debug)]
pub(super) struct Report {
    /// Where its output begins.
    pub(super) mark: u64,
    /// The failure that the worker reported itself.
    pub(super) failure: Option<StartFailure>,
}

impl Starting {
    fn ready(self) -> Ready {
        Ready {
            report: self.report,
            progress: None,
            is_taken: false,
            is_size_logged: false,
            used: Used::default(),
            done_at: None,
        }
    }
}

/// The load of a worker in one round, over all its threads.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// The progress of its threads.
    progress: u64,
    /// Every event loop has as many requests as permitted.
    is_full: bool,
    /// Some thread is idle or asleep.
    is_moving: bool,
}

impl Ready {
    /// Compares with the last round. The first proves nothing: a worker may just have begun its first request.
    fn look(&mut self, load: Load) {
        let stands_still = !load.is_moving && self.progress == Some(load.progress);
        self.is_taken = load.is_full || stands_still;
        self.progress = Some(load.progress);
    }
}

impl State {
    fn ready(self) -> State {
        match self {
            State::Starting(starting) => State::Ready(starting.ready()),
            other => other,
        }
    }

    fn leave(self) -> State {
        match self {
            State::Killed => State::Killed,
            State::Starting(_) | State::Ready(_) | State::Leaving => State::Leaving,
        }
    }
}

/// The numbers of a worker in a segment.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) generation: Arc<Generation>,
    /// The first of them.
    pub(super) number: u32,
    /// The count of them: one for each thread.
    pub(super) threads: u32,
}

/// The prototype of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent {
    pub(super) serial: u64,
    /// Its process id.
    pub(super) pid: i32,
}

impl Worker {
    /// A worker that a prototype has just been asked to fork; its output begins at `mark`.
    pub(super) fn asked_for(parent: Parent, numbers: Numbers, mark: u64, now: Instant) -> Self {
        Worker {
            number: numbers.number,
            threads: numbers.threads,
            prototype: parent.serial,
            prototype_pid: parent.pid,
            generation: numbers.generation,
            pid: None,
            since: now,
            asked_at: None,
            doom: None,
            state: State::Starting(Starting {
                report: Report {
                    mark,
                    failure: None,
                },
            }),
        }
    }

    /// Its process, once the process id is known.
    pub(super) fn process(&self) -> Option<AppProcess> {
        self.pid.map(|pid| AppProcess {
            prototype: self.prototype_pid,
            pid,
        })
    }

    /// Sends it a signal, if its process id is known.
    pub(super) fn signal(&self, signal: i32, launcher: &dyn Launcher) {
        if let Some(process) = self.process() {
            launcher.kill(process, signal);
        }
    }

    /// Its numbers in the segment.
    pub(super) fn numbers(&self) -> Range<u32> {
        self.number..self.number + self.threads
    }

    /// The reports of its threads in the segment.
    pub(super) fn snapshots(&self) -> impl Iterator<Item = WorkerSnapshot> {
        self.numbers()
            .map(|number| self.generation.segment.worker_snapshot(number))
    }

    pub(super) fn is_starting(&self) -> bool {
        matches!(self.state, State::Starting(_))
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    /// True if it is draining or killed.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.state, State::Leaving | State::Killed)
    }

    /// True if it was drained, and neither killed nor asked where it is.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self.state, State::Leaving) && self.asked_at.is_none()
    }

    /// True if it has become ready and has neither taken a request nor fallen asleep since: it is about to.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.is_ready()
            && now < self.since + FIRST_REQUEST
            && self.snapshots().all(|snapshot| {
                snapshot.requests == 0
                    && snapshot.looks == 0
                    && !snapshot.is_busy()
                    && !snapshot.idle
            })
    }

    /// True if it is expected to take the next request soon.
    pub(super) fn takes_requests(&self) -> bool {
        matches!(&self.state, State::Ready(ready) if !ready.is_taken && ready.done_at.is_none())
    }

    /// True if it could take nothing in the last round.
    pub(super) fn is_taken(&self) -> bool {
        matches!(&self.state, State::Ready(ready) if ready.is_taken)
    }

    /// Called when its process id is known; kills it if that was deferred.
    pub(super) fn forked(&mut self, pid: i32, launcher: &dyn Launcher) {
        self.pid = Some(pid);
        self.note_in_segment(pid);
        if matches!(self.state, State::Killed) {
            self.signal(SIGKILL, launcher);
        }
    }

    /// Called when it is ready. False if it was not starting: then nothing has changed.
    pub(super) fn became_ready(&mut self, pid: i32, now: Instant) -> bool {
        if !self.is_starting() {
            return false;
        }
        self.change(now, State::ready);
        self.pid.get_or_insert(pid);
        self.note_in_segment(pid);
        true
    }

    fn note_in_segment(&self, pid: i32) {
        for number in self.numbers() {
            self.generation
                .segment
                .worker_started(number, pid.unsigned_abs());
        }
    }

    /// Lets it end after its current requests, unless it is ending already.
    pub(super) fn drain(&mut self, now: Instant) {
        if self.is_leaving() {
            return;
        }
        self.change(now, State::leave);
        for number in self.numbers() {
            self.generation.segment.ask_worker_to_quit(number);
        }
    }

    /// Kills it, now or as soon as its process id is known.
    pub(super) fn kill(&mut self, now: Instant, launcher: &dyn Launcher) {
        self.change(now, |_| State::Killed);
        self.signal(SIGKILL, launcher);
    }

    fn change(&mut self, now: Instant, transition: impl FnOnce(State) -> State) {
        let before = std::mem::replace(&mut self.state, State::Killed);
        self.state = transition(before);
        self.since = now;
    }

    /// Notes that it reported a failed start.
    pub(super) fn failed(&mut self, failure: StartFailure) {
        if let State::Starting(Starting { report }) | State::Ready(Ready { report, .. }) =
            &mut self.state
        {
            report.failure = Some(failure);
        }
    }

    /// Where the output of its start begins; 0 while it is ending.
    pub(super) fn mark(&self) -> u64 {
        match &self.state {
            State::Starting(Starting { report }) | State::Ready(Ready { report, .. }) => {
                report.mark
            }
            State::Leaving | State::Killed => 0,
        }
    }

    /// Returns the kind of the worker's end, which depends on its state.
    pub(super) fn ended(self) -> Ended {
        match self.state {
            State::Starting(Starting { report }) => Ended::BeforeReady(report),
            State::Ready(Ready { report, .. }) => Ended::WhileReady {
                report,
                since: self.since,
            },
            State::Leaving => Ended::Leaving,
            State::Killed => Ended::Killed,
        }
    }

    /// Checks its progress: it is taken if every thread is at the same request as in the last round, or every event loop has `concurrency`
    /// requests or does not move.
    pub(super) fn observe(&mut self, concurrency: u32) {
        let mut load = Load {
            progress: 0,
            is_full: true,
            is_moving: false,
        };
        for snapshot in self.snapshots() {
            let progress = snapshot.requests.wrapping_add(snapshot.looks);
            load.progress = load.progress.wrapping_add(progress);
            load.is_full &= snapshot.is_loop && snapshot.open >= concurrency;
            load.is_moving |= !snapshot.is_busy() || snapshot.asleep;
        }
        if let State::Ready(ready) = &mut self.state {
            ready.look(load);
        }
    }

    /// Requests that it has begun, by its own account: any number.
    pub(super) fn requests(&self) -> u64 {
        self.snapshots()
            .fold(0, |sum, snapshot| sum.wrapping_add(snapshot.requests))
    }

    /// Notes how many requests it has begun, and the CPU time of its process, which `read` may return. Returns the differences since the
    /// last round; `None` if it takes no requests or has begun none since.
    pub(super) fn note_used(&mut self, read: impl FnOnce(i32) -> Option<Duration>) -> Option<Used> {
        let requests = self.requests();
        let State::Ready(ready) = &mut self.state else {
            return None;
        };
        let before = ready.used;
        if requests == before.requests {
            return None;
        }
        let cpu = self.pid.and_then(read);
        ready.used = Used { requests, cpu };
        Some(Used {
            requests: requests.saturating_sub(before.requests),
            cpu: cpu
                .zip(before.cpu)
                .map(|(now, before)| now.saturating_sub(before)),
        })
    }

    /// Set if one of its threads takes no more requests although the worker was not asked to end: it has reached its limit of requests, or a
    /// signal or its application ends it, or it still serves some while another program waits for its place. `None` if there is no such
    /// thread, or if the worker is not ready.
    pub(super) fn done(&mut self, now: Instant) -> Option<Done> {
        let is_any = |is_meant: fn(&WorkerSnapshot) -> bool| self.snapshots().any(|s| is_meant(&s));
        let is_leaving = is_any(|snapshot| snapshot.readiness == Readiness::Leaving);
        let is_handing_over =
            is_any(|snapshot| snapshot.readiness == Readiness::HandingOver && snapshot.open > 0);
        let is_final = is_leaving && self.requests() > 0;
        let State::Ready(ready) = &mut self.state else {
            return None;
        };
        ready.done_at = (is_leaving || is_handing_over).then(|| ready.done_at.unwrap_or(now));
        ready.done_at.map(|since| Done { since, is_final })
    }

    /// Puts its threads into the batch class or out of it.
    pub(super) fn set_batch(&self, is_batch: bool) {
        for number in self.numbers() {
            self.generation.segment.set_batch(number, is_batch);
        }
    }

    /// True at the first call: its size is to be logged.
    pub(super) fn is_size_news(&mut self) -> bool {
        match &mut self.state {
            State::Ready(ready) => !std::mem::replace(&mut ready.is_size_logged, true),
            State::Starting(_) | State::Leaving | State::Killed => false,
        }
    }
}

/// The state in which a worker ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Before it was ready: its start failed.
    BeforeReady(Report),
    /// While it took requests.
    WhileReady {
        report: Report,
        /// When it became ready.
        since: Instant,
    },
    /// While draining.
    Leaving,
    /// After the server had killed it.
    Killed,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;
    use std::sync::Mutex;

    use tutti_wire::worker::Attached;

    use super::*;
    use crate::context::Context;
    use crate::eventfds::ThreadWakers;
    use crate::launcher::{LaunchFuture, LaunchRequest, Level, LogSink};
    use crate::scheduling::{Scheduling, SystemClocks};
    use crate::shared::Shared;

    /// The process id of the prototype.
    const PROTOTYPE: i32 = 4000;

    /// Records the processes that it is to kill.
    #[derive(Default)]
    struct Killer(Mutex<Vec<i32>>);

    impl Launcher for Killer {
        fn start_prototype(&self, _: LaunchRequest) -> LaunchFuture {
            Box::pin(std::future::pending())
        }

        fn kill(&self, process: AppProcess, signal: i32) {
            assert_eq!((process.prototype, signal), (PROTOTYPE, SIGKILL));
            self.0.lock().unwrap().push(process.pid);
        }
    }

    struct Silent;

    impl LogSink for Silent {
        fn log(&self, _: Level, _: &str) {}
        fn output(&self, _: &str, _: i32, _: &[u8]) {}
    }

    fn worker(killer: &Arc<Killer>) -> Worker {
        let context = Context {
            launcher: Arc::clone(killer) as Arc<dyn Launcher>,
            log: Arc::new(Silent),
            threads: ThreadWakers::new(1).unwrap(),
            cores: 1,
            scheduling: Scheduling::new(Box::new(SystemClocks), 1),
        };
        let shared = Shared::sample();
        let numbers = Numbers {
            generation: Generation::create(&shared, &context).unwrap(),
            number: 0,
            threads: 1,
        };
        let parent = Parent {
            serial: 1,
            pid: PROTOTYPE,
        };
        Worker::asked_for(parent, numbers, 7, Instant::now())
    }

    /// Issue 11: a worker whose start took too long before its process id was known was never killed.
    #[test]
    fn one_that_is_killed_before_its_process_is_known_is_killed_then() {
        let killer = Arc::new(Killer::default());
        let mut worker = worker(&killer);
        worker.kill(Instant::now(), &*killer);
        assert!(killer.0.lock().unwrap().is_empty());
        worker.forked(4711, &*killer);
        assert_eq!(*killer.0.lock().unwrap(), [4711]);
        assert!(!worker.became_ready(4711, Instant::now()));
        assert!(worker.is_leaving());
    }

    /// Issue 11: a worker at its first request in the first round counted as one that had been there for a whole interval, and a spare one
    /// was started in its place.
    #[test]
    fn it_takes_two_looks_to_see_that_a_worker_stands_still() {
        let mut ready = Starting {
            report: Report {
                mark: 0,
                failure: None,
            },
        }
        .ready();
        let load = |progress| Load {
            progress,
            is_full: false,
            is_moving: false,
        };
        let mut look = |load| {
            ready.look(load);
            ready.is_taken
        };
        assert!(!look(load(0)));
        assert!(look(load(0)));
        assert!(!look(load(1)));
        assert!(look(load(1)));
        let is_moving = true;
        assert!(!look(Load {
            is_moving,
            ..load(1)
        }));
        let is_full = true;
        assert!(look(Load { is_full, ..load(2) }));
    }

    #[test]
    fn a_worker_never_returns_to_an_earlier_state() {
        let killer = Arc::new(Killer::default());
        let mut worker = worker(&killer);
        let now = Instant::now();
        assert!(worker.is_starting() && worker.mark() == 7);
        worker.forked(4711, &*killer);
        assert!(worker.became_ready(4711, now));
        assert!(worker.is_ready() && !worker.is_leaving());
        assert!(worker.is_fresh(now) && !worker.is_fresh(now + FIRST_REQUEST));
        assert!(worker.is_size_news() && !worker.is_size_news());
        worker.drain(now);
        assert!(worker.is_leaving() && !worker.is_taken());
        assert!(
            worker
                .generation
                .segment
                .worker_snapshot(worker.number)
                .quitting
        );
        assert!(!worker.became_ready(4711, now));
        assert!(killer.0.lock().unwrap().is_empty());
        assert!(matches!(worker.ended(), Ended::Leaving));
    }

    #[test]
    fn a_worker_is_done_by_its_own_account_whatever_it_has_served() {
        let killer = Arc::new(Killer::default());
        let mut worker = worker(&killer);
        let attached = Attached::open(worker.generation.segment.fd()).unwrap();
        let event = File::open("/dev/null").unwrap().into();
        let mut own = attached.into_worker(0, vec![event], None).unwrap();
        let now = Instant::now();
        assert!(worker.became_ready(4711, now));
        assert!(worker.done(now).is_none(), "it is about to begin");
        own.ready();
        assert!(worker.done(now).is_none());
        own.retire();
        let later = now + FIRST_REQUEST;
        let done = worker.done(now).and_then(|_| worker.done(later)).unwrap();
        assert_eq!((done.since, done.is_final), (now, false));
        worker.drain(later);
        assert!(worker.done(later).is_none(), "it is draining already");
    }

    #[test]
    fn the_end_of_a_worker_depends_on_its_state() {
        let killer = Arc::new(Killer::default());
        let starting = worker(&killer);
        assert!(matches!(starting.ended(), Ended::BeforeReady(report) if report.mark == 7));
        let mut ready = worker(&killer);
        assert!(ready.became_ready(4711, Instant::now()));
        assert!(matches!(ready.ended(), Ended::WhileReady { report, .. } if report.mark == 7));
    }
}
