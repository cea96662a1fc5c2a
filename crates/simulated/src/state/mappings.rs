//! The mappings of shared memory: each process may have the same file at another address.

use std::collections::BTreeMap;

/// A word that the processes share: its file and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    file: u64,
    pub(crate) offset: usize,
}

/// All mappings, by their start: the length and the file.
#[derive(Debug, Default)]
pub(crate) struct Mappings(BTreeMap<usize, (usize, u64)>);

impl Mappings {
    pub(crate) fn add(&mut self, start: usize, length: usize, file: u64) {
        self.0.insert(start, (length, file));
    }

    pub(crate) fn remove(&mut self, start: usize) {
        self.0.remove(&start);
    }

    pub(crate) fn word_at(&self, address: usize) -> Word {
        let found = self.0.range(..=address).next_back();
        let inside = found.filter(|(start, (length, _))| address < *start + length);
        match inside {
            Some((start, (_, file))) => Word {
                file: *file,
                offset: address - start,
            },
            // Private memory.
            None => Word {
                file: 0,
                offset: address,
            },
        }
    }
}
