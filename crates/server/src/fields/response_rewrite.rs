//! `rewrite_response`: addresses and cookies in the responses of upstreams, as this server's clients must see them.
//!
//! Must never: make an address of another host out of one that names a path of this server.

use tutti_config::model::{ResponseRewrite, SameSite, Template};
use tutti_http::{FieldLines, is_field_value};

/// The server's own address in responses, where that is replaced.
pub(crate) struct OwnAddress<'a> {
    /// It speaks TLS.
    pub(crate) is_https: bool,
    /// The addresses of its group and the `Host` that it was sent.
    pub(crate) authorities: Vec<&'a [u8]>,
}

/// Rewrites the fields of a response. `render` gives the value of a template, or nothing if a script failed.
pub(crate) fn rewrite<'f>(
    rules: &ResponseRewrite,
    own: &OwnAddress<'_>,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    render: impl Fn(&Template) -> Option<Vec<u8>>,
) -> FieldLines {
    let rewriter = Rewriter { rules, own, render };
    let mut out = FieldLines::new();
    for (name, value) in fields {
        let changed = if name.eq_ignore_ascii_case(b"Set-Cookie") {
            rewriter.cookie(value)
        } else if is_address(name) {
            rewriter.address(value)
        } else if name.eq_ignore_ascii_case(b"Refresh") {
            rewriter.refresh(value)
        } else {
            None
        };
        // A variable must not break the line.
        let changed = changed.filter(|changed| is_field_value(changed));
        out.push(name, changed.as_deref().unwrap_or(value));
    }
    out
}

fn is_address(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"Location") || name.eq_ignore_ascii_case(b"Content-Location")
}

struct Rewriter<'a, F> {
    rules: &'a ResponseRewrite,
    own: &'a OwnAddress<'a>,
    render: F,
}

