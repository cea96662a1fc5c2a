//! `settings.http.compression`.

use crate::pattern::Patterns;
use crate::table::Encoding;

/// Which responses are compressed, and how.
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
    /// Compression level, in the method's own scale.
    pub level: i32,
    /// Shorter responses are not compressed.
    pub min_length: u64,
}
