//! Bytes that wait to be sent, and why sending may fail.

use std::rc::Rc;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tutti_http::{FieldLines, OutgoingHead};
use tutti_spool::{Region, SpoolError};

use crate::pace::Pace;
use crate::response_buffers::{ConnectionBuffers, OverflowFile};

/// Why a connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The client closed it, or it failed.
    Closed,
    /// The client did not send anything for too long, or took too little.
    TimedOut,
}

/// Sent bytes are kept in front of the unsent ones up to this many.
const SENT_BYTES: usize = 64 * 1024;

/// Bytes read back from the file at once: what fits one DATA frame (RFC 9113 §4.2).
const FRONT_BYTES: usize = 16 * 1024;

/// Bytes that wait to be sent.
///
/// Writers append to `bytes`, and on a stream of HTTP/2 or 3 add heads with [`Output::push_head`]. Bytes that a slow client does not take can
/// be moved to a file ([`Output::spill`]), and are sent before those written later.
#[derive(Debug, Default)]
pub struct Output {
    /// Heads, which are sent first and never written to a file.
    heads: SmallVec<[OutgoingHead; 1]>,
    /// The memory of the last head that was sent.
    spent: FieldLines,
    /// Bytes to which writers append; some at the front may have been sent.
    pub bytes: Vec<u8>,
    /// Bytes at the front of `bytes` that have been sent.
    sent: usize,
    /// The part in a file, which is sent before `bytes`.
    spilled: Option<Box<Spilled>>,
    /// Limits how fast it may be sent; `None`: not at all.
    pace: Option<Box<Pace>>,
}

impl Output {
    /// Makes an output that begins with `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// The unsent bytes, for an output that never uses a file.
    pub fn pending(&self) -> &[u8] {
        debug_assert!(self.spilled.is_none());
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Sets how fast it may be sent. Unsent bytes of an earlier response keep their limit if this one has none.
    pub fn set_pace(&mut self, pace: Option<Box<Pace>>) {
        if pace.is_some() || self.is_empty() {
            self.pace = pace;
        }
    }

    /// Removes the limit: what follows is not a response.
    pub fn lift_pace(&mut self) {
        self.pace = None;
    }

    /// The limit, for bytes that are sent beside it.
    pub fn pace(&mut self) -> Option<&mut Pace> {
        self.pace.as_deref_mut()
    }

    /// True if it may only be sent at a limited rate.
    pub fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    /// True if nothing may be sent now because of that limit. Heads of streams are not counted.
    pub fn is_paused(&self) -> bool {
        let pace = self.pace.as_ref();
        pace.is_some_and(|pace| self.heads.is_empty() && pace.allowance() == 0) && !self.is_empty()
    }

    /// Ready unless it is paused; wakes the task when that is over.
    pub fn poll_pace(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.pace {
            Some(pace) if self.heads.is_empty() => pace.poll_ready(cx),
            _ => Poll::Ready(()),
        }
    }

    /// The beginning of the unsent bytes: at least one if there is any, unless it is paused.
    ///
    /// # Errors
    /// It cannot be read back: the client must see that the response is incomplete.
    pub fn front(&mut self) -> Result<&[u8], Gone> {
        if let Some(spilled) = &mut self.spilled {
            spilled.fill()?;
        }
        let front = match &self.spilled {
            Some(spilled) => spilled.front.get(spilled.taken..).unwrap_or_default(),
            None => self.bytes.get(self.sent..).unwrap_or_default(),
        };
        let Some(pace) = &self.pace else {
            return Ok(front);
        };
        let most = usize::try_from(pace.allowance()).unwrap_or(usize::MAX);
        Ok(front.get(..most).unwrap_or(front))
    }

    /// True if all of it has been sent.
    pub fn is_empty(&self) -> bool {
        self.sent >= self.bytes.len() && self.spilled.is_none() && self.heads.is_empty()
    }

    /// Appends the head of a response on a stream of HTTP/2 or 3.
    pub fn push_head(&mut self, head: OutgoingHead) {
        self.heads.push(head);
    }

    /// Takes the first unsent head.
    pub fn take_head(&mut self) -> Option<OutgoingHead> {
        (!self.heads.is_empty()).then(|| self.heads.remove(0))
    }

    /// Keeps the memory of a head that has been sent.
    pub fn keep_spent(&mut self, head: OutgoingHead) {
        self.spent = head.fields;
    }

    /// The memory, for other responses: the buffer, and that of a head.
    pub fn into_memory(self) -> (Vec<u8>, FieldLines) {
        (self.bytes, self.spent)
    }

    /// Bytes of the fields of unsent heads, as HTTP/1 has them.
    fn head_bytes(&self) -> usize {
        let lines = self.heads.iter().map(|head| head.fields.lines());
        lines.map(<[u8]>::len).sum()
    }

    /// Number of unsent bytes.
    pub fn len(&self) -> u64 {
        let spilled = self.spilled.as_ref().map_or(0, |spilled| spilled.len());
        spilled + (self.bytes.len() - self.sent + self.head_bytes()) as u64
    }

    /// Bytes in memory, including those already sent that are still kept.
    pub fn in_memory(&self) -> usize {
        let front = self.spilled.as_ref().map_or(0, |one| one.front.len());
        if self.is_empty() {
            return 0;
        }
        front + self.bytes.len() + self.head_bytes()
    }

    /// True if some of it is in a file.
    pub fn is_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Discards everything unsent.
    pub fn discard(&mut self) {
        self.heads.clear();
        self.bytes.clear();
        self.sent = 0;
        self.spilled = None;
    }

    /// Notes that `n` more bytes, from [`Output::front`], have been sent; an empty buffer is reset.
    pub fn advance(&mut self, n: usize) {
        if let Some(pace) = &mut self.pace {
            pace.take(n as u64);
        }
        if let Some(spilled) = &mut self.spilled {
            spilled.taken += n;
            if spilled.len() == 0 {
                self.spilled = None;
            }
            return;
        }
        self.sent += n;
        if self.sent >= self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= SENT_BYTES && self.sent >= self.bytes.len() / 2 {
            // For a client that never takes everything, sent bytes must not pile up. Each byte is moved at most twice.
            self.bytes.drain(..self.sent);
            self.sent = 0;
            self.bytes.shrink_to(2 * self.bytes.len().max(SENT_BYTES));
        }
    }

    /// Moves the bytes in memory to the file of `store`, after those already there; false if there is no room for them.
    ///
    /// # Errors
    /// The file cannot be written. Bytes that were not written stay in memory; nothing is lost.
    pub fn spill(
        &mut self,
        store: &OverflowFile,
        share: &Rc<ConnectionBuffers>,
    ) -> Result<bool, SpoolError> {
        let pending = self.bytes.get(self.sent..).unwrap_or_default();
        if pending.is_empty() || !share.may_store(pending.len() as u64, store) {
            return Ok(false);
        }
        let spilled = match &mut self.spilled {
            Some(spilled) => spilled,
            none => none.insert(Box::new(Spilled::new(store.spool.allocate()?, share))),
        };
        let outcome = spilled.append(pending);
        let written = *outcome.as_ref().unwrap_or_else(|(written, _)| written);
        if spilled.len() == 0 {
            self.spilled = None;
        }
        self.sent += written;
        if self.sent >= self.bytes.len() {
            self.sent = 0;
            self.bytes.clear();
            self.bytes.shrink_to(SENT_BYTES);
        }
        match outcome {
            Ok(_) => Ok(true),
            Err((_, error)) => Err(error),
        }
    }
}

/// The part of an output that is in a file.
#[derive(Debug)]
struct Spilled {
    region: Region,
    /// Bytes of the region that have been read back.
    read: u64,
    /// The last of those.
    front: Vec<u8>,
    /// Bytes of `front` that have been sent.
    taken: usize,
    share: Rc<ConnectionBuffers>,
}

impl Spilled {
    fn new(region: Region, share: &Rc<ConnectionBuffers>) -> Self {
        Self {
            region,
            read: 0,
            front: Vec::new(),
            taken: 0,
            share: Rc::clone(share),
        }
    }

