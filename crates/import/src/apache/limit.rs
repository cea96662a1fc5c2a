//! `<Limit>` and `<LimitExcept>`: access control for some methods.
//!
//! Apache keeps one list for a section: each entry has the methods that it is for, and a method without any entry is
//! allowed, whatever the sections around say. `access` asks a section for each method, as if nothing else stood in it.

use std::collections::BTreeSet;

use super::grammar::Directive;

pub(super) fn is_limit(directive: &Directive) -> bool {
    matches!(directive.key.as_str(), "limit" | "limitexcept")
}

/// Returns the directives of a section, and beside them those in its limits that are not about methods: a login.
pub(super) fn with_logins<'d>(directives: impl Iterator<Item = &'d Directive>) -> Vec<Directive> {
    let mut all = Vec::new();
    for directive in directives {
        all.push(directive.clone());
        if is_limit(directive) {
            let inner = directive.inner().iter();
            all.extend(inner.filter(|one| !is_of_access(one)).cloned());
        }
    }
    all
}

fn is_of_access(directive: &Directive) -> bool {
    matches!(
        directive.key.as_str(),
        "require"
            | "requireall"
            | "requireany"
            | "requirenone"
            | "order"
            | "allow"
            | "deny"
            | "satisfy"
    )
}

/// Adds the methods that limits name, and returns the first limit.
pub(super) fn names<'d>(
    directives: &'d [Directive],
    named: &mut BTreeSet<String>,
) -> Option<&'d Directive> {
    let mut first = None;
    for directive in directives {
        if is_limit(directive) {
            named.extend(directive.arguments.iter().map(|name| method(name)));
            first = first.or(Some(directive));
        }
        let inner = match is_limit(directive) || is_of_access(directive) {
            true => names(directive.inner(), named),
            false => None,
        };
        first = first.or(inner);
    }
    first
}

/// A method as it is compared. HEAD is a kind of GET.
fn method(name: &str) -> String {
    match name.to_ascii_uppercase() {
        name if name == "HEAD" => "GET".to_owned(),
        name => name,
    }
}

/// Returns the directives that apply to a method; `None` is one that no limit names.
pub(super) fn of_method(directives: &[Directive], asked: Option<&str>) -> Vec<Directive> {
    let mut all = Vec::new();
    for directive in directives {
        if is_limit(directive) {
            let names = directive.arguments.iter().map(|name| method(name));
            let is_named = names.into_iter().any(|name| Some(name.as_str()) == asked);
            if is_named == directive.is("limit") {
                all.extend(of_method(directive.inner(), asked));
            }
            continue;
        }
        let mut directive = directive.clone();
        if let Some(inner) = directive.block.take() {
            directive.block = Some(match is_of_access(&directive) {
                true => of_method(&inner, asked),
                false => inner,
            });
        }
        all.push(directive);
    }
    all
}
