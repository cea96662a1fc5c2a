//! The cases, by the groups of Autobahn's fuzzing client.

mod closing;
mod fragments;
mod framing;
mod limits;
mod utf8;

use crate::client::Frame;
use crate::script::Case;

/// All of them, in order.
pub(crate) fn all() -> Vec<Case> {
    [
        framing::sizes(),
        framing::pings(),
        framing::reserved_bits(),
        framing::opcodes(),
        fragments::cases(),
        utf8::cases(),
        closing::cases(),
        limits::cases(),
        fragments::automatic(),
    ]
    .concat()
}

fn text(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(1, payload)
}

fn binary(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(2, payload)
}

fn more(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(0, payload)
}

fn close(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(8, payload)
}

fn ping(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(9, payload)
}

fn pong(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(10, payload)
}

/// A message in frames of `size` bytes.
fn in_frames(opcode: u8, payload: &[u8], size: usize) -> Vec<Frame> {
    let count = payload.len().div_ceil(size).max(1);
    let frames = payload
        .chunks(size)
        .enumerate()
        .map(|(index, piece)| Frame {
            opcode: if index == 0 { opcode } else { 0 },
            is_final: index + 1 == count,
            reserved: 0,
            payload: piece.to_vec(),
        });
    frames.collect()
}
