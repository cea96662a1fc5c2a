//! The metadata of a response on disk: everything but its body.
//!
//! Times are times of day, because the file outlives the machine's monotonic clock.
//!
//! Metadata are checked although their seal was valid: they become heads of responses.

use bytes::Bytes;
use tutti_http::FieldLines;

use super::format::Reader;
use crate::clock::ClockReading;
use crate::freshness::Freshness;
use crate::key::Key;
use crate::stored::Stored;
use crate::vary::Vary;

const VALIDATES: u8 = 1;
const ASSUMED: u8 = 2;
const AUTHORIZED: u8 = 4;

/// Encodes the metadata of a response; `None`: a part of it is too long.
pub(crate) fn write(stored: &Stored, now: ClockReading) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    out.extend_from_slice(&stored.status.to_le_bytes());
    let freshness = &stored.freshness;
    for time in [
        now.wall_at(freshness.received),
        freshness.initial_age,
        freshness.lifetime,
        freshness.stale_while_revalidate,
        freshness.stale_if_error,
    ] {
        out.extend_from_slice(&time.to_le_bytes());
    }
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    out.push(
        flag(freshness.always_validates, VALIDATES)
            | flag(freshness.is_assumed, ASSUMED)
            | flag(freshness.allows_authorized, AUTHORIZED),
    );
    let mut put = |bytes: &[u8]| {
        out.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
        out.extend_from_slice(bytes);
        Some(())
    };
    put(&stored.key.text)?;
    put(&stored.key.identity)?;
    let counts = [
        stored.vary.pairs().count(),
        stored.tags.len(),
        stored.fields.len(),
    ];
    for count in counts {
        put(&u16::try_from(count).ok()?.to_le_bytes())?;
    }
    for (name, value) in stored.vary.pairs() {
        put(name)?;
        put(value)?;
    }
    for tag in &stored.tags {
        put(tag)?;
    }
    for (name, value) in &stored.fields {
        put(name)?;
        put(value)?;
    }
    Some(out)
}

/// Makes the response with these metadata and this body; `None`: they are damaged.
pub(crate) fn read(metadata: &[u8], body: Bytes, now: ClockReading) -> Option<Stored> {
    let mut reader = Reader(metadata);
    let status = reader.u16().filter(|status| (200..600).contains(status))?;
    let mut freshness = Freshness {
        received: reader.u64()?,
        initial_age: reader.u64()?,
        lifetime: reader.u64()?,
        stale_while_revalidate: reader.u64()?,
        stale_if_error: reader.u64()?,
        always_validates: false,
        is_assumed: false,
        allows_authorized: false,
    };
    let [flags] = reader.array()?;
    if flags & !(VALIDATES | ASSUMED | AUTHORIZED) != 0 {
        return None;
    }
    match now.steady_at(freshness.received) {
        Some(received) => freshness.received = received,
        None => freshness.expire(now.steady),
    }
    freshness.always_validates = flags & VALIDATES != 0;
    freshness.is_assumed = flags & ASSUMED != 0;
    freshness.allows_authorized = flags & AUTHORIZED != 0;
    let key = Key {
        text: text(&mut reader)?.into(),
        identity: text(&mut reader)?.into(),
    };
    let mut counts = [0; 3];
    for count in &mut counts {
        *count = u16::from_le_bytes(text(&mut reader)?.try_into().ok()?);
    }
    let [choices, tags, lines] = counts;
    let mut vary = Vec::new();
    for _ in 0..choices {
        vary.push((text(&mut reader)?.into(), text(&mut reader)?.into()));
    }
    let vary = Vary::of_pairs(vary)?;
    let tags: Option<Box<[Box<[u8]>]>> =
        (0..tags).map(|_| Some(text(&mut reader)?.into())).collect();
    let tags = tags?;
    let mut fields = FieldLines::new();
    for _ in 0..lines {
        let (name, value) = (text(&mut reader)?, text(&mut reader)?);
        fields.try_push(name, value).ok()?;
    }
    fields.shrink();
    reader.0.is_empty().then(|| {
        let head = (status, fields);
        Stored::again(key, vary, head, freshness, tags).with_body(body)
    })
}

/// Reads bytes that are preceded by their length.
fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u32()?;
    reader.take(usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::Use;

    const NOW: ClockReading = ClockReading {
        steady: 1 << 42,
        wall: 1_700_000_000_000,
    };

    fn stored() -> Stored {
        let mut fields = FieldLines::new();
        fields.push(b"ETag", b"\"a\"");
        fields.push(b"Vary", b"Accept-Language");
        fields.push(b"Surrogate-Key", b"all page-1");
        let freshness = Freshness {
            received: NOW.steady - 1000,
            initial_age: 5,
            lifetime: 60_000,
            stale_while_revalidate: 1,
            stale_if_error: 2,
            always_validates: true,
            is_assumed: false,
            allows_authorized: true,
        };
        let vary = Vary::of(&fields, |_| Some(b"de, en".to_vec())).unwrap();
        let key = Key::new(b"http://a/".to_vec(), b"upstream", b"", std::iter::empty());
        let tags = ["Surrogate-Key".to_owned()];
        Stored::new(key, vary, (200, fields), freshness, &tags)
    }

    #[test]
    fn a_response_is_read_as_it_was_written() {
        let before = stored();
        let bytes = write(&before, NOW).unwrap();
        let after = read(&bytes, Bytes::from_static(b"body"), NOW).unwrap();
        assert_eq!((&after.key, &after.vary), (&before.key, &before.vary));
        assert_eq!(after.freshness, before.freshness);
        assert!(after.has_tag(b"page-1") && after.field("etag") == Some(b"\"a\""));
        assert_eq!((after.status, &after.body[..]), (200, &b"body"[..]));
        assert_eq!(write(&after, NOW).unwrap(), bytes);
    }

    #[test]
    fn a_response_from_the_future_has_to_be_validated() {
        let mut before = stored();
        before.freshness.always_validates = false;
        let bytes = write(&before, NOW).unwrap();
        let day = 24 * 60 * 60 * 1000;
        let usage = |wall| {
            let now = ClockReading { wall, ..NOW };
            let after = read(&bytes, Bytes::new(), now).unwrap();
            (
                after.freshness.usage(now.steady),
                after.freshness.serves_errors(now.steady),
            )
        };
        assert_eq!(usage(NOW.wall), (Use::Fresh, true));
        assert_eq!(usage(NOW.wall - day), (Use::Validate, false));
        assert_eq!(usage(NOW.wall + day), (Use::Validate, false));
    }

    #[test]
    fn truncated_or_malformed_metadata_is_none() {
        let bytes = write(&stored(), NOW).unwrap();
        for length in 0..bytes.len() {
            assert!(
                read(&bytes[..length], Bytes::new(), NOW).is_none(),
                "{length}"
            );
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(read(&longer, Bytes::new(), NOW).is_none());
        let at = bytes.windows(4).position(|four| four == b"ETag").unwrap();
        let mut changed = bytes;
        changed[at] = b'\n';
        assert!(read(&changed, Bytes::new(), NOW).is_none());
    }
}
