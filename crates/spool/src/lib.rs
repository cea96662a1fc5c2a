//! The spool: an unnamed file for bodies too large for memory.
//!
//! Each application has one for request bodies that do not fit a slot; the server has another for responses that slow clients have not
//! taken. Listen threads allocate regions and write them; workers read them by offset, through a read-only descriptor. A region is a range
//! of a sparse file and frees its blocks when it is dropped; [`ranges`] decides which range.
//!
//! Must never: allocate a region that a worker may still read. The region of a submitted request belongs to its slot and is freed with the
//! slot.

#![forbid(unsafe_code)]

mod ranges;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FallocateFlags, MemfdFlags};
use tutti_sys::anonymous_file::UnnamedFile;

use crate::ranges::{PAGE, Ranges};

/// Why a body could not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The folder's file system is full, or over quota: 503, and the log names the folder.
    #[error("no space for a body in `{}`: {source}", folder.display())]
    Full {
        /// The folder of the spool.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file has no room for another body, or for more of this one: 503.
    #[error("too many large bodies at once in `{}`", folder.display())]
    Regions {
        /// The folder of the spool.
        folder: PathBuf,
    },
    /// The body is longer than any region: 413.
    #[error("a body is larger than the {limit} bytes that the file for large bodies in `{}` takes of one", folder.display())]
    TooLarge {
        /// The folder of the spool.
        folder: PathBuf,
        /// Longest body.
        limit: u64,
    },
    /// Anything else: 500.
    #[error("cannot write a body in `{}`: {source}", folder.display())]
    Io {
        /// The folder of the spool.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl SpoolError {
    /// The status for the client.
    pub fn status(&self) -> u16 {
        match self {
            SpoolError::Full { .. } | SpoolError::Regions { .. } => 503,
            SpoolError::TooLarge { .. } => 413,
            SpoolError::Io { .. } => 500,
        }
    }
}

/// Where a spool is: in a folder, or, if only another process may write there, in a file that it has opened.
#[derive(Clone, Debug)]
pub struct SpoolPlace {
    folder: PathBuf,
    opened: Option<Spool>,
}

impl PartialEq for SpoolPlace {
    /// Files have no names, so folders are compared.
    fn eq(&self, other: &SpoolPlace) -> bool {
        self.folder == other.folder
    }
}

impl From<PathBuf> for SpoolPlace {
    fn from(folder: PathBuf) -> SpoolPlace {
        SpoolPlace {
            folder,
            opened: None,
        }
    }
}

impl SpoolPlace {
    /// The place of `spool` alone.
    pub fn opened(spool: Spool) -> SpoolPlace {
        SpoolPlace {
            folder: spool.0.folder.clone(),
            opened: Some(spool),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The opened file, or a new one in the folder, for bodies of up to `max_body` bytes.
    pub fn spool(&self, max_body: u64) -> io::Result<Spool> {
        match &self.opened {
            Some(spool) => Ok(spool.clone()),
            None => Spool::create(&self.folder, max_body),
        }
    }
}

/// The spool file of one application.
#[derive(Clone, Debug)]
pub struct Spool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: OwnedFd,
    reader: OwnedFd,
    folder: PathBuf,
    /// Longest body.
    limit: u64,
    ranges: Mutex<Ranges>,
}

impl Inner {
    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        // Ranges are added, extended and removed whole: consistent even if a holder panicked.
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn crowded(&self) -> SpoolError {
        SpoolError::Regions {
            folder: self.folder.clone(),
        }
    }
}

impl Spool {
    /// Creates the file, which is unnamed from the start, for bodies of up to `max_body` bytes.
    pub fn create(folder: &Path, max_body: u64) -> io::Result<Spool> {
        Ok(Spool::of(UnnamedFile::create(folder)?, folder, max_body))
    }

    /// A spool in memory, for when there is no folder and no bodies are expected.
    pub fn in_memory(max_body: u64) -> io::Result<Spool> {
        let flags = MemfdFlags::CLOEXEC;
        let file = UnnamedFile::of(rustix::fs::memfd_create("tutti-spool", flags)?)?;
        Ok(Spool::of(file, Path::new("memory"), max_body))
    }

    /// A spool in this unnamed file of this folder.
    pub fn of(UnnamedFile { file, reader }: UnnamedFile, folder: &Path, max_body: u64) -> Spool {
        let (ranges, limit) = Ranges::new(max_body);
        Spool(Arc::new(Inner {
            file,
            reader,
            folder: folder.to_owned(),
            limit,
            ranges: Mutex::new(ranges),
        }))
    }

    /// The read-only descriptor for workers.
    pub fn reader(&self) -> BorrowedFd<'_> {
        self.0.reader.as_fd()
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Bytes free on its file system; `None` if unknown.
    pub fn free(&self) -> Option<u64> {
        let room = rustix::fs::fstatvfs(&self.0.file).ok()?;
        (room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Takes a region for one body.
    ///
    /// # Errors
    /// [`SpoolError::Regions`]: the file has no room for one more.
    pub fn allocate(&self) -> Result<Region, SpoolError> {
        let range = self.0.ranges().allocate();
        let range = range.ok_or_else(|| self.0.crowded())?;
        Ok(Region {
            spool: Arc::clone(&self.0),
            range,
            len: 0,
        })
    }

    /// Regions in use.
    pub fn in_use(&self) -> usize {
        self.0.ranges().in_use()
    }
}

/// One body in the spool. Dropping it frees its blocks.
#[derive(Debug)]
pub struct Region {
    spool: Arc<Inner>,
    range: Range<u64>,
    len: u64,
}

impl Region {
    /// Where it begins in the file.
    pub fn offset(&self) -> u64 {
        self.range.start
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True before the first byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes. After an error the region holds those written until then: [`Region::len`] shows how many.
    ///
    /// # Errors
    /// The body is too long with them, the file has no room for them behind the region, or it cannot be written.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), SpoolError> {
        let size = bytes.len() as u64;
        if size > self.spool.limit - self.len {
            return Err(SpoolError::TooLarge {
                folder: self.spool.folder.clone(),
                limit: self.spool.limit,
            });
        }
        let end = self.range.start + self.len + size;
        if end > self.range.end {
            let grown = self.spool.ranges().grow(&self.range, end);
            self.range.end = grown.ok_or_else(|| self.spool.crowded())?;
        }
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.spool.file, bytes, self.offset() + self.len) {
                Ok(0) => return Err(self.failed(rustix::io::Errno::NOSPC)),
                Ok(written) => {
                    self.len += written as u64;
                    bytes = bytes.get(written..).unwrap_or_default();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Reads from `at` on into `buffer`; returns how many bytes, 0 at the end.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
        let most = buffer.len().min(rest);
        let room = buffer.get_mut(..most).unwrap_or_default();
        loop {
            match rustix::io::pread(&self.spool.reader, &mut *room, self.offset() + at) {
                Err(rustix::io::Errno::INTR) => {}
                outcome => return outcome.map_err(io::Error::from),
            }
        }
    }

    fn failed(&self, error: rustix::io::Errno) -> SpoolError {
        use rustix::io::Errno;
        let folder = self.spool.folder.clone();
        let source = error.into();
        match error {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => SpoolError::Full { folder, source },
            _ => SpoolError::Io { folder, source },
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.len > 0 {
            let length = self.len.next_multiple_of(PAGE);
            // On a file system without holes the blocks stay with the range, which is the next to be used again if bodies are small: the
            // file is no larger than the bodies held at once, so a failure needs no handling.
            let _ = rustix::fs::fallocate(
                &self.spool.file,
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                self.offset(),
                length,
            );
        }
        self.spool.ranges().release(&self.range);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustix::fs::{Mode, OFlags};

    use super::*;

    fn blocks(spool: &Spool) -> i64 {
        rustix::fs::fstat(&spool.0.file).unwrap().st_blocks
    }

    #[test]
    fn a_dropped_region_gives_its_blocks_back_and_is_taken_next() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path(), 8 << 20).unwrap();
        let first = spool.allocate().unwrap();
        let mut second = spool.allocate().unwrap();
        second.append(&vec![7; 3 << 20]).unwrap();
        assert!(blocks(&spool) * 512 >= 3 << 20);
        let offset = second.offset();
        drop(second);
        assert_eq!(blocks(&spool), 0);
        assert_eq!(spool.allocate().unwrap().offset(), offset);
        drop(first);
        assert_eq!(spool.in_use(), 0);
    }

    #[test]
    fn the_file_has_no_name_and_workers_can_only_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path(), 1).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut region = spool.allocate().unwrap();
        region.append(b"body").unwrap();
        let mut bytes = [0; 4];
        rustix::io::pread(spool.reader(), &mut bytes, region.offset()).unwrap();
        assert_eq!(&bytes, b"body");
        assert_eq!(
            rustix::io::pwrite(spool.reader(), b"x", 0).unwrap_err(),
            rustix::io::Errno::BADF
        );
    }

    #[test]
    fn a_body_longer_than_a_region_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path(), 1).unwrap();
        let mut region = spool.allocate().unwrap();
        region.append(&vec![0; 1 << 20]).unwrap();
        let error = region.append(b"x").unwrap_err();
        assert_eq!(error.status(), 413);
        assert!(error.to_string().contains("1048576 bytes"), "{error}");
    }

    #[test]
    fn without_a_limit_of_one_body_many_have_room_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path(), 1 << 50).unwrap();
        let mut regions: Vec<Region> = (0..100).map(|_| spool.allocate().unwrap()).collect();
        // In turns, so that each grows beside others.
        for _ in 0..4 {
            for (number, region) in regions.iter_mut().enumerate() {
                region.append(&vec![number as u8; 1 << 18]).unwrap();
            }
        }
        for (number, region) in regions.iter().enumerate() {
            let mut bytes = vec![0; 1 << 20];
            assert_eq!(region.read(0, &mut bytes).unwrap(), 1 << 20);
            assert!(bytes.iter().all(|byte| *byte == number as u8));
        }
        assert!(blocks(&spool) * 512 >= 100 << 20);
        drop(regions);
        assert_eq!((blocks(&spool), spool.in_use()), (0, 0));
    }

    #[test]
    fn a_file_system_without_space_is_named_in_the_error() {
        // A file-size limit would end the process with SIGXFSZ; /dev/full serves as a full disk.
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(folder.path(), 1).unwrap();
        Arc::get_mut(&mut spool.0).unwrap().file =
            rustix::fs::open("/dev/full", OFlags::RDWR, Mode::empty()).unwrap();
        let mut region = spool.allocate().unwrap();
        let error = region.append(b"body").unwrap_err();
        assert_eq!(error.status(), 503);
        assert!(
            error
                .to_string()
                .contains(&folder.path().display().to_string())
        );
    }
}
