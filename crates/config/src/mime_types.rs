//! The MIME types that files have by their names, unless `settings.http.static.mime_types` says otherwise.
//!
//! Read by the file server and by the reference page.

/// Extensions of the built-in types. Source: IANA's registry of media types; RFC 9239 for JavaScript; for those without a
/// registration (`application/x-…`) the name that browsers and the freedesktop.org database agree on.
pub const MIME_TYPES: &[(&str, &[&str])] = &[
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
    ("application/json", &[".json", ".map"]),
    ("application/ld+json", &[".jsonld"]),
    ("application/geo+json", &[".geojson"]),
    ("application/manifest+json", &[".webmanifest"]),
    ("application/atom+xml", &[".atom"]),
    ("application/rss+xml", &[".rss"]),
    ("application/xml", &[".xml"]),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_extension_is_listed_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for name in MIME_TYPES.iter().flat_map(|(_, names)| names.iter()) {
            assert!(name.starts_with('.') && seen.insert(name), "{name}");
        }
    }
}
