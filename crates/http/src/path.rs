//! The path of a request: parsed once from the target, in the two forms that all receivers get.
//!
//! [`RequestPath`] is the only path for conditions, files, caches, authorization subrequests, applications and servers: decoded
//! ([`RequestPath::path`]) and encoded ([`RequestPath::target`]). Decoding the encoded form yields the decoded one, and neither contains
//! anything that a receiver could resolve: no dot segment, no repeated slash, no escape of an unreserved character. A target for which
//! removing dot segments before and after decoding gives different results has no such pair, and is refused ([`PathError`]).

use memchr::{memchr, memrchr};

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
    /// Dot segments that appear, or change their meaning, only after decoding; or with a parameter (`/..;/`), which some servers remove
    /// first.
    #[error("encoded dot segment in path")]
    DotSegment,
    /// An encoded slash that [`SlashPolicy`] does not accept.
    #[error("encoded slash in path")]
    Slash,
    /// A backslash, encoded or not, which some servers treat as a slash.
    #[error("backslash in path")]
    Backslash,
}

/// Which paths are accepted, and how. The defaults leave no path that two receivers could interpret differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRules {
    /// Merges repeated slashes.
    pub merge_slashes: bool,
    /// Which `%2F` are accepted.
    pub encoded_slashes: SlashPolicy,
    /// `\` and `%5C` are accepted as characters of a name.
    pub backslashes: bool,
    /// Decodes escapes of unreserved characters (`%61`) in the encoded form, too: they are equivalent (RFC 3986 §6.2.2.2).
    pub decode_unreserved: bool,
}

/// Which encoded slashes (`%2F`) are accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlashPolicy {
    /// Only between two names: `/group%2Fproject`.
    #[default]
    Plain,
    /// All: after decoding, the path may have empty segments (`/queues/%2F/name`).
    Any,
    /// None.
    Refuse,
}

impl PathRules {
    /// For a target that has been checked before: it keeps its meaning.
    pub const CHECKED: Self = Self {
        merge_slashes: false,
        encoded_slashes: SlashPolicy::Any,
        backslashes: true,
        decode_unreserved: false,
    };
}

impl Default for PathRules {
    fn default() -> Self {
        Self {
            merge_slashes: true,
            encoded_slashes: SlashPolicy::Plain,
            backslashes: false,
            decode_unreserved: true,
        }
    }
}

/// The path and the query of a request, the same for every receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestPath<'a> {
    path: &'a [u8],
    target: &'a [u8],
    query: Option<&'a [u8]>,
}

impl<'a> RequestPath<'a> {
    pub(crate) fn new(path: &'a [u8], target: &'a [u8], query: Option<&'a [u8]>) -> Self {
        Self {
            path,
            target,
            query,
        }
    }

    /// The decoded path, for conditions. Begins with `/`; `*` for `OPTIONS *`, empty for `CONNECT`.
    pub fn path(&self) -> &'a [u8] {
        self.path
    }

    /// The encoded path with the query: for receivers that take a target.
    pub fn target(&self) -> &'a [u8] {
        self.target
    }

    /// The encoded path, without the query.
    pub fn encoded_path(&self) -> &'a [u8] {
        let end = memchr(b'?', self.target).unwrap_or(self.target.len());
        self.target.get(..end).unwrap_or_default()
    }

    /// The undecoded part after the first `?`; `None` without `?`.
    pub fn query(&self) -> Option<&'a [u8]> {
        self.query
    }
}

/// A [`RequestPath`] that owns its bytes: for a request whose path the configuration replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedPath {
    path: Vec<u8>,
    target: Vec<u8>,
    query_at: Option<usize>,
}

impl OwnedPath {
    /// Parses a target in origin form.
    pub fn parse(target: &[u8], rules: &PathRules) -> Result<Self, PathError> {
        let end = memchr(b'?', target).unwrap_or(target.len());
        let (raw, query) = target.split_at(end);
        let mut room = Room::default();
        let forms = room.read(raw, rules)?;
        let encoded: &[u8] = if forms.is_encoded_new {
            &room.encoded
        } else {
            raw
        };
        let path: &[u8] = if forms.is_decoded_new {
            &room.decoded
        } else {
            raw
        };
        Ok(Self {
            path: path.to_vec(),
            target: [encoded, query].concat(),
            query_at: (!query.is_empty()).then(|| encoded.len() + 1),
        })
    }

