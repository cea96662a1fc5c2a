//! The location of an index file: nginx redirects internally to it, so that another location may answer, and the directives that rewrite
//! paths apply again.
//!
//! Must never: take an index file for one of its folder's location where it may be another one's, which may be closed.

use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::location::Match;
use super::site::{Compiler, Site};
use super::tree::Statement;
use crate::words::Words;

/// Variables with the same value for the path of an index file as for that of its folder.
const SAME_FOR_INDEX: Words = Words(
    "$args $content_length $content_type $host $hostname $http2 $https $invalid_referer $is_args $proxy_protocol_addr
    $query_string $realip_remote_addr $remote_addr $remote_user $request_id $request_method $request_uri $scheme
    $server_addr $server_name $server_port $server_protocol",
);

/// Beginnings of names of such variables.
const SAME_BEGINNINGS: [&str; 4] = ["$http_", "$arg_", "$cookie_", "$ssl_"];

/// The end of an expression that matches a whole segment of a path.
const ENDS_OF_SEGMENT: [&str; 5] = ["(/|$)", "(?:/|$)", "($|/)", "(?:$|/)", "/"];

impl Compiler<'_> {
    /// True if an index file may be answered in another way than its folder's location does.
    pub(super) fn is_elsewhere(&self, site: &Site, name: &str) -> bool {
        // No path of a folder comes here.
        if site.expression.as_deref().is_some_and(is_about_endings) {
            return false;
        }
        let own = site.prefix.as_deref();
        let Some(prefix) = own.filter(|_| !site.is_exact && site.expression.is_none()) else {
            return true;
        };
        // It is tried, too, and another file may be there.
        let tries_other = |one: &Statement| one.name() == "try_files" && one.argument(0) != "$uri";
        let looks = self.places.iter().any(|place| {
            let is_own = place.id == site.place;
            (is_own || place.is_server) && looks_at_path(&place.own)
                || is_own && place.own.iter().any(tries_other)
        });
        let mut others = site.others.iter();
        looks || others.any(|other| may_have(other, prefix, name))
    }
}

/// True if one of these directives may treat the path of an index file in another way than that of its folder. The depth is that of
/// blocks, which the parser bounds.
pub(super) fn looks_at_path(statements: &[Statement]) -> bool {
    statements.iter().any(|one| match one.name() {
        "rewrite" => {
            // The folder's own request would have been led away, too.
            let leads_away = matches!(one.argument(2), "last" | "redirect" | "permanent");
            !(leads_away && is_everything(one.argument(0)))
        }
        "if" => {
            let first = one.argument(0).trim_start_matches('(');
            let subject = first.trim_end_matches(')');
            let is_test = subject.trim_start_matches('!').starts_with('-');
            let is_same = SAME_FOR_INDEX.contains(subject)
                || SAME_BEGINNINGS
                    .iter()
                    .any(|begin| subject.starts_with(begin));
            is_test || !is_same || looks_at_path(one.inner())
        }
        _ => false,
    })
}

/// True for an expression that matches every path.
pub(super) fn is_everything(pattern: &str) -> bool {
    matches!(
        pattern,
        "^" | ".*" | "^.*$" | "^(.*)$" | "^/" | "^.*" | "(.*)" | "^/(.*)$" | "^/(.*)"
    )
}

/// True if a location may have the index file of a folder that the location of this prefix has.
fn may_have(other: &Match, prefix: &str, name: &str) -> bool {
    match other {
        Match::Exact(path) => {
            let folder = path
                .strip_suffix(name)
                .filter(|folder| folder.ends_with('/'));
            folder.is_some_and(|folder| folder.starts_with(prefix))
        }
        // The folder's path does not begin with it: it ends within the name.
        Match::Prefix(path, _) => {
            let is_longer = path.len() > prefix.len() && path.starts_with(prefix);
            let begin = path.rsplit('/').next().unwrap_or_default();
            is_longer && !begin.is_empty() && name.starts_with(begin)
        }
        Match::Regex(source, _) => {
            if !is_same_in_folders(source, name) {
                return true;
            }
            let sample = format!("{}/{name}", prefix.trim_end_matches('/'));
            let pattern = Pattern::parse(&other.pattern(), DECODED).ok();
            pattern.is_none_or(|pattern| pattern.found_in(sample.as_bytes()).unwrap_or(true))
        }
        Match::Named(_) => false,
        Match::Unknown => true,
    }
}

