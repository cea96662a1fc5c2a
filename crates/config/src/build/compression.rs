//! `compression` of `http`.

use tutti_document::{Diagnostic, Pointer, TreeNode, Value};

use super::builder::Builder;
use super::reader::{Reader, each};
use crate::model::{CompressionLevel, Compressor, Encoding};
use crate::table::{CASELESS, CompressionOptions, CompressorOptions, HttpRequestOptions};

impl<'d> Builder<'d> {
    /// Builds the members of `compression` that are present.
    pub(super) fn compression(&mut self, http: &Reader<'d>) -> CompressionLevel {
        let Some(reader) = http.inner(&HttpRequestOptions::compression) else {
            return CompressionLevel::default();
        };
        if let Value::Bool(is_on) = reader.node.value {
            if is_on {
                let diagnostic = Diagnostic::new(reader.pointer, "`true` does not name a method");
                let hint = "write for example `{\"compressors\": {\"encoding\": \"gzip\"}}`";
                self.faults.value(diagnostic.suggest(hint), reader.node);
            }
            return CompressionLevel {
                compressors: Some(Vec::new()),
                types: None,
            };
        }
        CompressionLevel {
            types: reader.patterns(&CompressionOptions::types, CASELESS),
            compressors: self.compressors(&reader),
        }
    }

    fn compressors(&mut self, reader: &Reader<'d>) -> Option<Vec<Compressor>> {
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
        Some(compressors)
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
