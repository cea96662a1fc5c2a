//! A document in any of the languages.

use tutti_options::Format;

use crate::diagnostic::{Diagnostics, SourceText};
use crate::parse::parse_source;
use crate::tree::Document;
use crate::{toml, yaml};

/// Parses bytes in a language.
///
/// # Errors
/// All faults that can be found without knowing the options.
pub fn read(bytes: &[u8], format: Format) -> Result<Document, Diagnostics> {
    read_source(SourceText::new(bytes, format))
}

/// Parses bytes that may have a file name.
pub fn read_source(source: SourceText) -> Result<Document, Diagnostics> {
    match source.format {
        Format::Json => parse_source(source),
        Format::Yaml => yaml::parse(source),
        Format::Toml => toml::parse(source),
    }
}
