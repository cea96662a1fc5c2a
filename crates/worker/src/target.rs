//! The target of a request for an interface with room for one: the client's, or that of a `rewrite`.
//!
//! Called by hosts whose applications parse paths themselves. What must never happen: a path that the routes did not evaluate.

use std::borrow::Cow;

use tutti_wire::WireRequestView;

/// The target to serve. The server passes on the client's target, and the path and query after routing; a service has room for one of them,
/// and gets the routed one if it differs.
pub fn target<'a>(view: &WireRequestView<'a>) -> Cow<'a, [u8]> {
    follow(view.target(), view.path(), view.query())
}

fn follow<'a>(asked: &'a [u8], routed: &[u8], query: &[u8]) -> Cow<'a, [u8]> {
    let end = asked
        .iter()
        .position(|byte| *byte == b'?')
        .unwrap_or(asked.len());
    let (path, asked_query) = asked.split_at(end);
    let is_query_kept = asked_query.get(1..).unwrap_or_default() == query;
    if routed.first() != Some(&b'/')
        || path.first() != Some(&b'/')
        || (is_query_kept && (path == routed || decode(path) == routed))
    {
        return Cow::Borrowed(asked);
    }
    let mut made = Vec::with_capacity(routed.len() + query.len() + 1);
    for &byte in routed {
        // RFC 3986 §3.3: `pchar`, and the slash.
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
        match is_plain {
            true => made.push(byte),
            false => made.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    if !query.is_empty() {
        made.push(b'?');
        made.extend_from_slice(query);
    }
    Cow::Owned(made)
}

/// Percent-decodes; the server has refused malformed input.
fn decode(path: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        let value = match (first, digit(after.first()), digit(after.get(1))) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        decoded.push(value.unwrap_or(first));
        rest = match value {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service routes by the rewritten path, or by the client's target if there is no `rewrite` (issue 10).
    #[test]
    fn a_rewritten_path_is_followed_and_nothing_else_is_changed() {
        for (asked, routed, query, expected) in [
            ("/a?b=c", "/a", "b=c", "/a?b=c"),
            ("/a%20b/c/d?x", "/a b/c/d", "x", "/a%20b/c/d?x"),
            ("/a?", "/a", "", "/a?"),
            ("*", "*", "", "*"),
            ("/old?b=%20", "/new x", "b=%20", "/new%20x?b=%20"),
            ("/old?b", "/old", "url=/x&b", "/old?url=/x&b"),
            ("/old", "/100%", "", "/100%25"),
            ("/a%2fb", "/a/b", "", "/a%2fb"),
            ("/a", "", "", "/a"),
        ] {
            let found = follow(asked.as_bytes(), routed.as_bytes(), query.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{asked}");
        }
    }
}
