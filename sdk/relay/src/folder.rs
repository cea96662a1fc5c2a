//! The private folder of one program: its socket, and the files of a preloaded module.
//!
//! It lies in the application's folder for temporary files, which other users, other servers and applications in other namespaces may share.
//! So its name is random, it has mode 0700 from the start, and the worker holds a lock on it as long as it lives. Process numbers say nothing
//! there: each pid namespace has its own. Must never happen: two programs with one folder; a folder in use removed as left behind.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::rand::{GetRandomFlags, getrandom};
use tutti_sys::credentials;

/// Names of such folders begin like this.
const PREFIX: &str = "tutti-program-";

/// Random bytes of a name: they cannot be guessed, and a second folder of the same name does not happen by chance.
const RANDOM_BYTES: usize = 16;

/// Attempts to make a folder; only another process that removes it before it is locked makes one fail.
const TRIES: u32 = 8;

/// A folder that goes with its owner.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Holds the lock, which the kernel releases however this process ends. Not inherited by the program.
    _lock: File,
}

impl Folder {
    /// Makes a folder that only this user may enter, and removes those that killed workers have left.
    pub(crate) fn create(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        for _ in 0..TRIES {
            let path = parent.join(random_name()?);
            DirBuilder::new().mode(0o700).create(&path)?;
            if let Some(lock) = lock(&path)? {
                return Ok(Self { path, _lock: lock });
            }
        }
        let message = format!("folders in `{}` are removed at once", parent.display());
        Err(io::Error::other(message))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn random_name() -> io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    let count = getrandom(&mut bytes, GetRandomFlags::empty())?;
    // Requests of up to 256 bytes are not cut short (getrandom(2)).
    assert_eq!(count, RANDOM_BYTES, "a short name could be guessed");
    let digits = u128::from_be_bytes(bytes);
    Ok(format!("{PREFIX}{digits:032x}"))
}

/// The lock on this user's folder at `path`. `None`: another process has it, or the folder has been removed.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => File::from(folder),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let locked = folder.metadata()?;
    if locked.uid() != credentials::current_user() {
        return Ok(None);
    }
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    // It may have been removed, and its lock released, between the two calls.
    let is_there = std::fs::symlink_metadata(path)
        .is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino()));
    Ok(is_there.then_some(folder))
}

/// Removes the folders of this user whose workers were killed. Failing to is no reason not to start.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        if !is_ours(&entry.file_name()) {
            continue;
        }
        if let Ok(Some(_lock)) = lock(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_ours(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    digits.is_some_and(|digits| {
        digits.len() == 2 * RANDOM_BYTES && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(parent)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn each_program_has_a_folder_that_cannot_be_guessed() {
        let parent = tempfile::tempdir().unwrap();
        let (one, other) = (
            Folder::create(parent.path()).unwrap(),
            Folder::create(parent.path()).unwrap(),
        );
        assert_ne!(one.path(), other.path());
        for folder in [&one, &other] {
            let name = folder.path().file_name().unwrap();
            assert!(is_ours(name), "{}", name.display());
            let mode = folder.path().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        drop((one, other));
        assert!(names(parent.path()).is_empty());
    }

    #[test]
    fn folders_of_killed_workers_are_removed_and_all_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Folder::create(parent.path()).unwrap();
        std::fs::write(alive.path().join("http.sock"), "").unwrap();
        // As a killed worker leaves it: with its files, without its lock.
        let abandoned = parent.path().join(random_name().unwrap());
        std::fs::create_dir(&abandoned).unwrap();
        std::fs::write(abandoned.join("preload.js"), "").unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("kept"), "").unwrap();
        let link = parent.path().join(random_name().unwrap());
        symlink(elsewhere.path(), &link).unwrap();
        // No name that is made here.
        let foreign = parent.path().join("tutti-program-1");
        std::fs::create_dir(&foreign).unwrap();

        let next = Folder::create(parent.path()).unwrap();
        assert!(alive.path().join("http.sock").exists());
        assert!(!abandoned.exists());
        assert!(elsewhere.path().join("kept").exists());
        assert!(link.is_symlink() && foreign.exists() && next.path().exists());
    }

    #[test]
    fn a_folder_that_was_removed_before_its_lock_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join(random_name().unwrap());
        std::fs::create_dir(&path).unwrap();
        let held = lock(&path).unwrap().unwrap();
        assert!(lock(&path).unwrap().is_none(), "another has it");
        drop(held);
        std::fs::remove_dir(&path).unwrap();
        assert!(lock(&path).unwrap().is_none(), "it is not there");
    }
}