    /// Number of unsent bytes.
    fn len(&self) -> u64 {
        self.region.len() - self.read + (self.front.len() - self.taken) as u64
    }

    /// Writes bytes. After a failure: how many were written, and the error.
    fn append(&mut self, bytes: &[u8]) -> Result<usize, (usize, SpoolError)> {
        let before = self.region.len();
        let outcome = self.region.append(bytes);
        let written = self.region.len() - before;
        self.share.stored(written);
        let written = usize::try_from(written).unwrap_or(bytes.len());
        match outcome {
            Ok(()) => Ok(written),
            Err(error) => Err((written, error)),
        }
    }

    /// Reads more if everything that was read has been sent.
    fn fill(&mut self) -> Result<(), Gone> {
        if self.taken < self.front.len() {
            return Ok(());
        }
        let rest = usize::try_from(self.region.len() - self.read).unwrap_or(FRONT_BYTES);
        self.taken = 0;
        self.front.resize(rest.min(FRONT_BYTES), 0);
        let count = self.region.read(self.read, &mut self.front);
        let count = count.unwrap_or(0);
        self.front.truncate(count);
        self.read += count as u64;
        if count == 0 {
            return Err(Gone::Closed);
        }
        Ok(())
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        self.share.dropped(self.region.len());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::fs::{Mode, OFlags};
    use tutti_spool::Spool;
    use tutti_sys::anonymous_file::UnnamedFile;

    use super::*;
    use crate::response_buffers::{BufferedBytes, ResponseBuffers};

    /// Issue 10: a buffer that was large once stayed large for a client that left one byte of it.
    #[test]
    fn sent_bytes_release_their_memory() {
        let mut output = Output::default();
        output.bytes.resize(8 << 20, 7);
        output.advance((8 << 20) - 1);
        assert_eq!(output.pending(), [7]);
        assert!(output.bytes.capacity() <= 4 * SENT_BYTES);
        assert_eq!(output.in_memory(), 1);
    }

    fn store(most: u64) -> (tempfile::TempDir, OverflowFile) {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::create(folder.path(), most).unwrap();
        (folder, OverflowFile { spool, most })
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
    fn bytes_in_memory_and_in_the_file_come_back_in_order() {
        let (_folder, store) = store(1 << 20);
        let all = Arc::<ResponseBuffers>::default();
        let share = ConnectionBuffers::new(&all);
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
        assert_eq!(all.held(), BufferedBytes::default());
        // The buffer is reset.
        output.bytes.extend_from_slice(b"more");
        assert!(output.spill(&store, &share).unwrap());
        assert_eq!(taken(&mut output), b"more");
        assert_eq!(store.spool.in_use(), 0);
    }

    #[test]
    fn a_connection_has_its_part_of_the_file_and_the_rest_stays_in_memory() {
        let (_folder, store) = store(1000);
        let share = ConnectionBuffers::new(&Arc::default());
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
        let spool = Spool::of(UnnamedFile { file, reader }, folder.path(), 1000);
        let store = OverflowFile { spool, most: 1000 };
        let all = Arc::<ResponseBuffers>::default();
        let share = ConnectionBuffers::new(&all);
        let mut output = Output::default();
        output.bytes.extend_from_slice(b"all of it");
        assert!(output.spill(&store, &share).is_err());
        assert_eq!(taken(&mut output), b"all of it");
        assert_eq!(all.held(), BufferedBytes::default());
    }
}
