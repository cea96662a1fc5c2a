//! Files of a source: read with bounds, and found by patterns.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::finding::UnreadableSource;

/// Bytes of the largest file that is read. The largest that people write, lists of redirects, have some hundred kilobytes.
pub const LARGEST_FILE: u64 = 4 << 20;

/// Where files come from.
pub trait Sources {
    /// The bytes of a file.
    ///
    /// # Errors
    /// It cannot be read, or is larger than [`LARGEST_FILE`].
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The names in a folder; none where it cannot be read.
    fn names_in(&self, folder: &Path) -> Vec<String>;

    /// The path without links; the path itself where there is none.
    fn real(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// The files of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Sources for Disk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // Reading a pipe or a terminal could wait for ever, except for one that the caller has connected.
        let is_connected = ["/dev/stdin", "/dev/fd", "/proc/self/fd"]
            .iter()
            .any(|begin| path.starts_with(begin));
        if !is_connected && !std::fs::metadata(path)?.is_file() {
            let message = "it is not a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let file = std::fs::File::open(path)?;
        let mut bytes = Vec::new();
        // A pipe has no length to ask for beforehand.
        file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST_FILE {
            let message = format!("it is larger than {} MiB", LARGEST_FILE >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(bytes)
    }

    fn names_in(&self, folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn real(&self, path: &Path) -> PathBuf {
        std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
    }
}

/// Reads a file as text. Bytes that are not UTF-8 are refused with their line: a pattern or a path could not be written
/// in JSON.
pub(crate) fn text(
    path: &Path,
    sources: &dyn Sources,
) -> Result<(Rc<str>, String), UnreadableSource> {
    let name = path.display().to_string();
    let bytes = sources.read(path).map_err(|error| UnreadableSource {
        file: name.clone(),
        line: 0,
        problem: format!("cannot be read: {error}"),
        hint: None,
    })?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((name.into(), text)),
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..valid).unwrap_or_default();
            Err(UnreadableSource {
                file: name,
                line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
                problem: "these bytes are not UTF-8".to_owned(),
                hint: Some(
                    "convert the file, for example with `iconv -f latin1 -t utf-8`".to_owned(),
                ),
            })
        }
    }
}

/// Files of a pattern with `*`, `?` and `[…]` in any of its segments, sorted; the path itself where there is none.
pub(crate) fn glob(pattern: &Path, sources: &dyn Sources) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for segment in pattern.components() {
        let segment = segment.as_os_str().to_string_lossy().into_owned();
        if !has_wildcard(&segment) {
            for path in &mut found {
                path.push(&segment);
            }
            continue;
        }
        let mut next = Vec::new();
        for folder in found {
            for name in sources.names_in(&folder) {
                // As glob(7) has it: a hidden file is matched by nothing but a period.
                let is_hidden = name.starts_with('.') && !segment.starts_with('.');
                if !is_hidden && matches(segment.as_bytes(), name.as_bytes()) {
                    next.push(folder.join(name));
                }
            }
        }
        found = next;
    }
    found
}

/// True if a text is a pattern for [`glob`].
pub(crate) fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Matches a name against a pattern, in time that grows with the product of their lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while position < name.len() {
        let one = pattern.get(at..).and_then(|rest| one(rest, name, position));
        match (pattern.get(at), one) {
            (Some(b'*'), _) => {
                star = Some((at, position));
                at += 1;
            }
            (_, Some(length)) => {
                at += length;
                position += 1;
            }
            _ => match star {
                Some((place, from)) => {
                    star = Some((place, from + 1));
                    at = place + 1;
                    position = from + 1;
                }
                None => return false,
            },
        }
    }
    let rest = pattern.get(at..).unwrap_or_default();
    rest.iter().all(|byte| *byte == b'*')
}

/// The length of the pattern's first element, if that is one for the character at `position`.
fn one(pattern: &[u8], name: &[u8], position: usize) -> Option<usize> {
    let character = name.get(position)?;
    match pattern.first()? {
        b'?' => Some(1),
        b'[' => {
            let end = 1
                + pattern
                    .iter()
                    .skip(1)
                    .skip(1)
                    .position(|byte| *byte == b']')?
                + 1;
            let set = pattern.get(1..end)?;
            let (negated, set) = match set {
                [b'!' | b'^', rest @ ..] => (true, rest),
                set => (false, set),
            };
            let mut inside = false;
            let mut rest = set;
            while let Some((first, after)) = rest.split_first() {
                rest = match after {
                    [b'-', last, after @ ..] => {
                        inside |= (first..=last).contains(&character);
                        after
                    }
                    after => {
                        inside |= first == character;
                        after
                    }
                };
            }
            (inside != negated).then_some(end + 1)
        }
        literal => (literal == character).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 31: reading one waited for ever.
    #[test]
    fn a_pipe_is_no_file_of_a_source() {
        let folder = std::env::temp_dir().join(format!("tutti-sources-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let pipe = folder.join("pipe.conf");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        let read = Disk.read(&pipe).map_err(|error| error.to_string());
        std::fs::remove_dir_all(&folder).expect("it is removed");
        assert_eq!(read, Err("it is not a regular file".to_owned()));
    }

    #[test]
    fn names_are_matched_as_a_shell_has_it() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]*", "bx", true),
            ("[!a-c]*", "bx", false),
            ("*a*b*c", "xaxbxc", true),
            ("*a*b*c", "xaxcxb", false),
            ("[", "[", false),
        ] {
            let matched = matches(pattern.as_bytes(), name.as_bytes());
            assert_eq!(matched, expected, "{pattern} {name}");
        }
    }
}
