//! Accounts for responses that their clients have not taken: how many bytes wait in memory and on disk, and how many may.
//!
//! Three limits apply to memory: the caller's limit for one response (`most`), [`CONNECTION_BYTES`] for all responses on one client
//! connection, and [`PROCESS_BYTES`] for all. A response may always keep [`LEAST_BYTES`], so that it makes progress. The rest goes to the
//! [`OverflowFile`], an unnamed file; beyond its limits the upstream or the application is not read from until the client has taken some.
//!
//! The encoders of responses that are compressed while they are sent have their own limit, [`ENCODER_BYTES`]: beyond it responses are sent
//! uncompressed.
//!
//! Used by code that receives bytes of a response faster than the client takes them. Must never: lose a byte, or reorder bytes.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tutti_spool::Spool;

/// Bytes in memory for the responses on one client connection: two of the usual `buffer_size`.
const CONNECTION_BYTES: usize = 1024 * 1024;

/// Bytes in memory for all responses: those of 256 slow clients with the usual limit of one response.
const PROCESS_BYTES: usize = 128 * 1024 * 1024;

/// Memory of all encoders together: enough for 128 of brotli or Zstandard at their usual levels.
const ENCODER_BYTES: usize = 256 * 1024 * 1024;

/// Bytes that a response may always keep in memory: the largest DATA frame that every client accepts (RFC 9113 §4.2).
pub const LEAST_BYTES: usize = 16 * 1024;

/// All responses of the process that wait for their clients.
#[derive(Debug, Default)]
pub struct ResponseBuffers {
    memory: AtomicUsize,
    disk: AtomicU64,
    encoders: AtomicUsize,
}

/// The responses that wait on one client connection, including all its HTTP/2 streams.
#[derive(Debug)]
pub struct ConnectionBuffers {
    all: Arc<ResponseBuffers>,
    memory: Cell<usize>,
    disk: Cell<u64>,
}

/// Bytes of responses that wait for their clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferedBytes {
    /// In memory.
    pub memory: usize,
    /// In the file.
    pub disk: u64,
    /// In the encoders of responses that are compressed while they are sent.
    pub encoders: usize,
}

impl ResponseBuffers {
    /// The amount that waits now.
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

    /// Updates the memory of a response from `before` to `now`.
    pub fn moved(&self, before: usize, now: usize) {
        if now >= before {
            self.memory.set(self.memory.get() + (now - before));
            self.all.memory.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.memory.set(self.memory.get() - (before - now));
            self.all.memory.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Bytes that a response, which has `held`, may have in memory; `most` is its own limit.
    pub fn limit(&self, held: usize, most: usize) -> usize {
        let of_connection = CONNECTION_BYTES.saturating_sub(self.memory.get());
        let of_all = PROCESS_BYTES.saturating_sub(self.all.memory.load(Ordering::Relaxed));
        most.min(match of_connection.min(of_all) {
            0 => LEAST_BYTES,
            free => (held + free).max(LEAST_BYTES),
        })
    }

    /// True if this many bytes may be written to the file: the limit of a connection is configured, that of all is half of the free space.
    pub fn may_store(&self, bytes: u64, store: &OverflowFile) -> bool {
        let all = self.all.disk.load(Ordering::Relaxed);
        self.disk.get() + bytes <= store.most
            && store.spool.free().is_none_or(|free| all + bytes <= free)
    }

    /// Counts bytes written there.
    pub fn stored(&self, bytes: u64) {
        self.disk.set(self.disk.get() + bytes);
        self.all.disk.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes there that are not needed any more.
    pub fn dropped(&self, bytes: u64) {
        self.disk.set(self.disk.get() - bytes);
        self.all.disk.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The memory of an encoder that compresses a response, counted until this is dropped.
#[derive(Debug)]
pub struct EncoderCharge {
    all: Arc<ResponseBuffers>,
    bytes: usize,
}

impl EncoderCharge {
    /// Counts an encoder of this many bytes; `None` if the limit is reached. A single one may exceed it.
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

/// The file where responses wait for slow clients.
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
        // Without buffering, the limit is lower.
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
