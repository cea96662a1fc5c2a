//! Answers in place of others: pages for errors, and the routes that `X-Accel-Redirect` and `X-Sendfile` name.
//!
//! Whoever has an error to tell asks [`fail`]; whoever has the head of an answer of an application or a server asks [`of_answer`].
//! Both give a [`Substitute`], which the connection acts on next.
//!
//! Must never: answer in place of an error page, go on without end, or let an answer lead to something that the configuration has not
//! named: what it names is a path for the routes, never one of the file system.

use tutti_config::model::PageStatus;
use tutti_http::edits::is_ours_to_say;
use tutti_http::http2::{Opening, is_connection_specific};
use tutti_http::{
    FieldLines, Known, Limits, Method, NO_FIELDS, Progress, RequestHead, Version, write_field,
    write_request_line,
};
use tutti_routing::ResponseHeader;

use crate::plan::Changes;
use crate::refusals;
use crate::request::Request;
use crate::respond::{Page, Persistence};
use crate::step::Step;
use crate::substitute::{Kept, Mended, Substitute, Way};
use tutti_conn::output::Output;
use tutti_request_log::Answerer;

/// Answers in place of others for one request; more are a circle. nginx allows ten.
const MOST: u8 = 8;

/// Longest path that an answer may name.
const LONGEST_PATH: usize = 32 * 1024;

/// The fields of an answer that stay when a route answers in its place, as nginx has it.
const KEPT: [&[u8]; 4] = [
    b"content-type",
    b"content-disposition",
    b"cache-control",
    b"expires",
];

/// The fields of an error that stay when a page answers in its place: what a client needs to go on.
const KEPT_OF_ERRORS: [&[u8]; 4] = [
    b"www-authenticate",
    b"proxy-authenticate",
    b"retry-after",
    b"allow",
];

/// An error that the server itself has to tell.
pub(crate) struct Failure<'a> {
    pub(crate) status: u16,
    /// More fields of the answer.
    pub(crate) fields: &'a FieldLines,
    /// Part of the request's body has not been read.
    pub(crate) is_body_coming: bool,
}

/// Tells an error, by the page that the configuration has for it, or the server's own.
pub(crate) fn fail(
    request: &Request<'_>,
    failure: &Failure<'_>,
    changes: &Changes,
    output: &mut Output,
) -> Step {
    if let Some(mut substitute) = of_error(request, failure.status, changes) {
        substitute.kept.always.append(failure.fields);
        substitute.lingers |= failure.is_body_coming;
        return Step::Substitute(substitute);
    }
    let (mut status, mut fields) = (failure.status, failure.fields);
    // The action for an error has failed itself: the client learns of the first error.
    if let Some(mended) = request.mended()
        && request.connection.answerer.get() != Answerer::Return
    {
        (status, fields) = (mended.status, &NO_FIELDS);
    }
    let persistence = match failure.is_body_coming {
        true => Persistence::Close,
        false => request.persistence(),
    };
    let page = Page {
        status,
        is_head: request.is_head(),
        persistence,
        fields,
    };
    request.page(&page, changes, output);
    match failure.is_body_coming {
        true => Step::Linger,
        false => Step::End(persistence),
    }
}

/// The end of an answer of an application or a server that its client does not get.
pub(crate) enum Instead {
    /// Another request is answered in its place.
    Substitute(Box<Substitute>),
    /// The client gets this error.
    Failure(u16),
}

impl Instead {
    /// Goes on with it, when the answer itself has ended.
    pub(crate) fn go_on(
        self,
        request: &Request<'_>,
        is_body_coming: bool,
        output: &mut Output,
    ) -> Step {
        match self {
            Self::Substitute(mut substitute) => {
                substitute.lingers |= is_body_coming;
                Step::Substitute(substitute)
            }
            Self::Failure(status) => {
                let failure = Failure {
                    status,
                    fields: &NO_FIELDS,
                    is_body_coming,
                };
                fail(request, &failure, &Changes::default(), output)
            }
        }
    }
}

