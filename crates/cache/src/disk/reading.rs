//! Reads one response from the file and checks it.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use super::format::{RECORD_HEAD_BYTES, RecordHead, Seal};
use super::metadata;
use super::tier::Loaded;
use crate::clock::ClockReading;
use crate::key::Key;
use crate::stored::Stored;

/// There is not enough memory for a body.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// A possible response to a request.
pub(crate) struct Candidate {
    there: Option<Arc<Stored>>,
    record: Option<Record>,
    /// The place of a record that could not be read.
    pub(crate) is_damaged: Cell<Option<u64>>,
}

struct Record {
    place: u64,
    metadata: u32,
    seal: Seal,
}

impl Candidate {
    /// A candidate in memory.
    pub(crate) fn there(stored: &Arc<Stored>) -> Self {
        Self {
            there: Some(Arc::clone(stored)),
            record: None,
            is_damaged: Cell::new(None),
        }
    }

    /// A candidate in the file.
    pub(crate) fn at(place: u64, metadata: u32, seal: Seal) -> Self {
        Self {
            there: None,
            record: Some(Record {
                place,
                metadata,
                seal,
            }),
            is_damaged: Cell::new(None),
        }
    }

    /// Uses the response in memory, if there is one.
    pub(crate) fn or_there(self, there: Option<Arc<Stored>>) -> Self {
        Self { there, ..self }
    }
}

/// Returns the response of this candidate, if it answers such a request.
pub(crate) fn read(
    file: &File,
    candidate: &Candidate,
    key: &Key,
    values: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
    take_room: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<Loaded>, NoRoom> {
    let is_meant = |stored: &Stored| stored.key == *key && stored.vary.matches(values);
    if let Some(stored) = &candidate.there {
        let meant = is_meant(stored).then(|| Loaded::Shared(Arc::clone(stored)));
        return Ok(meant);
    }
    let Some(record) = &candidate.record else {
        return Ok(None);
    };
    let Some((head, metadata)) = record.head(file) else {
        candidate.is_damaged.set(Some(record.place));
        return Ok(None);
    };
    let Some(stored) = metadata::read(&metadata, Bytes::new(), ClockReading::now()) else {
        candidate.is_damaged.set(Some(record.place));
        return Ok(None);
    };
    if !is_meant(&stored) {
        return Ok(None);
    }
    if !take_room(head.body as usize) {
        return Err(NoRoom);
    }
    let Some(body) = record.body(file, &head) else {
        candidate.is_damaged.set(Some(record.place));
        return Ok(None);
    };
    let stored = Box::new(stored.with_body(body));
    Ok(Some(Loaded::Read(stored, record.place)))
}

impl Record {
    /// Reads head and metadata, and checks their seal.
    fn head(&self, file: &File) -> Option<(RecordHead, Vec<u8>)> {
        let mut bytes = vec![0; RECORD_HEAD_BYTES + self.metadata as usize];
        file.read_exact_at(&mut bytes, self.place).ok()?;
        let head = RecordHead::decode(&bytes)?;
        let metadata = bytes.split_off(RECORD_HEAD_BYTES);
        (head.is_live && head.seals(&self.seal, self.place, &metadata)).then_some((head, metadata))
    }

    fn body(&self, file: &File, head: &RecordHead) -> Option<Bytes> {
        let mut body = vec![0; head.body as usize];
        let place = self.place + (RECORD_HEAD_BYTES as u64) + u64::from(head.metadata);
        file.read_exact_at(&mut body, place).ok()?;
        head.seals_body(&self.seal, self.place, &body)
            .then(|| Bytes::from(body))
    }
}
