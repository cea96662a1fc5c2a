//! Read and write buffers of one listen thread: taken when a connection has bytes, returned when it has none.
//!
//! An idle connection owns no buffer, which is what keeps ten thousand of them small. Buffers are reused last-in first-out, so the
//! ones in use stay warm in the cache, and at most [`KEPT`] are kept. A buffer that has grown is dropped instead of kept.

use std::cell::RefCell;

/// Bytes of a new buffer: room for several usual request heads, and one read takes a batch of pipelined requests.
pub const BUFFER_BYTES: usize = 16 * 1024;

/// Buffers kept per thread: 64 × 16 KiB = 1 MiB at most.
const KEPT: usize = 64;

/// Bytes of the buffer that files are copied through: fewer calls than a smaller one needs, and it stays in the processor's cache.
pub const COPY_BUFFER_BYTES: usize = 256 * 1024;

/// The buffers of a thread.
#[derive(Debug, Default)]
pub struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
    /// Empty until its first use.
    copy: RefCell<Vec<u8>>,
}

impl Buffers {
    /// An empty buffer of at least [`BUFFER_BYTES`] capacity.
    pub fn take(&self) -> Vec<u8> {
        self.free
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Lends the one buffer of [`COPY_BUFFER_BYTES`] for as long as `f` runs.
    pub fn with_copy_buffer<T>(&self, f: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut copy = self.copy.borrow_mut();
        copy.resize(COPY_BUFFER_BYTES, 0);
        f(&mut copy)
    }

    /// Returns a buffer.
    pub fn give(&self, mut buffer: Vec<u8>) {
        if !(BUFFER_BYTES..=2 * BUFFER_BYTES).contains(&buffer.capacity()) {
            return;
        }
        let mut free = self.free.borrow_mut();
        if free.len() < KEPT {
            buffer.clear();
            free.push(buffer);
        }
    }
}
