//! The destination of spans.

use tutti_document::Pointer;

use crate::table::TelemetryOptions;

/// `settings.telemetry`.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// Where it was written.
    pub pointer: Pointer,
    /// Whole URL that spans are posted to: `http://127.0.0.1:4318/v1/traces`.
    pub url: String,
    /// The remaining options.
    pub options: TelemetryOptions,
}

impl Telemetry {
    /// True if spans are sent over TLS.
    pub fn is_tls(&self) -> bool {
        self.url.starts_with("https://")
    }
}
