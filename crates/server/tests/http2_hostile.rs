//! Hostile clients of HTTP/2: each connection is ended, in bounded memory, and the server serves others meanwhile.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see functions beside the tests"
)]

mod support;

use support::Site;
use support::app::App;
use support::backend::Backend;
use support::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, GOAWAY, HEADERS, OK,
    PING, PRIORITY, PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame, get,
};
use tutti_testkit::wait_until;

const POST: [(&str, &str); 4] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "h"),
    (":path", "/echo"),
];

/// FRAME_SIZE_ERROR (RFC 9113 §7).
const FRAME_SIZE_ERROR: u32 = 6;

/// The server still answers on another connection.
fn serves(site: &Site) {
    let mut frames = Frames::to(site.address(), &[]);
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &get("/return/x"),
    ));
    assert!(frames.response(1).is_some());
}

/// Sends `bytes` repeatedly without reading. The connection must end with ENHANCE_YOUR_CALM.
fn ends(site: &Site, mut frames: Frames, bytes: &[u8]) {
    let mut many = Vec::new();
    while many.len() < 16_000 {
        many.extend(bytes);
    }
    let mut writer = Frames::of(frames.stream.try_clone().unwrap());
    // Read in parallel, or both sides would wait for each other.
    let sender = std::thread::spawn(move || writer.flood(&many, 10_000));
    assert_eq!(frames.error(), ENHANCE_YOUR_CALM);
    drop(frames);
    sender.join().unwrap();
    serves(site);
}

#[test]
fn frames_that_ask_for_nothing() {
    let site = Site::sharing("{}");
    for (kind, stream, payload) in [
        (PING, 0, &b"12345678"[..]),
        (SETTINGS, 0, b""),
        (PRIORITY, 1, b"\0\0\0\0\x10"),
        (WINDOW_UPDATE, 0, b"\0\0\0\x01"),
        (0x77, 0, b"unknown"),
    ] {
        let mut frames = Frames::to(site.address(), &[]);
        if kind == WINDOW_UPDATE {
            // The window must not overflow from one byte at the start.
            frames.send(&frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                &get("/return/x"),
            ));
        }
        ends(&site, frames, &frame(kind, 0, stream, payload));
    }
    let log = site.log.lines().concat();
    assert!(log.contains("too many frames without effect"), "{log}");
}

#[test]
fn streams_opened_to_be_reset() {
    let site = Site::sharing("{}");
    let mut frames = Frames::to(site.address(), &[]);
    let mut bytes = Vec::new();
    for number in 0..20_000 {
        let stream = 2 * number + 1;
        bytes.extend(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &get("/return/x"),
        ));
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    let mut writer = Frames::of(frames.stream.try_clone().unwrap());
    let sender = std::thread::spawn(move || writer.flood(&bytes, 1));
    assert_eq!(frames.error(), ENHANCE_YOUR_CALM);
    drop(frames);
    sender.join().unwrap();
    assert!(site.server.totals().requests < 2_000);
    serves(&site);
}

#[test]
fn streams_reset_once_they_are_worked_on() {
    let app = App::new(1);
    let mut frames = Frames::to(app.site.address(), &[]);
    let mut writer = Frames::of(frames.stream.try_clone().unwrap());
    let sender = std::thread::spawn(move || {
        for number in 0..20_000 {
            let stream = 2 * number + 1;
            let open = frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/hello"));
            writer.flood(&open, 1);
            // In a packet of its own.
            std::thread::yield_now();
            writer.flood(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()), 1);
        }
    });
    assert_eq!(frames.error(), ENHANCE_YOUR_CALM);
    drop(frames);
    sender.join().unwrap();
    serves(&app.site);
    wait_until("nothing is left of it", || app.active() == 0);
}

/// CVE-2025-8671: the client's errors have the server reset the streams, which count no longer.
#[test]
fn streams_that_the_server_is_made_to_reset() {
    let app = App::new(1);
    let mut frames = Frames::to(app.site.address(), &[]);
    let mut bytes = Vec::new();
    for number in 0..2_000 {
        let stream = 2 * number + 1;
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &block(&POST)));
        bytes.extend(frame(WINDOW_UPDATE, 0, stream, &[0; 4]));
    }
    let mut writer = Frames::of(frames.stream.try_clone().unwrap());
    let sender = std::thread::spawn(move || writer.flood(&bytes, 1));
    assert_eq!(frames.error(), ENHANCE_YOUR_CALM);
    drop(frames);
    sender.join().unwrap();
    serves(&app.site);
    wait_until("nothing is left of it", || app.active() == 0);
}

