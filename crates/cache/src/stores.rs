//! The stores of a configuration.

use std::sync::Arc;

use tutti_config::Config;
use tutti_config::model::CacheStore;

use crate::store::{DiskLimits, ResponseStore, StoreLimits};

/// The stores of `config`: those of `known` with the same name and size are kept, others are new.
pub fn stores(config: &Config, known: &[Arc<ResponseStore>]) -> Vec<Arc<ResponseStore>> {
    let one = |(name, wanted): (&String, &CacheStore)| {
        let disk = wanted.disk.as_ref().map(|disk| DiskLimits {
            folder: disk.options.path.clone(),
            size: disk.options.size,
            object: disk.object,
        });
        let limits = StoreLimits {
            memory: wanted.options.memory,
            object: wanted.options.max_object,
            disk,
        };
        let is_same =
            |store: &&Arc<ResponseStore>| store.name() == name && *store.limits() == limits;
        let same = known.iter().find(is_same);
        same.map_or_else(|| Arc::new(ResponseStore::new(name, limits)), Arc::clone)
    };
    config.settings.caches.iter().map(one).collect()
}
