//! All applications of the server: started for a configuration, kept, restarted, retired.
//!
//! Used on the control thread. Changes come one at a time (the control API serialises them): [`Manager::prepare`] starts what a
//! configuration needs in addition to what is running, and [`PreparedApplications::commit`] or dropping it decides. What must never happen: a failed or
//! abandoned change leaves a process behind, or affects one that served before.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::application::{AppMeasures, AppStatus, ApplicationPool};
use crate::context::Context;
use crate::counters::Tally;
use crate::eventfds::ThreadWakers;
use crate::failure::StartFailure;
use crate::generation::Generation;
use crate::launcher::{Launcher, LogSink, ProcessExit};
use crate::runtime;
use crate::scheduling::{Clocks, Scheduling, SystemClocks};
use crate::shared::Shared;
use crate::spec::AppSpec;
use crate::supervisor::{Event, Handle, MAX_PROCESSES, OnFailure, Started, Supervisor};

/// The applications of the server.
#[derive(Clone)]
pub struct Manager(Arc<Inner>);

struct Inner {
    context: Arc<Context>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: BTreeMap<Arc<str>, Member>,
    /// Everything that has processes, also what is not live yet or any more.
    handles: Vec<Handle>,
    /// Applications whose numbers of processes were changed by the last changes.
    unsettled: Vec<Handle>,
}

#[derive(Clone)]
struct Member {
    app: Arc<ApplicationPool>,
    handle: Handle,
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").finish_non_exhaustive()
    }
}

/// Why a restart failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RollError {
    /// No application has this name.
    #[error("there is no application \"{0}\"")]
    Unknown(String),
    /// The new processes failed to start; the old ones keep running.
    #[error(transparent)]
    Failed(#[from] StartFailure),
}

impl Manager {
    /// A manager without applications.
    pub fn new(
        launcher: Arc<dyn Launcher>,
        log: Arc<dyn LogSink>,
        threads: Arc<ThreadWakers>,
    ) -> Manager {
        Manager::with_clocks(launcher, log, threads, Box::new(SystemClocks))
    }

    /// The same, with these clocks for CPU time.
    pub fn with_clocks(
        launcher: Arc<dyn Launcher>,
        log: Arc<dyn LogSink>,
        threads: Arc<ThreadWakers>,
        clocks: Box<dyn Clocks>,
    ) -> Manager {
        let cores = clocks.cores().max(1);
        let context = Arc::new(Context {
            launcher,
            log,
            threads,
            cores,
            scheduling: Scheduling::new(clocks, cores),
        });
        Manager(Arc::new(Inner {
            context,
            state: Mutex::default(),
        }))
    }

    /// Starts the applications of a configuration. Those without changes are kept, and those with only other numbers and limits are adapted
    /// at the commit.
    ///
    /// Returns when the configured initial workers of all are running.
    ///
    /// # Errors
    /// All applications that failed to start. Everything started for this configuration has ended by then.
    pub async fn prepare(
        &self,
        specs: Vec<AppSpec>,
    ) -> Result<PreparedApplications, Vec<StartFailure>> {
        let (mut prepared, starts) = self.bring_up(specs, OnFailure::End);
        let mut failures = starts.failed;
        for (spec, started) in starts.under_way {
            match started.await {
                Ok(Ok(report)) => {
                    prepared.unstarted.extend(report.missing);
                    prepared.warnings.extend(report.warnings);
                }
                Ok(Err(failure)) => failures.push(failure),
                Err(_) => failures.push(StartFailure::new(
                    &spec,
                    "start",
                    "it was stopped while starting",
                )),
            }
        }
        if failures.is_empty() {
            return Ok(prepared);
        }
        let fresh = prepared.abandon();
        for handle in fresh {
            handle.ended().await;
        }
        Err(failures)
    }

    /// Like [`prepare`](Self::prepare), but does not wait: requests wait for an application that is still being started, within its limits.
    /// An application that fails to start is kept: its requests are refused with the reason (503), and its start is repeated.
    pub fn prepare_at_once(&self, specs: Vec<AppSpec>) -> (PreparedApplications, Starts) {
        self.bring_up(specs, OnFailure::TryAgain)
    }

    fn bring_up(
        &self,
        specs: Vec<AppSpec>,
        on_failure: OnFailure,
    ) -> (PreparedApplications, Starts) {
        let mut prepared = PreparedApplications {
            manager: self.clone(),
            members: BTreeMap::new(),
            fresh: Vec::new(),
            adapted: Vec::new(),
            unstarted: Vec::new(),
            warnings: Vec::new(),
        };
        let mut starts = Starts::default();
        for spec in specs {
            let spec = Arc::new(spec);
            if let Some(member) = self.kept(&spec) {
                if *member.app.spec() != *spec {
                    prepared.adapted.push((member.clone(), Arc::clone(&spec)));
                }
                prepared.members.insert(Arc::clone(&spec.name), member);
                continue;
            }
            match self.start(&spec, on_failure) {
                Ok((member, started)) => {
                    prepared
                        .members
                        .insert(Arc::clone(&spec.name), member.clone());
                    prepared.fresh.push(member.handle.clone());
                    starts.under_way.push((spec, started));
                }
                Err(failure) => starts.failed.push(failure),
            }
        }
        (prepared, starts)
    }

