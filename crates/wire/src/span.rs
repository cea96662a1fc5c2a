//! Plain bytes in shared memory, reached without ever making a Rust reference to them.
//!
//! Another process may change these bytes at any time, so the router copies what it must parse and passes the rest to the kernel by
//! address.

use std::marker::PhantomData;
use std::ptr::NonNull;

/// Response bytes to be written to a socket in place.
///
/// Valid until they are consumed (`Segment::response_consume`) or the slot is freed, and no longer than the segment.
#[derive(Clone, Copy, Debug)]
pub struct RawSpan<'a> {
    /// First byte. The bytes may change while they are read; let the kernel read them, or copy.
    pub ptr: *const u8,
    /// Number of bytes.
    pub len: usize,
    owner: PhantomData<&'a ()>,
}

impl<'a> RawSpan<'a> {
    /// No bytes.
    pub const EMPTY: RawSpan<'static> = RawSpan {
        ptr: NonNull::dangling().as_ptr(),
        len: 0,
        owner: PhantomData,
    };

    /// Appends the bytes to `target`.
    pub fn copy_to(&self, target: &mut Vec<u8>) {
        target.reserve(self.len);
        let room = target.spare_capacity_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: `ptr..ptr+len` is mapped for 'a (only this module makes spans); `reserve` made room for `len` bytes; a
        // fresh or private allocation cannot overlap the mapping. A concurrent writer can only spoil the values copied.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr, room, self.len) };
        let length = target.len() + self.len;
        // SAFETY: the `len` bytes behind the old end were just written, and fit the capacity.
        unsafe { target.set_len(length) };
    }

    /// The first `len` bytes, or all of them.
    #[must_use]
    pub fn truncated(self, len: usize) -> RawSpan<'a> {
        RawSpan {
            len: self.len.min(len),
            ..self
        }
    }

    /// The span without its first `count` bytes (empty when it is shorter).
    #[must_use]
    pub fn skip(self, count: usize) -> RawSpan<'a> {
        let count = count.min(self.len);
        RawSpan {
            ptr: self.ptr.wrapping_add(count),
            len: self.len - count,
            owner: PhantomData,
        }
    }
}

// SAFETY: a span is an address and a length of memory that any thread may read with raw copies.
unsafe impl Send for RawSpan<'_> {}
// SAFETY: as above.
unsafe impl Sync for RawSpan<'_> {}

/// A hint to the processor; does nothing where there is none.
#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally and cannot fault, whatever the address; SSE is always there on x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Bytes that this side may write, bounds-checked.
#[derive(Clone, Copy, Debug)]
pub struct SpanMut<'a> {
    first: NonNull<u8>,
    length: usize,
    owner: PhantomData<&'a ()>,
}

impl<'a> SpanMut<'a> {
    /// # Safety
    /// `length` bytes from `first` must be readable and writable for `'a`, and reached by no Rust reference meanwhile.
    pub(crate) unsafe fn from_raw(first: NonNull<u8>, length: usize) -> Self {
        Self {
            first,
            length,
            owner: PhantomData,
        }
    }

    /// The bytes of a private buffer.
    pub fn from_slice(bytes: &'a mut [u8]) -> Self {
        let length = bytes.len();
        Self {
            first: NonNull::from(bytes).cast::<u8>(),
            length,
            owner: PhantomData,
        }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.first.as_ptr()
    }

    /// Writes `bytes` at `offset`; false, and nothing written, when they do not fit.
    #[must_use]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let Some(place) = self.place(offset, bytes.len()) else {
            return false;
        };
        // SAFETY: `place` checked that the target lies in our range; `bytes` is a live reference, which by the contract of
        // `from_raw` cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        true
    }

    /// Fills `target` from `offset`; false, and nothing read, when there are not as many bytes.
    #[must_use]
    pub fn read(&self, offset: usize, target: &mut [u8]) -> bool {
        let Some(place) = self.place(offset, target.len()) else {
            return false;
        };
        // SAFETY: as in `write`, in the other direction. A concurrent writer can only spoil the values copied.
        unsafe { std::ptr::copy_nonoverlapping(place, target.as_mut_ptr(), target.len()) };
        true
    }

    /// The bytes by address, for the kernel.
    pub(crate) fn span(&self, offset: usize, length: usize) -> Option<RawSpan<'a>> {
        Some(RawSpan {
            ptr: self.place(offset, length)?,
            len: length,
            owner: PhantomData,
        })
    }

    /// Prefetches the bytes' cache lines: misses then overlap instead of following each other.
    #[inline]
    pub(crate) fn prefetch(&self) {
        for line in 0..self.length / 64 {
            prefetch(self.first.as_ptr().wrapping_add(line * 64));
        }
    }

    /// A reference to the bytes, for a worker that reads its request in place.
    ///
    /// Only for bytes that the router has finished writing. The router and the other workers of the same application, which run the same
    /// code with the same rights, are trusted not to change them while the request runs.
    pub(crate) fn borrow(&self, offset: usize, length: usize) -> Option<&'a [u8]> {
        let place = self.place(offset, length)?;
        // SAFETY: in our range (checked), readable for 'a; stable by the agreement stated above.
        Some(unsafe { std::slice::from_raw_parts(place, length) })
    }

    fn place(&self, offset: usize, length: usize) -> Option<*mut u8> {
        let end = offset.checked_add(length)?;
        (end <= self.length).then(|| self.first.as_ptr().wrapping_add(offset))
    }
}
