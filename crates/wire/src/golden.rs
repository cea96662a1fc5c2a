//! The layout as bytes: `spec/golden/*.hex` must be exactly what a segment contains (little-endian machines).
//!
//! `TUTTI_BLESS=1 cargo test -p tutti-wire golden` writes them anew: a change there is a change of the protocol, and needs a
//! new `layout::VERSION`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::layout::{
    HEAD_OFFSET, HEADER_LENGTH, Layout, REQUEST_OFFSET, RESPONSE_OFFSET, SLOT_STRIDE,
};
use crate::request::{BodyRef, WireRequestHead};
use crate::router::Segment;
use crate::worker::Attached;

/// Lines of 16 bytes that are not all zero, with their offset from `start`.
fn dump(segment: &Segment, start: u64, length: usize) -> String {
    let mut bytes = vec![0; length];
    let raw = segment.shared().raw().unwrap();
    assert!(raw.read(start as usize, &mut bytes));
    let mut text = String::new();
    for (index, line) in bytes.chunks(16).enumerate() {
        if line.iter().any(|byte| *byte != 0) {
            let _ = write!(text, "{:06x} ", index * 16);
            for byte in line {
                let _ = write!(text, " {byte:02x}");
            }
            text.push('\n');
        }
    }
    text
}

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/golden")
        .join(name);
    if std::env::var_os("TUTTI_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(expected == found, "{name} differs:\n{found}");
}

#[test]
#[cfg(target_endian = "little")]
fn golden_bytes_are_what_a_segment_contains() {
    let layout = Layout {
        slots: 3,
        workers: 2,
        threads: 2,
    };
    let segment = Segment::create("golden", &layout).unwrap();
    let geometry = segment.shared().geometry;
    let slot_at = |slot: u64| geometry.slot_offset + slot * u64::from(SLOT_STRIDE);
    check("header.hex", &dump(&segment, 0, HEADER_LENGTH as usize));

    let skipped = segment.allocate(0).unwrap();
    let slot = segment.allocate(1).unwrap();
    assert_eq!((skipped.0, slot.0), (0, 1));
    let head = WireRequestHead {
        method: b"POST",
        target: b"/a%20b?c=d",
        path: b"/a b",
        query: b"c=d",
        version_minor: 1,
        tls: true,
        scheme: b"https",
        remote_address: b"192.0.2.1",
        remote_port: 50_000,
        local_address: b"192.0.2.2",
        local_port: 443,
        server_name: b"example.org",
        target_name: b"main",
        user: b"anna",
        content_length: Some(4),
        fields: &[(b"Host", b"example.org"), (b"X-Empty", b"")],
        arrived_ms: 0x0102_0304_0506_0708,
        deadline_ms: 0x1112_1314_1516_1718,
        websocket: false,
    };
    segment
        .write_request(slot, &head, &BodyRef::Inline(b"body"))
        .unwrap();
    segment.submit(slot);
    let queued = dump(&segment, slot_at(1), REQUEST_OFFSET as usize + 512);
    check("slot-queued.hex", &queued);
    check("queue.hex", &dump(&segment, geometry.queue_offset, 64));

    let events = (0..2)
        .map(|_| rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap())
        .collect();
    let mut worker = Attached::open(segment.fd())
        .unwrap()
        .into_worker(1, events, None)
        .unwrap();
    let asked_us = crate::now_us();
    let mut exchange = worker.next_request().unwrap();
    assert!(
        segment
            .begun_us(slot)
            .is_some_and(|begun| begun >= asked_us)
    );
    let begun = dump(&segment, slot_at(1), 16);
    assert!(
        begun.starts_with("000000  01 00 00 00 00 01 00 03"),
        "{begun}"
    );
    exchange
        .start(
            404,
            [(&b"Content-Type"[..], &b"text/plain"[..]), (b"A", b"")],
        )
        .unwrap();
    exchange.write(b"not here\n").unwrap();
    exchange.finish();
    // The only word that differs each time.
    let control = segment.shared().slot(slot.0).unwrap();
    let begun_us = control.worker.begun_us.swap(0, Ordering::Relaxed);
    assert!((asked_us..=crate::now_us()).contains(&begun_us));
    check(
        "slot-done.hex",
        &dump(&segment, slot_at(1), REQUEST_OFFSET as usize),
    );
    check(
        "head.hex",
        &dump(&segment, slot_at(1) + u64::from(HEAD_OFFSET), 128),
    );
    check(
        "ring.hex",
        &dump(&segment, slot_at(1) + u64::from(RESPONSE_OFFSET), 64),
    );
    let completions = geometry.completion_offset + geometry.map_stride;
    check("completions.hex", &dump(&segment, completions, 64));
}
