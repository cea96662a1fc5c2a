//! Anonymous memory files, sealed against resizing.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};

use crate::error::context;

/// Makes a memory file of exactly `size` bytes, zeroed, that cannot grow or shrink any more: a mapping of it can
/// never fault.
pub fn sealed(name: &str, size: u64) -> io::Result<OwnedFd> {
    let fd = create(name)?;
    rustix::fs::ftruncate(&fd, size)
        .map_err(|e| context(format!("sizing memory file to {size} bytes"), e))?;
    rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)
        .map_err(|e| context("sealing memory file", e))?;
    Ok(fd)
}

/// A memory file that holds `bytes` and can never be changed, positioned at its start.
pub fn document(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(create(name)?);
    file.write_all(bytes)
        .map_err(|e| context("filling memory file", e))?;
    file.seek(SeekFrom::Start(0))?;
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE | SealFlags::SEAL,
    )
    .map_err(|e| context("sealing memory file", e))?;
    Ok(file.into())
}

/// Makes a copy of a program that all users can execute and only root can read: a process that executes it cannot be read, traced, or
/// robbed of its descriptors by other processes of its user, from the first moment on (`would_dump` in the kernel's execve;
/// PR_SET_DUMPABLE(2const), "not readable by the caller").
pub fn unreadable_program(name: &str, program: &mut File) -> io::Result<OwnedFd> {
    let fd = create_executable(name)?;
    let mut file = File::from(fd);
    io::copy(program, &mut file).map_err(|e| context("copying a program into memory", e))?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o111))
        .map_err(|e| context("hiding a program", e))?;
    rustix::fs::fcntl_add_seals(
        &file,
        SealFlags::GROW | SealFlags::SHRINK | SealFlags::WRITE | SealFlags::SEAL,
    )
    .map_err(|e| context("sealing memory file", e))?;
    // A file that is open for writing cannot be executed (ETXTBSY, execve(2)).
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|e| context("opening memory file", e))
}

/// All that a document holds, wherever it is positioned: processes that have inherited it share that, and may read at the same time.
pub fn contents(document: impl AsFd) -> io::Result<Vec<u8>> {
    let size = rustix::fs::fstat(&document)?.st_size;
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match rustix::io::retry_on_intr(|| rustix::io::pread(&document, &mut *rest, read as u64))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => read += count,
        }
    }
    Ok(bytes)
}

/// True if `fd` is a memory file that cannot be resized: a receiver checks this before mapping it.
pub fn is_sealed(fd: &OwnedFd) -> bool {
    rustix::fs::fcntl_get_seals(fd).is_ok_and(|s| s.contains(SealFlags::GROW | SealFlags::SHRINK))
}

/// Kernels before 6.3 do not know MFD_EXEC, and need none: memfd_create(2).
fn create_executable(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(rustix::io::Errno::INVAL) => create(name),
        other => other.map_err(|e| context("creating memory file", e)),
    }
}

fn create(name: &str) -> io::Result<OwnedFd> {
    rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(|e| context("creating memory file", e))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn sealed_file_cannot_be_resized() {
        let fd = sealed("test", 8192).unwrap();
        assert!(is_sealed(&fd));
        assert!(rustix::fs::ftruncate(&fd, 4096).is_err());
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_size, 8192);
    }

    #[test]
    fn document_is_readable_and_constant() {
        let mut file = File::from(document("doc", b"hello").unwrap());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert!(file.write_all(b"x").is_err());
        assert_eq!(
            contents(&file).unwrap(),
            b"hello",
            "whatever was read before"
        );
        assert_eq!(contents(document("doc", b"").unwrap()).unwrap(), b"");
    }
}
