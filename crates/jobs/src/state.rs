//! The state of jobs in memory, behind one lock: spoolers, their queues, schedules, and the orders to the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tutti_config::Config;
use tutti_config::model::{SCHEDULE_PREFIX, Schedule, Spooler, Times};
use tutti_log::Level;
use tutti_sys::clock::ClockWatch;

use crate::clock::now;
use crate::delivery::DeliveryError;
use crate::queue::{Patience, Queue, Time, written};
use crate::store::Order;
use crate::timing::{Run, RunCounts};

/// Time in which a command that ignored its signal is killed, its process has ended and the news of it has arrived.
const TO_END: Duration = Duration::from_secs(15);

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
    pub(crate) delivered_before: Vec<DeliveredBefore>,
    /// Detects changes of the clock.
    clock: ClockWatch,
}

/// A job that the previous router has delivered: its spooler, its number, and why it failed, if it is a run of a schedule that did.
pub(crate) type DeliveredBefore = (String, u64, String);

/// The result of noting the end of a delivery.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// A line for the log.
    pub(crate) line: Option<(Level, String)>,
    /// The job is done and removed; the text is why the run of a schedule failed, or empty. `None`: it is delivered again or kept as failed.
    pub(crate) over: Option<String>,
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
    pub(crate) fn forget_delivered(&mut self, (spooler, id, error): DeliveredBefore) {
        let queue = self.queues.get_mut(&spooler);
        if queue.is_some_and(|queue| queue.remove(id)) {
            if let Some(schedule) = spooler.strip_prefix(SCHEDULE_PREFIX) {
                self.end_run(schedule, error);
            }
            self.order(Order::Remove(spooler, id));
        }
    }

    /// Records the end of a run; `error` is empty if it succeeded.
    fn end_run(&mut self, schedule: &str, error: String) {
        let Some(timed) = self.schedules.get_mut(schedule) else {
            return;
        };
        match error.is_empty() {
            true => timed.counts.succeeded += 1,
            false => timed.counts.failed += 1,
        }
        timed.run.ended = now();
        timed.run.error = error;
        let run = timed.run.clone();
        self.order(Order::Ran(schedule.to_owned(), Some(run)));
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
    ) -> Noted {
        let rests = self.rests;
        let Some(queue) = self.queues.get_mut(spooler) else {
            return Noted::default();
        };
        let error = match outcome {
            None => {
                queue.give_back(id, now());
                return Noted::default();
            }
            Some(Err(failure))
                if failure.is_ours || (rests && failure.why.starts_with("no answer")) =>
            {
                queue.give_back(id, now());
                return Noted::default();
            }
            Some(Ok(())) => String::new(),
            Some(Err(failure)) => failure.why,
        };
        queue.remove(id);
        self.order(Order::Remove(spooler.to_owned(), id));
        self.end_run(schedule, error.clone());
        let line = format!("schedule \"{schedule}\": the run has failed: {error}");
        Noted {
            line: (!error.is_empty()).then_some((Level::Error, line)),
            over: Some(error),
        }
    }

    /// The longest time from the beginning of a delivery until the news of its end has arrived.
    pub(crate) fn longest_delivery(&self, spooler: &str) -> Duration {
        let options = self.spoolers.get(spooler).map(|one| &one.options);
        let schedule = spooler.strip_prefix(SCHEDULE_PREFIX);
        let timed = schedule.and_then(|name| self.schedules.get(name));
        let command = timed.filter(|timed| timed.schedule.command.is_some());
        let to_stop = command.map_or(Duration::ZERO, |timed| {
            timed.schedule.options.stop_timeout + TO_END
        });
        options.map_or(Duration::ZERO, |options| options.timeout) + to_stop
    }

    /// True if nothing is being delivered.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.values().all(|queue| queue.totals().1 == 0)
    }

    /// Notes the end of a delivery.
    pub(crate) fn note(
        &mut self,
        spooler: &Spooler,
        id: u64,
        outcome: Option<Result<(), DeliveryError>>,
    ) -> Noted {
        let name = &spooler.name;
        if let Some(schedule) = name.strip_prefix(SCHEDULE_PREFIX) {
            return self.note_run(name, schedule, id, outcome);
        }
        let rests = self.rests;
        let Some(queue) = self.queues.get_mut(name) else {
            return Noted::default();
        };
        let failure = match outcome {
            None => {
                queue.give_back(id, now());
                return Noted::default();
            }
            Some(Ok(())) => {
                queue.delivered(id);
                self.order(Order::Remove(name.clone(), id));
                return Noted {
                    line: None,
                    over: Some(String::new()),
                };
            }
            Some(Err(failure)) => failure,
        };
        if rests && failure.why.starts_with("no answer") {
            // The connection ended with this router, which does not count against the job.
            queue.give_back(id, now());
            return Noted::default();
        }
        let patience = Patience {
            first: spooler.options.backoff,
            longest: spooler.options.max_backoff,
            attempts: spooler.options.max_attempts,
        };
        let text = failure.why.clone();
        let noted = queue.failed(id, failure.why, failure.retry_after, now(), &patience);
        let Some(standing) = noted else {
            return Noted::default();
        };
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
                    "spooler \"{name}\": job {job} has failed after {attempts} deliveries, the last: {text}; hint: `GET /control/spoolers/{name}/failed` lists such jobs, `POST /control/spoolers/{name}/retry` tries them again"
                ),
            ),
        };
        self.order(Order::Note(name.clone(), id, standing));
        Noted {
            line: Some(line),
            over: None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::queue::JobState;

    const RUNS: &str = "schedule\0s";

    /// A router that runs the schedule `s`.
    fn running() -> State {
        let text = r#"{"listeners": {}, "applications": {"a": {"type": "external", "executable": "/bin/true"}},
            "schedules": {"s": {"every": 60, "application": "a", "command": ["tidy"], "timeout": 10, "stop_timeout": 20}}}"#;
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let context = tutti_config::ValidationContext::with_modules([("external", "1")]);
        let config = tutti_config::validate(&document, &context).unwrap();
        let mut state = State::default();
        state.reschedule(&config);
        for spooler in config.all_spoolers() {
            let name = spooler.name.clone();
            state.spoolers.insert(name, Arc::clone(spooler));
        }
        let queue = state.queues.entry(RUNS.to_owned()).or_default();
        queue.insert(7, JobState::default());
        assert_eq!(queue.take_due(now(), 1), Some(7));
        state
    }

    fn note(state: &mut State, outcome: Option<Result<(), DeliveryError>>) -> Noted {
        let spooler = Arc::clone(&state.spoolers[RUNS]);
        state.note(&spooler, 7, outcome)
    }

    #[test]
    fn the_next_router_knows_how_a_run_of_the_previous_one_ended() {
        for (outcome, error) in [
            (Ok(()), ""),
            (
                Err(DeliveryError::new("it exited with 3")),
                "it exited with 3",
            ),
        ] {
            let (mut previous, mut next) = (running(), running());
            previous.rests = true;
            let over = note(&mut previous, Some(outcome)).over.unwrap();
            next.forget_delivered((RUNS.to_owned(), 7, over));
            assert!(next.queues[RUNS].is_empty());
            let timed = &next.schedules["s"];
            assert!(timed.run.ended > 0);
            assert_eq!(timed.run.error, error);
            let counts = (timed.counts.succeeded, timed.counts.failed);
            assert_eq!(counts, if error.is_empty() { (1, 0) } else { (0, 1) });
        }
    }

    #[test]
    fn a_run_that_this_router_cut_is_left_to_the_next_one() {
        let ours = DeliveryError {
            is_ours: true,
            ..DeliveryError::new("the server has stopped it")
        };
        for outcome in [
            Some(Err(DeliveryError::new("no answer: connection reset"))),
            Some(Err(ours)),
            None,
        ] {
            let mut state = running();
            state.rests = true;
            assert_eq!(note(&mut state, outcome).over, None);
            assert!(!state.queues[RUNS].is_empty());
        }
    }

    #[test]
    fn a_run_that_times_out_ends_before_the_next_router_may_repeat_it() {
        let limit = running().longest_delivery(RUNS);
        assert!(limit > Duration::from_secs(10 + 20), "{limit:?}");
    }
}
