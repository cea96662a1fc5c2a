//! The effect of the directives in an `if`.

use super::closing;
use super::tree::Statement;

/// True for a directive that ends the processing of a request, or leads it elsewhere.
pub(super) fn acts(statement: &Statement) -> bool {
    matches!(statement.name(), "return" | "rewrite" | "break")
}

/// The effect of what stands in an `if`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// Variables alone.
    Settings,
    /// Other settings for the location's content: fields, another folder or server.
    Content,
    /// Requests are led elsewhere: to another path, or by a redirect.
    Leads,
    /// Requests are refused, or answered here.
    Answers,
    /// Requests get another content, which is not carried over.
    Unknown,
}

impl Inside {
    pub(super) fn of(inner: &[Statement]) -> Inside {
        let has_content = inner.iter().any(Inside::is_of_content);
        let Some(first) = inner.iter().find(|one| acts(one)) else {
            return match inner.iter().all(|one| one.name() == "set") {
                true => Inside::Settings,
                false => Inside::Content,
            };
        };
        let stays = |one: &Statement| one.name() == "break" || one.argument(2) == "break";
        let is_redirect = first.argument(0).starts_with('3') || first.argument(0).len() > 3;
        match first.name() {
            "return" if !is_redirect => Inside::Answers,
            "return" => Inside::Leads,
            "break" if inner.iter().any(|one| !acts(one)) => Inside::Content,
            _ if inner.iter().any(stays) => match has_content {
                true => Inside::Content,
                false => Inside::Leads,
            },
            _ => Inside::Leads,
        }
    }

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

    /// True for a directive that changes the answer, or the clients that get it.
    fn is_of_content(statement: &Statement) -> bool {
        let name = statement.name();
        matches!(name, "root" | "alias" | "try_files")
            || name.ends_with("_pass")
            || closing::closes(statement).is_some()
    }
}
