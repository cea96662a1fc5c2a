//! Decompresses a gzip body (RFC 1952) while it is sent, for a client that does not accept gzip.
//!
//! Must never: let a short body become a response of any size, produce more at a time than its caller has room for, or end normally if the
//! body is incomplete.

use flate2::{Decompress, FlushDecompress, Status};

/// The largest window of the format, as a power of two.
const WINDOW_BITS: u8 = 15;

/// Bytes that are decompressed at a time.
const PIECE_BYTES: usize = 32 * 1024;

/// Bytes that any body may have when it is decompressed.
const FREE_BYTES: u64 = 1024 * 1024;

/// Most times the length of the compressed body that a larger one may have. Text grows three to thirty times; the limit of the format is
/// 1032 times, which only bodies without content reach.
const MOST_TIMES: u64 = 256;

/// Memory that decompressing a body takes: the window, and the tables of the format (zlib's documentation, "memory footprint").
pub const GUNZIP_BYTES: usize = 44 * 1024;

/// Why a body cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GunzipError {
    /// It is not gzip, or it is incomplete.
    Malformed,
    /// It would become too large.
    TooLarge,
}

impl std::fmt::Display for GunzipError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed => formatter.write_str("its body is not complete and valid gzip"),
            Self::TooLarge => write!(
                formatter,
                "its body would become more than {MOST_TIMES} times as large"
            ),
        }
    }
}

/// A body that is decompressed while it is sent.
#[derive(Default)]
pub struct GunzippedBody {
    /// The member that is being read; `None`: none has begun, or the last one is complete.
    member: Option<Decompress>,
    /// Compressed bytes so far.
    taken: u64,
    /// Decompressed bytes so far.
    given: u64,
}

