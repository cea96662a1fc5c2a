//! Files of a source, in memory, and what is lost of it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tutti_import::{Importance, Imported, Sources};

pub(crate) struct Memory(BTreeMap<PathBuf, Vec<u8>>);

impl Memory {
    pub(crate) fn of(files: &[(&str, &str)]) -> Memory {
        let files = files.iter();
        let files = files.map(|(name, text)| (PathBuf::from(name), text.as_bytes().to_vec()));
        Memory(files.collect())
    }
}

impl Sources for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let found = self.0.get(path).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn names_in(&self, folder: &Path) -> Vec<String> {
        let below = self
            .0
            .keys()
            .filter_map(|path| path.strip_prefix(folder).ok());
        let names = below.filter_map(|path| path.components().next());
        let names = names.map(|name| name.as_os_str().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.collect();
        names.dedup();
        names
    }
}

/// The directives that are lost, with their lines.
pub(crate) fn lost(imported: &Imported) -> Vec<(usize, &str)> {
    let findings = imported.findings.iter();
    let lost = findings.filter(|finding| finding.importance == Importance::Lost);
    lost.map(|finding| (finding.line, finding.directive.as_str()))
        .collect()
}
