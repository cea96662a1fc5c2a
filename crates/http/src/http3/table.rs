//! The static table of QPACK (RFC 9204, appendix A): names and values, in the order of their numbers.

/// A name and a value.
pub(super) type Entry = (&'static str, &'static str);

/// All of them.
#[rustfmt::skip]
pub(super) const TABLE: [Entry; 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// One more than the longest name has bytes.
const LENGTHS: usize = 33;

/// The entries' numbers, sorted by the length of the name, and for each length where those begin: so few must be compared.
const ORDER: ([u8; TABLE.len()], [u8; LENGTHS + 1]) = order();

#[expect(clippy::indexing_slicing, reason = "evaluated when this is compiled")]
const fn order() -> ([u8; TABLE.len()], [u8; LENGTHS + 1]) {
    let (mut numbers, mut starts) = ([0; TABLE.len()], [0; LENGTHS + 1]);
    let (mut place, mut length) = (0, 0);
    while length < LENGTHS {
        starts[length] = place as u8;
        let mut number = 0;
        while number < TABLE.len() {
            if TABLE[number].0.len() == length {
                numbers[place] = number as u8;
                place += 1;
            }
            number += 1;
        }
        length += 1;
    }
    assert!(place == TABLE.len(), "a longer name");
    starts[LENGTHS] = place as u8;
    (numbers, starts)
}

/// The numbers of this name and their values, the first one first.
pub(super) fn named(name: &[u8]) -> impl Iterator<Item = (u8, &'static str)> {
    let (numbers, starts) = &ORDER;
    let start = |length: usize| starts.get(length).map(|start| usize::from(*start));
    let range = start(name.len()).zip(start(name.len() + 1));
    let numbers = range.and_then(|(start, end)| numbers.get(start..end));
    numbers
        .unwrap_or_default()
        .iter()
        .filter_map(move |number| {
            let (known, value) = TABLE.get(usize::from(*number))?;
            (known.as_bytes() == name).then_some((*number, *value))
        })
}
