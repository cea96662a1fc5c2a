//! Requests in place of others: error pages, and the routes that `X-Accel-Redirect` or `X-Sendfile` name.
//!
//! [`instead`](crate::instead) decides that a response is replaced, and by which route or page; this module makes the request for that
//! ([`Original`] makes a [`Substitute`]), reads the named path ([`Named`]), and keeps fields ([`Kept`]). A substitute has its own head: GET
//! or HEAD, no body, the fields of the client's request without those about its body. The client's request is logged.
//!
//! Must never: redirect to something that is not a path for the routes, or continue without end.

mod head;
mod kept_fields;
mod redirect_target;

use std::path::Path;

use crate::fields::response_headers;
pub(crate) use kept_fields::Kept;
pub(crate) use redirect_target::{Named, named, path};
use tutti_config::model::PageStatus;
use tutti_http::{RequestHead, RequestView};
use tutti_routing::{InternalNumber, PageNumber, ResponseHeader, RuleSet};

/// Most substitutes for one request; more are a loop. nginx permits ten.
const MOST: u8 = 8;

/// The destination of a substitute.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// The action for an error.
    Page(PageNumber),
    /// A route, by the rules of the redirecting response.
    Route(InternalNumber, RuleSet),
    /// The maintenance page in this file.
    Maintenance(Box<Path>),
}

/// The error that a page replaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mended {
    /// The status of the error.
    pub(crate) status: u16,
    /// The status of the page, if configured.
    pub(crate) answer: PageStatus,
}

/// A request in place of another.
pub(crate) struct Substitute {
    head: Box<RequestHead>,
    /// The bytes of the head.
    bytes: Vec<u8>,
    /// Where it goes.
    pub(crate) way: Way,
    /// The fields kept from the replaced response.
    pub(crate) kept: Kept,
    /// `response_headers` of the actions before.
    pub(crate) headers: Vec<ResponseHeader>,
    /// `None`: an internal redirect.
    pub(crate) mended: Option<Mended>,
    /// The number of substitutes for one request, including this one.
    depth: u8,
    /// The client may still be sending its body, which is not read.
    pub(crate) lingers: bool,
}

impl Substitute {
    /// Its head.
    pub(crate) fn view(&self) -> RequestView<'_> {
        self.head.view(&self.bytes)
    }
}

/// The request that is to be replaced.
#[derive(Clone, Copy)]
pub(crate) struct Original<'o> {
    /// Its head.
    pub(crate) view: RequestView<'o>,
    /// Set if it is a substitute itself.
    pub(crate) before: Option<&'o Substitute>,
    /// `response_headers` of its own actions.
    pub(crate) headers: &'o [ResponseHeader],
}

impl Original<'_> {
    /// True if the limit of substitutes is reached.
    pub(crate) fn is_last(&self) -> bool {
        self.depth() >= MOST
    }

    fn depth(&self) -> u8 {
        self.before.map_or(0, |before| before.depth)
    }

    /// Makes the request for an error page, with the same target; `None`: the head cannot be made.
    pub(crate) fn mend(&self, way: Way, mended: Mended) -> Option<Box<Substitute>> {
        let asked = self.view.origin_target();
        let target = if asked.starts_with(b"/") { asked } else { b"/" };
        let mut substitute = self.make(target, way)?;
        substitute.mended = Some(mended);
        Some(substitute)
    }

    /// Makes the request for the path named by these fields; `None`: that is not a valid path.
    pub(crate) fn lead<'f>(
        &self,
        target: &[u8],
        way: Way,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Option<Box<Substitute>> {
        let mut substitute = self.make(target, way)?;
        let mut kept = Kept::of_answer(fields);
        kept.inherit(&substitute.kept);
        substitute.kept = kept;
        Some(substitute)
    }

    /// Makes the request, with what is kept from those before it.
    fn make(&self, target: &[u8], way: Way) -> Option<Box<Substitute>> {
        let is_error = !matches!(way, Way::Route(..));
        let (head, bytes) = head::write(&self.view, target, is_error)?;
        let before = self.before;
        let mut headers: Vec<ResponseHeader> = Vec::new();
        if let Some(before) = before {
            headers.clone_from(&before.headers);
        }
        headers.retain(|one| !response_headers::replace(self.headers, one));
        headers.extend_from_slice(self.headers);
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
            depth: self.depth() + 1,
            lingers: before.is_some_and(|before| before.lingers),
        }))
    }
}
