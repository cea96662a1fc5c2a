//! The answer's head, and files.

use std::fs::File;
use std::io::{self, Read as _};

use tutti_seam::Field;
use tutti_worker::log::unless_too_large;
use tutti_worker::{Exchange, ResponseHeadError};

/// A file that is the body of an answer.
#[derive(Debug)]
pub(crate) struct Body {
    file: File,
    size: u64,
}

/// As large as a piece is that is read from a file: twice the ring would only wait.
const PIECE: usize = 64 << 10;

/// Sends status and fields, of an interim answer at once; why they cannot be sent.
pub(crate) fn start(exchange: &Exchange, status: u16, fields: &[Field]) -> Result<(), String> {
    let pairs = fields.iter().map(|field| (field.name(), field.value()));
    let sent = match status {
        102..200 => unless_too_large(exchange, exchange.interim(status, pairs)),
        _ => exchange.start(status, pairs),
    };
    sent.map_err(|error| match error {
        ResponseHeadError::Field(_) => match fields.iter().find(|field| !field.is_sound()) {
            Some(field) => format!(
                "field `{}: {}`: a name is a token, a value has no line break and no NUL",
                String::from_utf8_lossy(field.name()).escape_debug(),
                String::from_utf8_lossy(field.value()).escape_debug()
            ),
            None => error.to_string(),
        },
        _ => error.to_string(),
    })
}

impl Body {
    /// Opens a regular file.
    pub(crate) fn open(path: &std::path::Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let size = about.len();
        Ok(Self { file, size })
    }

    /// Its length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Writes it. A client that has gone is no error.
    ///
    /// # Errors
    /// When the file ends early, or cannot be read.
    pub(crate) fn send(&mut self, exchange: &Exchange) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        let mut left = self.size;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let room = piece.get_mut(..most).unwrap_or_default();
            let count = match self.file.read(room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if exchange
                .write(piece.get(..count).unwrap_or_default())
                .is_err()
            {
                return Ok(());
            }
            left = left.saturating_sub(count as u64);
        }
        Ok(())
    }
}