impl GunzippedBody {
    /// Decompresses the beginning of `piece`, and appends the result to `out`: `portion` bytes, and at most two of [`PIECE_BYTES`] more.
    /// Returns how much of the piece that was; the rest is to be passed again.
    ///
    /// # Errors
    /// The body is malformed, or becomes too large; what has been appended is correct.
    pub fn write(
        &mut self,
        piece: &[u8],
        portion: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, GunzipError> {
        let arrived = self.taken.saturating_add(piece.len() as u64);
        let most = FREE_BYTES.max(arrived.saturating_mul(MOST_TIMES));
        let end = out.len().saturating_add(portion);
        let mut rest = piece;
        // Only what the decompressor itself holds comes after the end of the piece: a part of the window.
        let mut has_more = false;
        while (out.len() < end && !rest.is_empty()) || (has_more && rest.is_empty()) {
            let member = self
                .member
                .get_or_insert_with(|| Decompress::new_gzip(WINDOW_BITS));
            let (read, written) = (member.total_in(), member.total_out());
            let before = out.len();
            out.resize(before + PIECE_BYTES, 0);
            let room = out.get_mut(before..).unwrap_or_default();
            let status = member.decompress(rest, room, FlushDecompress::None);
            let read = usize::try_from(member.total_in() - read).unwrap_or(usize::MAX);
            let written = member.total_out() - written;
            let length = usize::try_from(written).unwrap_or(0).min(PIECE_BYTES);
            out.truncate(before + length);
            let status = status.map_err(|_| GunzipError::Malformed)?;
            let is_stuck = read == 0 && written == 0;
            if is_stuck && !rest.is_empty() {
                return Err(GunzipError::Malformed);
            }
            self.taken = self.taken.saturating_add(read as u64);
            self.given = self.given.saturating_add(written);
            if self.given > most {
                return Err(GunzipError::TooLarge);
            }
            rest = rest.get(read..).unwrap_or_default();
            has_more = length == PIECE_BYTES && status != Status::StreamEnd;
            if status == Status::StreamEnd {
                self.member = None;
            }
        }
        Ok(piece.len() - rest.len())
    }

    /// Checks that the body is complete; an empty one is.
    ///
    /// # Errors
    /// It is not.
    pub fn finish(&self) -> Result<(), GunzipError> {
        match self.member {
            None => Ok(()),
            Some(_) => Err(GunzipError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use tutti_config::model::{Compressor, Encoding};

    use super::super::compress;
    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let compressor = Compressor {
            encoding: Encoding::Gzip,
            level: 6,
            min_length: 0,
        };
        compress(&compressor, text).unwrap().unwrap()
    }

    fn text() -> Vec<u8> {
        let lines = (0..20_000).map(|number| format!("line {number}\n"));
        lines.collect::<String>().into_bytes()
    }

    fn decompressed(bytes: &[u8], piece: usize) -> Result<Vec<u8>, GunzipError> {
        let mut body = GunzippedBody::default();
        let mut out = Vec::new();
        for mut piece in bytes.chunks(piece) {
            while !piece.is_empty() {
                let taken = body.write(piece, 1000, &mut out)?;
                piece = &piece[taken..];
            }
        }
        body.finish()?;
        Ok(out)
    }

    #[test]
    fn the_pieces_do_not_matter() {
        let text = text();
        let bytes = gzip(&text);
        for piece in [1, 7, 1000, bytes.len()] {
            assert_eq!(decompressed(&bytes, piece).as_ref(), Ok(&text), "{piece}");
        }
        assert_eq!(decompressed(b"", 1), Ok(Vec::new()));
    }

    #[test]
    fn a_body_may_have_several_members() {
        let text = text();
        let mut bytes = gzip(&text);
        bytes.extend(gzip(&text));
        for piece in [1, 1000, bytes.len()] {
            assert_eq!(decompressed(&bytes, piece), Ok(text.repeat(2)), "{piece}");
        }
    }

    #[test]
    fn what_is_not_complete_gzip_is_an_error() {
        let bytes = gzip(&text());
        let end = bytes.len();
        let mut wrong = bytes.clone();
        wrong[end - 6] ^= 1;
        let mut extended = bytes.clone();
        extended.extend(b"garbage");
        for (what, body) in [
            ("text", b"plain text".as_slice()),
            ("cut", &bytes[..end - 1]),
            ("only a head", &bytes[..5]),
            ("a checksum", &wrong),
            ("garbage", &extended),
        ] {
            for piece in [1, body.len()] {
                let outcome = decompressed(body, piece);
                assert_eq!(outcome, Err(GunzipError::Malformed), "{what}");
            }
        }
    }

    #[test]
    fn a_bomb_is_stopped_before_it_takes_much_memory() {
        let bytes = gzip(&vec![0; 64 << 20]);
        assert!(bytes.len() < 256 * 1024, "{}", bytes.len());
        let mut body = GunzippedBody::default();
        let mut out = Vec::new();
        let outcome = body.write(&bytes[..16 * 1024], usize::MAX, &mut out);
        assert_eq!(outcome, Err(GunzipError::TooLarge));
        let most = 16 * 1024 * MOST_TIMES as usize + PIECE_BYTES;
        assert!(out.len() <= most, "{}", out.len());
        // A small one may grow as much as the format permits.
        let small = gzip(&vec![0; 1 << 20]);
        assert_eq!(
            decompressed(&small, small.len()).map(|all| all.len()),
            Ok(1 << 20)
        );
    }

    #[test]
    fn a_piece_is_decompressed_in_portions() {
        const PORTION: usize = 16 * 1024;
        let text = vec![0; 8 << 20];
        let bytes = gzip(&text);
        let mut body = GunzippedBody::default();
        let (mut all, mut rest) = (0, &bytes[..]);
        while !rest.is_empty() {
            let mut out = Vec::new();
            // The beginning of a body that is not as dense.
            body.taken = 1 << 20;
            let taken = body.write(rest, PORTION, &mut out).unwrap();
            assert!(out.len() <= PORTION + 2 * PIECE_BYTES, "{}", out.len());
            (all, rest) = (all + out.len(), &rest[taken..]);
        }
        assert_eq!((all, body.finish()), (text.len(), Ok(())));
    }
}
