//! Answers with the list of a folder.
//!
//! A folder may be large and its disk slow, so a separate thread reads it, and listen threads do not wait. Must never: list a file that the
//! share would not serve.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_files::folder::Folder;
use tutti_http::{FieldLines, NO_FIELDS};

use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, ErrorResponse};
use crate::plan::Changes;
use crate::sending::Whole;

/// Folders read at once, for all clients together; beyond, 503. Each occupies a thread.
const MOST: usize = 16;

static READING: Semaphore = Semaphore::const_new(MOST);

/// Answers with the list.
pub(crate) async fn run(
    request: &Request<'_>,
    folder: &Arc<Folder>,
    changes: &Changes,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let client = request.client;
    client.set_deadline(NEVER);
    let Ok(permit) = READING.try_acquire() else {
        let fields = FieldLines::of("Retry-After", b"1");
        let failure = ErrorResponse::of(503, &fields);
        return Ok(internal_redirect::fail(request, &failure, changes, output));
    };
    let is_json = folder.is_json(request.view.get_all(b"Accept"));
    let varies = folder.varies();
    let (folder, mime) = (Arc::clone(folder), request.snapshot.mime.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let page = folder.page(&mime, is_json);
        page.map_err(|error| format!("cannot list the folder {:?}: {error}", folder.name()))
    });
    let fail = |status, output: &mut Output| {
        internal_redirect::fail(
            request,
            &ErrorResponse::of(status, &NO_FIELDS),
            changes,
            output,
        )
    };
    let page = match request.unless_gone(reading).await? {
        Ok(Ok(page)) => page,
        Ok(Err(reason)) => {
            refusals::failed(&client.local, request, 403, &reason);
            return Ok(fail(403, output));
        }
        Err(_) => return Ok(fail(500, output)),
    };
    let media_type: &[u8] = match is_json {
        true => b"application/json",
        false => b"text/html; charset=utf-8",
    };
    let fields = [
        (b"Content-Type".as_slice(), media_type),
        // The name of a file must not be executed as a script.
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Vary", b"Accept"),
    ];
    let whole = Whole {
        status: 200,
        fields: fields.get(..if varies { 3 } else { 2 }).unwrap_or(&fields),
        body: page.as_bytes(),
        is_body_coming: false,
    };
    Ok(whole.send(request, changes, output).into())
}
