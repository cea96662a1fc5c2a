//! Read and write buffers of one listen thread: taken when a connection has bytes, returned when it has none.
//!
//! An idle connection owns no buffer, which is what keeps ten thousand of them small. Buffers are reused last-in first-out, so the
//! ones in use stay warm in the cache, and at most [`KEPT`] are kept. Of those that have grown, only [`KEPT_LARGE`] are kept, for the output
//! of many streams: it would grow anew each time, and copy what it has.

use std::cell::RefCell;

/// Bytes of a new buffer: room for several usual request heads, and one read takes a batch of pipelined requests.
pub const BUFFER_BYTES: usize = 16 * 1024;

/// Buffers kept per thread: 64 × 16 KiB = 1 MiB at most.
const KEPT: usize = 64;

/// Bytes of a buffer that has not grown, or only a little.
const USUAL_BYTES: usize = 2 * BUFFER_BYTES;

/// Bytes of a large buffer: the output of an HTTP/2 connection is full with half of it, and a vector grows by doubling.
const LARGE_BYTES: usize = 256 * 1024;

/// Large buffers kept per thread.
const KEPT_LARGE: usize = 2;

/// Bytes of the buffer that files are copied through: fewer calls than a smaller one needs, and it stays in the processor's cache.
pub const COPY_BUFFER_BYTES: usize = 256 * 1024;

/// The buffers of a thread.
#[derive(Debug, Default)]
pub struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
    large: RefCell<Vec<Vec<u8>>>,
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

    /// The same for output of many streams, which is larger if one has been kept.
    pub fn take_large(&self) -> Vec<u8> {
        let kept = self.large.borrow_mut().pop();
        kept.unwrap_or_else(|| self.take())
    }

    /// Lends the one buffer of [`COPY_BUFFER_BYTES`] for as long as `f` runs.
    pub fn with_copy_buffer<T>(&self, f: impl FnOnce(&mut [u8]) -> T) -> T {
        let mut copy = self.copy.borrow_mut();
        copy.resize(COPY_BUFFER_BYTES, 0);
        f(&mut copy)
    }

    /// Returns a buffer.
    pub fn give(&self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if !(BUFFER_BYTES..=LARGE_BYTES).contains(&capacity) {
            return;
        }
        let (kept, most) = match capacity <= USUAL_BYTES {
            true => (&self.free, KEPT),
            false => (&self.large, KEPT_LARGE),
        };
        let mut kept = kept.borrow_mut();
        if kept.len() < most {
            buffer.clear();
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_buffers_that_have_grown_are_kept_and_only_for_large_output() {
        let buffers = Buffers::default();
        for capacity in [
            BUFFER_BYTES - 1,
            LARGE_BYTES + 1,
            40_000,
            LARGE_BYTES,
            50_000,
        ] {
            let mut buffer = Vec::with_capacity(capacity);
            buffer.push(1);
            buffers.give(buffer);
        }
        assert_eq!(buffers.take().capacity(), BUFFER_BYTES);
        let kept = [buffers.take_large(), buffers.take_large()];
        assert_eq!(kept.each_ref().map(Vec::capacity), [LARGE_BYTES, 40_000]);
        assert!(kept.iter().all(Vec::is_empty));
        assert_eq!(buffers.take_large().capacity(), BUFFER_BYTES);
    }
}
