//! SCGI: the variables of a request as one netstring; the body follows unchanged, the answer is CGI.
//!
//! Source: "SCGI: A Simple Common Gateway Interface alternative" (Neil Schemenauer, 2008-06-23). `CONTENT_LENGTH` comes first, and
//! `SCGI` is there.

/// A name or a value contains NUL, which ends both in SCGI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a variable with a NUL byte cannot be sent by SCGI")]
pub struct ContainsNul;

/// Room for the length before the variables: they stay below 4 GiB.
const LENGTH_BYTES: usize = 11;

/// Writes a request's variables to the end of a buffer.
#[derive(Debug)]
pub struct HeaderWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    contains_nul: bool,
}

impl<'a> HeaderWriter<'a> {
    /// Begins with the length of the body, which must be known.
    pub fn begin(out: &'a mut Vec<u8>, content_length: u64) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; LENGTH_BYTES]);
        let mut writer = Self {
            out,
            start,
            contains_nul: false,
        };
        writer.variable(b"CONTENT_LENGTH", &[content_length.to_string().as_bytes()]);
        writer.variable(b"SCGI", &[b"1"]);
        writer
    }

    /// Appends a variable, whose value is the concatenation of all parts. `CONTENT_LENGTH` and `SCGI` are there already.
    pub fn variable(&mut self, name: &[u8], value: &[&[u8]]) {
        let has_nul = |bytes: &[u8]| memchr::memchr(0, bytes).is_some();
        self.contains_nul |= has_nul(name) || value.iter().any(|part| has_nul(part));
        self.out.extend_from_slice(name);
        self.out.push(0);
        for part in value {
            self.out.extend_from_slice(part);
        }
        self.out.push(0);
    }

    /// Ends the variables.
    ///
    /// # Errors
    /// [`ContainsNul`]; then they are removed from the buffer.
    pub fn finish(self) -> Result<(), ContainsNul> {
        if self.contains_nul {
            self.out.truncate(self.start);
            return Err(ContainsNul);
        }
        let content = self.start + LENGTH_BYTES;
        let length = format!("{}:", self.out.len() - content);
        self.out.push(b',');
        // A netstring's length has no leading zeros (nor could it be written before the content).
        self.out.splice(self.start..content, length.bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification() {
        let mut out = Vec::new();
        let mut header = HeaderWriter::begin(&mut out, 27);
        header.variable(b"REQUEST_METHOD", &[b"POST"]);
        header.variable(b"REQUEST_URI", &[b"/deep", b"thought"]);
        assert_eq!(header.finish(), Ok(()));
        assert_eq!(
            out,
            b"70:CONTENT_LENGTH\x0027\x00SCGI\x001\x00REQUEST_METHOD\x00POST\x00REQUEST_URI\x00/deepthought\x00,"
        );
    }

    #[test]
    fn a_nul_is_refused_and_leaves_nothing() {
        let mut out = b"before".to_vec();
        let mut header = HeaderWriter::begin(&mut out, 0);
        header.variable(b"PATH_INFO", &[b"/a\0HTTPS\0on"]);
        assert_eq!(header.finish(), Err(ContainsNul));
        assert_eq!(out, b"before");
    }
}
