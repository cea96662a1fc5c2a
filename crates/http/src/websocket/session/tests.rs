//! The session with an application that is a list of messages.

use std::collections::VecDeque;

use super::super::client_frame::client_frame as client;
use super::super::{FrameHead, Opcode};
use super::{
    CLOSE_WAIT, MessageHandler, Next, OUTPUT_BYTES, SessionOptions, Wants, WebSocketSession,
};

const OPTIONS: SessionOptions = SessionOptions {
    max_message: 100_000,
    read_timeout: Some(60_000),
    keepalive: Some(30_000),
};

type Piece = (Opcode, bool, Vec<u8>);

/// An application with a ring of `room` bytes that is never emptied.
struct Fake {
    room: usize,
    got: Vec<Piece>,
    is_finished: bool,
    sends: VecDeque<Piece>,
    ends: Option<u16>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            room: 65_536,
            got: Vec::new(),
            is_finished: false,
            sends: VecDeque::new(),
            ends: None,
        }
    }
}

impl MessageHandler for Fake {
    fn room(&self, _: usize) -> usize {
        self.room
    }
    fn put(&mut self, opcode: Opcode, is_last: bool, bytes: &[u8]) {
        assert!(!self.is_finished, "a message behind the end");
        self.room = self
            .room
            .checked_sub(bytes.len() + 6)
            .expect("room was asked for");
        self.got.push((opcode, is_last, bytes.to_vec()));
    }
    fn finish(&mut self) {
        self.is_finished = true;
    }
    fn next(&mut self) -> Next {
        match self.sends.front() {
            Some((opcode, is_last, bytes)) => Next::Piece {
                opcode: *opcode,
                length: bytes.len(),
                is_last: *is_last,
            },
            None => self.ends.map_or(Next::Nothing, Next::Ended),
        }
    }
    fn take(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sends.pop_front().unwrap().2);
    }
}

impl Fake {
    fn sends(mut self, pieces: &[(Opcode, bool, &[u8])]) -> Self {
        let pieces = pieces
            .iter()
            .map(|(opcode, is_last, bytes)| (*opcode, *is_last, bytes.to_vec()));
        self.sends.extend(pieces);
        self
    }

    fn got(&self) -> Vec<(Opcode, &[u8])> {
        self.got
            .iter()
            .map(|(opcode, _, bytes)| (*opcode, bytes.as_slice()))
            .collect()
    }
}

/// Frames of the server.
fn frames(mut out: &[u8]) -> Vec<(Opcode, bool, &[u8])> {
    let mut found = Vec::new();
    while !out.is_empty() {
        let (head, length) = FrameHead::parse(out).unwrap().expect("whole frames");
        assert_eq!(head.mask, None);
        let end = length + head.length as usize;
        found.push((head.opcode, head.is_final, &out[length..end]));
        out = &out[end..];
    }
    found
}

/// A session, the client's input, and its output.
struct Run {
    session: WebSocketSession,
    input: Vec<u8>,
    out: Vec<u8>,
}

impl Run {
    fn new() -> Self {
        Self {
            session: WebSocketSession::new(OPTIONS, 0),
            input: Vec::new(),
            out: Vec::new(),
        }
    }

    fn hears(&mut self, side: &mut Fake, bytes: &[u8], now: u64) -> Wants {
        self.input.extend_from_slice(bytes);
        self.session
            .receive(&mut self.input, side, &mut self.out, 0, now)
    }

    fn collects(&mut self, side: &mut Fake, now: u64) {
        self.session.collect(side, &mut self.out, 0, now);
    }
}

const CLOSE: &[u8] = b"\x03\xe8bye";

#[test]
fn messages_go_to_the_application_and_pings_do_not() {
    let (mut run, mut side) = (Run::new(), Fake::default());
    let input = [
        client(Opcode::Text, false, b"a"),
        client(Opcode::Ping, true, b"x"),
        client(Opcode::Pong, true, b"unasked"),
        client(Opcode::Continuation, true, b"b"),
        client(Opcode::Binary, true, b""),
    ]
    .concat();
    assert_eq!(run.hears(&mut side, &input, 0), Wants::Input);
    assert_eq!(
        side.got,
        [
            (Opcode::Text, false, b"a".to_vec()),
            (Opcode::Text, true, b"b".to_vec()),
            (Opcode::Binary, true, b"".to_vec())
        ]
    );
    assert_eq!(frames(&run.out), [(Opcode::Pong, true, &b"x"[..])]);
}

