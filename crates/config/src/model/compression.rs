//! `settings.http.compression`.

use crate::pattern::Patterns;

/// What is compressed, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Compression {
    /// MIME types to compress, without parameters, in lower case.
    pub types: Patterns,
    /// The preferred one first; never empty.
    pub compressors: Vec<Compressor>,
}

/// A method of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compressor {
    /// The method.
    pub encoding: Encoding,
    /// How hard it tries, in the method's own scale.
    pub level: i32,
    /// Shorter responses are left as they are.
    pub min_length: u64,
}

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950, as HTTP means it.
    Deflate,
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Br,
}

impl Encoding {
    /// The name in `Accept-Encoding` and `Content-Encoding`, and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
            Self::Br => "br",
        }
    }

    /// The encoding of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Deflate, Self::Zstd, Self::Br]
            .into_iter()
            .find(|encoding| encoding.name() == name)
    }

    /// Lowest, highest and usual level.
    pub fn levels(self) -> (i32, i32, i32) {
        match self {
            Self::Gzip | Self::Deflate => (1, 9, 6),
            Self::Zstd => (-7, 22, 3),
            Self::Br => (0, 11, 4),
        }
    }
}