/// True for an expression that matches the path of an index file in all folders that it does not match themselves, or in none of them: it is
/// about the end of a name, about names that begin with a period, or about the first segment of a path.
fn is_same_in_folders(source: &str, name: &str) -> bool {
    let source = source.replace("\\/", "/");
    let ends = ENDS_OF_SEGMENT.iter();
    let bare = ends.clone().find_map(|end| source.strip_suffix(end));
    // `[^/]\.php(/|$)`
    if is_about_endings(&source) || bare.is_some_and(is_ending) {
        return true;
    }
    // `/\.`, `/\.ht`, `/\.(?!well-known).*`
    if let (Some(rest), false) = (source.strip_prefix("/\\."), name.starts_with('.')) {
        let rest = match rest.strip_prefix("(?!") {
            Some(inner) => inner.split_once(')').map_or("/", |(_, rest)| rest),
            None => rest,
        };
        if is_plain(rest.strip_suffix(".*").unwrap_or(rest)) {
            return true;
        }
    }
    // `^/(config|tmp)`, `^/(?:build|tests)(?:$|/)`
    let first = bare.unwrap_or(&source).strip_prefix("^/");
    first.is_some_and(|first| !first.is_empty() && is_plain(first))
}

/// True for an expression that is about the endings of names alone: `\.(css|js)$`. It matches no path of a folder.
fn is_about_endings(source: &str) -> bool {
    source.strip_suffix('$').is_some_and(is_ending)
}

/// True for an expression of a name's ending, without what ends it: `.+\.(css|js)`.
fn is_ending(source: &str) -> bool {
    let begins = ["^.+", "^.*", ".+", ".*", "[^/]"];
    let rest = begins.iter().find_map(|begin| source.strip_prefix(begin));
    let rest = rest.unwrap_or(source);
    rest.starts_with("\\.") && is_plain(rest)
}

/// True for an expression of letters and digits, periods, hyphens and groups of them, without a slash.
fn is_plain(source: &str) -> bool {
    let bare = source.replace("\\.", "").replace("\\-", "");
    let is_one = |one: char| one.is_ascii_alphanumeric() || "_-|()?:".contains(one);
    bare.chars().all(is_one) && !source.contains("(?!") && !source.contains("(?<")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_config::pattern::Case;

    #[test]
    fn an_index_file_may_be_of_another_location() {
        let regex = |source: &str| Match::Regex(source.to_owned(), Case::Exact);
        for (other, prefix, expected) in [
            (Match::Exact("/a/index.html".to_owned()), "/", true),
            (Match::Exact("/a/index.html".to_owned()), "/b/", false),
            (Match::Exact("/a/my-index.html".to_owned()), "/", false),
            (Match::Prefix("/a/".to_owned(), false), "/", false),
            (Match::Prefix("/a/in".to_owned(), true), "/", true),
            (Match::Prefix("/a/out".to_owned(), true), "/", false),
            (Match::Prefix("/".to_owned(), false), "/", false),
            (regex(r"\.html$"), "/", true),
            (regex(r"\.(css|js)$"), "/", false),
            (regex(r"[^/]\.php(/|$)"), "/", false),
            (regex(r"/\."), "/", false),
            (regex(r"/\.(?!well-known).*"), "/", false),
            (regex(r"/\.git/ind"), "/", true),
            (regex(r"^/(config|tmp)"), "/", false),
            (regex(r"^/(config|in)"), "/", true),
            (regex(r"^/(config|in)"), "/a/", false),
            (regex(r"^/(?:build|tests)(?:$|/)"), "/", false),
            (regex(r"^/a/.*\.html$"), "/", true),
            (regex("deep"), "/", true),
            (Match::Named("@x".to_owned()), "/", false),
            (Match::Unknown, "/", true),
        ] {
            assert_eq!(
                may_have(&other, prefix, "index.html"),
                expected,
                "{other:?} {prefix}"
            );
        }
    }
}
