//! Screens request heads on their way to `h2`: a malformed head that should end only its own stream does not end the connection.
//!
//! Complete header blocks are passed to [`FieldScreen`]; everything else is forwarded unchanged. An incomplete head is held back.
//!
//! Must never: hold more than [`HELD_BYTES`], or change any other bytes of a connection.

use rustc_hash::FxHashSet;
use tutti_http::http2::frame::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEAD_BYTES, HEADERS, PADDED, PRIORITY, RST_STREAM,
};
use tutti_http::http2::{BadFieldBlock, FieldScreen};

/// Bytes of the priority in HEADERS.
const PRIORITY_BYTES: usize = 5;

/// The largest frame that every peer accepts (RFC 9113 §4.2).
const FRAME_BYTES: usize = 16 * 1024;

/// `h2` refuses longer heads, so these are forwarded to it unscreened.
const HELD_BYTES: usize = 64 * 1024;

/// Open streams that may still send trailers: far more than a connection may have. Further ones are left to `h2`.
const MOST_OPEN: usize = 4096;

/// The heads of one connection.
pub(crate) struct Heads {
    fields: FieldScreen,
    /// The last stream that was opened.
    last: u32,
    /// Streams whose request has not ended: HEADERS for one of these is a trailer section. HEADERS for any other old stream is an error,
    /// which `h2` detects.
    open: FxHashSet<u32>,
    /// The beginning of an incomplete frame or head.
    held: Vec<u8>,
    /// Bytes of the preface, or of a frame without a head, that are still to be forwarded.
    rest: usize,
    /// The client's bytes cannot be parsed: everything is forwarded.
    is_lost: bool,
}

/// The frame at the beginning of some bytes.
enum Found {
    /// Incomplete.
    Part,
    /// A frame of another kind, with this length, and the stream whose request it ends.
    Other { length: usize, ends: Option<u32> },
    /// The frames of a complete header block, with this length.
    Head {
        length: usize,
        opening: Opening,
        block: Vec<u8>,
    },
    /// Not a valid sequence of frames.
    Lost,
}

/// The frame that begins a head.
struct Opening {
    flags: u8,
    stream: [u8; 4],
    priority: Vec<u8>,
}

impl Heads {
    /// For a connection whose preface has this length.
    pub(crate) fn new(preface: usize) -> Self {
        Self {
            fields: FieldScreen::default(),
            last: 0,
            open: FxHashSet::default(),
            held: Vec::new(),
            rest: preface,
            is_lost: false,
        }
    }

    /// Takes the received bytes from `input`, and leaves there those to forward.
    pub(crate) fn pass(&mut self, input: &mut Vec<u8>) {
        if self.is_lost {
            return;
        }
        if !self.held.is_empty() {
            self.held.append(input);
            std::mem::swap(&mut self.held, input);
        }
        let mut position = 0;
        loop {
            let skipped = self.rest.min(input.len() - position);
            self.rest -= skipped;
            position += skipped;
            match find(input.get(position..).unwrap_or_default()) {
                Found::Part => break,
                Found::Other { length, ends } => {
                    self.rest = length;
                    if let Some(stream) = ends {
                        self.open.remove(&stream);
                    }
                }
                Found::Lost => return self.lose(),
                Found::Head {
                    length,
                    opening,
                    block,
                } => match self.screen(&opening, &block) {
                    Ok(None) => position += length,
                    Ok(Some(block)) => {
                        let frames = opening.write(&block);
                        let after = position + frames.len();
                        input.splice(position..position + length, frames);
                        position = after;
                    }
                    Err(_) => return self.lose(),
                },
            }
        }
        if input.len() - position > HELD_BYTES {
            return self.lose();
        }
        self.held.extend(input.drain(position..));
    }

    fn screen(
        &mut self,
        opening: &Opening,
        block: &[u8],
    ) -> Result<Option<Vec<u8>>, BadFieldBlock> {
        let stream = number(opening.stream);
        let is_trailer = self.open.contains(&stream);
        let ends = opening.flags & END_STREAM != 0;
        if ends {
            self.open.remove(&stream);
        } else if stream > self.last && self.open.len() < MOST_OPEN {
            self.open.insert(stream);
        }
        self.last = self.last.max(stream);
        self.fields.screen(block, is_trailer)
    }

