//! The client's unidirectional streams: control, and those of QPACK (RFC 9114 §6.2, RFC 9204 §4.2).

use super::error::{Code, Http3Error};
use super::frame::{
    CANCEL_PUSH, DATA, FrameHead, GOAWAY, HEADERS, HeadBuffer, MAX_PUSH_ID, PRIORITY_UPDATE,
    PUSH_PROMISE, SETTINGS,
};
use super::settings::Http3Settings;
use super::varint;
use crate::priority::Priority;

/// Kinds of streams.
const CONTROL: u64 = 0x0;
const PUSH: u64 = 0x1;
const ENCODER: u64 = 0x2;
const DECODER: u64 = 0x3;

/// The longest control frame payload that is kept: for settings, a dozen pairs of the longest integers.
const MOST_BYTES: u64 = 1024;

/// The client's streams that may exist only once.
#[derive(Debug, Default)]
pub struct Control {
    has_control: bool,
    has_encoder: bool,
    has_decoder: bool,
    /// The last MAX_PUSH_ID.
    max_push: Option<u64>,
}

/// An event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The client's settings.
    Settings(Http3Settings),
    /// The stream has an unknown type: it may be stopped.
    Unknown,
    /// A useless frame or instruction.
    Idle,
    /// PRIORITY_UPDATE for the request on this stream (RFC 9218 §7.2).
    Priority(u64, Priority),
}

/// The type of a stream.
#[derive(Debug)]
enum Kind {
    /// Incomplete.
    Coming(Vec<u8>),
    Control(ControlFrames),
    Encoder,
    Decoder(Integers),
    Unknown,
}

/// Parses one stream.
#[derive(Debug)]
pub struct UniReader {
    kind: Kind,
}

impl Default for UniReader {
    fn default() -> Self {
        Self {
            kind: Kind::Coming(Vec::new()),
        }
    }
}

impl UniReader {
    /// Parses received bytes and passes events to `note`. `control` is shared by all streams of the client.
    pub fn receive(
        &mut self,
        mut input: &[u8],
        control: &mut Control,
        mut note: impl FnMut(Note),
    ) -> Result<(), Http3Error> {
        if let Kind::Coming(begun) = &mut self.kind {
            begun.extend_from_slice(input.get(..input.len().min(8)).unwrap_or_default());
            let Some((kind, length)) = varint::read(begun) else {
                return Ok(());
            };
            let before = begun.len() - input.len().min(8);
            input = input.get(length - before..).unwrap_or_default();
            self.kind = control.open(kind)?;
            if matches!(self.kind, Kind::Unknown) {
                note(Note::Unknown);
            }
        }
        match &mut self.kind {
            Kind::Control(frames) => frames.receive(input, control, note),
            // The only permitted instruction sets the capacity to zero (RFC 9204 §3.2.3).
            Kind::Encoder => {
                if input.iter().any(|byte| *byte != 0x20) {
                    return Err(Http3Error::Connection(
                        Code::ENCODER_STREAM_ERROR,
                        "an encoder instruction for a dynamic table, which is disabled",
                    ));
                }
                input.iter().for_each(|_| note(Note::Idle));
                Ok(())
            }
            Kind::Decoder(integers) => integers.receive(input, note),
            Kind::Coming(_) | Kind::Unknown => Ok(()),
        }
    }

    /// Called at the end of the stream.
    pub fn finish(&self) -> Result<(), Http3Error> {
        match self.kind {
            Kind::Coming(_) | Kind::Unknown => Ok(()),
            _ => Err(Http3Error::Connection(
                Code::CLOSED_CRITICAL_STREAM,
                "a stream ends that has to stay open",
            )),
        }
    }
}

impl Control {
    fn open(&mut self, kind: u64) -> Result<Kind, Http3Error> {
        let wrong = |what| Err(Http3Error::Connection(Code::STREAM_CREATION_ERROR, what));
        let (has_one, kind) = match kind {
            CONTROL => (
                &mut self.has_control,
                Kind::Control(ControlFrames::default()),
            ),
            ENCODER => (&mut self.has_encoder, Kind::Encoder),
            DECODER => (&mut self.has_decoder, Kind::Decoder(Integers::default())),
            PUSH => return wrong("a client pushes"),
            _ => return Ok(Kind::Unknown),
        };
        if std::mem::replace(has_one, true) {
            return wrong("a second stream of a kind that there is one of");
        }
        Ok(kind)
    }
}

/// The frames of the control stream.
#[derive(Debug, Default)]
struct ControlFrames {
    head: HeadBuffer,
    /// The frame, the remaining bytes of its payload, and the received ones if they matter.
    frame: Option<(u64, u64, Vec<u8>)>,
    has_settings: bool,
}

