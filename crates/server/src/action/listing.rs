//! The list of what is in a folder as the answer to a request.
//!
//! A folder may be large and its disk slow, so a thread of its own reads it: what serves does not wait. Must never: list what the share
//! would not serve.

use tokio::sync::Semaphore;
use tutti_config::model::ListingFormat;
use tutti_files::listing::{self, Listing};
use tutti_files::mime::MimeTypes;
use tutti_http::{FieldLines, Trailers};
use tutti_pool::Level;

use super::answer::{Answer, Begun, Head};
use crate::channel_io::unless_gone;
use crate::instead::{self, Failure};
use crate::plan::{Changes, Folder};
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
    let connection = request.connection;
    // Earlier answers must not wait for this one.
    let send_timeout = request.snapshot.timeouts.send;
    connection.flush(output, send_timeout).await?;
    connection.set_deadline(NEVER);
    let Ok(permit) = READING.try_acquire() else {
        let fields = FieldLines::of("Retry-After", b"1");
        return Ok(fail(request, 503, &fields, changes, output));
    };
    let is_json = match folder.format {
        ListingFormat::Html => false,
        ListingFormat::Json => true,
        ListingFormat::Auto => likes_json(request),
    };
    let varies = folder.format == ListingFormat::Auto;
    let mime = request.snapshot.mime.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let page = read(&folder, &mime).map(|listing| match is_json {
            true => listing.json(),
            false => listing.html(&folder.path),
        });
        page.map_err(|error| format!("cannot list the folder {:?}: {error}", lossy(&folder)))
    });
    let page = match unless_gone(connection, reading).await? {
        Ok(Ok(page)) => page,
        Ok(Err(reason)) => {
            refusals::failed(&connection.local, request, 403, &reason);
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
            connection.local.complain(Level::Error, &message);
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

/// Reads what the share would serve.
fn read(folder: &Folder, mime: &MimeTypes) -> std::io::Result<Listing> {
    listing::read(&folder.look, |name, is_file| {
        let path = [&folder.path, name].concat();
        // A pattern without an answer serves nothing.
        let is_denied = |path: &[u8]| match &folder.deny {
            Some(deny) => deny.matches(path).unwrap_or(true),
            None => false,
        };
        let is_typed = || match &folder.types {
            Some(types) if is_file => {
                let mime = mime.of(name).unwrap_or_default();
                types.matches(mime.as_bytes()).unwrap_or(false)
            }
            _ => true,
        };
        let inside = || [&path, b"/".as_slice()].concat();
        !is_denied(&path) && (is_file || !is_denied(&inside())) && is_typed()
    })
}

fn lossy(folder: &Folder) -> String {
    String::from_utf8_lossy(&folder.look.path).into_owned()
}

/// True if the client names JSON and no HTML, or JSON first.
fn likes_json(request: &Request<'_>) -> bool {
    let members = request.view.get_all(b"Accept");
    let mut members = members.flat_map(tutti_http::list_members).map(|member| {
        let end = memchr::memchr(b';', member).unwrap_or(member.len());
        member.get(..end).unwrap_or_default().trim_ascii()
    });
    members.find_map(|media_type| {
        if media_type.eq_ignore_ascii_case(b"application/json") {
            Some(true)
        } else if media_type.eq_ignore_ascii_case(b"text/html") {
            Some(false)
        } else {
            None
        }
    }) == Some(true)
}