impl<F: Fn(&Template) -> Option<Vec<u8>>> Rewriter<'_, F> {
    /// The address for the client; `None`: it stays.
    fn address(&self, value: &[u8]) -> Option<Vec<u8>> {
        if let Some(rest) = self.after_own(value) {
            return Some(path_of_this_server(b"/", rest));
        }
        let (from, to, rest) = longest(&self.rules.location, value)?;
        let to = (self.render)(to)?;
        // Without a replacement, what is left is a path of this server.
        if to.is_empty() || to.starts_with(b"/") && !to.starts_with(b"//") {
            return Some(path_of_this_server(&to, rest));
        }
        // The rest must not make another host of a replacement that ends with one: `https://site` and `.evil`, or `@evil`.
        let ends_host = rest.first().is_none_or(|byte| b"/?#".contains(byte));
        // A scheme in place of a scheme leaves the host as it is.
        let is_scheme = from.ends_with("://") && to.ends_with(b"://");
        let separator: &[u8] = match is_host_alone(&to) && !ends_host && !is_scheme {
            true => b"/",
            false => b"",
        };
        Some([&to, separator, rest].concat())
    }

    /// The part after the server's own address.
    fn after_own<'v>(&self, value: &'v [u8]) -> Option<&'v [u8]> {
        if !self.rules.own_location {
            return None;
        }
        let (scheme, port): (&[u8], &[u8]) = match self.own.is_https {
            true => (b"https://", b":443"),
            false => (b"http://", b":80"),
        };
        let (written, rest) = value.split_at_checked(scheme.len())?;
        if !written.eq_ignore_ascii_case(scheme) {
            return None;
        }
        let end = rest.iter().position(|byte| b"/?#\\".contains(byte));
        let (authority, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let plain = |one: &[u8]| one.strip_suffix(port).unwrap_or(one).to_ascii_lowercase();
        let wanted = plain(authority);
        let mut known = self.own.authorities.iter();
        known.any(|one| plain(one) == wanted).then_some(rest)
    }

    /// `Refresh: 5; url=…`.
    fn refresh(&self, value: &[u8]) -> Option<Vec<u8>> {
        const URL: &[u8] = b"url=";
        let at = value
            .windows(URL.len())
            .position(|part| part.eq_ignore_ascii_case(URL))?;
        let spaces = value.get(at + URL.len()..)?;
        let spaces = spaces.len() - spaces.trim_ascii_start().len();
        let (before, address) = value.split_at(at + URL.len() + spaces);
        let quote = address
            .first()
            .filter(|byte| matches!(byte, b'"' | b'\''))
            .copied();
        let start = usize::from(quote.is_some());
        let address = address.get(start..).unwrap_or_default();
        let end = quote.and_then(|quote| address.iter().position(|byte| *byte == quote));
        let (address, after) = address.split_at(end.unwrap_or(address.len()));
        let changed = self.address(address)?;
        let quote = quote.as_slice();
        Some([before, quote, &changed, after].concat())
    }

    /// `Set-Cookie` (RFC 6265 §4.1); `None`: it stays.
    fn cookie(&self, value: &[u8]) -> Option<Vec<u8>> {
        let mut parts = value.split(|byte| *byte == b';');
        let pair = parts.next().unwrap_or_default();
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        let mut attributes = self.rules.cookie_attributes.iter();
        let named = attributes.find(|(known, _)| known.as_bytes() == name.trim_ascii());
        let others = || {
            let mut attributes = self.rules.cookie_attributes.iter();
            attributes.find(|(known, _)| &**known == "*")
        };
        let wanted = named
            .or_else(others)
            .map(|(_, wanted)| wanted.clone())
            .unwrap_or_default();
        let mut out = pair.trim_ascii().to_vec();
        let mut put = |part: &[u8]| {
            out.extend_from_slice(b"; ");
            out.extend_from_slice(part);
        };
        for part in parts {
            let part = part.trim_ascii();
            if part.is_empty() {
                continue;
            }
            let (key, value) = match part.iter().position(|byte| *byte == b'=') {
                Some(at) => (part.get(..at), part.get(at + 1..)),
                None => (Some(part), None),
            };
            let (key, value) = (
                key.unwrap_or_default().trim_ascii(),
                value.unwrap_or_default().trim_ascii(),
            );
            let is = |name: &str| key.eq_ignore_ascii_case(name.as_bytes());
            let is_replaced = is("secure") && wanted.secure.is_some()
                || is("httponly") && wanted.http_only.is_some()
                || is("samesite") && wanted.same_site.is_some();
            if is_replaced {
                continue;
            }
            let changed = match (is("domain"), is("path")) {
                (true, _) => self.domain(value),
                (_, true) => self.path(value).map(Some),
                _ => None,
            };
            match changed {
                None => put(part),
                Some(None) => {}
                Some(Some(changed)) => put(&[key, b"=", &changed].concat()),
            }
        }
        if wanted.secure == Some(true) {
            put(b"Secure");
        }
        if wanted.http_only == Some(true) {
            put(b"HttpOnly");
        }
        if let Some(same_site) = wanted.same_site.and_then(SameSite::attribute) {
            put(&[b"SameSite=", same_site.as_bytes()].concat());
        }
        Some(out)
    }

    /// The domain that replaces this one; `Some(None)`: the attribute is removed.
    fn domain(&self, value: &[u8]) -> Option<Option<Vec<u8>>> {
        let value = value.strip_prefix(b".").unwrap_or(value);
        let mut known = self.rules.cookie_domain.iter();
        let (_, to) = known.find(|(from, _)| from.as_bytes().eq_ignore_ascii_case(value))?;
        match to {
            None => Some(None),
            Some(to) => Some(Some((self.render)(to).filter(|to| is_attribute(to))?)),
        }
    }

    fn path(&self, value: &[u8]) -> Option<Vec<u8>> {
        let (_, to, rest) = longest(&self.rules.cookie_path, value)?;
        let to = (self.render)(to)?;
        Some([&to, rest].concat()).filter(|path| is_attribute(path))
    }
}

/// True if a text can be the value of an attribute: a variable must not add another one.
fn is_attribute(value: &[u8]) -> bool {
    !value.contains(&b';')
}

