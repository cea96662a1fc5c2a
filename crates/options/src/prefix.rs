//! `prefix`: the URL path of an application or a folder.

use crate::Complaints;

/// Returns the prefix without a trailing slash: `/` and `/a/` mean the same as `` and `/a`, because paths are divided
/// at slashes.
pub fn trimmed(prefix: Option<&str>) -> &str {
    prefix.unwrap_or_default().trim_end_matches('/')
}

/// Returns the part of `path` below `prefix`, which has no trailing slash; `None` if there is no prefix or it does not
/// match whole segments of the path.
pub fn under<'p>(prefix: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(prefix)?;
    let is_whole = rest.is_empty() || rest.first() == Some(&b'/');
    (is_whole && !prefix.is_empty()).then_some(rest)
}

/// Reports a prefix that no path can begin with.
pub(crate) fn check(prefix: Option<&str>, complaints: &mut Complaints<'_>) {
    if let Some(prefix) = prefix.filter(|prefix| !prefix.starts_with('/')) {
        complaints.value_with_hint(
            "prefix",
            "`prefix` must begin with a slash",
            format!("write `\"/{prefix}\"`"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_matches_whole_segments() {
        for (prefix, path, expected) in [
            ("/a", "/a/b", Some("/b")),
            ("/a", "/a", Some("")),
            ("/a", "/a/", Some("/")),
            ("/a/", "/a/b", Some("/b")),
            ("/a/b", "/a/b/c", Some("/c")),
            ("/a", "/ab", None),
            ("/a", "/b", None),
            ("/", "/a", None),
            ("", "/a", None),
        ] {
            let rest = under(trimmed(Some(prefix)).as_bytes(), path.as_bytes());
            assert_eq!(rest, expected.map(str::as_bytes), "{prefix} {path}");
        }
    }
}
