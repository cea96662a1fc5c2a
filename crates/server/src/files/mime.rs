//! File names to MIME types: a built-in table and the configuration's `settings.http.static.mime_types`.
//!
//! Compiled once per configuration; looked up when a file enters a thread's cache, not per request. A name that is in neither has
//! no type, and the response no `Content-Type` (Unit: "considered empty").

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// Extensions of the built-in types. Source: IANA's registry of media types; RFC 9239 for JavaScript; for those without a
/// registration (`application/x-…`) the name that browsers and the freedesktop.org database agree on.
const BUILT_IN: &[(&str, &[&str])] = &[
    ("text/html", &[".html", ".htm", ".shtml"]),
    ("text/css", &[".css"]),
    ("text/javascript", &[".js", ".mjs"]),
    ("text/plain", &[".txt", ".text", ".log", ".conf"]),
    ("text/markdown", &[".md", ".markdown"]),
    ("text/prs.fallenstein.rst", &[".rst"]),
    ("text/csv", &[".csv"]),
    ("text/calendar", &[".ics"]),
    ("text/vcard", &[".vcf"]),
    ("text/vtt", &[".vtt"]),
    ("text/xml", &[".xml"]),
    ("application/json", &[".json", ".map"]),
    ("application/ld+json", &[".jsonld"]),
    ("application/geo+json", &[".geojson"]),
    ("application/manifest+json", &[".webmanifest"]),
    ("application/atom+xml", &[".atom"]),
    ("application/rss+xml", &[".rss"]),
    ("application/xhtml+xml", &[".xhtml"]),
    ("application/xslt+xml", &[".xslt"]),
    ("application/wasm", &[".wasm"]),
    ("application/pdf", &[".pdf"]),
    ("application/postscript", &[".ps", ".eps"]),
    ("application/rtf", &[".rtf"]),
    ("application/sql", &[".sql"]),
    ("application/toml", &[".toml"]),
    ("application/yaml", &[".yaml", ".yml"]),
    ("application/epub+zip", &[".epub"]),
    ("application/zip", &[".zip"]),
    ("application/gzip", &[".gz", ".tgz"]),
    ("application/zstd", &[".zst"]),
    ("application/x-bzip2", &[".bz2"]),
    ("application/x-xz", &[".xz"]),
    ("application/x-tar", &[".tar"]),
    ("application/x-7z-compressed", &[".7z"]),
    ("application/vnd.rar", &[".rar"]),
    ("application/java-archive", &[".jar", ".war", ".ear"]),
    ("application/vnd.android.package-archive", &[".apk"]),
    ("application/vnd.debian.binary-package", &[".deb"]),
    ("application/x-rpm", &[".rpm"]),
    ("application/x-httpd-php", &[".php"]),
    ("application/x-sh", &[".sh"]),
    ("application/x-shockwave-flash", &[".swf"]),
    (
        "application/octet-stream",
        &[".bin", ".exe", ".dll", ".msi", ".iso", ".img", ".dmg"],
    ),
    ("application/msword", &[".doc"]),
    ("application/vnd.ms-excel", &[".xls"]),
    ("application/vnd.ms-powerpoint", &[".ppt"]),
    (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        &[".docx"],
    ),
    (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        &[".xlsx"],
    ),
    (
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        &[".pptx"],
    ),
    ("application/vnd.oasis.opendocument.text", &[".odt"]),
    ("application/vnd.oasis.opendocument.spreadsheet", &[".ods"]),
    ("application/vnd.oasis.opendocument.presentation", &[".odp"]),
    ("application/vnd.ms-fontobject", &[".eot"]),
    ("application/vnd.apple.mpegurl", &[".m3u8"]),
    ("application/dash+xml", &[".mpd"]),
    ("application/pgp-signature", &[".asc", ".sig"]),
    ("application/x-x509-ca-cert", &[".crt", ".der"]),
    ("application/x-pem-file", &[".pem"]),
    ("application/x-bittorrent", &[".torrent"]),
    ("image/apng", &[".apng"]),
    ("image/avif", &[".avif"]),
    ("image/avif-sequence", &[".avifs"]),
    ("image/bmp", &[".bmp"]),
    ("image/gif", &[".gif"]),
    ("image/heic", &[".heic"]),
    ("image/heif", &[".heif"]),
    ("image/jpeg", &[".jpeg", ".jpg", ".jfif"]),
    ("image/jxl", &[".jxl"]),
    ("image/png", &[".png"]),
    ("image/svg+xml", &[".svg", ".svgz"]),
    ("image/tiff", &[".tif", ".tiff"]),
    ("image/webp", &[".webp"]),
    ("image/x-icon", &[".ico"]),
    ("audio/aac", &[".aac"]),
    ("audio/flac", &[".flac"]),
    ("audio/midi", &[".mid", ".midi"]),
    ("audio/mp4", &[".m4a"]),
    ("audio/mpeg", &[".mp3"]),
    ("audio/ogg", &[".ogg", ".oga", ".opus"]),
    ("audio/wav", &[".wav"]),
    ("audio/webm", &[".weba"]),
    ("video/3gpp", &[".3gpp", ".3gp"]),
    ("video/3gpp2", &[".3gpp2", ".3g2"]),
    ("video/mp2t", &[".ts"]),
    ("video/mp4", &[".mp4", ".m4v"]),
    ("video/mpeg", &[".mpeg", ".mpg"]),
    ("video/ogg", &[".ogv"]),
    ("video/quicktime", &[".mov"]),
    ("video/webm", &[".webm"]),
    ("video/x-matroska", &[".mkv"]),
    ("video/x-msvideo", &[".avi"]),
    ("font/otf", &[".otf"]),
    ("font/ttf", &[".ttf"]),
    ("font/collection", &[".ttc"]),
    ("font/woff", &[".woff"]),
    ("font/woff2", &[".woff2"]),
];

/// The longest extension or name that is looked up in lower case without an allocation.
const LONGEST: usize = 64;

/// Names (`README`) and extensions (`.html`, with the period) to types.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MimeTypes {
    types: FxHashMap<Box<str>, Box<str>>,
}

impl MimeTypes {
    /// The built-in table, with `configured` (extension or file name to type) over it.
    pub(crate) fn new(configured: &BTreeMap<String, String>) -> Self {
        let built_in = BUILT_IN.iter().flat_map(|(mime, names)| {
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

    /// The type of a file by the last segment of its path: its whole name first, then its longest known extension, without regard
    /// to case.
    pub(crate) fn of(&self, path: &[u8]) -> Option<&str> {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let mut lower = [0_u8; LONGEST];
        // Only the end can be an extension; a longer name cannot be in the table as a whole.
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
    fn no_extension_is_listed_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for name in BUILT_IN.iter().flat_map(|(_, names)| names.iter()) {
            assert!(name.starts_with('.') && seen.insert(name), "{name}");
        }
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
