//! The file of a store: a head, then segments, which are filled one after the other and reused in the same order. A segment contains one
//! record for each response: a head, metadata, the body.
//!
//! Everything except the head of the file is authenticated by HMAC-SHA256. The key is derived from the file's secret and a random number,
//! which is new each time a segment is begun: so old records are not valid in the new segment, and bytes inside a response cannot be forged
//! into a record. A record is read and checked whole, so a half-written or overwritten one is rejected.
//!
//! | where | bytes | |
//! |---|---|---|
//! | file | 8 | magic |
//! | | 4 | version |
//! | | 4 | number of segments |
//! | | 8 | bytes of a segment |
//! | | 32 | secret |
//! | | 32 | SHA-256 of all before |
//! | segment | 8 | magic |
//! | | 8 | sequence: of two segments the later has the higher |
//! | | 16 | number that is drawn |
//! | | 16 | seal |
//! | record | 4 | state: [`LIVE`], or deleted |
//! | | 4 | magic |
//! | | 4 | bytes of metadata |
//! | | 4 | bytes of body |
//! | | 16 | seal of place, lengths and metadata |
//! | | 16 | seal of place and body |
//!
//! Numbers are little-endian. Only the state is not authenticated: changing it can only lose a response.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The version of the layout; a file of another version is replaced.
const VERSION: u32 = 1;

const FILE_MAGIC: &[u8; 8] = b"TuttiCch";
const SEGMENT_MAGIC: &[u8; 8] = b"TuttiSeg";
const RECORD_MAGIC: &[u8; 4] = b"TRec";

/// The state of a valid record.
const LIVE: &[u8; 4] = b"Live";

/// Bytes before the first segment: one page.
pub(crate) const HEAD_BYTES: u64 = 4096;
/// Bytes of a segment before its first record.
pub(crate) const SEGMENT_HEAD_BYTES: u64 = 48;
/// Bytes of a record before its metadata.
pub(crate) const RECORD_HEAD_BYTES: usize = 48;
/// Bytes of the state, with which a record begins.
pub(crate) const STATE_BYTES: usize = 4;

/// Most bytes of metadata: heads and keys are not larger.
pub(crate) const MOST_METADATA: usize = 128 * 1024;

/// A segment is larger only if one record needs it: evicting small segments loses less at once.
const USUAL_SEGMENT: u64 = 64 << 20;

/// Number of segments of the usual size; one of them is evicted at a time.
const USUAL_SEGMENTS: u64 = 64;

type Tag = [u8; 16];

/// The segments of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Bytes of a segment.
    pub(crate) segment: u64,
    /// Number of segments.
    pub(crate) segments: u32,
}

impl Geometry {
    /// Divides a file of at most `size` bytes with bodies of at most `object`.
    pub(crate) fn new(size: u64, object: u64) -> Self {
        let room = size.saturating_sub(HEAD_BYTES);
        let record = object
            .saturating_add((RECORD_HEAD_BYTES + MOST_METADATA) as u64)
            .saturating_add(SEGMENT_HEAD_BYTES);
        let segment = (room / USUAL_SEGMENTS).min(USUAL_SEGMENT).max(record);
        let segments = u32::try_from(room / segment).unwrap_or(u32::MAX);
        Self { segment, segments }
    }

    /// The offset of a segment.
    pub(crate) fn start(&self, number: u32) -> u64 {
        HEAD_BYTES.saturating_add(u64::from(number).saturating_mul(self.segment))
    }

    fn is_sound(&self) -> bool {
        let whole = u64::from(self.segments).checked_mul(self.segment);
        self.segments > 0
            && self.segment > SEGMENT_HEAD_BYTES
            && whole.is_some_and(|whole| whole < 1 << 62)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    /// Its parts.
    pub(crate) geometry: Geometry,
    /// The secret that everything in it is sealed with.
    pub(crate) secret: [u8; 32],
}

impl FileHead {
    /// Its bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(FILE_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.geometry.segments.to_le_bytes());
        out.extend_from_slice(&self.geometry.segment.to_le_bytes());
        out.extend_from_slice(&self.secret);
        let sum = Sha256::digest(&out);
        out.extend_from_slice(&sum);
        out
    }

