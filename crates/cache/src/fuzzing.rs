//! The oracle of the fuzz target for metadata of the cache, which runs under `cargo fuzz` (`fuzz/`) and under proptest.
//!
//! It panics when an invariant is broken: what is read from disk is what was written, no other bytes are accepted, a response that forbids
//! storing is not stored, and a response is used only for requests like its own.

#![allow(clippy::panic, missing_docs)] // oracles speak by panicking

use bytes::Bytes;
use tutti_http::FieldLines;

use crate::disk::format::{FileHead, Geometry, RECORD_HEAD_BYTES, RecordHead, SegmentHead};
use crate::disk::metadata;
use crate::{
    ClockReading, Defaults, Directives, Freshness, Key, NotStored, Stored, TimedResponse, Vary,
    is_cookie_named, judge, overrides_method,
};

const SECRET: [u8; 32] = [7; 32];

/// The arrival time of all responses here; any value will do.
const NOW: u64 = 1_700_000_000_000;

/// The same time on both clocks.
const AT: ClockReading = ClockReading {
    steady: NOW,
    wall: NOW,
};

/// Treats any bytes as metadata, and as the fields of a response and its request, one a line.
pub fn metadata(bytes: &[u8]) {
    of_disk(bytes);
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let mut fields = FieldLines::new();
    for line in rest.split(|&byte| byte == b'\n') {
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let (name, value) = (parts.next(), parts.next());
        // Lines that are not valid fields are skipped.
        let _ = fields.try_push(
            name.unwrap_or_default(),
            value.unwrap_or_default().trim_ascii(),
        );
    }
    of_response(*first, &fields);
}

fn of_disk(bytes: &[u8]) {
    if let Some(head) = FileHead::decode(bytes) {
        assert!(bytes.starts_with(&head.encode()));
    }
    // These bytes were not written with this secret.
    assert_eq!(SegmentHead::decode(bytes, &SECRET, 1), None);
    let segment = SegmentHead {
        sequence: bytes.len() as u64,
        drawn: [9; 16],
    };
    let seal = segment.seal(&SECRET, 1);
    if let Some(head) = RecordHead::decode(bytes) {
        let metadata = bytes.get(RECORD_HEAD_BYTES..).unwrap_or_default();
        let end = metadata.len().min(head.metadata as usize);
        assert!(!head.seals(&seal, 0, metadata.get(..end).unwrap_or_default()));
    }
    if let Some(written) =
        metadata::read(bytes, Bytes::new(), AT).and_then(|one| metadata::write(&one, AT))
    {
        // Encoding is unambiguous. The bytes may contain a response from the future.
        let again =
            metadata::read(&written, Bytes::new(), AT).and_then(|one| metadata::write(&one, AT));
        assert_eq!(again.as_deref(), Some(&*written));
    }
    let size = bytes
        .iter()
        .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let geometry = Geometry::new(size, u64::from(bytes.first().copied().unwrap_or(0)) << 20);
    assert!(geometry.segments == 0 || geometry.start(geometry.segments) <= size.max(4096));
}

fn of_response(first: u8, fields: &FieldLines) {
    let directives = Directives::of(fields);
    let answer = TimedResponse {
        status: 200,
        fields,
        asked: NOW - 1000,
        received: NOW,
        time_of_day: NOW,
        is_authorized: first & 1 != 0,
        has_cookies: first & 2 != 0,
    };
    let defaults = Defaults {
        guesses: first & 4 != 0,
        ..Defaults::default()
    };
    let values = |name: &[u8]| {
        let all: Vec<_> = fields.get_all(name).collect();
        Some(all.join(&b", "[..]))
    };
    for (name, value) in fields {
        overrides_method(name);
        is_cookie_named(value, |name| !name.is_empty());
    }
    let pairs = || fields.iter();
    let key = Key::new(b"http://a/".to_vec(), b"one", b"", pairs());
    assert_eq!(key, Key::new(b"http://a/".to_vec(), b"one", b"", pairs()));
    assert_ne!(key, Key::new(b"http://a/".to_vec(), b"two", b"", pairs()));
    let judged = judge(&answer, &defaults);
    check(&answer, &directives, judged.as_ref());
    let Some(vary) = Vary::of(fields, values) else {
        return;
    };
    assert!(vary.matches(values), "{vary:?}");
    let Ok(freshness) = judged else {
        return;
    };
    let tags = ["Surrogate-Key".to_owned(), "Cache-Tag".to_owned()];
    let stored = Stored::new(key, vary, (200, fields.clone()), freshness, &tags);
    let Some(written) = metadata::write(&stored, AT) else {
        return;
    };
    let read = metadata::read(&written, Bytes::new(), AT);
    let Some(read) = read else {
        panic!("written and not read: {stored:?}");
    };
    assert!(read.vary.matches(values) && read.key == stored.key);
    assert_eq!(read.freshness, stored.freshness);
    assert_eq!((read.fields, read.tags), (stored.fields, stored.tags));
    // With one bit changed, it must be rejected.
    let cut = written.len().saturating_sub(1);
    assert!(metadata::read(written.get(..cut).unwrap_or_default(), Bytes::new(), AT).is_none());
}

fn check(
    answer: &TimedResponse<'_>,
    directives: &Directives,
    judged: Result<&Freshness, &NotStored>,
) {
    let Ok(freshness) = judged else {
        return;
    };
    assert!(!directives.private);
    assert!(!directives.no_store || directives.must_understand);
    assert!(answer.fields.get_all(b"Set-Cookie").next().is_none());
    assert!(!answer.is_authorized || freshness.allows_authorized);
    assert!(!answer.has_cookies || !freshness.is_assumed);
    assert!(!directives.no_cache || freshness.always_validates);
    if directives.must_revalidate {
        assert_eq!(
            (freshness.stale_while_revalidate, freshness.stale_if_error),
            (0, 0)
        );
    }
    // RFC 9111 §4.2.3: the age never decreases.
    assert!(freshness.age(NOW + 1000) >= freshness.age(NOW));
    assert!(freshness.remaining(NOW + 1000) <= freshness.remaining(NOW));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::metadata;

    /// Field lines that caches evaluate, many of them almost valid.
    fn lines() -> impl Strategy<Value = Vec<u8>> {
        let words = prop::sample::select(vec![
            "Cache-Control: ",
            "CDN-Cache-Control: ",
            "Vary: ",
            "Age: ",
            "Expires: ",
            "Date: Tue, 15 Nov 1994 08:12:31 GMT\n",
            "Forwarded: ",
            "X_Forwarded_Host: ",
            "Surrogate-Key: ",
            "ETag: \"a\"\n",
            "max-age=60",
            "s-maxage=1",
            "no-store",
            "private",
            "no-cache=\"x, y\"",
            "must-revalidate",
            "must-understand",
            "stale-while-revalidate=4294967296",
            "Accept-Encoding",
            "*",
            ", ",
            "\n",
            "\"",
            "a",
        ]);
        prop::collection::vec(words, 0..20).prop_map(|words| words.concat().into_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            metadata(&bytes);
        }

        #[test]
        fn what_caches_look_at(first in 0..8_u8, lines in lines()) {
            metadata(&[&[first], &*lines].concat());
        }
    }
}
