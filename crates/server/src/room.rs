//! The room that a connection's answer has while its client takes it slowly; and the line in the log where the file for it fails.

use std::path::Path;
use std::rc::Rc;

use tutti_config::model::Compressor;
use tutti_conn::room::Room;
use tutti_pool::Level;

use crate::connection::Connection;
use tutti_conn::holdings::{EncoderCharge, Share, Store};
use tutti_conn::output::Output;
use tutti_files::compression;

impl Connection {
    /// The share of the client's connection.
    pub(crate) fn share(&self) -> &Rc<Share> {
        self.waiting.share(&self.local.shared.holdings)
    }

    /// Counts the memory of an encoder; `None` if there is none left for another.
    pub(crate) fn charge_encoder(&self, compressor: &Compressor) -> Option<EncoderCharge> {
        let bytes = compression::encoder_bytes(compressor);
        EncoderCharge::take(&self.local.shared.holdings, bytes)
    }

    /// Notes how much of `output` waits in memory.
    pub(crate) fn note_held(&self, output: &Output) {
        self.waiting.note(output, &self.local.shared.holdings);
    }

    /// Notes how much of `output` waits in memory; returns how much of `most` it may have there.
    pub(crate) fn allowance(&self, output: &Output, most: usize) -> usize {
        self.waiting
            .allowance(output, most, &self.local.shared.holdings)
    }

    /// Makes room for more of an answer whose beginning waits in `output`. Alone it may have `most` bytes in memory; the rest goes to
    /// `store`.
    pub(crate) fn room(&self, output: &mut Output, most: usize, store: Option<&Store>) -> Room {
        let all = &self.local.shared.holdings;
        let outcome = self.waiting.room(output, most, store, all);
        outcome.unwrap_or_else(|error| {
            let folder = store.map_or(Path::new(""), |store| store.spool.folder());
            self.local.complain(
                Level::Warn,
                &format!(
                    "an answer cannot wait in `{}` for a slow client, so its sender waits: {error}",
                    folder.display()
                ),
            );
            Room::None
        })
    }
}
