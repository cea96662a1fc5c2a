//! The list of what is in a folder as the answer to a request.
//!
//! A folder may be large and its disk slow, so a thread of its own reads it: what serves does not wait. Must never: list what the share
//! would not serve.

use tokio::sync::Semaphore;
use tutti_files::folder::Folder;
use tutti_http::{FieldLines, Trailers};
use tutti_pool::Level;

use super::answer::{Answer, Begun, Head};
use crate::instead::{self, Failure};
use crate::plan::Changes;
use crate::refusals;
use crate::request::Request;
use crate::respond::Own;
use crate::step::Step;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};

/// Folders that are read at once, of all clients together; beyond, 503. Each has a thread meanwhile.
const MOST: usize = 16;

static READING: Semaphore = Semaphore::const_new(MOST);

/// Answers with the list.
pub(crate) async fn run(
    request: &Request<'_>,
    folder: Folder,
    changes: &Changes,
    output: &mut Output,
) -> Result<Step, Gone> {
    let client = request.client;
    // Earlier answers must not wait for this one.
    request.flush(output).await?;
    client.set_deadline(NEVER);
    let Ok(permit) = READING.try_acquire() else {
        let fields = FieldLines::of("Retry-After", b"1");
        return Ok(fail(request, 503, &fields, changes, output));
    };
    let is_json = folder.is_json(request.view.get_all(b"Accept"));
    let varies = folder.varies();
    let mime = request.snapshot.mime.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let page = folder.page(&mime, is_json);
        page.map_err(|error| format!("cannot list the folder {:?}: {error}", folder.name()))
    });
    let page = match request.unless_gone(reading).await? {
        Ok(Ok(page)) => page,
        Ok(Err(reason)) => {
            refusals::failed(&client.local, request, 403, &reason);
            return Ok(fail(request, 403, &FieldLines::new(), changes, output));
        }
        Err(_) => return Ok(fail(request, 500, &FieldLines::new(), changes, output)),
    };
    let media_type: &[u8] = match is_json {
        true => b"application/json",
        false => b"text/html; charset=utf-8",
    };
    let fields = [
        (b"Content-Type".as_slice(), media_type),
        // A name of a file is no script here.
        (b"X-Content-Type-Options", b"nosniff"),
        (b"Vary", b"Accept"),
    ];
    let fields = fields.into_iter().take(if varies { 3 } else { 2 });
    let head = Head {
        status: 200,
        length: Some(page.len() as u64),
        own: Own::ALL,
        may_persist: true,
    };
    let begun = Begun::new(request, &head, fields, changes, output);
    let persistence = begun.persistence;
    let written = Answer::new(begun).and_then(|mut answer| {
        answer.write(std::iter::once(page.as_bytes()), output)?;
        answer.finish(request, Trailers::default(), output)?;
        Ok(answer)
    });
    match written {
        Ok(answer) => Ok(match answer.end(request, output) {
            None => Step::End(persistence),
            Some(late) => Step::Late(late),
        }),
        Err(error) => {
            let message = format!("cannot compress a list of files: {error}");
            client.local.complain(Level::Error, &message);
            Err(Gone::Closed)
        }
    }
}

fn fail(
    request: &Request<'_>,
    status: u16,
    fields: &FieldLines,
    changes: &Changes,
    output: &mut Output,
) -> Step {
    let failure = Failure {
        status,
        fields,
        is_body_coming: false,
    };
    instead::fail(request, &failure, changes, output)
}
