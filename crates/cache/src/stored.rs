//! A stored response.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tutti_http::{FieldLines, Known, format_date, list_members};

use crate::Millis;
use crate::clock::ClockReading;
use crate::freshness::Freshness;
use crate::key::Key;
use crate::vary::Vary;

/// A complete response, with what is needed to find it and to decide how it may be used.
#[derive(Debug)]
pub struct Stored {
    /// The key of its request.
    pub key: Key,
    /// The request fields that selected it.
    pub vary: Vary,
    /// Its status.
    pub status: u16,
    /// Its fields, without those of the connection and `Age`, and with `Date`.
    pub fields: FieldLines,
    /// Its body.
    pub body: Bytes,
    /// Decides how it may be used.
    pub freshness: Freshness,
    /// The tags that it is purged by.
    pub tags: Box<[Box<[u8]>]>,
    /// It has been used since the last eviction.
    is_visited: AtomicBool,
    /// The store on disk has it, or had it.
    is_on_disk: AtomicBool,
    /// The reservation for its body, if it is not in a store in memory.
    _room: Option<Box<dyn std::fmt::Debug + Send + Sync>>,
}

/// Bytes of overhead of a response in the store.
const OVERHEAD: usize = 512;

impl Stored {
    /// Makes a response that has just arrived. `tag_fields` are the names of the fields with its tags.
    pub fn new(
        key: Key,
        vary: Vary,
        (status, mut fields): (u16, FieldLines),
        freshness: Freshness,
        tag_fields: &[String],
    ) -> Self {
        fields.retain(|name, _| !is_left_out(name));
        if fields.get_all(b"Date").next().is_none() {
            fields.push(
                b"Date",
                &format_date(ClockReading::now().wall_at(freshness.received) / 1000),
            );
        }
        fields.shrink();
        let tags = tags(&fields, tag_fields);
        Self {
            is_on_disk: AtomicBool::new(false),
            ..Self::again(key, vary, (status, fields), freshness, tags)
        }
    }

    /// Makes a response that was stored before.
    pub(crate) fn again(
        key: Key,
        vary: Vary,
        (status, fields): (u16, FieldLines),
        freshness: Freshness,
        tags: Box<[Box<[u8]>]>,
    ) -> Self {
        Self {
            key,
            vary,
            status,
            fields,
            body: Bytes::new(),
            freshness,
            tags,
            is_visited: AtomicBool::new(false),
            is_on_disk: AtomicBool::new(true),
            _room: None,
        }
    }

    /// Replaces the body.
    pub fn with_body(self, body: Bytes) -> Self {
        Self { body, ..self }
    }

    /// Attaches the memory that was reserved for it outside a store.
    pub(crate) fn in_room(self, room: Box<dyn std::fmt::Debug + Send + Sync>) -> Self {
        Self {
            _room: Some(room),
            ..self
        }
    }

    /// True if it can neither be used nor validated any more.
    pub(crate) fn is_spent(&self, now: Millis) -> bool {
        self.freshness.last_use() < now
            && self.field("ETag").is_none()
            && self.field("Last-Modified").is_none()
    }

    pub(crate) fn note_on_disk(&self) {
        self.is_on_disk.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_on_disk(&self) -> bool {
        self.is_on_disk.load(Ordering::Relaxed)
    }

    /// The value of its first field of this name.
    pub fn field<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.fields.get_all(name.as_bytes()).next()
    }

    /// True if the same requests would get it.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.key.identity == other.key.identity && self.vary == other.vary
    }

    /// A number that is equal for responses that the same requests would get.
    pub fn variant(&self, hasher: &impl std::hash::BuildHasher) -> u64 {
        hasher.hash_one((&self.key.identity, &self.vary))
    }

    /// True if it has this tag.
    pub fn has_tag(&self, tag: &[u8]) -> bool {
        self.tags.iter().any(|one| **one == *tag)
    }

    /// Bytes of memory that it takes.
    pub fn weight(&self) -> usize {
        let key = self.key.text.len() + self.key.identity.len();
        let tags: usize = self.tags.iter().map(|tag| tag.len() + 16).sum();
        OVERHEAD + key + tags + self.vary.weight() + self.fields.capacity() + self.body.len()
    }

    pub(crate) fn note_use(&self) {
        if !self.is_visited.load(Ordering::Relaxed) {
            self.is_visited.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn take_visit(&self) -> bool {
        self.is_visited.swap(false, Ordering::Relaxed)
    }
}

/// Makes the response that a 304 has updated (RFC 9111 §3.2). `freshness` is computed from the updated fields.
pub fn freshened(
    stored: &Stored,
    fields: FieldLines,
    freshness: Freshness,
    tag_fields: &[String],
) -> Stored {
    let head = (stored.status, fields);
    let (key, vary) = (stored.key.clone(), stored.vary.clone());
    Stored::new(key, vary, head, freshness, tag_fields).with_body(stored.body.clone())
}

impl Stored {
    /// Its fields, updated by those of a 304. Fields that describe the content are kept, because the content was not sent again.
    pub fn updated_fields(&self, newer: &FieldLines) -> FieldLines {
        let is_kept = |name: &[u8]| {
            const CONTENT: [&str; 5] = [
                "content-length",
                "content-encoding",
                "content-range",
                "content-md5",
                "etag",
            ];
            let mut content = CONTENT.iter();
            content.any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        };
        let mut fields = self.fields.clone();
        fields.retain(|name, _| is_kept(name) || newer.get_all(name).next().is_none());
        for (name, value) in newer {
            if !is_kept(name) {
                fields.push(name, value);
            }
        }
        fields
    }
}

/// Fields that are not stored: those of the connection, and those computed for each use.
fn is_left_out(name: &[u8]) -> bool {
    let known = Known::from_name(name);
    matches!(
        known,
        Known::ContentLength
            | Known::TransferEncoding
            | Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::Te
            | Known::Trailer
            | Known::Upgrade
    ) || name.eq_ignore_ascii_case(b"age")
        || name.eq_ignore_ascii_case(b"proxy-authenticate")
        || name.eq_ignore_ascii_case(b"proxy-authentication-info")
}

/// Only the first tags of a response count.
const MOST_TAGS: usize = 256;

/// The tags, which are separated by spaces or commas.
fn tags(fields: &FieldLines, names: &[String]) -> Box<[Box<[u8]>]> {
    let values = names
        .iter()
        .flat_map(|name| fields.get_all(name.as_bytes()));
    let tags = values.flat_map(list_members).flat_map(|member| {
        let words = member.split(|byte| matches!(byte, b' ' | b'\t'));
        words.filter(|word| !word.is_empty())
    });
    tags.take(MOST_TAGS).map(Box::from).collect()
}

impl Stored {
    /// Its age in whole seconds, for `Age`.
    pub fn age_seconds(&self, now: Millis) -> u64 {
        self.freshness.age(now) / 1000
    }
}
