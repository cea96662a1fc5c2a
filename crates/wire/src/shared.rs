//! A mapped segment with its geometry: finds the parts that both sides use.
//!
//! The geometry is this process's own copy, so that indexes are checked against numbers that no other process can change.

use std::io;
use std::os::fd::BorrowedFd;

use crate::idle::{Idle, Wake, wake_one};
use crate::layout::{
    self, Geometry, HEAD_CAPACITY, HEAD_OFFSET, Header, Layout, MAGIC, MapHead, OLDEST,
    REQUEST_CAPACITY, REQUEST_OFFSET, RESPONSE_CAPACITY, RESPONSE_OFFSET, SLOT_STRIDE,
    STREAM_CAPACITY, STREAM_OFFSET, SlotControl, VERSION, WORKER_STRIDE, WorkerEntry,
};
use crate::map::Mapping;
use crate::queue::Queue;
use crate::slotmap::SlotMap;
use crate::span::SpanMut;
use crate::sync::{AtomicU32, AtomicU64, Futex, Ordering};
use crate::versions::Versions;

/// One of the plain-byte regions of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    Request,
    Head,
    Response,
    Stream,
}

#[derive(Debug)]
pub(crate) struct Shared {
    map: Mapping,
    pub(crate) geometry: Geometry,
}

impl Shared {
    /// Maps a new segment and writes its header.
    pub(crate) fn create(file: BorrowedFd<'_>, layout: &Layout) -> io::Result<Self> {
        let shared = Self {
            map: Mapping::new(file)?,
            geometry: Geometry::new(layout)?,
        };
        let geometry = &shared.geometry;
        if shared.map.length() != geometry.total_length {
            return Err(invalid("segment has the wrong length"));
        }
        let header = shared
            .header()
            .ok_or_else(|| invalid("segment has no header"))?;
        header.version.store(VERSION, Ordering::Relaxed);
        header.oldest.store(OLDEST, Ordering::Relaxed);
        let (words, longs) = geometry_words(header, geometry);
        for (word, value) in words {
            word.store(value, Ordering::Relaxed);
        }
        for (word, value) in longs {
            word.store(value, Ordering::Relaxed);
        }
        header.max_searching.store(1, Ordering::Relaxed);
        // Positions start at one: an empty cell, all zero, belongs to no position.
        header.queue_head.0.store(1, Ordering::Relaxed);
        header.queue_tail.0.store(1, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Maps an existing segment, on the worker's side.
    pub(crate) fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        let map = Mapping::new(file)?;
        let header: &Header = map.at(0).ok_or_else(|| invalid("segment has no header"))?;
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(invalid("not a segment: wrong magic number"));
        }
        let server = Versions {
            oldest: header.oldest.load(Ordering::Relaxed),
            newest: header.version.load(Ordering::Relaxed),
        };
        if !Versions::OWN.meet(server) {
            return Err(invalid(&Versions::refusal(server)));
        }
        let geometry = Geometry::new(&Layout {
            slots: header.slots.load(Ordering::Relaxed),
            workers: header.workers.load(Ordering::Relaxed),
            threads: header.threads.load(Ordering::Relaxed),
        })?;
        if map.length() != geometry.total_length || !has_geometry(header, &geometry) {
            return Err(invalid("segment's header contradicts its length"));
        }
        Ok(Self { map, geometry })
    }

    pub(crate) fn header(&self) -> Option<&Header> {
        self.map.at(0)
    }

    /// False if a word of the header is not what the router has written there: each worker can write it, and then no other can start.
    pub(crate) fn is_header_whole(&self) -> bool {
        self.header().is_some_and(|header| {
            header.magic.load(Ordering::Relaxed) == MAGIC
                && header.version.load(Ordering::Relaxed) == VERSION
                && header.oldest.load(Ordering::Relaxed) == OLDEST
                && has_geometry(header, &self.geometry)
        })
    }

    pub(crate) fn max_searching(&self) -> u32 {
        self.header()
            .map_or(1, |header| header.max_searching.load(Ordering::Relaxed))
    }

    pub(crate) fn worker(&self, worker: u32) -> Option<&WorkerEntry> {
        if worker >= self.geometry.layout.workers {
            return None;
        }
        self.map
            .at(self.geometry.worker_offset + u64::from(worker) * WORKER_STRIDE)
    }

    pub(crate) fn wake_word(&self, worker: u32) -> Option<&Futex> {
        self.worker(worker).map(|entry| &entry.wake.0)
    }

