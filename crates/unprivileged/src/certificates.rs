//! The stored certificate bundles that the configuration may name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};
use tutti_config::Config;
use tutti_config::model::{Authority, StoredName};
use tutti_log::Level;
use tutti_log::Log;
use tutti_tls::Bundle;

/// Bundles by name. Cheap to copy: a bundle is replaced in a copy, which then replaces the whole.
#[derive(Clone, Default)]
pub struct Certificates(BTreeMap<String, Arc<Bundle>>);

impl Certificates {
    /// Reads the stored ones. Unreadable ones are skipped, and logged if there is a log.
    pub fn read(stored: &BTreeMap<String, String>, log: Option<&Log>) -> Certificates {
        let mut bundles = BTreeMap::new();
        let now = SystemTime::now();
        for (name, pem) in stored {
            match Bundle::parse(pem.as_bytes(), now) {
                Ok(bundle) => {
                    if let Some(log) = log {
                        warn(name, &bundle, log);
                    }
                    bundles.insert(name.clone(), Arc::new(bundle));
                }
                Err(error) => {
                    let text =
                        format!("the stored certificate bundle `{name}` cannot be used: {error}");
                    if let Some(log) = log {
                        log.line(Level::Alert, &text);
                    }
                }
            }
        }
        Certificates(bundles)
    }

    /// Returns the bundle of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Bundle>> {
        self.0.get(name).cloned()
    }

    /// Returns all, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Bundle)> {
        let bundles = self.0.iter();
        bundles.map(|(name, bundle)| (name.as_str(), bundle.as_ref()))
    }

    /// Returns all names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the on-demand bundles of an account, including those that could be on demand, by host name.
    pub fn on_demand(&self, account: &str) -> Vec<(String, Arc<Bundle>)> {
        let bundles = self.0.iter().filter_map(|(name, bundle)| {
            let (by, host) = tutti_options::acme_names::parts(name)?;
            (by == account).then(|| (host.to_owned(), Arc::clone(bundle)))
        });
        bundles.collect()
    }

    /// Returns a copy with this bundle under this name.
    pub fn with(&self, name: &str, bundle: Arc<Bundle>) -> Certificates {
        let mut copy = self.clone();
        copy.0.insert(name.to_owned(), bundle);
        copy
    }

    /// Returns a copy without this name.
    pub fn without(&self, name: &str) -> Certificates {
        let mut copy = self.clone();
        copy.0.remove(name);
        copy
    }

    /// The content of `/certificates`.
    pub fn description(&self) -> Value {
        let bundles = self.0.iter();
        let bundles = bundles.map(|(name, bundle)| (name.clone(), bundle.description().clone()));
        Value::Object(bundles.collect::<Map<_, _>>())
    }
}

/// Logs warnings about a bundle.
pub fn warn(name: &str, bundle: &Bundle, log: &Log) {
    for warning in bundle.warnings() {
        log.line(
            Level::Warn,
            &format!("certificate bundle `{name}`: {warning}"),
        );
    }
}

/// True if a configuration allows this bundle on demand.
pub fn is_on_demand(config: &Config, name: &str) -> bool {
    let account = tutti_options::acme_names::parts(name).map(|(account, _)| account);
    account.is_some_and(|account| accounts_on_demand(config).any(|one| one == account))
}

/// Returns the accounts with on-demand certificates for a listener.
pub fn accounts_on_demand(config: &Config) -> impl Iterator<Item = &str> {
    let listeners = config.listeners.iter();
    let tls = listeners.filter_map(|listener| listener.tls.as_ref());
    let on_demand = tls.filter_map(|tls| tls.on_demand.as_ref());
    on_demand.map(|on_demand| on_demand.account.as_str())
}

/// Returns the places where a configuration names a bundle.
pub fn places(config: &Config, name: &str) -> Vec<String> {
    let tls = config
        .listeners
        .iter()
        .filter_map(|listener| listener.tls.as_ref());
    let dashboard = config.settings.dashboard.as_ref();
    let tls = tls.chain(dashboard.and_then(|dashboard| dashboard.tls.as_ref()));
    let named = tls.flat_map(|tls| {
        let clients = tls.clients.iter().flat_map(|clients| &clients.authorities);
        let clients = clients.filter_map(|authority| match authority {
            Authority::Bundle(bundle) => Some(bundle),
            Authority::File(_) => None,
        });
        tls.certificates.iter().chain(clients)
    });
    let passed = config.upstreams.values().chain(config.proxies());
    let towards = passed.filter_map(|upstream| upstream.tls.as_deref());
    let shown = towards.flat_map(|tls| {
        let authorities = tls.authorities.iter().flatten();
        let authorities = authorities.filter_map(|authority| match authority {
            Authority::Bundle(name) => Some(name),
            Authority::File(..) => None,
        });
        tls.certificate.iter().chain(authorities)
    });
    let is_it = |bundle: &&StoredName| bundle.name == name;
    named
        .chain(shown)
        .filter(is_it)
        .map(|bundle| bundle.pointer.as_str().to_owned())
        .collect()
}
