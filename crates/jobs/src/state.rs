//! The state of jobs in memory, behind one lock: spoolers, their queues, schedules, and the orders to the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use tutti_config::Config;
use tutti_config::model::{SCHEDULE_PREFIX, Schedule, Spooler, Times};
use tutti_log::Level;
use tutti_sys::clock::ClockWatch;

use crate::clock::now;
use crate::delivery::DeliveryError;
use crate::queue::{Patience, Queue, Time, written};
use crate::store::Order;
use crate::timing::{Run, RunCounts};

#[derive(Default)]
pub(crate) struct State {
    pub(crate) spoolers: BTreeMap<String, Arc<Spooler>>,
    pub(crate) queues: BTreeMap<String, Queue>,
    pub(crate) store: Option<Sender<Order>>,
    /// The store is open, and its jobs are in the queues.
    pub(crate) is_open: bool,
    pub(crate) is_closed: bool,
    /// Why the store cannot be used.
    pub(crate) trouble: Option<String>,
    /// No more deliveries begin.
    pub(crate) rests: bool,
    pub(crate) schedules: BTreeMap<String, Timed>,
    /// Delivered by the previous router, and not found in the store yet.
    pub(crate) delivered_before: Vec<(String, u64)>,
    /// Detects changes of the clock.
    clock: ClockWatch,
}

/// A schedule and its progress.
pub(crate) struct Timed {
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) run: Run,
    /// When it is due.
    pub(crate) next: Option<Time>,
    pub(crate) counts: RunCounts,
    /// The last lines of output of the last successful command.
    pub(crate) output: Option<String>,
}

impl State {
    /// Moves times that are counted in intervals with a changed clock: pauses of jobs, and schedules with `every`. Times of `cron` are
    /// those of the clock and stay.
    pub(crate) fn follow_clock(&mut self) {
        let Some(jump) = self.clock.look() else {
            return;
        };
        for queue in self.queues.values_mut() {
            queue.follow(jump);
        }
        for timed in self.schedules.values_mut() {
            if matches!(timed.schedule.times, Times::Every(_)) && timed.run.settled > 0 {
                timed.run.settled = jump.moved(timed.run.settled).max(1);
            }
        }
    }

    pub(crate) fn order(&self, order: Order) {
        if let Some(store) = &self.store {
            // A thread that has ended writes nothing more.
            let _ = store.send(order);
        }
    }

    /// Reports which queues have jobs and no spooler.
    pub(crate) fn orphans(&self) -> impl Iterator<Item = String> {
        let queues = self.queues.iter();
        let lost =
            queues.filter(|(name, queue)| !queue.is_empty() && !self.spoolers.contains_key(*name));
        lost.map(|(name, queue)| {
            let (waiting, delivering, failed, _) = queue.totals();
            let count = waiting + delivering + failed;
            format!("{count} jobs belong to the spooler \"{name}\", which does not exist: they are kept, and delivered when a spooler with that name is configured; hint: `DELETE /control/spoolers/{name}/jobs` removes them")
        })
    }
}

impl State {
    /// Removes a job that the previous router has delivered.
    pub(crate) fn forget_delivered(&mut self, spooler: String, id: u64) {
        let queue = self.queues.get_mut(&spooler);
        if queue.is_some_and(|queue| queue.remove(id)) {
            if let Some(timed) = self.timed(&spooler) {
                timed.run.ended = now();
            }
            self.order(Order::Remove(spooler, id));
        }
    }

    /// The schedule whose runs are jobs of this spooler.
    fn timed(&mut self, spooler: &str) -> Option<&mut Timed> {
        self.schedules
            .get_mut(spooler.strip_prefix(SCHEDULE_PREFIX)?)
    }

    /// Takes the schedules of a configuration. The times of a changed one start anew.
    pub(crate) fn reschedule(&mut self, config: &Config) {
        let mut before = std::mem::take(&mut self.schedules);
        for (name, schedule) in &config.schedules {
            let same = before.remove(name).map(|mut timed| {
                if timed.schedule.times != schedule.times {
                    timed.run.settled = now();
                    timed.next = None;
                }
                timed.schedule = Arc::clone(schedule);
                timed
            });
            let timed = same.unwrap_or_else(|| Timed {
                schedule: Arc::clone(schedule),
                run: Run::default(),
                next: None,
                counts: RunCounts::default(),
                output: None,
            });
            self.schedules.insert(name.clone(), timed);
        }
        for name in before.into_keys() {
            self.order(Order::Ran(name, None));
        }
    }