/// Looks whether something else is answered in place of this answer of an application or a server.
pub(crate) fn of_answer<'f>(
    request: &Request<'_>,
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    changes: &Changes,
) -> Option<Instead> {
    if is_of_the_server(request) {
        return None;
    }
    let rules = request.connection.rules.borrow();
    let rulebook = request.snapshot.router.rules();
    if rulebook.leads_on(&rules)
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
    for (name, value) in fields {
        let is_kept = |kept: &&[u8]| name.eq_ignore_ascii_case(kept);
        if KEPT_OF_ERRORS.iter().any(is_kept) || name.eq_ignore_ascii_case(b"set-cookie") {
            substitute.kept.always.push(name, value);
        }
    }
    Some(Instead::Substitute(substitute))
}

/// Tells the cache of an answer that its client does not get.
fn not_kept<'f>(
    changes: &Changes,
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) {
    if let Some(recording) = &changes.cache {
        recording.pass_over(status, fields, tutti_cache::now());
    }
}

/// The place that an answer names.
#[derive(Clone, Copy)]
enum Named<'f> {
    /// A path as in a request, with a query if there is one.
    Encoded(&'f [u8]),
    /// A path as it is.
    Plain(&'f [u8]),
}

fn named<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone) -> Option<Named<'f>> {
    let value = |wanted: &[u8]| {
        let mut all = fields.clone();
        let (_, value) = all.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        Some(value.trim_ascii())
    };
    let encoded = value(b"x-accel-redirect").map(Named::Encoded);
    encoded.or_else(|| value(b"x-sendfile").map(Named::Plain))
}

/// Follows an answer that names a place.
fn led<'f>(
    request: &Request<'_>,
    named: Named<'_>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    changes: &Changes,
) -> Instead {
    let complain = |status: u16, reason: &str| {
        let (Named::Encoded(value) | Named::Plain(value)) = named;
        let reason = format!("the answer leads to {:?}: {reason}", refusals::shown(value));
        refusals::failed(&request.connection.local, request, status, &reason);
        Instead::Failure(status)
    };
    let target = match target(named) {
        Ok(target) => target,
        Err(reason) => return complain(502, reason),
    };
    let rules = request.connection.rules.borrow();
    let path = target.split(|byte| *byte == b'?').next();
    let path = percent_encoding::percent_decode(path.unwrap_or_default());
    let path: Vec<u8> = path.collect();
    let rulebook = request.snapshot.router.rules();
    let Some(route) = rulebook.internal(&rules, &path) else {
        return complain(502, "`internal` has no route for it");
    };
    let way = Way::Route(route, rules.clone());
    drop(rules);
    if depth(request) >= MOST {
        return complain(500, "the answers go round in circles");
    }
    let Some(mut substitute) = make(request, &target, way, changes) else {
        return complain(502, "that is no path of a request");
    };
    let mut kept = Kept::default();
    for (name, value) in fields {
        if name.eq_ignore_ascii_case(b"set-cookie") {
            kept.always.push(name, value);
        } else if KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept)) {
            kept.if_good.push(name, value);
        }
    }
    kept.inherit(&substitute.kept);
    substitute.kept = kept;
    Instead::Substitute(substitute)
}

