//! The pages that may link somewhere, by the `Referer` of requests (RFC 9110 §10.1.3).
//!
//! Part of the typed model, used by the router. Must never: take a part of a URL for its host, such as the user before
//! an `@`, or accept a request because one of several fields is right.

use crate::pattern::{OutOfSteps, Pattern};
use crate::table::CASELESS;

/// Pages, as nginx's `valid_referers` names them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Referers {
    /// Requests without the field.
    none: bool,
    /// Values that are no URL of http or https.
    blocked: bool,
    /// Pages of the host that the request is for.
    own_host: bool,
    /// `false` if there are only patterns with `!`: then any other page is accepted.
    has_positive: bool,
    patterns: Vec<PagePattern>,
}

#[derive(Clone, Debug, PartialEq)]
struct PagePattern {
    pattern: Pattern,
    /// It is compared with host and path, not only with the host.
    has_path: bool,
}

impl Referers {
    /// Parses words and patterns, which have been checked.
    pub(crate) fn new(texts: Vec<&str>) -> Referers {
        let mut found = Referers::default();
        for text in texts {
            match text {
                "none" => found.none = true,
                "blocked" => found.blocked = true,
                "server_names" => found.own_host = true,
                _ => found.patterns.extend(page_pattern(text)),
            }
        }
        let is_positive = |page: &PagePattern| !page.pattern.negated;
        let has_word = found.none || found.blocked || found.own_host;
        found.has_positive = has_word || found.patterns.iter().any(is_positive);
        found
    }

    /// True if requests without the field are accepted.
    pub fn accept_none(&self) -> bool {
        self.none || !self.has_positive
    }

    /// True if a value of the field is accepted. `host`: that of the request.
    ///
    /// # Errors
    /// A regular expression ran out of steps.
    pub fn accept(&self, value: &[u8], host: &[u8]) -> Result<bool, OutOfSteps<'_>> {
        let Some(page) = Page::parse(value) else {
            return Ok(self.blocked || !self.has_positive);
        };
        let is_own = self.own_host && !host.is_empty() && page.host.eq_ignore_ascii_case(host);
        let mut is_accepted = is_own || !self.has_positive;
        for PagePattern { pattern, has_path } in &self.patterns {
            if is_accepted && !pattern.negated {
                continue;
            }
            let is_found = match has_path {
                true => pattern.found_in(&page.host_and_path())?,
                false => pattern.found_in(page.host)?,
            };
            match is_found && pattern.negated {
                true => return Ok(false),
                false => is_accepted |= is_found,
            }
        }
        Ok(is_accepted)
    }
}

fn page_pattern(text: &str) -> Option<PagePattern> {
    Some(PagePattern {
        pattern: Pattern::parse(text, CASELESS).ok()?,
        has_path: text.contains('/'),
    })
}

/// A URL of http or https.
struct Page<'v> {
    /// Without port and trailing period; as written.
    host: &'v [u8],
    /// With the query; empty if there is none.
    path: &'v [u8],
}

impl<'v> Page<'v> {
    fn parse(value: &'v [u8]) -> Option<Page<'v>> {
        let rest = after(value, b"https://").or_else(|| after(value, b"http://"))?;
        // A backslash ends the host in browsers, too.
        let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'\\');
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let user = authority.iter().rposition(|byte| *byte == b'@');
        let host = authority.get(user.map_or(0, |at| at + 1)..)?;
        let end = match host.first() {
            Some(b'[') => host.iter().position(|byte| *byte == b']').map(|at| at + 1),
            _ => host.iter().position(|byte| *byte == b':'),
        };
        let host = host.get(..end.unwrap_or(host.len()))?;
        Some(Page {
            host: host.strip_suffix(b".").unwrap_or(host),
            path,
        })
    }

    fn host_and_path(&self) -> Vec<u8> {
        [self.host, self.path].concat()
    }
}

/// The text after a scheme, in any case of letters.
fn after<'v>(value: &'v [u8], scheme: &[u8]) -> Option<&'v [u8]> {
    let (found, rest) = value.split_at_checked(scheme.len())?;
    found.eq_ignore_ascii_case(scheme).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(texts: &[&str], value: Option<&str>) -> bool {
        let referers = Referers::new(texts.to_vec());
        match value {
            None => referers.accept_none(),
            Some(value) => referers.accept(value.as_bytes(), b"site.example").unwrap(),
        }
    }

    #[test]
    fn words_are_those_of_nginx() {
        for (word, value, is_accepted) in [
            ("none", None, true),
            ("none", Some(""), false),
            ("none", Some("http://site.example/"), false),
            ("blocked", None, false),
            ("blocked", Some(""), true),
            ("blocked", Some("-"), true),
            ("blocked", Some("httpx://site.example/"), true),
            ("blocked", Some("http://site.example/"), false),
            ("blocked", Some("http://"), false),
            ("server_names", None, false),
            ("server_names", Some("HTTPS://Site.Example:8443/a"), true),
            ("server_names", Some("https://site.example."), true),
            ("server_names", Some("https://other.example/"), false),
            (
                "server_names",
                Some("https://other.example/site.example"),
                false,
            ),
        ] {
            assert_eq!(accepts(&[word], value), is_accepted, "{word} {value:?}");
        }
    }

    #[test]
    fn patterns_are_of_hosts_or_of_hosts_and_paths() {
        let texts = [
            "*.example.com",
            "example.org/galleries/*",
            "~\\.google\\.",
            "[::1]",
        ];
        for (value, is_accepted) in [
            ("http://a.example.com/x", true),
            ("http://a.example.com:81", true),
            ("http://example.com/", false),
            ("https://example.org/galleries/1", true),
            ("https://example.org:444/galleries/1", true),
            ("https://example.org/other", false),
            ("https://www.google.com/search?q=x", true),
            // The pattern has no slash.
            ("https://evil.example/.google.", false),
            ("https://evil.example?a.example.com", false),
            ("https://evil.example#a.example.com", false),
            ("https://evil.example\\a.example.com", false),
            ("https://a.example.com@evil.example/", false),
            ("https://evil@a.example.com/", true),
            ("http://[::1]:80/", true),
        ] {
            assert_eq!(accepts(&texts, Some(value)), is_accepted, "{value}");
        }
        assert!(!accepts(&texts, None));
    }

    #[test]
    fn a_pattern_with_an_exclamation_mark_excludes() {
        let texts = ["*.example", "!bad.example"];
        assert!(accepts(&texts, Some("http://good.example/")));
        assert!(!accepts(&texts, Some("http://bad.example/")));
        assert!(accepts(&["!bad.example"], None));
        assert!(accepts(&["!bad.example"], Some("-")));
        assert!(accepts(&["!bad.example"], Some("http://good.example/")));
        assert!(!accepts(&["!bad.example"], Some("http://bad.example/")));
        assert!(!accepts(
            &["server_names", "!site.example"],
            Some("http://site.example/")
        ));
    }
}