    fn lose(&mut self) {
        self.is_lost = true;
    }
}

impl Opening {
    /// Encodes this head with another block.
    fn write(&self, block: &[u8]) -> Vec<u8> {
        let mut frames = Vec::with_capacity(block.len() + 2 * HEAD_BYTES + PRIORITY_BYTES);
        let first = block.len().min(FRAME_BYTES - PRIORITY_BYTES);
        let (mut part, mut rest) = block.split_at(first);
        let mut kind = HEADERS;
        let mut flags = self.flags & (END_STREAM | PRIORITY);
        let mut priority = self.priority.as_slice();
        loop {
            let length = u32::try_from(priority.len() + part.len()).unwrap_or_default();
            frames.extend_from_slice(length.to_be_bytes().get(1..).unwrap_or_default());
            let ends = if rest.is_empty() { END_HEADERS } else { 0 };
            frames.extend_from_slice(&[kind, flags | ends]);
            frames.extend_from_slice(&self.stream);
            frames.extend_from_slice(priority);
            frames.extend_from_slice(part);
            if rest.is_empty() {
                return frames;
            }
            (part, rest) = rest.split_at(rest.len().min(FRAME_BYTES));
            (kind, flags, priority) = (CONTINUATION, 0, &[]);
        }
    }
}

/// The number of a stream. The first bit is reserved (RFC 9113 §4.1).
fn number(stream: [u8; 4]) -> u32 {
    u32::from_be_bytes(stream) & 0x7fff_ffff
}

/// A frame: kind, flags, stream, payload and length.
type Frame<'a> = (u8, u8, [u8; 4], &'a [u8], usize);

/// The frame at the beginning of `bytes`, if it is complete.
fn frame(bytes: &[u8]) -> Option<Frame<'_>> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let [high, middle, low, kind, flags, stream @ ..] = *head;
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    Some((
        kind,
        flags,
        stream,
        rest.get(..length)?,
        HEAD_BYTES + length,
    ))
}

fn find(bytes: &[u8]) -> Found {
    let Some([high, middle, low, kind, flags, stream @ ..]) = bytes.first_chunk::<HEAD_BYTES>()
    else {
        return Found::Part;
    };
    if *kind != HEADERS {
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        let is_end = *kind == RST_STREAM || *kind == DATA && *flags & END_STREAM != 0;
        return Found::Other {
            length: HEAD_BYTES + length,
            ends: is_end.then(|| number(*stream)),
        };
    }
    let Some((_, flags, stream, payload, mut end)) = frame(bytes) else {
        return Found::Part;
    };
    let Some((priority, fragment)) = content(flags, payload) else {
        return Found::Lost;
    };
    let opening = Opening {
        flags,
        stream,
        priority: priority.to_vec(),
    };
    let mut block = fragment.to_vec();
    let mut is_whole = flags & END_HEADERS != 0;
    while !is_whole {
        let rest = bytes.get(end..).unwrap_or_default();
        let Some((kind, flags, of, payload, length)) = frame(rest) else {
            // Only CONTINUATION may follow; any other kind is an error at once.
            let is_other = rest.get(3).is_some_and(|kind| *kind != CONTINUATION);
            return if is_other { Found::Lost } else { Found::Part };
        };
        if kind != CONTINUATION || of != stream {
            return Found::Lost;
        }
        block.extend_from_slice(payload);
        end += length;
        is_whole = flags & END_HEADERS != 0;
    }
    Found::Head {
        length: end,
        opening,
        block,
    }
}

