//! Answers that their clients have not taken: how many bytes of them wait in memory and on disk, and how many may.
//!
//! Three bounds hold for memory: what one answer may have is its producer's business (`most`), what the answers on one client
//! connection may have together is [`CONNECTION_BYTES`], what all may have is [`PROCESS_BYTES`]. Beyond each of them an answer keeps
//! [`LEAST_BYTES`], so that it can go on. What does not fit goes to the [`Store`], a file without a name; what does not fit there
//! stays where it comes from: the server or the application is not read from until the client has taken some.
//!
//! Called by whoever takes bytes of an answer faster than the client does ([`Connection::room`]). Must never: lose a byte, or put
//! one behind those that came after it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tutti_pool::{Level, Spool};

use crate::connection::Connection;
use crate::output::Output;

/// Bytes that the answers on one client connection keep in memory: two of the usual `buffer_size`.
const CONNECTION_BYTES: usize = 1024 * 1024;

/// Bytes that all answers keep in memory: those of 256 slow clients with what one answer usually may have.
const PROCESS_BYTES: usize = 128 * 1024 * 1024;

/// Bytes that an answer may keep in memory whatever the others have: the largest DATA frame that every client takes (RFC 9113 §4.2).
const LEAST_BYTES: usize = 16 * 1024;

/// All answers of the process that wait for their clients.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    memory: AtomicUsize,
    disk: AtomicU64,
}

/// The answers that wait on one client connection; of HTTP/2, those of all its streams.
#[derive(Debug)]
pub(crate) struct Share {
    all: Arc<Holdings>,
    memory: Cell<usize>,
    disk: Cell<u64>,
}

/// Bytes of answers that wait for their clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// In memory.
    pub memory: usize,
    /// In the file for them.
    pub disk: u64,
}

impl Holdings {
    pub(crate) fn held(&self) -> Held {
        Held {
            memory: self.memory.load(Ordering::Relaxed),
            disk: self.disk.load(Ordering::Relaxed),
        }
    }
}

impl Share {
    pub(crate) fn new(all: &Arc<Holdings>) -> Rc<Self> {
        Rc::new(Self {
            all: Arc::clone(all),
            memory: Cell::new(0),
            disk: Cell::new(0),
        })
    }