    pub(crate) fn idle(&self) -> Idle<'_> {
        let pairs = self.geometry.idle_pairs as usize;
        Idle {
            pairs: self
                .map
                .slice(self.geometry.idle_offset, pairs)
                .unwrap_or(&[]),
        }
    }

    /// `None` only when the mapping is shorter than its geometry, which `open` has excluded.
    pub(crate) fn queue(&self) -> Option<Queue<'_>> {
        let header = self.header()?;
        let cells = self.geometry.queue_cells as usize;
        Some(Queue {
            head: &header.queue_head.0,
            tail: &header.queue_tail.0,
            cells: self.map.slice(self.geometry.queue_offset, cells)?,
        })
    }

    /// The completions for a router thread, written by workers.
    pub(crate) fn completions(&self, thread: u32) -> Option<SlotMap<'_>> {
        if thread >= self.geometry.layout.threads {
            return None;
        }
        self.slot_map(self.geometry.completion_offset, thread)
    }

    /// The attention map of a worker with an event loop, written by the router.
    pub(crate) fn attention(&self, worker: u32) -> Option<SlotMap<'_>> {
        if worker >= self.geometry.layout.workers {
            return None;
        }
        self.slot_map(self.geometry.attention_offset, worker)
    }

    fn slot_map(&self, first: u64, index: u32) -> Option<SlotMap<'_>> {
        let start = first + u64::from(index) * self.geometry.map_stride;
        let head: &MapHead = self.map.at(start)?;
        let summaries = self.geometry.map_summaries as usize;
        let rows = self.map.slice(
            start + size_of::<MapHead>() as u64,
            summaries + self.geometry.map_words as usize,
        )?;
        let (summaries, words) = rows.split_at_checked(summaries)?;
        Some(SlotMap {
            flag: &head.flag,
            summaries,
            words,
        })
    }

    fn slot_start(&self, slot: u32) -> Option<u64> {
        (slot < self.geometry.layout.slots)
            .then(|| self.geometry.slot_offset + u64::from(slot) * u64::from(SLOT_STRIDE))
    }

    pub(crate) fn slot(&self, slot: u32) -> Option<&SlotControl> {
        self.map.at(self.slot_start(slot)?)
    }

    pub(crate) fn state(&self, slot: u32) -> Option<&AtomicU64> {
        self.slot(slot).map(|control| &control.state)
    }

    pub(crate) fn region(&self, slot: u32, region: Region) -> Option<SpanMut<'_>> {
        let start = self.slot_start(slot)?;
        let (offset, length) = match region {
            Region::Request => (REQUEST_OFFSET, REQUEST_CAPACITY),
            Region::Head => (HEAD_OFFSET, HEAD_CAPACITY),
            Region::Response => (RESPONSE_OFFSET, RESPONSE_CAPACITY),
            Region::Stream => (STREAM_OFFSET, STREAM_CAPACITY),
        };
        self.map.bytes(start + u64::from(offset), length)
    }

    /// Prefetches the router's words and a usual record, to read them after a claim. (Prefetching them before they are written, with
    /// PREFETCHW, made a round trip slower when measured.)
    pub(crate) fn prefetch_request(&self, slot: u32) {
        if let Some(start) = self.slot_start(slot)
            && let Some(bytes) = self.map.bytes(start + 64, 1024)
        {
            bytes.prefetch();
        }
    }

    /// Prefetches the worker's words, a usual head and the start of the body.
    pub(crate) fn prefetch_response(&self, slot: u32) {
        let Some(start) = self.slot_start(slot) else {
            return;
        };
        for (offset, length) in [(0, 64), (HEAD_OFFSET, 256), (RESPONSE_OFFSET, 128)] {
            if let Some(bytes) = self.map.bytes(start + u64::from(offset), length) {
                bytes.prefetch();
            }
        }
    }

    /// Returns a slot's pages to the system; only for unused slots.
    pub(crate) fn discard_slot(&self, slot: u32) {
        if let Some(start) = self.slot_start(slot) {
            self.map.discard(start, SLOT_STRIDE);
        }
    }

    /// Wakes a worker for work that has been published. `ring` writes a worker's event.
    pub(crate) fn wake_one(&self, max_searching: u32, ring: impl Fn(u32)) -> Wake {
        wake_one(
            &self.idle(),
            max_searching,
            |worker| self.wake_word(worker),
            ring,
        )
    }

    /// The whole segment as bytes, for tests that write at random.
    #[cfg(any(test, fuzzing, simulated))]
    pub(crate) fn raw(&self) -> Option<SpanMut<'_>> {
        self.map
            .bytes(0, u32::try_from(self.geometry.total_length).ok()?)
    }
}

type Words<'h> = [(&'h AtomicU32, u32); 10];
type LongWords<'h> = [(&'h AtomicU64, u64); 7];

/// The words of the header that describe the geometry, each with its value.
fn geometry_words<'h>(header: &'h Header, geometry: &Geometry) -> (Words<'h>, LongWords<'h>) {
    let layout = &geometry.layout;
    let words = [
        (&header.header_length, layout::HEADER_LENGTH as u32),
        (&header.slots, layout.slots),
        (&header.workers, layout.workers),
        (&header.threads, layout.threads),
        (&header.queue_cells, geometry.queue_cells),
        (&header.slot_stride, SLOT_STRIDE),
        (&header.request_capacity, REQUEST_CAPACITY),
        (&header.head_capacity, HEAD_CAPACITY),
        (&header.response_capacity, RESPONSE_CAPACITY),
        (&header.stream_capacity, STREAM_CAPACITY),
    ];
    let longs = [
        (&header.total_length, geometry.total_length),
        (&header.worker_offset, geometry.worker_offset),
        (&header.idle_offset, geometry.idle_offset),
        (&header.queue_offset, geometry.queue_offset),
        (&header.completion_offset, geometry.completion_offset),
        (&header.slot_offset, geometry.slot_offset),
        (&header.attention_offset, geometry.attention_offset),
    ];
    (words, longs)
}

fn has_geometry(header: &Header, geometry: &Geometry) -> bool {
    let (words, longs) = geometry_words(header, geometry);
    let are_words = |(word, value): (&AtomicU32, u32)| word.load(Ordering::Relaxed) == value;
    let are_longs = |(word, value): (&AtomicU64, u64)| word.load(Ordering::Relaxed) == value;
    words.into_iter().all(are_words) && longs.into_iter().all(are_longs)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
