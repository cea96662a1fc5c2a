//! `error_page`, as it is written.

use super::tree::Statement;
use crate::finding::{Findings, SourceLocation};

/// The status of an answer with a page for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseStatus {
    /// That of the error.
    Kept,
    /// That of the page.
    Own,
    /// This one.
    Fixed(u16),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ErrorPage {
    pub(super) statuses: Vec<u16>,
    pub(super) answer: ResponseStatus,
    pub(super) target: String,
    pub(super) place: SourceLocation,
}

/// Errors of the reading of a request, and codes of nginx's own, which have no page.
fn has_no_page(status: u16) -> bool {
    !(400..600).contains(&status) || matches!(status, 408 | 431 | 494..=499)
}

/// The cure for a status without a page.
fn cure(status: u16) -> &'static str {
    match status {
        495 | 496 => {
            "such clients get 400 before a server is chosen: write `error_pages` for 400 into the listener (`docs/http/tls.md`)"
        }
        497 => {
            "a client that sends plain HTTP to a TLS port gets 400, without a page: redirect from port 80 instead"
        }
        _ => "pages are for errors from 400 to 599, except for malformed requests",
    }
}

impl ErrorPage {
    /// Reads a directive; reports statuses without a page.
    pub(super) fn read(statement: &Statement, findings: &mut Findings) -> Option<ErrorPage> {
        let (target, words) = statement.arguments().split_last()?;
        let mut statuses: Vec<u16> = Vec::new();
        let mut answer = ResponseStatus::Kept;
        for word in words {
            if let Some(code) = word.strip_prefix('=') {
                answer = match code.parse() {
                    Ok(code) => ResponseStatus::Fixed(code),
                    Err(_) => ResponseStatus::Own,
                };
            } else if let Ok(status) = word.parse() {
                statuses.push(status);
            }
        }
        for status in statuses.iter().filter(|status| has_no_page(**status)) {
            findings.lost(
                &statement.place,
                "error_page",
                &format!("{status} cannot have a custom page"),
                cure(*status),
            );
        }
        statuses.retain(|status| !has_no_page(*status));
        Some(ErrorPage {
            statuses,
            answer,
            target: target.clone(),
            place: statement.place.clone(),
        })
    }

    /// The location `@name` that answers instead of a missing file, whatever its status, and gets the request with its method. A page that is
    /// a path is requested with GET.
    pub(super) fn not_found(&self) -> Option<&String> {
        let is_fallback = self.answer == ResponseStatus::Own
            && self.statuses.contains(&404)
            && self.target.starts_with('@');
        is_fallback.then_some(&self.target)
    }
}
