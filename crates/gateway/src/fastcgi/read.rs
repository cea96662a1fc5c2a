//! Reads the records of an answer.

use super::{HEADER_BYTES, ProtocolStatus, VERSION, kind};

/// Most bytes of a `FCGI_GET_VALUES_RESULT` that are kept: the one pair we ask for has 18 bytes.
const VALUES_BYTES: usize = 256;

/// One event of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordEvent<'b> {
    /// A piece of the answer.
    Stdout(u16, &'b [u8]),
    /// A piece of the application's error output.
    Stderr(u16, &'b [u8]),
    /// The request has ended.
    End {
        /// The request.
        id: u16,
        /// The exit status of the application; 0 for success.
        application_status: u32,
        /// Why it ended.
        protocol_status: ProtocolStatus,
    },
    /// The answer to [`super::get_values`].
    Values {
        /// The application supports several requests at a time on a connection.
        multiplexes: bool,
    },
}

/// The bytes are not FastCGI; the connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Probably another protocol.
    #[error("its answer is not FastCGI: a record of version {0}, expected 1")]
    Version(u8),
    /// A record that only a web server sends.
    #[error("it sent a record of type {0}, which only a web server sends")]
    Kind(u8),
    /// An end record that is too short.
    #[error("it sent an `FCGI_END_REQUEST` of {0} bytes, expected 8")]
    EndLength(u16),
}

/// A record's header.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    kind: u8,
    id: u16,
    /// Remaining content.
    content: u16,
    /// Remaining padding.
    padding: u8,
}

/// Splits the bytes of a connection, in any pieces, into events. Keeps less than 300 bytes.
#[derive(Clone, Debug, Default)]
pub struct RecordDecoder {
    /// Bytes of an incomplete header, or of content that is needed whole.
    kept: Vec<u8>,
    record: Option<Record>,
}

impl RecordDecoder {
    /// At the start of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True between two records: only then may a connection be reused.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.record.is_none() && self.kept.is_empty()
    }

    /// The next event in `input`, from which it removes what was read; `None` when all of it has been read.
    ///
    /// # Errors
    /// The peer violates the protocol. Nothing more may be read from it.
    pub fn next<'b>(
        &mut self,
        input: &mut &'b [u8],
    ) -> Result<Option<RecordEvent<'b>>, RecordError> {
        loop {
            let Some(record) = &mut self.record else {
                if !self.read_header(input)? {
                    return Ok(None);
                }
                continue;
            };
            if record.content == 0 {
                if record.padding > 0 {
                    record.padding -= take(input, u16::from(record.padding)).len() as u8;
                    if record.padding > 0 {
                        return Ok(None);
                    }
                }
                self.record = None;
                continue;
            }
            if input.is_empty() {
                return Ok(None);
            }
            let part = take(input, record.content);
            record.content -= part.len() as u16;
            let record = *record;
            match record.kind {
                kind::STDOUT => return Ok(Some(RecordEvent::Stdout(record.id, part))),
                kind::STDERR => return Ok(Some(RecordEvent::Stderr(record.id, part))),
                kind::END_REQUEST | kind::GET_VALUES_RESULT => {
                    let room = VALUES_BYTES.saturating_sub(self.kept.len());
                    self.kept
                        .extend_from_slice(part.get(..room).unwrap_or(part));
                    if record.content == 0 {
                        let event = whole(&record, &self.kept);
                        self.kept.clear();
                        return Ok(Some(event));
                    }
                }
                // FCGI_UNKNOWN_TYPE: it does not support FCGI_GET_VALUES.
                _ => {
                    if record.content == 0 {
                        return Ok(Some(RecordEvent::Values { multiplexes: false }));
                    }
                }
            }
        }
    }

    /// Reads (the rest of) a header; returns whether it is complete.
    fn read_header(&mut self, input: &mut &[u8]) -> Result<bool, RecordError> {
        let header = if self.kept.is_empty() && input.len() >= HEADER_BYTES {
            take(input, HEADER_BYTES as u16)
        } else {
            let missing = HEADER_BYTES - self.kept.len();
            self.kept.extend_from_slice(take(input, missing as u16));
            if self.kept.len() < HEADER_BYTES {
                return Ok(false);
            }
            &self.kept
        };
        let &[version, kind, id_high, id_low, high, low, padding, _] = header else {
            return Ok(false);
        };
        self.kept.clear();
        let content = u16::from_be_bytes([high, low]);
        match (version, kind) {
            (
                VERSION,
                kind::STDOUT | kind::STDERR | kind::GET_VALUES_RESULT | kind::UNKNOWN_TYPE,
            ) => {}
            (VERSION, kind::END_REQUEST) if content >= 8 => {}
            (VERSION, kind::END_REQUEST) => return Err(RecordError::EndLength(content)),
            (VERSION, kind) => return Err(RecordError::Kind(kind)),
            (version, _) => return Err(RecordError::Version(version)),
        }
        self.record = Some(Record {
            kind,
            id: u16::from_be_bytes([id_high, id_low]),
            content,
            padding,
        });
        Ok(true)
    }
}

