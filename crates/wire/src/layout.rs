//! The layout of a segment. Its text form is `spec/wire.md`; the golden test below keeps both consistent.
//!
//! Words written by different parties never share a 64-byte line, and hot words are 128 bytes apart (adjacent-line prefetch). Every field
//! is an atomic: the other side may change it at any time.

use std::io;
use std::mem::size_of;

use crate::idle::IdlePair;
use crate::sync::{AtomicU32, AtomicU64, Futex};

/// `TUTTIWIR` in ASCII, read as a native-endian number.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"TUTTIWIR");
/// The version of the wire: it goes up with every change (`spec/wire.md`, 11).
pub const VERSION: u32 = 4;
/// The oldest version of a peer that this one works with: it becomes [`VERSION`] with a change that a peer cannot ignore.
pub const OLDEST: u32 = 4;
/// Most slots. Each exchange in progress needs one, including WebSocket connections; a map over this many has 16 summaries.
pub const MAX_SLOTS: u32 = 65_536;
/// Most workers of one application (16 bits in the slot state would allow more; the idle scan would grow).
pub const MAX_WORKERS: u32 = 4096;
/// Most router threads.
pub const MAX_THREADS: u32 = 256;

/// The header takes one page.
pub const HEADER_LENGTH: u64 = 4096;
/// The control words at the start of a slot.
pub const CONTROL_LENGTH: u32 = 256;
/// The encoded request, directly behind the control words: a small request touches one page.
pub const REQUEST_CAPACITY: u32 = 32 * 1024 - CONTROL_LENGTH;
/// The encoded response head. PHP sends a few hundred bytes; larger heads go through the ring.
pub const HEAD_CAPACITY: u32 = 16 * 1024;
/// The response ring; a power of two.
pub const RESPONSE_CAPACITY: u32 = 64 * 1024;
/// The ring of a streamed request body; a power of two.
pub const STREAM_CAPACITY: u32 = 64 * 1024;

/// Offsets inside a slot.
pub const REQUEST_OFFSET: u32 = CONTROL_LENGTH;
/// See [`REQUEST_OFFSET`].
pub const HEAD_OFFSET: u32 = REQUEST_OFFSET + REQUEST_CAPACITY;
/// See [`REQUEST_OFFSET`].
pub const RESPONSE_OFFSET: u32 = HEAD_OFFSET + HEAD_CAPACITY;
/// See [`REQUEST_OFFSET`].
pub const STREAM_OFFSET: u32 = RESPONSE_OFFSET + RESPONSE_CAPACITY;
/// The distance from one slot to the next: whole pages.
pub const SLOT_STRIDE: u32 = STREAM_OFFSET + STREAM_CAPACITY;

/// The size of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Layout {
    /// Requests that can be queued or running at once; 1 to 65,536.
    pub slots: u32,
    /// Most workers, each a thread of a process; 1 to 4096.
    pub workers: u32,
    /// Router threads; 1 to 256.
    pub threads: u32,
}

/// A word alone on its two lines.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// The start of a segment. Written by the router before any worker sees it, except `queue_head`.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) header_length: AtomicU32,
    pub(crate) total_length: AtomicU64,
    pub(crate) slots: AtomicU32,
    pub(crate) workers: AtomicU32,
    pub(crate) threads: AtomicU32,
    pub(crate) queue_cells: AtomicU32,
    pub(crate) slot_stride: AtomicU32,
    pub(crate) request_capacity: AtomicU32,
    pub(crate) head_capacity: AtomicU32,
    pub(crate) response_capacity: AtomicU32,
    pub(crate) stream_capacity: AtomicU32,
    pub(crate) max_searching: AtomicU32,
    pub(crate) worker_offset: AtomicU64,
    pub(crate) idle_offset: AtomicU64,
    pub(crate) queue_offset: AtomicU64,
    pub(crate) completion_offset: AtomicU64,
    pub(crate) slot_offset: AtomicU64,
    pub(crate) attention_offset: AtomicU64,
    /// With `version`: see `versions`.
    pub(crate) oldest: AtomicU32,
    pub(crate) reserved: AtomicU32,
    pub(crate) queue_head: Line<AtomicU64>,
    pub(crate) queue_tail: Line<AtomicU64>,
}

/// One line of the worker table.
#[repr(C)]
pub(crate) struct WorkerEntry {
    /// Written by wakers and the worker: see `idle`.
    pub(crate) wake: Line<Futex>,
    /// Written by the router only.
    pub(crate) control: WorkerControl,
    /// Written by the worker only.
    pub(crate) report: WorkerReport,
}

