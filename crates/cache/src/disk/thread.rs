//! The only thread that writes the file.

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::format::{
    FileHead, HEAD_BYTES, MOST_METADATA, RECORD_HEAD_BYTES, RecordHead, SEGMENT_HEAD_BYTES,
    STATE_BYTES, Seal, SegmentHead,
};
use super::index::Dead;
use super::metadata;
use super::shared::{Inner, Order};
use crate::clock::ClockReading;
use crate::stored::Stored;

/// Pause between attempts to open a file that another router has open.
const LOCKED_PAUSE: Duration = Duration::from_millis(20);

/// Bytes of a record that are read first, before its length is known: most metadata are shorter.
const FIRST_READ: usize = 4096;

pub(crate) struct Thread {
    inner: Arc<Inner>,
    orders: Receiver<Order>,
    /// Orders that arrived before the file was open.
    early: VecDeque<Order>,
    secret: [u8; 32],
    /// Sequence numbers and seals of the segments.
    segments: Vec<Option<(u64, Seal)>>,
    /// The segment that is being filled, and the place of its next record.
    current: Option<(u32, u64)>,
    /// The highest sequence number so far.
    sequence: u64,
}

/// Notified when the file has been released.
type Closed = Option<oneshot::Sender<()>>;

impl Thread {
    pub(crate) fn new(inner: Arc<Inner>, orders: Receiver<Order>) -> Self {
        let segments = (0..inner.geometry.segments).map(|_| None).collect();
        Self {
            inner,
            orders,
            early: VecDeque::new(),
            secret: [0; 32],
            segments,
            current: None,
            sequence: 0,
        }
    }

    pub(crate) fn run(mut self) {
        let closed = match self.lock() {
            Ok(()) => self.serve(),
            Err(closed) => closed,
        };
        self.inner.index().close();
        // Another process may lock the file now; a concurrent reader finds a valid record or none.
        let _ = self.inner.file.unlock();
        if let Some(closed) = closed {
            let _ = closed.send(());
        }
    }

