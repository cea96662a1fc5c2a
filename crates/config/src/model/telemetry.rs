//! Where spans of requests are sent.

use tutti_document::Pointer;

/// `settings.telemetry`.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// Where it was written.
    pub pointer: Pointer,
    /// Whole URL that spans are posted to: `http://127.0.0.1:4318/v1/traces`.
    pub url: String,
    /// The protocol of the collector.
    pub protocol: TelemetryProtocol,
    /// As many spans are sent at once; at least 1.
    pub batch_size: usize,
    /// Part of the requests that begin a trace which is recorded, 0 to 1.
    pub sampling_ratio: f64,
}

impl Telemetry {
    /// True if spans are sent inside TLS.
    pub fn is_tls(&self) -> bool {
        self.url.starts_with("https://")
    }
}

/// The transports of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryProtocol {
    /// A POST of protobuf.
    Http,
    /// A unary call over HTTP/2.
    Grpc,
}