/// The longest beginning that matches, its replacement, and the rest. A beginning ends at the end of a segment.
fn longest<'r, 'v>(
    rules: &'r [(Box<str>, Template)],
    value: &'v [u8],
) -> Option<(&'r str, &'r Template, &'v [u8])> {
    rules.iter().find_map(|(from, to)| {
        let rest = value.strip_prefix(from.as_bytes())?;
        let is_whole = from.ends_with('/') || rest.first().is_none_or(|byte| b"/?#".contains(byte));
        is_whole.then_some((&**from, to, rest))
    })
}

/// True for an address that ends with its host: `https://site.example`, `//site.example`.
fn is_host_alone(to: &[u8]) -> bool {
    let at = to.windows(2).position(|part| part == b"//");
    let authority = at.and_then(|at| to.get(at + 2..));
    authority.is_some_and(|authority| !authority.iter().any(|byte| b"/?#\\".contains(byte)))
}

/// Joins both to a path: two slashes or backslashes at its beginning would name another host (RFC 3986 §4.2). Browsers remove tabs, so
/// one between them does not help.
fn path_of_this_server(to: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut path = [to, rest].concat();
    let slashes = path
        .iter()
        .take_while(|byte| matches!(byte, b'/' | b'\\' | b'\t'))
        .count();
    // `/?query` without a path of its own, too.
    path.drain(..slashes);
    path.insert(0, b'/');
    path
}

#[cfg(test)]
mod tests {
    use tutti_config::model::CookieAttributes;

    use super::*;

