//! `/control/spoolers/NAME`: failed jobs, and those of a spooler that is no longer in the configuration.

use serde_json::Value;
use tutti_http::Method;
use tutti_protocol::JobTask;

use crate::api_response::{self, ApiResponse};
use crate::service::Service;

/// Responds to a request for a path below a spooler's name.
pub(crate) async fn answer(
    service: &dyn Service,
    method: Method,
    spooler: &str,
    path: &[&str],
) -> ApiResponse {
    let one = |job: &str| Some(job.to_owned());
    let task = match (path, method) {
        (["failed"], Method::Get | Method::Head) => JobTask::List,
        (["failed"], Method::Delete) => JobTask::Remove { job: None },
        (["failed"], _) => return ApiResponse::method("GET, HEAD, DELETE"),
        (["failed", job], Method::Delete) => JobTask::Remove { job: one(job) },
        (["failed", _], _) => return ApiResponse::method("DELETE"),
        (["retry"], Method::Post) => JobTask::Retry { job: None },
        (["failed", job, "retry"], Method::Post) => JobTask::Retry { job: one(job) },
        (["retry"] | ["failed", _, "retry"], _) => return ApiResponse::method("POST"),
        (["jobs"], Method::Delete) => JobTask::Discard,
        (["jobs"], _) => return ApiResponse::method("DELETE"),
        _ => return ApiResponse::missing(),
    };
    let done = match task {
        JobTask::Retry { .. } => "tried again",
        _ => "removed",
    };
    match service.jobs(spooler, task).await {
        Ok(None) => ApiResponse::missing(),
        Ok(Some(Value::Number(count))) => ApiResponse::success(&format!("{count} jobs {done}.")),
        Ok(Some(list)) => ApiResponse::json(200, &list),
        Err(reason) => {
            let detail = api_response::sentence(&reason);
            ApiResponse::error(503, "The jobs are not available now.", Some(&detail))
        }
    }
}
