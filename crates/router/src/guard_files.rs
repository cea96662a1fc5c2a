//! The files with users and keys for access control.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

/// The largest file: a hundred thousand users.
const MOST_BYTES: u64 = 16 << 20;

/// Content of files, or why they cannot be read.
pub(super) type GuardFiles = HashMap<PathBuf, Result<Vec<u8>, String>>;

/// Reads all of a file.
pub(super) fn content(mut file: &File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.by_ref().take(MOST_BYTES + 1).read_to_end(&mut bytes);
    match read {
        Ok(_) if bytes.len() as u64 > MOST_BYTES => Err("is larger than 16 MB".to_owned()),
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}
