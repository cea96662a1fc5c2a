//! The files of caches on disk, opened by main.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use tutti_config::{Config, Diagnostics};
use tutti_log::{Level, Log};
use tutti_protocol::{CacheGrant, FromRouter};
use tutti_unprivileged::fault;
use tutti_unprivileged::grants::caches_of;

use super::line::Link;
use super::missing::{Lacking, Need};

/// The files of caches, or why there is none.
#[derive(Default)]
pub(super) struct CacheFiles {
    files: HashMap<String, OwnedFd>,
    faults: Vec<(CacheGrant, tutti_config::Diagnostic)>,
}

impl CacheFiles {
    /// The file of a store.
    pub(super) fn take(&mut self, store: &str) -> Option<OwnedFd> {
        self.files.remove(store)
    }

    /// The faults that prevent a change.
    pub(super) fn faults(&mut self) -> Option<Diagnostics> {
        let faults = std::mem::take(&mut self.faults);
        let faults: Vec<_> = faults.into_iter().map(|(_, fault)| fault).collect();
        (!faults.is_empty()).then_some(Diagnostics(faults))
    }

    /// The caches that are in memory only.
    pub(super) fn lacking(&self) -> impl Iterator<Item = Lacking> {
        self.faults.iter().map(|(cache, fault)| Lacking {
            pointer: fault.pointer.clone(),
            need: Need::Cache(cache.clone()),
        })
    }

    /// Logs which caches are in memory only: that does not prevent serving.
    pub(super) fn report(&self, log: &Log) {
        for (CacheGrant { name, .. }, fault) in &self.faults {
            let text = format!(
                "the responses of the cache `{name}` are in memory only: {}",
                fault.detail()
            );
            log.line(Level::Warn, &text);
        }
    }
}

/// Has main open the files of these caches.
pub(super) async fn open(link: &Link, config: &Config, needed: &[String]) -> CacheFiles {
    let mut opened = CacheFiles::default();
    for cache in caches_of(config).filter(|cache| needed.contains(&cache.name)) {
        let make = |id| FromRouter::OpenCache {
            id,
            cache: cache.clone(),
        };
        let name = &cache.name;
        let done = link.request(&make, Vec::new()).await;
        let file = done.map(|done| done.descriptors.into_iter().next());
        match file {
            Ok(Some(file)) => drop(opened.files.insert(name.clone(), file)),
            Ok(None) => {}
            Err(refused) => {
                let disk = config.settings.caches.get(name);
                let disk = disk.and_then(|store| store.disk.as_ref());
                let pointer = disk.map(|disk| disk.pointer.clone()).unwrap_or_default();
                let message = format!("cannot keep responses on disk: {}", refused.message);
                let hint = "the folder must be writable for the server's users only, and its file system must have free space";
                let hint = refused.hint.or(Some(hint.to_owned()));
                opened.faults.push((cache, fault(pointer, message, hint)));
            }
        }
    }
    opened
}
