//! The store: responses in memory, shared by all listen threads.
//!
//! A store has several parts, each with its own lock, which is held for a lookup or a change. The text of a key selects the part, so that
//! all responses with the same text are in one. The memory limit is common to all parts.
//!
//! Must never: use more than its memory limit plus one response that is being stored, or store a response that was purged while it was
//! fetched.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::oneshot;

use crate::Millis;
use crate::clock::now;
use crate::counts::CacheCounts;
use crate::disk::tier::{Loaded, Tier, Waiting};
use crate::disk_hold::{DiskHold, Heeded};
use crate::eviction::Queues;
use crate::fetches::{Flight, Flights, Lead};
use crate::freshness::Use;
use crate::key::Key;
use crate::purge::Purge;
use crate::stored::Stored;

/// Number of parts, so that threads seldom wait for each other.
const PARTS: usize = 16;

/// Responses with one key text: more than a site has languages and encodings. The oldest is evicted.
const MOST_VARIANTS: usize = 64;

/// Keys in one part that are marked as not storable.
const MOST_MARKS: usize = 4096;

/// Time for which requests for such a key bypass the store and do not wait for each other.
const MARK_TIME: Millis = 60_000;

/// The fraction of the memory that responses being stored may use: a quarter.
const COMING_PART: usize = 4;

/// The limits of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of memory.
    pub memory: usize,
    /// Bytes of the largest body stored in memory.
    pub object: usize,
    /// The limits of the part on disk.
    pub disk: Option<DiskLimits>,
}

/// The limits of a store's part on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskLimits {
    /// The folder; `None`: the server's own.
    pub folder: Option<PathBuf>,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of the largest body.
    pub object: usize,
}

/// The result of a lookup.
#[derive(Debug)]
pub enum Found {
    /// A response that may be used without validation.
    Fresh(Arc<Stored>),
    /// A response that may be used while a newer one is fetched: by the caller, if it gets the lead.
    Stale(Arc<Stored>, Option<Lead>),
    /// The caller fetches the response; the stored one, if any, may be validated.
    Lead(Lead, Option<Arc<Stored>>),
    /// Another request is fetching it.
    Wait(Arc<Flight>),
    /// No response, and no reason to wait: the key is marked as not storable, or the response would be for this client only.
    Past,
}

/// The interaction of a request with other requests for the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupMode {
    /// It may wait for another's fetch.
    pub may_wait: bool,
    /// Other requests may wait for its fetch: its response probably suits them.
    pub may_lead: bool,
}

/// A store.
#[derive(Debug)]
pub struct ResponseStore {
    name: Box<str>,
    limits: StoreLimits,
    used: AtomicUsize,
    /// Bytes of bodies that are being stored.
    coming: AtomicUsize,
    /// Bytes of bodies that were read from disk and are not stored in memory.
    loaded: AtomicUsize,
    /// The part on disk, once its file is open.
    tier: OnceLock<Arc<dyn Tier>>,
    /// Disables the part on disk.
    hold: Heeded,
    /// Counts of events.
    pub counts: CacheCounts,
    hasher: RandomState,
    parts: Box<[Mutex<Part>]>,
    /// Locked while a part is locked, never the other way round.
    flights: Arc<Flights>,
    /// Locked after a part has been unlocked, never while one is locked.
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Part {
    responses: HashMap<Box<[u8]>, Vec<Arc<Stored>>>,
    live: usize,
    marks: HashMap<u64, Millis>,
    purges: Purges,
}

/// The purges of a part: a response that was requested before a purge that covers it is not stored.
#[derive(Debug, Default)]
struct Purges {
    /// Number of them.
    count: u64,
    /// The number of the last purge of everything.
    whole: u64,
    /// The number of the last purge that covered the text with this hash.
    texts: HashMap<u64, u64>,
}

impl Purges {
    fn add_whole(&mut self) {
        self.count += 1;
        self.whole = self.count;
        self.texts.clear();
    }

    fn add(&mut self, text: u64) {
        if self.texts.len() >= MOST_MARKS {
            return self.add_whole();
        }
        self.count += 1;
        self.texts.insert(text, self.count);
    }

    /// True if a response with this text that was requested after `count` purges may be stored.
    fn allow(&self, text: u64, count: u64) -> bool {
        debug_assert!(count <= self.count, "a purge that is still to come");
        self.whole <= count && self.texts.get(&text).is_none_or(|last| *last <= count)
    }
}

/// Memory reserved for a body that is being stored, or that was read from disk.
#[derive(Debug)]
pub struct BodyReservation {
    store: Arc<ResponseStore>,
    taken: usize,
    is_loaded: bool,
}

impl BodyReservation {
    /// Reserves this many more bytes; false if that exceeds the limit.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let all = self.counter().fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.taken += bytes;
        self.taken <= self.store.largest() && all <= self.store.limits.memory / COMING_PART
    }

