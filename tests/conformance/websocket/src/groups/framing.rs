//! 1 framing, 2 pings and pongs, 3 reserved bits, 4 opcodes.

use super::frames::{binary, close, ping, pong, text};
use crate::client::Frame;
use crate::script::Case;

/// 1: messages of the sizes at which the length changes its form.
pub(super) fn sizes() -> Vec<Case> {
    let sizes = [
        (0, usize::MAX),
        (125, usize::MAX),
        (126, usize::MAX),
        (127, usize::MAX),
        (128, usize::MAX),
        (65_535, usize::MAX),
        (65_536, usize::MAX),
        (65_536, 997),
    ];
    let mut cases = Vec::new();
    for (group, kind) in [(1, "text"), (2, "binary")] {
        for (index, (size, chop)) in sizes.into_iter().enumerate() {
            let how = if chop == usize::MAX {
                String::new()
            } else {
                format!(" in writes of {chop}")
            };
            let case = Case::new(
                format!("1.{group}.{}", index + 1),
                format!("{kind} of {size} bytes{how}"),
            );
            cases.push(if group == 1 {
                let payload = vec![b'*'; size];
                case.chopped(chop, [text(payload.clone())]).text(payload)
            } else {
                let payload = vec![0xfe; size];
                case.chopped(chop, [binary(payload.clone())])
                    .binary(payload)
            });
        }
    }
    cases
}

/// 2: a ping is answered with a pong of the same payload; a pong by nothing.
pub(super) fn pings() -> Vec<Case> {
    let long = vec![0xfe; 125];
    let ten: Vec<Frame> = (0..10)
        .map(|number| ping(format!("payload {number}")))
        .collect();
    let answered =
        |case: Case| (0..10).fold(case, |case, number| case.pong(format!("payload {number}")));
    vec![
        Case::new("2.1", "ping without payload")
            .send([ping("")])
            .pong(""),
        Case::new("2.2", "ping with text")
            .send([ping("Hello, world!")])
            .pong("Hello, world!"),
        Case::new("2.3", "ping with bytes that are no text")
            .send([ping(*b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff")])
            .pong(*b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff"),
        Case::new("2.4", "ping with 125 bytes")
            .send([ping(long.clone())])
            .pong(long.clone()),
        Case::new("2.5", "ping with 126 bytes")
            .send([ping(vec![0xfe; 126])])
            .fails(),
        Case::new("2.6", "ping with 125 bytes, byte by byte")
            .chopped(1, [ping(long.clone())])
            .pong(long),
        Case::new("2.7", "unasked pong without payload").send([pong("")]),
        Case::new("2.8", "unasked pong with payload").send([pong("unsolicited")]),
        Case::new("2.9", "unasked pong, then a ping")
            .send([pong("unsolicited"), ping("ping")])
            .pong("ping"),
        answered(Case::new("2.10", "ten pings").send(ten.clone())),
        answered(Case::new("2.11", "ten pings, byte by byte").chopped(1, ten)),
    ]
}

/// 3: a reserved bit without an extension fails the connection.
pub(super) fn reserved_bits() -> Vec<Case> {
    let with = |frame: Frame, bits| vec![text("before"), frame.reserved(bits), ping("behind")];
    vec![
        Case::new("3.1", "text with RSV 1")
            .send([text("small").reserved(1)])
            .fails(),
        Case::new("3.2", "text, text with RSV 2, ping")
            .send(with(text("small"), 2))
            .fails(),
        Case::new("3.3", "the same, frame by frame")
            .send([text("before")])
            .send([text("small").reserved(2)])
            .send([ping("behind")])
            .fails(),
        Case::new("3.4", "text, text with RSV 3, ping, byte by byte")
            .chopped(1, with(text("small"), 3))
            .fails(),
        Case::new("3.5", "binary with RSV 4")
            .send([binary(vec![0xff; 8]).reserved(4)])
            .fails(),
        Case::new("3.6", "ping with RSV 5")
            .send([ping("ping").reserved(5)])
            .fails(),
        Case::new("3.7", "close with RSV 6")
            .send([close(*b"\x03\xe8").reserved(6)])
            .fails(),
        Case::new("3.8", "a first byte with all bits")
            .raw([0xff])
            .fails(),
    ]
}

/// 4: opcodes that mean nothing fail the connection.
pub(super) fn opcodes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (group, first) in [(1, 3), (2, 11)] {
        for index in 0..5 {
            let opcode = first + index;
            let case = Case::new(
                format!("4.{group}.{}", index + 1),
                format!("opcode {opcode}"),
            );
            cases.push(
                match index {
                    0 => case.send([Frame::new(opcode, "")]),
                    1 => case.send([Frame::new(opcode, "reserved")]),
                    2 => case.send([text("before"), Frame::new(opcode, ""), ping("")]),
                    3 => case.send([text("before"), Frame::new(opcode, "reserved"), ping("")]),
                    _ => case.chopped(
                        1,
                        [text("before"), Frame::new(opcode, "reserved"), ping("")],
                    ),
                }
                .fails(),
            );
        }
    }
    // §5.1: a client's frames are masked.
    cases.push(
        Case::new("4.3.1", "a frame without mask")
            .raw(*b"\x81\x05hello")
            .fails(),
    );
    cases
}
