//! Writes a request's records.

use super::{HEADER_BYTES, VERSION, kind};

/// Most content bytes in one record that we write: the largest multiple of 8 that a header permits, so that no padding is needed (§3.3
/// recommends records of a multiple of eight bytes).
pub const STDIN_BYTES: usize = 65_528;

/// The role of a web application (§6.2).
const RESPONDER: u16 = 1;

/// Asks the application to keep the connection open after the request (§5.1).
const KEEP_CONN: u8 = 1;

/// Names and values of this length or more have a length of four bytes (§3.4).
const LONG: usize = 128;

/// Writes a request's head to the end of a buffer: `FCGI_BEGIN_REQUEST`, then the parameters.
///
/// Parameters are written in place, and the header of their record is filled in at the end; they are moved only if they exceed one record.
#[derive(Debug)]
pub struct RequestWriter<'a> {
    out: &'a mut Vec<u8>,
    id: u16,
    /// Where the content of the parameters begins.
    start: usize,
}

impl<'a> RequestWriter<'a> {
    /// Begins request `id` (not 0); the application should close the connection after it unless `keep`.
    pub fn begin(out: &'a mut Vec<u8>, id: u16, keep: bool) -> Self {
        header(out, kind::BEGIN_REQUEST, id, 8, 0);
        out.extend_from_slice(&RESPONDER.to_be_bytes());
        out.push(if keep { KEEP_CONN } else { 0 });
        out.extend_from_slice(&[0; 5]);
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let start = out.len();
        Self { out, id, start }
    }

    /// Appends a parameter, whose value is the concatenation of all parts.
    pub fn parameter(&mut self, name: &[u8], value: &[&[u8]]) {
        pair(self.out, name, value);
    }

    /// Ends the parameters. The body follows.
    pub fn finish(self) {
        let Self { out, id, start } = self;
        let length = out.len() - start;
        let header_at = start - HEADER_BYTES;
        if length == 0 {
            // Only the end of the stream.
            out.truncate(header_at);
        } else if length <= STDIN_BYTES {
            let padding = padding_of(length);
            if let Some(place) = out.get_mut(header_at..start) {
                place.copy_from_slice(&header_bytes(kind::PARAMS, id, length as u16, padding));
            }
            out.extend_from_slice(&[0; 8][..usize::from(padding)]);
        } else {
            let content = out.split_off(start);
            out.truncate(header_at);
            stream(out, kind::PARAMS, id, &content);
        }
        header(out, kind::PARAMS, id, 0, 0);
    }
}

/// Appends a part of the body, in as many records as necessary.
pub fn stdin(out: &mut Vec<u8>, id: u16, bytes: &[u8]) {
    stream(out, kind::STDIN, id, bytes);
}

/// Appends the end of the body. Each request needs one, even without a body.
pub fn stdin_end(out: &mut Vec<u8>, id: u16) {
    header(out, kind::STDIN, id, 0, 0);
}

/// Asks the application to abort the request. It answers with an end record (§5.4).
pub fn abort(out: &mut Vec<u8>, id: u16) {
    header(out, kind::ABORT_REQUEST, id, 0, 0);
}

/// Asks whether the application supports several requests at a time on a connection (§4.1).
pub fn get_values(out: &mut Vec<u8>) {
    let mut content = Vec::with_capacity(20);
    pair(&mut content, b"FCGI_MPXS_CONNS", &[]);
    stream(out, kind::GET_VALUES, 0, &content);
}

/// A name and a value (§3.4).
fn pair(out: &mut Vec<u8>, name: &[u8], value: &[&[u8]]) {
    length(out, name.len());
    length(out, value.iter().map(|part| part.len()).sum());
    out.extend_from_slice(name);
    for part in value {
        out.extend_from_slice(part);
    }
}

fn length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if length < LONG => out.push(short),
        // Heads are far below 2 GiB.
        _ => out.extend_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes()),
    }
}