    /// Parses a target made by the configuration. If a client could not send it, it is taken as decoded: `..` stays below the root.
    pub fn made(target: &[u8], merge_slashes: bool) -> Self {
        let rules = PathRules {
            merge_slashes,
            decode_unreserved: true,
            ..PathRules::CHECKED
        };
        Self::parse(target, &rules).unwrap_or_else(|_| {
            let end = memchr(b'?', target).unwrap_or(target.len());
            let (raw, query) = target.split_at(end);
            let path = below_root(&decode_leniently(raw));
            let mut made = Vec::with_capacity(target.len());
            encode_path(&path, &mut made);
            let query_at = (!query.is_empty()).then_some(made.len() + 1);
            made.extend_from_slice(query);
            Self {
                path,
                target: made,
                query_at,
            }
        })
    }

    /// The path, borrowed.
    pub fn as_path(&self) -> RequestPath<'_> {
        RequestPath {
            path: &self.path,
            target: &self.target,
            query: self.query_at.and_then(|at| self.target.get(at..)),
        }
    }

    /// A decoded path, and the query of the request: for a share with a prefix.
    pub fn decoded(path: Vec<u8>, query: Option<&[u8]>) -> Self {
        let mut target = Vec::with_capacity(path.len());
        encode_path(&path, &mut target);
        let query_at = query.map(|query| {
            target.push(b'?');
            let at = target.len();
            target.extend_from_slice(query);
            at
        });
        Self {
            path,
            target,
            query_at,
        }
    }
}

/// Memory for the two forms of a path, reused for the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    pub(crate) decoded: Vec<u8>,
    pub(crate) encoded: Vec<u8>,
}

/// Which forms of a path differ from the one received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forms {
    pub(crate) is_decoded_new: bool,
    pub(crate) is_encoded_new: bool,
}

impl Room {
    /// Parses `raw`, a path without query. An ordinary one is scanned once, and nothing is copied.
    pub(crate) fn read(&mut self, raw: &[u8], rules: &PathRules) -> Result<Forms, PathError> {
        if raw.first() != Some(&b'/') {
            return Err(PathError::Relative);
        }
        if is_ordinary(raw) {
            return Ok(Forms::default());
        }
        self.decoded.clear();
        let has_equal = decode(raw, rules, &mut self.decoded)?;
        let has_segments = has_removable_segment(raw);
        if !has_equal && !has_segments {
            // Only necessary escapes, and nothing to remove.
            return Ok(Forms {
                is_decoded_new: self.decoded != raw,
                is_encoded_new: false,
            });
        }
        self.resolve(raw, rules)?;
        Ok(Forms {
            is_decoded_new: self.decoded != raw,
            is_encoded_new: self.encoded != raw,
        })
    }

    /// Removes what may be removed, first from the received path, then from the decoded one; both results must agree.
    fn resolve(&mut self, raw: &[u8], rules: &PathRules) -> Result<(), PathError> {
        let merged;
        let raw = match rules.merge_slashes {
            true => {
                merged = merge_slashes(raw);
                merged.as_slice()
            }
            false => raw,
        };
        self.decoded.clear();
        decode(raw, rules, &mut self.decoded)?;
        let expected = remove_dot_segments(&self.decoded)?;
        let resolved = remove_dot_segments(raw)?;
        self.encoded.clear();
        match rules.decode_unreserved {
            true => decode_unreserved(&resolved, &mut self.encoded),
            false => self.encoded.extend_from_slice(&resolved),
        }
        self.decoded.clear();
        decode(&self.encoded, rules, &mut self.decoded)?;
        let is_parameter = |segment: &[u8]| {
            let name = segment.split(|byte| *byte == b';').next();
            segment.contains(&b';') && matches!(name, Some(b"." | b".."))
        };
        if self.decoded != expected
            || has_dot_segment(&self.decoded)
            || self.decoded.split(|byte| *byte == b'/').any(is_parameter)
        {
            return Err(PathError::DotSegment);
        }
        match rules.encoded_slashes {
            SlashPolicy::Any => Ok(()),
            SlashPolicy::Plain if !has_empty_segment(&self.encoded) => Ok(()),
            SlashPolicy::Refuse if escape_of_slash(&self.encoded).is_none() => Ok(()),
            _ => Err(PathError::Slash),
        }
    }
}

