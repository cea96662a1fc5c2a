//! Names of servers: which addresses they have now, looked up again when the answer has become old.
//!
//! One task for each name of an upstream, on whatever thread the caller runs it, which is no listen thread. Each lookup begins with the
//! files of the system as they are then (`/etc/hosts`, `/etc/resolv.conf`); nothing is kept but the addresses.
//!
//! Must never happen: that a name which cannot be looked up takes away addresses that were good.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use tutti_config::model::Resolver;

use crate::group::Upstream;

/// Attempts at each name server.
const ATTEMPTS: usize = 2;

/// Time until a name that could not be looked up is tried again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// News about a name, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameEvent {
    /// It cannot be looked up.
    Lost,
    /// It can be again.
    Found,
}

/// Keeps the addresses of one name of an upstream up to date, for as long as this runs. `index` is that of
/// [`Upstream::names`]. `say` gets what is to be logged: once when it begins to fail, once when that is over.
pub async fn keep_resolved(
    upstream: Arc<Upstream>,
    index: usize,
    host: String,
    settings: Resolver,
    say: impl Fn(NameEvent, &str),
) {
    let mut failures = 0_u32;
    loop {
        let pause = match resolve(&host, &settings).await {
            Ok((addresses, valid)) => {
                upstream.resolved(index, Some(addresses));
                if failures > 0 {
                    say(
                        NameEvent::Found,
                        &format!("the name `{host}` is resolved again"),
                    );
                }
                failures = 0;
                valid
            }
            Err(why) => {
                let has_some = upstream.resolved(index, None);
                if failures == 0 {
                    let rest = if has_some {
                        "; its last addresses are kept"
                    } else {
                        ""
                    };
                    let text = format!("the name `{host}` cannot be resolved: {why}{rest}");
                    say(NameEvent::Lost, &text);
                }
                failures = failures.saturating_add(1);
                let pause = FIRST_PAUSE * 2_u32.saturating_pow(failures.min(10) - 1);
                pause.min(LONGEST_PAUSE)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// The addresses of a name, at least one, and how long they hold.
async fn resolve(host: &str, settings: &Resolver) -> Result<(Vec<IpAddr>, Duration), String> {
    let fixed = in_hosts(host);
    if !fixed.is_empty() {
        return Ok((fixed, settings.max_ttl));
    }
    let words = |error: NetError| {
        if error.is_nx_domain() {
            "there is no such name".to_owned()
        } else if error.is_no_records_found() {
            "it has no address".to_owned()
        } else {
            error.to_string()
        }
    };
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
    options.timeout = settings.timeout;
    options.attempts = ATTEMPTS;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    // Looked at above: where one family is there, the other is not asked for.
    options.use_hosts_file = ResolveHosts::Never;
    let resolver = builder.build().map_err(words)?;
    let found = resolver.lookup_ip(host).await.map_err(words)?;
    let addresses: Vec<IpAddr> = found.iter().collect();
    if addresses.is_empty() {
        return Err("it has no address".to_owned());
    }
    let valid = found
        .valid_until()
        .saturating_duration_since(Instant::now());
    Ok((addresses, valid.clamp(settings.min_ttl, settings.max_ttl)))
}

/// The entries of `/etc/hosts`.
fn in_hosts(host: &str) -> Vec<IpAddr> {
    let Ok(name) = Name::from_ascii(host) else {
        return Vec::new();
    };
    let hosts = Hosts::from_system().unwrap_or_default();
    let of = |kind| hosts.lookup_static_host(&Query::query(name.clone(), kind));
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
