//! From a request to its answer, as far as that needs no waiting.

use tutti_http::websocket::handshake::{self, Handshake};
use tutti_http::{BodyDecoder, BodyLength, FieldLines, Method};

use crate::action::file;
use crate::collector::Collected;
use crate::early_hints;
use crate::guard::{self, Entrance};
use crate::instead::{self, Failure};
use crate::lookup;
use crate::mirror;
use crate::plan::{Act, Changes, Plan};
use crate::posts::Gathered;
use crate::request::Request;
use crate::respond::Page;
use crate::route;
use crate::step::{Call, Posting, Step, UpstreamCall};
use tutti_conn::output::Output;

/// The path of a request by which an authority looks whether a name is ours, up to its token (RFC 8555 §8.3).
const FOLDER: &[u8] = b"/.well-known/acme-challenge/";

/// Decides what to do, and does it if nothing has to be waited for.
pub(crate) fn start(request: &Request<'_>, output: &mut Output) -> Step {
    let length = request.view.body_length();
    if length == BodyLength::Chunked && !request.snapshot.accepts_chunked {
        return request.refuse(411, output);
    }
    // Before routes and all that stands before an action.
    if length == BodyLength::None
        && let Some(answer) = challenge(request)
    {
        request.content(answer, output);
        return Step::End(request.persistence());
    }
    enter(request, route::plan(request), output)
}

/// Carries out a plan, if what stands before it lets it pass.
pub(crate) fn enter(request: &Request<'_>, plan: Plan, output: &mut Output) -> Step {
    if plan.guards.is_empty() {
        return go_on(request, plan, output);
    }
    match guard::enter(request, &plan) {
        Entrance::Open => go_on(request, plan, output),
        Entrance::Closed(answer) => guard::answer::page(request, &answer, &plan.changes, output),
        Entrance::Waits(pause) => Step::Guard {
            plan: Box::new(plan),
            pause,
        },
    }
}

/// Carries out a plan that nothing stands before any more.
pub(crate) fn go_on(request: &Request<'_>, plan: Plan, output: &mut Output) -> Step {
    let length = request.view.body_length();
    if length == BodyLength::None {
        return perform(request, plan, output);
    }
    let plan = Box::new(plan);
    let is_handshake = handshake::check(&request.view) != Handshake::None;
    if is_handshake && matches!(plan.act, Act::Application { .. }) {
        // One with a body is none; and the body is not read for it.
        return request.refuse(400, output);
    }
    match BodyDecoder::new(length, &request.snapshot.limits) {
        Ok(decoder) => Step::Body { plan, decoder },
        Err(error) => request.refuse(error.status(), output),
    }
}

/// Carries out a plan; the request's body has been read, or there is none.
pub(crate) fn perform(request: &Request<'_>, plan: Plan, output: &mut Output) -> Step {
    let Plan {
        act,
        changes,
        asked,
        ..
    } = plan;
    mirror::copy(request, &Collected::None);
    if let Some(asked) = asked {
        return lookup::look(request, asked, Plan::going_on(act, changes), output);
    }
    match act {
        Act::Page { status, fields } if status >= 400 => {
            let failure = Failure {
                status,
                fields: &fields,
                is_body_coming: false,
            };
            instead::fail(request, &failure, &changes, output)
        }
        Act::Page { status, fields } => {
            let persistence = request.persistence();
            let page = Page {
                status,
                is_head: request.is_head(),
                persistence,
                fields: &fields,
            };
            request.page(&page, &changes, output);
            Step::End(persistence)
        }
        Act::Substitute(substitute) => Step::Substitute(substitute),
        Act::Metrics => Step::Metrics(Box::new(changes)),
        Act::Spooler(spooler) => Step::Spooler(Box::new(Posting {
            spooler,
            changes,
            body: Gathered::default(),
        })),
        Act::File(served) => file::respond(request, served, &changes, output),
        Act::Listing(folder) => Step::Listing(folder, Box::new(changes)),
        Act::Upstream(destination) => {
            early_hints::send(request, changes.hints.clone(), output);
            Step::Upstream(Box::new(UpstreamCall {
                destination: *destination,
                changes,
                body: Collected::None,
            }))
        }
        Act::Application {
            application,
            target,
        } => {
            let hints = changes.hints.clone();
            let mut call = Call::new(application, target, changes);
            match handshake::check(&request.view) {
                Handshake::None => early_hints::send(request, hints, output),
                Handshake::Valid(accept) => call.upgrade = Some(accept),
                refused => return refuse(request, refused, output),
            }
            Step::Application(Box::new(call))
        }
    }
}

/// Answers a WebSocket handshake that is not as it must be (RFC 6455 §4.2.1 and §4.4).
fn refuse(request: &Request<'_>, handshake: Handshake, output: &mut Output) -> Step {
    let mut fields = FieldLines::new();
    let status = match handshake {
        Handshake::Version => {
            fields.push(b"Connection", b"Upgrade");
            fields.push(b"Upgrade", b"websocket");
            fields.push(b"Sec-WebSocket-Version", b"13");
            426
        }
        _ => 400,
    };
    let persistence = request.persistence();
    let page = Page {
        status,
        is_head: request.is_head(),
        persistence,
        fields: &fields,
    };
    request.page(&page, &Changes::default(), output);
    Step::End(persistence)
}

/// The content that an authority asks for by its token, if it is one of those that are to be answered.
fn challenge(request: &Request<'_>) -> Option<Vec<u8>> {
    let path = request.view.path();
    let token = path.strip_prefix(FOLDER)?;
    if !matches!(request.view.method(), Method::Get | Method::Head) {
        return None;
    }
    let challenges = request.client.local.shared.challenges.load();
    let token = std::str::from_utf8(token).ok()?;
    let answer = challenges.http.get(token)?;
    Some(answer.clone().into_bytes())
}
