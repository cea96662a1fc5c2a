//! Requests in place of others: a page for an error, and the route that `X-Accel-Redirect` or `X-Sendfile` names.
//!
//! [`instead`](crate::instead) finds that an answer is not to go out, and where to; here is the request that is acted on in its place
//! ([`Original`] makes a [`Substitute`]), the place that an answer names ([`Named`]), and the fields that stay ([`Kept`]). A substitute has a head
//! of its own: GET or HEAD, no body, the fields of the client's request without those about its body. The client's request is what is logged.
//!
//! Must never: let an answer lead to something that is no path for the routes, or go on without end.

mod head;
mod kept_fields;
mod redirect_target;

use tutti_config::model::PageStatus;
use tutti_http::{RequestHead, RequestView};
use tutti_routing::{InternalNumber, PageNumber, ResponseHeader, RuleSet};

pub(crate) use kept_fields::Kept;
pub(crate) use redirect_target::{Named, named, path};

/// Answers in place of others for one request; more are a circle. nginx allows ten.
const MOST: u8 = 8;

/// Where a request goes that is answered in place of another.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// To the action for an error.
    Page(PageNumber),
    /// To a route, by the rules of the answer that has led there.
    Route(InternalNumber, RuleSet),
    /// To the page of the maintenance.
    Maintenance,
}

/// The error that an answer stands in place of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mended {
    /// The status of the error.
    pub(crate) status: u16,
    /// The status of the answer, if there is one.
    pub(crate) answer: PageStatus,
}

/// A request in place of another.
pub(crate) struct Substitute {
    head: Box<RequestHead>,
    /// The bytes of the head.
    bytes: Vec<u8>,
    /// Where it goes.
    pub(crate) way: Way,
    /// The fields that its answer has from the one before.
    pub(crate) kept: Kept,
    /// `response_headers` of the actions before.
    pub(crate) headers: Vec<ResponseHeader>,
    /// `None`: an answer has led here.
    pub(crate) mended: Option<Mended>,
    /// How many there have been for one request.
    depth: u8,
    /// The client may still be sending its body, which nobody reads.
    pub(crate) lingers: bool,
}

impl Substitute {
    /// Its head.
    pub(crate) fn view(&self) -> RequestView<'_> {
        self.head.view(&self.bytes)
    }
}

/// The request that another is to be answered in place of.
#[derive(Clone, Copy)]
pub(crate) struct Original<'o> {
    /// Its head.
    pub(crate) view: RequestView<'o>,
    /// There if it stands in place of another itself.
    pub(crate) before: Option<&'o Substitute>,
    /// `response_headers` of its own actions.
    pub(crate) headers: &'o [ResponseHeader],
}

impl Original<'_> {
    /// True if there have been as many as one request may have.
    pub(crate) fn is_last(&self) -> bool {
        self.depth() >= MOST
    }

    fn depth(&self) -> u8 {
        self.before.map_or(0, |before| before.depth)
    }

    /// Makes the request for an error, to the same target; `None`: no head can be made of it.
    pub(crate) fn mend(&self, way: Way, mended: Mended) -> Option<Box<Substitute>> {
        let asked = self.view.origin_target();
        let target = if asked.starts_with(b"/") { asked } else { b"/" };
        let mut substitute = self.make(target, way)?;
        substitute.mended = Some(mended);
        Some(substitute)
    }

    /// Makes the request to the place that an answer with these fields has named; `None`: that is no path of a request.
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

    /// Makes the request, with what is left of those before it.
    fn make(&self, target: &[u8], way: Way) -> Option<Box<Substitute>> {
        let is_error = !matches!(way, Way::Route(..));
        let (head, bytes) = head::write(&self.view, target, is_error)?;
        let before = self.before;
        let mut headers: Vec<ResponseHeader> = Vec::new();
        if let Some(before) = before {
            headers.clone_from(&before.headers);
        }
        let is_said = |one: &ResponseHeader| {
            let mut own = self.headers.iter();
            own.any(|other| other.name.eq_ignore_ascii_case(&one.name))
        };
        headers.retain(|one| !is_said(one));
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
