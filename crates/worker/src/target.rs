//! The target of a request for an interface with room for one: the client's, or the one that a `rewrite` put in its place.
//!
//! Called by hosts whose applications take paths apart themselves. What must never happen: a path that the routes did not judge.

use std::borrow::Cow;

use tutti_wire::RequestView;

/// The target to serve. The server hands over what the client sent, and the path that it routed; a service has room for one of them, and
/// follows the path where it is not that of the target.
pub fn target<'a>(view: &RequestView<'a>) -> Cow<'a, [u8]> {
    follow(view.target(), view.path())
}

fn follow<'a>(sent: &'a [u8], routed: &[u8]) -> Cow<'a, [u8]> {
    let end = sent
        .iter()
        .position(|byte| *byte == b'?')
        .unwrap_or(sent.len());
    let (path, query) = sent.split_at(end);
    if path == routed
        || routed.first() != Some(&b'/')
        || path.first() != Some(&b'/')
        || normalise(&decode(path)) == routed
    {
        return Cow::Borrowed(sent);
    }
    let mut made = Vec::with_capacity(routed.len() + query.len());
    for &byte in routed {
        // RFC 3986 §3.3: `pchar`, and the slash.
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
        match is_plain {
            true => made.push(byte),
            false => made.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    made.extend_from_slice(query);
    Cow::Owned(made)
}

/// Decodes what is percent-encoded; the server has refused what is malformed.
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

/// Resolves `.` and `..` and joins slashes, as the server does before it routes (RFC 3986 §5.2.4).
fn normalise(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut is_folder = false;
    for segment in path.split(|byte| *byte == b'/') {
        is_folder = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let mut whole = Vec::with_capacity(path.len());
    for segment in kept {
        whole.push(b'/');
        whole.extend_from_slice(segment);
    }
    if is_folder || whole.is_empty() {
        whole.push(b'/');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service routes by the rewritten path, and by what the client sent where there is no `rewrite` (issue 10).
    #[test]
    fn a_rewritten_path_is_followed_and_nothing_else_is_changed() {
        for (sent, routed, expected) in [
            ("/a?b=c", "/a", "/a?b=c"),
            ("/a%20b/./c//d?x", "/a b/c/d", "/a%20b/./c//d?x"),
            ("/a/b/..", "/a/", "/a/b/.."),
            ("/a/b/.", "/a/b/", "/a/b/."),
            ("/%7Ea", "/~a", "/%7Ea"),
            ("/..", "/", "/.."),
            ("*", "*", "*"),
            ("/old?b=%20", "/new x", "/new%20x?b=%20"),
            ("/old", "/100%", "/100%25"),
            ("/a%2fb", "/a/b", "/a%2fb"),
            ("/a", "", "/a"),
        ] {
            let found = follow(sent.as_bytes(), routed.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{sent}");
        }
    }
}
