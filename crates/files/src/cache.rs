//! The files that one listen thread has open or in memory: metadata, prepared header fields, and bytes or a descriptor.
//!
//! *Freshness.* A file that is requested rarely is compared with the file system (one `statx`) at every request, so a change is seen at
//! once. For a file with at least [`HOT_HITS`] requests within [`TRUST`], that comparison is skipped for [`TRUST`]: at that rate the
//! `statx` would be a tenth of the cost of a request, and neither a person nor a deployment script can notice 50 ms. The same rule applies
//! to missing paths (a front controller looks for the same missing file at every request). *Identity* is device, inode, size, modification
//! and change time in nanoseconds.
//!
//! *Limits.* Two generations: when the young one is full it becomes the old one, and the old one is dropped; a used entry moves to the
//! young one. So lookups are O(1) and no more than [`CacheLimits`] is held. An entry in use by a response lives until that has ended.
//!
//! Must never: block on a FIFO or device, serve bytes of one version under the validators of another, or hold a descriptor of anything but
//! a regular file.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use rustix::fs::{FileType, Statx};
use rustix::io::Errno;
use tutti_config::model::{Compressor, Encoding};
use tutti_http::FieldLines;

use super::mime::MimeTypes;
use super::share_path::{SharePath, stat_open};
use crate::compression::{compress, push_field};
use crate::dates::unix_seconds;

/// A time on a monotonic clock, in milliseconds.
pub type Millis = u64;

/// Time for which a hot entry is used without a comparison.
const TRUST: Millis = 50;

/// Requests within [`TRUST`] that make an entry hot: 320 a second.
const HOT_HITS: u32 = 16;

/// Most missing paths remembered per thread.
const MISSING_PATHS: usize = 1024;

/// Largest file kept in memory; larger ones keep a descriptor and are sent by `sendfile`. Copying this much costs about as much as the
/// second system call of `sendfile`.
pub const SMALL_FILE_BYTES: u64 = 32 * 1024;

/// Reads of a small file that is changed each time.
const MOST_READS: u32 = 3;

/// Compressed representations kept per file: one for each encoding, unless levels change.
const COMPRESSED_KEPT: usize = 4;

/// Limits of one thread's cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// Bytes of names, fields and contents.
    pub bytes: usize,
    /// Number of files.
    pub files: usize,
    /// Number of open files.
    pub descriptors: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            bytes: 16 * 1024 * 1024,
            files: 8192,
            descriptors: 64,
        }
    }
}

/// Where a file's bytes are.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Bytes(Box<[u8]>),
    /// Behind a descriptor.
    Descriptor(Rc<OwnedFd>),
}

/// A regular file as of its last validation.
#[derive(Debug)]
pub struct CachedFile {
    identity: Identity,
    /// Bytes.
    pub size: u64,
    /// Modification time, seconds since the epoch.
    pub modified: u64,
    /// Entity tag with its quotes: `MTIME-SIZE` in hexadecimal, Unit's documented form. Weak while the file may still get other content
    /// under it.
    pub etag: Box<[u8]>,
    /// MIME type, if known.
    pub mime: Option<Box<str>>,
    /// `Last-Modified` and `ETag`.
    pub validators: FieldLines,
    /// The fields of a plain 200: type, validators and length.
    pub fields: FieldLines,
    /// Its bytes.
    pub content: Content,
    /// The compressed forms; `None` where that is not shorter. At most one for each configured method, each shorter than `content`.
    compressed: RefCell<Vec<Compressed>>,
    /// The file as the precompressed form of another file, with the encoding and the type of that file. At most one.
    sibling: RefCell<Option<Sibling>>,
    /// The file with another type. At most one.
    typed: RefCell<Option<Rc<CachedFile>>>,
}

/// A file as the precompressed form of another: its encoding, the type of the other, and what is sent.
#[derive(Debug)]
struct Sibling {
    encoding: Encoding,
    mime: Option<Box<str>>,
    file: Rc<CachedFile>,
}

