//! `compression` of `http`.

use crate::pattern::{Pattern, Patterns};
use crate::table::{CASELESS, Encoding};

/// The default of `types`: text, and formats written as text.
const TYPES: [&str; 14] = [
    "text/*",
    "application/javascript",
    "application/json",
    "application/*+json",
    "application/xml",
    "application/*+xml",
    "application/wasm",
    "application/vnd.ms-fontobject",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/svg+xml",
    "image/vnd.microsoft.icon",
    "image/x-icon",
];

/// Which responses are compressed, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Compression {
    /// MIME types to compress, without parameters, in lower case.
    pub types: Patterns,
    /// The preferred one first; empty: nothing is compressed.
    pub compressors: Vec<Compressor>,
}

/// The members of `compression` that are present on one level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompressionLevel {
    /// `types`.
    pub types: Option<Patterns>,
    /// `compressors`; empty for `false`.
    pub compressors: Option<Vec<Compressor>>,
}

/// Text, and formats written as text; nothing is compressed.
impl Default for Compression {
    fn default() -> Self {
        let parsed = TYPES
            .iter()
            .filter_map(|text| Pattern::parse(text, CASELESS).ok());
        Compression {
            types: Patterns::new(parsed.collect()),
            compressors: Vec::new(),
        }
    }
}

impl Compression {
    /// Replaces the members that a level has.
    pub fn with(mut self, level: &CompressionLevel) -> Self {
        if let Some(types) = &level.types {
            self.types.clone_from(types);
        }
        if let Some(compressors) = &level.compressors {
            self.compressors.clone_from(compressors);
        }
        self
    }
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