    /// An answer that had `before` bytes in memory has `now`.
    pub(crate) fn moved(&self, before: usize, now: usize) {
        if now >= before {
            self.memory.set(self.memory.get() + (now - before));
            self.all.memory.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.memory.set(self.memory.get() - (before - now));
            self.all.memory.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Bytes that an answer, which has `held`, may have in memory; alone it may have `most`.
    pub(crate) fn limit(&self, held: usize, most: usize) -> usize {
        let of_connection = CONNECTION_BYTES.saturating_sub(self.memory.get());
        let of_all = PROCESS_BYTES.saturating_sub(self.all.memory.load(Ordering::Relaxed));
        most.min(match of_connection.min(of_all) {
            0 => LEAST_BYTES,
            free => (held + free).max(LEAST_BYTES),
        })
    }

    /// Whether so many bytes may go to the file: a connection has as many as the configuration says, all together half of what the
    /// file system has free.
    pub(crate) fn may_store(&self, bytes: u64, store: &Store) -> bool {
        let all = self.all.disk.load(Ordering::Relaxed);
        self.disk.get() + bytes <= store.most
            && store.spool.free().is_none_or(|free| all + bytes <= free)
    }

    /// So many bytes have gone there.
    pub(crate) fn stored(&self, bytes: u64) {
        self.disk.set(self.disk.get() + bytes);
        self.all.disk.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes there are not needed any more.
    pub(crate) fn dropped(&self, bytes: u64) {
        self.disk.set(self.disk.get() - bytes);
        self.all.disk.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The file where answers wait for slow clients.
pub(crate) struct Store {
    pub(crate) spool: Spool,
    /// Bytes of one client connection: `response_buffering`.
    pub(crate) most: u64,
}

/// Whether more of an answer can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Yes.
    Some,
    /// Yes; making it has taken time that other connections may have needed.
    Made,
    /// Not before the client has taken some.
    None,
}

impl Connection {
    /// The answers on the client's connection.
    pub(crate) fn share(&self) -> &Rc<Share> {
        self.share
            .get_or_init(|| Share::new(&self.local.shared.holdings))
    }

    /// Notes how much of `output` waits in memory.
    pub(crate) fn note_held(&self, output: &Output) {
        let now = output.in_memory();
        let before = self.held.replace(now);
        if now != before {
            self.share().moved(before, now);
        }
    }

    /// Notes how much of `output` waits in memory; how much of `most` it may have there.
    pub(crate) fn allowance(&self, output: &Output, most: usize) -> usize {
        self.note_held(output);
        self.share().limit(self.held.get(), most)
    }

    /// Whether more of an answer can be taken whose beginning waits in `output`. Alone it may have `most` bytes in memory; what goes
    /// beyond what it may have goes to `store`.
    pub(crate) fn room(&self, output: &mut Output, most: usize, store: Option<&Store>) -> Room {
        let held = output.in_memory();
        if held <= LEAST_BYTES.min(most) && self.held.get() == 0 {
            return Room::Some;
        }
        if held <= self.allowance(output, most) {
            return Room::Some;
        }
        let Some(store) = store else {
            return Room::None;
        };
        match output.spill(store, self.share()) {
            Ok(true) => {
                self.note_held(output);
                Room::Made
            }
            Ok(false) => Room::None,
            Err(error) => {
                self.note_held(output);
                let folder = store.spool.folder().display();
                self.local.complain(
                    Level::Warn,
                    &format!(
                        "an answer cannot wait in `{folder}` for a slow client, so its sender waits: {error}"
                    ),
                );
                Room::None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags};
    use tutti_pool::SpoolFile;

    use super::*;

    fn store(most: u64) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path(), most).unwrap();
        (folder, Store { spool, most })
    }

    fn taken(output: &mut Output) -> Vec<u8> {
        let mut bytes = Vec::new();
        while !output.is_empty() {
            let front = output.front().unwrap().to_vec();
            let piece = front.len().min(1000);
            bytes.extend_from_slice(&front[..piece]);
            output.advance(piece);
        }
        bytes
    }

    #[test]
    fn bytes_come_back_in_order_whatever_went_to_the_file() {
        let (_folder, store) = store(1 << 20);
        let all = Arc::<Holdings>::default();
        let share = Share::new(&all);
        let mut output = Output::default();
        let sent: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        for (number, piece) in sent.chunks(30_000).enumerate() {
            output.bytes.extend_from_slice(piece);
            if number % 3 != 2 {
                assert!(output.spill(&store, &share).unwrap());
                assert_eq!(output.bytes.len(), 0);
            }
        }
        assert_eq!(output.len(), sent.len() as u64);
        assert!(all.held().disk > 0);
        assert!(taken(&mut output) == sent);
        assert_eq!(all.held(), Held::default());
        // It starts anew.
        output.bytes.extend_from_slice(b"more");
        assert!(output.spill(&store, &share).unwrap());
        assert_eq!(taken(&mut output), b"more");
        assert_eq!(store.spool.in_use(), 0);
    }

    #[test]
    fn a_connection_has_its_part_of_the_file_and_the_rest_stays_in_memory() {
        let (_folder, store) = store(1000);
        let share = Share::new(&Arc::default());
        let (mut first, mut second) = (Output::default(), Output::default());
        first.bytes.extend_from_slice(&[1; 600]);
        second.bytes.extend_from_slice(&[2; 600]);
        assert!(first.spill(&store, &share).unwrap());
        assert!(!second.spill(&store, &share).unwrap());
        assert_eq!(second.len(), 600);
        drop(first);
        assert!(second.spill(&store, &share).unwrap());
        assert_eq!(taken(&mut second), [2; 600]);
    }

    #[test]
    fn a_full_file_system_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let full = || rustix::fs::open("/dev/full", OFlags::RDWR, Mode::empty()).unwrap();
        let (file, reader) = (full(), full());
        let spool = Spool::of(SpoolFile { file, reader }, folder.path(), 1000);
        let store = Store { spool, most: 1000 };
        let share = Share::new(&Arc::default());
        let mut output = Output::default();
        output.bytes.extend_from_slice(b"all of it");
        assert!(output.spill(&store, &share).is_err());
        assert_eq!(taken(&mut output), b"all of it");
        assert_eq!(share.all.held(), Held::default());
    }

    #[test]
    fn an_answer_may_have_less_the_more_others_have() {
        let all = Arc::<Holdings>::default();
        let (share, other) = (Share::new(&all), Share::new(&all));
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
        let third = Share::new(&all);
        assert_eq!(third.limit(0, 512 * 1024), LEAST_BYTES);
        other.moved(PROCESS_BYTES, 0);
        assert_eq!(third.limit(0, 512 * 1024), 512 * 1024);
    }
}
