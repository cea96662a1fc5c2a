use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::*;

fn look(cache: &FileCache, path: &Path, now: Millis) -> Lookup {
    let mime = Arc::clone(&cache.mime.borrow());
    cache.lookup(path.as_os_str().as_bytes(), &mime, now)
}

fn cache_within(limits: CacheLimits) -> FileCache {
    FileCache::new(limits, Arc::new(MimeTypes::new(&BTreeMap::new())))
}

fn file(lookup: Lookup) -> Rc<CachedFile> {
    match lookup {
        Lookup::File(file) => file,
        other => panic!("not a file: {other:?}"),
    }
}

fn bytes(file: &CachedFile) -> &[u8] {
    match &file.content {
        Content::Bytes(bytes) => bytes,
        Content::Descriptor(_) => panic!("not in memory"),
    }
}

/// Writes a file with times old enough for it to be cached.
fn write_old(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
    let age = || {
        let identity = Identity::of(&SharePath::from(path.as_os_str().as_bytes()).stat().unwrap());
        identity.is_recent()
    };
    // The change time cannot be set: wait until it is old.
    while age() {
        std::thread::yield_now();
    }
}

#[test]
fn a_cold_file_is_compared_at_every_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.html");
    let cache = cache_within(CacheLimits::default());
    for round in 0..20_u8 {
        let content = [b'a' + round; 5];
        std::fs::write(&path, content).unwrap();
        assert_eq!(
            bytes(&file(look(&cache, &path, 0))),
            content,
            "in round {round}"
        );
    }
}

#[test]
fn a_hot_file_is_believed_for_a_moment_and_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.html");
    write_old(&path, b"old");
    let cache = cache_within(CacheLimits::default());
    for _ in 0..HOT_HITS + 2 {
        assert_eq!(bytes(&file(look(&cache, &path, 1000))), b"old");
    }
    std::fs::write(&path, b"new!").unwrap();
    assert_eq!(bytes(&file(look(&cache, &path, 1000 + TRUST - 1))), b"old");
    assert_eq!(bytes(&file(look(&cache, &path, 1000 + TRUST))), b"new!");
}

#[test]
fn the_same_entry_is_used_again_while_the_file_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.html");
    write_old(&path, b"old");
    let cache = cache_within(CacheLimits::default());
    let first = file(look(&cache, &path, 0));
    assert!(Rc::ptr_eq(&first, &file(look(&cache, &path, 1_000))));
}

#[test]
fn a_missing_path_is_believed_only_when_asked_for_often() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("later");
    let cache = cache_within(CacheLimits::default());
    assert!(matches!(look(&cache, &path, 0), Lookup::Missing));
    std::fs::write(&path, b"x").unwrap();
    assert!(matches!(look(&cache, &path, 0), Lookup::File(_)));
    std::fs::remove_file(&path).unwrap();
    for _ in 0..HOT_HITS + 2 {
        assert!(matches!(look(&cache, &path, 0), Lookup::Missing));
    }
    std::fs::write(&path, b"x").unwrap();
    assert!(matches!(look(&cache, &path, TRUST - 1), Lookup::Missing));
    assert!(matches!(look(&cache, &path, TRUST), Lookup::File(_)));
}

#[test]
fn paths_are_resolved_to_files_and_errors() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), b"x").unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    symlink(at("file"), at("link")).unwrap();
    symlink(at("loop"), at("loop")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::Mode::from_raw_mode(0o644),
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let cache = cache_within(CacheLimits::default());
    for (name, expected) in [
        ("file", "file"),
        ("link", "file"),
        ("directory", "directory"),
        ("directory/", "directory"),
        ("missing", "missing"),
        ("dangling", "missing"),
        ("file/below", "missing"),
        ("loop", "forbidden"),
        ("fifo", "missing"),
        ("socket", "missing"),
        ("/dev/zero", "missing"),
    ] {
        let kind = match look(&cache, &at(name), 0) {
            Lookup::File(_) => "file",
            Lookup::Directory => "directory",
            Lookup::Missing => "missing",
            Lookup::Forbidden => "forbidden",
            Lookup::Failed(_) => "failed",
        };
        assert_eq!(kind, expected, "{name}");
    }
    let long = at(&"x".repeat(300));
    assert!(matches!(look(&cache, &long, 0), Lookup::Missing));
    let nul = Path::new("/a\0b");
    assert!(matches!(look(&cache, nul, 0), Lookup::Missing));
}

