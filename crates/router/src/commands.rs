//! The commands of applications in the router: started by main, shown in `/status` and the metrics.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
use tutti_commands::{
    Around, Commands, LastEnd, MuleStatus, ProcessState, ProcessStatus, RunnerError, StartFuture,
    StartRequest,
};
use tutti_config::model::written;
use tutti_config::{Diagnostic, Diagnostics, Pointer};
use tutti_log::Level;
use tutti_metrics::{Page, names};
use tutti_pool::LogSink;
use tutti_protocol::FromRouter;
use tutti_sys::proc;
use tutti_unprivileged::fault;

use super::daemon_log::Sink;
use super::line::Link;

/// The signal that no process survives.
const SIGKILL: i32 = 9;

/// Makes it without any command.
pub(super) fn new(link: &Arc<Link>, sink: &Arc<Sink>) -> Commands {
    Commands::new(Arc::new(Starter {
        link: Arc::clone(link),
        sink: Arc::clone(sink),
    }))
}

/// Gives the commands access to the router.
struct Starter {
    link: Arc<Link>,
    sink: Arc<Sink>,
}

impl LogSink for Starter {
    fn log(&self, level: Level, message: &str) {
        self.sink.log(level, message);
    }

    fn output(&self, application: &str, process: i32, line: &[u8]) {
        self.sink.output(application, process, line);
    }
}

impl Around for Starter {
    fn start(&self, request: StartRequest) -> StartFuture {
        let StartRequest {
            spec,
            process,
            control,
            output,
        } = request;
        let started = self.link.request(
            &|id| FromRouter::RunCommand {
                id,
                place: spec.place.clone(),
                start: spec.start.clone(),
                process,
            },
            vec![control, output],
        );
        Box::pin(async move {
            match started.await {
                Ok(done) => Ok(done.pid),
                Err(refused) => {
                    let failure = RunnerError::new(&spec, "starting its runner", refused.message);
                    Err(failure.because(&spec, refused.option.as_deref(), refused.hint))
                }
            }
        })
    }

    fn kill(&self, pid: i32) {
        self.link.send(&FromRouter::Kill {
            leader: Some(pid),
            pid,
            signal: SIGKILL,
        });
    }
}

/// Converts failures of commands to faults of a configuration.
pub(super) fn faults(failures: &[RunnerError]) -> Diagnostics {
    let one = |failure: &RunnerError| -> Diagnostic {
        let place = Pointer::from_escaped(&failure.place);
        fault(place, failure.to_string(), failure.hint.clone())
    };
    Diagnostics(failures.iter().map(one).collect())
}

/// Adds `mules` to the applications of `/status` that have any.
pub(super) fn add_status(commands: &Commands, applications: &mut Map<String, Value>) {
    for mule in commands.status() {
        let Some(application) = applications.get_mut(&*mule.application) else {
            continue;
        };
        application["mules"][&mule.name] = status(&mule);
    }
}

fn status(mule: &MuleStatus) -> Value {
    let count = |state| {
        let processes = mule.processes.iter();
        processes.filter(|process| process.state == state).count()
    };
    let pids: Vec<i32> = mule.processes.iter().filter_map(|one| one.pid).collect();
    let lasts = mule.processes.iter().filter_map(|one| one.last.as_ref());
    json!({
        "processes": {
            "running": count(ProcessState::Running),
            "starting": count(ProcessState::Starting),
            "stopping": count(ProcessState::Stopping),
            "waiting": count(ProcessState::Waiting),
        },
        "pids": pids,
        "memory": memory(mule),
        "restarts": restarts(mule),
        "last_end": lasts.max_by_key(|last| last.at).map(last_status),
        "each": mule.processes.iter().map(process_status).collect::<Vec<_>>(),
    })
}

fn process_status(process: &ProcessStatus) -> Value {
    json!({
        "state": word(process.state),
        "pid": process.pid,
        "seconds": process.since.elapsed().as_secs(),
        "restarts": process.restarts,
    })
}

fn last_status(last: &LastEnd) -> Value {
    let since = last.at.duration_since(SystemTime::UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis();
    json!({
        "at": written(u64::try_from(millis).unwrap_or(u64::MAX)),
        "result": last.how,
        "output": last.output,
    })
}

fn word(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Starting => "starting",
        ProcessState::Running => "running",
        ProcessState::Stopping => "stopping",
        ProcessState::Waiting => "waiting",
    }
}

fn restarts(mule: &MuleStatus) -> u64 {
    mule.processes.iter().map(|one| one.restarts).sum()
}

/// Resident memory of its processes and their children.
fn memory(mule: &MuleStatus) -> u64 {
    let pids = mule.processes.iter().filter_map(|one| one.pid);
    pids.map(|pid| proc::rss_of_family(pid).unwrap_or(0)).sum()
}

/// Adds the metrics of the mules to a page.
pub(super) fn measure(commands: &Commands, page: &mut Page) {
    for mule in commands.status() {
        let labels = [&*mule.application, mule.name.as_str()];
        for state in [
            ProcessState::Running,
            ProcessState::Starting,
            ProcessState::Stopping,
            ProcessState::Waiting,
        ] {
            let processes = mule.processes.iter();
            let count = processes.filter(|one| one.state == state).count();
            let [application, name] = labels;
            page.add(
                names::MULE_PROCESSES,
                &[application, name, word(state)],
                count as u64,
            );
        }
        page.add(names::MULE_RESTARTS, &labels, restarts(&mule));
        page.add(names::MULE_MEMORY, &labels, memory(&mule));
    }
}