/// The words that the router writes for a worker.
#[repr(C, align(64))]
pub(crate) struct WorkerControl {
    pub(crate) quit: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// Requests after which the worker ends; 0: unlimited. May change while it runs.
    pub(crate) request_limit: AtomicU64,
    /// 1: the worker does not preempt others when it is woken (`class`). May change while it runs.
    pub(crate) is_batch: AtomicU32,
    pub(crate) reserved: AtomicU32,
}

/// The words that a worker writes about itself.
#[repr(C, align(64))]
pub(crate) struct WorkerReport {
    /// 0, [`READY`], [`LEAVING`] or [`HANDING_OVER`].
    pub(crate) ready: AtomicU32,
    /// 0, or [`MODE_LOOP`].
    pub(crate) wake_mode: AtomicU32,
    /// The slot being served plus one; 0 for none.
    pub(crate) current: AtomicU32,
    /// Event loops: open exchanges.
    pub(crate) open: AtomicU32,
    /// Requests claimed since it started.
    pub(crate) requests: AtomicU64,
    /// CLOCK_MONOTONIC milliseconds of its last change between idle and busy.
    pub(crate) since_ms: AtomicU64,
    /// Event loops: number of checks for work.
    pub(crate) looks: AtomicU64,
}

/// The start of a slot map (`slotmap`): summaries and bitmap words follow. Setting a mark touches all of it, and low slots are the busy
/// ones: their bits share the line.
#[repr(C, align(8))]
pub(crate) struct MapHead {
    pub(crate) flag: AtomicU32,
    pub(crate) reserved: AtomicU32,
}

/// The control words of a slot. The state shares the worker's line: the claimer of the slot needs both, and a reader of one reads the
/// other.
#[repr(C)]
pub(crate) struct SlotControl {
    /// Written by router and worker: see `state`.
    pub(crate) state: AtomicU64,
    /// Written by the worker only, from the claim on; meaningless before the state is `Begun`.
    pub(crate) worker: SlotWorker,
    /// Written by the router only.
    pub(crate) router: SlotRouter,
    /// Why the worker waits: see `ring`.
    pub(crate) worker_waits: Line<Futex>,
}

/// The words that the router writes in a slot.
#[repr(C, align(64))]
pub(crate) struct SlotRouter {
    /// The router thread to notify.
    pub(crate) thread: AtomicU32,
    /// 1 if the response is not needed any more.
    pub(crate) client_gone: AtomicU32,
    pub(crate) response_consumed: AtomicU64,
    pub(crate) stream_written: AtomicU64,
    /// 1 when `stream_written` is final.
    pub(crate) stream_finished: AtomicU32,
    /// 1 while the router waits for room in the stream ring.
    pub(crate) router_waits: AtomicU32,
    /// 0: the record is in the request region. 1: in the spool file at `spool_offset`, `request_length` bytes.
    pub(crate) request_place: AtomicU32,
    pub(crate) request_length: AtomicU32,
    pub(crate) spool_offset: AtomicU64,
}

/// The words that the worker writes in a slot.
#[repr(C)]
pub(crate) struct SlotWorker {
    pub(crate) response_written: AtomicU64,
    pub(crate) stream_consumed: AtomicU64,
    /// 0 no head yet, 1 in the head area, 2 at the start of the ring.
    pub(crate) head_place: AtomicU32,
    pub(crate) head_length: AtomicU32,
    pub(crate) head_fields: AtomicU32,
    pub(crate) status: AtomicU32,
    /// 0 running, 1 complete, 2 aborted by the worker.
    pub(crate) end: AtomicU32,
    /// Bytes of trailer fields, after the head in the head area.
    pub(crate) trailers_length: AtomicU32,
    /// CLOCK_MONOTONIC microseconds when the worker took the request; 0 if the worker does not report it.
    pub(crate) begun_us: AtomicU64,
    /// Bytes of interim answers, at the start of the head area.
    pub(crate) interims_length: AtomicU32,
    pub(crate) reserved: AtomicU32,
}

pub(crate) const READY: u32 = 1;
pub(crate) const LEAVING: u32 = 2;
pub(crate) const HANDING_OVER: u32 = 3;
pub(crate) const MODE_LOOP: u32 = 1;
pub(crate) const HEAD_NONE: u32 = 0;
pub(crate) const HEAD_INLINE: u32 = 1;
pub(crate) const HEAD_IN_RING: u32 = 2;
pub(crate) const END_COMPLETE: u32 = 1;
pub(crate) const END_ABORTED: u32 = 2;
pub(crate) const PLACE_INLINE: u32 = 0;
pub(crate) const PLACE_SPOOL: u32 = 1;

