//! Path normalisation: what an escaped, dotted, slashed path really names.
//!
//! Routing, static files and applications all see the one result, so none of them can be talked past another. Escapes are
//! decoded once and first; a decoded `/` or `.` counts as one, so no `..` survives in any spelling.

/// Why a path is refused (400).
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// `%` is not followed by two hexadecimal digits.
    #[error("invalid percent-encoding in path")]
    Escape,
    /// `%00`.
    #[error("NUL in path")]
    Nul,
    /// It does not begin with `/`.
    #[error("path does not begin with `/`")]
    Relative,
    /// `..` above the root.
    #[error("path climbs above the root")]
    AboveRoot,
}

/// Decodes `raw` (a path without query), removes `.` and `..` segments, and merges slashes.
///
/// Returns `Ok(false)` if `raw` is already in that form: then `out` is left alone and nothing was allocated. Otherwise `out`
/// is replaced by the result.
///
/// # Errors
/// Any [`PathError`]; `out` is unspecified then.
pub fn normalise_path(raw: &[u8], out: &mut Vec<u8>) -> Result<bool, PathError> {
    if raw.first() != Some(&b'/') {
        return Err(PathError::Relative);
    }
    if is_normal(raw) {
        return Ok(false);
    }
    out.clear();
    out.reserve(raw.len());
    let mut rest = raw;
    loop {
        let (byte, tail) = match rest {
            [] => break,
            [b'%', high, low, tail @ ..] => (unescape(*high, *low)?, tail),
            [b'%', ..] => return Err(PathError::Escape),
            [byte, tail @ ..] => (*byte, tail),
        };
        rest = tail;
        if byte == 0 {
            return Err(PathError::Nul);
        }
        if byte == b'/' {
            end_segment(out)?;
        } else {
            out.push(byte);
        }
    }
    if out.ends_with(b"/.") || out.ends_with(b"/..") {
        end_segment(out)?;
    }
    Ok(true)
}

/// Writes the `/` after a segment; a segment of `.` or nothing is dropped with it, `..` takes its parent along.
fn end_segment(out: &mut Vec<u8>) -> Result<(), PathError> {
    if out.ends_with(b"/..") {
        out.truncate(out.len() - 3);
        let parent = memchr::memrchr(b'/', out).ok_or(PathError::AboveRoot)?;
        out.truncate(parent + 1);
    } else if out.ends_with(b"/.") {
        out.truncate(out.len() - 1);
    } else if out.last() != Some(&b'/') {
        out.push(b'/');
    }
    Ok(())
}

fn unescape(high: u8, low: u8) -> Result<u8, PathError> {
    Ok(hex_value(high).ok_or(PathError::Escape)? << 4 | hex_value(low).ok_or(PathError::Escape)?)
}

/// The value of one hexadecimal digit.
pub(crate) const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// True if nothing has to be done: no escape, no NUL, and no `/` followed by `/` or `.`.
fn is_normal(raw: &[u8]) -> bool {
    let mut previous = 0;
    for &byte in raw {
        let ordinary = match byte {
            b'%' | 0 => false,
            b'/' | b'.' => previous != b'/',
            _ => true,
        };
        if !ordinary {
            return false;
        }
        previous = byte;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(raw: &str) -> Result<String, PathError> {
        let mut out = Vec::new();
        Ok(match normalise_path(raw.as_bytes(), &mut out)? {
            true => String::from_utf8(out).unwrap(),
            false => raw.to_owned(),
        })
    }

    #[test]
    fn paths_are_decoded_and_resolved() {
        for (raw, expected) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("//", "/"),
            ("///a////b//", "/a/b/"),
            ("/.", "/"),
            ("/./", "/"),
            ("/a/.", "/a/"),
            ("/a/./b", "/a/b"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a/b/../../c", "/c"),
            ("/a//../b", "/b"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a/...", "/a/..."),
            ("/a/..b", "/a/..b"),
            ("/a/.b.", "/a/.b."),
            ("/a./b", "/a./b"),
            ("/a../b", "/a../b"),
            ("/%61", "/a"),
            ("/a%2Fb", "/a/b"),
            ("/a%2f%2fb", "/a/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/a/x%2f..%2fb", "/a/b"),
            ("/%252e%252e/a", "/%2e%2e/a"),
            ("/%3f%23", "/?#"),
            ("/a+b%20c", "/a+b c"),
            ("/%D0%9F", "/П"),
            ("/%0d%0a", "/\r\n"),
        ] {
            assert_eq!(normal(raw).as_deref(), Ok(expected), "{raw}");
        }
    }

    #[test]
    fn bad_paths_are_refused() {
        for (raw, expected) in [
            ("", PathError::Relative),
            ("a", PathError::Relative),
            ("%2fa", PathError::Relative),
            ("/%", PathError::Escape),
            ("/%4", PathError::Escape),
            ("/%4g", PathError::Escape),
            ("/%g4", PathError::Escape),
            ("/%u0041", PathError::Escape),
            ("/a%00b", PathError::Nul),
            ("/..", PathError::AboveRoot),
            ("/../", PathError::AboveRoot),
            ("/../a", PathError::AboveRoot),
            ("/a/../..", PathError::AboveRoot),
            ("/a/../../b", PathError::AboveRoot),
            ("/%2e%2e/a", PathError::AboveRoot),
            ("/..%2fa", PathError::AboveRoot),
            ("//../a", PathError::AboveRoot),
        ] {
            assert_eq!(normal(raw), Err(expected), "{raw}");
        }
    }

    #[test]
    fn a_plain_path_is_not_copied() {
        let mut out = Vec::new();
        assert_eq!(
            normalise_path(b"/wp-content/themes/style.min.css", &mut out),
            Ok(false)
        );
        assert_eq!(out.capacity(), 0);
    }
}
