//! Finds the script of a path, and the rest of the path for the script.
//!
//! Used for FastCGI by the server and for PHP's own language host, so that a site behaves the same with both. The caller's `probe` checks
//! the files if possible: PHP itself, given the name of a missing file, uses the nearest file above it (`cgi.fix_pathinfo`), which would
//! run `/upload.jpg/x.php` as a script.

/// The result of looking a script's name up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file that can be read.
    File,
    /// A file that may not be read.
    Unreadable,
    /// A folder.
    Directory,
    /// Something else.
    Other,
    /// Nothing.
    Missing,
    /// The file system is not this machine's.
    Unknown,
}

/// The rules by which scripts are recognised.
#[derive(Clone, Copy, Debug)]
pub struct ScriptRules<'a> {
    /// The suffixes of scripts' names: `.php`.
    pub suffixes: &'a [Box<[u8]>],
    /// The script of a folder.
    pub index: &'a [u8],
}

/// The script of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// This script.
    Found {
        /// Its name below the root, with a slash at its front.
        name: Vec<u8>,
        /// Where `PATH_INFO` begins in the path.
        path_info_at: Option<usize>,
    },
    /// A folder without a slash at its end: 301 to the path with one.
    Folder,
    /// 404.
    NotFound,
    /// 403.
    Forbidden,
}

/// Finds the script of `path`; `probe` looks up a name below the root.
///
/// `path` is decoded and normalised. If it leads out of the root nevertheless, or contains NUL, there is none.
pub fn find_script(
    path: &[u8],
    rules: &ScriptRules<'_>,
    mut probe: impl FnMut(&[u8]) -> FileKind,
) -> Script {
    if path.first() != Some(&b'/')
        || path.contains(&0)
        || path.split(|byte| *byte == b'/').any(|part| part == b"..")
    {
        return Script::NotFound;
    }
    let mut from = 0;
    while let Some(end) = end_of_script(path, from, rules) {
        let name = path.get(..end).unwrap_or_default();
        match probe(name) {
            FileKind::File | FileKind::Unknown => {
                return Script::Found {
                    name: name.to_vec(),
                    path_info_at: Some(end),
                };
            }
            FileKind::Unreadable | FileKind::Other => return Script::Forbidden,
            FileKind::Missing => return Script::NotFound,
            // A folder may be called `x.php`: then the search continues.
            FileKind::Directory => from = end,
        }
    }
    let is_folder = path.last() == Some(&b'/');
    let name = if is_folder {
        [path, rules.index].concat()
    } else {
        path.to_vec()
    };
    let is_script = is_folder || rules.suffixes.iter().any(|suffix| name.ends_with(suffix));
    match probe(&name) {
        FileKind::File | FileKind::Unknown if is_script => Script::Found {
            name,
            path_info_at: None,
        },
        FileKind::Directory if !is_folder => Script::Folder,
        FileKind::Missing | FileKind::Unknown => Script::NotFound,
        FileKind::File | FileKind::Unreadable | FileKind::Other | FileKind::Directory => {
            Script::Forbidden
        }
    }
}

/// Where the first script name that is followed by more ends, searched from `from` on.
fn end_of_script(path: &[u8], from: usize, rules: &ScriptRules<'_>) -> Option<usize> {
    let rest = path.get(from..)?;
    memchr::memchr_iter(b'/', rest)
        .map(|at| from + at)
        .find(|end| {
            let name = path.get(..*end).unwrap_or_default();
            *end > from && rules.suffixes.iter().any(|suffix| name.ends_with(suffix))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(suffixes: &[Box<[u8]>]) -> ScriptRules<'_> {
        ScriptRules {
            suffixes,
            index: b"index.php",
        }
    }

    fn show(path: &str, probe: impl FnMut(&[u8]) -> FileKind) -> String {
        let suffixes: [Box<[u8]>; 2] = [b".php"[..].into(), b".phtml"[..].into()];
        match find_script(path.as_bytes(), &rules(&suffixes), probe) {
            Script::Found { name, path_info_at } => {
                let info = path_info_at.map_or("-", |at| path.get(at..).unwrap_or("?"));
                format!("{} {info}", String::from_utf8_lossy(&name))
            }
            Script::Folder => "301".to_owned(),
            Script::NotFound => "404".to_owned(),
            Script::Forbidden => "403".to_owned(),
        }
    }

    #[test]
    fn a_path_names_its_script_where_the_files_can_be_seen() {
        let site = |name: &[u8]| match name {
            b"/index.php" | b"/a.php" | b"/p.phtml" | b"/dir/x.php/in.php" | b"/upload.jpg" => {
                FileKind::File
            }
            b"/dir" | b"/dir/x.php" => FileKind::Directory,
            b"/secret.php" => FileKind::Unreadable,
            _ => FileKind::Missing,
        };
        for (path, expected) in [
            ("/", "/index.php -"),
            ("/a.php", "/a.php -"),
            ("/a.php/", "/a.php /"),
            ("/p.phtml/a.php", "/p.phtml /a.php"),
            ("/a.php/x/y.php/z", "/a.php /x/y.php/z"),
            ("/dir", "301"),
            ("/dir/", "404"),
            ("/dir/x.php/in.php", "/dir/x.php/in.php -"),
            ("/dir/x.php/in.php/more", "/dir/x.php/in.php /more"),
            ("/upload.jpg", "403"),
            ("/upload.jpg/x.php", "404"),
            ("/upload.jpg/x.php/y", "404"),
            ("/secret.php", "403"),
            ("/secret.php/x", "403"),
            ("/none.php", "404"),
            ("/none.php/x", "404"),
            ("/dir/../a.php", "404"),
            ("/a.php\0.txt", "404"),
            ("a.php", "404"),
        ] {
            assert_eq!(show(path, site), expected, "{path}");
        }
    }

    #[test]
    fn without_a_probe_the_name_alone_decides() {
        for (path, expected) in [
            ("/", "/index.php -"),
            ("/blog/", "/blog/index.php -"),
            ("/a.php", "/a.php -"),
            ("/a.php/x/y.php/z", "/a.php /x/y.php/z"),
            ("/.php/x", "/.php /x"),
            ("/style.css", "404"),
            ("/folder", "404"),
            ("/../a.php", "404"),
        ] {
            assert_eq!(show(path, |_| FileKind::Unknown), expected, "{path}");
        }
    }
}
