//! Paths: what is encoded in them, and their relative references.

use crate::fields::Decoded;

/// `%XX` to bytes; `+` is a plus sign in a path.
pub(crate) fn percent_decode(text: &str) -> Decoded {
    percent_encoding::percent_decode_str(text).collect()
}

/// Appends a request target as `$request_uri` has it: relative references resolved and slashes joined, everything else as it came.
pub(crate) fn request_uri(target: &[u8], out: &mut Vec<u8>) {
    let end = memchr::memchr(b'?', target).unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let is_relative = |window: &[u8]| matches!(window, b"//" | b"/." | b"%2");
    if path.first() == Some(&b'/') && path.windows(2).any(is_relative) {
        out.extend_from_slice(&normalise(&plain_dots(path)));
    } else {
        out.extend_from_slice(path);
    }
    out.extend_from_slice(query);
}

/// `%2E` is a period (RFC 3986 §6.2.2.2).
fn plain_dots(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [b'2', b'e' | b'E', after @ ..]) => {
                plain.push(b'.');
                rest = after;
            }
            (byte, _) => plain.push(*byte),
        }
    }
    plain
}

/// Resolves `.` and `..`, joins slashes; the result begins with `/`.
pub(crate) fn normalise(raw: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(raw.len() + 1);
    let mut segments = raw.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"." | b"" => {}
            b".." => {
                let parent = memchr::memrchr(b'/', &path).unwrap_or(0);
                path.truncate(parent);
            }
            segment => {
                path.push(b'/');
                path.extend_from_slice(segment);
                continue;
            }
        }
        if is_last {
            path.push(b'/');
        }
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
}

/// The bytes that may stand in a path as they are: `pchar` and `/` (RFC 3986 §3.3).
pub(crate) fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_target_loses_only_its_relative_references() {
        for (target, uri) in [
            ("/a%20b?c=%20d", "/a%20b?c=%20d"),
            ("/a/./b/../c//d?x=/../y//", "/a/c/d?x=/../y//"),
            ("/a/%2e%2E/%C3%96/?", "/%C3%96/?"),
            ("/%252e%252e/a", "/%252e%252e/a"),
            ("/.well-known/a%2Fb", "/.well-known/a%2Fb"),
            ("*", "*"),
            ("", ""),
        ] {
            let mut out = Vec::new();
            request_uri(target.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), uri, "{target}");
        }
    }

    #[test]
    fn paths_are_normalised() {
        for (raw, path) in [
            ("/app//v1/x", "/app/v1/x"),
            ("/a/./b/../c", "/a/c"),
            ("/../../etc", "/etc"),
            ("x", "/x"),
            ("", "/"),
            ("/a/", "/a/"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/.", "/"),
            ("//", "/"),
        ] {
            assert_eq!(
                String::from_utf8_lossy(&normalise(raw.as_bytes())),
                path,
                "{raw}"
            );
        }
    }
}