    fn counter(&self) -> &AtomicUsize {
        match self.is_loaded {
            true => &self.store.loaded,
            false => &self.store.coming,
        }
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        let before = self.counter().fetch_sub(self.taken, Ordering::Relaxed);
        debug_assert!(before >= self.taken, "more room was given back than taken");
    }
}

impl ResponseStore {
    /// Makes an empty store.
    pub fn new(name: &str, limits: StoreLimits) -> Self {
        Self {
            name: name.into(),
            limits,
            used: AtomicUsize::new(0),
            coming: AtomicUsize::new(0),
            loaded: AtomicUsize::new(0),
            tier: OnceLock::new(),
            hold: Heeded::default(),
            counts: CacheCounts::default(),
            hasher: RandomState::new(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            flights: Arc::default(),
            queues: Mutex::default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its limits.
    pub fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    /// Bytes of the largest body that can be stored.
    pub fn largest(&self) -> usize {
        let on_disk = self.tier().map_or(0, |tier| tier.largest());
        self.limits.object.max(on_disk)
    }

    /// Attaches the part on disk.
    pub(crate) fn set_tier(&self, tier: Arc<dyn Tier>) {
        // A store gets its part on disk once.
        let _ = self.tier.set(tier);
    }

    /// Makes the store check this switch before it reads from disk.
    pub fn heed(&self, hold: &Arc<DiskHold>) {
        self.hold.heed(hold);
    }

    /// True if the part on disk is disabled.
    pub fn is_disk_held(&self) -> bool {
        self.hold.is_set()
    }

    /// The part on disk.
    pub(crate) fn tier(&self) -> Option<&Arc<dyn Tier>> {
        self.tier.get()
    }

    /// Bytes of memory in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Number of responses.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).live).sum()
    }

    /// True if it holds no response.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reserves memory for a body that is to be stored.
    pub fn room(self: &Arc<Self>) -> BodyReservation {
        BodyReservation {
            store: Arc::clone(self),
            taken: 0,
            is_loaded: false,
        }
    }

    /// Looks for a response; `values` gives the fields of the request by name, `may_use` decides whether the request may get a response.
    pub fn find(
        &self,
        key: &Key,
        values: impl Fn(&[u8]) -> Option<Vec<u8>>,
        may_use: impl Fn(&Stored) -> bool,
        manner: LookupMode,
        now: Millis,
    ) -> Found {
        let hash = self.hash(key);
        let part = self.part(&key.text);
        let found = part.responses.get(&key.text).and_then(|variants| {
            let mut newest_first = variants.iter().rev();
            newest_first.find(|one| one.key.identity == key.identity && one.vary.matches(&values))
        });
        let found = found.filter(|one| may_use(one)).cloned();
        if let Some(stored) = &found {
            debug_assert_eq!(stored.key, *key, "made for another client");
            stored.note_use();
            match stored.freshness.usage(now) {
                Use::Fresh => return Found::Fresh(Arc::clone(stored)),
                Use::WhileRevalidating => {
                    let lead = manner.may_lead.then(|| self.flights.lead(hash).ok());
                    let lead = lead.flatten();
                    return Found::Stale(Arc::clone(stored), lead);
                }
                Use::Validate => {}
            }
        } else if !manner.may_lead || part.marks.get(&hash).is_some_and(|until| now < *until) {
            return Found::Past;
        }
        if !manner.may_lead {
            return Found::Past;
        }
        match self.flights.lead(hash) {
            Ok(lead) => Found::Lead(lead, found),
            Err(flight) if manner.may_wait => Found::Wait(flight),
            Err(_) => Found::Past,
        }
    }

    /// The number of purges that covered a key, for [`store`](Self::store): read it before the request is sent.
    pub fn epoch(&self, key: &Key) -> u64 {
        self.part(&key.text).purges.count
    }

    /// Marks a key whose response was not storable.
    pub fn mark(&self, key: &Key, now: Millis) {
        let hash = self.hash(key);
        let mut part = self.part(&key.text);
        if part.marks.len() >= MOST_MARKS {
            part.marks.retain(|_, until| now < *until);
            if part.marks.len() >= MOST_MARKS {
                part.marks.clear();
            }
        }
        part.marks.insert(hash, now.saturating_add(MARK_TIME));
    }

    /// Stores a response in place of those that the same requests would get; false if one of them was purged since `epoch`.
    pub fn store(&self, stored: Arc<Stored>, epoch: u64) -> bool {
        let is_small = self.fits_memory(&stored);
        if stored.body.len() > self.largest() || (!is_small && self.tier().is_none()) {
            return false;
        }
        let hash = self.hash(&stored.key);
        {
            let mut part = self.part(&stored.key.text);
            if !part.purges.allow(self.hash_text(&stored.key.text), epoch) {
                return false;
            }
            part.marks.remove(&hash);
            if let Some(tier) = self.tier()
                && (!is_small || tier.has_alike(&stored))
            {
                // A response on disk must not outlive the one that replaces it.
                stored.note_on_disk();
                tier.keep(&stored, Waiting::Bounded);
            }
            match is_small {
                true => self.add(&mut part, &stored),
                false => self.remove_alike(&mut part, &stored),
            }
        }
        self.counts.stored.fetch_add(1, Ordering::Relaxed);
        if is_small {
            self.settle(&stored);
        }
        true
    }

    fn fits_memory(&self, stored: &Stored) -> bool {
        stored.body.len() <= self.limits.object && stored.weight() <= self.limits.memory
    }

    /// Gives a response that was added its place in the queues.
    fn settle(&self, stored: &Arc<Stored>) {
        let live = self.len();
        lock(&self.queues).enter(stored, live);
        self.make_room();
    }

    /// True if there may be a response on disk to a request with this key.
    pub fn has_on_disk(&self, key: &Key) -> bool {
        self.tier().is_some_and(|tier| tier.has(&key.text)) && !self.hold.is_set()
    }

    /// Reads the response on disk for a request whose fields `values` gives by name, and has it in memory if it is small enough. Blocks.
    pub fn load(
        self: &Arc<Self>,
        key: &Key,
        values: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Option<Arc<Stored>> {
        let tier = self.tier().filter(|_| !self.hold.is_set())?;
        let epoch = self.epoch(key);
        let mut room = self.room();
        room.is_loaded = true;
        let loaded = tier.read(key, values, &mut |bytes| room.grow(bytes))?;
        let (stored, place) = match loaded {
            Loaded::Shared(stored) => return Some(self.promote(stored, epoch)),
            Loaded::Read(stored, place) => (stored, place),
        };
        if self.fits_memory(&stored) {
            drop(room);
            return Some(self.promote(Arc::new(*stored), epoch));
        }
        let stored = Arc::new(stored.in_room(Box::new(room)));
        tier.share(place, &stored);
        Some(stored)
    }

    /// Adds a response that was on disk, unless there is one in memory, which is newer; the one that is there then.
    fn promote(&self, stored: Arc<Stored>, epoch: u64) -> Arc<Stored> {
        if !self.fits_memory(&stored) {
            return stored;
        }
        {
            let mut part = self.part(&stored.key.text);
            let variants = part.responses.get(&stored.key.text);
            let mut alike = variants.into_iter().flatten();
            if let Some(newer) = alike.find(|one| one.is_alike(&stored)) {
                return Arc::clone(newer);
            }
            // Only the request that began before the purge gets it.
            if !part.purges.allow(self.hash_text(&stored.key.text), epoch) {
                return stored;
            }
            debug_assert!(self.fits_memory(&stored));
            self.add(&mut part, &stored);
        }
        self.settle(&stored);
        stored
    }

    /// Completes when everything purged so far is removed from disk; `None`: the store is in memory only.
    pub fn settled(&self) -> Option<oneshot::Receiver<()>> {
        self.tier().map(|tier| tier.settled())
    }

    /// Writes everything in memory to disk, for the next process that opens the file; completes when that is done.
    pub(crate) fn rest(&self) -> Option<oneshot::Receiver<()>> {
        let tier = self.tier()?;
        for part in &self.parts {
            let part = lock(part);
            for stored in part.responses.values().flatten() {
                self.keep_on_disk(stored, now(), Waiting::Unbounded);
            }
        }
        Some(tier.close())
    }

    /// Has a response written to disk unless it is there, or can no longer be used. Call it while its part is locked, so that a purge comes
    /// either before or after.
    fn keep_on_disk(&self, stored: &Arc<Stored>, now: Millis, waiting: Waiting) {
        let Some(tier) = self.tier() else {
            return;
        };
        let is_there = stored.is_on_disk() && tier.has_alike(stored);
        if !is_there && !stored.is_spent(now) {
            stored.note_on_disk();
            tier.keep(stored, waiting);
        }
    }

    fn remove_alike(&self, part: &mut Part, stored: &Stored) {
        let Some(variants) = part.responses.get_mut(&stored.key.text) else {
            return;
        };
        let gone: Vec<_> = variants
            .extract_if(.., |one| one.is_alike(stored))
            .collect();
        if variants.is_empty() {
            part.responses.remove(&stored.key.text);
        }
        self.let_go(part, &gone);
    }

    fn add(&self, part: &mut Part, stored: &Arc<Stored>) {
        let variants = part.responses.entry(stored.key.text.clone()).or_default();
        let before = variants.len();
        let mut gone = 0;
        variants.retain(|one| {
            let is_same = one.is_alike(stored);
            gone += if is_same { one.weight() } else { 0 };
            !is_same
        });
        if variants.len() >= MOST_VARIANTS {
            gone += variants.remove(0).weight();
        }
        let removed = before - variants.len();
        variants.push(Arc::clone(stored));
        assert!(
            variants.len() <= MOST_VARIANTS,
            "one key takes all of the store"
        );
        part.live = part.live + 1 - removed;
        self.used.fetch_add(stored.weight(), Ordering::Relaxed);
        self.unuse(gone);
    }

    /// Evicts responses until the rest fits.
    fn make_room(&self) {
        while self.used() > self.limits.memory {
            let next = lock(&self.queues).next();
            let Some(stored) = next else {
                return;
            };
            let mut part = self.part(&stored.key.text);
            if self.remove(&mut part, &stored) {
                self.keep_on_disk(&stored, now(), Waiting::Bounded);
            }
            drop(part);
            self.counts.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns false if it was already removed.
    fn remove(&self, part: &mut Part, stored: &Arc<Stored>) -> bool {
        let Some(variants) = part.responses.get_mut(&stored.key.text) else {
            return false;
        };
        let before = variants.len();
        variants.retain(|one| !Arc::ptr_eq(one, stored));
        let removed = before - variants.len();
        if variants.is_empty() {
            part.responses.remove(&stored.key.text);
        }
        assert!(removed <= 1, "a response was stored twice");
        assert!(removed <= part.live, "more responses went than there were");
        part.live -= removed;
        self.unuse(stored.weight() * removed);
        removed > 0
    }

    /// Removes responses, and prevents that those being fetched are stored. Returns the number removed.
    pub fn purge(&self, purge: &Purge) -> usize {
        let mut count = 0;
        match purge {
            Purge::Key(text) => {
                let mut part = self.part(text);
                part.purges.add(self.hash_text(text));
                let gone = part.responses.remove(text.as_slice()).unwrap_or_default();
                count += self.only_in_memory(&gone);
                self.let_go(&mut part, &gone);
            }
            _ => {
                for part in &self.parts {
                    count += self.purge_part(&mut lock(part), purge);
                }
            }
        }
        // After the parts: responses that they have just passed to the disk are found there.
        count += self.tier().map_or(0, |tier| tier.purge(purge));
        self.counts
            .purged
            .fetch_add(count as u64, Ordering::Relaxed);
        count
    }

    fn purge_part(&self, part: &mut Part, purge: &Purge) -> usize {
        let is_meant = |stored: &Stored| match purge {
            Purge::All => true,
            Purge::Key(text) => *stored.key.text == **text,
            Purge::Prefix(start) => stored.key.text.starts_with(start),
            Purge::Tag(tag) => stored.has_tag(tag),
        };
        part.purges.add_whole();
        let mut gone = Vec::new();
        part.responses.retain(|_, variants| {
            gone.extend(variants.extract_if(.., |one| is_meant(one)));
            !variants.is_empty()
        });
        if *purge == Purge::All {
            part.marks.clear();
        }
        let count = self.only_in_memory(&gone);
        self.let_go(part, &gone);
        count
    }

    /// Number of these responses that are not on disk, which counts its own.
    fn only_in_memory(&self, gone: &[Arc<Stored>]) -> usize {
        let is_on_disk =
            |one: &Stored| one.is_on_disk() && self.tier().is_some_and(|tier| tier.has_alike(one));
        gone.iter().filter(|one| !is_on_disk(one)).count()
    }

    fn let_go(&self, part: &mut Part, gone: &[Arc<Stored>]) {
        self.unuse(gone.iter().map(|one| one.weight()).sum());
        assert!(
            gone.len() <= part.live,
            "more responses went than there were"
        );
        part.live -= gone.len();
    }

    /// Releases this many bytes. A wrong count would let the store exceed its memory.
    fn unuse(&self, weight: usize) {
        let before = self.used.fetch_sub(weight, Ordering::Relaxed);
        assert!(before >= weight, "more bytes are free than were used");
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one((&key.text, &key.identity))
    }

    fn hash_text(&self, text: &[u8]) -> u64 {
        self.hasher.hash_one(text)
    }

    fn part(&self, text: &[u8]) -> MutexGuard<'_, Part> {
        // The index is below PARTS.
        let at = (self.hash_text(text) % PARTS as u64) as usize;
        // `parts` has PARTS elements.
        #[expect(clippy::indexing_slicing, reason = "the number is below PARTS")]
        lock(&self.parts[at])
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics between two changes that belong together.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests {
    use tutti_http::FieldLines;

    use super::*;
    use crate::{Freshness, Vary};

    pub(crate) fn key(text: &str) -> Key {
        Key::new(text.as_bytes().to_vec(), b"a", b"", std::iter::empty())
    }

    /// Arrived now, and fresh for a long time.
    pub(crate) fn fresh() -> Freshness {
        Freshness {
            received: 0,
            initial_age: 0,
            lifetime: 1000,
            stale_while_revalidate: 0,
            stale_if_error: 0,
            always_validates: false,
            is_assumed: false,
            allows_authorized: false,
        }
    }

    fn stored(text: &str, bytes: usize) -> Arc<Stored> {
        let head = (200, FieldLines::new());
        let stored = Stored::new(key(text), Vary::default(), head, fresh(), &[]);
        Arc::new(stored.with_body(vec![0; bytes].into()))
    }

    fn store() -> Arc<ResponseStore> {
        let limits = StoreLimits {
            memory: 100_000,
            object: 20_000,
            disk: None,
        };
        Arc::new(ResponseStore::new("one", limits))
    }

    fn has(store: &ResponseStore, text: &str) -> bool {
        let manner = LookupMode {
            may_wait: false,
            may_lead: false,
        };
        let found = store.find(&key(text), |_| Some(Vec::new()), |_| true, manner, 1);
        matches!(found, Found::Fresh(_))
    }

    #[test]
    fn responses_that_are_asked_for_again_outlive_a_crawler() {
        let store = store();
        for text in ["a", "b", "c"] {
            assert!(store.store(stored(text, 5000), 0) && has(&store, text));
        }
        for number in 0..200 {
            store.store(stored(&format!("crawled {number}"), 5000), 0);
            assert!(store.used() <= 100_000, "{}", store.used());
            for text in ["a", "b", "c"] {
                assert!(has(&store, text), "{text} after {number}");
            }
        }
        assert!(!has(&store, "crawled 0") && has(&store, "crawled 199"));
    }

    #[test]
    fn bytes_are_counted_through_replacements_and_purges() {
        let store = store();
        for _ in 0..100 {
            store.store(stored("a", 5000), 0);
        }
        assert_eq!(store.len(), 1);
        assert!(store.used() < 10_000, "{}", store.used());
        assert!(!store.store(stored("large", 20_001), 0));
        assert_eq!(store.purge(&Purge::Key(b"a".to_vec())), 1);
        assert_eq!((store.used(), store.len()), (0, 0));
        // The first was requested before the purge; the other is not covered.
        assert!(!store.store(stored("a", 10), 0));
        assert!(store.store(stored("b", 10), 0));
        assert!(store.store(stored("a", 10), store.epoch(&key("a"))));
        assert_eq!(store.purge(&Purge::All), 2);
        assert!(!store.store(stored("b", 10), 0));
        assert_eq!(store.used(), 0);
    }

    #[test]
    fn bodies_on_their_way_have_a_part_of_the_memory() {
        let store = store();
        let mut first = store.room();
        assert!(first.grow(15_000));
        let mut second = store.room();
        assert!(!second.grow(15_000));
        drop((first, second));
        assert!(store.room().grow(15_000));
    }

    #[test]
    fn one_request_leads_until_it_ends() {
        let store = store();
        let manner = LookupMode {
            may_wait: true,
            may_lead: true,
        };
        let find = || store.find(&key("a"), |_| Some(Vec::new()), |_| true, manner, 1);
        let Found::Lead(lead, None) = find() else {
            panic!("no other request is waiting");
        };
        assert!(matches!(find(), Found::Wait(_)));
        drop(lead);
        assert!(matches!(find(), Found::Lead(..)));
        store.mark(&key("a"), 1);
        assert!(matches!(find(), Found::Past));
    }
}