#[test]
fn an_unreadable_file_is_forbidden() {
    if rustix::process::geteuid().is_root() {
        // Root may read everything, so the error code is passed to `outcome_of` directly.
        assert!(matches!(outcome_of(Errno::ACCESS), Lookup::Forbidden));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, b"x").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    assert!(matches!(
        look(&cache_within(CacheLimits::default()), &path, 0),
        Lookup::Forbidden
    ));
}

#[test]
fn large_files_keep_a_descriptor_and_small_ones_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small.txt"), folder.path().join("large"));
    write_old(&small, b"x");
    std::fs::write(&large, vec![1; SMALL_FILE_BYTES as usize + 1]).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(0x5d66_459d);
    std::fs::File::options()
        .write(true)
        .open(&small)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let cache = cache_within(CacheLimits::default());
    let small = file(look(&cache, &small, 0));
    assert_eq!(&*small.etag, b"\"5d66459d-1\"");
    assert_eq!(
        String::from_utf8_lossy(small.fields.lines()),
        "Content-Type: text/plain\r\nLast-Modified: Wed, 28 Aug 2019 09:13:01 GMT\r\nETag: \"5d66459d-1\"\r\nAccept-Ranges: bytes\r\n\
         Content-Length: 1\r\n"
    );
    let large = file(look(&cache, &large, 0));
    assert!(matches!(large.content, Content::Descriptor(_)));
    assert_eq!(large.mime, None);
}

#[test]
fn the_cache_stays_within_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let limits = CacheLimits {
        bytes: 64 * 1024,
        files: 1000,
        descriptors: 8,
    };
    let cache = cache_within(limits);
    let path = |n: usize| folder.path().join(n.to_string());
    for n in 0..40 {
        let size = if n % 2 == 0 {
            4 * 1024
        } else {
            SMALL_FILE_BYTES as usize + 1
        };
        std::fs::write(path(n), vec![0; size]).unwrap();
    }
    write_old(&path(40), b"");
    for n in 0..40 {
        file(look(&cache, &path(n), 0));
        let inner = cache.inner.borrow();
        assert!(inner.young.bytes + inner.old.bytes <= limits.bytes);
        assert!(inner.young.descriptors + inner.old.descriptors <= limits.descriptors);
    }
    let inner = cache.inner.borrow();
    assert!(
        !inner.young.entries.is_empty() && inner.young.entries.len() + inner.old.entries.len() < 40
    );
}

/// A file that was changed while it was read was served under the validators of its former version.
#[test]
fn a_file_is_read_again_if_it_changes_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, "first").unwrap();
    let descriptor: OwnedFd = std::fs::File::open(&path).unwrap().into();
    let identity = || Identity::of(&stat_open(&descriptor).unwrap());
    let mut versions = ["the second", "third, the last"].into_iter();
    let found = read_one_version(&descriptor, identity(), |descriptor, size| {
        let bytes = read_whole(descriptor, size);
        if let Some(next) = versions.next() {
            std::fs::write(&path, next).unwrap();
        }
        bytes
    })
    .unwrap();
    assert_eq!(&*found.bytes.unwrap(), b"third, the last");
    assert_eq!(found.identity, identity());
    let mut length = 0;
    let outcome = read_one_version(&descriptor, identity(), |descriptor, size| {
        let bytes = read_whole(descriptor, size);
        length += 1;
        std::fs::write(&path, "x".repeat(length)).unwrap();
        bytes
    });
    assert_eq!(outcome.unwrap_err(), Errno::BUSY);
}

/// Files whose size is not known before they are read were refused.
#[test]
fn a_file_that_is_shorter_than_its_size_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, "0123456789").unwrap();
    let descriptor: OwnedFd = std::fs::File::open(&path).unwrap().into();
    let identity = Identity::of(&stat_open(&descriptor).unwrap());
    let outcome = read_one_version(&descriptor, identity, |_, _| Ok(Box::from(&b"01"[..])));
    assert_eq!(&*outcome.unwrap().bytes.unwrap(), b"01");
}
