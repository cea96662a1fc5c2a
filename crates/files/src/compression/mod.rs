//! Decides whether and how responses are compressed, and compresses them.
//!
//! A response is described by [`Described`]; [`CompressionPolicy::choose`] returns what to do ([`Choice`]). Files in memory are compressed once
//! and kept ([`cache`](crate::cache)), everything else while it is sent. [`GunzippedBody`] decompresses.
//!
//! Must never: compress a response that is compressed already (unless `types` names its exact type), that is partial, or that must not be
//! transformed; or let a cache send a compressed response to a client that did not ask for it: every response that depends on
//! `Accept-Encoding` has it in `Vary`.

mod body;
mod encoder;
mod gunzip;
mod negotiate;

pub use body::CompressedBody;
use encoder::Encoder;
pub use encoder::{compress, encoder_bytes};
pub use gunzip::{GUNZIP_BYTES, GunzipError, GunzippedBody};
use tutti_config::model::{self, Compressor, Encoding, OutOfSteps};
use tutti_http::{FieldLines, Version, list_members, media_type, status_may_have_content};

/// Types that match a `*` in `types`, but are compressed already.
const COMPRESSED: [&[u8]; 5] = [
    b"image/",
    b"audio/",
    b"video/",
    b"font/woff",
    b"application/vnd.openxmlformats",
];

/// Exceptions among them, which are not compressed.
const PLAIN: [&[u8]; 5] = [
    b"image/svg+xml",
    b"image/bmp",
    b"image/x-icon",
    b"image/vnd.microsoft.icon",
    b"audio/midi",
];

/// Archives and similar formats.
const ARCHIVES: [&[u8]; 10] = [
    b"application/gzip",
    b"application/java-archive",
    b"application/vnd.rar",
    b"application/x-7z-compressed",
    b"application/x-bzip2",
    b"application/x-gzip",
    b"application/x-rar-compressed",
    b"application/x-xz",
    b"application/zip",
    b"application/zstd",
];

/// The configured compression.
pub struct CompressionPolicy(model::Compression);

/// Facts about a response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Described<'a> {
    /// The status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: Option<&'a [u8]>,
    /// It must not be transformed: it has `Content-Encoding`, `Content-Range`, a digest, or `Cache-Control: no-transform` (RFC 9110 §7.7).
    pub is_fixed: bool,
    /// Bytes of the body, if known.
    pub length: Option<u64>,
}

/// The form in which a response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Uncompressed to every client.
    Never,
    /// Uncompressed to this client; others may get it compressed.
    NotThis,
    /// Compressed by this method.
    Compress(Compressor),
}

impl Choice {
    /// True if the choice depends on `Accept-Encoding`.
    pub fn varies(self) -> bool {
        self != Self::Never
    }
}

impl<'a> Described<'a> {
    /// Notes one field of the head.
    pub fn note(&mut self, name: &[u8], value: &'a [u8]) {
        match name.len() {
            12 if name.eq_ignore_ascii_case(b"content-type") => self.content_type = Some(value),
            13 if name.eq_ignore_ascii_case(b"content-range") => self.is_fixed = true,
            13 if name.eq_ignore_ascii_case(b"cache-control") => {
                self.is_fixed |= list_members(value)
                    .any(|element| element.eq_ignore_ascii_case(b"no-transform"));
            }
            16 if name.eq_ignore_ascii_case(b"content-encoding") => self.is_fixed = true,
            // RFC 9530: digests are of the unchanged bytes.
            6 if name.eq_ignore_ascii_case(b"digest") => self.is_fixed = true,
            11 if name.eq_ignore_ascii_case(b"content-md5") => self.is_fixed = true,
            11 if name.eq_ignore_ascii_case(b"repr-digest") => self.is_fixed = true,
            14 if name.eq_ignore_ascii_case(b"content-digest") => self.is_fixed = true,
            _ => {}
        }
    }
}

impl CompressionPolicy {
    /// Compiles the configured compression.
    pub fn new(wanted: &model::Compression) -> Self {
        Self(wanted.clone())
    }

