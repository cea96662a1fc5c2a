//! Records where responses are in the file, and which wait to be written. In memory, without I/O.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

use super::format::{RecordHead, Seal};
use super::reading::Candidate;
use crate::purge::Purge;
use crate::stored::Stored;

/// Responses with one key text, as many as in memory. The oldest is evicted.
const MOST_VARIANTS: usize = 64;

/// Bytes of an entry without its text and tags: its size and the map's overhead, measured.
const ENTRY_BYTES: usize = 160;

/// A deleted record, unless its segment has been begun anew since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) segment: u32,
    pub(crate) sequence: u64,
    pub(crate) place: u64,
}

/// A response in the file.
struct Entry {
    /// Identity and `Vary` as a number.
    variant: u64,
    dead: Dead,
    /// Bytes of the whole record.
    length: u64,
    metadata: u32,
    tags: Box<[u64]>,
    /// The response, while it is in memory outside a store.
    shared: Weak<Stored>,
}

/// The state of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Another process has the file, or it is being read.
    Waiting,
    Open,
    Closed,
}

pub(crate) struct Index {
    hasher: RandomState,
    state: State,
    texts: HashMap<Box<[u8]>, Vec<Entry>>,
    pending: HashMap<Box<[u8]>, Vec<Arc<Stored>>>,
    pending_bytes: usize,
    /// Purges that arrived before the file was read.
    early: Vec<Purge>,
    /// Seals and sequence numbers of the segments in use.
    segments: Vec<Option<(Seal, u64)>>,
    entries: usize,
    bytes: u64,
    /// Bytes of memory.
    weight: usize,
}

