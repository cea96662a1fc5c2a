//! Frames as clients send them, for tests.

use super::{FrameHead, Opcode, apply_mask};

/// A frame with its payload masked.
pub(super) fn client_frame(opcode: Opcode, is_final: bool, payload: &[u8]) -> Vec<u8> {
    let mask = [7, 77, 177, 250];
    let head = FrameHead {
        is_final,
        opcode,
        length: payload.len() as u64,
        mask: Some(mask),
    };
    let mut bytes = Vec::new();
    head.write(&mut bytes);
    let start = bytes.len();
    bytes.extend_from_slice(payload);
    apply_mask(&mut bytes[start..], mask, 0);
    bytes
}
