//! Answers that their clients have not taken: how many bytes of them wait in memory and on disk, and how many may.
//!
//! Three bounds hold for memory. The producer of an answer bounds that one (`most`), [`CONNECTION_BYTES`] those on one client
//! connection together, [`PROCESS_BYTES`] all. Beyond each of them an answer keeps
//! [`LEAST_BYTES`], so that it can go on. The rest goes to the [`OverflowFile`], a file without a name; beyond its bounds
//! the server or the application is not read from until the client has taken some.
//!
//! The encoders of answers that are compressed on their way have a bound of their own, [`ENCODER_BYTES`]: beyond it answers are sent as they
//! are.
//!
//! Called by whoever takes bytes of an answer faster than the client does. Must never: lose a byte, or put
//! one behind those that came after it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tutti_spool::Spool;

/// Bytes that the answers on one client connection keep in memory: two of the usual `buffer_size`.
const CONNECTION_BYTES: usize = 1024 * 1024;

/// Bytes that all answers keep in memory: those of 256 slow clients with what one answer usually may have.
const PROCESS_BYTES: usize = 128 * 1024 * 1024;

/// Bytes that the encoders of compressed answers take together: enough for 128 of brotli or Zstandard at their usual levels.
const ENCODER_BYTES: usize = 256 * 1024 * 1024;

/// Bytes that an answer may keep in memory whatever the others have: the largest DATA frame that every client takes (RFC 9113 §4.2).
pub const LEAST_BYTES: usize = 16 * 1024;

/// All answers of the process that wait for their clients.
#[derive(Debug, Default)]
pub struct ResponseBuffers {
    memory: AtomicUsize,
    disk: AtomicU64,
    encoders: AtomicUsize,
}

/// The answers that wait on one client connection; of HTTP/2, those of all its streams.
#[derive(Debug)]
pub struct ConnectionBuffers {
    all: Arc<ResponseBuffers>,
    memory: Cell<usize>,
    disk: Cell<u64>,
}

/// Bytes of answers that wait for their clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferedBytes {
    /// In memory.
    pub memory: usize,
    /// In the file for them.
    pub disk: u64,
    /// In the encoders of answers that are compressed on their way.
    pub encoders: usize,
}

impl ResponseBuffers {
    /// How much waits now.
    pub fn held(&self) -> BufferedBytes {
        BufferedBytes {
            memory: self.memory.load(Ordering::Relaxed),
            disk: self.disk.load(Ordering::Relaxed),
            encoders: self.encoders.load(Ordering::Relaxed),
        }
    }
}

impl ConnectionBuffers {
    /// The share of a new connection.
    pub fn new(all: &Arc<ResponseBuffers>) -> Rc<Self> {
        Rc::new(Self {
            all: Arc::clone(all),
            memory: Cell::new(0),
            disk: Cell::new(0),
        })
    }

    /// An answer that had `before` bytes in memory has `now`.
    pub fn moved(&self, before: usize, now: usize) {
        if now >= before {
            self.memory.set(self.memory.get() + (now - before));
            self.all.memory.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.memory.set(self.memory.get() - (before - now));
            self.all.memory.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Bytes that an answer, which has `held`, may have in memory; alone it may have `most`.
    pub fn limit(&self, held: usize, most: usize) -> usize {
        let of_connection = CONNECTION_BYTES.saturating_sub(self.memory.get());
        let of_all = PROCESS_BYTES.saturating_sub(self.all.memory.load(Ordering::Relaxed));
        most.min(match of_connection.min(of_all) {
            0 => LEAST_BYTES,
            free => (held + free).max(LEAST_BYTES),
        })
    }

    /// True if so many bytes may go to the file: a connection has as many as the configuration says, all together half of what the
    /// file system has free.
    pub fn may_store(&self, bytes: u64, store: &OverflowFile) -> bool {
        let all = self.all.disk.load(Ordering::Relaxed);
        self.disk.get() + bytes <= store.most
            && store.spool.free().is_none_or(|free| all + bytes <= free)
    }

    /// So many bytes have gone there.
    pub fn stored(&self, bytes: u64) {
        self.disk.set(self.disk.get() + bytes);
        self.all.disk.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes there are not needed any more.
    pub fn dropped(&self, bytes: u64) {
        self.disk.set(self.disk.get() - bytes);
        self.all.disk.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The memory of an encoder that compresses an answer, counted as long as this lives.
#[derive(Debug)]
pub struct EncoderCharge {
    all: Arc<ResponseBuffers>,
    bytes: usize,
}

impl EncoderCharge {
    /// Counts an encoder of so many bytes; `None` if encoders have as much as they may. One alone may have more.
    pub fn take(all: &Arc<ResponseBuffers>, bytes: usize) -> Option<Self> {
        let before = all.encoders.fetch_add(bytes, Ordering::Relaxed);
        let charge = Self {
            all: Arc::clone(all),
            bytes,
        };
        (before == 0 || before.saturating_add(bytes) <= ENCODER_BYTES).then_some(charge)
    }
}

impl Drop for EncoderCharge {
    fn drop(&mut self) {
        self.all.encoders.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The file where answers wait for slow clients.
#[derive(Debug)]
pub struct OverflowFile {
    /// The file.
    pub spool: Spool,
    /// Most bytes of one client connection: `response_buffering`.
    pub most: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_have_less_the_more_others_have() {
        let all = Arc::<ResponseBuffers>::default();
        let (share, other) = (ConnectionBuffers::new(&all), ConnectionBuffers::new(&all));
        assert_eq!(share.limit(0, 512 * 1024), 512 * 1024);
        share.moved(0, CONNECTION_BYTES - 100_000);
        assert_eq!(share.limit(0, 512 * 1024), 100_000);
        assert_eq!(share.limit(50_000, 512 * 1024), 150_000);
        share.moved(0, 200_000);
        assert_eq!(share.limit(0, 512 * 1024), LEAST_BYTES);
        assert_eq!(share.limit(200_000, 512 * 1024), LEAST_BYTES);
        // No buffering at all is less.
        assert_eq!(share.limit(0, 0), 0);
        assert_eq!(other.limit(0, 512 * 1024), 512 * 1024);
        other.moved(0, PROCESS_BYTES);
        let third = ConnectionBuffers::new(&all);
        assert_eq!(third.limit(0, 512 * 1024), LEAST_BYTES);
        other.moved(PROCESS_BYTES, 0);
        assert_eq!(third.limit(0, 512 * 1024), 512 * 1024);
    }

    #[test]
    fn encoders_have_a_bound_and_one_alone_has_none() {
        let all = Arc::<ResponseBuffers>::default();
        let large = EncoderCharge::take(&all, 3 * ENCODER_BYTES).unwrap();
        assert!(EncoderCharge::take(&all, 1).is_none());
        assert_eq!(all.held().encoders, 3 * ENCODER_BYTES);
        drop(large);
        let half = || EncoderCharge::take(&all, ENCODER_BYTES / 2);
        let both = (half(), half());
        assert!(both.0.is_some() && both.1.is_some() && half().is_none());
        drop(both);
        assert_eq!(all.held(), BufferedBytes::default());
    }
}