#[test]
fn an_application_that_pings_gets_the_pong() {
    let mut run = Run::new();
    let mut side = Fake::default().sends(&[(Opcode::Ping, true, b"p")]);
    run.collects(&mut side, 0);
    assert_eq!(frames(&run.out), [(Opcode::Ping, true, &b"p"[..])]);
    run.hears(&mut side, &client(Opcode::Pong, true, b"p"), 0);
    assert_eq!(side.got(), [(Opcode::Pong, &b"p"[..])]);
}

#[test]
fn pieces_of_an_application_become_one_frame() {
    let mut run = Run::new();
    let mut side = Fake::default().sends(&[
        (Opcode::Binary, false, b"one"),
        (Opcode::Ping, true, b""),
        (Opcode::Binary, false, b"two"),
        (Opcode::Binary, true, b""),
        (Opcode::Text, true, b"next"),
    ]);
    run.collects(&mut side, 0);
    assert_eq!(
        frames(&run.out),
        [
            // Between two of them.
            (Opcode::Ping, true, &b""[..]),
            (Opcode::Binary, true, b"onetwo"),
            (Opcode::Text, true, b"next"),
        ]
    );
}

/// Issue 10: a message was cut where the ring of its application ended.
#[test]
fn a_message_is_one_frame_up_to_a_mebibyte() {
    let piece = vec![b'x'; 65_536];
    for (pieces, expected) in [
        (16, &[1 << 20][..]),
        (17, &[(1 << 20) + 65_536]),
        (18, &[(1 << 20) + 65_536, 65_536]),
        (35, &[(1 << 20) + 65_536, (1 << 20) + 65_536, 65_536]),
    ] {
        let mut run = Run::new();
        let mut side = Fake::default();
        for number in 1..=pieces {
            side.sends
                .push_back((Opcode::Text, number == pieces, piece.clone()));
        }
        while !side.sends.is_empty() {
            run.collects(&mut side, 0);
        }
        let frames = frames(&run.out);
        let lengths: Vec<usize> = frames.iter().map(|(_, _, bytes)| bytes.len()).collect();
        assert_eq!(lengths, expected, "{pieces}");
        for (number, (opcode, is_final, _)) in frames.iter().enumerate() {
            let first = if number == 0 {
                Opcode::Text
            } else {
                Opcode::Continuation
            };
            assert_eq!((*opcode, *is_final), (first, number + 1 == frames.len()));
        }
    }
}

/// Issue 10: a close frame without a code was answered without one, where Unit answers 1000.
#[test]
fn a_close_is_answered_with_its_code_or_1000() {
    for (sent, answer) in [
        (&b""[..], &b"\x03\xe8"[..]),
        (b"\x03\xe9", b"\x03\xe9"),
        (b"\x0f\xa0why", b"\x0f\xa0why"),
    ] {
        let (mut run, mut side) = (Run::new(), Fake::default());
        run.hears(&mut side, &client(Opcode::Close, true, sent), 0);
        side.ends = Some(1000);
        run.collects(&mut side, 0);
        assert_eq!(frames(&run.out), [(Opcode::Close, true, answer)]);
        // The application gets the original code.
        assert_eq!(side.got(), [(Opcode::Close, sent)]);
    }
}

#[test]
fn a_close_from_the_client_is_answered_when_the_application_is_done() {
    let (mut run, mut side) = (Run::new(), Fake::default());
    let input = [
        client(Opcode::Close, true, CLOSE),
        client(Opcode::Text, true, b"late"),
    ]
    .concat();
    run.hears(&mut side, &input, 0);
    assert!(run.input.is_empty());
    run.collects(&mut side, 0);
    assert_eq!(side.got(), [(Opcode::Close, CLOSE)]);
    assert!(side.is_finished);
    assert_eq!(run.session.ended(), None);
    let mut side = side.sends(&[
        (Opcode::Text, true, b"the last word"),
        (Opcode::Close, true, b"\x0f\xa0"),
    ]);
    run.collects(&mut side, 1);
    // RFC 6455 §5.5.1: typically echoes the code it received.
    assert_eq!(
        frames(&run.out),
        [
            (Opcode::Text, true, &b"the last word"[..]),
            (Opcode::Close, true, CLOSE)
        ]
    );
    assert_eq!(run.session.ended(), Some(false));
}

