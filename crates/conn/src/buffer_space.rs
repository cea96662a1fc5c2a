//! Room for more of a response than its client has taken: in memory, then in the file.
//!
//! Must never: accept a byte for which [`holdings`](crate::holdings) has no room, or count one that has been sent.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use tutti_spool::SpoolError;

use crate::output::Output;
use crate::response_buffers::{ConnectionBuffers, LEAST_BYTES, OverflowFile, ResponseBuffers};

/// The result of asking for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSpace {
    /// More of the response can be accepted.
    Some,
    /// More can be accepted; making room has taken time that other connections may need.
    Made,
    /// No more can be accepted before the client has taken some.
    None,
}

/// Counts the bytes in memory of one connection's output as a part of its client's share, until they are sent or this is dropped.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Empty until bytes wait: most connections never need it.
    share: OnceCell<Rc<ConnectionBuffers>>,
    bytes: Cell<usize>,
}

impl Waiting {
    /// For another stream of the client whose share is `share`.
    pub fn beside(share: &Rc<ConnectionBuffers>) -> Self {
        Self {
            share: OnceCell::from(Rc::clone(share)),
            bytes: Cell::new(0),
        }
    }

    /// The client's share of `all`.
    pub fn share(&self, all: &Arc<ResponseBuffers>) -> &Rc<ConnectionBuffers> {
        self.share.get_or_init(|| ConnectionBuffers::new(all))
    }

    /// Notes how much of `output` waits in memory.
    pub fn note(&self, output: &Output, all: &Arc<ResponseBuffers>) {
        let now = output.in_memory();
        let before = self.bytes.replace(now);
        if now != before {
            self.share(all).moved(before, now);
        }
    }

    /// Notes how much of `output` waits in memory; returns how much of `most` it may have there.
    pub fn allowance(&self, output: &Output, most: usize, all: &Arc<ResponseBuffers>) -> usize {
        self.note(output, all);
        self.share(all).limit(self.bytes.get(), most)
    }

    /// Makes room for more of a response whose beginning waits in `output`. Its own limit in memory is `most` bytes; the rest goes to
    /// `store`.
    ///
    /// # Errors
    /// The file cannot be written: there is no room, and no byte is lost.
    pub fn room(
        &self,
        output: &mut Output,
        most: usize,
        store: Option<&OverflowFile>,
        all: &Arc<ResponseBuffers>,
    ) -> Result<BufferSpace, SpoolError> {
        let held = output.in_memory();
        if held <= LEAST_BYTES.min(most) && self.bytes.get() == 0 {
            return Ok(BufferSpace::Some);
        }
        if held <= self.allowance(output, most, all) {
            return Ok(BufferSpace::Some);
        }
        let Some(store) = store else {
            return Ok(BufferSpace::None);
        };
        let outcome = output.spill(store, self.share(all));
        if !matches!(outcome, Ok(false)) {
            self.note(output, all);
        }
        Ok(match outcome? {
            true => BufferSpace::Made,
            false => BufferSpace::None,
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let bytes = self.bytes.get();
        if let Some(share) = self.share.get()
            && bytes > 0
        {
            share.moved(bytes, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use tutti_spool::Spool;

    use super::*;
    use crate::response_buffers::BufferedBytes;

    fn output(bytes: usize) -> Output {
        Output::new(vec![7; bytes])
    }

    #[test]
    fn bytes_are_counted_until_the_connection_ends() {
        let all = Arc::<ResponseBuffers>::default();
        let waiting = Waiting::default();
        waiting.note(&output(1000), &all);
        let stream = Waiting::beside(waiting.share(&all));
        stream.note(&output(500), &all);
        assert_eq!(all.held().memory, 1500);
        waiting.note(&output(10), &all);
        assert_eq!(all.held().memory, 510);
        drop(waiting);
        drop(stream);
        assert_eq!(all.held(), BufferedBytes::default());
    }

    #[test]
    fn room_is_in_memory_then_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let all = Arc::<ResponseBuffers>::default();
        let waiting = Waiting::default();
        let store = OverflowFile {
            spool: Spool::create(folder.path(), 1 << 20).unwrap(),
            most: 1 << 20,
        };
        let most = 100_000;
        let mut small = output(LEAST_BYTES);
        let room = waiting.room(&mut small, most, None, &all).unwrap();
        assert_eq!(
            (room, all.held()),
            (BufferSpace::Some, BufferedBytes::default())
        );
        let mut large = output(2 * most);
        let room = waiting.room(&mut large, most, None, &all).unwrap();
        assert_eq!((room, all.held().memory), (BufferSpace::None, 2 * most));
        let room = waiting.room(&mut large, most, Some(&store), &all).unwrap();
        assert_eq!((room, all.held().memory), (BufferSpace::Made, 0));
        assert_eq!(all.held().disk, 2 * most as u64);
        assert_eq!(large.len(), 2 * most as u64);
    }
}
