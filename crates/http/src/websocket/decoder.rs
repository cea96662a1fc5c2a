//! Decodes bytes to messages: order of frames, unmasking, UTF-8 of text, limits.

use std::ops::Range;

use super::fault::WebSocketError;
use super::frame::{FrameHead, Opcode};
use super::mask::apply_mask;
use super::utf8::Utf8;

/// The side that decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A server reads those of clients, which are masked.
    Server,
    /// A client reads those of a server, which are not.
    Client,
}

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// UTF-8.
    Text,
    /// Anything.
    Binary,
}

impl MessageKind {
    /// The opcode of its first frame.
    pub fn opcode(self) -> Opcode {
        match self {
            Self::Text => Opcode::Text,
            Self::Binary => Opcode::Binary,
        }
    }
}

/// An event. Ranges are positions in the input, unmasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameEvent {
    /// A piece of a message, as received or as it fits; the last one may be empty.
    Data {
        /// The kind of the message.
        kind: MessageKind,
        /// The piece.
        range: Range<usize>,
        /// True if the message ends with it.
        is_last: bool,
    },
    /// A complete control frame with its payload.
    Control {
        /// Close, ping or pong.
        opcode: Opcode,
        /// The payload.
        range: Range<usize>,
    },
}

/// A data frame whose payload is incomplete.
#[derive(Clone, Copy, Debug)]
struct Payload {
    remaining: u64,
    mask: Option<[u8; 4]>,
    /// Received bytes of it.
    phase: u64,
    is_final: bool,
}

/// An incomplete message.
#[derive(Clone, Copy, Debug)]
struct Message {
    kind: MessageKind,
    /// Bytes announced by its frames so far.
    length: u64,
    text: Utf8,
}

/// Decodes the frames of one direction of a connection.
#[derive(Clone, Debug)]
pub struct FrameDecoder {
    role: Role,
    max_message: u64,
    message: Option<Message>,
    payload: Option<Payload>,
}

impl FrameDecoder {
    /// `max_message`: longest message, over all its frames.
    pub fn new(role: Role, max_message: u64) -> Self {
        Self {
            role,
            max_message,
            message: None,
            payload: None,
        }
    }

    /// True if the payload of a data frame is incomplete.
    pub fn is_within_frame(&self) -> bool {
        self.payload.is_some()
    }

    /// Decodes the start of `input`; returns how many bytes were consumed, and the event.
    ///
    /// A piece of a message has at most `room` bytes. If nothing is consumed and there is no event, more input or more room is needed.
    /// Bytes that are not consumed are unchanged, and must be passed again, with those that follow. A control frame is only consumed whole,
    /// so the input must have room for one: 139 bytes.
    ///
    /// # Errors
    /// The connection must be failed with the [`WebSocketError`]; the decoder must not be used again.
    pub fn decode(
        &mut self,
        input: &mut [u8],
        room: usize,
    ) -> Result<(usize, Option<FrameEvent>), WebSocketError> {
        let mut start = 0;
        let payload = match self.payload {
            Some(payload) => payload,
            None => {
                let Some((head, length)) = FrameHead::parse(input)? else {
                    return Ok((0, None));
                };
                if head.mask.is_some() != (self.role == Role::Server) {
                    return Err(WebSocketError::Mask);
                }
                if head.opcode.is_control() {
                    return Ok(control(head, length, input));
                }
                self.begin(head)?;
                start = length;
                Payload {
                    remaining: head.length,
                    mask: head.mask,
                    phase: 0,
                    is_final: head.is_final,
                }
            }
        };
        self.data(payload, start, input, room)
    }

    /// Begins a data frame: checks that it is permitted in the message, and that the length is within the limit.
    fn begin(&mut self, head: FrameHead) -> Result<(), WebSocketError> {
        let kind = match (head.opcode, &self.message) {
            (Opcode::Continuation, Some(message)) => message.kind,
            (Opcode::Continuation, None) => return Err(WebSocketError::Continuation),
            (_, Some(_)) => return Err(WebSocketError::Interleaved),
            (Opcode::Text, None) => MessageKind::Text,
            (_, None) => MessageKind::Binary,
        };
        let message = self.message.get_or_insert(Message {
            kind,
            length: 0,
            text: Utf8::default(),
        });
        message.length = message.length.saturating_add(head.length);
        if message.length > self.max_message {
            return Err(WebSocketError::TooLong);
        }
        Ok(())
    }