fn stream(out: &mut Vec<u8>, kind: u8, id: u16, bytes: &[u8]) {
    for part in bytes.chunks(STDIN_BYTES) {
        let padding = padding_of(part.len());
        header(out, kind, id, part.len() as u16, padding);
        out.extend_from_slice(part);
        out.extend_from_slice(&[0; 8][..usize::from(padding)]);
    }
}

/// The padding to the next multiple of eight.
fn padding_of(length: usize) -> u8 {
    (length.wrapping_neg() & 7) as u8
}

fn header(out: &mut Vec<u8>, kind: u8, id: u16, length: u16, padding: u8) {
    out.extend_from_slice(&header_bytes(kind, id, length, padding));
}

fn header_bytes(kind: u8, id: u16, length: u16, padding: u8) -> [u8; HEADER_BYTES] {
    let [id_high, id_low] = id.to_be_bytes();
    let [high, low] = length.to_be_bytes();
    [VERSION, kind, id_high, id_low, high, low, padding, 0]
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
mod tests {
    use super::*;

    /// Appendix B of the specification, example 1: no body, everything in one record.
    #[test]
    fn the_first_example_of_the_specification() {
        let mut out = Vec::new();
        let mut writer = RequestWriter::begin(&mut out, 1, false);
        writer.parameter(b"SERVER_PORT", &[b"80"]);
        writer.parameter(b"SERVER_ADDR", &[b"199.", b"170.183.42"]);
        writer.finish();
        stdin_end(&mut out, 1);
        let mut expected: Vec<u8> = Vec::new();
        // {FCGI_BEGIN_REQUEST, 1, {FCGI_RESPONDER, 0}}
        expected
            .extend_from_slice(b"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00");
        // {FCGI_PARAMS, 1, "\013\002SERVER_PORT80\013\016SERVER_ADDR199.170.183.42"}: 42 bytes, padded to 48.
        expected.extend_from_slice(b"\x01\x04\x00\x01\x00\x2a\x06\x00");
        expected.extend_from_slice(b"\x0b\x02SERVER_PORT80\x0b\x0eSERVER_ADDR199.170.183.42");
        expected.extend_from_slice(&[0; 6]);
        // {FCGI_PARAMS, 1, ""}, {FCGI_STDIN, 1, ""}
        expected
            .extend_from_slice(b"\x01\x04\x00\x01\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00");
        assert_eq!(out, expected);
    }

    #[test]
    fn long_names_and_values_have_long_lengths() {
        let mut out = Vec::new();
        pair(&mut out, &[b'n'; 127], &[&[b'v'; 128]]);
        assert_eq!(out[..5], [127, 0x80, 0, 0, 128]);
        assert_eq!(out.len(), 5 + 127 + 128);
    }

    #[test]
    fn more_parameters_than_a_record_takes_go_into_several() {
        let mut out = Vec::new();
        let mut writer = RequestWriter::begin(&mut out, 7, true);
        writer.parameter(b"A", &[&[b'a'; 100_000]]);
        writer.finish();
        let content = 1 + 4 + 1 + 100_000;
        assert_eq!(out[10], KEEP_CONN);
        assert_eq!(out[16..24], [1, 4, 0, 7, 0xff, 0xf8, 0, 0]);
        let second = 24 + STDIN_BYTES;
        let rest = (content - STDIN_BYTES) as u16;
        assert_eq!(out[second + 4..second + 6], rest.to_be_bytes());
        assert_eq!(out[out.len() - 8..], [1, 4, 0, 7, 0, 0, 0, 0]);
    }

    #[test]
    fn no_parameters_are_the_end_of_the_stream_alone() {
        let mut out = Vec::new();
        RequestWriter::begin(&mut out, 1, false).finish();
        assert_eq!(out[16..], [1, 4, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn the_question_for_multiplexing_is_a_management_record() {
        let mut out = Vec::new();
        get_values(&mut out);
        assert_eq!(out[..8], [1, 9, 0, 0, 0, 17, 7, 0]);
        assert_eq!(out[8..25], *b"\x0f\x00FCGI_MPXS_CONNS");
        assert_eq!(out.len(), 32);
    }
}
