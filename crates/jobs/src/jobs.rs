//! All spoolers: accepts jobs, and runs the loop that delivers them.
//!
//! The queues are in memory, behind one lock that is only held briefly; the store's thread adds a job to its queue when it is on disk,
//! before the caller is answered. A queue may have no spooler (any more): its jobs stay until there is a spooler with that name again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tutti_config::Config;
use tutti_config::model::{SCHEDULE_PREFIX, Spooler};
use tutti_log::Level;

use crate::clock::now;
use crate::delivery::{DeliveryError, Label, deliver, is_deliverable};
use crate::queue::{JobState, Time, written};
use crate::state::State;
use crate::store::{self, Addition, Charge, Found, JobRequest, JobStoreError, Listener, Order};

/// Overhead of a job beside its request, in the file and in memory.
pub(crate) const OVERHEAD: u64 = 256;

/// Interval between checks for failed jobs that are to be removed.
const TIDYING: Duration = Duration::from_secs(30);

/// A command that failed.
#[derive(Debug)]
pub struct RunEnded {
    /// The reason, for the log.
    pub why: String,
    /// The server itself cancelled it because it stops.
    pub is_ours: bool,
}

/// A running command; yields the last lines of its output.
pub type Running = Pin<Box<dyn Future<Output = Option<Result<String, RunEnded>>> + Send>>;

/// Gives jobs access to the outside.
pub trait JobEnvironment: Send + Sync + 'static {
    /// Opens a connection to the `pass` of this spooler.
    fn connect(&self, spooler: &str) -> io::Result<OwnedFd>;

    /// Runs the command of a schedule; `None`: it has none any more.
    fn run_command(&self, schedule: &str, timeout: Duration) -> Running;

    /// Called when a job was done after the store was closed: the process that has the store now must be notified. `error` says why the
    /// run of a schedule failed; it is empty if it did not.
    fn notify_successor(&self, spooler: &str, id: u64, error: String);

    /// Writes a line to the log.
    fn log(&self, level: Level, line: &str);
}

/// Why a job was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobRejection {
    /// There is no spooler with this name.
    #[error("there is no such spooler")]
    Unknown,
    /// The spooler is full.
    #[error(
        "it is full: {waiting} jobs are waiting, {failed} have failed, with {bytes} bytes; hint: remove failed ones, or raise `max_jobs` or `max_size`"
    )]
    NoRoom {
        /// Jobs that are waiting or being delivered.
        waiting: usize,
        /// Failed jobs.
        failed: usize,
        /// Bytes of all jobs.
        bytes: u64,
    },
    /// Its request cannot be sent again.
    #[error("its target or its method cannot be sent to a server")]
    Malformed,
    /// The store was released: the router that has it now must store the job.
    #[error("{}", JobStoreError::Closed)]
    Released(Box<JobRequest>),
    /// The disk did not accept it.
    #[error(transparent)]
    Store(#[from] JobStoreError),
}

/// All jobs. A handle: clones are the same jobs.
#[derive(Clone)]
pub struct Jobs(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) around: Box<dyn JobEnvironment>,
    state: Mutex<State>,
    /// A job may be due.
    pub(crate) stirred: Notify,
    /// A schedule may be due.
    pub(crate) rescheduled: Notify,
    /// A delivery has ended, or the store is closed.
    ended: Notify,
}

/// A job to be delivered: its spooler, its number, and which delivery it is.
type Due = (Arc<Spooler>, u64, u32);

/// Receives the events of the store.
struct Hears(Arc<Inner>);

impl Listener for Hears {
    fn opened(&self, found: Found) {
        let now = now();
        let mut state = self.0.state();
        for (name, run) in found.runs {
            if let Some(timed) = state.schedules.get_mut(&name) {
                timed.run = run;
            }
        }
        for (spooler, id, standing) in found.jobs {
            state
                .queues
                .entry(spooler)
                .or_default()
                .restore(id, standing, now);
        }
        state.is_open = true;
        state.forget_runs();
        for delivered in std::mem::take(&mut state.delivered_before) {
            state.forget_delivered(delivered);
        }
        let lost: Vec<String> = state.orphans().collect();
        drop(state);
        for line in lost {
            self.0.around.log(Level::Warn, &line);
        }
        self.0.rescheduled.notify_one();
        self.0.stirred.notify_one();
    }