/// A file compressed by this method; `None` if that is not shorter.
type Compressed = (Compressor, Option<Rc<CachedFile>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: (u32, u32),
    inode: u64,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

/// The result of looking up a path.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// A file that can be served.
    File(Rc<CachedFile>),
    /// A folder.
    Directory,
    /// Nothing there, or neither file nor directory: a socket, a FIFO, a device (404).
    Missing,
    /// No permission, or a loop of symbolic links (403).
    Forbidden,
    /// A system error: no free descriptor, an I/O error, or a file that changes whenever it is read; to be logged.
    Failed(Errno),
}

struct Entry {
    file: Rc<CachedFile>,
    heat: Heat,
}

/// Counts the requests for an entry since it was last compared with the file system.
#[derive(Clone, Copy)]
struct Heat {
    validated: Millis,
    hits: u32,
    was_hot: bool,
}

impl Heat {
    fn new(now: Millis) -> Self {
        Self {
            validated: now,
            hits: 0,
            was_hot: false,
        }
    }

    /// Counts a request; true if the entry may be used without a comparison.
    fn is_trusted(&mut self, now: Millis) -> bool {
        self.hits = self.hits.saturating_add(1);
        now.wrapping_sub(self.validated) < TRUST && (self.was_hot || self.hits > HOT_HITS)
    }

    /// Notes a comparison with the file system. A cold entry is compared at every request, and its window continues.
    fn validated(&mut self, now: Millis) {
        if now.wrapping_sub(self.validated) >= TRUST {
            self.was_hot = self.hits > HOT_HITS && now.wrapping_sub(self.validated) < 2 * TRUST;
            self.hits = 0;
            self.validated = now;
        }
    }
}

#[derive(Default)]
struct Generation {
    entries: FxHashMap<Box<[u8]>, Entry>,
    bytes: usize,
    descriptors: usize,
}

/// The cache of one thread.
pub struct FileCache {
    limits: CacheLimits,
    /// The types of its files.
    mime: RefCell<Arc<MimeTypes>>,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    young: Generation,
    old: Generation,
    missing: FxHashMap<Box<[u8]>, Heat>,
}

impl FileCache {
    /// An empty cache within these bounds, for files with these types.
    pub fn new(limits: CacheLimits, mime: Arc<MimeTypes>) -> Self {
        Self {
            limits,
            mime: RefCell::new(mime),
            inner: RefCell::default(),
        }
    }

    /// Sets the types of the files; drops everything if they have changed.
    pub fn set_types(&self, mime: &Arc<MimeTypes>) {
        if !Arc::ptr_eq(&self.mime.borrow(), mime) {
            *self.mime.borrow_mut() = Arc::clone(mime);
            *self.inner.borrow_mut() = Inner::default();
        }
    }

    /// Looks `place` up, following symbolic links. Nothing is kept if the types are not those of the cache: the request began before they
    /// changed.
    pub fn lookup<'p>(
        &self,
        place: impl Into<SharePath<'p>>,
        mime: &Arc<MimeTypes>,
        now: Millis,
    ) -> Lookup {
        let place = place.into();
        if !Arc::ptr_eq(&self.mime.borrow(), mime) {
            return FileCache::new(self.limits, Arc::clone(mime)).lookup(place, mime, now);
        }
        let key = place.key();
        let path = &*key;
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        if let Some(entry) = inner.young.entries.get_mut(path)
            && entry.heat.is_trusted(now)
        {
            return Lookup::File(Rc::clone(&entry.file));
        }
        if let Some(heat) = inner.missing.get_mut(path)
            && heat.is_trusted(now)
        {
            return Lookup::Missing;
        }
        let found = place.stat();
        match &found {
            Ok(stat) if is_regular(stat) => {
                inner.missing.remove(path);
                self.file(inner, (path, &place), stat, mime, now)
            }
            Ok(stat) => {
                inner.forget(path);
                if FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::Directory {
                    Lookup::Directory
                } else {
                    Lookup::Missing
                }
            }
            Err(errno) => {
                inner.forget(path);
                let outcome = outcome_of(*errno);
                if matches!(outcome, Lookup::Missing) {
                    inner.note_missing(path, now);
                }
                outcome
            }
        }
    }

    fn file(
        &self,
        inner: &mut Inner,
        (path, place): (&[u8], &SharePath<'_>),
        stat: &Statx,
        mime: &MimeTypes,
        now: Millis,
    ) -> Lookup {
        let identity = Identity::of(stat);
        if let Some(entry) = inner.young.entries.get_mut(path) {
            if entry.file.identity == identity && !entry.file.is_outgrown() {
                entry.heat.validated(now);
                return Lookup::File(Rc::clone(&entry.file));
            }
            inner.forget(path);
        } else if let Some((key, entry)) = inner.old.entries.remove_entry(path)
            && entry.file.identity == identity
            && !entry.file.is_outgrown()
        {
            let file = Rc::clone(&entry.file);
            self.insert(inner, key, entry);
            return Lookup::File(file);
        }
        match load(place, mime) {
            Ok(Loaded { file, keep }) => {
                let file = Rc::new(file);
                if keep {
                    self.insert(
                        inner,
                        path.into(),
                        Entry {
                            file: Rc::clone(&file),
                            heat: Heat::new(now),
                        },
                    );
                }
                Lookup::File(file)
            }
            Err(errno) => outcome_of(errno),
        }
    }

    fn insert(&self, inner: &mut Inner, key: Box<[u8]>, entry: Entry) {
        let (bytes, descriptors) = entry.weight(&key);
        let young = &inner.young;
        let full = young.bytes + bytes > self.limits.bytes / 2
            || young.entries.len() >= self.limits.files / 2
            || young.descriptors + descriptors > self.limits.descriptors / 2;
        if full {
            inner.old = std::mem::take(&mut inner.young);
        }
        inner.young.bytes += bytes;
        inner.young.descriptors += descriptors;
        inner.young.entries.insert(key, entry);
    }
}

