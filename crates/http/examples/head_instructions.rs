//! Instructions per request head, which callgrind counts the same on every run:
//!
//! ```sh
//! cargo build --profile quick -p tutti-http --example head_instructions
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/quick/examples/head_instructions browser
//! ```
//!
//! "Collected", divided by the 10,000 heads parsed: about 7,200 for `browser` (15 fields, 3,670 of it in httparse), 2,200 for
//! `small` (620 in httparse) with Rust 1.95.

#![allow(clippy::panic)] // a bench

use std::hint::black_box;

use tutti_http::{Limits, Progress, RequestHead};

include!("../benches/samples/heads.rs");

fn main() {
    let bytes = match std::env::args().nth(1).as_deref() {
        Some("browser") => BROWSER,
        Some("small") => SMALL,
        _ => panic!("usage: head_instructions browser|small"),
    };
    let (limits, mut head) = (Limits::default(), RequestHead::new());
    for _ in 0..10_000 {
        assert_eq!(
            head.parse(black_box(bytes), &limits),
            Ok(Progress::Complete {
                length: bytes.len()
            })
        );
        black_box(&head);
    }
}