    /// The live application with this name.
    pub fn application(&self, name: &str) -> Option<Arc<ApplicationPool>> {
        self.state()
            .live
            .get(name)
            .map(|member| Arc::clone(&member.app))
    }

    /// True if the live application has a spool that one of this specification takes over, so that its folder need not be opened.
    pub fn has_spool_for(&self, spec: &AppSpec) -> bool {
        let state = self.state();
        let member = state.live.get(&spec.name);
        member.is_some_and(|member| member.app.spec().has_same_processes(spec))
    }

    /// The state of all live applications.
    pub fn status(&self) -> Vec<(Arc<str>, AppStatus)> {
        let members: Vec<Member> = self.state().live.values().cloned().collect();
        members
            .iter()
            .map(|member| (Arc::clone(member.app.name()), member.app.status()))
            .collect()
    }

    /// The state of all live applications, for the metrics.
    pub fn measures(&self) -> Vec<(Arc<str>, AppMeasures)> {
        let members: Vec<Member> = self.state().live.values().cloned().collect();
        members
            .iter()
            .map(|member| (Arc::clone(member.app.name()), member.app.measures()))
            .collect()
    }

    /// Replaces all processes of an application, rolling: returns when the new ones have taken over.
    ///
    /// # Errors
    /// The new processes failed; the old ones keep running.
    pub async fn restart(&self, name: &str) -> Result<(), RollError> {
        let member = self.state().live.get(name).cloned();
        let Some(member) = member else {
            return Err(RollError::Unknown(name.to_owned()));
        };
        let (reply, answer) = oneshot::channel();
        member.handle.send(Event::Restart(reply));
        match answer.await {
            Ok(result) => Ok(result?),
            Err(_) => {
                Err(
                    StartFailure::new(&member.app.spec(), "restart", "it was stopped meanwhile")
                        .into(),
                )
            }
        }
    }

    /// Completes when each adapted application has its configured number of processes, or cannot start more now: await it after a change,
    /// so that `/status` shows the new numbers.
    pub async fn settled(&self) {
        let handles = std::mem::take(&mut self.state().unsettled);
        let ask = |handle: &Handle| {
            let (reply, answer) = oneshot::channel();
            handle.send(Event::Settle(reply));
            answer
        };
        let answers: Vec<_> = handles.iter().map(ask).collect();
        for answer in answers {
            // An error means that the application has ended.
            let _ = answer.await;
        }
    }

    /// Called when main has reaped this process: a prototype, or a worker whose prototype had ended.
    pub fn process_exited(&self, pid: i32, status: ProcessExit) {
        for handle in &self.state().handles {
            handle.send(Event::Exited { pid, status });
        }
    }

    /// Makes all applications check for processes stopped by a signal: those stopped for `limit` are killed.
    pub fn watch(&self, limit: Duration) {
        for handle in &self.state().handles {
            handle.send(Event::Watch { limit });
        }
    }

    /// Makes the processes reopen their output files (SIGUSR1).
    pub fn reopen(&self) {
        for member in self.state().live.values() {
            member.handle.send(Event::Reopen);
        }
    }

    /// Called before a graceful stop: no more processes are started in advance, and requests in progress get `limits.drain_timeout` from
    /// now on.
    pub fn begin_drain(&self) {
        for member in self.state().live.values() {
            member.handle.send(Event::Retire { deadline: None });
        }
    }

