//! `settings.http.compression`.

use tutti_document::{Diagnostic, Pointer, TreeNode};

use super::builder::Builder;
use super::reader::{Reader, each};
use crate::model::{Compression, Compressor, Encoding};
use crate::pattern::{Pattern, Patterns};
use crate::table::{CASELESS, CompressionOptions, CompressorOptions, HttpOptions};

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

impl<'d> Builder<'d> {
    /// Returns `None` if nothing is compressed.
    pub(super) fn compression(&mut self, http: &Reader<'d>) -> Option<Compression> {
        let reader = http.inner(&HttpOptions::compression)?;
        let (list, pointer) = reader.get(&CompressionOptions::compressors)?;
        let mut compressors: Vec<Compressor> = Vec::new();
        for (node, pointer) in each(list, &pointer) {
            let Some(compressor) = self.compressor(node, pointer.clone()) else {
                continue;
            };
            let encoding = compressor.encoding;
            if compressors.iter().any(|other| other.encoding == encoding) {
                let message = format!("`{}` is set twice", encoding.word());
                self.faults.value(Diagnostic::new(pointer, message), node);
            }
            compressors.push(compressor);
        }
        let types = reader.patterns(&CompressionOptions::types, CASELESS);
        let types = types.unwrap_or_else(|| {
            let parsed = TYPES
                .iter()
                .filter_map(|text| Pattern::parse(text, CASELESS).ok());
            Patterns::new(parsed.collect())
        });
        (!compressors.is_empty()).then_some(Compression { types, compressors })
    }

    fn compressor(&mut self, node: &'d TreeNode, pointer: Pointer) -> Option<Compressor> {
        let reader = Reader::new(node, pointer);
        let encoding = Encoding::from_word(reader.text(&CompressorOptions::encoding)?)?;
        let (lowest, highest, usual) = encoding.levels();
        let given = reader
            .get(&CompressorOptions::level)
            .and_then(|(node, pointer)| Some((node, pointer, node.whole_number()?)));
        let level = match given {
            None => usual,
            Some((node, pointer, level)) => {
                let valid = i32::try_from(level)
                    .ok()
                    .filter(|level| (lowest..=highest).contains(level));
                if valid.is_none() {
                    let name = encoding.word();
                    let message = format!("{level} is not a level of {name}");
                    let diagnostic = Diagnostic::new(pointer, message)
                        .suggest(format!("{name} has levels from {lowest} to {highest}"));
                    self.faults.value(diagnostic, node);
                }
                valid?
            }
        };
        Some(Compressor {
            encoding,
            level,
            min_length: reader.read::<CompressorOptions>().min_length,
        })
    }
}
