//! `/control/spoolers/NAME`: jobs that were given up, and those of a spooler that is in the configuration no more.

use serde_json::Value;
use tutti_http::Method;
use tutti_protocol::JobTask;

use crate::answer::{self, Answer};
use crate::service::Service;

/// Answers a request for what is below a spooler's name.
pub(crate) async fn answer(
    service: &dyn Service,
    method: Method,
    spooler: &str,
    path: &[&str],
) -> Answer {
    let one = |job: &str| Some(job.to_owned());
    let task = match (path, method) {
        (["failed"], Method::Get | Method::Head) => JobTask::List,
        (["failed"], Method::Delete) => JobTask::Remove { job: None },
        (["failed"], _) => return Answer::method("GET, HEAD, DELETE"),
        (["failed", job], Method::Delete) => JobTask::Remove { job: one(job) },
        (["failed", _], _) => return Answer::method("DELETE"),
        (["retry"], Method::Post) => JobTask::Retry { job: None },
        (["failed", job, "retry"], Method::Post) => JobTask::Retry { job: one(job) },
        (["retry"] | ["failed", _, "retry"], _) => return Answer::method("POST"),
        (["jobs"], Method::Delete) => JobTask::Discard,
        (["jobs"], _) => return Answer::method("DELETE"),
        _ => return Answer::missing(),
    };
    let done = match task {
        JobTask::Retry { .. } => "tried again",
        _ => "removed",
    };
    match service.jobs(spooler, task).await {
        Ok(None) => Answer::missing(),
        Ok(Some(Value::Number(count))) => Answer::success(&format!("{count} jobs {done}.")),
        Ok(Some(list)) => Answer::json(200, &list),
        Err(reason) => {
            let detail = answer::sentence(&reason);
            Answer::error(503, "The jobs cannot be reached now.", Some(&detail))
        }
    }
}
