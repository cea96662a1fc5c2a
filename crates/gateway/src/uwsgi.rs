//! uwsgi: the variables of a request in one packet; the body follows unchanged, the answer is HTTP or CGI.
//!
//! Source: "The uwsgi Protocol" of uWSGI's documentation. `modifier1` 0 is a request for the default plugin (WSGI, PSGI, Rack).

/// A value, or all together, exceeds the packet's sixteen-bit lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request's variables take more than the 65535 bytes of a uwsgi packet")]
pub struct PacketTooLarge;

/// Bytes before the variables: `modifier1`, their length, `modifier2`.
const HEADER_BYTES: usize = 4;

/// Writes a packet to the end of a buffer.
#[derive(Debug)]
pub struct PacketWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    is_too_large: bool,
}

impl<'a> PacketWriter<'a> {
    /// Begins a packet.
    pub fn begin(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        Self {
            out,
            start,
            is_too_large: false,
        }
    }

    /// Appends a variable, whose value is the concatenation of all parts.
    pub fn variable(&mut self, name: &[u8], value: &[&[u8]]) {
        let length: usize = value.iter().map(|part| part.len()).sum();
        let (Ok(name_length), Ok(value_length)) =
            (u16::try_from(name.len()), u16::try_from(length))
        else {
            self.is_too_large = true;
            return;
        };
        self.out.extend_from_slice(&name_length.to_le_bytes());
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(&value_length.to_le_bytes());
        for part in value {
            self.out.extend_from_slice(part);
        }
    }

    /// Ends the packet.
    ///
    /// # Errors
    /// [`PacketTooLarge`]; then it is removed from the buffer.
    pub fn finish(self) -> Result<(), PacketTooLarge> {
        let length = u16::try_from(self.out.len() - self.start - HEADER_BYTES);
        let (Ok(length), false) = (length, self.is_too_large) else {
            self.out.truncate(self.start);
            return Err(PacketTooLarge);
        };
        let place = self.out.get_mut(self.start + 1..self.start + 3);
        if let Some(place) = place {
            place.copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_as_the_documentation_has_it() {
        let mut out = b"before".to_vec();
        let mut packet = PacketWriter::begin(&mut out);
        packet.variable(b"REQUEST_METHOD", &[b"GET"]);
        packet.variable(b"PATH_INFO", &[b"/", b"a"]);
        packet.variable(b"EMPTY", &[]);
        assert_eq!(packet.finish(), Ok(()));
        assert_eq!(
            out,
            b"before\x00\x2d\x00\x00\x0e\x00REQUEST_METHOD\x03\x00GET\x09\x00PATH_INFO\x02\x00/a\x05\x00EMPTY\x00\x00"
        );
    }

    #[test]
    fn more_than_the_lengths_can_express_is_refused_and_removed() {
        for sizes in [&[65_536][..], &[40_000, 40_000]] {
            let mut out = b"before".to_vec();
            let mut packet = PacketWriter::begin(&mut out);
            for size in sizes {
                packet.variable(b"A", &[&vec![b'a'; *size]]);
            }
            assert_eq!(packet.finish(), Err(PacketTooLarge));
            assert_eq!(out, b"before");
        }
        let mut out = Vec::new();
        let mut packet = PacketWriter::begin(&mut out);
        packet.variable(b"A", &[&[b'a'; 65_530]]);
        assert_eq!(packet.finish(), Ok(()), "exactly 65535");
    }
}
