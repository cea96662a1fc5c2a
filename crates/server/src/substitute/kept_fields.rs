//! The fields that a response keeps from the one it replaces.

use tutti_http::FieldLines;

/// The fields kept for an internal redirect, as in nginx.
const KEPT: [&[u8]; 4] = [
    b"content-type",
    b"content-disposition",
    b"cache-control",
    b"expires",
];

/// The fields of an error that are kept for its page: the client needs them to continue.
const KEPT_OF_ERRORS: [&[u8]; 4] = [
    b"www-authenticate",
    b"proxy-authenticate",
    b"retry-after",
    b"allow",
];

/// The fields kept from the replaced response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    /// Kept for any status.
    pub(crate) always: FieldLines,
    /// Kept for a success.
    pub(crate) if_good: FieldLines,
}

impl Kept {
    /// The fields of a response that redirects internally.
    pub(crate) fn of_answer<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Self {
        let mut kept = Self::default();
        for (name, value) in fields {
            if name.eq_ignore_ascii_case(b"set-cookie") {
                kept.always.push(name, value);
            } else if KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept)) {
                kept.if_good.push(name, value);
            }
        }
        kept
    }

    /// Adds those of an application's or upstream's error.
    pub(crate) fn add_of_error<'f>(&mut self, fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
        for (name, value) in fields {
            let is_kept = |kept: &&[u8]| name.eq_ignore_ascii_case(kept);
            if KEPT_OF_ERRORS.iter().any(is_kept) || name.eq_ignore_ascii_case(b"set-cookie") {
                self.always.push(name, value);
            }
        }
    }

    /// Sets these fields in the head of a response with this status, replacing those of the same names.
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
        // The type of a multipart response contains its boundary; one without content has no type.
        if is_in_parts || status == 304 {
            kept.remove("Content-Type");
        }
        set(&kept, fields);
    }

    /// Adds the fields kept by an earlier one, unless this one has them.
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

/// Cookies are added: each has its own field.
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
    fn fields_kept_by_an_earlier_response_are_inherited() {
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
