//! All mules, and the effect of a configuration change on each; also runs the commands of schedules.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tutti_config::Config;

use crate::process::{LOOK_AGAIN, Process, ProcessStatus};
use crate::run::{self, Ending, RunFailure, RunResult};
use crate::runner::{Around, RunnerError, look};
use crate::spec::{CommandSpec, all};

/// Commands that are checked at the same time before a change.
const LOOKS_AT_ONCE: usize = 8;

/// The status of a mule.
#[derive(Clone, Debug)]
pub struct MuleStatus {
    /// The application.
    pub application: Arc<str>,
    /// Its name.
    pub name: String,
    /// Its processes, in order.
    pub processes: Vec<ProcessStatus>,
}

/// All commands. A handle: clones share the same state.
#[derive(Clone)]
pub struct Commands(Arc<Inner>);

struct Inner {
    around: Arc<dyn Around>,
    state: Mutex<State>,
    ending: watch::Sender<Ending>,
    /// Counts the runs in progress.
    runs: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    /// Mules by their place in the configuration.
    mules: BTreeMap<String, Entry>,
    /// Commands of schedules by name.
    schedules: BTreeMap<String, Arc<CommandSpec>>,
    /// Processes that have been stopped for good and have not ended yet.
    leaving: Vec<Process>,
    is_over: bool,
}

struct Entry {
    spec: Arc<CommandSpec>,
    processes: Vec<Process>,
}

impl State {
    fn leave(&mut self, processes: Vec<Process>) {
        for process in &processes {
            process.stop();
        }
        self.leaving.retain(|process| !process.has_ended());
        self.leaving.extend(processes);
    }
}

impl Commands {
    /// Creates an empty set; must be called inside a runtime.
    pub fn new(around: Arc<dyn Around>) -> Commands {
        Commands(Arc::new(Inner {
            around,
            state: Mutex::default(),
            ending: watch::Sender::new(Ending::No),
            runs: watch::Sender::new(0),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves the state consistent.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the commands that are new in a configuration can be run.
    pub async fn look(&self, config: &Config) -> Result<(), Vec<RunnerError>> {
        let mut new: Vec<Arc<CommandSpec>> = Vec::new();
        {
            let state = self.state();
            for spec in all(config) {
                let known = match spec.is_mule() {
                    true => state.mules.get(&spec.place).map(|entry| &entry.spec),
                    false => state.schedules.get(&spec.name),
                };
                if !known.is_some_and(|known| known.has_same_processes(&spec)) {
                    new.push(Arc::new(spec));
                }
            }
        }
        let mut failures = Vec::new();
        for some in new.chunks(LOOKS_AT_ONCE) {
            let mut looks = JoinSet::new();
            for spec in some {
                let (around, spec) = (Arc::clone(&self.0.around), Arc::clone(spec));
                looks.spawn(async move { look(&around, &spec).await });
            }
            let looked = looks.join_all().await;
            failures.extend(looked.into_iter().filter_map(Result::err));
        }
        failures.sort_by(|a, b| a.place.cmp(&b.place));
        match failures.is_empty() {
            true => Ok(()),
            false => Err(failures),
        }
    }

    /// Applies the commands of a configuration. Processes whose command has not changed keep running.
    pub fn configure(&self, config: &Config) {
        let state = &mut *self.state();
        if state.is_over {
            return;
        }
        let mut before = std::mem::take(&mut state.mules);
        state.schedules.clear();
        for spec in all(config) {
            let spec = Arc::new(spec);
            if !spec.is_mule() {
                state.schedules.insert(spec.name.clone(), spec);
                continue;
            }
            let mut processes = Vec::new();
            match before.remove(&spec.place) {
                Some(entry) if entry.spec.has_same_processes(&spec) => {
                    processes = entry.processes;
                    let wanted = usize::try_from(spec.processes).unwrap_or(usize::MAX);
                    let rest = processes.split_off(wanted.min(processes.len()));
                    state.leave(rest);
                    for process in &processes {
                        process.adapt(&spec);
                    }
                }
                Some(entry) => state.leave(entry.processes),
                None => {}
            }
            // Main does not start a process while one with the same number is still ending.
            for number in (0..spec.processes).skip(processes.len()) {
                processes.push(Process::start(&self.0.around, &spec, number));
            }
            let place = spec.place.clone();
            state.mules.insert(place, Entry { spec, processes });
        }
        for entry in before.into_values() {
            state.leave(entry.processes);
        }
    }

    /// Replaces the processes of an application's mules: each is restarted once it has ended.
    pub fn restart(&self, application: &str) {
        for entry in self.state().mules.values() {
            if *entry.spec.application == *application {
                entry.processes.iter().for_each(Process::restart);
            }
        }
    }

    /// Stops all mules for good.
    pub fn stop_mules(&self) {
        let state = &mut *self.state();
        state.is_over = true;
        for entry in std::mem::take(&mut state.mules).into_values() {
            state.leave(entry.processes);
        }
    }

    /// Stops all runs in progress.
    pub fn stop_runs(&self) {
        self.0.ending.send_replace(Ending::Now);
    }

    /// Completes when no command is running any more.
    pub async fn ended(&self) {
        let mut runs = self.0.runs.subscribe();
        let _ = runs.wait_for(|count| *count == 0).await;
        while !self.state().leaving.iter().all(Process::has_ended) {
            tokio::time::sleep(LOOK_AGAIN / 4).await;
        }
    }

    /// Runs the command of a schedule; `None` if the schedule has no command.
    pub async fn run(
        &self,
        schedule: &str,
        timeout: Duration,
    ) -> Option<Result<RunResult, RunFailure>> {
        let spec = self.state().schedules.get(schedule).cloned()?;
        self.0.runs.send_modify(|count| *count += 1);
        let _counted = Counted(&self.0.runs);
        let ending = self.0.ending.subscribe();
        Some(run::run(&self.0.around, &spec, timeout, ending).await)
    }

    /// Returns the status of all mules.
    pub fn status(&self) -> Vec<MuleStatus> {
        let state = self.state();
        let one = |entry: &Entry| MuleStatus {
            application: Arc::clone(&entry.spec.application),
            name: entry.spec.name.clone(),
            processes: entry.processes.iter().map(Process::status).collect(),
        };
        state.mules.values().map(one).collect()
    }
}

/// Counts a run until it is dropped.
struct Counted<'a>(&'a watch::Sender<usize>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}