    fn template(text: &str) -> Template {
        Template::parse(text).unwrap()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(Box<str>, Template)> {
        let pairs = pairs.iter();
        pairs
            .map(|(from, to)| ((*from).into(), template(to)))
            .collect()
    }

    fn rewritten(rules: &ResponseRewrite, name: &str, value: &str) -> String {
        let own = OwnAddress {
            is_https: false,
            authorities: vec![b"10.0.0.1:8080", b"app.internal"],
        };
        let fields = [(name.as_bytes(), value.as_bytes())];
        let fields = rewrite(rules, &own, fields.into_iter(), |template| {
            Some(template.source().as_bytes().to_vec())
        });
        let value = fields.iter().next().unwrap().1;
        String::from_utf8(value.to_vec()).unwrap()
    }

    #[test]
    fn the_servers_own_address_becomes_a_path() {
        let rules = ResponseRewrite {
            own_location: true,
            ..ResponseRewrite::default()
        };
        for (value, expected) in [
            ("http://10.0.0.1:8080/a?b#c", "/a?b#c"),
            ("HTTP://App.Internal/a", "/a"),
            ("http://app.internal:80/a", "/a"),
            ("http://app.internal", "/"),
            ("http://app.internal?q", "/?q"),
            // Another host or scheme is another server, and a path stays one.
            ("https://app.internal/a", "https://app.internal/a"),
            ("http://app.internal:8080/a", "http://app.internal:8080/a"),
            (
                "http://app.internal.evil.test/a",
                "http://app.internal.evil.test/a",
            ),
            (
                "http://app.internal@evil.test/a",
                "http://app.internal@evil.test/a",
            ),
            ("http://app.internal//evil.test/a", "/evil.test/a"),
            ("http://app.internal\\\\evil.test/a", "/evil.test/a"),
            ("http://app.internal/\t/evil.test/a", "/evil.test/a"),
            ("/a", "/a"),
            ("http://", "http://"),
        ] {
            assert_eq!(rewritten(&rules, "Location", value), expected, "{value}");
        }
        assert_eq!(
            rewritten(&rules, "refresh", "5; URL='http://app.internal/a'"),
            "5; URL='/a'"
        );
        assert_eq!(rewritten(&rules, "Refresh", "5"), "5");
        let spaced = rewritten(&rules, "Refresh", "5; url= http://app.internal/a");
        assert_eq!(
            spaced,
            rewritten(&rules, "Refresh", "5; url=http://app.internal/a").replace("url=", "url= ")
        );
        let other = rewritten(&rules, "X-Location", "http://app.internal/a");
        assert_eq!(other, "http://app.internal/a");
    }

    #[test]
    fn the_longest_beginning_is_replaced() {
        let rules = ResponseRewrite {
            location: pairs(&[
                ("http://app.internal/two/", "/one/"),
                ("http://app.internal", "https://site.example"),
                ("/two/", "/"),
                ("http://bare.internal", ""),
                ("http://slash.internal/", "https://site.example"),
                ("ws://", "wss://"),
            ]),
            ..ResponseRewrite::default()
        };
        for (value, expected) in [
            ("ws://other.example/a", "wss://other.example/a"),
            ("http://app.internal/two/a", "/one/a"),
            ("http://app.internal/three", "https://site.example/three"),
            ("http://app.internal", "https://site.example"),
            (
                "http://app.internal.evil.test/",
                "http://app.internal.evil.test/",
            ),
            ("http://app.internal:81/", "http://app.internal:81/"),
            ("/two/a", "/a"),
            ("/two//evil.test", "/evil.test"),
            ("http://bare.internal//evil.test", "/evil.test"),
            ("http://bare.internal/a", "/a"),
            ("http://slash.internal/a", "https://site.example/a"),
            (
                "http://slash.internal/.evil.test",
                "https://site.example/.evil.test",
            ),
            (
                "http://slash.internal/@evil.test",
                "https://site.example/@evil.test",
            ),
        ] {
            assert_eq!(rewritten(&rules, "Location", value), expected, "{value}");
        }
        let refresh = rewritten(&rules, "Refresh", "0;url=http://app.internal/two/b");
        assert_eq!(refresh, "0;url=/one/b");
    }

    #[test]
    fn cookies_get_other_domains_paths_and_attributes() {
        let attributes = |secure, http_only, same_site| CookieAttributes {
            secure,
            http_only,
            same_site,
        };
        let rules = ResponseRewrite {
            cookie_domain: vec![
                ("app.internal".into(), Some(template("site.example"))),
                ("gone.internal".into(), None),
            ],
            cookie_path: pairs(&[("/app/", "/"), ("/app", "/")]),
            cookie_attributes: vec![
                (
                    "sid".into(),
                    attributes(Some(true), Some(true), Some(SameSite::Lax)),
                ),
                (
                    "open".into(),
                    attributes(Some(false), None, Some(SameSite::Omit)),
                ),
            ],
            ..ResponseRewrite::default()
        };
        for (value, expected) in [
            (
                "a=1; Domain=.App.internal; Path=/app/x",
                "a=1; Domain=site.example; Path=/x",
            ),
            ("a=1; domain=gone.internal; path=/app", "a=1; path=/"),
            (
                "a=1; Domain=other; Path=/application; Max-Age=3",
                "a=1; Domain=other; Path=/application; Max-Age=3",
            ),
            (
                "sid=x=y; secure; SameSite=None; Path=/",
                "sid=x=y; Path=/; Secure; HttpOnly; SameSite=Lax",
            ),
            (
                "open=1; Secure; HttpOnly; SameSite=Strict",
                "open=1; HttpOnly",
            ),
        ] {
            assert_eq!(rewritten(&rules, "Set-Cookie", value), expected, "{value}");
        }
        let everything = ResponseRewrite {
            cookie_attributes: vec![("*".into(), attributes(Some(true), None, None))],
            ..rules
        };
        assert_eq!(rewritten(&everything, "set-cookie", "a=1"), "a=1; Secure");
    }

    #[test]
    fn a_variable_adds_neither_lines_nor_attributes() {
        let rules = ResponseRewrite {
            location: pairs(&[("http://a/", "/x\r\nY: z")]),
            cookie_path: pairs(&[("/", "/; Domain=evil.test")]),
            ..ResponseRewrite::default()
        };
        assert_eq!(rewritten(&rules, "Location", "http://a/b"), "http://a/b");
        assert_eq!(
            rewritten(&rules, "Set-Cookie", "a=1; Path=/"),
            "a=1; Path=/"
        );
    }
}
