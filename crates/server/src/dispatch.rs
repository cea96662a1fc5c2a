//! From a request to its answer, as far as that needs no waiting.

use tutti_http::{BodyDecoder, BodyLength};

use crate::action::file;
use crate::request::{Act, Call, Plan, Request, Step};
use crate::respond::Page;
use crate::route;

/// Decides what to do, and does it if nothing has to be waited for.
pub(crate) fn start(request: &Request<'_>, out: &mut Vec<u8>) -> Step {
    let length = request.view.body_length();
    if length == BodyLength::None {
        return perform(request, route::plan(request), out);
    }
    match BodyDecoder::new(length, &request.snapshot.limits) {
        Ok(decoder) => Step::Body {
            plan: Box::new(route::plan(request)),
            decoder,
        },
        Err(error) => request.refuse(error.status(), out),
    }
}

/// Carries out a plan; the request's body has been read, or there is none.
pub(crate) fn perform(request: &Request<'_>, plan: Plan, out: &mut Vec<u8>) -> Step {
    let Plan { act, changes } = plan;
    match act {
        Act::Page { status, fields } => {
            let persistence = request.persistence();
            let page = Page {
                status,
                is_head: request.is_head(),
                persistence,
                fields: &fields,
            };
            request.page(&page, &changes, out);
            Step::End(persistence)
        }
        Act::File(file) => file::respond(request, file, &changes, out),
        Act::Application {
            application,
            target,
        } => Step::Application(Box::new(Call::new(application, target, changes))),
    }
}