    fn settled(&self, spooler: &str, size: u64, stored: Option<(u64, JobState)>) {
        let mut state = self.0.state();
        let queue = state.queues.entry(spooler.to_owned()).or_default();
        queue.settle(size, stored);
        drop(state);
        self.0.stirred.notify_one();
    }

    fn troubled(&self, why: Option<&JobStoreError>) {
        self.0.state().trouble = why.map(ToString::to_string);
        match why {
            Some(error) => self.0.around.log(
                Level::Alert,
                &format!("jobs cannot be stored or read: {error}; hint: they are in `jobs.redb` in the state folder; stored jobs are kept, and the file is opened again"),
            ),
            None => self.0.around.log(Level::Notice, "jobs can be stored and read again"),
        }
    }

    fn closed(&self) {
        self.0.state().is_closed = true;
        self.0.ended.notify_waiters();
    }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves it consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Jobs {
    /// Makes it without spoolers and store. Call it inside a runtime, which runs the deliveries.
    pub fn new(around: impl JobEnvironment) -> Jobs {
        let jobs = Jobs(Arc::new(Inner {
            around: Box::new(around),
            state: Mutex::default(),
            stirred: Notify::new(),
            rescheduled: Notify::new(),
            ended: Notify::new(),
        }));
        tokio::spawn(jobs.clone().deliver_forever());
        jobs
    }

    /// Checks again what is due: the clock was changed.
    pub fn look_again(&self) {
        self.0.rescheduled.notify_one();
        self.0.stirred.notify_one();
    }

    /// True if there is a store.
    pub fn has_store(&self) -> bool {
        self.0.state().store.is_some()
    }

    /// Opens the file of jobs. Another router may still have its lock; jobs wait until it is free.
    pub fn open(&self, file: File) -> io::Result<()> {
        let store = store::start(file, Hears(Arc::clone(&self.0)))?;
        self.0.state().store = Some(store);
        Ok(())
    }

    /// Puts the spoolers and schedules of a configuration in force. Jobs of a removed spooler stay, runs of a removed schedule do not.
    pub fn configure(&self, config: &Config) {
        let all = config.all_spoolers();
        let spoolers: BTreeMap<_, _> = all.map(|one| (one.name.clone(), Arc::clone(one))).collect();
        let mut state = self.0.state();
        let before: Vec<String> = state.orphans().collect();
        state.spoolers.clone_from(&spoolers);
        state.reschedule(config);
        state.forget_runs();
        for name in spoolers.keys() {
            state.queues.entry(name.clone()).or_default();
        }
        let lost: Vec<String> = state
            .orphans()
            .filter(|line| !before.contains(line))
            .collect();
        state
            .queues
            .retain(|name, queue| spoolers.contains_key(name) || !queue.is_empty());
        drop(state);
        for line in lost {
            self.0.around.log(Level::Warn, &line);
        }
        self.0.rescheduled.notify_one();
        self.0.stirred.notify_one();
    }

    /// Stores a job; returns its number, when it is on disk. `delay`: it is not delivered before that time has passed.
    ///
    /// # Errors
    /// It is not stored. If the future is dropped first, it may be stored or not.
    pub async fn post(
        &self,
        spooler: &str,
        request: JobRequest,
        delay: Duration,
        charge: Charge,
    ) -> Result<String, JobRejection> {
        if !is_deliverable(&request) {
            return Err(JobRejection::Malformed);
        }
        let size = request.size() + OVERHEAD;
        let (answer, stored) = oneshot::channel();
        {
            let mut state = self.0.state();
            let Some(options) = state.spoolers.get(spooler).map(|one| one.options.clone()) else {
                return Err(JobRejection::Unknown);
            };
            let Some(store) = state.store.clone() else {
                return Err(JobRejection::Released(Box::new(request)));
            };
            let queue = state.queues.entry(spooler.to_owned()).or_default();
            if !queue.reserve(size, (options.max_jobs, options.max_size)) {
                let (waiting, delivering, failed, bytes) = queue.totals();
                let waiting = waiting + delivering;
                return Err(JobRejection::NoRoom {
                    waiting,
                    failed,
                    bytes,
                });
            }
            let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            let addition = Addition {
                spooler: spooler.to_owned(),
                request,
                standing: JobState {
                    due: now().saturating_add(delay),
                    size,
                    ..JobState::default()
                },
                answer,
                _charge: Some(charge),
            };
            if store.send(Order::Add(Box::new(addition))).is_err() {
                queue.settle(size, None);
                return Err(JobStoreError::Closed.into());
            }
        }
        let id = stored.await.map_err(|_| JobStoreError::Closed)??;
        Ok(written(id))
    }

    /// Notes that the previous router has delivered a job after it had released the store; `error` as for
    /// [`JobEnvironment::notify_successor`].
    pub fn delivered_before(&self, spooler: String, id: u64, error: String) {
        let mut state = self.0.state();
        match state.is_open {
            true => state.forget_delivered((spooler, id, error)),
            false => state.delivered_before.push((spooler, id, error)),
        }
    }

    /// Begins no more deliveries. Waits for those in progress, at most so long, and closes the store. With a successor, unfinished ones are
    /// postponed until the longest time that they may take has passed: otherwise it would deliver them at the same time.
    pub async fn rest(&self, longest: Duration, has_successor: bool) {
        self.0.state().rests = true;
        let _ = tokio::time::timeout(longest, self.wait_until(|state| state.is_idle())).await;
        {
            let state = &mut *self.0.state();
            let names: Vec<String> = state.queues.keys().cloned().collect();
            for name in names.into_iter().filter(|_| has_successor) {
                let limit = state.longest_delivery(&name).as_millis();
                let due = now().saturating_add(u64::try_from(limit).unwrap_or(u64::MAX));
                let Some(queue) = state.queues.get_mut(&name) else {
                    continue;
                };
                for (id, standing) in queue.put_off(due) {
                    state.order(Order::Note(name.clone(), id, standing));
                }
            }
            state.order(Order::Close);
            if state.store.take().is_none() {
                return;
            }
        }
        self.wait_until(|state| state.is_closed).await;
    }

    /// Completes when the ends of all commands of schedules have been noted.
    pub async fn commands_noted(&self) {
        let is_command = |spooler: &&Arc<Spooler>| spooler.pass.is_none();
        self.wait_until(|state| {
            let commands = state.spoolers.values().filter(is_command);
            let mut queues = commands.filter_map(|one| state.queues.get(&one.name));
            queues.all(|queue| queue.totals().1 == 0)
        })
        .await;
    }

    async fn wait_until(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if is_so(&self.0.state()) {
                return;
            }
            ended.await;
        }
    }

