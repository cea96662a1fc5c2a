//! Instructions per request head, which callgrind counts the same on every run:
//!
//! ```sh
//! cargo build --profile quick -p tutti-http --example head_instructions
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/quick/examples/head_instructions browser
//! ```
//!
//! "Collected", divided by the 10,000 heads parsed: about 7,200 for `browser` (15 fields, 3,670 of it in httparse), 2,200 for
//! `small` (620 in httparse) with Rust 1.95. Of HTTP/3 (decision 0570): about 5,400 for `answer`, the fields of one of a file, and 21,000 for
//! `request`, a browser's 14 fields in Huffman's code.

#![allow(clippy::panic)] // a bench

use std::hint::black_box;

use tutti_http::http3::{decode, encode_fields, encode_response};
use tutti_http::{MessageLimits, Priority, Progress, RequestHead};

include!("../benches/samples/heads.rs");

const ROUNDS: usize = 10_000;

type Field = (&'static str, &'static str);

const ANSWER: [Field; 7] = [
    ("server", "Tutti/0.1.0"),
    ("date", "Tue, 24 Nov 2026 20:14:07 GMT"),
    ("content-type", "text/plain"),
    ("last-modified", "Tue, 24 Nov 2026 20:14:06 GMT"),
    ("etag", "\"6b05f00e-400\""),
    ("accept-ranges", "bytes"),
    ("content-length", "1024"),
];

#[rustfmt::skip]
const REQUEST: [Field; 14] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "www.example.com"),
    (":path", "/assets/application-1f3a9c.js?v=17"),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("accept-language", "en-US,en;q=0.5"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("referer", "https://www.example.com/shop/list?page=3"),
    ("cookie", "session=8f14e45fceea167a5a36dedd4bea2543"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-site", "same-origin"),
    ("priority", "u=0, i"),
];

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("browser") => parse(BROWSER),
        Some("small") => parse(SMALL),
        Some("answer") => {
            for _ in 0..ROUNDS {
                black_box(encode_response(200, bytes(black_box(&ANSWER))));
            }
        }
        Some("request") => {
            let section = encode_fields(bytes(&REQUEST));
            for _ in 0..ROUNDS {
                let outcome = decode(black_box(&section), 1 << 16, |name, value| {
                    black_box((name, value));
                });
                assert_eq!(outcome, Ok(()));
            }
        }
        Some("priority") => {
            for _ in 0..ROUNDS {
                black_box(Priority::parse(black_box(b"u=0, i")));
            }
        }
        _ => panic!("usage: head_instructions browser|small|answer|request|priority"),
    }
}

fn bytes(fields: &[Field]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

fn parse(bytes: &[u8]) {
    let (limits, mut head) = (MessageLimits::default(), RequestHead::new());
    for _ in 0..ROUNDS {
        assert_eq!(
            head.parse(black_box(bytes), &limits),
            Ok(Progress::Complete {
                length: bytes.len()
            })
        );
        black_box(&head);
    }
}
