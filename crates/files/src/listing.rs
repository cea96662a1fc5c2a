//! Lists the contents of a folder as HTML and as JSON.
//!
//! [`read`] may block: it is called on threads that serve no requests. It omits names that begin with a period, entries that are neither
//! files nor folders, and entries outside the bounds of the share: links that lead out of it, or all links where links are not followed.
//! Must never: write an unescaped name into a page.

use std::fmt::Write as _;
use std::io;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rustix::fs::{Dir, FileType, Statx};
use tutti_http::format_date;

use crate::share_path::{ResolutionLimits, SharePath, stat_open};

/// Bytes of a path that need no percent-encoding (RFC 3986 §3.3).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// The name, as it is in the file system.
    pub name: Vec<u8>,
    /// Size of a file in bytes; `None` for a folder.
    pub size: Option<u64>,
    /// Seconds since the epoch.
    pub modified: u64,
}

/// A folder's entries: folders first, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sorted.
    pub entries: Vec<FolderEntry>,
    /// More entries were omitted.
    pub is_cut: bool,
}

/// The parameters for reading a folder, all owned.
#[derive(Clone, Debug)]
pub struct Look {
    /// The folder, with a slash at its end.
    pub path: Vec<u8>,
    /// A directory that the path may not leave.
    pub chroot: Option<Vec<u8>>,
    /// The bounds are enforced.
    pub is_bounded: bool,
    /// Links are followed.
    pub follow_symlinks: bool,
    /// Mount points may be crossed.
    pub traverse_mounts: bool,
    /// Most entries.
    pub limit: usize,
}

impl Look {
    fn place<'a>(&'a self, path: &'a [u8]) -> SharePath<'a> {
        SharePath {
            path,
            bounds: self.is_bounded.then_some(ResolutionLimits {
                chroot: self.chroot.as_deref(),
                follow_symlinks: self.follow_symlinks,
                traverse_mounts: self.traverse_mounts,
            }),
        }
    }
}

/// Reads a folder. `is_wanted` gets each name and whether it is a file.
pub fn read(look: &Look, mut is_wanted: impl FnMut(&[u8], bool) -> bool) -> io::Result<Listing> {
    let folder = look.place(&look.path).open()?;
    if !is(&stat_open(&folder)?, FileType::Directory) {
        return Err(rustix::io::Errno::NOTDIR.into());
    }
    let mut listing = Listing::default();
    for entry in Dir::new(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.starts_with(b".") {
            continue;
        }
        let mut path = look.path.clone();
        path.extend_from_slice(name);
        // Within the bounds, as for a request: a link that leads out of them is skipped.
        let Ok(found) = look.place(&path).stat() else {
            continue;
        };
        let is_file = is(&found, FileType::RegularFile);
        if !(is_file || is(&found, FileType::Directory)) || !is_wanted(name, is_file) {
            continue;
        }
        if listing.entries.len() >= look.limit {
            listing.is_cut = true;
            break;
        }
        listing.entries.push(FolderEntry {
            name: name.to_vec(),
            size: is_file.then_some(found.stx_size),
            modified: u64::try_from(found.stx_mtime.tv_sec).unwrap_or(0),
        });
    }
    listing
        .entries
        .sort_by(|a, b| (a.size.is_some(), &a.name).cmp(&(b.size.is_some(), &b.name)));
    Ok(listing)
}

fn is(found: &Statx, wanted: FileType) -> bool {
    FileType::from_raw_mode(u32::from(found.stx_mode)) == wanted
}

/// Opens the folder within the bounds, only to check that it exists.
pub fn is_folder(look: &Look) -> bool {
    let found = look.place(&look.path).stat();
    found.is_ok_and(|found| is(&found, FileType::Directory))
}

impl Listing {
    /// Renders it as a page; `path` is the folder's path in URLs, decoded.
    pub fn html(&self, path: &[u8]) -> String {
        let title = escaped(&String::from_utf8_lossy(path));
        let mut page = format!(
            "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n<body><h1>{title}</h1>\n<table>\n"
        );
        if path != b"/" {
            page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
        }
        for entry in &self.entries {
            let slash = if entry.size.is_some() { "" } else { "/" };
            let name = escaped(&String::from_utf8_lossy(&entry.name));
            // With `./`, because a colon in the name would make it look like a scheme (RFC 3986 §4.2).
            let link = percent_encode(&entry.name, SEGMENT);
            let size = entry.size.map(|size| size.to_string()).unwrap_or_default();
            let date = format_date(entry.modified);
            let date = String::from_utf8_lossy(&date);
            // Writing to a string cannot fail.
            let _ = writeln!(
                page,
                "<tr><td><a href=\"./{link}{slash}\">{name}{slash}</a></td><td>{date}</td><td>{size}</td></tr>"
            );
        }
        page.push_str("</table>\n");
        if self.is_cut {
            page.push_str("<p>This list is incomplete: the folder has more entries.</p>\n");
        }
        page.push_str("</body></html>\n");
        page
    }