/// The client's limit of its table is kept, from the first head.
#[test]
fn a_client_without_a_dynamic_table() {
    let site = Site::sharing("{}");
    // SETTINGS_HEADER_TABLE_SIZE
    let mut frames = Frames::to(site.address(), &[(1, 0)]);
    for stream in [1, 3, 5] {
        let flags = END_HEADERS | END_STREAM;
        frames.send(&frame(HEADERS, flags, stream, &get("/return/x")));
        let block = frames.next_of(HEADERS).payload;
        // The change of the size, once; then nothing is indexed.
        let fields = if stream == 1 { &block[1..] } else { &block };
        assert_eq!(fields[0], OK, "{block:?}");
        assert_eq!(fields[1] & 0xf0, 0, "{block:?}");
        assert_eq!(block.len() - fields.len() == 1, block[0] == 0x20);
    }
}

#[test]
fn a_head_without_end() {
    let site = Site::sharing("{}");
    let mut frames = Frames::to(site.address(), &[]);
    frames.send(&frame(HEADERS, 0, 1, &get("/return/x")));
    let filler = frame(CONTINUATION, 0, 1, &block(&[("x", &"y".repeat(10_000))]));
    frames.flood(&filler, 100_000);
    frames.error();
    // Empty ones, which have no limit of size.
    let mut frames = Frames::to(site.address(), &[]);
    frames.send(&frame(HEADERS, 0, 1, &get("/return/x")));
    frames.flood(&frame(CONTINUATION, 0, 1, b""), 100_000);
    frames.error();
    serves(&site);
}

#[test]
fn a_head_that_does_not_come() {
    let site = Site::sharing(r#"{"header_read_timeout": 1}"#);
    let mut frames = Frames::to(site.address(), &[]);
    frames.send(&frame(HEADERS, 0, 1, &get("/return/x")));
    while frames.next().is_some() {}
    // Nor an invalid preface or first frame.
    for opening in [
        &b"PRI * HTTP/2.0\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = site.connect();
        client.send(opening);
        while client.fill().unwrap_or(0) > 0 {}
    }
    serves(&site);
}

#[test]
fn fields_that_are_small_until_they_are_unpacked() {
    let site = Site::sharing("{}");
    let mut frames = Frames::to(site.address(), &[]);
    // One entry of the dynamic table, then thousands of references of one byte each.
    let mut bomb = get("/return/x");
    let value = "v".repeat(3_900);
    bomb.push(0x40); // with indexing
    bomb.extend([1, b'x', 127]);
    let rest = value.len() - 127;
    bomb.extend([(rest % 128) as u8 | 128, (rest / 128) as u8]);
    bomb.extend(value.bytes());
    bomb.extend(std::iter::repeat_n(0xbe, 12_000)); // 62, the newest entry
    frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb));
    // Refused: by a status, or with the stream or the connection.
    while let Some(frame) = frames.next() {
        match frame.kind {
            HEADERS => {
                assert_ne!(frame.payload[0], OK);
                break;
            }
            RST_STREAM | GOAWAY => break,
            _ => {}
        }
    }
    serves(&site);
}

#[test]
fn more_fields_than_allowed_are_answered_431() {
    let site = Site::sharing("{}");
    let mut frames = Frames::to(site.address(), &[]);
    let mut large = get("/return/x");
    large.extend(block(&[("x", &"y".repeat(9_000))]));
    frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &large));
    let headers = frames.next_of(HEADERS);
    assert!(String::from_utf8_lossy(&headers.payload).contains("431") || headers.payload[0] != OK);
    frames.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        3,
        &get("/return/x"),
    ));
    assert_eq!(frames.response(3).unwrap().0, OK);
}

#[test]
fn data_without_bytes() {
    let app = App::new(1);
    let mut frames = Frames::to(app.site.address(), &[]);
    frames.send(&frame(HEADERS, END_HEADERS, 1, &block(&POST)));
    ends(&app.site, frames, &frame(DATA, 0, 1, b""));
}

#[test]
fn more_streams_than_allowed() {
    let app = App::new(1);
    let mut frames = Frames::to(app.site.address(), &[]);
    for number in 0..150 {
        frames.send(&frame(HEADERS, END_HEADERS, 2 * number + 1, &block(&POST)));
    }
    let refused = (0..50).filter(|_| {
        let reset = frames.next_of(RST_STREAM);
        reset.code() == 7 && reset.stream > 200
    });
    assert_eq!(
        refused.count(),
        50,
        "REFUSED_STREAM for all above a hundred"
    );
}

#[test]
fn a_client_that_reads_nothing() {
    let site = Site::sharing(r#"{"send_timeout": 1}"#);
    site.write("large.bin", vec![0; 8_000_000]);
    // SETTINGS_INITIAL_WINDOW_SIZE
    let mut frames = Frames::to(site.address(), &[(4, 0x7fff_ffff)]);
    frames.send(&frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes()));
    for number in 0..50 {
        frames.send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            2 * number + 1,
            &get("/large.bin"),
        ));
    }
    wait_until("it is closed", || site.server.totals().closed == 1);
    serves(&site);
}

