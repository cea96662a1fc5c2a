//! The stores of a configuration and their files.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::file_tier::Disk;
use crate::store::ResponseStore;

/// Those of `stores` that use the disk and are not among the `known`.
pub fn without_files<'s>(
    stores: &'s [Arc<ResponseStore>],
    known: &'s [Arc<ResponseStore>],
) -> impl Iterator<Item = &'s Arc<ResponseStore>> {
    let is_new = |store: &&Arc<ResponseStore>| {
        store.limits().disk.is_some() && !known.iter().any(|known| Arc::ptr_eq(known, store))
    };
    stores.iter().filter(is_new)
}

/// Opens the files of those of `stores` that use the disk and are not among the `known`; `file` returns the file for a name. A store
/// without a file is in memory only. `report` writes lines to the log.
pub fn open(
    stores: &[Arc<ResponseStore>],
    known: &[Arc<ResponseStore>],
    mut file: impl FnMut(&str) -> Option<File>,
    report: &(impl Fn(&str) + Clone + Send + Sync + 'static),
) {
    for store in without_files(stores, known) {
        let started = file(store.name()).map_or(Ok(()), |file| start(store, file, report.clone()));
        if let Err(error) = started {
            report(&format!(
                "the cache `{}` is in memory only: {error}",
                store.name()
            ));
        }
    }
}

fn start(
    store: &ResponseStore,
    file: File,
    report: impl Fn(&str) + Send + Sync + 'static,
) -> io::Result<()> {
    let Some(limits) = &store.limits().disk else {
        return Ok(());
    };
    let memory = store.limits().memory;
    let disk = Disk::start(store.name(), file, limits, memory, Box::new(report))?;
    store.set_tier(Arc::new(disk));
    Ok(())
}

/// Releases the files of stores that are not used any more: new stores may have the same. Those that no store has are emptied: purges
/// would not reach them, and purged responses would come back with a later configuration.
pub fn rest_replaced(previous: &[Arc<ResponseStore>], next: &[Arc<ResponseStore>]) {
    let is_used = |store: &&Arc<ResponseStore>| next.iter().any(|next| Arc::ptr_eq(next, store));
    for store in previous.iter().filter(|store| !is_used(store)) {
        // The next owner of the file waits for it.
        match next.iter().any(|next| has_same_file(next, store)) {
            true => drop(store.rest()),
            false => drop(store.tier().map(|tier| tier.discard())),
        }
    }
}

/// True if two stores have the same file.
fn has_same_file(one: &ResponseStore, other: &ResponseStore) -> bool {
    let place = |store: &ResponseStore| {
        let disk = store.limits().disk.as_ref();
        disk.map(|disk| disk.folder.clone())
    };
    one.name() == other.name() && place(one).is_some() && place(one) == place(other)
}

/// Has stores written to disk and releases their files; completes when that is done.
pub fn rest(stores: &[Arc<ResponseStore>]) -> impl Future<Output = ()> + Send + use<> {
    let resting: Vec<_> = stores.iter().filter_map(|store| store.rest()).collect();
    async move {
        for one in resting {
            // An error means that its thread has ended before.
            let _ = one.await;
        }
    }
}
