//! A request that is answered in place of another: for an error page, or by the route that an answer leads to.
//!
//! It has a head of its own: GET or HEAD, no body, the fields of the client's request without those about its body. What is logged is
//! the client's request. Made by [`instead`](crate::instead), acted on like any request.

use tutti_config::model::PageStatus;
use tutti_http::{FieldLines, RequestHead, RequestView};
use tutti_routing::{InternalNumber, PageNumber, ResponseHeader, RuleSet};

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
    pub(crate) status: u16,
    /// The status of the answer, if there is one.
    pub(crate) answer: PageStatus,
}

/// The fields that an answer has from the one that it stands in place of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// They stay whatever its status is.
    pub(crate) always: FieldLines,
    /// They stay if it is a success.
    pub(crate) if_good: FieldLines,
}

/// A request in place of another.
pub(crate) struct Substitute {
    pub(crate) head: Box<RequestHead>,
    /// The bytes of the head.
    pub(crate) bytes: Vec<u8>,
    pub(crate) way: Way,
    pub(crate) kept: Kept,
    /// `response_headers` of the actions before.
    pub(crate) headers: Vec<ResponseHeader>,
    /// `None`: an answer has led here.
    pub(crate) mended: Option<Mended>,
    /// How many there have been for one request.
    pub(crate) depth: u8,
    /// The client may still be sending its body, which nobody reads.
    pub(crate) lingers: bool,
}

impl Substitute {
    pub(crate) fn view(&self) -> RequestView<'_> {
        self.head.view(&self.bytes)
    }
}

impl Kept {
    /// Puts these fields into the head of an answer of this status, in place of those of the same names.
    pub(crate) fn apply(&self, status: u16, fields: &mut FieldLines) {
        set(&self.always, fields);
        if status >= 400 {
            return;
        }
        let is_in_parts = fields.get_all(b"Content-Type").any(|value| {
            let start = value.get(..BYTE_RANGES.len()).unwrap_or_default();
            start.eq_ignore_ascii_case(BYTE_RANGES)
        });
        let mut kept = self.if_good.clone();
        // The type of an answer in parts says where they end; one without content has no type.
        if is_in_parts || status == 304 {
            kept.remove("Content-Type");
        }
        set(&kept, fields);
    }

    /// Adds what an earlier one has kept, but for what this one says.
    pub(crate) fn inherit(&mut self, earlier: &Self) {
        for (own, others) in [
            (&mut self.always, &earlier.always),
            (&mut self.if_good, &earlier.if_good),
        ] {
            for (name, value) in others {
                let is_said = own.get_all(name).next().is_some();
                if !is_said || name.eq_ignore_ascii_case(b"set-cookie") {
                    own.push(name, value);
                }
            }
        }
    }
}

const BYTE_RANGES: &[u8] = b"multipart/byteranges";

/// Cookies are added: each has a field of its own.
fn set(kept: &FieldLines, fields: &mut FieldLines) {
    fields.retain(|name, _| {
        name.eq_ignore_ascii_case(b"set-cookie") || kept.get_all(name).next().is_none()
    });
    fields.append(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let mut kept = Kept::default();
        kept.always.push(b"Set-Cookie", b"a=1");
        kept.if_good.push(b"content-type", b"application/pdf");
        kept.if_good.push(b"Expires", b"0");
        kept
    }

    fn head(fields: &[(&str, &str)]) -> FieldLines {
        let mut lines = FieldLines::new();
        for (name, value) in fields {
            lines.push(name.as_bytes(), value.as_bytes());
        }
        lines
    }

    #[test]
    fn kept_fields_replace_those_of_their_name_but_for_cookies() {
        let mut fields = head(&[("Content-Type", "text/html"), ("Set-Cookie", "b=2")]);
        kept().apply(200, &mut fields);
        assert_eq!(
            fields.lines(),
            b"Set-Cookie: b=2\r\nSet-Cookie: a=1\r\ncontent-type: application/pdf\r\nExpires: 0\r\n"
        );
    }

    #[test]
    fn an_error_keeps_cookies_only_and_parts_their_own_type() {
        let mut fields = head(&[("Content-Type", "text/html")]);
        kept().apply(404, &mut fields);
        assert_eq!(
            fields.lines(),
            b"Content-Type: text/html\r\nSet-Cookie: a=1\r\n"
        );
        let parts = "multipart/byteranges; boundary=x";
        let mut fields = head(&[("Content-Type", parts)]);
        kept().apply(206, &mut fields);
        let mut types = fields.get_all(b"Content-Type");
        assert_eq!(types.next(), Some(parts.as_bytes()));
        assert_eq!(types.next(), None);
    }

    #[test]
    fn what_an_earlier_answer_has_kept_goes_on() {
        let mut second = Kept::default();
        second.if_good.push(b"Expires", b"1");
        second.always.push(b"Set-Cookie", b"c=3");
        second.inherit(&kept());
        assert_eq!(
            second.if_good.lines(),
            b"Expires: 1\r\ncontent-type: application/pdf\r\n"
        );
        assert_eq!(
            second.always.lines(),
            b"Set-Cookie: c=3\r\nSet-Cookie: a=1\r\n"
        );
    }
}