    /// Ends all applications: returns when every process has ended. Requests have until `deadline`; none means unlimited.
    pub async fn shutdown(&self, deadline: Option<Duration>) {
        let deadline = deadline.map(|deadline| runtime::now() + deadline);
        let handles = {
            let mut state = self.state();
            state.live.clear();
            state.handles.clone()
        };
        for handle in &handles {
            handle.send(Event::Retire { deadline });
        }
        for handle in &handles {
            handle.ended().await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live application that can be kept for this specification.
    fn kept(&self, spec: &AppSpec) -> Option<Member> {
        let member = self.state().live.get(&spec.name).cloned()?;
        let has_room = || {
            let generation = member.app.generation.load();
            generation.has_room_for(spec.common.processes.max())
        };
        let is_kept = member.app.spec().has_same_processes(spec) && has_room();
        is_kept.then_some(member)
    }

    fn start(
        &self,
        spec: &Arc<AppSpec>,
        on_failure: OnFailure,
    ) -> Result<(Member, oneshot::Receiver<Started>), StartFailure> {
        let most = MAX_PROCESSES / spec.special.threads();
        if spec.common.processes.max() > most {
            let message = match spec.special.threads().get() {
                1 => format!("more than {most} processes"),
                threads => format!("more than {most} processes of {threads} threads each"),
            };
            return Err(StartFailure::new(spec, "check processes", message));
        }
        let context = &self.0.context;
        let failed =
            |step: &str, error: io::Error| StartFailure::new(spec, step, error.to_string());
        let before = self.state().live.get(&spec.name).cloned();
        let spool = match &before {
            // The same, but with more processes than its segment has room for.
            Some(before) if before.app.spec().has_same_processes(spec) => {
                Ok(before.app.spool().clone())
            }
            _ => spec.spool.spool(spec.max_body_size),
        };
        let spool = spool.map_err(|error| {
            failed("create spool", error).with_hint(format!(
                "the folder for temporary files, `{}`, must exist and be writable by the server",
                spec.spool.folder().display()
            ))
        })?;
        let tally = before.map_or_else(
            || Arc::new(Tally::new(context.threads.count())),
            |before| Arc::clone(&before.app.shared.tally),
        );
        let shared = Arc::new(Shared::new(Arc::clone(spec), tally));
        let generation = Generation::create(&shared, context)
            .map_err(|error| failed("create shared memory", error))?;
        let app = ApplicationPool::new(shared, generation, spool);
        let (handle, started) =
            Supervisor::spawn(Arc::clone(&app), Arc::clone(context), on_failure);
        let mut state = self.state();
        state.handles.retain(|handle| !handle.has_ended());
        state.handles.push(handle.clone());
        Ok((Member { app, handle }, started))
    }
}

/// The applications of a configuration, all running. Dropping it ends those that were started for it.
#[derive(Debug)]
pub struct PreparedApplications {
    manager: Manager,
    members: BTreeMap<Arc<str>, Member>,
    fresh: Vec<Handle>,
    /// Live applications that will get other numbers and limits.
    adapted: Vec<(Member, Arc<AppSpec>)>,
    /// Why applications without initial processes could not be started now.
    unstarted: Vec<StartFailure>,
    /// Options of applications with warnings.
    warnings: Vec<StartFailure>,
}

/// The first starts of applications that are not waited for.
#[derive(Debug, Default)]
pub struct Starts {
    under_way: Vec<(Arc<AppSpec>, oneshot::Receiver<Started>)>,
    /// Applications whose start could not even be begun.
    failed: Vec<StartFailure>,
}

impl Starts {
    /// Calls `report` for each failed start, as soon as it fails; completes when all starts have ended.
    pub async fn each_failure(self, mut report: impl FnMut(StartFailure)) {
        for failure in self.failed {
            report(failure);
        }
        let (failed, mut failures) = mpsc::unbounded_channel();
        for (_, started) in self.under_way {
            let failed = failed.clone();
            runtime::spawn(async move {
                // An application that was stopped while starting is not needed any more, and its caller needs no report.
                let failure = match started.await {
                    Ok(Ok(report)) => report.missing,
                    Ok(Err(failure)) => Some(failure),
                    Err(_) => None,
                };
                if let Some(failure) = failure {
                    let _ = failed.send(failure);
                }
            });
        }
        drop(failed);
        while let Some(failure) = failures.recv().await {
            report(failure);
        }
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.app.fmt(f)
    }
}

impl PreparedApplications {
    /// The application with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<ApplicationPool>> {
        self.members.get(name).map(|member| &member.app)
    }

    /// All applications, by name.
    pub fn applications(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<ApplicationPool>)> {
        self.members
            .iter()
            .map(|(name, member)| (name, &member.app))
    }

    /// Why applications without initial processes cannot be started: their requests get 503 with the reason until that is fixed.
    pub fn unstarted(&self) -> &[StartFailure] {
        &self.unstarted
    }

    /// Options that the hosts warn about, although their applications have started.
    pub fn warnings(&self) -> &[StartFailure] {
        &self.warnings
    }

    /// Makes these the live applications. The others end after their last request, when no snapshot holds them any more.
    pub fn commit(mut self) {
        self.fresh.clear();
        for (member, spec) in self.adapted.drain(..) {
            member.app.shared.spec.store(spec);
            member.handle.send(Event::Adapt);
            self.manager.state().unsettled.push(member.handle);
        }
        let members = std::mem::take(&mut self.members);
        let before = {
            let mut state = self.manager.state();
            std::mem::replace(&mut state.live, members.clone())
        };
        for (name, member) in before {
            let is_kept = members
                .get(&name)
                .is_some_and(|new| Arc::ptr_eq(&new.app, &member.app));
            if !is_kept {
                member.handle.send(Event::Retire { deadline: None });
            }
        }
    }

    fn abandon(&mut self) -> Vec<Handle> {
        self.members.clear();
        let fresh = std::mem::take(&mut self.fresh);
        for handle in &fresh {
            handle.send(Event::Retire {
                deadline: Some(runtime::now()),
            });
        }
        fresh
    }
}

impl Drop for PreparedApplications {
    fn drop(&mut self) {
        self.abandon();
    }
}