impl Entry {
    /// Bytes of memory and descriptors held.
    fn weight(&self, key: &[u8]) -> (usize, usize) {
        let overhead = key.len()
            + self.file.fields.capacity()
            + self.file.validators.capacity()
            + size_of::<CachedFile>();
        match &self.file.content {
            Content::Bytes(bytes) => (bytes.len() + overhead, 0),
            Content::Descriptor(_) => (overhead, 1),
        }
    }
}

impl Inner {
    fn forget(&mut self, path: &[u8]) {
        if let Some((key, entry)) = self.young.entries.remove_entry(path) {
            let (bytes, descriptors) = entry.weight(&key);
            self.young.bytes = self.young.bytes.saturating_sub(bytes);
            self.young.descriptors = self.young.descriptors.saturating_sub(descriptors);
        }
        self.old.entries.remove(path);
    }

    fn note_missing(&mut self, path: &[u8], now: Millis) {
        if let Some(heat) = self.missing.get_mut(path) {
            heat.validated(now);
            return;
        }
        if self.missing.len() >= MISSING_PATHS {
            self.missing.clear();
        }
        self.missing.insert(path.into(), Heat::new(now));
    }
}

impl Identity {
    fn of(stat: &Statx) -> Self {
        Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }

    /// True if the file changed so recently that another change could leave the same times: the kernel stamps files with the tick (at most
    /// 10 ms), and the clock here is the same coarse one. Such a file is read again at the next request.
    fn is_recent(&self) -> bool {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        let age = |(seconds, nanoseconds): (i64, u32)| {
            now.tv_sec.saturating_sub(seconds).saturating_mul(1000)
                + (now.tv_nsec - i64::from(nanoseconds)) / 1_000_000
        };
        age(self.modified).min(age(self.changed)) < 20
    }
}

fn outcome_of(errno: Errno) -> Lookup {
    match errno {
        // The last two: the file has become a socket, or a device without a driver.
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::NAMETOOLONG
        | Errno::INVAL
        | Errno::NXIO
        | Errno::NODEV => Lookup::Missing,
        Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::XDEV => Lookup::Forbidden,
        other => Lookup::Failed(other),
    }
}

fn is_regular(stat: &Statx) -> bool {
    FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::RegularFile
}

struct Loaded {
    file: CachedFile,
    keep: bool,
}