    /// Starts due jobs. Never returns.
    async fn deliver_forever(self) {
        let mut tidied = tokio::time::Instant::now();
        loop {
            let (due, next) = self.take_due();
            for (spooler, id, attempt) in due {
                tokio::spawn(self.clone().deliver(spooler, id, attempt));
            }
            if tidied.elapsed() >= TIDYING {
                tidied = tokio::time::Instant::now();
                self.tidy();
            }
            // The clock may be changed meanwhile, so due jobs are checked soon.
            let pause = next.map_or(TIDYING, |next| {
                Duration::from_millis(next.saturating_sub(now())).min(TIDYING)
            });
            tokio::select! {
                () = self.0.stirred.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// The jobs to be delivered now, each with the number of the delivery, and when the next is due.
    fn take_due(&self) -> (Vec<Due>, Option<Time>) {
        let state = &mut *self.0.state();
        let (mut due, mut next) = (Vec::new(), None);
        if !state.is_open || state.rests {
            return (due, next);
        }
        state.follow_clock();
        let now = now();
        for (name, spooler) in &state.spoolers {
            let Some(queue) = state.queues.get_mut(name) else {
                continue;
            };
            let most = spooler.options.concurrency;
            while let Some(id) = queue.take_due(now, most) {
                due.push((
                    Arc::clone(spooler),
                    id,
                    queue.attempts(id).saturating_add(1),
                ));
            }
            next = next.into_iter().chain(queue.next_due(most)).min();
        }
        (due, next)
    }

    async fn deliver(self, spooler: Arc<Spooler>, id: u64, attempt: u32) {
        let name = &spooler.name;
        let (answer, loaded) = oneshot::channel();
        self.0.state().order(Order::Load(name.clone(), id, answer));
        let outcome = match loaded.await {
            Ok(Ok(Some(request))) => {
                let label = Label {
                    spooler: name,
                    id,
                    attempt,
                };
                Some(self.carry_out_job(&spooler, &label, request).await)
            }
            Ok(Ok(None)) => {
                let line = format!(
                    "spooler \"{name}\": job {} has no request: it is removed",
                    written(id)
                );
                self.0.around.log(Level::Alert, &line);
                Some(Ok(()))
            }
            // The file is closed, or is opened again after a problem that has been logged.
            Ok(Err(JobStoreError::Closed)) | Err(_) => None,
            Ok(Err(error)) => {
                let why = format!("its request cannot be read: {error}");
                Some(Err(DeliveryError::new(why)))
            }
        };
        let (noted, is_closed) = {
            let mut state = self.0.state();
            (state.note(&spooler, id, outcome), state.store.is_none())
        };
        if let (Some(error), true) = (noted.over, is_closed) {
            self.0.around.notify_successor(name, id, error);
        }
        if let Some((level, line)) = noted.line {
            self.0.around.log(level, &line);
        }
        self.0.ended.notify_waiters();
        self.0.stirred.notify_one();
    }

    /// Sends a job to its spooler's `pass`, or runs the command of its schedule.
    async fn carry_out_job(
        &self,
        spooler: &Spooler,
        label: &Label<'_>,
        request: JobRequest,
    ) -> Result<(), DeliveryError> {
        let timeout = spooler.options.timeout;
        let schedule = spooler.name.strip_prefix(SCHEDULE_PREFIX);
        let Some(schedule) = schedule.filter(|_| spooler.pass.is_none()) else {
            let connection = self.0.around.connect(&spooler.name);
            return deliver(connection, label, request, timeout).await;
        };
        let running = self.0.around.run_command(schedule, timeout);
        let outcome = match running.await {
            // It was replaced by a request, or removed, before it began.
            None => Err(DeliveryError::new(
                "the command of the schedule was removed",
            )),
            Some(Ok(output)) => Ok(output),
            Some(Err(ended)) => Err(DeliveryError {
                is_ours: ended.is_ours,
                ..DeliveryError::new(ended.why)
            }),
        };
        if let Some(timed) = self.0.state().schedules.get_mut(schedule) {
            timed.output = outcome.as_ref().ok().cloned();
        }
        outcome.map(drop)
    }

    /// Removes failed jobs after their retention time.
    fn tidy(&self) {
        let mut lines = Vec::new();
        {
            let state = &mut *self.0.state();
            state.follow_clock();
            let now = now();
            let mut orders = Vec::new();
            for (name, spooler) in &state.spoolers {
                let Some(queue) = state.queues.get_mut(name) else {
                    continue;
                };
                let kept = spooler.options.keep_failed.as_millis();
                let is_over =
                    |standing: &JobState| u128::from(now.saturating_sub(standing.failed)) >= kept;
                let failures = queue.failures().filter(|(_, standing)| is_over(standing));
                let over: Vec<u64> = failures.map(|(id, _)| id).collect();
                for id in &over {
                    queue.remove(*id);
                    orders.push(Order::Remove(name.clone(), *id));
                }
                if !over.is_empty() {
                    let count = over.len();
                    lines.push(format!(
                        "spooler \"{name}\": {count} failed jobs are removed (`keep_failed`)"
                    ));
                }
            }
            for order in orders {
                state.order(order);
            }
        }
        for line in lines {
            self.0.around.log(Level::Warn, &line);
        }
    }
}