    /// Renders it as JSON: `entries`, an array of objects with `name`, `type` and `modified`, and `size` of files; and `complete`.
    pub fn json(&self) -> String {
        let entries: Vec<serde_json::Value> = self.entries.iter().map(json).collect();
        let all = serde_json::json!({"entries": entries, "complete": !self.is_cut});
        let mut text = all.to_string();
        text.push('\n');
        text
    }
}

fn json(entry: &FolderEntry) -> serde_json::Value {
    let mut object = serde_json::json!({
        "name": String::from_utf8_lossy(&entry.name),
        "type": if entry.size.is_some() { "file" } else { "folder" },
        "modified": entry.modified,
    });
    if let Some(size) = entry.size {
        object["size"] = size.into();
    }
    object
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn look(folder: &Path) -> Look {
        let mut path = folder.as_os_str().as_bytes().to_vec();
        path.push(b'/');
        Look {
            path,
            chroot: None,
            is_bounded: false,
            follow_symlinks: true,
            traverse_mounts: true,
            limit: 100,
        }
    }

    fn names(listing: &Listing) -> Vec<String> {
        let names = listing.entries.iter();
        names
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .collect()
    }

    #[test]
    fn folders_come_first_and_hidden_names_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.txt", "a.txt", ".secret"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        for name in ["z", ".git"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let listing = read(&look(folder.path()), |_, _| true).unwrap();
        assert_eq!(names(&listing), ["z", "a.txt", "b.txt"]);
        assert!(!listing.is_cut);
        let files = read(&look(folder.path()), |name, is_file| {
            is_file && name != b"a.txt"
        });
        assert_eq!(names(&files.unwrap()), ["b.txt"]);
    }

    #[test]
    fn a_long_folder_is_cut_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for name in 0..20 {
            std::fs::write(folder.path().join(name.to_string()), "").unwrap();
        }
        let look = Look {
            limit: 7,
            ..look(folder.path())
        };
        let listing = read(&look, |_, _| true).unwrap();
        assert_eq!((listing.entries.len(), listing.is_cut), (7, true));
        assert!(listing.html(b"/").contains("This list is incomplete"));
        assert!(listing.json().contains("\"complete\":false"));
    }

    #[test]
    fn links_that_could_not_be_asked_for_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("a"), "").unwrap();
        std::fs::write(folder.path().join("outside"), "").unwrap();
        symlink("a", inside.join("in")).unwrap();
        symlink("../outside", inside.join("out")).unwrap();
        symlink("nowhere", inside.join("broken")).unwrap();
        let open = read(&look(&inside), |_, _| true).unwrap();
        assert_eq!(names(&open), ["a", "in", "out"]);
        let bounded = Look {
            chroot: Some(look(&inside).path),
            is_bounded: true,
            ..look(&inside)
        };
        assert_eq!(names(&read(&bounded, |_, _| true).unwrap()), ["a", "in"]);
        let without = Look {
            is_bounded: true,
            follow_symlinks: false,
            ..look(&inside)
        };
        assert_eq!(names(&read(&without, |_, _| true).unwrap()), ["a"]);
    }

    #[test]
    fn names_cannot_break_out_of_the_page() {
        let listing = Listing {
            entries: vec![FolderEntry {
                name: b"<script>\"'&:\xff".to_vec(),
                size: Some(1),
                modified: 0,
            }],
            is_cut: false,
        };
        let page = listing.html(b"/<b>/");
        assert!(
            page.contains("href=\"./%3Cscript%3E%22%27%26%3A%FF\""),
            "{page}"
        );
        assert!(
            page.contains("&lt;script&gt;&quot;&#39;&amp;:\u{fffd}"),
            "{page}"
        );
        assert!(page.contains("<h1>/&lt;b&gt;/</h1>"), "{page}");
        assert!(!page.contains("<script>"), "{page}");
        let json: serde_json::Value = serde_json::from_str(&listing.json()).unwrap();
        assert_eq!(json["entries"][0]["name"], "<script>\"'&:\u{fffd}");
    }
}
