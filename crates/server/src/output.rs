//! Bytes on their way out, and why they may not get there.

use std::rc::Rc;

use tutti_pool::{Region, SpoolError};

use crate::holdings::{Share, Store};

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The client closed it, or it broke.
    Closed,
    /// The client did not send anything for too long, or took too little.
    TimedOut,
}

/// Bytes that have gone out are kept in front of those that have not, up to this many.
const SENT_BYTES: usize = 64 * 1024;

/// Bytes that are read back from a file at once: what one DATA frame takes (RFC 9113 §4.2).
const FRONT_BYTES: usize = 16 * 1024;

/// Bytes on their way out.
///
/// Whoever writes appends to `bytes`. What a slow client leaves there can be moved to a file ([`Output::spill`]), and goes out before
/// what is written after that.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    /// Bytes at the front of `bytes` that have gone out.
    sent: usize,
    /// What goes out before `bytes`.
    spilled: Option<Box<Spilled>>,
}

impl Output {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// What has not been sent, of an output of which nothing goes to a file.
    pub(crate) fn pending(&self) -> &[u8] {
        debug_assert!(self.spilled.is_none());
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// The beginning of what has not been sent: at least one byte if there is any.
    ///
    /// # Errors
    /// It cannot be read back: the client must see that the answer is not whole.
    pub(crate) fn front(&mut self) -> Result<&[u8], Gone> {
        if let Some(spilled) = &mut self.spilled {
            spilled.fill()?;
        }
        Ok(match &self.spilled {
            Some(spilled) => spilled.front.get(spilled.taken..).unwrap_or_default(),
            None => self.bytes.get(self.sent..).unwrap_or_default(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spilled.is_none() && self.sent >= self.bytes.len()
    }

    /// How much has not been sent.
    pub(crate) fn len(&self) -> u64 {
        let spilled = self.spilled.as_ref().map_or(0, |spilled| spilled.len());
        spilled + (self.bytes.len() - self.sent) as u64
    }

    /// How much of that, and of what has been sent just before it, is in memory.
    pub(crate) fn in_memory(&self) -> usize {
        let front = self.spilled.as_ref().map_or(0, |one| one.front.len());
        if self.is_empty() {
            return 0;
        }
        front + self.bytes.len()
    }

    /// Some of it is in a file.
    pub(crate) fn is_spilled(&self) -> bool {
        self.spilled.is_some()
    }

    /// Takes back what has not been sent.
    pub(crate) fn discard(&mut self) {
        self.bytes.clear();
        self.sent = 0;
        self.spilled = None;
    }

    /// `n` more bytes have gone out, which [`Output::front`] has shown; an empty buffer starts anew.
    pub(crate) fn advance(&mut self, n: usize) {
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
            // For a client that never takes all, what has gone out must not pile up. Each byte is moved twice at most.
            self.bytes.drain(..self.sent);
            self.sent = 0;
            self.bytes.shrink_to(2 * self.bytes.len().max(SENT_BYTES));
        }
    }

    /// Moves what is in memory behind what is in the file of `store` already; false if there is no room for it.
    ///
    /// # Errors
    /// The file cannot be written. What could not be written stays in memory; nothing is lost.
    pub(crate) fn spill(&mut self, store: &Store, share: &Rc<Share>) -> Result<bool, SpoolError> {
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
    /// Bytes of the front that have gone out.
    taken: usize,
    share: Rc<Share>,
}

impl Spilled {
    fn new(region: Region, share: &Rc<Share>) -> Self {
        Self {
            region,
            read: 0,
            front: Vec::new(),
            taken: 0,
            share: Rc::clone(share),
        }
    }

    /// How much of it has not gone out.
    fn len(&self) -> u64 {
        self.region.len() - self.read + (self.front.len() - self.taken) as u64
    }

    /// Bytes written. If that fails: how many were written all the same, and why no more.
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

    /// Reads on if all that was read has gone out.
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
    use super::*;

    /// Issue 10: a buffer that was large once stayed large for a client that left one byte of it.
    #[test]
    fn what_has_gone_out_gives_its_memory_back() {
        let mut output = Output::default();
        output.bytes.resize(8 << 20, 7);
        output.advance((8 << 20) - 1);
        assert_eq!(output.pending(), [7]);
        assert!(output.bytes.capacity() <= 4 * SENT_BYTES);
        assert_eq!(output.in_memory(), 1);
    }
}
