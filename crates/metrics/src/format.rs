//! The formats, and the choice between them.

use crate::page::Page;
use crate::{openmetrics, protobuf, text};

/// A format of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// Prometheus's text format, which every reader supports.
    #[default]
    Text,
    /// OpenMetrics 1.0, as text.
    OpenMetrics,
    /// Prometheus's protocol buffers, in which histograms have all their buckets.
    Protobuf,
}

impl ExpositionFormat {
    /// All of them.
    pub const ALL: [ExpositionFormat; 3] = [
        ExpositionFormat::Text,
        ExpositionFormat::OpenMetrics,
        ExpositionFormat::Protobuf,
    ];

    /// Returns the format that an `Accept` field prefers; text if it names none of them (RFC 9110 §12.5.1).
    pub fn accepted(field: &str) -> ExpositionFormat {
        let mut best = (ExpositionFormat::Text, 0.0);
        for range in field.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut is_ours) = (1.0_f32, true);
            for part in parts {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                let value = value.trim().trim_matches('"');
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.parse().unwrap_or(0.0),
                    "proto" => is_ours &= value == "io.prometheus.client.MetricFamily",
                    "encoding" => is_ours &= value == "delimited",
                    "version" if media_type.ends_with("openmetrics-text") => {
                        is_ours &= matches!(value, "0.0.1" | "1.0.0");
                    }
                    "version" => is_ours &= value == "0.0.4",
                    _ => {}
                }
            }
            let format = match media_type.as_str() {
                "application/openmetrics-text" => ExpositionFormat::OpenMetrics,
                "application/vnd.google.protobuf" => ExpositionFormat::Protobuf,
                "text/plain" | "text/*" | "*/*" => ExpositionFormat::Text,
                _ => continue,
            };
            if is_ours && quality > best.1 {
                best = (format, quality);
            }
        }
        best.0
    }

    /// Its media type, for `Content-Type`.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// Formats a page.
    pub fn write(self, page: &Page) -> Vec<u8> {
        match self {
            Self::Text => text::write(page).into_bytes(),
            Self::OpenMetrics => openmetrics::write(page).into_bytes(),
            Self::Protobuf => protobuf::write(page),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_gets_what_it_likes_best() {
        let accepted = ExpositionFormat::accepted;
        assert_eq!(accepted(""), ExpositionFormat::Text);
        assert_eq!(accepted("text/html, */*;q=0.8"), ExpositionFormat::Text);
        // Prometheus 2.42, without and with native histograms; Prometheus 3.
        let plain = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(accepted(plain), ExpositionFormat::OpenMetrics);
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(accepted(native), ExpositionFormat::Protobuf);
        let third = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.2";
        assert_eq!(accepted(third), ExpositionFormat::OpenMetrics);
        assert_eq!(
            accepted("application/vnd.google.protobuf;proto=other, text/plain;q=0.1"),
            ExpositionFormat::Text
        );
        assert_eq!(
            accepted("application/openmetrics-text; q=0"),
            ExpositionFormat::Text
        );
    }
}