    /// Waits for the lock on the file; the error: the file is not needed any more. A file from which responses were purged in the
    /// meantime is needed until they are removed: otherwise they would come back with its next owner.
    fn lock(&mut self) -> Result<(), Closed> {
        loop {
            match self.inner.file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    self.inner.trouble("lock its file", &error);
                    return Err(None);
                }
            }
            match self.orders.recv_timeout(LOCKED_PAUSE) {
                Ok(Order::Close(closed)) if !self.inner.index().has_early_purges() => {
                    return Err(Some(closed));
                }
                Ok(order) => self.early.push_back(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if self.inner.index().has_early_purges() => {
                    let locked = self.inner.file.lock();
                    return locked.map_err(|error| {
                        self.inner.trouble("lock its file", &error);
                        None
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(None),
            }
        }
    }

    /// Reads the file, then carries out orders until the end.
    fn serve(&mut self) -> Closed {
        if let Err(error) = self.open() {
            self.inner.trouble("use its file", &error);
            return None;
        }
        let dead = self.inner.index().open();
        self.bury(&dead);
        loop {
            let order = match self.early.pop_front() {
                Some(order) => Ok(order),
                None => self.orders.recv(),
            };
            match order {
                Ok(Order::Write(stored)) => self.write(&stored),
                Ok(Order::Bury(dead)) => self.bury(&dead),
                Ok(Order::Clear) => self.clear(),
                Ok(Order::Settle(done)) => {
                    let synced = self.inner.file.sync_data();
                    self.unless_unsure(synced);
                    let _ = done.send(());
                }
                Ok(Order::Close(closed)) => return Some(closed),
                Err(_) => return None,
            }
        }
    }

    /// Reads the file, or begins it anew.
    fn open(&mut self) -> io::Result<()> {
        let mut head = [0; HEAD_BYTES as usize];
        let length = read_some(&self.inner.file, &mut head, 0)?;
        let known = FileHead::decode(head.get(..length).unwrap_or_default());
        match known.filter(|head| head.geometry == self.inner.geometry) {
            Some(head) => {
                self.secret = head.secret;
                self.scan()
            }
            None => {
                self.secret = draw()?;
                let head = FileHead {
                    geometry: self.inner.geometry,
                    secret: self.secret,
                };
                self.inner.file.set_len(0)?;
                self.inner.file.write_all_at(&head.encode(), 0)
            }
        }
    }

    /// Reads the segments, the oldest first.
    fn scan(&mut self) -> io::Result<()> {
        let mut known = Vec::new();
        for number in 0..self.inner.geometry.segments {
            let mut bytes = [0; SEGMENT_HEAD_BYTES as usize];
            let start = self.inner.geometry.start(number);
            let length = read_some(&self.inner.file, &mut bytes, start)?;
            let bytes = bytes.get(..length).unwrap_or_default();
            if let Some(head) = SegmentHead::decode(bytes, &self.secret, number) {
                known.push((head, number));
            }
        }
        known.sort_by_key(|(head, _)| head.sequence);
        for (head, number) in known {
            self.sequence = head.sequence;
            self.note(number, &head);
            let end = self.scan_segment(number, &head)?;
            self.current = Some((number, end));
        }
        Ok(())
    }

    /// Returns where the records of a segment end.
    fn scan_segment(&self, number: u32, segment: &SegmentHead) -> io::Result<u64> {
        let seal = segment.seal(&self.secret, number);
        let end = self.inner.geometry.start(number + 1);
        let mut place = self.inner.geometry.start(number) + SEGMENT_HEAD_BYTES;
        loop {
            let mut bytes = vec![0; FIRST_READ];
            let length = read_some(&self.inner.file, &mut bytes, place)?;
            bytes.truncate(length);
            let Some(head) = RecordHead::decode(&bytes) else {
                return Ok(place);
            };
            if head.length() > end - place {
                return Ok(place);
            }
            bytes.resize(RECORD_HEAD_BYTES + head.metadata as usize, 0);
            let whole = read_some(&self.inner.file, &mut bytes, place)?;
            let metadata = bytes.get(RECORD_HEAD_BYTES..whole).unwrap_or_default();
            if !head.seals(&seal, place, metadata) {
                return Ok(place);
            }
            if head.is_live
                && let Some(stored) = metadata::read(metadata, Bytes::new(), ClockReading::now())
            {
                let dead = self.dead(number, segment.sequence, place);
                let replaced = self.inner.index().insert(&stored, &head, dead);
                self.bury(&replaced);
            }
            place += head.length();
        }
    }

    fn dead(&self, segment: u32, sequence: u64, place: u64) -> Dead {
        Dead {
            segment,
            sequence,
            place,
        }
    }

    /// Notes that a segment has been begun. Returns the number of responses that were in it.
    fn note(&mut self, number: u32, head: &SegmentHead) -> usize {
        let seal = head.seal(&self.secret, number);
        if let Some(segment) = self.segments.get_mut(number as usize) {
            *segment = Some((head.sequence, seal.clone()));
        }
        let known = Some((seal, head.sequence));
        self.inner.index().begin(number, known)
    }

    /// Writes a response that waits for it.
    fn write(&mut self, stored: &Arc<Stored>) {
        if !self.inner.index().is_waiting(stored) {
            return;
        }
        let last = self.inner.last_write.lock();
        let last = *last.unwrap_or_else(PoisonError::into_inner);
        let is_late = last.is_some_and(|last| Instant::now() > last);
        if is_late || self.inner.is_removed() {
            self.inner.index().leave(stored);
            return;
        }
        match self.write_record(stored) {
            Ok(Some((head, dead))) => {
                let mut index = self.inner.index();
                let replaced = match index.leave(stored) {
                    true => index.insert(stored, &head, dead),
                    // The response was purged meanwhile.
                    false => vec![dead],
                };
                let is_heavy = index.weight() > self.inner.most_index;
                drop(index);
                self.bury(&replaced);
                Inner::count(&self.inner.counts.written, 1);
                self.inner
                    .is_troubled
                    .store(false, std::sync::atomic::Ordering::Relaxed);
                if is_heavy {
                    // The oldest segment is reused, and its responses are evicted.
                    let begun = self.begin_next();
                    self.unless_full(begun);
                }
            }
            Ok(None) => {
                self.inner.index().leave(stored);
                Inner::count(&self.inner.counts.failed, 1);
            }
            Err(error) => {
                self.inner.index().leave(stored);
                Inner::count(&self.inner.counts.failed, 1);
                self.inner.trouble("write to its file", &error);
            }
        }
    }

    fn unless_full(&self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            self.inner.trouble("write to its file", &error);
        }
    }

    /// Writes a record; `None`: its metadata are too long.
    fn write_record(&mut self, stored: &Stored) -> io::Result<Option<(RecordHead, Dead)>> {
        let Some(metadata) =
            metadata::write(stored, ClockReading::now()).filter(|one| one.len() <= MOST_METADATA)
        else {
            return Ok(None);
        };
        let length = (RECORD_HEAD_BYTES + metadata.len() + stored.body.len()) as u64;
        let geometry = self.inner.geometry;
        let fits = |(number, place): (u32, u64)| {
            place + length <= geometry.start(number.saturating_add(1))
        };
        if !self.current.is_some_and(fits) {
            self.begin_next()?;
        }
        let Some((number, place)) = self.current else {
            return Ok(None);
        };
        assert!(
            fits((number, place)),
            "a record of {length} bytes would reach into the next segment"
        );
        let Some(Some((sequence, seal))) = self.segments.get(number as usize) else {
            return Ok(None);
        };
        let Some(bytes) = RecordHead::encode(seal, place, &metadata, &stored.body) else {
            return Ok(None);
        };
        let Some(head) = RecordHead::decode(&bytes) else {
            return Ok(None);
        };
        let dead = self.dead(number, *sequence, place);
        // The head is written last: without it, the record does not exist.
        let file = &self.inner.file;
        file.write_all_at(&stored.body, place + bytes.len() as u64)?;
        file.write_all_at(&bytes, place)?;
        self.current = Some((number, place + length));
        Ok(Some((head, dead)))
    }

    /// Begins the next segment, which is the oldest.
    fn begin_next(&mut self) -> io::Result<()> {
        let number = match self.current {
            Some((number, _)) => (number + 1) % self.inner.geometry.segments.max(1),
            None => 0,
        };
        let head = SegmentHead {
            sequence: self.sequence + 1,
            drawn: draw()?,
        };
        let start = self.inner.geometry.start(number);
        let bytes = head.encode(&self.secret, number);
        // The responses there are lost even if the write succeeded.
        let evicted = self.inner.index().begin(number, None);
        Inner::count(&self.inner.counts.evicted, evicted);
        self.inner.file.write_all_at(&bytes, start)?;
        self.sequence = head.sequence;
        self.note(number, &head);
        self.current = Some((number, start + SEGMENT_HEAD_BYTES));
        Ok(())
    }

    /// Marks records as deleted, so that the next process that reads the file skips them.
    fn bury(&self, dead: &[Dead]) {
        for one in dead {
            let segment = self.segments.get(one.segment as usize);
            let is_there =
                matches!(segment, Some(Some((sequence, _))) if *sequence == one.sequence);
            if is_there {
                let written = self.inner.file.write_all_at(&[0; STATE_BYTES], one.place);
                self.unless_unsure(written);
            }
        }
    }

    /// Deletes all records.
    fn clear(&mut self) {
        self.current = None;
        for number in 0..self.inner.geometry.segments {
            let Some(segment) = self.segments.get_mut(number as usize) else {
                continue;
            };
            if segment.take().is_none() {
                continue;
            }
            self.inner.index().begin(number, None);
            let start = self.inner.geometry.start(number);
            let nothing = [0; SEGMENT_HEAD_BYTES as usize];
            let written = self.inner.file.write_all_at(&nothing, start);
            self.unless_unsure(written);
        }
    }

    /// If deleting failed, old records may still be valid: then the whole file is discarded.
    fn unless_unsure(&self, outcome: io::Result<()>) {
        let Err(error) = outcome else {
            return;
        };
        self.inner.trouble("remove responses from its file", &error);
        self.inner.index().close();
        // If this fails, too, the disk accepts no writes.
        let _ = self.inner.file.set_len(0);
    }
}

/// Reads as many bytes as there are; returns their number.
fn read_some(file: &File, bytes: &mut [u8], place: u64) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, place + length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Draws random bytes.
fn draw<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
