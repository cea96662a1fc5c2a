use std::fs::File;
use std::sync::Arc;

use tempfile::NamedTempFile;
use tutti_http::FieldLines;

use super::file_tier::Disk;
use super::stores::rest_replaced;
use super::tier::{Loaded, Tier, Waiting};
use crate::store::tests::{fresh, key};
use crate::store::{ResponseStore, StoreLimits};
use crate::{DiskLimits, Purge, Stored, Vary};

const MEMORY: usize = 1 << 20;

fn limits() -> DiskLimits {
    DiskLimits {
        folder: None,
        size: 4 << 20,
        object: 256 << 10,
    }
}

fn start(file: &NamedTempFile) -> Disk {
    let opened = File::options().read(true).write(true).open(file.path());
    let report = Box::new(|line: &str| panic!("{line}"));
    Disk::start("one", opened.unwrap(), &limits(), MEMORY, report).unwrap()
}

fn stored(text: &str, bytes: usize) -> Arc<Stored> {
    let head = (200, FieldLines::of("Surrogate-Key", text.as_bytes()));
    let tags = ["Surrogate-Key".to_owned()];
    let stored = Stored::new(key(text), Vary::default(), head, fresh(), &tags);
    Arc::new(stored.with_body(vec![b'x'; bytes].into()))
}

fn body(disk: &Disk, text: &str) -> Option<usize> {
    match disk.read(&key(text), &|_| Some(Vec::new()), &mut |_| true)? {
        Loaded::Shared(stored) => Some(stored.body.len()),
        Loaded::Read(stored, _) => Some(stored.body.len()),
    }
}

/// Waits until the thread has carried out all orders.
fn settle(disk: &Disk) {
    disk.settled().blocking_recv().unwrap();
}

#[test]
fn of_two_one_has_the_file_and_purges_of_the_other_count() {
    let file = NamedTempFile::new().unwrap();
    let first = start(&file);
    for text in ["a", "b", "c"] {
        first.keep(&stored(text, 1000), Waiting::Bounded);
    }
    settle(&first);
    let second = start(&file);
    assert_eq!((body(&first, "a"), body(&second, "a")), (Some(1000), None));
    second.purge(&Purge::Key(b"a".to_vec()));
    second.purge(&Purge::Tag(b"b".to_vec()));
    // A newer response is kept while another process has the file, and replaces the one in the file.
    second.keep(&stored("c", 2000), Waiting::Bounded);
    assert_eq!(body(&second, "c"), Some(2000));
    first.close().blocking_recv().unwrap();
    assert!(!first.status().is_open && body(&first, "a").is_none());
    settle(&second);
    let found = |disk: &Disk| ["a", "b", "c"].map(|text| body(disk, text));
    assert_eq!(found(&second), [None, None, Some(2000)]);
    second.close().blocking_recv().unwrap();
    let third = start(&file);
    settle(&third);
    assert_eq!(found(&third), [None, None, Some(2000)]);
}

#[test]
fn responses_are_found_again_and_replaced_ones_are_not() {
    let file = NamedTempFile::new().unwrap();
    for round in 0..3 {
        let disk = start(&file);
        settle(&disk);
        assert_eq!(body(&disk, "a"), (round > 0).then_some(1000 + round - 1));
        disk.keep(&stored("a", 1000 + round), Waiting::Bounded);
        settle(&disk);
        assert_eq!(disk.status().entries, 1);
        disk.close().blocking_recv().unwrap();
    }
}

#[test]
fn a_file_that_is_purged_before_it_is_opened_is_not_released_with_its_responses() {
    let file = NamedTempFile::new().unwrap();
    let first = start(&file);
    first.keep(&stored("a", 1000), Waiting::Bounded);
    settle(&first);
    let second = start(&file);
    second.purge(&Purge::Key(b"a".to_vec()));
    let closed = second.close();
    drop(second);
    first.close().blocking_recv().unwrap();
    closed.blocking_recv().unwrap();
    let third = start(&file);
    settle(&third);
    assert_eq!(body(&third, "a"), None);
}

#[test]
fn the_file_of_a_store_that_is_removed_is_emptied_and_that_of_a_changed_one_is_not() {
    let file = NamedTempFile::new().unwrap();
    let store = |name: &str, memory| {
        let limits = StoreLimits {
            memory,
            object: 1000,
            disk: Some(limits()),
        };
        let store = ResponseStore::new(name, limits);
        let disk = Arc::new(start(&file));
        store.set_tier(disk.clone());
        (Arc::new(store), disk)
    };
    let (pages, disk) = store("pages", MEMORY);
    disk.keep(&stored("a", 1000), Waiting::Bounded);
    settle(&disk);
    let (changed, disk) = store("pages", 2 * MEMORY);
    rest_replaced(&[pages], &[Arc::clone(&changed)]);
    settle(&disk);
    assert_eq!(body(&disk, "a"), Some(1000));
    let in_memory = StoreLimits {
        memory: MEMORY,
        object: 1000,
        disk: None,
    };
    let in_memory = Arc::new(ResponseStore::new("pages", in_memory));
    rest_replaced(&[changed], &[in_memory]);
    let (_, disk) = store("pages", MEMORY);
    settle(&disk);
    assert_eq!(body(&disk, "a"), None);
}

#[test]
fn the_oldest_go_and_the_index_is_bounded() {
    let file = NamedTempFile::new().unwrap();
    let disk = start(&file);
    // The keys are so long that the index is full before the file is.
    let text = |number: usize| format!("{number:04} {}", "k".repeat(4000));
    for number in 0..400 {
        disk.keep(&stored(&text(number), 10), Waiting::Unbounded);
    }
    settle(&disk);
    let status = disk.status();
    assert!(status.entries < 100, "{status:?}");
    assert_eq!(
        (body(&disk, &text(0)), body(&disk, &text(399))),
        (None, Some(10))
    );
    assert!(file.as_file().metadata().unwrap().len() <= limits().size);
}
