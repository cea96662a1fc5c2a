//! Stores a request as a job, and answers when it is on disk.
//!
//! Must never: answer 202 before the job has been stored.

use std::time::Duration;

use tokio::sync::oneshot;
use tutti_config::model::Spooler;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_http::edits::{Edit, begins_as, replaces};
use tutti_http::{FieldLines, Known, PerConnection};

use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, ErrorResponse};
use crate::job_submission::{Gathered, JobNotStored, Post};
use crate::plan::Changes;
use crate::sending::Whole;

/// Longest wait for the disk, or for a previous router that still has the store: then 503, and nothing is stored.
const PATIENCE: Duration = Duration::from_secs(30);

/// `Retry-After` in that case.
const RETRY_AFTER: u32 = 5;

/// The longest delay: a year.
const LONGEST_DELAY: u64 = 31_536_000;

/// Fields of a delivery that only the server sets.
const OURS: &[u8] = b"x-tutti-job-";

/// The field of a stored job with the names of the fields that belonged to guards when it was stored.
pub(crate) const IDENTITY: &str = "X-Tutti-Job-Identity";

/// The client's field for a delayed delivery, in seconds.
const DELAY: &[u8] = b"X-Tutti-Job-Delay";

/// Stores the request and answers.
pub(crate) async fn run(
    request: &Request<'_>,
    (spooler, changes): (&Spooler, &Changes),
    mut body: Gathered,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let client = request.client;
    client.set_deadline(NEVER);
    let Ok(delay) = delay(request) else {
        let reason = "`X-Tutti-Job-Delay` is not a number of seconds up to a year";
        refusals::refused(&client.local, request, 400, reason);
        return Ok(page(request, 400, 0, changes, output));
    };
    let (body, counted) = body.take();
    let (answer, stored) = oneshot::channel();
    let target = changes.request_path(&request.view).target().to_vec();
    let is_posted = client.local.shared.desk.post(Post {
        spooler: spooler.name.clone(),
        method: String::from_utf8_lossy(request.view.method_text()).into_owned(),
        target,
        fields: fields(request, &changes.edits),
        body,
        counted,
        delay,
        answer,
    });
    let unavailable = |reason: &str| JobNotStored {
        status: 503,
        retry_after: RETRY_AFTER,
        reason: Some(reason.to_owned()),
    };
    let outcome = match is_posted {
        false => Err(unavailable(
            "the server is stopping and stores no more jobs",
        )),
        true => {
            let waiting = tokio::time::timeout(PATIENCE, stored);
            match request.unless_gone(waiting).await? {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(unavailable(
                    "the server is stopping and stores no more jobs",
                )),
                Err(_) => Err(unavailable("it was not stored within 30 seconds")),
            }
        }
    };
    match outcome {
        Ok(id) => accepted(request, &id, changes, output),
        Err(JobNotStored {
            status,
            retry_after,
            reason,
        }) => {
            if let Some(reason) = reason {
                let reason = format!("spooler \"{}\": {reason}", spooler.name);
                refusals::failed(&client.local, request, status, &reason);
            }
            Ok(page(request, status, retry_after, changes, output))
        }
    }
}

/// The fields of a job: those of the request as an application would get them.
fn fields(request: &Request<'_>, edits: &[Edit]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let per_connection = PerConnection::of_request(&request.view);
    let sent = request.view.fields().filter(|field| {
        !per_connection.has(field.name, field.known)
            && field.known != Known::Expect
            && !replaces(edits, field.name)
            && !begins_as(field.name, OURS)
    });
    let sent = sent.map(|field| (field.name.to_vec(), field.value.to_vec()));
    let added = edits.iter().filter_map(Edit::field);
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = sent
        .chain(added.map(|(name, value)| (name.to_vec(), value.to_vec())))
        .collect();
    let identity = request.snapshot.guards.fields();
    if !identity.is_empty() {
        fields.push((IDENTITY.into(), identity.join(", ").into_bytes()));
    }
    fields
}

/// The requested delay.
fn delay(request: &Request<'_>) -> Result<Duration, ()> {
    let Some(value) = request.view.get_all(DELAY).next() else {
        return Ok(Duration::ZERO);
    };
    let text = std::str::from_utf8(value).map_err(|_| ())?;
    let seconds: u64 = text.trim().parse().map_err(|_| ())?;
    match seconds <= LONGEST_DELAY {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(()),
    }
}

/// The answer to a stored job.
fn accepted(
    request: &Request<'_>,
    id: &str,
    changes: &Changes,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let body = format!("{{\"id\": \"{id}\"}}\n");
    let whole = Whole {
        status: 202,
        fields: &[(b"Content-Type", b"application/json")],
        body: body.as_bytes(),
        is_body_coming: false,
    };
    Ok(whole.send(request, changes, output).into())
}

fn page(
    request: &Request<'_>,
    status: u16,
    retry_after: u32,
    changes: &Changes,
    output: &mut Output,
) -> ExchangeStep {
    let mut fields = FieldLines::new();
    if retry_after > 0 {
        fields.push_number(b"Retry-After", u64::from(retry_after));
    }
    internal_redirect::page(
        request,
        &ErrorResponse::of(status, &fields),
        changes,
        output,
    )
}