    fn data(
        &mut self,
        mut payload: Payload,
        start: usize,
        input: &mut [u8],
        room: usize,
    ) -> Result<(usize, Option<FrameEvent>), WebSocketError> {
        let available = (input.len() - start).min(room);
        let length =
            usize::try_from(payload.remaining).map_or(available, |left| left.min(available));
        let range = start..start + length;
        let bytes = input.get_mut(range.clone()).unwrap_or_default();
        if let Some(mask) = payload.mask {
            apply_mask(bytes, mask, payload.phase);
        }
        payload.phase += length as u64;
        payload.remaining -= length as u64;
        let ends_frame = payload.remaining == 0;
        let is_last = ends_frame && payload.is_final;
        self.payload = (!ends_frame).then_some(payload);
        // `begin` has put it there.
        let Some(message) = &mut self.message else {
            return Err(WebSocketError::Continuation);
        };
        let kind = message.kind;
        if kind == MessageKind::Text
            && (!message.text.accept(bytes) || is_last && !message.text.is_complete())
        {
            return Err(WebSocketError::NotUtf8);
        }
        if is_last {
            self.message = None;
        }
        let event = (length > 0 || is_last).then_some(FrameEvent::Data {
            kind,
            range: range.clone(),
            is_last,
        });
        Ok((range.end, event))
    }
}

/// Decodes a control frame, if it is complete.
fn control(head: FrameHead, start: usize, input: &mut [u8]) -> (usize, Option<FrameEvent>) {
    // At most 125 bytes.
    let end = start.saturating_add(usize::try_from(head.length).unwrap_or(usize::MAX));
    let range = start..end;
    let Some(bytes) = input.get_mut(range.clone()) else {
        return (0, None);
    };
    if let Some(mask) = head.mask {
        apply_mask(bytes, mask, 0);
    }
    let opcode = head.opcode;
    (end, Some(FrameEvent::Control { opcode, range }))
}

#[cfg(test)]
mod tests {
    use super::super::client_frame::client_frame as frame;
    use super::*;

    const ROOMY: usize = usize::MAX;

    /// Decodes `input` given in pieces of `step` bytes: messages and control frames, in order.
    fn run(
        input: &[u8],
        step: usize,
        room: usize,
    ) -> Result<Vec<(Opcode, Vec<u8>)>, WebSocketError> {
        let mut decoder = FrameDecoder::new(Role::Server, 1000);
        let (mut found, mut message) = (Vec::new(), Vec::new());
        let mut buffer = Vec::new();
        for piece in input.chunks(step) {
            buffer.extend_from_slice(piece);
            loop {
                let (consumed, event) = decoder.decode(&mut buffer, room)?;
                match event {
                    Some(FrameEvent::Data {
                        kind,
                        range,
                        is_last,
                    }) => {
                        assert!(range.len() <= room);
                        message.extend_from_slice(&buffer[range]);
                        if is_last {
                            found.push((kind.opcode(), std::mem::take(&mut message)));
                        }
                    }
                    Some(FrameEvent::Control { opcode, range }) => {
                        found.push((opcode, buffer[range].to_vec()));
                    }
                    None => {}
                }
                buffer.drain(..consumed);
                if consumed == 0 {
                    break;
                }
            }
        }
        assert_eq!(decoder.message.is_some(), !message.is_empty());
        Ok(found)
    }

