//! The jobs of the spoolers in the router: stored in the file that main opens, delivered through its own server.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tutti_commands::Commands;
use tutti_config::model::written;
use tutti_jobs::{
    JobEnvironment, JobRejection, JobRequest, Jobs, RunEnded, Running, ScheduleStatus,
    SpoolerStatus, Task,
};
use tutti_log::{Level, Log};
use tutti_metrics::{Page, names};
use tutti_protocol::{FromRouter, JobTask};
use tutti_server::{Post, Server};

use super::job_refusals::not_stored;
use super::line::Link;
use super::passed_jobs;

/// Gives the jobs access to the router.
pub(super) struct Around {
    pub(super) server: Arc<Server>,
    pub(super) commands: Commands,
    pub(super) log: Log,
    pub(super) link: Arc<Link>,
}

impl JobEnvironment for Around {
    fn connect(&self, spooler: &str) -> io::Result<OwnedFd> {
        self.server.connect(spooler)
    }

    fn run_command(&self, schedule: &str, timeout: Duration) -> Running {
        let (commands, schedule) = (self.commands.clone(), schedule.to_owned());
        Box::pin(async move {
            let ended = commands.run(&schedule, timeout).await?;
            Some(match ended {
                Ok(outcome) => Ok(outcome.output),
                Err(failure) => Err(RunEnded {
                    why: failure.why,
                    is_ours: failure.is_ours,
                }),
            })
        })
    }

    fn notify_successor(&self, spooler: &str, id: u64, error: String) {
        self.link.send(&FromRouter::JobDelivered {
            spooler: spooler.to_owned(),
            job: id,
            error,
        });
    }

    fn log(&self, level: Level, line: &str) {
        self.log.line(level, line);
    }
}

/// Stores the jobs that the server submits.
pub(super) async fn store(jobs: Jobs, link: Arc<Link>, mut posts: mpsc::UnboundedReceiver<Post>) {
    while let Some(post) = posts.recv().await {
        tokio::spawn(store_one(jobs.clone(), Arc::clone(&link), post));
    }
}

async fn store_one(jobs: Jobs, link: Arc<Link>, post: Post) {
    let Post {
        spooler,
        method,
        target,
        fields,
        body,
        counted,
        delay,
        mut answer,
    } = post;
    let request = JobRequest {
        method,
        target,
        fields,
        body,
    };
    let counted = Arc::new(counted);
    let charge = Box::new(Arc::clone(&counted));
    let submit = async {
        match jobs.post(&spooler, request, delay, charge).await {
            Ok(id) => Ok(id),
            Err(JobRejection::Released(request)) => {
                passed_jobs::pass_on(&link, spooler, *request, delay).await
            }
            Err(refusal) => Err(not_stored(&refusal)),
        }
    };
    let stored = tokio::select! {
        stored = submit => stored,
        // The client has disconnected, or has waited too long and been answered.
        () = answer.closed() => return,
    };
    let _ = answer.send(stored);
}

/// Carries out a request of the control API; `None`: there is no such spooler or job.
pub(super) async fn carry_out(jobs: &Jobs, spooler: &str, task: JobTask) -> Option<Value> {
    let task = match task {
        JobTask::List => return jobs.failures(spooler).await,
        JobTask::Retry { job } => Task::Retry(job),
        JobTask::Remove { job } => Task::Remove(job),
        JobTask::Discard => Task::Discard,
    };
    jobs.carry_out(spooler, &task).map(Value::from)
}

/// `spoolers` of `/status`; `None`: there are none.
pub(super) fn status(jobs: &Jobs) -> Option<Value> {
    let spoolers = jobs.status();
    if spoolers.is_empty() {
        return None;
    }
    let trouble = jobs.trouble();
    let one = |spooler: &SpoolerStatus| {
        let counts = spooler.counts;
        let mut status = json!({
            "stored": counts.stored,
            "delivered": counts.delivered,
            "failures": counts.failures,
            "refused": counts.refused,
        });
        if let Some(stock) = &spooler.stock {
            status["jobs"] = json!({
                "waiting": stock.waiting,
                "delivering": stock.delivering,
                "failed": stock.failed,
            });
            status["size"] = stock.bytes.into();
            status["oldest"] = stock.oldest.map(|age| age.as_secs()).into();
        }
        if !spooler.is_configured {
            status["removed"] = true.into();
        }
        if let Some(trouble) = &trouble {
            status["problem"] = trouble.as_str().into();
        }
        (spooler.name.clone(), status)
    };
    Some(spoolers.iter().map(one).collect::<Map<_, _>>().into())
}

/// `schedules` of `/status`; `None`: there are none.
pub(super) fn schedules(jobs: &Jobs) -> Option<Value> {
    let schedules = jobs.schedules();
    if schedules.is_empty() {
        return None;
    }
    let one = |schedule: &ScheduleStatus| {
        let counts = schedule.counts;
        let result = match (schedule.ended, schedule.error.as_str()) {
            (None, _) => Value::Null,
            (Some(_), "") => "succeeded".into(),
            (Some(_), error) => format!("failed: {error}").into(),
        };
        let mut status = json!({
            "next": schedule.next.map(written),
            "running": schedule.is_running,
            "last": {
                "started": schedule.started.map(written),
                "ended": schedule.ended.map(written),
                "result": result,
            },
            "succeeded": counts.succeeded,
            "failed": counts.failed,
            "skipped": counts.skipped,
            "missed": counts.missed,
        });
        if let Some(output) = &schedule.output {
            status["last"]["output"] = output.as_str().into();
        }
        (schedule.name.clone(), status)
    };
    Some(schedules.iter().map(one).collect::<Map<_, _>>().into())
}

/// Adds the metrics of the spoolers and schedules to a page.
pub(super) fn measure(jobs: &Jobs, page: &mut Page) {
    for schedule in jobs.schedules() {
        let name = schedule.name.as_str();
        let counts = schedule.counts;
        for (result, count) in [
            ("succeeded", counts.succeeded),
            ("failed", counts.failed),
            ("skipped", counts.skipped),
            ("missed", counts.missed),
        ] {
            page.add(names::SCHEDULE_RUNS, &[name, result], count);
        }
        page.add(
            names::SCHEDULE_RUNNING,
            &[name],
            u64::from(schedule.is_running),
        );
        if let Some(next) = schedule.next {
            page.add(names::SCHEDULE_NEXT, &[name], next as f64 / 1000.0);
        }
    }
    // Names of former spoolers come from the file; labels must come from the configuration.
    for spooler in jobs.status().iter().filter(|one| one.is_configured) {
        let name = spooler.name.as_str();
        let counts = spooler.counts;
        if let Some(stock) = &spooler.stock {
            for (state, count) in [
                ("waiting", stock.waiting),
                ("delivering", stock.delivering),
                ("failed", stock.failed),
            ] {
                page.add(names::SPOOLER_JOBS, &[name, state], count as u64);
            }
            page.add(names::SPOOLER_SIZE, &[name], stock.bytes);
            let oldest = stock.oldest.unwrap_or_default();
            page.add(names::SPOOLER_OLDEST, &[name], oldest.as_secs_f64());
        }
        page.add(names::SPOOLER_STORED, &[name], counts.stored);
        for (result, count) in [("delivered", counts.delivered), ("failed", counts.failures)] {
            page.add(names::SPOOLER_DELIVERIES, &[name, result], count);
        }
        page.add(names::SPOOLER_GIVEN_UP, &[name], counts.given_up);
        page.add(names::SPOOLER_REFUSED, &[name], counts.refused);
    }
}
