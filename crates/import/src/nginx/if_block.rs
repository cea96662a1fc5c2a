//! The effect of the directives in an `if`.

use super::closing;
use super::harmless_directives;
use super::tree::Statement;

/// Directives that answer requests.
pub(super) const HANDLERS: [&str; 6] = [
    "fastcgi_pass",
    "proxy_pass",
    "grpc_pass",
    "uwsgi_pass",
    "scgi_pass",
    "stub_status",
];

/// True for a directive that ends the processing of a request, or leads it elsewhere.
pub(super) fn acts(statement: &Statement) -> bool {
    matches!(statement.name(), "return" | "rewrite" | "break") || sets_query(statement)
}

/// True for a `set` that gives the request another query.
pub(super) fn sets_query(statement: &Statement) -> bool {
    statement.name() == "set" && matches!(statement.argument(0), "$args" | "$query_string")
}

pub(super) fn is_handler(statement: &Statement) -> bool {
    HANDLERS.contains(&statement.name())
}

/// The effect of what stands in an `if`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// Variables alone.
    Variables,
    /// Requests get the content in another way: with other fields, from another folder or server.
    Content,
    /// Requests are led elsewhere: to another path, or by a redirect.
    Leads,
    /// Requests are refused, or answered here.
    Answers,
    /// Requests get another content, which is not carried over.
    Unknown,
}

impl Inside {
    /// True for a directive that changes no more than fields of the answer.
    pub(super) fn adds_fields(statement: &Statement) -> bool {
        matches!(
            statement.name(),
            "add_header"
                | "expires"
                | "set"
                | "etag"
                | "default_type"
                | "access_log"
                | "log_not_found"
        )
    }

    pub(super) fn of(inner: &[Statement]) -> Inside {
        let first = inner.iter().find(|one| acts(one));
        if let Some(answer) = first.filter(|first| first.name() == "return") {
            let is_redirect = answer.argument(0).starts_with('3') || answer.argument(0).len() > 3;
            return match is_redirect {
                true => Inside::Leads,
                false => Inside::Answers,
            };
        }
        let is_needless = |one: &Statement| harmless_directives::needless(one.name()).is_some();
        let is_setting = |one: &&Statement| one.name() != "set" && !acts(one) && !is_needless(one);
        let closes = |one: &Statement| closing::closes(one).is_some();
        match (inner.iter().any(closes), inner.iter().find(is_setting)) {
            (true, _) => Inside::Unknown,
            (_, Some(_)) => Inside::Content,
            _ if first.is_some() => Inside::Leads,
            _ => Inside::Variables,
        }
    }
}