impl ControlFrames {
    fn receive(
        &mut self,
        mut input: &[u8],
        control: &mut Control,
        mut note: impl FnMut(Note),
    ) -> Result<(), Http3Error> {
        loop {
            let Some((kind, rest, payload)) = &mut self.frame else {
                match self.head.take(&mut input) {
                    Some(head) => self.begin(head)?,
                    None => return Ok(()),
                }
                continue;
            };
            let length = usize::try_from(*rest).unwrap_or(usize::MAX);
            let (piece, behind) = input.split_at(length.min(input.len()));
            input = behind;
            *rest -= piece.len() as u64;
            if is_kept(*kind) {
                payload.extend_from_slice(piece);
            }
            if *rest > 0 {
                return Ok(());
            }
            let (kind, payload) = (*kind, std::mem::take(payload));
            self.frame = None;
            if kind == SETTINGS {
                note(Note::Settings(Http3Settings::read(&payload)?));
                continue;
            }
            note(Note::Idle);
            if kind == PRIORITY_UPDATE {
                note(priority_update(&payload)?);
                continue;
            }
            if is_kept(kind) {
                let Some((number, length)) = varint::read(&payload) else {
                    return Err(wrong_length());
                };
                if length != payload.len() {
                    return Err(wrong_length());
                }
                control.note_number(kind, number)?;
            }
        }
    }

    fn begin(&mut self, head: FrameHead) -> Result<(), Http3Error> {
        let unexpected = |what| Err(Http3Error::Connection(Code::FRAME_UNEXPECTED, what));
        if !self.has_settings && head.kind != SETTINGS {
            return Err(Http3Error::Connection(
                Code::MISSING_SETTINGS,
                "the control stream does not begin with settings",
            ));
        }
        match head.kind {
            SETTINGS if std::mem::replace(&mut self.has_settings, true) => {
                return unexpected("settings come twice");
            }
            SETTINGS | PRIORITY_UPDATE if head.length > MOST_BYTES => {
                return Err(Http3Error::Connection(
                    Code::EXCESSIVE_LOAD,
                    "too many settings, or a priority that is too long",
                ));
            }
            DATA | HEADERS | PUSH_PROMISE => return unexpected("a frame of a request"),
            _ if head.is_of_http2() => return unexpected("a frame of HTTP/2"),
            GOAWAY | MAX_PUSH_ID | CANCEL_PUSH if head.length > 8 => {
                return Err(wrong_length());
            }
            _ => {}
        }
        self.frame = Some((head.kind, head.length, Vec::new()));
        Ok(())
    }
}

/// True for frames whose payload matters.
fn is_kept(kind: u64) -> bool {
    matches!(
        kind,
        SETTINGS | GOAWAY | MAX_PUSH_ID | CANCEL_PUSH | PRIORITY_UPDATE
    )
}

/// Reads PRIORITY_UPDATE: a stream, and the value of a `Priority` field.
fn priority_update(payload: &[u8]) -> Result<Note, Http3Error> {
    let (stream, length) = varint::read(payload).ok_or_else(wrong_length)?;
    // Requests are on bidirectional streams of the client (RFC 9000 §2.1).
    if !stream.is_multiple_of(4) {
        return Err(Http3Error::Connection(
            Code::ID_ERROR,
            "a priority of a stream without a request",
        ));
    }
    let value = payload.get(length..).unwrap_or_default();
    Ok(Note::Priority(stream, Priority::parse(value)))
}

fn wrong_length() -> Http3Error {
    Http3Error::Connection(Code::FRAME_ERROR, "a frame of a wrong length")
}

impl Control {
    /// Checks the number in a frame: MAX_PUSH_ID must not decrease, and there is no push that could be cancelled.
    fn note_number(&mut self, kind: u64, number: u64) -> Result<(), Http3Error> {
        let wrong = |what| Err(Http3Error::Connection(Code::ID_ERROR, what));
        match kind {
            MAX_PUSH_ID if self.max_push.is_some_and(|before| number < before) => {
                wrong("fewer pushes than before")
            }
            MAX_PUSH_ID => {
                self.max_push = Some(number);
                Ok(())
            }
            CANCEL_PUSH => wrong("a push is cancelled that was not promised"),
            _ => Ok(()),
        }
    }
}

/// The instructions of a decoder: each is an integer after one or two bits (RFC 9204 §4.4).
#[derive(Debug, Default)]
struct Integers {
    /// Continuation bytes of an integer so far; `None` between two.
    continued: Option<u32>,
}