#[test]
fn an_application_that_does_not_answer_a_close_is_not_waited_for() {
    let (mut run, mut side) = (Run::new(), Fake::default());
    run.hears(&mut side, &client(Opcode::Close, true, b""), 10);
    assert_eq!(run.session.tick(true, &mut run.out, 10), 10 + CLOSE_WAIT);
    run.session.tick(true, &mut run.out, 10 + CLOSE_WAIT);
    assert_eq!(frames(&run.out), [(Opcode::Close, true, &b"\x03\xe8"[..])]);
    assert_eq!(run.session.ended(), Some(false));
}

#[test]
fn a_close_from_the_application_waits_for_the_client() {
    let mut run = Run::new();
    let mut side = Fake::default().sends(&[
        (Opcode::Close, true, b"\x0f\xa0no"),
        (Opcode::Text, true, b"late"),
    ]);
    run.collects(&mut side, 0);
    assert_eq!(
        frames(&run.out),
        [(Opcode::Close, true, &b"\x0f\xa0no"[..])]
    );
    // The client still sends; that is dropped.
    run.hears(&mut side, &client(Opcode::Text, true, b"more"), 1);
    assert_eq!(run.session.ended(), None);
    run.hears(&mut side, &client(Opcode::Close, true, b"\x0f\xa0"), 2);
    assert_eq!(run.session.ended(), Some(false));
    assert_eq!(side.got(), []);
}

#[test]
fn a_client_that_does_not_answer_a_close_is_not_waited_for() {
    let mut run = Run::new();
    let mut side = Fake {
        ends: Some(1000),
        ..Fake::default()
    };
    run.collects(&mut side, 7);
    assert_eq!(frames(&run.out), [(Opcode::Close, true, &b"\x03\xe8"[..])]);
    assert_eq!(run.session.tick(true, &mut run.out, 7), 7 + CLOSE_WAIT);
    assert_eq!(run.session.ended(), None);
    run.session.tick(true, &mut run.out, 7 + CLOSE_WAIT);
    assert_eq!(run.session.ended(), Some(false));
}

#[test]
fn how_an_application_ends_tells_the_code() {
    for (sends, ends, code) in [
        (&[][..], 1000, 1000_u16),
        (&[], 1012, 1012),
        (&[(Opcode::Text, false, &b"half"[..])], 1000, 1011),
        (&[(Opcode::Close, true, &b"\x03\xed"[..])], 1000, 1011), // 1005 must not be sent
    ] {
        let mut run = Run::new();
        let mut side = Fake {
            ends: Some(ends),
            ..Fake::default()
        }
        .sends(sends);
        run.collects(&mut side, 0);
        let sent = frames(&run.out);
        let (opcode, _, payload) = sent.last().unwrap();
        assert_eq!(
            (*opcode, &payload[..2]),
            (Opcode::Close, &code.to_be_bytes()[..])
        );
    }
}

#[test]
fn a_fault_ends_it_and_closes_both_sides_with_a_code() {
    for (input, code) in [
        (client(Opcode::Text, true, b"\xff"), 1007_u16),
        (client(Opcode::Continuation, true, b""), 1002),
        (client(Opcode::Binary, true, &vec![0; 100_001]), 1009),
        (client(Opcode::Close, true, b"\x03\xee"), 1002),
        (client(Opcode::Close, true, b"\x03\xe8\xff"), 1007),
        (vec![0xff], 1002),
    ] {
        let (mut run, mut side) = (Run::new(), Fake::default());
        run.hears(&mut side, &input, 0);
        run.collects(&mut side, 0);
        assert_eq!(run.session.ended(), Some(true));
        let sent = frames(&run.out);
        assert_eq!(
            (sent.len(), sent[0].0, &sent[0].2[..2]),
            (1, Opcode::Close, &code.to_be_bytes()[..])
        );
        run.session.deliver(&mut side);
        assert_eq!(
            side.got
                .last()
                .map(|(opcode, _, bytes)| (*opcode, &bytes[..2])),
            Some((Opcode::Close, &code.to_be_bytes()[..]))
        );
    }
}

