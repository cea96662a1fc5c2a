//! Users that exist for a single application: `"user": "auto"`.
//!
//! An application keeps its user id for as long as the state folder exists, so that it keeps access to its files. Only
//! when all ids are recorded, the one of the application that was started longest ago, and has no process, is given to
//! another. The range is the one that systemd reserves for such users (`DynamicUser=`), outside the ranges of `adduser`
//! and packages. Must never happen: that two applications share an id, or that another user on this system has it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use tutti_sys::credentials::{self, Credentials};
use tutti_sys::error::context;
use tutti_sys::{file, proc};

/// "Users, Groups, UIDs and GIDs on systemd Systems", dynamic service users.
const RANGE: RangeInclusive<u32> = 61184..=65519;

/// The file in the state folder that records them.
const RECORD: &str = "users.json";

/// The file beside it with the time of the last start of each application, in seconds since 1970.
const STARTS: &str = "users-started.json";

/// Seconds by which a recorded start may be too old: not each start writes to the disk.
const STARTS_ROUNDED: u64 = 86_400;

/// The value of `user` for such a user.
pub(super) const AUTO: &str = "auto";

/// Returns the user of this application, and records it in the state folder.
pub(super) fn of(state: &Path, application: &str, group: Option<&str>) -> io::Result<Credentials> {
    let record = state.join(RECORD);
    let mut known: BTreeMap<String, u32> = read(&record)?;
    // Without it, the order in which ids are given to others is another one.
    let mut starts: BTreeMap<String, u64> = read(&state.join(STARTS)).unwrap_or_default();
    if choose(&known, application, credentials::is_number_taken).is_none() {
        let running: BTreeSet<u32> = proc::all().into_iter().flat_map(proc::users).collect();
        let is_busy = |number| running.contains(&number) || credentials::is_number_taken(number);
        if let Some(former) = longest_unused(&known, &starts, is_busy) {
            known.remove(&former);
            starts.remove(&former);
        }
    }
    let number = choose(&known, application, credentials::is_number_taken)
        .ok_or_else(|| io::Error::other("all user ids for `auto` are in use"))?;
    assert!(
        RANGE.contains(&number),
        "{number} is not a user id for `auto`"
    );
    assert!(
        known
            .iter()
            .all(|(name, other)| name == application || *other != number),
        "two applications would be the user {number}"
    );
    if known.get(application) != Some(&number) {
        known.insert(application.to_owned(), number);
        let unsynced = file::replace_durably(&record, &serde_json::to_vec(&known)?, 0o600)?;
        unsynced.map_or(Ok(()), Err)?;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let started = starts.get(application).copied();
    if started.is_none_or(|started| now.abs_diff(started) >= STARTS_ROUNDED) {
        starts.insert(application.to_owned(), now);
        file::replace_durably(&state.join(STARTS), &serde_json::to_vec(&starts)?, 0o600)?;
    }
    let gid = match group {
        Some(name) => credentials::group_number(name)?,
        None => number,
    };
    Ok(Credentials {
        uid: number,
        gid,
        groups: vec![gid],
    })
}

fn read<T: DeserializeOwned + Default>(record: &Path) -> io::Result<T> {
    let named = |e: io::Error| context(format!("reading `{}`", record.display()), e);
    match std::fs::read(record) {
        Ok(text) => serde_json::from_slice(&text).map_err(|e| named(e.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        Err(error) => Err(named(error)),
    }
}

/// Returns the application that was started longest ago and whose id is not used.
fn longest_unused(
    known: &BTreeMap<String, u32>,
    starts: &BTreeMap<String, u64>,
    is_busy: impl Fn(u32) -> bool,
) -> Option<String> {
    let unused = known.iter().filter(|(_, number)| !is_busy(**number));
    let oldest = unused.min_by_key(|(name, _)| starts.get(*name).copied().unwrap_or(0));
    oldest.map(|(name, _)| name.clone())
}

/// Returns its recorded id, unless another user or application has it now; otherwise the next free id after a position
/// derived from its name.
fn choose(
    known: &BTreeMap<String, u32>,
    application: &str,
    is_taken: impl Fn(u32) -> bool,
) -> Option<u32> {
    if let Some(&number) = known.get(application)
        && RANGE.contains(&number)
        && known.values().filter(|other| **other == number).count() == 1
        && !is_taken(number)
    {
        return Some(number);
    }
    let (first, last) = RANGE.into_inner();
    let count = last - first + 1;
    let start = (fnv(application) % u64::from(count)) as u32;
    (0..count)
        .map(|step| first + (start + step) % count)
        .find(|number| !known.values().any(|other| other == number) && !is_taken(*number))
}

/// FNV-1a, 64 bits: the same on every system, so that machines with the same configuration usually agree.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_application_has_a_number_of_its_own_and_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["blog", "shop", "api", "wiki"];
        let numbers: Vec<u32> = names
            .iter()
            .map(|name| of(folder.path(), name, None).unwrap().uid)
            .collect();
        let mut distinct = numbers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
        assert!(numbers.iter().all(|number| RANGE.contains(number)));
        for (name, number) in names.iter().zip(numbers).rev() {
            let again = of(folder.path(), name, None).unwrap();
            assert_eq!((again.uid, again.gid), (number, number));
            assert_eq!(again.groups, [number]);
        }
        let group = of(folder.path(), "blog", Some("root")).unwrap();
        assert_eq!(group.gid, 0);
    }

    #[test]
    fn a_record_with_one_number_for_two_is_put_right() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join(RECORD);
        std::fs::write(record, r#"{"blog": 61200, "shop": 61200}"#).unwrap();
        let number = |name: &str| of(folder.path(), name, None).unwrap().uid;
        assert_ne!(number("blog"), 61200);
        assert_eq!(number("shop"), 61200);
    }

    #[test]
    fn when_all_are_recorded_the_one_unused_for_longest_is_given_to_another() {
        let folder = tempfile::tempdir().unwrap();
        let full: BTreeMap<String, u32> = RANGE
            .map(|number| (format!("app{number}"), number))
            .collect();
        let starts: BTreeMap<String, u64> = full
            .iter()
            .map(|(name, number)| (name.clone(), u64::from(*number)))
            .filter(|(_, number)| *number != 61_300)
            .collect();
        let write = |name: &str, text: Vec<u8>| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write(RECORD, serde_json::to_vec(&full).unwrap());
        write(STARTS, serde_json::to_vec(&starts).unwrap());
        let number = |name: &str| of(folder.path(), name, None).unwrap().uid;
        assert_eq!(number("app61184"), 61_184);
        assert_eq!(number("new"), 61_300);
        assert_eq!(number("new"), 61_300);
        // The oldest was used just now.
        assert_eq!(number("newer"), 61_185);
        assert_eq!(longest_unused(&full, &starts, |_| true), None);
    }

    #[test]
    fn a_number_that_is_taken_is_passed_over() {
        let mut known = BTreeMap::new();
        let first = choose(&known, "blog", |_| false).unwrap();
        let second = choose(&known, "blog", |number| number == first).unwrap();
        assert_ne!(first, second);
        known.insert("blog".to_owned(), first);
        assert_eq!(choose(&known, "blog", |_| false), Some(first));
        assert_eq!(
            choose(&known, "blog", |number| number == first),
            Some(second)
        );
        assert_eq!(choose(&known, "blog", |_| true), None);
    }
}
