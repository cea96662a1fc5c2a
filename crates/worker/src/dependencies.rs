//! The files of the system that a host needs: it reports them to main, which binds them into another root.
//!
//! Libraries are those that the running host has mapped; their whole folders are reported, because what is loaded later (extensions, name
//! services, character sets) comes from there, too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tutti_sys::libraries;
use tutti_wire::control::Describe;

/// The output of `--describe`.
#[derive(Debug, Serialize)]
pub(crate) struct Described {
    #[serde(flatten)]
    pub(crate) host: Describe,
    /// Further types of applications.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) also: Vec<String>,
    pub(crate) dependencies: Vec<PathBuf>,
    /// The files without which the program cannot be started: its loader and the libraries that it is linked with.
    pub(crate) libraries: Vec<PathBuf>,
}

/// Files that every program uses: the time zones, the certificates that TLS clients trust, and the targets of these links.
const COMMON: [&str; 6] = [
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/usr/share/ca-certificates",
    "/usr/share/zoneinfo",
    "/usr/lib/locale",
];

/// The loaders named in programs, which are links into the libraries' folders.
const INTERPRETERS: [&str; 2] = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];

/// The paths of the language, the folders of the libraries, and the files that every program needs.
pub(crate) fn all(own: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut all: BTreeSet<PathBuf> = own.into_iter().collect();
    all.extend(library_folders(&libraries::loaded()));
    let fixed = COMMON.iter().chain(&INTERPRETERS).map(PathBuf::from);
    all.extend(fixed.filter(|path| path.exists()));
    all.into_iter().filter(|path| path.exists()).collect()
}

/// The loader, its configuration, and the folders of the libraries.
pub(crate) fn needed_to_start() -> Vec<PathBuf> {
    let fixed = ["/etc/ld.so.cache"].iter().chain(&INTERPRETERS);
    let mut all = library_folders(&libraries::loaded());
    all.extend(fixed.map(PathBuf::from));
    all.into_iter().filter(|path| path.exists()).collect()
}

/// Folders that contain far more than libraries: of these, only the files themselves are reported.
const WIDE: [&str; 3] = ["/lib", "/usr/lib", "/usr/lib64"];

/// Folders of libraries; `/usr/lib/x` is reported as `/lib/x`, too, where that is the same.
fn library_folders(libraries: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for library in libraries {
        match library.parent() {
            Some(folder) if WIDE.iter().any(|wide| folder == Path::new(wide)) => {
                found.extend(names_of(folder, library));
            }
            Some(folder) => {
                found.insert(folder.to_path_buf());
            }
            None => {}
        }
    }
    let twins: Vec<PathBuf> = found
        .iter()
        .filter_map(|path| Some(Path::new("/").join(path.strip_prefix("/usr").ok()?)))
        .filter(|twin| twin.starts_with("/lib") && twin.exists())
        .collect();
    found.into_iter().chain(twins).collect()
}

/// A library is opened by a name that may be a link to the mapped file.
fn names_of(folder: &Path, library: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.canonicalize().is_ok_and(|real| real == library))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_libraries_are_found_once_each() {
        let libraries = ["/opt/lang/lib/libone.so.1", "/opt/lang/lib/libtwo.so"];
        let folders = library_folders(&libraries.map(PathBuf::from));
        assert_eq!(
            folders.into_iter().collect::<Vec<_>>(),
            [Path::new("/opt/lang/lib")]
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know `dl_iterate_phdr`")]
    fn the_libraries_of_this_program_exist() {
        let all = all(vec!["/no/such/folder".into()]);
        assert!(!all.is_empty());
        assert!(all.iter().all(|path| path.exists()));
    }
}
