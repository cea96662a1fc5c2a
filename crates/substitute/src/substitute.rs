//! A request that is answered in place of another: for an error page, or by the route that an answer leads to.
//!
//! It has a head of its own: GET or HEAD, no body, the fields of the client's request without those about its body. What is logged is
//! the client's request.

use tutti_config::model::PageStatus;
use tutti_http::{RequestHead, RequestView};
use tutti_routing::{InternalNumber, PageNumber, ResponseHeader, RuleSet};

use crate::head;
use crate::kept::Kept;

/// Answers in place of others for one request; more are a circle. nginx allows ten.
const MOST: u8 = 8;

/// Where a request goes that is answered in place of another.
#[derive(Clone, Debug)]
pub enum Way {
    /// To the action for an error.
    Page(PageNumber),
    /// To a route, by the rules of the answer that has led there.
    Route(InternalNumber, RuleSet),
    /// To the page of the maintenance.
    Maintenance,
}

/// The error that an answer stands in place of.
#[derive(Clone, Copy, Debug)]
pub struct Mended {
    /// The status of the error.
    pub status: u16,
    /// The status of the answer, if there is one.
    pub answer: PageStatus,
}

/// A request in place of another.
pub struct Substitute {
    head: Box<RequestHead>,
    /// The bytes of the head.
    bytes: Vec<u8>,
    /// Where it goes.
    pub way: Way,
    /// The fields that its answer has from the one before.
    pub kept: Kept,
    /// `response_headers` of the actions before.
    pub headers: Vec<ResponseHeader>,
    /// `None`: an answer has led here.
    pub mended: Option<Mended>,
    /// How many there have been for one request.
    depth: u8,
    /// The client may still be sending its body, which nobody reads.
    pub lingers: bool,
}

impl Substitute {
    /// Its head.
    pub fn view(&self) -> RequestView<'_> {
        self.head.view(&self.bytes)
    }
}

/// The request that another is to be answered in place of.
#[derive(Clone, Copy)]
pub struct Original<'o> {
    /// Its head.
    pub view: RequestView<'o>,
    /// There if it stands in place of another itself.
    pub before: Option<&'o Substitute>,
    /// `response_headers` of its own actions.
    pub headers: &'o [ResponseHeader],
}

impl Original<'_> {
    /// True if there have been as many as one request may have.
    pub fn is_last(&self) -> bool {
        self.depth() >= MOST
    }

    fn depth(&self) -> u8 {
        self.before.map_or(0, |before| before.depth)
    }

    /// Makes the request for an error, to the same target; `None`: no head can be made of it.
    pub fn mend(&self, way: Way, mended: Mended) -> Option<Box<Substitute>> {
        let asked = self.view.origin_target();
        let target = if asked.starts_with(b"/") { asked } else { b"/" };
        let mut substitute = self.make(target, way)?;
        substitute.mended = Some(mended);
        Some(substitute)
    }

    /// Makes the request to the place that an answer with these fields has named; `None`: that is no path of a request.
    pub fn lead<'f>(
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
