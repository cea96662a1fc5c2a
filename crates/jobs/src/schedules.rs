//! Schedules: when one is due its request becomes a job of a spooler with room for one. So a run is on disk before it begins, never
//! overlaps with another, and continues after a restart.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tutti_config::model::{Schedule, written};
use tutti_config::table::Missed;
use tutti_log::Level;

use crate::clock::now;
use crate::jobs::{Jobs, OVERHEAD};
use crate::queue::{JobState, Time};
use crate::state::{State, Timed};
use crate::store::{Addition, JobRequest, JobStoreError, Order};
use crate::timing::{Look, RunCounts, look};

/// The clock may be changed meanwhile, so due runs are checked soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The state of a schedule; times in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleStatus {
    /// Its name.
    pub name: String,
    /// When the next run is due.
    pub next: Option<u64>,
    /// A run is in progress.
    pub is_running: bool,
    /// When the last run began; `None`: none has.
    pub started: Option<u64>,
    /// When it ended; `None`: it has not.
    pub ended: Option<u64>,
    /// Why the last finished run failed; empty: it did not.
    pub error: String,
    /// The last lines of output, if the last run was a command that succeeded since the router was started.
    pub output: Option<String>,
    /// Since the router was started.
    pub counts: RunCounts,
}

impl Jobs {
    /// Begins runs that are due, for ever.
    pub async fn run_schedules(self) {
        loop {
            let pause = self.begin_runs().map_or(LONGEST_PAUSE, |next| {
                Duration::from_millis(next.saturating_sub(now())).min(LONGEST_PAUSE)
            });
            tokio::select! {
                () = self.0.rescheduled.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Begins runs that are due now; returns when to check again.
    fn begin_runs(&self) -> Option<Time> {
        let (mut lines, mut stored, mut next) = (Vec::new(), Vec::new(), None);
        {
            let state = &mut *self.0.state();
            if !state.is_open || state.rests {
                return None;
            }
            state.follow_clock();
            let names: Vec<String> = state.schedules.keys().cloned().collect();
            for name in names {
                let Some(timed) = state.schedules.get_mut(&name) else {
                    continue;
                };
                let schedule = Arc::clone(&timed.schedule);
                let found = look(&schedule, timed.run.settled, now());
                timed.next = found.next;
                timed.counts.missed += found.missed;
                next = next.into_iter().chain(found.next).min();
                lines.extend(report(&schedule, timed.run.settled, &found));
                let is_settled = timed.run.settled == found.settled;
                timed.run.settled = found.settled;
                if found.is_due {
                    match state.begin(&schedule) {
                        Some(answer) => stored.push((name.clone(), answer)),
                        None => lines.push(skipped(&schedule)),
                    }
                }
                if !is_settled {
                    state.note_settled(&name);
                }
            }
        }
        for line in lines {
            self.0.around.log(Level::Warn, &line);
        }
        for (name, answer) in stored {
            tokio::spawn(self.clone().await_stored(name, answer));
        }
        next
    }

    /// Logs it if a run cannot be stored.
    async fn await_stored(
        self,
        name: String,
        answer: oneshot::Receiver<Result<u64, JobStoreError>>,
    ) {
        if let Ok(Err(error)) = answer.await {
            let line = format!(
                "schedule \"{name}\": a run is skipped because it cannot be stored: {error}"
            );
            self.0.around.log(Level::Error, &line);
        }
    }

    /// All schedules.
    pub fn schedules(&self) -> Vec<ScheduleStatus> {
        let state = self.0.state();
        let schedules = state.schedules.iter();
        let one = |(name, timed): (&String, &Timed)| {
            let queue = state.queues.get(&timed.schedule.runs.name);
            let run = &timed.run;
            ScheduleStatus {
                name: name.clone(),
                next: timed.next,
                is_running: queue.is_some_and(|queue| !queue.is_empty()),
                started: (run.started > 0).then_some(run.started),
                ended: (run.ended > 0 && run.ended >= run.started).then_some(run.ended),
                error: run.error.clone(),
                output: timed.output.clone(),
                counts: timed.counts,
            }
        };
        schedules.map(one).collect()
    }
}

impl State {
    /// Stores a run as a job; `None`: the former one is in progress.
    fn begin(
        &mut self,
        schedule: &Schedule,
    ) -> Option<oneshot::Receiver<Result<u64, JobStoreError>>> {
        let request = request(schedule);
        let size = request.size() + OVERHEAD;
        let spooler = &schedule.runs;
        let queue = self.queues.entry(spooler.name.clone()).or_default();
        let timed = self.schedules.get_mut(&schedule.name)?;
        if !queue.reserve(size, (spooler.options.max_jobs, u64::MAX)) {
            timed.counts.skipped += 1;
            return None;
        }
        timed.run.started = now();
        let (answer, stored) = oneshot::channel();
        self.order(Order::Add(Box::new(Addition {
            spooler: spooler.name.clone(),
            request,
            standing: JobState {
                due: now(),
                size,
                ..JobState::default()
            },
            answer,
            _charge: None,
        })));
        Some(stored)
    }

    fn note_settled(&self, name: &str) {
        if let Some(timed) = self.schedules.get(name) {
            self.order(Order::Ran(name.to_owned(), Some(timed.run.clone())));
        }
    }
}

fn request(schedule: &Schedule) -> JobRequest {
    let options = &schedule.options;
    let host = (b"Host".to_vec(), options.host.clone().into_bytes());
    let headers = schedule.headers.iter();
    let headers =
        headers.map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()));
    JobRequest {
        method: options.method.clone(),
        target: options.uri.clone().into_bytes(),
        fields: std::iter::once(host).chain(headers).collect(),
        body: options.body.clone().into_bytes(),
    }
}

/// Describes what happened to the times that have passed, if it is unusual.
fn report(schedule: &Schedule, settled: Time, found: &Look) -> Option<String> {
    let name = &schedule.name;
    if found.is_set_back {
        return Some(format!(
            "schedule \"{name}\": the clock is behind the last run, at {}, by more than the time between two runs; its times start anew",
            written(settled)
        ));
    }
    if found.missed == 0 {
        return None;
    }
    let fate = match (found.is_due, schedule.options.missed) {
        (true, Missed::RunOnce) => "one run makes up for them now",
        _ => "they are skipped (`missed`)",
    };
    Some(format!(
        "schedule \"{name}\": {} runs since {} were missed because the server was not running or the clock was changed: {fate}",
        found.missed,
        written(settled)
    ))
}

fn skipped(schedule: &Schedule) -> String {
    format!(
        "schedule \"{}\": a run is skipped because the previous one is still in progress; hint: give it more time between two runs, or a shorter `timeout`",
        schedule.name
    )
}
