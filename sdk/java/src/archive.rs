//! Reads ZIP archives: which files are in a WAR or a JAR, and their bytes.
//!
//! Called by [`webapp`](crate::webapp). Must never happen: memory for as many bytes as an archive claims to have.

use std::fs::File;
use std::io::{self, Cursor, Read};

use flate2::read::DeflateDecoder;
use rawzip::{
    CompressionMethod, Error, FileReader, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipArchive,
    ZipArchiveEntryWayfinder, ZipSliceArchive,
};

/// A file in an archive.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its path, with `/` between folders.
    pub(crate) name: String,
    is_compressed: bool,
    place: ZipArchiveEntryWayfinder,
}

/// An open archive.
#[derive(Debug)]
pub(crate) struct Archive<R> {
    archive: ZipArchive<R>,
    pub(crate) entries: Vec<Entry>,
}

fn invalid(error: Error) -> io::Error {
    let text = format!("it is no archive, or not a whole one ({error})");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Archive<FileReader> {
    /// Reads the directory of a file.
    ///
    /// # Errors
    /// `InvalidData`: it is no archive, or not a whole one.
    pub(crate) fn open(file: File) -> io::Result<Self> {
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        Self::listed(ZipArchive::from_file(file, &mut buffer))
    }
}

impl Archive<Cursor<Vec<u8>>> {
    /// Reads the directory of an archive in memory.
    ///
    /// # Errors
    /// `InvalidData`: it is no archive, or not a whole one.
    pub(crate) fn of(bytes: Vec<u8>) -> io::Result<Self> {
        let archive = ZipArchive::from_slice(bytes);
        Self::listed(archive.map(ZipSliceArchive::into_cursor_archive))
    }
}

impl<R: ReaderAt> Archive<R> {
    fn listed(archive: Result<ZipArchive<R>, Error>) -> io::Result<Self> {
        let archive = archive.map_err(invalid)?;
        let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
        let mut entries = Vec::new();
        let mut directory = archive.entries(&mut buffer);
        while let Some(entry) = directory.next_entry().map_err(invalid)? {
            entries.push(Entry {
                name: String::from_utf8_lossy(entry.file_path().as_ref()).into_owned(),
                is_compressed: entry.compression_method() != CompressionMethod::STORE,
                place: entry.wayfinder(),
            });
        }
        Ok(Self { archive, entries })
    }

    /// True if there is something in the folder of this name, which ends with `/`.
    pub(crate) fn has_folder(&self, name: &str) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.name.starts_with(name))
    }

    /// The first `most` bytes of a file.
    pub(crate) fn read(&mut self, entry: &Entry, most: u64) -> io::Result<Vec<u8>> {
        let found = self.archive.get_entry(entry.place).map_err(invalid)?;
        let stored = found.reader();
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
    use std::io::Write;

    use super::*;

    /// An archive of these files, every second one compressed.
    pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
        for (number, (name, content)) in files.iter().enumerate() {
            let is_compressed = number % 2 == 1;
            let method = match is_compressed {
                true => CompressionMethod::DEFLATE,
                false => CompressionMethod::STORE,
            };
            let file = archive.new_file(name).compression_method(method);
            let (mut entry, config) = file.start().unwrap();
            let descriptor = match is_compressed {
                true => {
                    let level = flate2::Compression::default();
                    let encoder = flate2::write::DeflateEncoder::new(&mut entry, level);
                    let mut writer = config.wrap(encoder);
                    writer.write_all(content).unwrap();
                    let (encoder, descriptor) = writer.finish().unwrap();
                    encoder.finish().unwrap();
                    descriptor
                }
                false => {
                    let mut writer = config.wrap(&mut entry);
                    writer.write_all(content).unwrap();
                    writer.finish().unwrap().1
                }
            };
            entry.finish(descriptor).unwrap();
        }
        archive.finish().unwrap();
        bytes
    }

    #[test]
    fn files_are_read_stored_and_compressed() {
        let long = vec![b'x'; 100_000];
        let bytes = archive(&[("a/one", b"first"), ("two", &long)]);
        let mut archive = Archive::of(bytes).unwrap();
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
            let opened = Archive::of(bytes.to_vec());
            let read = opened.and_then(|mut archive| {
                let entry = archive.entries.first().cloned();
                let entry = entry.ok_or(io::ErrorKind::NotFound)?;
                archive.read(&entry, 9)
            });
            assert!(read.is_err(), "{bytes:?}");
        }
    }
}