impl Index {
    pub(crate) fn new(segments: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            state: State::Waiting,
            texts: HashMap::new(),
            pending: HashMap::new(),
            pending_bytes: 0,
            early: Vec::new(),
            segments: (0..segments).map(|_| None).collect(),
            entries: 0,
            bytes: 0,
            weight: 0,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Returns true if the file is open, and the bytes and number of responses.
    pub(crate) fn totals(&self) -> (bool, u64, usize) {
        (self.state == State::Open, self.bytes, self.entries)
    }

    /// True if responses were purged before the file has been read.
    pub(crate) fn has_early_purges(&self) -> bool {
        !self.early.is_empty()
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    pub(crate) fn has(&self, text: &[u8]) -> bool {
        self.pending.contains_key(text)
            || (self.state == State::Open && self.texts.contains_key(text))
    }

    /// True if there may be one: before the file has been read, that is unknown.
    pub(crate) fn has_alike(&self, stored: &Stored) -> bool {
        if self.state == State::Waiting {
            return true;
        }
        let variant = stored.variant(&self.hasher);
        let text = &stored.key.text;
        let mut waiting = self.pending.get(text).into_iter().flatten();
        let mut entries = self.texts.get(text).into_iter().flatten();
        waiting.any(|one| one.variant(&self.hasher) == variant)
            || entries.any(|one| one.variant == variant)
    }

    /// Opens the index after the file has been read, and applies earlier purges. Returns the records that they delete.
    pub(crate) fn open(&mut self) -> Vec<Dead> {
        if self.state == State::Waiting {
            self.state = State::Open;
        }
        let mut all = Vec::new();
        for purge in std::mem::take(&mut self.early) {
            all.extend(self.purge_entries(&purge));
        }
        all
    }

    /// Closes the index; true if it was open.
    pub(crate) fn close(&mut self) -> bool {
        let was_open = self.state != State::Closed;
        self.state = State::Closed;
        self.forget();
        self.pending.clear();
        self.pending_bytes = 0;
        was_open
    }

    /// Forgets all records.
    pub(crate) fn forget(&mut self) {
        self.texts.clear();
        self.segments.fill_with(|| None);
        (self.entries, self.bytes, self.weight) = (0, 0, 0);
    }

    /// Empties a segment that is begun anew. Returns the number of responses that were in it.
    pub(crate) fn begin(&mut self, number: u32, known: Option<(Seal, u64)>) -> usize {
        let mut gone = Vec::new();
        for (text, variants) in &mut self.texts {
            let length = text.len();
            let of_it = variants.extract_if(.., |one| one.dead.segment == number);
            gone.extend(of_it.map(|one| (length, one)));
        }
        self.texts.retain(|_, variants| !variants.is_empty());
        for (length, entry) in &gone {
            self.uncount(*length, entry);
        }
        if let Some(segment) = self.segments.get_mut(number as usize) {
            *segment = known;
        }
        gone.len()
    }

    /// Notes that a response is to be written.
    pub(crate) fn wait(&mut self, stored: &Arc<Stored>) {
        self.pending_bytes += stored.weight();
        let waiting = self.pending.entry(stored.key.text.clone()).or_default();
        waiting.push(Arc::clone(stored));
    }

    /// True if it still waits to be written.
    pub(crate) fn is_waiting(&self, stored: &Arc<Stored>) -> bool {
        let mut waiting = self.pending.get(&stored.key.text).into_iter().flatten();
        waiting.any(|one| Arc::ptr_eq(one, stored))
    }

    /// Ends its wait; false if it did not wait.
    pub(crate) fn leave(&mut self, stored: &Arc<Stored>) -> bool {
        !self
            .take_waiting(&stored.key.text, |one| Arc::ptr_eq(one, stored))
            .is_empty()
    }

    fn take_waiting(
        &mut self,
        text: &[u8],
        is_meant: impl Fn(&Arc<Stored>) -> bool,
    ) -> Vec<Arc<Stored>> {
        let Some(waiting) = self.pending.get_mut(text) else {
            return Vec::new();
        };
        let gone: Vec<_> = waiting.extract_if(.., |one| is_meant(one)).collect();
        if waiting.is_empty() {
            self.pending.remove(text);
        }
        let weight = gone.iter().map(|one| one.weight()).sum::<usize>();
        assert!(weight <= self.pending_bytes, "more went than waited");
        self.pending_bytes -= weight;
        gone
    }

    /// Removes the responses that the same requests would get. Returns their records.
    pub(crate) fn remove_alike(&mut self, stored: &Stored) -> Vec<Dead> {
        let variant = stored.variant(&self.hasher);
        let hasher = self.hasher.clone();
        self.take_waiting(&stored.key.text, |one| one.variant(&hasher) == variant);
        self.remove_where(&stored.key.text, |one| one.variant == variant)
    }

    /// Removes the response whose record is at this place.
    pub(crate) fn remove(&mut self, text: &[u8], place: u64) -> Option<Dead> {
        self.remove_where(text, |one| one.dead.place == place).pop()
    }

    fn remove_where(&mut self, text: &[u8], is_meant: impl Fn(&Entry) -> bool) -> Vec<Dead> {
        let Some(variants) = self.texts.get_mut(text) else {
            return Vec::new();
        };
        let gone: Vec<_> = variants.extract_if(.., |one| is_meant(one)).collect();
        if variants.is_empty() {
            self.texts.remove(text);
        }
        self.uncount_all(text.len(), &gone)
    }

    fn uncount_all(&mut self, text: usize, gone: &[Entry]) -> Vec<Dead> {
        for entry in gone {
            self.uncount(text, entry);
        }
        gone.iter().map(|one| one.dead).collect()
    }

    fn uncount(&mut self, text: usize, entry: &Entry) {
        assert!(
            self.entries > 0 && self.bytes >= entry.length,
            "more records went than there were"
        );
        self.entries -= 1;
        self.bytes -= entry.length;
        self.weight -= weight(text, entry.tags.len());
    }

    /// Adds a response that has been written. Returns the records of those that it replaces.
    pub(crate) fn insert(&mut self, stored: &Stored, head: &RecordHead, dead: Dead) -> Vec<Dead> {
        let variant = stored.variant(&self.hasher);
        let text = &stored.key.text;
        let mut gone = self.remove_where(text, |one| one.variant == variant);
        let tags = stored.tags.iter().map(|tag| self.hasher.hash_one(&**tag));
        let entry = Entry {
            variant,
            dead,
            length: head.length(),
            metadata: head.metadata,
            tags: tags.collect(),
            shared: Weak::new(),
        };
        self.entries += 1;
        self.bytes += entry.length;
        self.weight += weight(text.len(), entry.tags.len());
        let variants = self.texts.entry(text.clone()).or_default();
        variants.push(entry);
        if variants.len() > MOST_VARIANTS {
            let oldest = variants.remove(0);
            gone.extend(self.uncount_all(text.len(), &[oldest]));
        }
        debug_assert!(!gone.contains(&dead), "the record that was just written");
        gone
    }

    /// Purges responses. Returns their number and their records.
    pub(crate) fn purge(&mut self, purge: &Purge) -> (usize, Vec<Dead>) {
        if self.state == State::Waiting {
            self.early.push(purge.clone());
        }
        let is_meant = |one: &Stored| match purge {
            Purge::All => true,
            Purge::Key(text) => *one.key.text == **text,
            Purge::Prefix(start) => one.key.text.starts_with(start),
            Purge::Tag(tag) => one.has_tag(tag),
        };
        let texts: Vec<_> = match purge {
            Purge::Key(text) => vec![text.clone().into_boxed_slice()],
            _ => self.pending.keys().cloned().collect(),
        };
        let mut count = 0;
        for text in texts {
            count += self.take_waiting(&text, |one| is_meant(one)).len();
        }
        let dead = self.purge_entries(purge);
        (count + dead.len(), dead)
    }

    fn purge_entries(&mut self, purge: &Purge) -> Vec<Dead> {
        match purge {
            Purge::Key(text) => self.remove_where(text, |_| true),
            Purge::All => {
                let all = self.texts.values().flatten();
                let dead = all.map(|one| one.dead).collect();
                // The seals stay: the thread has not begun a new segment.
                self.texts.clear();
                (self.entries, self.bytes, self.weight) = (0, 0, 0);
                dead
            }
            Purge::Prefix(start) => {
                let texts = self.texts.keys().filter(|text| text.starts_with(start));
                let texts: Vec<_> = texts.cloned().collect();
                let each = |text: Box<[u8]>| self.remove_where(&text, |_| true);
                texts.into_iter().flat_map(each).collect()
            }
            Purge::Tag(tag) => {
                let tag = self.hasher.hash_one(&**tag);
                let has =
                    |variants: &Vec<Entry>| variants.iter().any(|one| one.tags.contains(&tag));
                let texts = self.texts.iter().filter(|(_, variants)| has(variants));
                let texts: Vec<_> = texts.map(|(text, _)| text.clone()).collect();
                let each =
                    |text: Box<[u8]>| self.remove_where(&text, |one| one.tags.contains(&tag));
                texts.into_iter().flat_map(each).collect()
            }
        }
    }

    /// All possible responses to a request with this text, the newest first.
    pub(crate) fn candidates(&self, text: &[u8]) -> Vec<Candidate> {
        let waiting = self.pending.get(text).into_iter().flatten().rev();
        let mut all: Vec<_> = waiting.map(Candidate::there).collect();
        if self.state != State::Open {
            return all;
        }
        for entry in self.texts.get(text).into_iter().flatten().rev() {
            let segment = self.segments.get(entry.dead.segment as usize);
            let Some(Some((seal, sequence))) = segment else {
                continue;
            };
            if *sequence == entry.dead.sequence {
                let place = entry.dead.place;
                let candidate = Candidate::at(place, entry.metadata, seal.clone());
                all.push(candidate.or_there(entry.shared.upgrade()));
            }
        }
        all
    }

    /// Notes that the response with the record at this place is in memory.
    pub(crate) fn share(&mut self, place: u64, stored: &Arc<Stored>) {
        let variants = self.texts.get_mut(&stored.key.text).into_iter().flatten();
        for entry in variants.filter(|one| one.dead.place == place) {
            entry.shared = Arc::downgrade(stored);
        }
    }
}

fn weight(text: usize, tags: usize) -> usize {
    ENTRY_BYTES + text + tags * size_of::<u64>()
}