    /// Chooses how to send the response to a request in `version` with these `Accept-Encoding` fields.
    ///
    /// # Errors
    /// A regular expression in `types` could not be evaluated.
    pub fn choose<'a>(
        &self,
        response: &Described<'_>,
        version: Version,
        accepted: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Choice, OutOfSteps<'_>> {
        if response.is_fixed || !has_whole_content(response.status) {
            return Ok(Choice::Never);
        }
        let Some(content_type) = response.content_type else {
            return Ok(Choice::Never);
        };
        let mime = media_type(content_type).to_ascii_lowercase();
        let is_long = |compressor: &&Compressor| {
            response
                .length
                .is_none_or(|length| length > 0 && length >= compressor.min_length)
        };
        let offered = || self.0.compressors.iter().filter(is_long);
        let is_left_out = is_compressed(&mime) && !self.0.types.names(&mime);
        if is_left_out || !self.0.types.matches(&mime)? || offered().next().is_none() {
            return Ok(Choice::Never);
        }
        // HTTP/1.0 has no framing for a body of unknown length.
        if version == Version::Http10 {
            return Ok(Choice::NotThis);
        }
        let best = negotiate::best(accepted, offered().copied());
        Ok(best.map_or(Choice::NotThis, Choice::Compress))
    }
}

/// The encoding that a client with these `Accept-Encoding` fields prefers, the first if there are several; `None`: no encoding.
pub fn preferred<'a>(
    accepted: impl Iterator<Item = &'a [u8]>,
    offered: &[Encoding],
) -> Option<Encoding> {
    let offered = offered.iter().map(|encoding| Compressor {
        encoding: *encoding,
        level: 0,
        min_length: 0,
    });
    negotiate::best(accepted, offered).map(|best| best.encoding)
}

/// True if the only encoding of a response is gzip, so that it can be decompressed; `response` describes it without that encoding.
pub fn is_only_gzip<'a>(
    response: &Described<'_>,
    mut encodings: impl Iterator<Item = &'a [u8]>,
) -> bool {
    let (Some(encoding), None) = (encodings.next(), encodings.next()) else {
        return false;
    };
    // RFC 9110 §8.4.1.3: `x-gzip` is `gzip`.
    let is_gzip =
        encoding.eq_ignore_ascii_case(b"gzip") || encoding.eq_ignore_ascii_case(b"x-gzip");
    is_gzip && !response.is_fixed && has_whole_content(response.status)
}

/// Compresses one of the server's own texts with gzip, for a client with these `Accept-Encoding` fields; `None`: send it uncompressed.
pub fn gzipped<'a>(accepted: impl Iterator<Item = &'a [u8]>, text: &[u8]) -> Option<Vec<u8>> {
    let encoding = preferred(accepted, &[Encoding::Gzip])?;
    let fast = Compressor {
        encoding,
        level: 1,
        min_length: 0,
    };
    compress(&fast, text).ok()?
}

/// True if a response of this status contains a whole representation.
pub fn has_whole_content(status: u16) -> bool {
    status >= 200 && status != 206 && status_may_have_content(status)
}

fn is_compressed(mime: &[u8]) -> bool {
    let is_one = COMPRESSED.iter().any(|prefix| mime.starts_with(prefix));
    (is_one && !PLAIN.contains(&mime)) || ARCHIVES.contains(&mime)
}

/// Appends a field of a response compressed by `compressor`, changed where necessary.
pub fn push_field(fields: &mut FieldLines, name: &[u8], value: &[u8]) {
    // RFC 9110 §14.3: ranges were offered of another representation.
    if name.eq_ignore_ascii_case(b"accept-ranges") {
        return;
    }
    fields.push_with(name, |line| {
        // RFC 9110 §8.8.1: another representation needs another strong validator.
        if name.eq_ignore_ascii_case(b"etag") && !value.starts_with(b"W/") {
            line.extend_from_slice(b"W/");
        }
        line.extend_from_slice(value);
    });
}

/// Appends `Vary: Accept-Encoding`.
pub fn push_vary(fields: &mut FieldLines) {
    fields.push(b"Vary", b"Accept-Encoding");
}

/// True if this is a `Vary` field that contains `Accept-Encoding`.
pub fn varies_by_encoding(name: &[u8], value: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"vary")
        && list_members(value)
            .any(|element| element == b"*" || element.eq_ignore_ascii_case(b"accept-encoding"))
}

#[cfg(test)]
mod tests {
    use tutti_config::{ValidationContext, validate};

    use super::*;

