//! The pid file: the process id of the server, as long as it runs.
//!
//! It is locked while the server runs, so a second instance with the same file is rejected, and a stale number in it is
//! never mistaken for a running instance. Must never happen: that another instance overwrites or removes the file of a
//! running one.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;

use tutti_sys::error::context;
use tutti_sys::guarded::{self, NameInFolder};
use tutti_sys::process;
use tutti_sys::spawn::inherited;

/// Maximum retries if the file was removed by an instance that has just ended.
const TRIES: u32 = 8;

/// The file, locked.
#[derive(Debug)]
pub(crate) struct PidFile {
    name: NameInFolder,
    file: File,
}

impl PidFile {
    /// Locks the file, creates it if it is missing, and writes our process id into it.
    ///
    /// # Errors
    /// `AlreadyExists` if another instance holds it.
    pub(super) fn take(path: &Path) -> io::Result<PidFile> {
        let taken = PidFile::lock(path).and_then(|mut taken| {
            taken.file.set_len(0)?;
            taken.file.rewind()?;
            writeln!(taken.file, "{}", process::id())?;
            Ok(taken)
        });
        taken.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => error,
            _ => context(format!("writing the pid file `{}`", path.display()), error),
        })
    }

    fn lock(path: &Path) -> io::Result<PidFile> {
        if let Some(folder) = path.parent() {
            guarded::folder(folder, Some(0o755))?;
        }
        for _ in 0..TRIES {
            let name = guarded::named(path)?;
            let mut file = File::from(name.open_file(0o644)?);
            match file.try_lock() {
                // The former holder may have removed it as its last act.
                Ok(()) if name.is(file.as_fd())? => return Ok(PidFile { name, file }),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(held(path, &mut file)),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other("it keeps appearing and disappearing"))
    }

    /// Takes over the file of the former program of this process.
    pub(super) fn adopt(path: &Path, handed: Option<RawFd>) -> io::Result<PidFile> {
        match handed {
            Some(number) => Ok(PidFile {
                name: guarded::named(path)?,
                file: inherited(number)?.into(),
            }),
            None => PidFile::take(path),
        }
    }

    /// Returns its descriptor number, for a handover.
    pub(super) fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Removes it, unless it has been replaced by another file.
    pub(super) fn remove(&self) {
        let _ = self.name.remove_if(self.file.as_fd());
    }
}

fn held(path: &Path, file: &mut File) -> io::Error {
    // A number and a line break: a longer file is not a pid file.
    let mut text = String::new();
    let _ = file.take(32).read_to_string(&mut text);
    let who = match text.trim() {
        "" => "another instance is running".to_owned(),
        number => format!("another instance is running as process {number}"),
    };
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!(
            "{who}: it holds the pid file `{}`; stop it, or choose another file with --pid",
            path.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 10, 1.19: a second instance overwrote the pid file of a running one and deleted it later.
    #[test]
    fn a_file_in_use_is_neither_overwritten_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/tutti.pid");
        let first = PidFile::take(&path).unwrap();
        let own = format!("{}\n", process::id());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), own);
        let error = PidFile::take(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let expected = format!("running as process {}: it holds", process::id());
        assert!(error.to_string().contains(&expected), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), own);
        // Another file by now.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "1\n").unwrap();
        first.remove();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n");
        drop(first);
        let second = PidFile::take(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), own);
        second.remove();
        assert!(!path.exists());
    }
}