    /// Decodes the head at the beginning of these bytes; `None`: not a head of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let magic = reader.take(8)?;
        let version = reader.u32()?;
        let (segments, segment) = (reader.u32()?, reader.u64()?);
        let secret = reader.array()?;
        let sum: [u8; 32] = reader.array()?;
        let covered = bytes.get(..bytes.len() - reader.0.len() - sum.len())?;
        let geometry = Geometry { segment, segments };
        let is_right = magic == FILE_MAGIC
            && version == VERSION
            && Sha256::digest(covered).as_slice() == sum
            && geometry.is_sound();
        is_right.then_some(Self { geometry, secret })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    /// Higher in the later of two segments.
    pub(crate) sequence: u64,
    /// The random number of this segment.
    pub(crate) drawn: [u8; 16],
}

impl SegmentHead {
    /// Encodes the head of this segment.
    pub(crate) fn encode(&self, secret: &[u8; 32], number: u32) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(SEGMENT_MAGIC);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.drawn);
        let tag = self.tag(secret, number);
        out.extend_from_slice(&tag);
        out
    }

    /// Decodes the head at the beginning of these bytes; `None`: this segment has not been begun.
    pub(crate) fn decode(bytes: &[u8], secret: &[u8; 32], number: u32) -> Option<Self> {
        let mut reader = Reader(bytes);
        let magic = reader.take(8)?;
        let head = Self {
            sequence: reader.u64()?,
            drawn: reader.array()?,
        };
        let tag: Tag = reader.array()?;
        (magic == SEGMENT_MAGIC && tag == head.tag(secret, number)).then_some(head)
    }

    fn tag(&self, secret: &[u8; 32], number: u32) -> Tag {
        let parts: [&[u8]; 4] = [
            b"segment",
            &number.to_le_bytes(),
            &self.sequence.to_le_bytes(),
            &self.drawn,
        ];
        tag(mac(secret), &parts)
    }

    /// The seal of its records.
    pub(crate) fn seal(&self, secret: &[u8; 32], number: u32) -> Seal {
        let mut key = mac(secret);
        key.update(b"records");
        key.update(&number.to_le_bytes());
        key.update(&self.drawn);
        Seal(mac(&key.finalize().into_bytes().into()))
    }
}

/// The seal of the records of one segment.
#[derive(Clone, Debug)]
pub(crate) struct Seal(Hmac<Sha256>);

impl Seal {
    fn metadata(&self, place: u64, lengths: (u32, u32), metadata: &[u8]) -> Tag {
        let parts: [&[u8]; 5] = [
            b"metadata",
            &place.to_le_bytes(),
            &lengths.0.to_le_bytes(),
            &lengths.1.to_le_bytes(),
            metadata,
        ];
        tag(self.0.clone(), &parts)
    }

    fn body(&self, place: u64, body: &[u8]) -> Tag {
        tag(self.0.clone(), &[b"body", &place.to_le_bytes(), body])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    /// It has not been deleted.
    pub(crate) is_live: bool,
    /// Bytes of its metadata.
    pub(crate) metadata: u32,
    /// Bytes of its body.
    pub(crate) body: u32,
    metadata_tag: Tag,
    body_tag: Tag,
}

impl RecordHead {
    /// Encodes a live record at this place of the file, without its body; `None`: it is too large.
    pub(crate) fn encode(seal: &Seal, place: u64, metadata: &[u8], body: &[u8]) -> Option<Vec<u8>> {
        if metadata.len() > MOST_METADATA {
            return None;
        }
        let lengths = (metadata.len().try_into().ok()?, body.len().try_into().ok()?);
        let mut out = Vec::with_capacity(RECORD_HEAD_BYTES + metadata.len());
        out.extend_from_slice(LIVE);
        out.extend_from_slice(RECORD_MAGIC);
        out.extend_from_slice(&u32::to_le_bytes(lengths.0));
        out.extend_from_slice(&u32::to_le_bytes(lengths.1));
        out.extend_from_slice(&seal.metadata(place, lengths, metadata));
        out.extend_from_slice(&seal.body(place, body));
        out.extend_from_slice(metadata);
        Some(out)
    }

