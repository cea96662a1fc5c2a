//! Files that no other process can find: for what is kept on disk only for a while.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

/// A file without a name, open for writing and, for another process, for reading only.
#[derive(Debug)]
pub struct UnnamedFile {
    /// For the writer.
    pub file: OwnedFd,
    /// For the reader.
    pub reader: OwnedFd,
}

impl UnnamedFile {
    /// Makes one, which has no name from the start.
    ///
    /// # Errors
    /// There is no such folder, or this process may not write there.
    pub fn create(folder: &Path) -> io::Result<UnnamedFile> {
        UnnamedFile::of(create_unnamed(folder)?)
    }

    /// Opens this one a second time, for reading only.
    pub fn of(file: OwnedFd) -> io::Result<UnnamedFile> {
        let reader = rustix::fs::open(
            format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)),
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(UnnamedFile { file, reader })
    }
}

fn create_unnamed(folder: &Path) -> io::Result<OwnedFd> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    // It cannot be given a name later: O_EXCL with O_TMPFILE, open(2).
    let unnamed = flags | OFlags::TMPFILE | OFlags::EXCL;
    match rustix::fs::open(folder, unnamed, mode) {
        Ok(file) => return Ok(file),
        // overlayfs before Linux 6.3, NFS and FUSE have no O_TMPFILE (open(2)); old kernels say EISDIR.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
        }
        Err(error) => return Err(error.into()),
    }
    for attempt in 0..100_u32 {
        let path = folder.join(format!(".tutti-spool-{}-{attempt}", std::process::id()));
        match rustix::fs::openat(CWD, &path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(file) => {
                rustix::fs::unlink(&path)?;
                return Ok(file);
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "no free name for the file",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_name_is_read_and_not_written_by_the_second_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let made = UnnamedFile::create(folder.path()).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        rustix::io::write(&made.file, b"text").unwrap();
        let mut text = [0; 4];
        assert_eq!(rustix::io::pread(&made.reader, &mut text, 0), Ok(4));
        assert_eq!(&text, b"text");
        assert!(rustix::io::write(&made.reader, b"x").is_err());
    }
}
