//! A request line for the log.

/// The beginning of a request line, stored inline so that it needs no allocation per request.
#[derive(Clone, Copy)]
pub(crate) struct RequestLine {
    bytes: [u8; RequestLine::ROOM],
    len: u8,
}

impl Default for RequestLine {
    fn default() -> Self {
        RequestLine {
            bytes: [0; Self::ROOM],
            len: 0,
        }
    }
}

impl RequestLine {
    /// Long enough to find the request in an access log.
    const ROOM: usize = 120;

    pub(crate) fn set(&mut self, method: &[u8], target: &[u8]) {
        let mut len = 0;
        for part in [method, b" ", target] {
            let room = self.bytes.get_mut(len..).unwrap_or_default();
            let fits = part.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..fits), part.get(..fits)) {
                to.copy_from_slice(from);
            }
            len += fits;
        }
        self.len = len as u8;
    }
}

impl std::fmt::Display for RequestLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::fmt::Display::fmt(&String::from_utf8_lossy(line).escape_debug(), f)?;
        if line.len() == Self::ROOM {
            f.write_str("…")
        } else {
            Ok(())
        }
    }
}