    #[test]
    fn messages_in_fragments_with_control_frames_between_in_any_split() {
        let input = [
            frame(Opcode::Text, false, "Grü".as_bytes()),
            frame(Opcode::Ping, true, b"are you there"),
            frame(Opcode::Continuation, false, b""),
            frame(Opcode::Continuation, false, &"ß".as_bytes()[..1]),
            frame(Opcode::Pong, true, b""),
            frame(Opcode::Continuation, true, &"ß".as_bytes()[1..]),
            frame(Opcode::Binary, true, b""),
            frame(Opcode::Binary, true, &[255; 300]),
            frame(Opcode::Close, true, b"\x03\xe8bye"),
        ]
        .concat();
        let expected = vec![
            (Opcode::Ping, b"are you there".to_vec()),
            (Opcode::Pong, b"".to_vec()),
            (Opcode::Text, "Grüß".as_bytes().to_vec()),
            (Opcode::Binary, b"".to_vec()),
            (Opcode::Binary, vec![255; 300]),
            (Opcode::Close, b"\x03\xe8bye".to_vec()),
        ];
        for step in [1, 2, 3, 7, 100, 10_000] {
            for room in [1, 5, ROOMY] {
                assert_eq!(
                    run(&input, step, room),
                    Ok(expected.clone()),
                    "{step} {room}"
                );
            }
        }
    }

    #[test]
    fn the_order_of_frames_is_held_to() {
        let text = |is_final| frame(Opcode::Text, is_final, b"a");
        let more = |is_final| frame(Opcode::Continuation, is_final, b"b");
        for (frames, fault) in [
            (vec![more(true)], WebSocketError::Continuation),
            (vec![more(false)], WebSocketError::Continuation),
            (vec![text(false), text(true)], WebSocketError::Interleaved),
            (
                vec![text(false), frame(Opcode::Binary, true, b"")],
                WebSocketError::Interleaved,
            ),
            (vec![text(true), more(true)], WebSocketError::Continuation),
            (
                vec![frame(Opcode::Text, true, b"\xff")],
                WebSocketError::NotUtf8,
            ),
            (
                vec![frame(Opcode::Text, true, b"\xc3")],
                WebSocketError::NotUtf8,
            ),
            (
                vec![
                    frame(Opcode::Text, false, b"\xc3"),
                    frame(Opcode::Continuation, true, b""),
                ],
                WebSocketError::NotUtf8,
            ),
            (
                vec![frame(Opcode::Binary, true, &[0; 1001])],
                WebSocketError::TooLong,
            ),
            (
                vec![
                    frame(Opcode::Binary, false, &[0; 600]),
                    frame(Opcode::Continuation, true, &[0; 401]),
                ],
                WebSocketError::TooLong,
            ),
            (vec![b"\x81\x01a".to_vec()], WebSocketError::Mask),
        ] {
            let input = frames.concat();
            for step in [1, 10_000] {
                assert_eq!(run(&input, step, ROOMY), Err(fault));
            }
        }
        assert_eq!(
            FrameDecoder::new(Role::Client, 9).decode(&mut text(true), 9),
            Err(WebSocketError::Mask)
        );
    }

    #[test]
    fn a_length_that_is_too_long_is_refused_before_its_bytes_come() {
        let mut head = Vec::new();
        let announced = FrameHead {
            is_final: true,
            opcode: Opcode::Binary,
            length: i64::MAX as u64,
            mask: Some([0; 4]),
        };
        announced.write(&mut head);
        let mut decoder = FrameDecoder::new(Role::Server, 1 << 20);
        assert_eq!(
            decoder.decode(&mut head, ROOMY),
            Err(WebSocketError::TooLong)
        );
    }

    #[test]
    fn without_room_nothing_but_the_head_is_consumed() {
        let mut input = frame(Opcode::Binary, true, b"abc");
        let mut decoder = FrameDecoder::new(Role::Server, 9);
        assert_eq!(decoder.decode(&mut input, 0), Ok((6, None)));
        assert_eq!(decoder.decode(&mut input[6..], 0), Ok((0, None)));
        let (consumed, event) = decoder.decode(&mut input[6..], 2).unwrap();
        assert_eq!((consumed, event.is_some()), (2, true));
        assert_eq!(&input[6..8], b"ab");
    }
}