/// Opens and reads a file that `stat` reported as regular. `O_NONBLOCK` and the second check of the type are for a file that was replaced
/// in between.
fn load(place: &SharePath<'_>, mime: &MimeTypes) -> Result<Loaded, Errno> {
    let descriptor = place.open()?;
    let stat = stat_open(&descriptor)?;
    if !is_regular(&stat) {
        return Err(Errno::NOENT);
    }
    let FileVersion { identity, bytes } =
        read_one_version(&descriptor, Identity::of(&stat), read_whole)?;
    let (content, keep) = match bytes {
        Some(bytes) => {
            let is_sound = bytes.len() as u64 == identity.size && !identity.is_recent();
            (Content::Bytes(bytes), is_sound)
        }
        None => (Content::Descriptor(Rc::new(descriptor)), true),
    };
    let size = match &content {
        Content::Bytes(bytes) => bytes.len() as u64,
        Content::Descriptor(_) => identity.size,
    };
    let mime = mime.of(place.path).map(Box::from);
    Ok(Loaded {
        file: CachedFile::new(identity, size, mime, content),
        keep,
    })
}

/// A file as it was while it was read.
#[derive(Debug)]
struct FileVersion {
    identity: Identity,
    /// Its content; `None` if it is not small. It is shorter than its size where a file system does not know that, such as sysfs.
    bytes: Option<Box<[u8]>>,
}

/// Reads a file if it is small, again if it was changed meanwhile.
///
/// # Errors
/// `EBUSY`: it was changed whenever it was read.
fn read_one_version(
    descriptor: &OwnedFd,
    mut identity: Identity,
    mut read: impl FnMut(&OwnedFd, u64) -> Result<Box<[u8]>, Errno>,
) -> Result<FileVersion, Errno> {
    for _ in 0..MOST_READS {
        if identity.size > SMALL_FILE_BYTES {
            return Ok(FileVersion {
                identity,
                bytes: None,
            });
        }
        let bytes = read(descriptor, identity.size)?;
        let after = Identity::of(&stat_open(descriptor)?);
        if after == identity {
            return Ok(FileVersion {
                identity,
                bytes: Some(bytes),
            });
        }
        identity = after;
    }
    Err(Errno::BUSY)
}