impl Integers {
    fn receive(&mut self, input: &[u8], mut note: impl FnMut(Note)) -> Result<(), Http3Error> {
        let wrong = || {
            Err(Http3Error::Connection(
                Code::DECODER_STREAM_ERROR,
                "a decoder instruction for a dynamic table, which is disabled",
            ))
        };
        for byte in input {
            match &mut self.continued {
                Some(count) if byte & 0x80 != 0 => {
                    *count += 1;
                    if *count > 8 {
                        return wrong();
                    }
                }
                Some(_) => self.continued = None,
                // Only Stream Cancellation (01): nothing was inserted or used.
                None if byte & 0xc0 != 0x40 => return wrong(),
                None => {
                    note(Note::Idle);
                    self.continued = (byte & 0x3f == 0x3f).then_some(0);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the events of streams whose bytes arrive in pieces of `step`.
    fn read(streams: &[&[u8]], step: usize) -> Result<Vec<Note>, Code> {
        let mut notes = Vec::new();
        let mut control = Control::default();
        for bytes in streams {
            let mut reader = UniReader::default();
            for piece in bytes.chunks(step) {
                let outcome = reader.receive(piece, &mut control, |note| notes.push(note));
                outcome.map_err(|fault| match fault {
                    Http3Error::Connection(code, _) => code,
                    other => panic!("{other:?}"),
                })?;
            }
        }
        Ok(notes)
    }

    #[test]
    fn streams_of_a_client_are_read_in_any_split() {
        let settings = Http3Settings {
            max_field_section_size: Some(100),
        };
        // Settings with grease, an unknown frame, MAX_PUSH_ID twice, GOAWAY.
        let control = b"\x00\x04\x06\x06\x40\x64\x40\x21\x07\x40\x40\x02ab\x0d\x01\x05\x0d\x01\x05\x07\x01\x00";
        // A reserved type, of four bytes.
        let unknown = b"\xa1\x23\x45\x67what it says";
        for step in 1..=control.len() {
            let notes = read(
                &[control, b"\x02\x20\x20", b"\x03\x44\x7f\x80\x01", unknown],
                step,
            );
            let mut expected = vec![Note::Settings(settings)];
            expected.extend([Note::Idle; 4 + 2 + 2]);
            expected.push(Note::Unknown);
            assert_eq!(notes, Ok(expected), "{step}");
        }
    }

    /// RFC 9218 §7.2.
    #[test]
    fn priorities_of_requests_are_noted() {
        let control = b"\x00\x04\x00\x80\x0f\x07\x00\x04\x08u=1\x80\x0f\x07\x00\x01\x04";
        let priority = Priority::parse(b"u=1");
        for step in 1..=control.len() {
            let notes = read(&[control], step).unwrap();
            let expected = [
                Note::Idle,
                Note::Priority(8, priority),
                Note::Idle,
                Note::Priority(4, Priority::default()),
            ];
            assert_eq!(notes[1..], expected, "{step}");
        }
    }

    #[test]
    fn forbidden_control_frames_end_the_connection() {
        for (streams, code) in [
            (&[&b"\x00\x0d\x01\x05"[..]][..], Code::MISSING_SETTINGS),
            (&[b"\x00\x04\x00\x04\x00"], Code::FRAME_UNEXPECTED),
            (&[b"\x00\x04\x00\x00\x01a"], Code::FRAME_UNEXPECTED),
            (&[b"\x00\x04\x00\x01\x01a"], Code::FRAME_UNEXPECTED),
            (&[b"\x00\x04\x00\x06\x01a"], Code::FRAME_UNEXPECTED),
            (&[b"\x00\x04\x48\x00"], Code::EXCESSIVE_LOAD),
            (&[b"\x00\x04\x02\x02\x00"], Code::SETTINGS_ERROR),
            (&[b"\x00\x04\x00\x0d\x01\x05\x0d\x01\x04"], Code::ID_ERROR),
            (&[b"\x00\x04\x00\x03\x01\x00"], Code::ID_ERROR),
            (&[b"\x00\x04\x00\x07\x02\x00\x00"], Code::FRAME_ERROR),
            (&[b"\x00\x04\x00\x07\x00"], Code::FRAME_ERROR),
            (&[b"\x00\x04\x00\x07\x09"], Code::FRAME_ERROR),
            (
                &[b"\x00\x04\x00", b"\x00\x04\x00"],
                Code::STREAM_CREATION_ERROR,
            ),
            // PRIORITY_UPDATE of a unidirectional stream, without a stream, and a long one.
            (&[b"\x00\x04\x00\x80\x0f\x07\x00\x01\x02"], Code::ID_ERROR),
            (&[b"\x00\x04\x00\x80\x0f\x07\x00\x00"], Code::FRAME_ERROR),
            (
                &[b"\x00\x04\x00\x80\x0f\x07\x00\x48\x00"],
                Code::EXCESSIVE_LOAD,
            ),
            (&[b"\x02", b"\x02"], Code::STREAM_CREATION_ERROR),
            (&[b"\x03", b"\x03"], Code::STREAM_CREATION_ERROR),
            (&[b"\x01\x00"], Code::STREAM_CREATION_ERROR),
            (&[b"\x02\x3f\x01"], Code::ENCODER_STREAM_ERROR),
            (&[b"\x02\xc0"], Code::ENCODER_STREAM_ERROR),
            (&[b"\x03\x80"], Code::DECODER_STREAM_ERROR),
            (&[b"\x03\x01"], Code::DECODER_STREAM_ERROR),
            (
                &[b"\x03\x7f\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"],
                Code::DECODER_STREAM_ERROR,
            ),
        ] {
            for step in [1, 100] {
                assert_eq!(read(streams, step), Err(code), "{streams:?}");
            }
        }
    }

    #[test]
    fn critical_streams_stay_open() {
        for (first, is_critical) in [(0, true), (2, true), (3, true), (0x21, false)] {
            let mut reader = UniReader::default();
            assert_eq!(reader.finish(), Ok(()));
            reader
                .receive(&[first], &mut Control::default(), |_| {})
                .unwrap();
            assert_eq!(reader.finish().is_err(), is_critical);
        }
    }
}