    /// Removes runs of removed schedules.
    pub(crate) fn forget_runs(&mut self) {
        let mut gone = Vec::new();
        for (name, queue) in &self.queues {
            if name.starts_with(SCHEDULE_PREFIX) && !self.spoolers.contains_key(name) {
                gone.push((name.clone(), queue.all()));
            }
        }
        for (name, ids) in gone {
            self.queues.remove(&name);
            for id in ids {
                self.order(Order::Remove(name.clone(), id));
            }
        }
    }

    /// Notes the end of a run, successful or not.
    fn note_run(
        &mut self,
        spooler: &str,
        schedule: &str,
        id: u64,
        outcome: Option<Result<(), DeliveryError>>,
    ) -> Option<(Level, String)> {
        let rests = self.rests;
        let queue = self.queues.get_mut(spooler)?;
        let error = match outcome {
            None => {
                queue.give_back(id, now());
                return None;
            }
            Some(Err(failure))
                if failure.is_ours || (rests && failure.why.starts_with("no answer")) =>
            {
                queue.give_back(id, now());
                return None;
            }
            Some(Ok(())) => String::new(),
            Some(Err(failure)) => failure.why,
        };
        queue.remove(id);
        self.order(Order::Remove(spooler.to_owned(), id));
        let timed = self.schedules.get_mut(schedule)?;
        timed.run.ended = now();
        timed.run.error.clone_from(&error);
        match error.is_empty() {
            true => timed.counts.succeeded += 1,
            false => timed.counts.failed += 1,
        }
        let run = timed.run.clone();
        self.order(Order::Ran(schedule.to_owned(), Some(run)));
        let line = format!("schedule \"{schedule}\": the run has failed: {error}");
        (!error.is_empty()).then_some((Level::Error, line))
    }

    /// True if nothing is being delivered.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.values().all(|queue| queue.totals().1 == 0)
    }

    /// Notes the end of a delivery; returns a line for the log.
    pub(crate) fn note(
        &mut self,
        spooler: &Spooler,
        id: u64,
        outcome: Option<Result<(), DeliveryError>>,
    ) -> Option<(Level, String)> {
        let name = &spooler.name;
        if let Some(schedule) = name.strip_prefix(SCHEDULE_PREFIX) {
            return self.note_run(name, schedule, id, outcome);
        }
        let rests = self.rests;
        let queue = self.queues.get_mut(name)?;
        let failure = match outcome {
            None => {
                queue.give_back(id, now());
                return None;
            }
            Some(Ok(())) => {
                queue.delivered(id);
                self.order(Order::Remove(name.clone(), id));
                return None;
            }
            Some(Err(failure)) => failure,
        };
        if rests && failure.why.starts_with("no answer") {
            // The connection ended with this router, which does not count against the job.
            queue.give_back(id, now());
            return None;
        }
        let patience = Patience {
            first: spooler.options.backoff,
            longest: spooler.options.max_backoff,
            attempts: spooler.options.max_attempts,
        };
        let text = failure.why.clone();
        let standing = queue.failed(id, failure.why, failure.retry_after, now(), &patience)?;
        let (job, attempts) = (written(id), standing.attempts);
        let line = match standing.failed {
            0 => {
                let pause = standing.due.saturating_sub(now()) / 1000;
                let text = format!(
                    "spooler \"{name}\": job {job}, delivery {attempts}: {text}; again in {pause} seconds"
                );
                (Level::Info, text)
            }
            _ => (
                Level::Error,
                format!(
                    "spooler \"{name}\": job {job} is given up after {attempts} deliveries, the last: {text}; hint: `GET /control/spoolers/{name}/failed` lists such jobs, `POST /control/spoolers/{name}/retry` tries them again"
                ),
            ),
        };
        self.order(Order::Note(name.clone(), id, standing));
        Some(line)
    }
}