/// The priority and the block fragment in a payload of HEADERS, without padding.
fn content(flags: u8, payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = payload;
    if flags & PADDED != 0 {
        let (padding, behind) = rest.split_first()?;
        rest = behind.get(..behind.len().checked_sub(usize::from(*padding))?)?;
    }
    let priority = if flags & PRIORITY != 0 {
        PRIORITY_BYTES
    } else {
        0
    };
    rest.split_at_checked(priority)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn bytes(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u32;
        let mut frame = length.to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags, 0, 0, 0, stream]);
        frame.extend_from_slice(payload);
        frame
    }

    /// Returns the forwarded bytes of `sent` when they arrive in pieces of `step` bytes.
    fn passed(sent: &[u8], step: usize) -> Vec<u8> {
        let mut heads = Heads::new(PREFACE.len());
        let mut passed = Vec::new();
        for piece in sent.chunks(step) {
            let mut input = piece.to_vec();
            heads.pass(&mut input);
            passed.extend(input);
        }
        passed
    }

    const GOOD: &[u8] = b"\x82\x86\x84";
    /// `Bad: 1`
    const BAD: &[u8] = b"\x82\x00\x03Bad\x011";
    const MARKED: &[u8] = b"\x82\x00\x03xxx\x01x\x00\x0aconnection\x01x";

    #[test]
    fn only_heads_that_cannot_be_decoded_are_changed() {
        let data = bytes(0, 0, 1, &[7; 300]);
        let sent = [
            PREFACE,
            &bytes(4, 0, 0, b""),
            &bytes(HEADERS, END_HEADERS, 1, GOOD),
            &data,
            &bytes(HEADERS, END_HEADERS | END_STREAM, 3, BAD),
            // With padding and priority, in two frames.
            &bytes(
                HEADERS,
                PADDED | PRIORITY,
                5,
                &[&[2][..], b"prior", &BAD[..4], &[0; 2]].concat(),
            ),
            &bytes(CONTINUATION, END_HEADERS, 5, &BAD[4..]),
            &bytes(HEADERS, END_HEADERS, 7, GOOD),
        ]
        .concat();
        let expected = [
            PREFACE,
            &bytes(4, 0, 0, b""),
            &bytes(HEADERS, END_HEADERS, 1, GOOD),
            &data,
            &bytes(HEADERS, END_HEADERS | END_STREAM, 3, MARKED),
            &bytes(
                HEADERS,
                PRIORITY | END_HEADERS,
                5,
                &[b"prior", MARKED].concat(),
            ),
            &bytes(HEADERS, END_HEADERS, 7, GOOD),
        ]
        .concat();
        for step in [1, 7, 100, sent.len()] {
            assert!(passed(&sent, step) == expected, "{step}");
        }
    }

    #[test]
    fn malformed_blocks_pass_unchanged() {
        for wrong in [
            bytes(HEADERS, PADDED | END_HEADERS, 1, b"\x09abc"),
            bytes(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
            [bytes(HEADERS, 0, 1, BAD), bytes(0, 0, 1, b"data")].concat(),
            [bytes(HEADERS, 0, 1, BAD), bytes(CONTINUATION, 0, 3, b"")].concat(),
        ] {
            let sent = [PREFACE, &wrong, &bytes(HEADERS, END_HEADERS, 3, BAD)].concat();
            for step in [1, sent.len()] {
                assert!(passed(&sent, step) == sent, "{wrong:?}");
            }
        }
    }

    #[test]
    fn a_head_without_end_is_not_held_for_ever() {
        let mut sent = [PREFACE, &bytes(HEADERS, 0, 1, GOOD)].concat();
        while sent.len() <= 2 * HELD_BYTES {
            sent.extend(bytes(CONTINUATION, 0, 1, &[0x82; 10_000]));
        }
        assert!(passed(&sent, 16_384) == sent);
    }

    #[test]
    fn a_block_that_became_longer_is_sent_in_more_frames() {
        let opening = Opening {
            flags: END_STREAM,
            stream: [0, 0, 0, 9],
            priority: Vec::new(),
        };
        let block: Vec<u8> = (0..40_000_u32).map(|at| at as u8).collect();
        let frames = opening.write(&block);
        let Found::Head {
            length,
            block: read,
            opening,
        } = find(&frames)
        else {
            panic!("a head");
        };
        assert_eq!((length, opening.flags), (frames.len(), END_STREAM));
        assert!(read == block);
    }
}