#[test]
fn a_full_application_stops_the_client_but_not_its_pings() {
    let mut run = Run::new();
    let mut side = Fake {
        room: 300,
        ..Fake::default()
    };
    let input = [
        client(Opcode::Ping, true, b"1"),
        client(Opcode::Binary, true, &[7; 200]),
        client(Opcode::Ping, true, b"2"),
    ]
    .concat();
    assert_eq!(run.hears(&mut side, &input, 0), Wants::Room);
    assert_eq!(side.got(), []);
    assert_eq!(frames(&run.out), [(Opcode::Pong, true, &b"1"[..])]);
    side.room = 10_000;
    assert_eq!(run.hears(&mut side, b"", 0), Wants::Input);
    assert_eq!(side.got(), [(Opcode::Binary, &[7; 200][..])]);
    assert_eq!(frames(&run.out).len(), 2);
}

#[test]
fn a_client_that_reads_nothing_is_neither_sent_to_nor_read_from() {
    let mut run = Run::new();
    let big = vec![0_u8; 60_000];
    let mut side = Fake::default();
    for _ in 0..10 {
        side = side.sends(&[(Opcode::Binary, true, &big)]);
    }
    run.collects(&mut side, 0);
    assert!(run.out.len() <= OUTPUT_BYTES + big.len() + 10);
    let left = side.sends.len();
    run.session
        .collect(&mut side, &mut run.out, OUTPUT_BYTES + 1, 0);
    assert_eq!(side.sends.len(), left);
    run.input = client(Opcode::Ping, true, b"x");
    assert_eq!(
        run.session.receive(
            &mut run.input,
            &mut side,
            &mut Vec::new(),
            OUTPUT_BYTES + 1,
            0
        ),
        Wants::Room
    );
    assert!(!run.input.is_empty());
}

#[test]
fn silence_is_pinged_and_then_ended() {
    let (mut run, mut side) = (Run::new(), Fake::default());
    assert_eq!(run.session.tick(true, &mut run.out, 0), 30_000);
    assert_eq!(run.session.tick(true, &mut run.out, 30_000), 60_000);
    assert_eq!(frames(&run.out), [(Opcode::Ping, true, &b""[..])]);
    // A pong is a sign of life like any other, and of no interest to the application.
    run.hears(&mut side, &client(Opcode::Pong, true, b""), 31_000);
    assert_eq!(run.session.tick(true, &mut run.out, 31_000), 61_000);
    assert_eq!(run.session.tick(true, &mut run.out, 61_000), 91_000);
    run.out.clear();
    run.session.tick(true, &mut run.out, 91_000);
    assert_eq!(frames(&run.out)[0].0, Opcode::Close);
    run.session.deliver(&mut side);
    assert_eq!(side.got(), [(Opcode::Close, &b"\x03\xee"[..])]);
}

#[test]
fn silence_is_not_counted_while_the_application_does_not_read() {
    let mut run = Run::new();
    assert_eq!(run.session.tick(false, &mut run.out, 100_000), 130_000);
    assert_eq!(run.out, b"");
    let off = SessionOptions {
        read_timeout: None,
        keepalive: None,
        ..OPTIONS
    };
    assert_eq!(
        WebSocketSession::new(off, 0).tick(true, &mut run.out, 1 << 40),
        u64::MAX
    );
}

#[test]
fn a_server_that_ends_says_so_once() {
    let (mut run, mut side) = (Run::new(), Fake::default());
    run.session.dismiss(1001, "going", &mut run.out, 0);
    run.session.dismiss(1012, "again", &mut run.out, 0);
    run.collects(&mut side, 0);
    assert_eq!(
        frames(&run.out),
        [(Opcode::Close, true, &b"\x03\xe9going"[..])]
    );
    assert_eq!(side.got(), [(Opcode::Close, &b"\x03\xe9going"[..])]);
    run.hears(&mut side, &client(Opcode::Close, true, b"\x03\xe9"), 1);
    assert_eq!(run.session.ended(), Some(false));
}

#[test]
fn a_vanished_client_is_reported_even_behind_a_full_ring() {
    let (mut run, mut side) = (
        Run::new(),
        Fake {
            room: 500,
            ..Fake::default()
        },
    );
    assert_eq!(
        run.hears(&mut side, &client(Opcode::Binary, true, &[1; 400]), 0),
        Wants::Room
    );
    run.session.client_gone(&mut side);
    assert_eq!(side.got(), [(Opcode::Close, &b"\x03\xee"[..])]);
    assert!(side.is_finished && run.session.ended().is_some());
}
