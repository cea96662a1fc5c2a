//! The order in which HTTP/2 streams are served (RFC 9218).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use support::Site;
use support::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, HEADERS, OK, WINDOW_UPDATE, block, frame,
};

/// PRIORITY_UPDATE (RFC 9218 §7.1).
const PRIORITY_UPDATE: u8 = 0x10;

/// The initial window of a connection (RFC 9113 §6.9.2).
const WINDOW: usize = 65_535;

/// A request with this `Priority`.
fn request(stream: u32, target: &str, priority: &str) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", target),
        ("priority", priority),
    ];
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields))
}

fn site() -> Site {
    let site = Site::sharing("{}");
    site.write("large.bin", vec![7; 400_000]);
    site
}

/// A connection whose streams may be sent everything; its own window is [`WINDOW`].
fn connect(site: &Site) -> Frames {
    Frames::to(site.address(), &[(4, 0x7fff_ffff)])
}

/// Asks for a large file on each of these streams, and returns when they all wait for the window, which the first has used.
fn ask_for_large(frames: &mut Frames, requests: &[(u32, &str)]) {
    let mut sent = 0;
    for (stream, priority) in requests {
        frames.send(&request(*stream, "/large.bin", priority));
        assert_eq!(frames.next_of(HEADERS).stream, *stream);
        while sent < WINDOW {
            let data = frames.next_of(DATA);
            assert_eq!(data.stream, *stream);
            sent += data.payload.len();
        }
    }
    // A response that needs no window: the others have had their turn.
    let last = requests.iter().map(|(stream, _)| *stream).max().unwrap() + 2;
    frames.send(&request(last, "/return/x", "u=7"));
    assert_eq!(frames.response(last).unwrap().0, OK);
}

/// Opens the connection's window, and returns the streams of the frames that come, each as often as a frame of it.
fn streams_of(frames: &mut Frames, bytes: usize) -> Vec<u32> {
    frames.send(&frame(WINDOW_UPDATE, 0, 0, &(bytes as u32).to_be_bytes()));
    let mut streams = Vec::new();
    let mut received = 0;
    while received < bytes {
        let data = frames.next_of(DATA);
        received += data.payload.len();
        streams.push(data.stream);
    }
    streams
}

#[test]
fn requests_that_arrive_together_are_answered_by_urgency() {
    let site = site();
    let mut frames = connect(&site);
    let together = [(1, "u=5"), (3, ""), (5, "u=0"), (7, "u=5, i"), (9, "u=0")];
    let bytes: Vec<u8> = together
        .iter()
        .flat_map(|(stream, priority)| request(*stream, "/return/x", priority))
        .collect();
    frames.send(&bytes);
    let order: Vec<u32> = together
        .iter()
        .map(|_| frames.next_of(HEADERS).stream)
        .collect();
    assert_eq!(order, [5, 9, 3, 1, 7]);
}

#[test]
fn the_more_urgent_response_gets_the_window() {
    let site = site();
    let mut frames = connect(&site);
    ask_for_large(&mut frames, &[(1, "u=4"), (3, "u=5"), (5, "u=1, i")]);
    let streams = streams_of(&mut frames, 100_000);
    assert!(streams.iter().all(|stream| *stream == 5), "{streams:?}");
}

#[test]
fn responses_of_one_urgency_come_one_after_the_other() {
    let site = site();
    let mut frames = connect(&site);
    ask_for_large(&mut frames, &[(1, ""), (3, ""), (5, "i")]);
    let streams = streams_of(&mut frames, 400_000 - WINDOW + 50_000);
    let mut ordered = streams.clone();
    ordered.sort_unstable();
    assert_eq!(streams, ordered);
    assert!(streams.contains(&1) && streams.contains(&3) && !streams.contains(&5));
}

#[test]
fn incremental_responses_come_in_turn() {
    let site = site();
    let mut frames = connect(&site);
    ask_for_large(&mut frames, &[(1, "i"), (3, "u=3, i"), (5, "i")]);
    let streams = streams_of(&mut frames, 300_000);
    for stream in [1, 3, 5] {
        let frames = streams.iter().filter(|one| **one == stream).count();
        assert!(frames > streams.len() / 5, "{stream}: {streams:?}");
    }
}

#[test]
fn a_priority_may_be_changed() {
    let site = site();
    let mut frames = connect(&site);
    // Before the request arrives, when it counts in place of its field.
    frames.send(&frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=6"));
    ask_for_large(&mut frames, &[(1, "u=2"), (3, "u=5"), (5, "u=0")]);
    let streams = streams_of(&mut frames, 50_000);
    assert!(streams.iter().all(|stream| *stream == 1), "{streams:?}");
    frames.send(&frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x03u=0"));
    let streams = streams_of(&mut frames, 50_000);
    assert!(streams.iter().all(|stream| *stream == 3), "{streams:?}");
}

#[test]
fn a_stream_that_is_given_up_does_not_hold_up_others() {
    let site = site();
    let mut frames = connect(&site);
    ask_for_large(&mut frames, &[(1, "u=2"), (3, "u=0"), (5, "u=1")]);
    // RST_STREAM with CANCEL.
    frames.send(&frame(3, 0, 3, &8_u32.to_be_bytes()));
    let streams = streams_of(&mut frames, 50_000);
    assert!(streams.iter().all(|stream| *stream == 5), "{streams:?}");
}