/// True if nothing has to be done: no escape, no NUL, no backslash, and no `/` followed by `/` or `.`.
fn is_ordinary(raw: &[u8]) -> bool {
    let mut previous = 0;
    for &byte in raw {
        let ordinary = match byte {
            b'%' | 0 | b'\\' => false,
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

/// Decodes `raw`. True if it has an escape of a slash, or of an unreserved character (RFC 3986 §6.2.2.2).
fn decode(raw: &[u8], rules: &PathRules, out: &mut Vec<u8>) -> Result<bool, PathError> {
    out.reserve(raw.len());
    let mut has_equal = false;
    let mut rest = raw;
    loop {
        let (byte, tail) = match rest {
            [] => return Ok(has_equal),
            [b'%', high, low, tail @ ..] => {
                let byte = unescape(*high, *low).ok_or(PathError::Escape)?;
                has_equal |= byte == b'/' || is_unreserved(byte);
                (byte, tail)
            }
            [b'%', ..] => return Err(PathError::Escape),
            [byte, tail @ ..] => (*byte, tail),
        };
        rest = tail;
        match byte {
            0 => return Err(PathError::Nul),
            b'\\' if !rules.backslashes => return Err(PathError::Backslash),
            _ => out.push(byte),
        }
    }
}

/// Decodes only the escapes of unreserved characters.
fn decode_unreserved(raw: &[u8], out: &mut Vec<u8>) {
    out.reserve(raw.len());
    let mut rest = raw;
    while let [first, after @ ..] = rest {
        rest = after;
        if let (b'%', [high, low, after @ ..]) = (first, after)
            && let Some(byte) = unescape(*high, *low).filter(|byte| is_unreserved(*byte))
        {
            out.push(byte);
            rest = after;
        } else {
            out.push(*first);
        }
    }
}

/// Decodes valid escapes, and keeps the rest; removes NUL.
fn decode_leniently(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let [first, after @ ..] = rest {
        rest = after;
        let mut byte = *first;
        if let (b'%', [high, low, after @ ..]) = (first, after)
            && let Some(value) = unescape(*high, *low)
        {
            byte = value;
            rest = after;
        }
        if byte != 0 {
            out.push(byte);
        }
    }
    out
}

/// Removes `.` and `..` segments (RFC 3986 §5.2.4) from a path that begins with `/`; keeps empty ones.
fn remove_dot_segments(path: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut out = Vec::with_capacity(path.len());
    let mut segments = path
        .get(1..)
        .unwrap_or_default()
        .split(|byte| *byte == b'/')
        .peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => {
                let parent = memrchr(b'/', &out).ok_or(PathError::AboveRoot)?;
                out.truncate(parent);
            }
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
                continue;
            }
        }
        if is_last {
            out.push(b'/');
        }
    }
    Ok(out)
}

/// Resolves `.` and `..` without going above the root, and merges slashes; the result begins with `/`.
fn below_root(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + 1);
    let mut segments = path.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            b"." | b"" => {}
            b".." => out.truncate(memrchr(b'/', &out).unwrap_or(0)),
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
                continue;
            }
        }
        if segments.peek().is_none() {
            out.push(b'/');
        }
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

fn merge_slashes(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for &byte in path {
        if byte != b'/' || out.last() != Some(&b'/') {
            out.push(byte);
        }
    }
    out
}

fn has_dot_segment(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .any(|segment| matches!(segment, b"." | b".."))
}

/// True if the path has a repeated slash or a segment that begins with a dot: then `resolve` is needed.
fn has_removable_segment(path: &[u8]) -> bool {
    path.windows(2).any(|pair| matches!(pair, b"//" | b"/."))
}