    /// Decodes the head at the beginning of these bytes. Check its content with [`seals`](Self::seals).
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let state = reader.take(STATE_BYTES)?;
        let magic = reader.take(4)?;
        let head = Self {
            is_live: state == LIVE,
            metadata: reader.u32()?,
            body: reader.u32()?,
            metadata_tag: reader.array()?,
            body_tag: reader.array()?,
        };
        (magic == RECORD_MAGIC && head.metadata as usize <= MOST_METADATA).then_some(head)
    }

    /// Bytes of the whole record.
    pub(crate) fn length(&self) -> u64 {
        RECORD_HEAD_BYTES as u64 + u64::from(self.metadata) + u64::from(self.body)
    }

    /// True if the record was written with these metadata at this place.
    pub(crate) fn seals(&self, seal: &Seal, place: u64, metadata: &[u8]) -> bool {
        metadata.len() == self.metadata as usize
            && seal.metadata(place, (self.metadata, self.body), metadata) == self.metadata_tag
    }

    /// True if the record was written with this body at this place.
    pub(crate) fn seals_body(&self, seal: &Seal, place: u64, body: &[u8]) -> bool {
        body.len() == self.body as usize && seal.body(place, body) == self.body_tag
    }
}

fn mac(key: &[u8; 32]) -> Hmac<Sha256> {
    // RFC 2104 §2: a key shorter than a block is padded with zeroes.
    let mut block = [0; 64];
    let (start, _) = block.split_at_mut(32);
    start.copy_from_slice(key);
    Hmac::new(&block.into())
}

fn tag(mut mac: Hmac<Sha256>, parts: &[&[u8]]) -> Tag {
    for part in parts {
        mac.update(part);
    }
    let whole: [u8; 32] = mac.finalize().into_bytes().into();
    let mut tag = [0; 16];
    for (byte, of) in tag.iter_mut().zip(whole) {
        *byte = of;
    }
    tag
}

/// Reads values from the beginning of bytes.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> FileHead {
        FileHead {
            geometry: Geometry::new(1 << 30, 16 << 20),
            secret: [7; 32],
        }
    }

    #[test]
    fn a_file_of_another_version_or_with_a_flipped_bit_is_ignored() {
        let bytes = head().encode();
        assert_eq!(FileHead::decode(&bytes), Some(head()));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHead::decode(&changed), None, "bit {bit}");
        }
        assert_eq!(FileHead::decode(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn the_parts_of_a_file_are_no_larger_than_all_of_it() {
        for (size, object) in [
            (4 << 20, 512 << 10),
            (1 << 30, 16 << 20),
            (1 << 40, 1 << 20),
        ] {
            let geometry = Geometry::new(size, object);
            assert!(geometry.start(geometry.segments) <= size, "{geometry:?}");
            assert!(geometry.segments >= 4 && geometry.segment > object);
        }
    }

    #[test]
    fn a_record_counts_at_its_place_in_its_segment_only() {
        let secret = head().secret;
        let segment = SegmentHead {
            sequence: 3,
            drawn: [1; 16],
        };
        let bytes = segment.encode(&secret, 5);
        assert_eq!(SegmentHead::decode(&bytes, &secret, 5), Some(segment));
        assert_eq!(SegmentHead::decode(&bytes, &secret, 6), None);
        let seal = segment.seal(&secret, 5);
        let record = RecordHead::encode(&seal, 100, b"metadata", b"body").unwrap();
        let read = RecordHead::decode(&record).unwrap();
        let metadata = &record[RECORD_HEAD_BYTES..];
        assert!(read.is_live && read.seals(&seal, 100, metadata));
        assert!(read.seals_body(&seal, 100, b"body"));
        assert!(!read.seals(&seal, 101, metadata) && !read.seals_body(&seal, 101, b"body"));
        assert!(!read.seals_body(&seal, 100, b"bodY"));
        let again = SegmentHead {
            drawn: [2; 16],
            ..segment
        };
        assert!(!read.seals(&again.seal(&secret, 5), 100, metadata));
        // Every bit except those of the state is authenticated.
        for bit in 8 * STATE_BYTES..record.len() * 8 {
            let mut changed = record.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let is_right = RecordHead::decode(&changed).is_some_and(|read| {
                read.seals(&seal, 100, &changed[RECORD_HEAD_BYTES..])
                    && read.seals_body(&seal, 100, b"body")
            });
            assert!(!is_right, "bit {bit}");
        }
    }
}
