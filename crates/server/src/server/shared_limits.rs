//! Limits that several servers share: the number of nodes, the stores, and their part of `/status`.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tutti_config::model::Resolver;
use tutti_guard::SharedLimit;
pub use tutti_guard::valkey::StoreStatus;
use tutti_guard::valkey::{BoxFuture, StoreEnvironment, StoreEvent};
use tutti_pool::{Level, LogSink};
use tutti_proxy::FileWanted;

use crate::server::Server;

/// A store of limits.
#[derive(Clone, Debug)]
pub struct SharedLimitStore {
    /// Its name.
    pub name: String,
    /// Its state.
    pub status: StoreStatus,
}

impl Server {
    /// Sets the number of nodes that share limits.
    pub fn set_nodes(&self, nodes: u32) {
        // Each configuration takes the number of the former one.
        self.live().guards.share().set(nodes);
    }

    /// The number of nodes that share limits.
    pub fn nodes(&self) -> u32 {
        self.live().guards.share().nodes()
    }

    /// The limits of the configuration in force that several servers share.
    pub fn shared_limits(&self) -> Vec<SharedLimit> {
        let live = self.live();
        let limits = live.guards.limits().into_iter();
        limits.filter_map(|limit| SharedLimit::of(limit)).collect()
    }

    /// The stores of limits.
    pub fn limit_stores(&self) -> Vec<SharedLimitStore> {
        let live = self.live();
        let stores = live.guards.stores().iter();
        let states = stores.map(|store| SharedLimitStore {
            name: store.model.name.clone(),
            status: store.status(),
        });
        states.collect()
    }

    /// Has the stores of the configuration in force connect, unless they have begun to.
    pub(crate) fn begin_limit_stores(&self) {
        let live = self.live();
        for store in live.guards.stores() {
            let around = || -> Arc<dyn StoreEnvironment> {
                Arc::new(Around {
                    files: self.files.clone(),
                    resolver: live.resolver.clone(),
                    log: Arc::clone(self.log()),
                })
            };
            if let Err(error) = store.begin(around) {
                let text = format!("cannot connect to {store}: {error}");
                self.log().log(Level::Alert, &text);
            }
        }
    }
}

/// Gives a store access to files, to the DNS and to the log.
struct Around {
    files: UnboundedSender<FileWanted>,
    resolver: Resolver,
    log: Arc<dyn LogSink>,
}

impl StoreEnvironment for Around {
    fn read<'s>(&'s self, file: &'s Path) -> BoxFuture<'s, Result<Vec<u8>, String>> {
        Box::pin(FileWanted::read(&self.files, file))
    }

    fn addresses<'s>(&'s self, host: &'s str) -> BoxFuture<'s, Result<Vec<IpAddr>, String>> {
        Box::pin(tutti_upstream::addresses(host, &self.resolver))
    }

    fn report(&self, event: StoreEvent, text: &str) {
        let level = match event {
            StoreEvent::Lost => Level::Warn,
            StoreEvent::Found => Level::Notice,
        };
        self.log.log(level, text);
    }
}