/// The place as the target of a request. A path that climbs is refused, however it is written.
fn target(named: Named<'_>) -> Result<Vec<u8>, &'static str> {
    let target = match named {
        Named::Encoded(value) => value.to_vec(),
        Named::Plain(path) => {
            let encoded =
                percent_encoding::percent_encode(path, percent_encoding::NON_ALPHANUMERIC);
            // It is the slash that makes segments of it.
            encoded.to_string().replace("%2F", "/").into_bytes()
        }
    };
    if target.len() > LONGEST_PATH {
        return Err("that is too long");
    }
    if target.first() != Some(&b'/') {
        return Err("a path begins with `/`");
    }
    let path = target
        .split(|byte| *byte == b'?')
        .next()
        .unwrap_or_default();
    let decoded: Vec<u8> = percent_encoding::percent_decode(path).collect();
    if decoded
        .split(|byte| *byte == b'/')
        .any(|segment| segment == b"..")
    {
        return Err("it climbs (`..`)");
    }
    if decoded.iter().any(u8::is_ascii_control) {
        return Err("it has a control character");
    }
    Ok(target)
}

/// True of a job and of a question whether somebody may pass: the server itself reads the answer, and must see it as it is.
fn is_of_the_server(request: &Request<'_>) -> bool {
    let listener = request.connection.listener.id;
    request.snapshot.is_of_job(listener) || request.snapshot.is_question(listener)
}

fn depth(request: &Request<'_>) -> u8 {
    request.substitute.map_or(0, |substitute| substitute.depth)
}

/// The page for an error, unless this is one.
fn of_error(request: &Request<'_>, status: u16, changes: &Changes) -> Option<Box<Substitute>> {
    let is_one = request.mended().is_some() || depth(request) >= MOST;
    if status < 400 || is_one || is_of_the_server(request) {
        return None;
    }
    let rules = request.connection.rules.borrow();
    let (page, answer) = request.snapshot.router.rules().page(&rules, status)?;
    drop(rules);
    mend(request, Way::Page(page), Mended { status, answer }, changes)
}

/// The page of the maintenance.
pub(crate) fn of_maintenance(request: &Request<'_>, fields: FieldLines) -> Option<Box<Substitute>> {
    let mended = Mended {
        status: 503,
        answer: PageStatus::Kept,
    };
    let mut substitute = mend(request, Way::Maintenance, mended, &Changes::default())?;
    substitute.kept.always = fields;
    Some(substitute)
}

fn mend(
    request: &Request<'_>,
    way: Way,
    mended: Mended,
    changes: &Changes,
) -> Option<Box<Substitute>> {
    let asked = request.view.origin_target();
    let target = match asked.first() {
        Some(b'/') => asked.to_vec(),
        // `http://host?query` has the path `/` (RFC 9110 §4.2.3).
        Some(b'?') => [b"/", asked].concat(),
        _ => b"/".to_vec(),
    };
    let mut substitute = make(request, &target, way, changes)?;
    substitute.mended = Some(mended);
    Some(substitute)
}

/// Makes the request, with what is left of those before it.
fn make(
    request: &Request<'_>,
    target: &[u8],
    way: Way,
    changes: &Changes,
) -> Option<Box<Substitute>> {
    let is_error = !matches!(way, Way::Route(..));
    let (head, bytes) = head(request, target, is_error)?;
    let before = request.substitute;
    let mut headers: Vec<ResponseHeader> = Vec::new();
    if let Some(before) = before {
        headers.clone_from(&before.headers);
    }
    let is_said = |one: &ResponseHeader| {
        let mut own = changes.headers.iter();
        own.any(|other| other.name.eq_ignore_ascii_case(&one.name))
    };
    headers.retain(|one| !is_said(one));
    headers.extend_from_slice(&changes.headers);
    let mut kept = Kept::default();
    if let Some(before) = before {
        kept.inherit(&before.kept);
    }
    Some(Box::new(Substitute {
        head,
        bytes,
        way,
        kept,
        headers,
        mended: before.and_then(|before| before.mended),
        depth: depth(request) + 1,
        lingers: before.is_some_and(|before| before.lingers),
    }))
}

/// Writes the head down: without a body and what belongs to it, and for an error without conditions and ranges: all of the page is
/// to be sent.
fn head(
    request: &Request<'_>,
    target: &[u8],
    is_error: bool,
) -> Option<(Box<RequestHead>, Vec<u8>)> {
    let view = request.view;
    let method = match view.method() {
        Method::Head => b"HEAD".as_slice(),
        _ => b"GET",
    };
    let fields = || {
        let kept = view.fields().filter(|field| {
            let is_left_out = is_of_body(field.name, field.known)
                || is_connection_specific(field.known)
                || is_ours_to_say(field.name)
                || (is_error && is_condition(field.known));
            !is_left_out
        });
        kept.map(|field| (field.name, field.value))
    };
    let limits = Limits {
        large_header_buffer_size: 1 << 20,
        large_header_buffers: 1,
        discard_unsafe_fields: false,
        ..Limits::default()
    };
    let mut head = Box::<RequestHead>::default();
    let mut bytes = Vec::new();
    if view.version() > Version::Http11 {
        let opening = Opening {
            method,
            target,
            authority: Some(view.host()).filter(|host| !host.is_empty()),
            has_body: false,
            websocket: None,
            version: view.version(),
        };
        head.compose(&mut bytes, &opening, fields, &limits).ok()?;
        return Some((head, bytes));
    }
    write_request_line(&mut bytes, method, target);
    if view.version() == Version::Http10 {
        // The line ends in the version that the client speaks.
        let digit = bytes.len() - "1\r\n".len();
        if let Some(digit) = bytes.get_mut(digit) {
            *digit = b'0';
        }
    }
    if !view.host().is_empty() || view.version() > Version::Http10 {
        write_field(&mut bytes, b"Host", view.host());
    }
    for (name, value) in fields() {
        write_field(&mut bytes, name, value);
    }
    bytes.extend_from_slice(b"\r\n");
    match head.parse(&bytes, &limits) {
        Ok(Progress::Complete { length }) if length == bytes.len() => Some((head, bytes)),
        _ => None,
    }
}

fn is_of_body(name: &[u8], known: Known) -> bool {
    matches!(
        known,
        Known::Host | Known::ContentLength | Known::TransferEncoding | Known::Expect | Known::Te
    ) || [
        &b"content-type"[..],
        b"content-encoding",
        b"content-language",
    ]
    .iter()
    .any(|other| name.eq_ignore_ascii_case(other))
}

fn is_condition(known: Known) -> bool {
    matches!(
        known,
        Known::IfMatch
            | Known::IfNoneMatch
            | Known::IfModifiedSince
            | Known::IfUnmodifiedSince
            | Known::IfRange
            | Known::Range
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_climbs_or_is_none_is_refused() {
        for (value, is_taken) in [
            ("/protected/a.pdf", true),
            ("/protected/a%20b.pdf?download=1", true),
            ("/protected/a..b", true),
            ("/protected/a?x=/../y", true),
            ("/protected/../secret", false),
            ("/protected/%2e%2e/secret", false),
            ("/protected/%2E./secret", false),
            ("/protected/.%2e%2fsecret", false),
            ("/protected%2f..%2fsecret", false),
            ("protected/a", false),
            ("http://example.com/", false),
            ("", false),
            ("/a%0d%0aX: y", false),
            ("/a%00", false),
        ] {
            let encoded = target(Named::Encoded(value.as_bytes()));
            assert_eq!(encoded.is_ok(), is_taken, "{value}");
        }
        assert!(target(Named::Encoded(&vec![b'/'; LONGEST_PATH + 1])).is_err());
    }

    #[test]
    fn a_plain_path_is_taken_as_it_is() {
        let plain = |path: &str| target(Named::Plain(path.as_bytes()));
        assert_eq!(
            plain("/srv/a b%20?c").unwrap(),
            b"/srv/a%20b%2520%3Fc".to_vec()
        );
        assert!(plain("/srv/../etc/passwd").is_err());
        // It has been encoded by nobody: these are names of files.
        assert!(plain("/srv/%2e%2e/x").is_ok());
        assert!(plain("srv/x").is_err());
    }

    #[test]
    fn the_named_place_is_taken_from_either_field() {
        let fields = [
            (&b"X-Sendfile"[..], &b" /a "[..]),
            (b"x-accel-redirect", b"/b"),
        ];
        assert!(matches!(
            named(fields.into_iter()),
            Some(Named::Encoded(b"/b"))
        ));
        assert!(matches!(
            named(fields.into_iter().take(1)),
            Some(Named::Plain(b"/a"))
        ));
        assert!(named(std::iter::empty()).is_none());
    }
}