/// Removes up to `most` bytes from the front.
fn take<'b>(input: &mut &'b [u8], most: u16) -> &'b [u8] {
    let (part, rest) = input.split_at(input.len().min(usize::from(most)));
    *input = rest;
    part
}

fn whole(record: &Record, content: &[u8]) -> RecordEvent<'static> {
    if record.kind == kind::GET_VALUES_RESULT {
        let mut pairs = content;
        let mut multiplexes = false;
        while let Some((name, value)) = pair(&mut pairs) {
            multiplexes |= name == b"FCGI_MPXS_CONNS" && value == b"1";
        }
        return RecordEvent::Values { multiplexes };
    }
    let &[a, b, c, d, protocol, ..] = content else {
        // Its length has been checked.
        return RecordEvent::End {
            id: record.id,
            application_status: 0,
            protocol_status: ProtocolStatus::Other(u8::MAX),
        };
    };
    RecordEvent::End {
        id: record.id,
        application_status: u32::from_be_bytes([a, b, c, d]),
        protocol_status: protocol.into(),
    }
}

/// Removes a name and its value from the front (§3.4); `None` at the end, or if it is incomplete.
pub(super) fn pair<'b>(pairs: &mut &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
    let (name, rest) = length(pairs)?;
    let (value, rest) = length(rest)?;
    let (name, rest) = rest.split_at_checked(name)?;
    let (value, rest) = rest.split_at_checked(value)?;
    *pairs = rest;
    Some((name, value))
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [short, rest @ ..] if *short < 128 => Some((usize::from(*short), rest)),
        [a, b, c, d, rest @ ..] => {
            let length = u32::from_be_bytes([a & 0x7f, *b, *c, *d]);
            Some((usize::try_from(length).ok()?, rest))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Appendix B of the specification, example 1: the application's side.
    const EXAMPLE: &[u8] =
        b"\x01\x06\x00\x01\x00\x22\x06\x00Content-type: text/html\r\n\r\n<html>\n\0\0\0\0\0\0\
        \x01\x06\x00\x01\x00\x00\x00\x00\
        \x01\x03\x00\x01\x00\x08\x00\x00\0\0\0\0\0\0\0\0";

    /// Stdout, stderr, and the end.
    type Read = (Vec<u8>, Vec<u8>, Option<(u32, ProtocolStatus)>);

    fn read(input: &[u8], step: usize) -> Result<Read, RecordError> {
        let mut decoder = RecordDecoder::new();
        let (mut stdout, mut stderr, mut end) = (Vec::new(), Vec::new(), None);
        for mut piece in input.chunks(step) {
            while let Some(event) = decoder.next(&mut piece)? {
                match event {
                    RecordEvent::Stdout(1, bytes) => stdout.extend_from_slice(bytes),
                    RecordEvent::Stderr(1, bytes) => stderr.extend_from_slice(bytes),
                    RecordEvent::End {
                        id: 1,
                        application_status,
                        protocol_status,
                    } => {
                        end = Some((application_status, protocol_status));
                    }
                    other => unreachable!("{other:?}"),
                }
            }
            assert!(piece.is_empty());
        }
        assert_eq!(decoder.is_between(), end.is_some());
        Ok((stdout, stderr, end))
    }

    #[test]
    fn the_example_of_the_specification_in_any_pieces() {
        for step in 1..=EXAMPLE.len() {
            let (stdout, stderr, end) = read(EXAMPLE, step).unwrap();
            assert_eq!(stdout, b"Content-type: text/html\r\n\r\n<html>\n", "{step}");
            assert_eq!(stderr, b"");
            assert_eq!(end, Some((0, ProtocolStatus::Complete)));
        }
    }

    #[test]
    fn errors_and_answer_are_separated() {
        let bytes =
            b"\x01\x07\x00\x01\x00\x05\x03\x00oops\n\0\0\0\x01\x06\x00\x01\x00\x02\x00\x00ab\
            \x01\x03\x00\x01\x00\x08\x00\x00\0\0\x03\xaa\0\0\0\0";
        let (stdout, stderr, end) = read(bytes, 3).unwrap();
        assert_eq!(
            (stdout.as_slice(), stderr.as_slice()),
            (&b"ab"[..], &b"oops\n"[..])
        );
        assert_eq!(
            end,
            Some((938, ProtocolStatus::Complete)),
            "appendix B, example 3"
        );
    }

    #[test]
    fn every_end_of_a_request_is_known() {
        for (number, expected) in [
            (1, ProtocolStatus::CannotMultiplex),
            (2, ProtocolStatus::Overloaded),
            (3, ProtocolStatus::UnknownRole),
            (9, ProtocolStatus::Other(9)),
        ] {
            let bytes = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, number, 0, 0, 0];
            assert_eq!(read(&bytes, 16).unwrap().2, Some((0, expected)));
        }
    }

    #[test]
    fn the_answer_about_multiplexing() {
        for (answer, expected) in [
            (&b"\x0f\x01FCGI_MPXS_CONNS1"[..], true),
            (b"\x0f\x01FCGI_MPXS_CONNS0", false),
            (
                b"\x0e\x01FCGI_MAX_CONNS9\x0f\x80\x00\x00\x01FCGI_MPXS_CONNS1",
                true,
            ),
            (b"\x0f\x7fFCGI_MPXS_CONNS1", false),
            (b"", false),
        ] {
            let mut bytes = vec![1, 10, 0, 0, 0, answer.len() as u8, 0, 0];
            bytes.extend_from_slice(answer);
            let mut input = bytes.as_slice();
            let event = RecordDecoder::new().next(&mut input).unwrap();
            let expected = (!answer.is_empty()).then_some(RecordEvent::Values {
                multiplexes: expected,
            });
            assert_eq!(event, expected);
        }
        let mut unknown = &b"\x01\x0b\x00\x00\x00\x08\x00\x00\x09\0\0\0\0\0\0\0"[..];
        let event = RecordDecoder::new().next(&mut unknown).unwrap();
        assert_eq!(event, Some(RecordEvent::Values { multiplexes: false }));
    }

    #[test]
    fn other_protocols_are_refused_at_their_first_header() {
        for (bytes, expected) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\n"[..],
                RecordError::Version(b'H'),
            ),
            (b"\x01\x05\x00\x01\x00\x00\x00\x00", RecordError::Kind(5)),
            (b"\x01\x00\x00\x01\x00\x00\x00\x00", RecordError::Kind(0)),
            (
                b"\x01\x03\x00\x01\x00\x07\x00\x00",
                RecordError::EndLength(7),
            ),
        ] {
            assert_eq!(read(bytes, bytes.len()), Err(expected));
            assert_eq!(read(bytes, 1), Err(expected));
        }
    }
}