/// Issue 10: a malformed field ended all streams of its connection, where RFC 9113 §8.1.1 requires a stream error.
#[test]
fn a_malformed_request_costs_its_own_stream() {
    let site = Site::sharing("{}");
    site.write("index.html", "page");
    let mut frames = Frames::to(site.address(), &[]);
    // A stream that is open all the time: its body has not arrived.
    frames.send(&frame(HEADERS, END_HEADERS, 1, &block(&POST)));
    let good = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", "/return/x"),
    ];
    let with = |field: (&'static str, &'static str)| [&good[..], &[field]].concat();
    let without = |name: &str| -> Vec<(&str, &str)> {
        good.iter()
            .copied()
            .filter(|(one, _)| *one != name)
            .collect()
    };
    let replaced = |name: &str, value: &'static str| -> Vec<(&str, &str)> {
        good.iter()
            .map(|(one, old)| (*one, if *one == name { value } else { *old }))
            .collect()
    };
    let malformed: Vec<Vec<(&str, &str)>> = vec![
        // §8.2.1
        with(("X-Upper", "1")),
        with(("x y", "1")),
        with(("x\u{7f}", "1")),
        with(("na\u{e9}me", "1")),
        with(("x:y", "1")),
        with(("", "1")),
        with(("x", "a\0b")),
        with(("x", "a\r\nb: c")),
        with(("cookie", "a\nb")),
        // §8.2.2
        with(("connection", "close")),
        with(("proxy-connection", "close")),
        with(("keep-alive", "1")),
        with(("transfer-encoding", "chunked")),
        with(("upgrade", "h2c")),
        with(("te", "gzip")),
        // §8.3
        with((":unknown", "1")),
        with((":status", "200")),
        with((":status", "none")),
        with((":path", "/again")),
        [&[("x", "1")], &good[..]].concat(),
        replaced(":method", "G T"),
        replaced(":method", ""),
        replaced(":path", ""),
        without(":method"),
        without(":scheme"),
        without(":path"),
    ];
    let mut stream = 1;
    for fields in malformed {
        stream += 2;
        let flags = END_HEADERS | END_STREAM;
        frames.send(&frame(HEADERS, flags, stream, &block(&fields)));
        let reset = frames.next_of(RST_STREAM);
        let seen = (reset.stream, reset.code());
        assert_eq!(seen, (stream, PROTOCOL_ERROR), "{fields:?}");
        stream += 2;
        frames.send(&frame(HEADERS, flags, stream, &block(&good)));
        assert_eq!(frames.response(stream).unwrap().0, OK, "after {fields:?}");
    }
    // In a trailer section.
    for field in [("X-Upper", "1"), ("x", "a\0b"), (":path", "/")] {
        stream += 2;
        frames.send(&frame(HEADERS, END_HEADERS, stream, &block(&POST)));
        let flags = END_HEADERS | END_STREAM;
        frames.send(&frame(HEADERS, flags, stream, &block(&[field])));
        let reset = frames.next_of(RST_STREAM);
        assert_eq!(
            (reset.stream, reset.code()),
            (stream, PROTOCOL_ERROR),
            "{field:?}"
        );
    }
    // The first stream continues.
    frames.send(&frame(DATA, END_STREAM, 1, b"body"));
    assert!(frames.response(1).is_some());
}

/// Issue 28, 2.6.
#[test]
fn a_goaway_that_is_too_short() {
    let site = Site::sharing("{}");
    let mut frames = Frames::to(site.address(), &[]);
    frames.send(&frame(GOAWAY, 0, 0, b"1234567"));
    assert_eq!(frames.error(), FRAME_SIZE_ERROR);
    serves(&site);
}

/// Issue 28: each costs the upstream a request, but the resets are not a flood.
#[test]
fn resets_that_each_reach_the_upstream() {
    const MOST: usize = 500;
    let backend = Backend::new(|peer| {
        peer.request_head();
        peer.wait_closed();
    });
    let address = backend.address;
    let site = Site::new(1, move |_| {
        format!(
            r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}},
                 "routes": [{{"match": {{"uri": "/return/*"}}, "action": {{"return": 200}}}},
                            {{"action": {{"proxy": "http://{address}"}}}}]}}"#
        )
    });
    let mut frames = Frames::to(site.address(), &[]);
    for number in 0..MOST {
        let stream = 2 * number as u32 + 1;
        frames.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/")));
        wait_until("it is asked", || backend.requests().len() == number + 1);
        frames.send(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    assert_eq!(
        frames.next_of(GOAWAY).code(),
        0,
        "the client may come again"
    );
    serves(&site);
}
