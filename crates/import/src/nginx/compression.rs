//! `gzip` and its kin.

use serde_json::{Map, Value, json};

use super::tree::Statement;
use crate::output::when;
use crate::units::bytes;

/// nginx's own `gzip_min_length`.
const LEAST: u64 = 20;

/// Compression of a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gzip {
    is_on: bool,
    level: Option<u8>,
    least: Option<u64>,
    types: Vec<String>,
}

impl Gzip {
    pub(super) fn take(&mut self, statement: &Statement) {
        let first = statement.argument(0);
        match statement.name() {
            "gzip" => self.is_on = first == "on",
            "gzip_comp_level" => self.level = first.parse().ok(),
            "gzip_min_length" => self.least = bytes(first),
            "gzip_types" => self.types = statement.arguments().to_vec(),
            _ => {}
        }
    }

    /// The option `compression`; `None` where nothing is compressed.
    pub(super) fn compression(&self) -> Option<Value> {
        if !self.is_on {
            return None;
        }
        let mut compressor: Map<String, Value> = when("encoding", "gzip");
        if let Some(level) = self.level {
            compressor.insert("level".to_owned(), level.into());
        }
        let least = self.least.unwrap_or(LEAST);
        compressor.insert("min_length".to_owned(), least.into());
        // nginx always has HTML among them.
        let mut types = vec!["text/html".to_owned()];
        let others = self.types.iter().filter(|mime| *mime != "text/html");
        types.extend(others.cloned());
        Some(json!({"types": types, "compressors": compressor}))
    }
}
