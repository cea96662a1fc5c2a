//! DNS queries, according to `settings.resolver`.
//!
//! Nothing is cached between rounds: each reads the files of the system again (`/etc/hosts`, `/etc/resolv.conf`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use tutti_config::model::Resolver;

use crate::target::ResolvedTarget;

/// Attempts per name server.
const ATTEMPTS: usize = 2;

/// The targets of a name, perhaps incomplete.
pub(crate) struct Resolution {
    /// Sorted.
    pub(crate) targets: Vec<ResolvedTarget>,
    /// Their time to live.
    pub(crate) valid: Duration,
    /// A target that could not be looked up, and why.
    pub(crate) missing: Option<(Box<str>, String)>,
}

/// One round of queries.
#[derive(Clone)]
pub(crate) struct Questions {
    resolver: TokioResolver,
    hosts: Arc<Hosts>,
    settings: Resolver,
}

impl Questions {
    pub(crate) fn new(settings: &Resolver) -> Result<Self, String> {
        let mut builder = if settings.servers.is_empty() {
            TokioResolver::builder_tokio()
                .map_err(|error| format!("`/etc/resolv.conf` cannot be used: {error}"))?
        } else {
            let servers = settings.servers.iter().map(|server| {
                let ways = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut way| {
                    way.port = server.port();
                    way
                });
                NameServerConfig::new(server.ip(), true, ways.to_vec())
            });
            let config = ResolverConfig::from_name_servers(servers.collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.timeout = settings.options.timeout;
        options.attempts = ATTEMPTS;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        // `addresses` reads the file itself: if it has one address family, the other is not looked up.
        options.use_hosts_file = ResolveHosts::Never;
        Ok(Questions {
            resolver: builder.build().map_err(|error| error.to_string())?,
            hosts: Arc::new(Hosts::from_system().unwrap_or_default()),
            settings: settings.clone(),
        })
    }

    /// The addresses of a name, at least one, and their time to live.
    pub(crate) async fn addresses(&self, host: &str) -> Result<(Vec<IpAddr>, Duration), String> {
        const NONE: &str = "it has no address";
        let fixed = self.in_hosts(host);
        if !fixed.is_empty() {
            return Ok((fixed, self.settings.options.max_ttl));
        }
        let found = self.resolver.lookup_ip(host).await;
        let found = found.map_err(|error| words(&error, NONE))?;
        let addresses: Vec<IpAddr> = found.iter().collect();
        if addresses.is_empty() {
            return Err(NONE.to_owned());
        }
        Ok((addresses, until(found.valid_until())))
    }

    /// The SRV records of a name, and their time to live.
    pub(crate) async fn services(&self, query: &str) -> Result<(Lookup, Duration), String> {
        let found = self.resolver.srv_lookup(query).await;
        let found = found.map_err(|error| words(&error, "it has no SRV record"))?;
        let valid = until(found.valid_until());
        Ok((found, valid))
    }

    /// The time to live within the configured limits.
    pub(crate) fn bounded(&self, valid: Duration) -> Duration {
        valid.clamp(self.settings.options.min_ttl, self.settings.options.max_ttl)
    }

    /// The entries of `/etc/hosts`.
    fn in_hosts(&self, host: &str) -> Vec<IpAddr> {
        let Ok(name) = Name::from_ascii(host) else {
            return Vec::new();
        };
        let of = |kind| {
            let query = Query::query(name.clone(), kind);
            self.hosts.lookup_static_host(&query)
        };
        let found = [RecordType::A, RecordType::AAAA].into_iter().filter_map(of);
        found
            .flat_map(|lookup| {
                let records = lookup.answers().iter();
                records
                    .filter_map(|record| record.data.ip_addr())
                    .collect::<Vec<_>>()
            })
            .collect()
    }
}

/// Describes why there is no answer; `none`: the name exists, but has no such record.
fn words(error: &NetError, none: &str) -> String {
    if error.is_nx_domain() {
        "the name does not exist".to_owned()
    } else if error.is_no_records_found() {
        none.to_owned()
    } else {
        error.to_string()
    }
}

fn until(moment: Instant) -> Duration {
    moment.saturating_duration_since(Instant::now())
}
