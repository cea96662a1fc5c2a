//! Answers in place of others: error pages, and the routes that `X-Accel-Redirect` and `X-Sendfile` name.
//!
//! An action that fails calls [`fail`]; one that has the head of a response calls [`begin`], and gets a [`Writer`] unless the response is
//! replaced. Both may return a [`Substitute`], which the pipeline handles next.
//!
//! Must never: replace an error page, continue without end, or redirect to something that the configuration has not named: the value is a
//! path for the routes, never one of the file system.

use std::path::Path;

use tutti_cache::now;
use tutti_config::model::PageStatus;
use tutti_conn::output::Output;
use tutti_http::{FieldLines, NO_FIELDS};
use tutti_request_log::Answerer;

use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::exchange::respond::{Page, Persistence};
use crate::exchange_step::ExchangeStep;
use crate::plan::Changes;
use crate::substitute::{Mended, Named, Original, Substitute, Way, named};
use crate::writer::{Head, Writer};

/// An error of the server itself, or another answer without content.
#[derive(Clone, Copy)]
pub(crate) struct ErrorResponse<'a> {
    pub(crate) status: u16,
    /// Additional fields of the answer.
    pub(crate) fields: &'a FieldLines,
    /// Part of the request's body has not been read.
    pub(crate) is_body_coming: bool,
}

impl<'a> ErrorResponse<'a> {
    /// A failure of a request whose body has been read.
    pub(crate) fn of(status: u16, fields: &'a FieldLines) -> Self {
        Self {
            status,
            fields,
            is_body_coming: false,
        }
    }
}

/// Answers with one of the server's own pages, or without content below 400.
pub(crate) fn page(
    request: &Request<'_>,
    answer: &ErrorResponse<'_>,
    changes: &Changes,
    output: &mut Output,
) -> ExchangeStep {
    let persistence = match answer.is_body_coming {
        true => Persistence::Close,
        false => request.persistence(),
    };
    let page = Page {
        status: answer.status,
        is_head: request.is_head(),
        persistence,
        fields: answer.fields,
    };
    request.page(&page, changes, output);
    match answer.is_body_coming {
        true => ExchangeStep::Linger,
        false => ExchangeStep::End(persistence),
    }
}

/// Reports an error, with the configured page or the server's own.
pub(crate) fn fail(
    request: &Request<'_>,
    failure: &ErrorResponse<'_>,
    changes: &Changes,
    output: &mut Output,
) -> ExchangeStep {
    if let Some(mut substitute) = of_error(request, failure.status, changes) {
        substitute.kept.always.append(failure.fields);
        substitute.lingers |= failure.is_body_coming;
        return ExchangeStep::Substitute(substitute);
    }
    let (mut status, mut fields) = (failure.status, failure.fields);
    // The action for an error has itself failed: the client gets the first error.
    if let Some(mended) = request.mended()
        && request.exchange.answerer.get() != Answerer::Return
    {
        (status, fields) = (mended.status, &NO_FIELDS);
    }
    let answer = ErrorResponse {
        status,
        fields,
        ..*failure
    };
    page(request, &answer, changes, output)
}

/// True if there is a page for this error.
pub(crate) fn has_page(request: &Request<'_>, status: u16) -> bool {
    let rules = request.exchange.rules.borrow();
    let has_page = || {
        request
            .snapshot
            .router
            .rules()
            .page(&rules, status)
            .is_some()
    };
    status >= 400 && request.mended().is_none() && !is_of_the_server(request) && has_page()
}

/// Answers with an error because of the request's body; the connection ends. A body that is too large may have a page, like any error of a
/// request whose action is known.
pub(crate) fn refuse(request: &Request<'_>, status: u16, output: &mut Output) -> ExchangeStep {
    if let Some(reason) = refusals::body_reason(status) {
        refusals::refused(&request.client.local, request, status, reason);
    }
    let answer = ErrorResponse {
        status,
        fields: &NO_FIELDS,
        is_body_coming: true,
    };
    let changes = Changes::default();
    match status {
        413 => fail(request, &answer, &changes, output),
        _ => page(request, &answer, &changes, output),
    }
}

/// The replacement of a response of an application or a server.
pub(crate) enum Instead {
    /// Another request is answered in its place.
    Substitute(Box<Substitute>),
    /// The client gets this error.
    Failure(u16),
}

impl Instead {
    /// Carries it out, when the response itself has ended.
    pub(crate) fn into_step(
        self,
        request: &Request<'_>,
        is_body_coming: bool,
        output: &mut Output,
    ) -> ExchangeStep {
        match self {
            Self::Substitute(mut substitute) => {
                substitute.lingers |= is_body_coming;
                ExchangeStep::Substitute(substitute)
            }
            Self::Failure(status) => {
                let failure = ErrorResponse {
                    status,
                    fields: &NO_FIELDS,
                    is_body_coming,
                };
                fail(request, &failure, &Changes::default(), output)
            }
        }
    }
}

