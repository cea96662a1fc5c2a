//! Reads configuration files: one, or those of a folder in the order of their names.
//!
//! Called by main, which may read files that the router may not, and by the command line. The content is not parsed
//! here. Must never happen: that files from two moments are combined into one configuration.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tutti_options::Format;
use tutti_protocol::ConfigFile;
use tutti_sys::error::context;
use tutti_sys::file_mark::FileMark;
use tutti_sys::path_snapshot::PathSnapshot;

/// A folder with more files is not a configuration, but perhaps a home folder.
const MOST_FILES: usize = 1000;

/// Maximum size of a configuration, all files together.
const MOST_BYTES: u64 = 128 << 20;

/// Attempts to read files while they are being changed.
const ATTEMPTS: usize = 10;

/// The files with their state; `None` for a dangling link.
pub(super) type Look = Vec<(PathBuf, Option<FileMark>)>;

/// Checks the file or folder, without reading the content of files.
///
/// # Errors
/// There is no such file or folder, or a folder contains no configuration file.
pub(super) fn look(path: &Path) -> io::Result<Look> {
    let files = list(path)?.into_iter();
    let marked = files.map(|file| {
        let metadata = std::fs::metadata(&file).ok();
        (file, metadata.map(|metadata| FileMark::of(&metadata)))
    });
    Ok(marked.collect())
}

/// Reads the file or folder, with all files from one moment: a folder may be replaced as a whole, by a link, while it
/// is read.
///
/// # Errors
/// A file cannot be read, or is too large; a folder contains no configuration file; or it keeps changing.
pub fn read(path: &Path) -> io::Result<Vec<ConfigFile>> {
    for _ in 0..ATTEMPTS {
        let before = look(path)?;
        let files = read_once(path, before.iter().map(|(file, _)| file));
        if look(path).is_ok_and(|after| after == before) {
            return files;
        }
    }
    let shown = path.display();
    Err(invalid(format!(
        "`{shown}` keeps changing while it is read"
    )))
}

fn read_once<'f>(
    path: &Path,
    list: impl Iterator<Item = &'f PathBuf>,
) -> io::Result<Vec<ConfigFile>> {
    let mut left = MOST_BYTES;
    // A link to the folder of several may be changed, and changed back, between two reads.
    let mut moment = PathSnapshot::default();
    let mut files = Vec::new();
    for file in list {
        let named = |error| context(format!("reading `{}`", file.display()), error);
        let mut opened = moment.open(file, OFlags::empty()).map_err(named)?;
        let size = opened.metadata().map_err(named)?.len();
        left = left.checked_sub(size).ok_or_else(|| {
            invalid(format!(
                "`{}`: the configuration has more than {} MB",
                path.display(),
                MOST_BYTES >> 20
            ))
        })?;
        let mut bytes = Vec::new();
        opened.read_to_end(&mut bytes).map_err(named)?;
        let name = file.display().to_string();
        files.push(ConfigFile { name, bytes });
    }
    Ok(files)
}

fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let named = |error| context(format!("reading `{}`", path.display()), error);
    if !std::fs::metadata(path).map_err(named)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(named)? {
        let entry = entry.map_err(named)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Editors leave `.site.json.swp` and `site.json~` behind; the first begins with a period, the second has
        // another ending.
        if !name.starts_with('.') && Format::of_file(&name).is_some() && !entry.path().is_dir() {
            files.push(entry.path());
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(invalid(format!(
            "`{}` has no file that ends with one of {}",
            path.display(),
            Format::endings().join(", ")
        )));
    }
    if files.len() > MOST_FILES {
        let message = format!("`{}` has more than {MOST_FILES} files", path.display());
        return Err(invalid(message));
    }
    Ok(files)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_come_in_the_order_of_their_names_and_others_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a.json", ".c.json", "d.json~", "e.txt", "f.toml"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        std::fs::create_dir(folder.path().join("g.json")).unwrap();
        let texts: Vec<Vec<u8>> = read(folder.path())
            .unwrap()
            .into_iter()
            .map(|file| file.bytes)
            .collect();
        assert_eq!(texts, [&b"a.json"[..], b"b.yaml", b"f.toml"]);
    }

    /// Issue 15: the kubelet changes a folder by its link `..data` while it is read.
    #[test]
    fn files_of_two_moments_are_never_one_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let make = |number: usize| {
            let of_number = path(&format!("..{number}"));
            std::fs::create_dir(&of_number).unwrap();
            for name in ["a.json", "b.json", "c.json"] {
                std::fs::write(of_number.join(name), number.to_string()).unwrap();
            }
        };
        let swap = |number: usize| {
            std::os::unix::fs::symlink(format!("..{number}"), path("..data_tmp")).unwrap();
            std::fs::rename(path("..data_tmp"), path("..data")).unwrap();
        };
        make(0);
        swap(0);
        for name in ["a.json", "b.json", "c.json"] {
            std::os::unix::fs::symlink(format!("..data/{name}"), path(name)).unwrap();
        }
        let read_while = |change: &(dyn Fn() + Sync)| {
            std::thread::scope(|scope| {
                let changing = scope.spawn(change);
                while !changing.is_finished() {
                    // It may fail, because the files do change constantly.
                    if let Ok(files) = read(folder.path()) {
                        let texts: Vec<&[u8]> =
                            files.iter().map(|file| file.bytes.as_slice()).collect();
                        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
                    }
                }
            });
        };
        // Like the kubelet: each moment has its own folder.
        read_while(&|| {
            for number in 1..500 {
                make(number);
                swap(number);
                std::fs::remove_dir_all(path(&format!("..{}", number - 1))).unwrap();
            }
        });
        // There and back, which a check before and after does not notice.
        make(1000);
        read_while(&|| [499, 1000].into_iter().cycle().take(20_000).for_each(swap));
    }

    #[test]
    fn unusable_files_are_reported_with_their_names() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            read(folder.path())
                .unwrap_err()
                .to_string()
                .contains("no file")
        );
        let error = read(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
    }
}
