//! Maps file names to MIME types: the built-in table ([`MIME_TYPES`]) and the configuration's `settings.http.static.mime_types`.
//!
//! Compiled once per configuration; looked up when a file enters a thread's cache, not per request. A name in neither has no type, and the
//! response no `Content-Type` (Unit: "considered empty").

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use tutti_config::MIME_TYPES;

/// The longest extension or name that is converted to lower case without an allocation.
const LONGEST: usize = 64;

/// Names (`README`) and extensions (`.html`, with the period) to types.
#[derive(Debug, PartialEq, Eq)]
pub struct MimeTypes {
    types: FxHashMap<Box<str>, Box<str>>,
}

impl MimeTypes {
    /// The built-in table, overridden by `configured` (extension or file name to type).
    pub fn new(configured: &BTreeMap<String, String>) -> Self {
        let built_in = MIME_TYPES.iter().flat_map(|(mime, names)| {
            names
                .iter()
                .map(move |name| (Box::from(*name), Box::from(*mime)))
        });
        let mut types: FxHashMap<Box<str>, Box<str>> = built_in.collect();
        for (name, mime) in configured {
            types.insert(name.to_ascii_lowercase().into(), mime.as_str().into());
        }
        Self { types }
    }

    /// Only these types (extension or file name to type).
    pub fn only(configured: &BTreeMap<String, String>) -> Self {
        let types = configured
            .iter()
            .map(|(name, mime)| (name.to_ascii_lowercase().into(), mime.as_str().into()));
        Self {
            types: types.collect(),
        }
    }

    /// The type of a file by the last segment of its path: first its whole name, then its longest known extension, ignoring case.
    pub fn of(&self, path: &[u8]) -> Option<&str> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let mut lower = [0_u8; LONGEST];
        // Only the end can be an extension; a longer name cannot be in the table.
        let tail = name
            .get(name.len().saturating_sub(LONGEST)..)
            .unwrap_or_default();
        let lower = lower.get_mut(..tail.len())?;
        lower.copy_from_slice(tail);
        lower.make_ascii_lowercase();
        let lower = &*lower;
        if tail.len() == name.len()
            && let Some(mime) = self.get(lower)
        {
            return Some(mime);
        }
        memchr::memchr_iter(b'.', lower).find_map(|dot| self.get(lower.get(dot..)?))
    }

    fn get(&self, name: &[u8]) -> Option<&str> {
        self.types
            .get(std::str::from_utf8(name).ok()?)
            .map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_extension_and_name() {
        let configured = [
            (".tar.gz", "application/x-compressed-tar"),
            ("readme", "text/x-readme"),
            (".css", "text/x-css"),
        ];
        let configured = configured
            .into_iter()
            .map(|(name, mime)| (name.to_owned(), mime.to_owned()))
            .collect();
        let types = MimeTypes::new(&configured);
        for (path, expected) in [
            ("/a/b.html", Some("text/html")),
            ("/a/b.HTML", Some("text/html")),
            ("/a/b.js", Some("text/javascript")),
            // Issue 10: Unit's users filter by it.
            ("/a/b.xml", Some("application/xml")),
            ("/a/b.css", Some("text/x-css")),
            ("/a/b.tar.gz", Some("application/x-compressed-tar")),
            ("/a/b.min.gz", Some("application/gzip")),
            ("/a/README", Some("text/x-readme")),
            ("/a.html/b", None),
            ("/a/b.unknown", None),
            ("/a/", None),
            ("", None),
            ("/a/.html", Some("text/html")),
        ] {
            assert_eq!(types.of(path.as_bytes()), expected, "{path}");
        }
        let long = format!("/{}.html", "x".repeat(300));
        assert_eq!(types.of(long.as_bytes()), Some("text/html"));
    }

    #[test]
    fn every_documented_extension_of_unit_is_known() {
        let documented = ".aac .apng .atom .avi .avif .avifs .bin .css .deb .dll .exe .flac .gif .htm .html .ico .img .iso .jpeg .jpg \
            .js .json .md .mid .midi .mp3 .mp4 .mpeg .mpg .msi .ogg .otf .pdf .php .png .rpm .rss .rst .svg .ttf .txt .wav .webm \
            .webp .woff2 .woff .xml .zip";
        let types = MimeTypes::new(&BTreeMap::new());
        for extension in documented.split_whitespace() {
            assert!(
                types.of(format!("/file{extension}").as_bytes()).is_some(),
                "{extension}"
            );
        }
    }
}
