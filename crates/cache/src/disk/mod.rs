//! The part of a store that is on disk: what its file looks like ([`format`]), and how the store in memory speaks with whoever reads and
//! writes that file ([`Tier`]). No I/O here.

mod format;
mod metadata;
mod tier;

pub use format::{
    FileHead, Geometry, HEAD_BYTES, MOST_METADATA, RECORD_HEAD_BYTES, RecordHead,
    SEGMENT_HEAD_BYTES, STATE_BYTES, Seal, SegmentHead,
};
pub use metadata::{read, write};
pub use tier::{Loaded, Tier, TierCounts, TierStatus};
