//! The mapping of a segment: the only place where an offset becomes a reference.
//!
//! Owns the mapped memory. References are only made to structures of atomics ([`Shared`]), after a check of bounds and alignment; plain
//! bytes are reached through `span` without a reference. The file is sealed against shrinking, so a mapped page cannot disappear (no
//! SIGBUS). Nothing is found in a process that user code has forked from a worker.

use std::ffi::c_void;
use std::io;
use std::mem::{align_of, size_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::forked::is_forked;
use crate::idle::IdlePair;
use crate::layout::{Header, MapHead, SlotControl, WorkerEntry};
use crate::span::SpanMut;
use crate::sync::AtomicU64;

/// Types that may be referenced while another process writes to them.
///
/// # Safety
/// `repr(C)`, made of atomics (or padding) only, valid for every bit pattern.
pub(crate) unsafe trait Shared {}

// SAFETY: an atomic integer.
unsafe impl Shared for AtomicU64 {}
// SAFETY: repr(C) and nothing but atomics, see `layout`.
unsafe impl Shared for Header {}
// SAFETY: repr(C) and nothing but atomics, see `layout`.
unsafe impl Shared for WorkerEntry {}
// SAFETY: repr(C) and nothing but atomics, see `layout`.
unsafe impl Shared for SlotControl {}
// SAFETY: repr(C) and nothing but atomics, see `layout`.
unsafe impl Shared for MapHead {}
// SAFETY: repr(C) and nothing but atomics, see `idle`.
unsafe impl Shared for IdlePair {}

/// A shared, sealed piece of memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is plain memory with no thread affinity; it is only reached through atomics and raw copies.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Creates the memory file of a segment, zeroed, of a fixed length.
#[cfg(not(miri))]
pub(crate) fn create_file(name: &str, length: u64) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, length)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}

/// The same under Miri, which has no memory files: heap memory, found by a descriptor number. Both sides of a segment are threads there.
/// Nothing is freed: the tests of one process need little.
#[cfg(miri)]
mod heap {
    use std::collections::BTreeMap;
    use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
    use std::sync::Mutex;

    use super::*;

    struct Block(NonNull<u8>, usize);

    // SAFETY: plain memory that is never freed.
    unsafe impl Send for Block {}

    static BLOCKS: Mutex<BTreeMap<RawFd, Block>> = Mutex::new(BTreeMap::new());

    pub(crate) fn create_file(_: &str, length: u64) -> io::Result<OwnedFd> {
        let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        let layout = usize::try_from(length)
            .ok()
            .and_then(|length| std::alloc::Layout::from_size_align(length, 4096).ok())
            .filter(|layout| layout.size() > 0)
            .ok_or_else(|| io::Error::other("no length for a segment"))?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
            .ok_or_else(|| io::Error::other("no memory"))?;
        let mut blocks = BLOCKS.lock().unwrap_or_else(|error| error.into_inner());
        blocks.insert(file.as_raw_fd(), Block(start, layout.size()));
        Ok(file)
    }

    pub(crate) fn find(file: BorrowedFd<'_>) -> io::Result<Mapping> {
        let blocks = BLOCKS.lock().unwrap_or_else(|error| error.into_inner());
        let block = blocks.get(&file.as_raw_fd());
        let Block(start, length) = block.ok_or_else(|| io::Error::other("not a segment"))?;
        Ok(Mapping {
            start: *start,
            length: *length,
        })
    }
}

#[cfg(miri)]
pub(crate) use heap::create_file;

impl Mapping {
    /// The memory of that descriptor.
    #[cfg(miri)]
    pub(crate) fn new(file: BorrowedFd<'_>) -> io::Result<Self> {
        heap::find(file)
    }

    /// Maps a whole memory file, which must be sealed against shrinking and at least a header long.
    #[cfg(not(miri))]
    pub(crate) fn new(file: BorrowedFd<'_>) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(invalid("segment is not sealed against shrinking"));
        }
        let stat = rustix::fs::fstat(file)?;
        let length = usize::try_from(stat.st_size).map_err(|_| invalid("segment has no length"))?;
        if length < size_of::<Header>() {
            return Err(invalid("segment is shorter than its header"));
        }
        // SAFETY: a new mapping at an address of the kernel's choice; nothing existing is replaced.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file.as_fd(),
                0,
            )
        }?;
        let start =
            NonNull::new(start.cast::<u8>()).ok_or_else(|| invalid("segment mapped at zero"))?;
        #[cfg(simulated)]
        tutti_simulated::mapped(start.as_ptr() as usize, length, stat.st_ino);
        Ok(Self { start, length })
    }

    /// Bytes mapped.
    pub(crate) fn length(&self) -> u64 {
        self.length as u64
    }

    /// The structure at an offset, if it lies inside the mapping and is aligned there.
    pub(crate) fn at<T: Shared>(&self, offset: u64) -> Option<&T> {
        self.slice(offset, 1)?.first()
    }

    /// `count` structures in a row, if they lie inside the mapping and are aligned there.
    pub(crate) fn slice<T: Shared>(&self, offset: u64, count: usize) -> Option<&[T]> {
        let offset = usize::try_from(offset).ok()?;
        let bytes = size_of::<T>().checked_mul(count)?;
        let end = offset.checked_add(bytes)?;
        if end > self.length || !offset.is_multiple_of(align_of::<T>()) || is_forked() {
            return None;
        }
        // SAFETY: `offset` <= `end` <= `length`, so the result is inside the one mapped object.
        let first = unsafe { self.start.add(offset) };
        // SAFETY: in bounds and aligned (the mapping starts on a page, `offset` is a multiple of the alignment); `T: Shared`
        // is valid for every bit pattern and changes only through atomics; the borrow of `self` keeps it mapped.
        Some(unsafe { std::slice::from_raw_parts(first.cast::<T>().as_ptr(), count) })
    }

    /// Plain bytes of the mapping, if they lie inside it.
    pub(crate) fn bytes(&self, offset: u64, length: u32) -> Option<SpanMut<'_>> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length as usize)?;
        if end > self.length || is_forked() {
            return None;
        }
        // SAFETY: `offset` <= `end` <= `length`, so the result is inside the one mapped object.
        let first = unsafe { self.start.add(offset) };
        // SAFETY: `length` bytes from `first` are mapped readable and writable for as long as `self` is borrowed.
        Some(unsafe { SpanMut::from_raw(first, length as usize) })
    }

    /// Returns whole pages to the system; they read as zero afterwards. Only for unused ranges.
    pub(crate) fn discard(&self, offset: u64, length: u32) {
        debug_assert!(offset.is_multiple_of(4096) && length.is_multiple_of(4096));
        let Some(span) = self.bytes(offset, length) else {
            return;
        };
        if cfg!(miri) {
            return;
        }
        // SAFETY: the range is inside our mapping (checked by `bytes`); its content is not needed, and every reader of it
        // accepts any bit pattern, so zeroes are valid. An error leaves the pages as they are.
        let _ = unsafe {
            rustix::mm::madvise(
                span.as_ptr().cast::<c_void>(),
                span.len(),
                rustix::mm::Advice::LinuxRemove,
            )
        };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if cfg!(miri) {
            return;
        }
        debug_assert!(self.length >= size_of::<Header>());
        #[cfg(simulated)]
        tutti_simulated::unmapped(self.start.as_ptr() as usize);
        // SAFETY: exactly the range that `new` mapped; every reference into it borrowed `self` and is gone.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.length) };
    }
}
