//! A common interface of the four compression methods: bytes in, compressed bytes out.
//!
//! Must never: keep bytes back after a flush.

use std::io::{self, Write};

use flate2::write::{GzEncoder, ZlibEncoder};
use tutti_config::model::{Compressor, Encoding};

/// The window of brotli and Zstandard as a power of two: a larger one costs memory for each response being sent, and pages are small.
const WINDOW_BITS: u32 = 18;

/// Bytes that brotli outputs at a time.
const BROTLI_BUFFER_BYTES: usize = 4096;

/// A body being compressed.
pub(super) enum Encoder {
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Deflate(Box<ZlibEncoder<Vec<u8>>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(Box<zstd::stream::write::Encoder<'static, Vec<u8>>>),
}

impl Encoder {
    /// Begins a body.
    pub(super) fn new(compressor: &Compressor) -> io::Result<Self> {
        let level = compressor.level;
        let small = flate2::Compression::new(u32::try_from(level).unwrap_or(6).min(9));
        Ok(match compressor.encoding {
            Encoding::Gzip => Self::Gzip(Box::new(GzEncoder::new(Vec::new(), small))),
            Encoding::Deflate => Self::Deflate(Box::new(ZlibEncoder::new(Vec::new(), small))),
            Encoding::Br => {
                let quality = u32::try_from(level).unwrap_or(4);
                let writer = brotli::CompressorWriter::new(
                    Vec::new(),
                    BROTLI_BUFFER_BYTES,
                    quality,
                    WINDOW_BITS,
                );
                Self::Brotli(Box::new(writer))
            }
            Encoding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), level)?;
                encoder.window_log(WINDOW_BITS)?;
                Self::Zstd(Box::new(encoder))
            }
        })
    }

    /// Compresses `data`, and appends what is ready to `out`.
    pub(super) fn write(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.writer().write_all(data)?;
        self.take(out);
        Ok(())
    }

    /// Appends everything written so far to `out`, so that the client can decompress it.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.writer().flush()?;
        self.take(out);
        Ok(())
    }

    /// Ends the body: appends the rest to `out`.
    pub(super) fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        let rest = match self {
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Deflate(encoder) => encoder.finish()?,
            Self::Brotli(encoder) => encoder.into_inner(),
            Self::Zstd(encoder) => encoder.finish()?,
        };
        out.extend_from_slice(&rest);
        Ok(())
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(encoder) => encoder,
            Self::Deflate(encoder) => encoder,
            Self::Brotli(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
        }
    }

    fn take(&mut self, out: &mut Vec<u8>) {
        out.append(match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Deflate(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        });
    }
}

/// Memory of an encoder, measured with bodies of 2 MB; the libraries report it in different forms.
pub fn encoder_bytes(compressor: &Compressor) -> usize {
    let kib = match (compressor.encoding, compressor.level) {
        (Encoding::Gzip | Encoding::Deflate, _) => 404,
        (Encoding::Br, ..=1) => 718,
        (Encoding::Br, 2..=3) => 1_118,
        (Encoding::Br, 4) => 2_018,
        (Encoding::Br, 5) => 2_562,
        (Encoding::Br, 6) => 3_586,
        (Encoding::Br, 7) => 9_762,
        (Encoding::Br, 8) => 17_953,
        (Encoding::Br, 9) => 34_571,
        (Encoding::Br, _) => 8_331,
        (Encoding::Zstd, ..=2) => 1_274,
        (Encoding::Zstd, 3) => 1_786,
        (Encoding::Zstd, 4..=6) => 3_578,
        (Encoding::Zstd, 7..=8) => 6_138,
        (Encoding::Zstd, 9) => 11_258,
        (Encoding::Zstd, 10..=11) => 21_498,
        (Encoding::Zstd, 12..=13) => 41_978,
        (Encoding::Zstd, 14..=18) => 66_554,
        (Encoding::Zstd, 19) => 83_714,
        (Encoding::Zstd, 20) => 165_634,
        (Encoding::Zstd, 21) => 329_474,
        (Encoding::Zstd, _) => 657_154,
    };
    kib * 1024
}

/// Compresses all of `data`; `None` if that is not shorter.
pub fn compress(compressor: &Compressor, data: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut out = Vec::with_capacity(data.len() / 4);
    let mut encoder = Encoder::new(compressor)?;
    encoder.write(data, &mut out)?;
    encoder.finish(&mut out)?;
    Ok((out.len() < data.len()).then_some(out))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const ALL: [Encoding; 4] = [
        Encoding::Gzip,
        Encoding::Deflate,
        Encoding::Zstd,
        Encoding::Br,
    ];

    fn decompressed(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        let result = match encoding {
            Encoding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain),
            Encoding::Deflate => flate2::read::ZlibDecoder::new(bytes).read_to_end(&mut plain),
            Encoding::Br => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut plain),
            Encoding::Zstd => zstd::stream::read::Decoder::new(bytes)
                .unwrap()
                .read_to_end(&mut plain),
        };
        // An incomplete body yields its beginning, and then an error.
        let _ = result;
        plain
    }

    #[test]
    fn every_level_decompresses_to_the_input() {
        let text = b"to be compressed, ".repeat(3000);
        for encoding in ALL {
            let (lowest, highest, _) = encoding.levels();
            for level in lowest..=highest {
                let compressor = Compressor {
                    encoding,
                    level,
                    min_length: 0,
                };
                let short = compress(&compressor, &text).unwrap().unwrap();
                assert!(short.len() < text.len() / 10, "{compressor:?}");
                assert!(decompressed(encoding, &short) == text, "{compressor:?}");
            }
        }
    }

    #[test]
    fn flushed_data_can_be_decompressed_before_the_end() {
        for encoding in ALL {
            let compressor = Compressor {
                encoding,
                level: encoding.levels().2,
                min_length: 0,
            };
            let mut encoder = Encoder::new(&compressor).unwrap();
            let mut out = Vec::new();
            encoder.write(b"data: one\n\n", &mut out).unwrap();
            encoder.flush(&mut out).unwrap();
            assert_eq!(
                decompressed(encoding, &out),
                b"data: one\n\n",
                "{encoding:?}"
            );
            encoder.write(b"data: two\n\n", &mut out).unwrap();
            encoder.finish(&mut out).unwrap();
            assert_eq!(
                decompressed(encoding, &out),
                b"data: one\n\ndata: two\n\n",
                "{encoding:?}"
            );
        }
    }

    #[test]
    fn the_memory_of_an_encoder_grows_with_its_level() {
        for encoding in ALL {
            let (lowest, highest, usual) = encoding.levels();
            let bytes = |level| {
                encoder_bytes(&Compressor {
                    encoding,
                    level,
                    min_length: 0,
                })
            };
            assert!((lowest..=highest).all(|level| bytes(level) >= 256 * 1024));
            assert!(bytes(usual) <= 2 * 1024 * 1024, "{encoding:?}");
            assert!(bytes(lowest) <= bytes(highest), "{encoding:?}");
        }
    }

    #[test]
    fn data_that_does_not_shrink_is_not_compressed() {
        for encoding in ALL {
            let compressor = Compressor {
                encoding,
                level: encoding.levels().2,
                min_length: 0,
            };
            assert_eq!(compress(&compressor, b"x").unwrap(), None, "{encoding:?}");
        }
    }
}