/// The result of beginning a response whose head came from an application or a server.
pub(crate) enum Begun {
    /// The head is in the output, and the body follows.
    Sent(Writer),
    /// A stored response replaces it.
    Held,
    /// It is replaced, once the response itself has ended.
    Replaced(Instead),
}

/// Begins the response to the client, unless it is replaced: a stored response takes precedence over an error page.
pub(crate) fn begin<'f>(
    request: &Request<'_>,
    head: &Head,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    changes: &Changes,
    output: &mut Output,
) -> Begun {
    if let Some(recording) = &changes.cache
        && recording.holds(head.status, fields.clone(), now())
    {
        return Begun::Held;
    }
    match of_answer(request, head.status, fields.clone(), changes) {
        Some(instead) => Begun::Replaced(instead),
        None => Begun::Sent(Writer::begin(request, head, fields, changes, output)),
    }
}

/// Returns the replacement of a response of an application or a server, if it is replaced.
pub(crate) fn of_answer<'f>(
    request: &Request<'_>,
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    changes: &Changes,
) -> Option<Instead> {
    if is_of_the_server(request) {
        return None;
    }
    let rules = request.exchange.rules.borrow();
    let rulebook = request.snapshot.router.rules();
    if rulebook.redirects_internally(&rules)
        && let Some(named) = named(fields.clone())
    {
        not_kept(changes, status, fields.clone());
        return Some(led(request, named, fields, changes));
    }
    if status < 400 || !rulebook.intercepts(&rules) {
        return None;
    }
    drop(rules);
    let mut substitute = of_error(request, status, changes)?;
    not_kept(changes, status, fields.clone());
    substitute.kept.add_of_error(fields);
    Some(Instead::Substitute(substitute))
}

/// Notifies the cache of a response that is replaced.
fn not_kept<'f>(
    changes: &Changes,
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) {
    if let Some(recording) = &changes.cache {
        recording.pass_over(status, fields, now());
    }
}

/// Follows an internal redirect.
fn led<'f>(
    request: &Request<'_>,
    named: Named<'_>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    changes: &Changes,
) -> Instead {
    let fail = |status: u16, reason: &str| {
        let shown = refusals::shown(named.value());
        let reason = format!("the response redirects internally to {shown:?}: {reason}");
        refusals::failed(&request.client.local, request, status, &reason);
        Instead::Failure(status)
    };
    let place = match crate::substitute::path(named) {
        Ok(place) => place,
        Err(reason) => return fail(502, reason),
    };
    let rules = request.exchange.rules.borrow();
    let rulebook = request.snapshot.router.rules();
    let Some(route) = rulebook.internal(&rules, place.as_path().path()) else {
        return fail(502, "`internal` has no route for it");
    };
    let way = Way::Route(route, rules.clone());
    drop(rules);
    let original = original(request, changes);
    if original.is_last() {
        return fail(500, "the internal redirects form a loop");
    }
    match original.lead(place.as_path().target(), way, fields) {
        Some(substitute) => Instead::Substitute(substitute),
        None => fail(502, "that is not a valid path"),
    }
}

/// True for a job and for a guard's question: the server itself reads the response, and must see it unchanged.
fn is_of_the_server(request: &Request<'_>) -> bool {
    let listener = request.client.listener.id;
    request.snapshot.is_of_job(listener) || request.snapshot.is_question(listener)
}

/// The request that is to be replaced.
fn original<'o>(request: &Request<'o>, changes: &'o Changes) -> Original<'o> {
    Original {
        view: request.view,
        before: request.substitute,
        headers: &changes.headers,
    }
}

/// The page for an error, unless this is one.
fn of_error(request: &Request<'_>, status: u16, changes: &Changes) -> Option<Box<Substitute>> {
    let original = original(request, changes);
    let is_one = request.mended().is_some() || original.is_last();
    if status < 400 || is_one || is_of_the_server(request) {
        return None;
    }
    let rules = request.exchange.rules.borrow();
    let (page, answer) = request.snapshot.router.rules().page(&rules, status)?;
    drop(rules);
    original.mend(Way::Page(page), Mended { status, answer })
}

/// The maintenance page.
pub(crate) fn of_maintenance(
    request: &Request<'_>,
    page: &Path,
    fields: FieldLines,
) -> Option<Box<Substitute>> {
    let mended = Mended {
        status: 503,
        answer: PageStatus::Kept,
    };
    let changes = Changes::default();
    let mut substitute = original(request, &changes).mend(Way::Maintenance(page.into()), mended)?;
    substitute.kept.always = fields;
    Some(substitute)
}
