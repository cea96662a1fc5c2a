//! Arguments and cookies: the named values inside a query string and a `Cookie` field.
//!
//! Values are passed as slices of the input, decoded into a buffer on the stack only if necessary.

use percent_encoding::percent_decode;
use smallvec::SmallVec;
use tutti_http::cookie_pairs;

/// Decoded text; longer text goes to the heap.
pub(crate) type Decoded = SmallVec<[u8; 256]>;

/// Calls `each` with every argument of this (decoded) name, decoded, until it returns false.
pub(crate) fn each_argument(query: &[u8], name: &[u8], mut each: impl FnMut(&[u8]) -> bool) {
    let mut buffer = Decoded::new();
    for pair in query.split(|byte| *byte == b'&') {
        let (key, value) = halves(pair);
        if !same(key, name) {
            continue;
        }
        let value = if is_encoded(value) {
            buffer.clear();
            decode(value, &mut buffer);
            &buffer
        } else {
            value
        };
        if !each(value) {
            return;
        }
    }
}

/// The value of the first argument of this name (lower case), as nginx finds it: names are compared in any case, and nothing is decoded.
pub(crate) fn raw_argument<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    let mut pairs = query.split(|byte| *byte == b'&');
    pairs.find_map(|pair| {
        let end = memchr::memchr(b'=', pair)?;
        let (key, value) = pair.split_at(end);
        key.eq_ignore_ascii_case(name)
            .then(|| value.get(1..).unwrap_or_default())
    })
}

/// Calls `each` with name and value of every argument, both decoded.
pub(crate) fn all_arguments(query: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) {
    for pair in query
        .split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
    {
        let (name, value) = halves(pair);
        let (mut name_decoded, mut value_decoded) = (Decoded::new(), Decoded::new());
        decode(name, &mut name_decoded);
        decode(value, &mut value_decoded);
        each(&name_decoded, &value_decoded);
    }
}

/// Calls `each` with name and value of every cookie in a `Cookie` field.
pub(crate) fn all_cookies(field: &[u8], each: &mut dyn FnMut(&[u8], &[u8])) {
    for pair in cookie_pairs(field) {
        let (name, value) = halves(pair);
        if !name.is_empty() {
            each(name, value);
        }
    }
}

/// Splits at the first `=`.
fn halves(pair: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'=', pair) {
        Some(position) => (
            pair.get(..position).unwrap_or_default(),
            pair.get(position + 1..).unwrap_or_default(),
        ),
        None => (pair, b""),
    }
}

/// Calls `each` with every cookie of this name in a `Cookie` field.
pub(crate) fn each_cookie(field: &[u8], name: &[u8], mut each: impl FnMut(&[u8])) {
    for pair in cookie_pairs(field) {
        if let Some(value) = pair
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(b"="))
        {
            each(value);
        }
    }
}

/// True if the text contains an encoded character.
pub(crate) fn is_encoded(text: &[u8]) -> bool {
    memchr::memchr2(b'%', b'+', text).is_some()
}

/// Appends `text` with `%XX` replaced by the byte and `+` by a space; a `%` without two digits is kept.
pub(crate) fn decode(text: &[u8], decoded: &mut Decoded) {
    let mut parts = text.split(|byte| *byte == b'+');
    decoded.extend(parts.next().into_iter().flat_map(percent_decode));
    for part in parts {
        decoded.push(b' ');
        decoded.extend(percent_decode(part));
    }
}

fn same(key: &[u8], name: &[u8]) -> bool {
    if !is_encoded(key) {
        return key == name;
    }
    let mut decoded = Decoded::new();
    decode(key, &mut decoded);
    decoded.as_slice() == name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(query: &str, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        each_argument(query.as_bytes(), name.as_bytes(), |value| {
            found.push(String::from_utf8_lossy(value).into_owned());
            true
        });
        found
    }

    #[test]
    fn arguments_are_decoded() {
        assert_eq!(arguments("a=1&b=2&a=x+y%21", "a"), ["1", "x y!"]);
        assert_eq!(arguments("%61=1&a", "a"), ["1", ""]);
        assert_eq!(arguments("a=50%&a=%4", "a"), ["50%", "%4"]);
        assert!(arguments("ab=1", "a").is_empty());
    }

    #[test]
    fn cookies_are_found_among_others() {
        let mut found = Vec::new();
        each_cookie(
            b"a=1; session=x=y;session=; asession=2",
            b"session",
            |value| found.push(value.to_vec()),
        );
        assert_eq!(found, [b"x=y".to_vec(), b"".to_vec()]);
    }
}