    fn compression(json: &str) -> CompressionPolicy {
        let document = format!(r#"{{"settings": {{"http": {{"compression": {json}}}}}}}"#);
        let document = tutti_config::parse(document.as_bytes()).unwrap();
        let config = validate(&document, &ValidationContext::default()).unwrap();
        CompressionPolicy::new(&config.settings.http.compression.unwrap())
    }

    fn chosen(compression: &CompressionPolicy, response: &Described<'_>, accepted: &str) -> String {
        let choice = compression.choose(
            response,
            Version::Http11,
            std::iter::once(accepted.as_bytes()),
        );
        match choice.unwrap() {
            Choice::Compress(compressor) => compressor.encoding.word().to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn page(mime: &'static str, length: u64) -> Described<'static> {
        Described {
            status: 200,
            content_type: Some(mime.as_bytes()),
            is_fixed: false,
            length: Some(length),
        }
    }

    #[test]
    fn types_lengths_and_statuses_decide() {
        let some = compression(
            r#"{"types": ["text/*", "image/*"], "compressors": [{"encoding": "br", "min_length": 1000}, {"encoding": "gzip", "min_length": 100}]}"#,
        );
        let all = "gzip, br";
        assert_eq!(chosen(&some, &page("text/html", 1000), all), "br");
        assert_eq!(
            chosen(&some, &page("Text/HTML; charset=utf-8", 999), all),
            "gzip"
        );
        assert_eq!(chosen(&some, &page("text/html", 99), all), "Never");
        assert_eq!(chosen(&some, &page("application/json", 9999), all), "Never");
        assert_eq!(chosen(&some, &page("image/png", 9999), all), "Never");
        assert_eq!(chosen(&some, &page("image/svg+xml", 9999), all), "br");
        assert_eq!(
            chosen(&some, &page("text/html", 1000), "identity"),
            "NotThis"
        );
        for (status, expected) in [(206, "Never"), (304, "Never"), (204, "Never"), (404, "br")] {
            let response = Described {
                status,
                ..page("text/html", 1000)
            };
            assert_eq!(chosen(&some, &response, all), expected, "{status}");
        }
        let unknown = Described {
            length: None,
            ..page("text/html", 0)
        };
        assert_eq!(chosen(&some, &unknown, all), "br");
    }

    #[test]
    fn responses_that_must_not_be_transformed_are_unchanged() {
        let named = compression(
            r#"{"types": ["image/*", "image/png"], "compressors": {"encoding": "gzip"}}"#,
        );
        assert_eq!(chosen(&named, &page("image/png", 1000), "gzip"), "gzip");
        assert_eq!(chosen(&named, &page("image/jpeg", 1000), "gzip"), "Never");
        let all = compression(r#"{"types": "*", "compressors": {"encoding": "gzip"}}"#);
        for (name, value) in [
            ("Content-Encoding", "br"),
            ("content-range", "bytes 0-1/2"),
            ("Content-Digest", "sha-256=:abc=:"),
            ("Content-MD5", "abc"),
            ("Cache-Control", "max-age=1, No-Transform"),
        ] {
            let mut response = page("text/html", 1000);
            response.note(name.as_bytes(), value.as_bytes());
            assert_eq!(chosen(&all, &response, "gzip"), "Never", "{name}");
        }
        assert_eq!(
            chosen(&all, &page("application/zip", 1000), "gzip"),
            "Never"
        );
        assert_eq!(chosen(&all, &page("font/woff2", 1000), "gzip"), "Never");
    }

    #[test]
    fn an_old_client_gets_the_file_uncompressed() {
        let all = compression(r#"{"compressors": {"encoding": "gzip"}}"#);
        let accepted = std::iter::once(b"gzip".as_slice());
        let choice = all.choose(&page("text/css", 1000), Version::Http10, accepted);
        assert_eq!(choice, Ok(Choice::NotThis));
    }

    #[test]
    fn fields_are_changed_as_they_must_be() {
        let mut out = FieldLines::new();
        push_field(&mut out, b"ETag", b"\"a\"");
        push_field(&mut out, b"etag", b"W/\"a\"");
        push_field(&mut out, b"Accept-Ranges", b"bytes");
        push_field(&mut out, b"X", b"1");
        assert_eq!(out.lines(), b"ETag: W/\"a\"\r\netag: W/\"a\"\r\nX: 1\r\n");
        assert!(varies_by_encoding(b"vary", b"Cookie, accept-encoding"));
        assert!(varies_by_encoding(b"Vary", b"*"));
        assert!(!varies_by_encoding(b"Vary", b"Cookie"));
    }
}
