//! Frames that consist of more than a head and some bytes: those of a field section (RFC 9113 §4.3, §6.2, §6.10).

use tutti_http::http2::HpackEncoder;
use tutti_http::http2::frame::{
    CONTINUATION, END_HEADERS, END_STREAM, FrameHead, HEAD_BYTES, HEADERS, MOST_PAYLOAD,
};

use crate::hub::Core;

/// The payload of the PING that follows a first GOAWAY: when it comes back, all requests that the client sent before it have arrived
/// (RFC 9113 §6.8).
pub(crate) const FAREWELL_PING: [u8; 8] = *b"farewell";

/// Appends a field section, which `encode` writes; it returns true if the stream ends with it.
pub(crate) fn write_section(
    core: &mut Core,
    stream: u32,
    encode: impl FnOnce(&mut HpackEncoder, &mut Vec<u8>) -> bool,
) {
    let out = &mut core.output.bytes;
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let ends = encode(&mut core.encoder, out);
    let length = out.len() - start - HEAD_BYTES;
    let flags = if ends { END_STREAM } else { 0 };
    let mut head = FrameHead {
        length: length.min(MOST_PAYLOAD),
        kind: HEADERS,
        flags,
        stream,
    };
    if length <= MOST_PAYLOAD {
        head.flags |= END_HEADERS;
        return put(out, start, head);
    }
    let rest = out.split_off(start + HEAD_BYTES + MOST_PAYLOAD);
    put(out, start, head);
    let mut left = rest.len();
    for piece in rest.chunks(MOST_PAYLOAD) {
        left -= piece.len();
        let head = FrameHead {
            length: piece.len(),
            kind: CONTINUATION,
            flags: if left == 0 { END_HEADERS } else { 0 },
            stream,
        };
        out.extend_from_slice(&head.bytes());
        out.extend_from_slice(piece);
    }
}

/// Writes the head of a frame in the place that was left for it.
fn put(out: &mut [u8], start: usize, head: FrameHead) {
    if let Some(place) = out.get_mut(start..start + HEAD_BYTES) {
        place.copy_from_slice(&head.bytes());
    }
}

/// The payload of a frame without its padding; `None` if there is more padding than payload (§6.1).
pub(crate) fn without_padding(is_padded: bool, payload: &[u8]) -> Option<&[u8]> {
    if !is_padded {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}