/// True if an encoded slash is next to another slash, so that decoding yields an empty segment.
fn has_empty_segment(encoded: &[u8]) -> bool {
    let mut from = 0;
    while let Some(at) = escape_of_slash(encoded.get(from..).unwrap_or_default()) {
        let (before, after) = (encoded.get(..from + at), encoded.get(from + at + 3..));
        let is_after_slash = before.is_some_and(|before| before.ends_with(b"/"));
        let is_before_slash =
            after.is_some_and(|after| after.starts_with(b"/") || escape_of_slash(after) == Some(0));
        if is_after_slash || is_before_slash {
            return true;
        }
        from += at + 3;
    }
    false
}

/// The position of the first `%2F`.
fn escape_of_slash(encoded: &[u8]) -> Option<usize> {
    encoded
        .windows(3)
        .position(|escape| matches!(escape, b"%2F" | b"%2f"))
}

/// Appends `path`, encoding every byte that is not permitted in a path (RFC 3986 §3.3).
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    encode(path, out, |byte| {
        is_unreserved(byte) || b"!$&'()*+,;=:@/".contains(&byte)
    });
}

/// The encoded path of a folder, for a redirect to it: with a slash at its end, and one at its front, where two would name another host
/// (RFC 3986 §4.2).
pub fn folder_location(path: &[u8]) -> Vec<u8> {
    let start = path.iter().position(|byte| *byte != b'/');
    let rest = start.and_then(|start| path.get(start..));
    let mut encoded = b"/".to_vec();
    if let Some(rest) = rest {
        encode_path(rest, &mut encoded);
        encoded.push(b'/');
    }
    encoded
}

/// Appends `value` as the name or the value of an argument in a query, encoding every byte that could end it.
pub fn encode_argument(value: &[u8], out: &mut Vec<u8>) {
    encode(value, out, |byte| {
        is_unreserved(byte) || b"!$'()*,:@/?".contains(&byte)
    });
}

/// Appends the text of a target, encoding every byte that is not permitted in one: existing escapes are kept.
pub fn encode_written(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let is_escape =
            matches!((first, after), (b'%', [high, low, ..]) if unescape(*high, *low).is_some());
        encode(&[*first], out, |byte| {
            is_escape || is_unreserved(byte) || b"!$&'()*+,;=:@/?".contains(&byte)
        });
        rest = after;
    }
}

/// Appends `bytes`, encoding every byte for which `stays` is false as `%XX` (RFC 3986 §2.1).
pub fn encode(bytes: &[u8], out: &mut Vec<u8>, stays: impl Fn(u8) -> bool) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let digit = |nibble: u8| {
        DIGITS
            .get(usize::from(nibble & 15))
            .copied()
            .unwrap_or_default()
    };
    for &byte in bytes {
        match stays(byte) {
            true => out.push(byte),
            false => out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte)]),
        }
    }
}

