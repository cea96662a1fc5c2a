//! 9: large messages, many fragments, many small writes, many messages.

use super::frames::{binary, in_frames, text};
use crate::client::Frame;
use crate::script::Case;

const KB: usize = 1024;
const MB: usize = 1024 * KB;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (opcode, kind, offset) in [(1, "text", 0), (2, "binary", 1)] {
        let sizes = [64 * KB, 256 * KB, MB, 4 * MB, 8 * MB, 16 * MB];
        for (index, size) in sizes.into_iter().enumerate() {
            let title = format!("{kind} of {} KB", size / KB);
            let number = format!("9.{}.{}", 1 + offset, index + 1);
            cases.push(large(number, title, opcode, size, size, usize::MAX));
        }
        let frames = [64, 256, KB, 4 * KB, 16 * KB, 64 * KB, 256 * KB, MB, 4 * MB];
        for (index, frame) in frames.into_iter().enumerate() {
            let title = format!("{kind} of 4 MB in frames of {frame} bytes");
            let number = format!("9.{}.{}", 3 + offset, index + 1);
            cases.push(large(number, title, opcode, 4 * MB, frame, usize::MAX));
        }
        for (index, write) in [64, 128, 256, 512, KB, 2 * KB].into_iter().enumerate() {
            let title = format!("{kind} of 1 MB in writes of {write} bytes");
            let number = format!("9.{}.{}", 5 + offset, index + 1);
            cases.push(large(number, title, opcode, MB, MB, write));
        }
        for (index, size) in [0, 16, 64, 256, KB, 4 * KB].into_iter().enumerate() {
            let number = format!("9.{}.{}", 7 + offset, index + 1);
            cases.push(many(number, kind, opcode, size));
        }
    }
    cases
}

/// Bytes that repeat only after a while, so that a piece in the wrong place shows.
fn payload(opcode: u8, size: usize) -> Vec<u8> {
    let byte = |at: usize| (at % 251 % 90 + at / 65_536 % 7) as u8;
    let base = if opcode == 1 { b' ' } else { 0x90 };
    (0..size).map(|at| base + byte(at)).collect()
}

fn message(opcode: u8, payload: Vec<u8>) -> Frame {
    if opcode == 1 {
        text(payload)
    } else {
        binary(payload)
    }
}

fn large(
    number: String,
    title: String,
    opcode: u8,
    size: usize,
    frame: usize,
    write: usize,
) -> Case {
    let payload = payload(opcode, size);
    let case = Case::new(number, title).chopped(write, in_frames(opcode, &payload, frame));
    if opcode == 1 {
        case.text(payload)
    } else {
        case.binary(payload)
    }
}

/// A thousand messages, each sent when the one before has come back.
fn many(number: String, kind: &str, opcode: u8, size: usize) -> Case {
    let title = format!("1000 times {kind} of {size} bytes");
    let payload = payload(opcode, size);
    (0..1000).fold(Case::new(number, title), |case, _| {
        let case = case.send([message(opcode, payload.clone())]);
        if opcode == 1 {
            case.text(payload.clone())
        } else {
            case.binary(payload.clone())
        }
    })
}
