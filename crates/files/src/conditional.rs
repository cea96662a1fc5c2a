//! Conditional requests (RFC 9110 §13) against a file's validators. Pure.
//!
//! The entity tag is made of modification time and size, in the documented form `MTIME-FILESIZE`. Within the second in which a file was
//! written, it may be written again with the same size; until then its tag is weak, and its date is not a strong validator.

use std::borrow::Cow;

use tutti_http::{Known, RequestView, parse_date};

/// The conditional fields of a request; `None` where absent.
#[derive(Clone, Debug, Default)]
pub struct Preconditions<'a> {
    /// `If-Match`.
    pub if_match: Option<Cow<'a, [u8]>>,
    /// `If-None-Match`.
    pub if_none_match: Option<Cow<'a, [u8]>>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `If-Range`.
    pub if_range: Option<&'a [u8]>,
    /// `Range`.
    pub range: Option<&'a [u8]>,
}

/// A file's validators.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// With its quotes.
    pub etag: &'a [u8],
    /// Seconds since the epoch.
    pub modified: u64,
}

/// The result of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreconditionResult {
    /// Perform the request.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

impl<'a> Preconditions<'a> {
    /// Reads the conditions of a request. Lists of entity tags may be spread over several fields (RFC 9110 §5.3).
    pub fn of(view: &RequestView<'a>) -> Self {
        Preconditions {
            if_match: view.get_list(Known::IfMatch),
            if_none_match: view.get_list(Known::IfNoneMatch),
            if_modified_since: view.get(Known::IfModifiedSince),
            if_unmodified_since: view.get(Known::IfUnmodifiedSince),
            if_range: view.get(Known::IfRange),
            range: view.get(Known::Range),
        }
    }

    /// True if no field is present, as usual.
    pub fn is_empty(&self) -> bool {
        self.range.is_none()
            && self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.if_modified_since.is_none()
            && self.if_unmodified_since.is_none()
    }

    /// Evaluates the conditions in the order of RFC 9110 §13.2.2, for GET and HEAD.
    pub fn evaluate(&self, file: Validators<'_>) -> PreconditionResult {
        if let Some(tags) = &self.if_match {
            if !list_contains(tags, file.etag, Comparison::Strong) {
                return PreconditionResult::Failed;
            }
        } else if let Some(date) = self.if_unmodified_since.and_then(parse_date)
            && file.modified > date
        {
            return PreconditionResult::Failed;
        }
        if let Some(tags) = &self.if_none_match {
            if list_contains(tags, file.etag, Comparison::Weak) {
                return PreconditionResult::NotModified;
            }
        } else if let Some(date) = self.if_modified_since.and_then(parse_date)
            && file.modified <= date
        {
            return PreconditionResult::NotModified;
        }
        PreconditionResult::Proceed
    }