/// RFC 3986 §2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn unescape(high: u8, low: u8) -> Option<u8> {
    Some(hex_value(high)? << 4 | hex_value(low)?)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(target: &str, rules: &PathRules) -> Result<(String, String), PathError> {
        let path = OwnedPath::parse(target.as_bytes(), rules)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let path = path.as_path();
        Ok((text(path.path()), text(path.target())))
    }

    #[test]
    fn the_location_of_a_folder_names_no_other_host() {
        for (path, location) in [("/a b", "/a%20b/"), ("//host/a", "/host/a/"), ("//", "/")] {
            assert_eq!(folder_location(path.as_bytes()), location.as_bytes());
        }
    }

    #[test]
    fn a_path_has_one_meaning_in_both_forms() {
        for (sent, decoded, encoded) in [
            ("/", "/", "/"),
            ("/a/b?c=/../d//", "/a/b", "/a/b?c=/../d//"),
            ("/a/b/", "/a/b/", "/a/b/"),
            ("//", "/", "/"),
            ("//a", "/a", "/a"),
            ("///a////b//", "/a/b/", "/a/b/"),
            ("/.", "/", "/"),
            ("/./", "/", "/"),
            ("/a/.", "/a/", "/a/"),
            ("/a/./b", "/a/b", "/a/b"),
            ("/a/..", "/", "/"),
            ("/a/../", "/", "/"),
            ("/a/b/..", "/a/", "/a/"),
            ("/a/b/../c", "/a/c", "/a/c"),
            ("/a/b/../../c", "/c", "/c"),
            ("/a//../b", "/b", "/b"),
            ("/.well-known/x", "/.well-known/x", "/.well-known/x"),
            ("/a/...", "/a/...", "/a/..."),
            ("/a/..b", "/a/..b", "/a/..b"),
            ("/a./b", "/a./b", "/a./b"),
            ("/%61", "/a", "/a"),
            ("/%41%7e%2D", "/A~-", "/A~-"),
            ("/a%2eb", "/a.b", "/a.b"),
            ("/a/%2e%2e%2e", "/a/...", "/a/..."),
            ("/a%2Fb", "/a/b", "/a%2Fb"),
            ("/a%2fb%2Fc", "/a/b/c", "/a%2fb%2Fc"),
            ("/@scope%2fpkg", "/@scope/pkg", "/@scope%2fpkg"),
            ("/a%2f", "/a/", "/a%2f"),
            ("/%252e%252e/a", "/%2e%2e/a", "/%252e%252e/a"),
            ("/%3f%23", "/?#", "/%3f%23"),
            ("/a+b%20c", "/a+b c", "/a+b%20c"),
            ("/%D0%9F/%61", "/П/a", "/%D0%9F/a"),
            ("/a;b=c/d", "/a;b=c/d", "/a;b=c/d"),
            ("/..a;b", "/..a;b", "/..a;b"),
            ("/%0d%0a", "/\r\n", "/%0d%0a"),
        ] {
            let found = forms(sent, &PathRules::default());
            let expected = (decoded.to_owned(), encoded.to_owned());
            assert_eq!(found.as_ref(), Ok(&expected), "{sent}");
            // A checked path means the same when it is parsed again.
            for rules in [PathRules::default(), PathRules::CHECKED] {
                assert_eq!(forms(encoded, &rules), Ok(expected.clone()), "{sent}");
            }
        }
    }

    #[test]
    fn a_path_with_two_meanings_is_refused() {
        for (sent, expected) in [
            ("", PathError::Relative),
            ("a", PathError::Relative),
            ("%2fa", PathError::Relative),
            ("/%", PathError::Escape),
            ("/%4", PathError::Escape),
            ("/%4g", PathError::Escape),
            ("/%u0041", PathError::Escape),
            ("/a%00b", PathError::Nul),
            ("/..", PathError::AboveRoot),
            ("/../a", PathError::AboveRoot),
            ("/a/../../b", PathError::AboveRoot),
            ("//../a", PathError::AboveRoot),
            ("/%2e%2e/a", PathError::AboveRoot),
            ("/a/%2e%2E/b", PathError::DotSegment),
            ("/a/.%2e/b", PathError::DotSegment),
            ("/a/%2e/b", PathError::DotSegment),
            ("/a/%2e", PathError::DotSegment),
            ("/a/x%2f..%2fb", PathError::DotSegment),
            ("/admin/delete/7%2f..%2f..%2f..%2fx", PathError::DotSegment),
            ("/u/mallory/..%2f..%2fnews", PathError::DotSegment),
            ("/c/a/%2e%2e/../b", PathError::DotSegment),
            ("/x%2fy/../b", PathError::DotSegment),
            ("/public/..;/admin", PathError::DotSegment),
            ("/public/..;a=b/admin", PathError::DotSegment),
            ("/public/.%3b/admin", PathError::DotSegment),
            ("/a%2f/b", PathError::Slash),
            ("/%2fa", PathError::Slash),
            ("/a%2f%2fb", PathError::Slash),
            ("/api/queues/%2F/name", PathError::Slash),
            ("/a%5cb", PathError::Backslash),
            ("/a\\b", PathError::Backslash),
            ("/a/..%5cb", PathError::Backslash),
        ] {
            assert_eq!(forms(sent, &PathRules::default()), Err(expected), "{sent}");
        }
    }

    #[test]
    fn path_rules_permit_more_paths() {
        let slashes = |encoded_slashes| PathRules {
            encoded_slashes,
            ..PathRules::default()
        };
        let apart = PathRules {
            merge_slashes: false,
            ..PathRules::default()
        };
        let backslashes = PathRules {
            backslashes: true,
            ..PathRules::default()
        };
        let as_sent = PathRules {
            decode_unreserved: false,
            ..PathRules::default()
        };
        for (sent, rules, decoded, encoded) in [
            ("/q/%2F/n", slashes(SlashPolicy::Any), "/q///n", "/q/%2F/n"),
            (
                "/http:%2f%2fa//b",
                slashes(SlashPolicy::Any),
                "/http://a/b",
                "/http:%2f%2fa/b",
            ),
            ("/http://a/./b", apart, "/http://a/b", "/http://a/b"),
            ("//", apart, "//", "//"),
            ("/a%5Cb", backslashes, "/a\\b", "/a%5Cb"),
            ("/a/./%62%20", as_sent, "/a/b ", "/a/%62%20"),
            (
                "/a/./b%20",
                slashes(SlashPolicy::Refuse),
                "/a/b ",
                "/a/b%20",
            ),
        ] {
            let expected = (decoded.to_owned(), encoded.to_owned());
            assert_eq!(forms(sent, &rules), Ok(expected), "{sent}");
        }
        for (sent, rules, error) in [
            ("/a%2Fb", slashes(SlashPolicy::Refuse), PathError::Slash),
            (
                "/a%2F%2F..%2Fb",
                slashes(SlashPolicy::Any),
                PathError::DotSegment,
            ),
            ("/a//%2fb", apart, PathError::Slash),
        ] {
            assert_eq!(forms(sent, &rules), Err(error), "{sent}");
        }
    }

    #[test]
    fn a_target_that_is_made_stays_below_the_root() {
        for (made, path, target) in [
            ("/app//v1/x?y", "/app/v1/x", "/app/v1/x?y"),
            ("/../../etc", "/etc", "/etc"),
            ("x", "/x", "/x"),
            ("", "/", "/"),
            ("?a", "/", "/?a"),
            ("/a/..", "/", "/"),
            ("/a%2Fb/c", "/a/b/c", "/a%2Fb/c"),
            ("/a%2F../c%20d", "/c d", "/c%20d"),
            ("/100%", "/100%", "/100%25"),
            ("/a%zz%2", "/a%zz%2", "/a%25zz%252"),
            ("/a%00/%00", "/a/", "/a/"),
        ] {
            let found = OwnedPath::made(made.as_bytes(), true);
            let found = found.as_path();
            assert_eq!(String::from_utf8_lossy(found.path()), path, "{made}");
            assert_eq!(String::from_utf8_lossy(found.target()), target, "{made}");
        }
    }

    #[test]
    fn text_is_encoded_for_its_place() {
        fn encoded(encode: fn(&[u8], &mut Vec<u8>), text: &str) -> String {
            let mut out = Vec::new();
            encode(text.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        }
        for (text, path, argument, written) in [
            ("/aZ9-._~", "/aZ9-._~", "/aZ9-._~", "/aZ9-._~"),
            ("a=b&c+d;e", "a=b&c+d;e", "a%3Db%26c%2Bd%3Be", "a=b&c+d;e"),
            ("?#[]", "%3F%23%5B%5D", "?%23%5B%5D", "?%23%5B%5D"),
            ("%41%4g%", "%2541%254g%25", "%2541%254g%25", "%41%254g%25"),
            (
                "\r\n \"ä",
                "%0D%0A%20%22%C3%A4",
                "%0D%0A%20%22%C3%A4",
                "%0D%0A%20%22%C3%A4",
            ),
        ] {
            assert_eq!(encoded(encode_path, text), path, "{text}");
            assert_eq!(encoded(encode_argument, text), argument, "{text}");
            assert_eq!(encoded(encode_written, text), written, "{text}");
        }
    }

    #[test]
    fn an_ordinary_path_is_not_copied() {
        let mut room = Room::default();
        let path = b"/wp-content/themes/style.min.css";
        assert_eq!(room.read(path, &PathRules::default()), Ok(Forms::default()));
        assert_eq!((room.decoded.capacity(), room.encoded.capacity()), (0, 0));
    }
}
