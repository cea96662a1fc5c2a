//! The last configurations, for `tutti config log`, `diff` and `rollback`: `history/` in the state folder.
//!
//! Each file is a line of JSON (number, time, by, change) and the configuration after that change. Called when a
//! configuration has been stored. Must never happen: that a change fails because its history cannot be written, or that
//! the folder grows without limit.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tutti_protocol::Cause;
use tutti_sys::error::context;
use tutti_sys::time;

const FOLDER: &str = "history";

/// Maximum number of changes that are kept.
const MOST_ENTRIES: usize = 100;

/// Maximum size of all together; the newest is kept in any case.
const MOST_BYTES: u64 = 64 << 20;

/// A file with a longer first line is not part of the history.
const LONGEST_HEAD: usize = 64 * 1024;

/// The record of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) number: u64,
    /// RFC 3339, in the machine's time zone.
    pub(super) time: String,
    pub(super) by: String,
    pub(super) change: String,
}

/// Records that `configuration` is stored now, and that `before` was.
pub(super) fn record(
    state: &Path,
    before: Option<&str>,
    configuration: &str,
    cause: &Cause,
) -> io::Result<()> {
    let folder = state.join(FOLDER);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| context(format!("making `{}`", folder.display()), error))?;
    let mut numbers = numbers(&folder)?;
    if let (true, Some(before)) = (numbers.is_empty(), before) {
        let cause = Cause {
            by: String::new(),
            change: "state before the first recorded change".to_owned(),
        };
        write(&folder, 1, before, &cause)?;
        numbers.push(1);
    }
    let number = numbers.last().map_or(1, |last| last.saturating_add(1));
    write(&folder, number, configuration, cause)?;
    numbers.push(number);
    prune(&folder, &numbers);
    Ok(())
}

/// Returns all recorded changes, newest first.
pub(super) fn list(state: &Path) -> io::Result<Vec<Entry>> {
    let folder = state.join(FOLDER);
    let numbers = numbers(&folder)?;
    let entries = numbers.iter().rev();
    // An entry damaged by a crash counts as missing.
    Ok(entries
        .filter_map(|number| Some(read(&folder, *number)?.0))
        .collect())
}

/// Returns the configuration after that change.
pub(super) fn past(state: &Path, number: u64) -> Option<String> {
    read(&state.join(FOLDER), number).map(|(_, configuration)| configuration)
}

fn file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}"))
}

/// In ascending order.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(context(format!("reading `{}`", folder.display()), error)),
    };
    let mut numbers: Vec<u64> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn read(folder: &Path, number: u64) -> Option<(Entry, String)> {
    let text = fs::read_to_string(file(folder, number)).ok()?;
    let (head, configuration) = text.split_once('\n')?;
    if head.len() > LONGEST_HEAD {
        return None;
    }
    Some((serde_json::from_str(head).ok()?, configuration.to_owned()))
}

/// Written completely or not at all, but not flushed to disk: the stored configuration must survive, and that was
/// stored before.
fn write(folder: &Path, number: u64, configuration: &str, cause: &Cause) -> io::Result<()> {
    use std::io::Write;
    let entry = Entry {
        number,
        time: now(),
        by: cause.by.clone(),
        change: cause.change.clone(),
    };
    let path = file(folder, number);
    let named = |error| context(format!("writing `{}`", path.display()), error);
    let temporary = folder.join("new.tmp");
    let mut text = serde_json::to_string(&entry)?;
    text.push('\n');
    text.push_str(configuration);
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(named)
}

fn prune(folder: &Path, numbers: &[u64]) {
    let mut bytes = 0;
    for (age, number) in numbers.iter().rev().enumerate() {
        let path = file(folder, *number);
        bytes += fs::metadata(&path).map_or(0, |file| file.len());
        if age > 0 && (age >= MOST_ENTRIES || bytes > MOST_BYTES) {
            // It stays until the next change.
            let _ = fs::remove_file(&path);
        }
    }
}

fn now() -> String {
    let at = SystemTime::now();
    if at.duration_since(UNIX_EPOCH).is_err() {
        return String::new();
    }
    let at = time::local(at);
    let minutes = at.offset / 60;
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}{:02}:{:02}",
        at.year,
        at.month,
        at.day,
        at.hour,
        at.minute,
        at.second,
        if minutes < 0 { '-' } else { '+' },
        minutes.abs() / 60,
        minutes.abs() % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(change: &str) -> Cause {
        Cause {
            by: "root".into(),
            change: change.into(),
        }
    }

    #[test]
    fn changes_are_kept_with_what_was_there_before_the_first() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(list(folder.path()).unwrap(), []);
        record(
            folder.path(),
            Some("{}"),
            "{\"a\": 1}",
            &cause("PUT /config"),
        )
        .unwrap();
        record(
            folder.path(),
            Some("x"),
            "{\"a\": 2}",
            &cause("PUT /config/a"),
        )
        .unwrap();
        let entries = list(folder.path()).unwrap();
        let listed: Vec<(u64, &str)> = entries
            .iter()
            .map(|entry| (entry.number, entry.change.as_str()))
            .collect();
        assert_eq!(
            listed,
            [
                (3, "PUT /config/a"),
                (2, "PUT /config"),
                (1, "state before the first recorded change")
            ]
        );
        assert_eq!(past(folder.path(), 1).as_deref(), Some("{}"));
        assert_eq!(past(folder.path(), 2).as_deref(), Some("{\"a\": 1}"));
        assert_eq!(past(folder.path(), 9), None);
    }

    #[test]
    fn the_folder_is_bounded_and_what_is_broken_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MOST_ENTRIES + 20 {
            record(folder.path(), None, "{}", &cause(&number.to_string())).unwrap();
        }
        assert_eq!(list(folder.path()).unwrap().len(), MOST_ENTRIES);
        let newest = list(folder.path()).unwrap()[0].number;
        fs::write(file(&folder.path().join(FOLDER), newest), "half a li").unwrap();
        assert_eq!(list(folder.path()).unwrap().len(), MOST_ENTRIES - 1);
        record(folder.path(), None, "{}", &cause("next")).unwrap();
        assert_eq!(list(folder.path()).unwrap()[0].number, newest + 1);
    }
}