/// Offsets computed from a [`Layout`]; each side keeps its own copy and never reads them from the segment again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The layout that it was computed from.
    pub layout: Layout,
    /// Cells of the queue: a power of two, at least four times the slots.
    pub queue_cells: u32,
    /// Groups of idle words, one for 64 workers.
    pub idle_pairs: u32,
    /// Bitmap words of a slot map.
    pub map_words: u32,
    /// Summary words of a slot map.
    pub map_summaries: u32,
    /// Bytes of a slot map.
    pub map_stride: u64,
    /// Start of the worker table.
    pub worker_offset: u64,
    /// Start of the idle words.
    pub idle_offset: u64,
    /// Start of the queue cells.
    pub queue_offset: u64,
    /// Start of the completions: a slot map per router thread.
    pub completion_offset: u64,
    /// Start of the attention maps: a slot map per worker.
    pub attention_offset: u64,
    /// Start of the slots.
    pub slot_offset: u64,
    /// Length of the segment.
    pub total_length: u64,
}

impl Geometry {
    /// Lays a segment out. Errors with `InvalidInput` when a count is out of range.
    pub fn new(layout: &Layout) -> io::Result<Self> {
        let in_range = |value: u32, most: u32| (1..=most).contains(&value);
        if !in_range(layout.slots, MAX_SLOTS)
            || !in_range(layout.workers, MAX_WORKERS)
            || !in_range(layout.threads, MAX_THREADS)
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("segment of {layout:?} is out of range"),
            ));
        }
        let queue_cells = (layout.slots * 4).next_power_of_two().max(256);
        let idle_pairs = layout.workers.div_ceil(64);
        let map_words = layout.slots.div_ceil(64);
        let map_summaries = map_words.div_ceil(64);
        let map_stride = align(
            size_of::<MapHead>() as u64 + u64::from(map_summaries + map_words) * 8,
            128,
        );
        let worker_offset = HEADER_LENGTH;
        let idle_offset = worker_offset + u64::from(layout.workers) * WORKER_STRIDE;
        let queue_offset = align(
            idle_offset + u64::from(idle_pairs) * size_of::<IdlePair>() as u64,
            128,
        );
        let completion_offset = align(queue_offset + u64::from(queue_cells) * 8, 128);
        let attention_offset = completion_offset + map_stride * u64::from(layout.threads);
        let slot_offset = align(
            attention_offset + map_stride * u64::from(layout.workers),
            4096,
        );
        // A cell is live as long as its slot is queued, so the ring must never overwrite a live one.
        assert!(queue_cells.is_power_of_two() && queue_cells >= layout.slots * 4);
        assert!(u64::from(map_words) * 64 >= u64::from(layout.slots));
        assert!(u64::from(map_summaries) * 64 >= u64::from(map_words));
        assert!(slot_offset >= attention_offset + map_stride * u64::from(layout.workers));
        assert!(slot_offset.is_multiple_of(4096));
        Ok(Self {
            layout: *layout,
            queue_cells,
            idle_pairs,
            map_words,
            map_summaries,
            map_stride,
            worker_offset,
            idle_offset,
            queue_offset,
            completion_offset,
            attention_offset,
            slot_offset,
            total_length: slot_offset + u64::from(layout.slots) * u64::from(SLOT_STRIDE),
        })
    }
}

/// Bytes per worker in the table.
pub const WORKER_STRIDE: u64 = size_of::<WorkerEntry>() as u64;

const fn align(value: u64, to: u64) -> u64 {
    value.div_ceil(to) * to
}

const _: () = {
    assert!(size_of::<Header>() as u64 <= HEADER_LENGTH);
    assert!(size_of::<SlotControl>() as u32 == CONTROL_LENGTH);
    assert!(size_of::<IdlePair>() == 32);
    assert!(size_of::<MapHead>() == 8);
    assert!(WORKER_STRIDE == 256);
    assert!(SLOT_STRIDE.is_multiple_of(4096));
    assert!(RESPONSE_CAPACITY.is_power_of_two());
    assert!(STREAM_CAPACITY.is_power_of_two());
    assert!(
        MAX_SLOTS < 1 << 24,
        "a cell of the queue has 24 bits for the slot"
    );
    assert!(MAX_WORKERS <= 1 << 16, "a state has 16 bits for the worker");
};