    /// The `Range` field, unless `If-Range` names another version (§13.1.5: strong comparison; a date must match exactly).
    pub fn effective_range(&self, file: Validators<'_>) -> Option<&[u8]> {
        let holds = match self.if_range {
            None => true,
            Some(tag) if tag.starts_with(b"\"") => tag == file.etag,
            Some(date) => !file.etag.starts_with(b"W/") && parse_date(date) == Some(file.modified),
        };
        if holds { self.range } else { None }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// True if a list of entity tags (or `*`) contains `etag`.
fn list_contains(list: &[u8], etag: &[u8], comparison: Comparison) -> bool {
    if list.trim_ascii() == b"*" {
        return true;
    }
    let (etag, is_weak) = match etag.strip_prefix(b"W/") {
        Some(opaque) => (opaque, true),
        None => (etag, false),
    };
    let mut rest = list;
    loop {
        rest = trim_separators(rest);
        let weak = rest.starts_with(b"W/");
        let tag_start = if weak {
            rest.get(2..).unwrap_or_default()
        } else {
            rest
        };
        if !tag_start.starts_with(b"\"") {
            return false;
        }
        let Some(close) = memchr::memchr(b'"', tag_start.get(1..).unwrap_or_default()) else {
            return false;
        };
        let (tag, after) = tag_start.split_at(close + 2);
        let is_strong = !weak && !is_weak;
        if tag == etag && (is_strong || comparison == Comparison::Weak) {
            return true;
        }
        rest = after;
    }
}

fn trim_separators(mut list: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b',', rest @ ..] = list {
        list = rest;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETAG: &[u8] = b"\"5d66459d-d\"";
    const FILE: Validators<'static> = Validators {
        etag: ETAG,
        modified: 784_111_777,
    };
    const SAME: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn preconditions_are_evaluated_in_order() {
        let none = Preconditions::default;
        let table: &[(Preconditions<'_>, PreconditionResult)] = &[
            (none(), PreconditionResult::Proceed),
            (
                Preconditions {
                    if_none_match: Some(ETAG.into()),
                    ..none()
                },
                PreconditionResult::NotModified,
            ),
            (
                Preconditions {
                    if_none_match: Some(b"\"a\", W/\"5d66459d-d\"".into()),
                    ..none()
                },
                PreconditionResult::NotModified,
            ),
            (
                Preconditions {
                    if_none_match: Some(b"*".into()),
                    ..none()
                },
                PreconditionResult::NotModified,
            ),
            (
                Preconditions {
                    if_none_match: Some(b"\"a\",\"b\"".into()),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_none_match: Some(b"\"unclosed".into()),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_none_match: Some(b"5d66459d-d".into()),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_modified_since: Some(SAME),
                    ..none()
                },
                PreconditionResult::NotModified,
            ),
            (
                Preconditions {
                    if_modified_since: Some(AFTER),
                    ..none()
                },
                PreconditionResult::NotModified,
            ),
            (
                Preconditions {
                    if_modified_since: Some(BEFORE),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_modified_since: Some(b"nonsense"),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_none_match: Some(b"\"a\"".into()),
                    if_modified_since: Some(SAME),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_match: Some(b"*".into()),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_match: Some(ETAG.into()),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_match: Some(b"W/\"5d66459d-d\"".into()),
                    ..none()
                },
                PreconditionResult::Failed,
            ),
            (
                Preconditions {
                    if_match: Some(b"\"a\"".into()),
                    if_none_match: Some(ETAG.into()),
                    ..none()
                },
                PreconditionResult::Failed,
            ),
            (
                Preconditions {
                    if_match: Some(ETAG.into()),
                    if_unmodified_since: Some(BEFORE),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
            (
                Preconditions {
                    if_unmodified_since: Some(BEFORE),
                    ..none()
                },
                PreconditionResult::Failed,
            ),
            (
                Preconditions {
                    if_unmodified_since: Some(SAME),
                    ..none()
                },
                PreconditionResult::Proceed,
            ),
        ];
        for (conditions, verdict) in table {
            assert_eq!(conditions.evaluate(FILE), *verdict, "{conditions:?}");
        }
    }

    #[test]
    fn a_range_of_another_version_is_ignored() {
        let range = Some(&b"bytes=0-1"[..]);
        for (if_range, applies) in [
            (None, true),
            (Some(ETAG), true),
            (Some(&b"\"other\""[..]), false),
            (Some(&b"W/\"5d66459d-d\""[..]), false),
            (Some(SAME), true),
            (Some(AFTER), false),
            (Some(BEFORE), false),
        ] {
            let conditions = Preconditions {
                if_range,
                range,
                ..Preconditions::default()
            };
            assert_eq!(
                conditions.effective_range(FILE).is_some(),
                applies,
                "{if_range:?}"
            );
        }
    }

    /// CHANGES of FreeUnit 1.36.2: parts of two versions, written in the same second, were combined.
    #[test]
    fn within_the_second_it_was_written_a_file_has_no_strong_validator() {
        let file = Validators {
            etag: b"W/\"5d66459d-d\"",
            ..FILE
        };
        let range = Some(&b"bytes=0-1"[..]);
        for if_range in [ETAG, file.etag, SAME] {
            let conditions = Preconditions {
                if_range: Some(if_range),
                range,
                ..Preconditions::default()
            };
            assert!(conditions.effective_range(file).is_none(), "{if_range:?}");
        }
        let of =
            |if_match: Option<&'static [u8]>, if_none_match: Option<&'static [u8]>| Preconditions {
                if_match: if_match.map(Cow::from),
                if_none_match: if_none_match.map(Cow::from),
                ..Preconditions::default()
            };
        assert_eq!(
            of(Some(ETAG), None).evaluate(file),
            PreconditionResult::Failed
        );
        assert_eq!(
            of(Some(&b"*"[..]), None).evaluate(file),
            PreconditionResult::Proceed
        );
        assert_eq!(
            of(None, Some(ETAG)).evaluate(file),
            PreconditionResult::NotModified
        );
    }
}
