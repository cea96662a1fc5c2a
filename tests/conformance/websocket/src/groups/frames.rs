//! Frames that the cases are made of.

use crate::client::Frame;

pub(super) fn text(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(1, payload)
}

pub(super) fn binary(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(2, payload)
}

pub(super) fn more(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(0, payload)
}

pub(super) fn close(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(8, payload)
}

pub(super) fn ping(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(9, payload)
}

pub(super) fn pong(payload: impl Into<Vec<u8>>) -> Frame {
    Frame::new(10, payload)
}

/// A message in frames of `size` bytes.
pub(super) fn in_frames(opcode: u8, payload: &[u8], size: usize) -> Vec<Frame> {
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
