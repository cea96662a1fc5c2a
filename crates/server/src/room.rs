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
