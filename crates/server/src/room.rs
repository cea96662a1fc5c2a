//! Room for more of an answer than its client has taken: in memory, then in the file.
//!
//! Must never: take a byte where [`holdings`](crate::holdings) has no room for it.

use std::rc::Rc;

use tutti_config::model::Compressor;
use tutti_pool::Level;

use crate::connection::Connection;
use crate::holdings::{EncoderCharge, LEAST_BYTES, Share, Store};
use crate::output::Output;
use tutti_files::compression;

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

    /// Counts the memory of an encoder; `None` if there is none left for another.
    pub(crate) fn charge_encoder(&self, compressor: &Compressor) -> Option<EncoderCharge> {
        let bytes = compression::encoder_bytes(compressor);
        EncoderCharge::take(&self.local.shared.holdings, bytes)
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

    use std::sync::Arc;

    use rustix::fs::{Mode, OFlags};
    use tutti_pool::Spool;
    use tutti_sys::unnamed::UnnamedFile;

    use super::*;
    use crate::holdings::{Held, Holdings};

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
        let spool = Spool::of(UnnamedFile { file, reader }, folder.path(), 1000);
        let store = Store { spool, most: 1000 };
        let all = Arc::<Holdings>::default();
        let share = Share::new(&all);
        let mut output = Output::default();
        output.bytes.extend_from_slice(b"all of it");
        assert!(output.spill(&store, &share).is_err());
        assert_eq!(taken(&mut output), b"all of it");
        assert_eq!(all.held(), Held::default());
    }
}