fn read_whole(descriptor: &OwnedFd, size: u64) -> Result<Box<[u8]>, Errno> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..)
        && !rest.is_empty()
    {
        match rustix::io::pread(descriptor, rest, filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(filled);
    Ok(bytes.into_boxed_slice())
}

/// True if the second in which the file was written is over. Until then it may be written again with the same time and size, and so with
/// the same entity tag, which therefore is not strong yet (RFC 9110 §8.8.1).
fn is_settled(modified: u64) -> bool {
    modified < unix_seconds()
}

impl CachedFile {
    fn new(identity: Identity, size: u64, mime: Option<Box<str>>, content: Content) -> Self {
        let modified = u64::try_from(identity.modified.0).unwrap_or(0);
        let etag = format!(
            "{}\"{modified:x}-{size:x}\"",
            if is_settled(modified) { "" } else { "W/" }
        )
        .into_bytes()
        .into_boxed_slice();
        let mut validators = FieldLines::with_capacity(96, 2);
        // RFC 9110 §8.8.2.1: a modification time in the future is replaced by now.
        let date = tutti_http::format_date(modified.min(unix_seconds()));
        validators.push(b"Last-Modified", &date);
        validators.push(b"ETag", &etag);
        let mut fields = FieldLines::with_capacity(192, 5);
        if let Some(mime) = &mime {
            fields.push(b"Content-Type", mime.as_bytes());
        }
        fields.append(&validators);
        fields.push(b"Accept-Ranges", b"bytes");
        fields.push_number(b"Content-Length", size);
        validators.shrink();
        fields.shrink();
        Self {
            identity,
            size,
            modified,
            etag,
            mime,
            validators,
            fields,
            content,
            compressed: RefCell::default(),
            sibling: RefCell::default(),
            typed: RefCell::default(),
        }
    }

    /// True if its entity tag is weak, and could be strong now.
    fn is_outgrown(&self) -> bool {
        self.etag.starts_with(b"W/") && is_settled(self.modified)
    }

    /// This file as a precompressed representation of `plain`: the type is that of `plain`, the bytes and validators are its own.
    pub fn as_sibling(&self, plain: &CachedFile, encoding: Encoding) -> Rc<CachedFile> {
        let mut sibling = self.sibling.borrow_mut();
        if let Some(known) = &*sibling
            && known.encoding == encoding
            && known.mime == plain.mime
        {
            return Rc::clone(&known.file);
        }
        let content = match &self.content {
            Content::Bytes(bytes) => Content::Bytes(bytes.clone()),
            Content::Descriptor(descriptor) => Content::Descriptor(Rc::clone(descriptor)),
        };
        let mut file = Self::new(self.identity, self.size, plain.mime.clone(), content);
        let word = encoding.word();
        // Both files may have the same time and size (RFC 9110 §8.8.3.3).
        let end = file.etag.strip_suffix(b"\"").unwrap_or(&file.etag);
        file.etag = [end, b"-", word.as_bytes(), b"\""]
            .concat()
            .into_boxed_slice();
        for fields in [&mut file.validators, &mut file.fields] {
            fields.remove("ETag");
            fields.push(b"ETag", &file.etag);
        }
        file.fields.push(b"Content-Encoding", word.as_bytes());
        let file = Rc::new(file);
        *sibling = Some(Sibling {
            encoding,
            mime: plain.mime.clone(),
            file: Rc::clone(&file),
        });
        file
    }

    /// This file with another type, which is kept until a third one is asked for.
    pub fn typed(self: &Rc<Self>, mime: Option<&str>) -> Rc<CachedFile> {
        if self.mime.as_deref() == mime {
            return Rc::clone(self);
        }
        let mut known = self.typed.borrow_mut();
        if let Some(known) = &*known
            && known.mime.as_deref() == mime
        {
            return Rc::clone(known);
        }
        let content = match &self.content {
            Content::Bytes(bytes) => Content::Bytes(bytes.clone()),
            Content::Descriptor(descriptor) => Content::Descriptor(Rc::clone(descriptor)),
        };
        let mime = mime.map(Box::from);
        let typed = Rc::new(Self::new(self.identity, self.size, mime, content));
        *known = Some(Rc::clone(&typed));
        typed
    }

    /// This file compressed, made at the first call; `None` if that is not shorter. For a file that is not in memory the result has the
    /// same descriptor, to be compressed while it is sent, and the fields of the compressed file without its length.
    pub fn compressed(&self, compressor: &Compressor) -> io::Result<Option<Rc<CachedFile>>> {
        let mut known = self.compressed.borrow_mut();
        if let Some((_, found)) = known.iter().find(|(known, _)| known == compressor) {
            return Ok(found.clone());
        }
        let content = match &self.content {
            Content::Bytes(bytes) => {
                compress(compressor, bytes)?.map(|bytes| Content::Bytes(bytes.into_boxed_slice()))
            }
            Content::Descriptor(descriptor) => Some(Content::Descriptor(Rc::clone(descriptor))),
        };
        let made = content.map(|content| Rc::new(self.representation(compressor, content)));
        if known.len() >= COMPRESSED_KEPT {
            known.clear();
        }
        known.push((*compressor, made.clone()));
        Ok(made)
    }

    /// Makes the representation of this file with this content.
    fn representation(&self, compressor: &Compressor, content: Content) -> Self {
        let mut etag = b"W/".to_vec();
        etag.extend_from_slice(self.etag.strip_prefix(b"W/").unwrap_or(&self.etag));
        let mut validators = FieldLines::new();
        for (name, value) in &self.validators {
            push_field(&mut validators, name, value);
        }
        let mut fields = FieldLines::new();
        for (name, value) in &self.fields {
            if name != b"Content-Length" {
                push_field(&mut fields, name, value);
            }
        }
        fields.push(b"Content-Encoding", compressor.encoding.word().as_bytes());
        let size = match &content {
            Content::Bytes(bytes) => {
                fields.push_number(b"Content-Length", bytes.len() as u64);
                bytes.len() as u64
            }
            Content::Descriptor(_) => self.size,
        };
        Self {
            identity: self.identity,
            size,
            modified: self.modified,
            etag: etag.into_boxed_slice(),
            mime: self.mime.clone(),
            validators,
            fields,
            content,
            compressed: RefCell::default(),
            sibling: RefCell::default(),
            typed: RefCell::default(),
        }
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
