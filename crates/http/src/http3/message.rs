//! Parses the frames of a request's stream: a head, data, perhaps trailers (RFC 9114 §4.1).

use super::error::{Code, Http3Error};
use super::frame::{
    CANCEL_PUSH, DATA, FrameHead, GOAWAY, HEADERS, HeadBuffer, MAX_PUSH_ID, PUSH_PROMISE, SETTINGS,
};

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessagePart<'a> {
    /// The field section of the head.
    Head(Vec<u8>),
    /// Some of the content.
    Data(&'a [u8]),
    /// The field section of the trailers.
    Trailers(Vec<u8>),
}

/// The next part that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Content,
    /// The trailers have arrived.
    End,
}

/// The frame whose payload is being read.
#[derive(Debug)]
enum Frame {
    /// An incomplete field section.
    Section(Vec<u8>),
    /// Content.
    Data,
    /// An unknown type.
    Unknown,
}

/// Reads the stream of one request.
#[derive(Debug)]
pub struct MessageReader {
    head: HeadBuffer,
    /// The frame, and the remaining bytes of its payload.
    frame: Option<(Frame, u64)>,
    phase: Phase,
    /// Largest field section.
    most: u64,
    /// Remaining bytes of content, if the head declared the length.
    due: Option<u64>,
    /// Useless frames since the last call of [`Self::take_idle_frames`].
    idle_frames: u32,
}

impl MessageReader {
    /// For a message whose field sections may have this many bytes each.
    pub fn new(most: usize) -> Self {
        Self {
            head: HeadBuffer::default(),
            frame: None,
            phase: Phase::Head,
            most: most as u64,
            due: None,
            idle_frames: 0,
        }
    }

    /// Sets the declared length of the content: any other length is a fault (§4.1.2).
    pub fn expect(&mut self, content_length: Option<u64>) {
        self.due = content_length;
    }

    /// Returns the number of useless frames since the last call.
    pub fn take_idle_frames(&mut self) -> u32 {
        std::mem::take(&mut self.idle_frames)
    }

