//! Reads ZIP archives: which files are in a WAR or a JAR, and their bytes.
//!
//! Reads the directory at the end and single files (APPNOTE.TXT 4.3); no encryption, no ZIP64, no archive in several parts: a WAR has
//! none of these. Called by [`webapp`](crate::webapp). What must never happen: memory for as many bytes as an archive claims to have.

use std::io::{self, Read, Seek, SeekFrom};

use flate2::read::DeflateDecoder;

/// End of the directory (APPNOTE.TXT 4.3.16): its length without a comment, and the longest comment.
const END: usize = 22;
const LONGEST_COMMENT: u64 = 0xffff;
/// A file's entry in the directory without its name (4.3.12), and its head before its bytes (4.3.7).
const ENTRY: usize = 46;
const LOCAL: usize = 30;

/// A file in an archive.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its path, with `/` between folders.
    pub(crate) name: String,
    is_compressed: bool,
    stored: u64,
    at: u64,
}

/// An open archive.
#[derive(Debug)]
pub(crate) struct Archive<R> {
    source: R,
    pub(crate) entries: Vec<Entry>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Two bytes of `bytes` from `at` on, as a number; 0 beyond the end.
fn two(bytes: &[u8], at: usize) -> u16 {
    let bytes = bytes
        .get(at..at + 2)
        .and_then(|bytes| bytes.try_into().ok());
    u16::from_le_bytes(bytes.unwrap_or_default())
}

fn four(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes
        .get(at..at + 4)
        .and_then(|bytes| bytes.try_into().ok());
    u32::from_le_bytes(bytes.unwrap_or_default())
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the directory.
    ///
    /// # Errors
    /// `InvalidData`: it is no archive, or not a whole one.
    pub(crate) fn open(mut source: R) -> io::Result<Self> {
        let length = source.seek(SeekFrom::End(0))?;
        let tail_length = length.min(LONGEST_COMMENT + END as u64);
        source.seek(SeekFrom::Start(length - tail_length))?;
        let mut tail = Vec::new();
        source.by_ref().take(tail_length).read_to_end(&mut tail)?;
        let end = memchr::memmem::rfind(&tail, b"PK\x05\x06")
            .and_then(|at| tail.get(at..))
            .ok_or_else(|| invalid("it is no archive, or not a whole one"))?;
        let (size, start) = (u64::from(four(end, 12)), u64::from(four(end, 16)));
        if start + size > length {
            return Err(invalid("it is not a whole archive, or one beyond 4 GiB"));
        }
        source.seek(SeekFrom::Start(start))?;
        let mut directory = Vec::new();
        source.by_ref().take(size).read_to_end(&mut directory)?;
        let mut entries = Vec::new();
        let mut rest = directory.as_slice();
        while rest.starts_with(b"PK\x01\x02") {
            let name_length = usize::from(two(rest, 28));
            let whole =
                ENTRY + name_length + usize::from(two(rest, 30)) + usize::from(two(rest, 32));
            let (Some(name), Some(after)) =
                (rest.get(ENTRY..ENTRY + name_length), rest.get(whole..))
            else {
                return Err(invalid("its directory is not whole"));
            };
            entries.push(Entry {
                name: String::from_utf8_lossy(name).into_owned(),
                is_compressed: two(rest, 10) != 0,
                stored: u64::from(four(rest, 20)),
                at: u64::from(four(rest, 42)),
            });
            rest = after;
        }
        Ok(Self { source, entries })
    }

    /// True if there is something in the folder of this name, which ends with `/`.
    pub(crate) fn has_folder(&self, name: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.name.starts_with(name))
    }

    /// The first `most` bytes of a file.
    pub(crate) fn read(&mut self, entry: &Entry, most: u64) -> io::Result<Vec<u8>> {
        self.source.seek(SeekFrom::Start(entry.at))?;
        let mut head = [0; LOCAL];
        self.source.read_exact(&mut head)?;
        if !head.starts_with(b"PK\x03\x04") {
            return Err(invalid("a file of it is not where its directory says"));
        }
        let skipped = i64::from(two(&head, 26)) + i64::from(two(&head, 28));
        self.source.seek(SeekFrom::Current(skipped))?;
        let stored = self.source.by_ref().take(entry.stored);
        let mut bytes = Vec::new();
        match entry.is_compressed {
            true => DeflateDecoder::new(stored)
                .take(most)
                .read_to_end(&mut bytes)?,
            false => stored.take(most).read_to_end(&mut bytes)?,
        };
        Ok(bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    /// An archive of these files, every second one compressed.
    pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (number, (name, content)) in files.iter().enumerate() {
            let is_compressed = number % 2 == 1;
            let stored = match is_compressed {
                true => {
                    let level = flate2::Compression::default();
                    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
                    encoder.write_all(content).unwrap();
                    encoder.finish().unwrap()
                }
                false => content.to_vec(),
            };
            let at = bytes.len() as u32;
            let mut common = Vec::new();
            common.extend([20, 0, 0, 0, u8::from(is_compressed) * 8, 0]);
            common.extend([0; 8]);
            common.extend((stored.len() as u32).to_le_bytes());
            common.extend((content.len() as u32).to_le_bytes());
            common.extend((name.len() as u16).to_le_bytes());
            common.extend([0, 0]);
            bytes.extend(b"PK\x03\x04");
            bytes.extend(&common);
            bytes.extend(name.as_bytes());
            bytes.extend(&stored);
            directory.extend(b"PK\x01\x02\x14\0");
            directory.extend(&common);
            directory.extend([0; 10]);
            directory.extend(at.to_le_bytes());
            directory.extend(name.as_bytes());
        }
        let start = bytes.len() as u32;
        bytes.extend(&directory);
        bytes.extend(b"PK\x05\x06\0\0\0\0");
        bytes.extend([files.len() as u8, 0, files.len() as u8, 0]);
        bytes.extend((directory.len() as u32).to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn files_are_read_stored_and_compressed() {
        let long = vec![b'x'; 100_000];
        let bytes = archive(&[("a/one", b"first"), ("two", &long)]);
        let mut archive = Archive::open(Cursor::new(bytes)).unwrap();
        let entries = archive.entries.clone();
        assert_eq!(archive.read(&entries[0], 100).unwrap(), b"first");
        assert_eq!(archive.read(&entries[1], u64::MAX).unwrap(), long);
        assert_eq!(archive.read(&entries[1], 7).unwrap(), b"xxxxxxx");
        assert!(archive.has_folder("a/") && !archive.has_folder("one/"));
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let whole = archive(&[("one", b"first")]);
        let cut = &whole[8..];
        for bytes in [b"".as_slice(), b"text", cut, &whole[..20]] {
            let opened = Archive::open(Cursor::new(bytes.to_vec()));
            let read = opened.and_then(|mut archive| {
                let entry = archive.entries.first().cloned();
                let entry = entry.ok_or_else(|| invalid("nothing in it"))?;
                archive.read(&entry, 9)
            });
            assert!(read.is_err(), "{bytes:?}");
        }
    }
}
