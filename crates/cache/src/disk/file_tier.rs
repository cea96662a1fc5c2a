//! A store's part on disk, with its open file: the interface of the writing thread and of the readers.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::format::Geometry;
use super::index::{Dead, Index};
use super::reading;
use super::shared::{Inner, Order, Report};
use super::thread::Thread;
use super::tier::{Loaded, Tier, TierCounts, TierStatus, Waiting};
use crate::key::Key;
use crate::purge::Purge;
use crate::store::DiskLimits;
use crate::stored::Stored;

/// The fraction of a store's memory that the index of its file may use in addition.
const INDEX_PART: usize = 4;

/// Bytes of responses waiting to be written: if the disk is slower than the origin, some are not written.
const MOST_PENDING: usize = 32 << 20;

/// Longest time to write responses in memory to disk when the server ends or a successor takes over; the rest is lost.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The responses of a store on disk. Dropping it releases the file.
pub(crate) struct Disk {
    inner: Arc<Inner>,
    orders: Sender<Order>,
}

impl Disk {
    /// Opens the part on disk in this file, which may be empty or written by an earlier server, for a store with so much memory.
    pub(crate) fn start(
        name: &str,
        file: File,
        limits: &DiskLimits,
        memory: usize,
        report: Report,
    ) -> io::Result<Self> {
        let geometry = Geometry::new(limits.size, limits.object as u64);
        let inner = Arc::new(Inner {
            name: name.into(),
            file,
            geometry,
            object: limits.object,
            most_index: memory / INDEX_PART,
            index: Mutex::new(Index::new(geometry.segments as usize)),
            counts: TierCounts::default(),
            report,
            is_troubled: AtomicBool::new(false),
            last_write: Mutex::default(),
        });
        let (orders, taken) = channel();
        let thread = Thread::new(Arc::clone(&inner), taken);
        std::thread::Builder::new()
            .name("cache".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self { inner, orders })
    }

    fn order(&self, order: Order) {
        // If the thread has ended, the part on disk is not used any more.
        let _ = self.orders.send(order);
    }

    fn bury(&self, dead: Vec<Dead>) {
        if !dead.is_empty() {
            self.order(Order::Bury(dead));
        }
    }
}

impl Tier for Disk {
    fn largest(&self) -> usize {
        self.inner.object
    }

    fn has(&self, text: &[u8]) -> bool {
        self.inner.index().has(text)
    }

    fn has_alike(&self, stored: &Stored) -> bool {
        self.inner.index().has_alike(stored)
    }

    fn keep(&self, stored: &Arc<Stored>, waiting: Waiting) {
        let mut index = self.inner.index();
        if index.is_closed() {
            return;
        }
        let dead = index.remove_alike(stored);
        let is_refused = stored.body.len() > self.inner.object
            || (waiting == Waiting::Bounded && index.pending_bytes() > MOST_PENDING);
        match is_refused {
            true => Inner::count(&self.inner.counts.failed, 1),
            false => {
                debug_assert!(!index.is_waiting(stored), "written twice");
                index.wait(stored);
                self.order(Order::Write(Arc::clone(stored)));
            }
        }
        // While the index is locked, so that orders are in the order of the changes.
        self.bury(dead);
    }

    fn purge(&self, purge: &Purge) -> usize {
        let mut index = self.inner.index();
        let (count, dead) = index.purge(purge);
        match purge {
            Purge::All => self.order(Order::Clear),
            _ => self.bury(dead),
        }
        count
    }

    fn settled(&self) -> oneshot::Receiver<()> {
        let (done, settled) = oneshot::channel();
        self.order(Order::Settle(done));
        settled
    }

    fn read(
        &self,
        key: &Key,
        values: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
        take_room: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Loaded> {
        if self.inner.is_removed() {
            return None;
        }
        let candidates = self.inner.index().candidates(&key.text);
        for candidate in candidates {
            match reading::read(&self.inner.file, &candidate, key, values, take_room) {
                Ok(Some(loaded)) => {
                    Inner::count(&self.inner.counts.read, 1);
                    return Some(loaded);
                }
                Ok(None) => {}
                Err(reading::NoRoom) => return None,
            }
            if let Some(place) = candidate.is_damaged.get() {
                let mut index = self.inner.index();
                if let Some(dead) = index.remove(&key.text, place) {
                    Inner::count(&self.inner.counts.damaged, 1);
                    self.bury(vec![dead]);
                }
            }
        }
        None
    }

    fn share(&self, place: u64, stored: &Arc<Stored>) {
        self.inner.index().share(place, stored);
    }

    fn close(&self) -> oneshot::Receiver<()> {
        let until = Instant::now() + LAST_WRITES;
        *self
            .inner
            .last_write
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(until);
        let (done, closed) = oneshot::channel();
        self.order(Order::Close(done));
        closed
    }

    fn discard(&self) -> oneshot::Receiver<()> {
        // Under one lock: a response that is kept afterwards is not written, since the file is closed by then.
        let mut index = self.inner.index();
        index.purge(&Purge::All);
        self.order(Order::Clear);
        let (done, discarded) = oneshot::channel();
        self.order(Order::Close(done));
        discarded
    }

    fn status(&self) -> TierStatus {
        let (is_open, size, entries) = self.inner.index().totals();
        let counts = &self.inner.counts;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        TierStatus {
            is_open,
            size,
            entries: entries as u64,
            responses: [
                ("read", read(&counts.read)),
                ("written", read(&counts.written)),
                ("evicted", read(&counts.evicted)),
                ("failed", read(&counts.failed)),
                ("damaged", read(&counts.damaged)),
            ],
        }
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}