    /// The next part, from the front of `input`; `None` when all of that has been parsed.
    ///
    /// # Errors
    /// Any [`Http3Error`]; nothing more can be parsed.
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<MessagePart<'a>>, Http3Error> {
        loop {
            let Some((frame, rest)) = &mut self.frame else {
                match self.head.take(input) {
                    Some(head) => self.begin(head)?,
                    None => return Ok(None),
                }
                continue;
            };
            let length = usize::try_from(*rest).unwrap_or(usize::MAX);
            let (piece, behind) = input.split_at(length.min(input.len()));
            *rest -= piece.len() as u64;
            let has_ended = *rest == 0;
            *input = behind;
            if let Frame::Section(section) = frame {
                section.extend_from_slice(piece);
            }
            let is_data = matches!(frame, Frame::Data);
            if is_data && !piece.is_empty() {
                self.note_content(piece.len() as u64)?;
            }
            let ended = if has_ended { self.frame.take() } else { None };
            match ended {
                Some((Frame::Section(section), _)) => return self.section(section).map(Some),
                _ if is_data && !piece.is_empty() => return Ok(Some(MessagePart::Data(piece))),
                None => return Ok(None),
                Some(_) => {}
            }
        }
    }

    /// Called at the end of the stream.
    pub fn finish(&self) -> Result<(), Http3Error> {
        if self.frame.is_some() || !self.head.is_empty() {
            return Err(Http3Error::Connection(
                Code::FRAME_ERROR,
                "a stream ends within a frame",
            ));
        }
        match (self.phase, self.due) {
            (Phase::Head, _) => Err(Http3Error::Stream(Code::REQUEST_INCOMPLETE)),
            (_, Some(due)) if due > 0 => Err(Http3Error::Stream(Code::MESSAGE_ERROR)),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, head: FrameHead) -> Result<(), Http3Error> {
        let unexpected = |what| Err(Http3Error::Connection(Code::FRAME_UNEXPECTED, what));
        let frame = match head.kind {
            HEADERS if self.phase == Phase::End => return unexpected("fields after the trailers"),
            HEADERS if head.length > self.most => return Err(self.too_large()),
            HEADERS => Frame::Section(Vec::new()),
            DATA if self.phase == Phase::Head => return unexpected("content before the head"),
            DATA if self.phase == Phase::End => return unexpected("content after the trailers"),
            DATA => Frame::Data,
            CANCEL_PUSH | SETTINGS | PUSH_PROMISE | GOAWAY | MAX_PUSH_ID => {
                return unexpected("a frame that is not permitted in a request");
            }
            _ if head.is_of_http2() => return unexpected("a frame of HTTP/2"),
            _ => Frame::Unknown,
        };
        if matches!(frame, Frame::Unknown) || head.length == 0 {
            self.idle_frames = self.idle_frames.saturating_add(1);
        }
        self.frame = Some((frame, head.length));
        Ok(())
    }

    fn too_large(&self) -> Http3Error {
        match self.phase {
            Phase::Head => Http3Error::HeadTooLarge,
            _ => Http3Error::Stream(Code::EXCESSIVE_LOAD),
        }
    }

    fn note_content(&mut self, bytes: u64) -> Result<(), Http3Error> {
        if let Some(due) = &mut self.due {
            let left = due.checked_sub(bytes);
            *due = left.ok_or(Http3Error::Stream(Code::MESSAGE_ERROR))?;
        }
        Ok(())
    }

    fn section(&mut self, section: Vec<u8>) -> Result<MessagePart<'static>, Http3Error> {
        if self.phase == Phase::Head {
            self.phase = Phase::Content;
            return Ok(MessagePart::Head(section));
        }
        self.phase = Phase::End;
        Ok(MessagePart::Trailers(section))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let length = payload.len() as u64;
        FrameHead { kind, length }.write(&mut out);
        out.extend_from_slice(payload);
        out
    }

    /// The parts of a stream that comes in pieces of `step` bytes and ends, data put together.
    fn read(
        reader: &mut MessageReader,
        bytes: &[u8],
        step: usize,
    ) -> Result<Vec<String>, Http3Error> {
        let mut parts: Vec<String> = Vec::new();
        for piece in bytes.chunks(step) {
            let mut rest = piece;
            while let Some(part) = reader.next(&mut rest)? {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                match part {
                    MessagePart::Head(section) => parts.push(format!("head {}", text(&section))),
                    MessagePart::Trailers(section) => {
                        parts.push(format!("trailers {}", text(&section)))
                    }
                    MessagePart::Data(data) => match parts.last_mut() {
                        Some(last) if last.starts_with("data") => last.push_str(&text(data)),
                        _ => parts.push(format!("data {}", text(data))),
                    },
                }
            }
        }
        reader.finish()?;
        Ok(parts)
    }

    #[test]
    fn a_message_is_read_in_any_split() {
        let bytes = [
            frame(0x21, b"grease"),
            frame(HEADERS, b"HEAD"),
            frame(DATA, b"abc"),
            frame(DATA, b""),
            frame(0x1f * 9 + 0x21, b""),
            frame(DATA, b"def"),
            frame(HEADERS, b"TAIL"),
            frame(0x21, b"more"),
        ]
        .concat();
        for step in 1..=bytes.len() {
            let mut reader = MessageReader::new(4);
            let parts = read(&mut reader, &bytes, step);
            let expected = ["head HEAD", "data abcdef", "trailers TAIL"];
            assert_eq!(parts.unwrap(), expected, "{step}");
            assert_eq!(reader.take_idle_frames(), 4);
        }
    }

    #[test]
    fn faults_end_the_stream_or_the_connection() {
        let head = frame(HEADERS, b"H");
        let connection =
            |code| move |fault| matches!(fault, Http3Error::Connection(found, _) if found == code);
        let unexpected = connection(Code::FRAME_UNEXPECTED);
        for (bytes, frames) in [
            (frame(DATA, b"x"), "content first"),
            (
                [head.clone(), head.clone(), head.clone()].concat(),
                "three sections",
            ),
            (
                [head.clone(), head.clone(), frame(DATA, b"x")].concat(),
                "content at the end",
            ),
            (frame(SETTINGS, b""), "settings"),
            ([head.clone(), frame(GOAWAY, b"\0")].concat(), "goaway"),
            ([head.clone(), frame(PUSH_PROMISE, b"\0")].concat(), "push"),
            (frame(0x8, b"\0"), "of HTTP/2"),
        ] {
            let fault = read(&mut MessageReader::new(100), &bytes, 3).unwrap_err();
            assert!(unexpected(fault), "{frames}: {fault:?}");
        }
        let of = |bytes: &[u8]| read(&mut MessageReader::new(4), bytes, 2).unwrap_err();
        assert_eq!(of(b""), Http3Error::Stream(Code::REQUEST_INCOMPLETE));
        assert!(connection(Code::FRAME_ERROR)(of(b"\x01")));
        assert!(connection(Code::FRAME_ERROR)(of(b"\x01\x02a")));
        assert_eq!(of(&frame(HEADERS, b"12345")), Http3Error::HeadTooLarge);
        let trailers = [head, frame(HEADERS, b"12345")].concat();
        assert_eq!(of(&trailers), Http3Error::Stream(Code::EXCESSIVE_LOAD));
    }

    #[test]
    fn content_is_as_long_as_the_head_says() {
        let outcome = |length: u64, content: &[u8]| {
            let mut reader = MessageReader::new(9);
            let head = frame(HEADERS, b"H");
            assert!(matches!(
                reader.next(&mut &head[..]),
                Ok(Some(MessagePart::Head(_)))
            ));
            reader.expect(Some(length));
            read(&mut reader, content, 1).map(drop)
        };
        let wrong = Err(Http3Error::Stream(Code::MESSAGE_ERROR));
        let content = [frame(DATA, b"ab"), frame(DATA, b"c")].concat();
        assert_eq!(outcome(3, &content), Ok(()));
        assert_eq!(outcome(2, &content), wrong);
        assert_eq!(outcome(4, &content), wrong);
        assert_eq!(outcome(0, b""), Ok(()));
        assert_eq!(outcome(1, b""), wrong);
    }

    #[test]
    fn a_frame_that_is_announced_takes_no_memory() {
        let mut bytes = Vec::new();
        let (kind, length) = (HEADERS, 1 << 20);
        FrameHead { kind, length }.write(&mut bytes);
        let mut reader = MessageReader::new(1 << 20);
        assert_eq!(reader.next(&mut &bytes[..]), Ok(None));
        let Some((Frame::Section(section), _)) = &reader.frame else {
            panic!("a section");
        };
        assert_eq!(section.capacity(), 0);
    }
}
