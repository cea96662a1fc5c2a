//! Services: the servers in the SRV records of a name (RFC 2782).
//!
//! Must never happen: that a target which is still named, but cannot be looked up, loses working addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::lookup::Lookup;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::rdata::SRV;
use tokio::task::JoinSet;

use crate::lookup::{Questions, Resolution};
use crate::target::ResolvedTarget;

/// Targets that are looked up at once.
const AT_ONCE: usize = 16;

/// Looks up a service. `former` is the previous result.
pub(crate) async fn look_up(
    query: &str,
    former: &[ResolvedTarget],
    questions: &Questions,
) -> Result<Resolution, String> {
    let (answer, mut valid) = questions.services(query).await?;
    let records: Vec<&SRV> = records(&answer).collect();
    if records.is_empty() {
        return Err("it has no SRV record".to_owned());
    }
    let mut known = additional(&answer, &mut valid);
    // The root is not a host: "the service is decidedly not available at this domain".
    let hosts = records.iter().filter(|record| !record.target.is_root());
    let mut unknown: Vec<String> = hosts
        .map(|record| host_of(record))
        .filter(|host| !known.contains_key(host))
        .collect();
    unknown.sort_unstable();
    unknown.dedup();
    let mut missing = None;
    for (host, found) in addresses(unknown, questions).await? {
        match found {
            Ok((addresses, holds)) => {
                valid = valid.min(holds);
                known.insert(host, addresses);
            }
            Err(why) => {
                let of_host = |target: &&ResolvedTarget| target.host.as_deref() == Some(&*host);
                let addresses = former.iter().filter(of_host);
                let addresses = addresses.map(|target| target.address.ip()).collect();
                missing.get_or_insert((host.as_str().into(), why));
                known.insert(host, addresses);
            }
        }
    }
    let targets = targets(&records, &known);
    match missing {
        Some((host, why)) if targets.is_empty() => Err(format!("its target `{host}`: {why}")),
        missing => Ok(Resolution {
            targets,
            valid,
            missing,
        }),
    }
}

/// A host with its addresses and their time to live.
type Found = (String, Result<(Vec<IpAddr>, Duration), String>);

/// Looks up all of these, in any order.
async fn addresses(hosts: Vec<String>, questions: &Questions) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    let mut asked = JoinSet::new();
    for host in hosts {
        if asked.len() == AT_ONCE {
            found.extend(asked.join_next().await);
        }
        let questions = questions.clone();
        asked.spawn(async move {
            let addresses = questions.addresses(&host).await;
            (host, addresses)
        });
    }
    while let Some(one) = asked.join_next().await {
        found.push(one);
    }
    let found: Result<Vec<Found>, _> = found.into_iter().collect();
    found.map_err(|error| error.to_string())
}

fn records(answer: &Lookup) -> impl Iterator<Item = &SRV> {
    answer
        .answers()
        .iter()
        .filter_map(|record| match &record.data {
            RData::SRV(record) => Some(record),
            _ => None,
        })
}

/// The addresses in the additional section of the answer.
fn additional(answer: &Lookup, valid: &mut Duration) -> BTreeMap<String, Vec<IpAddr>> {
    let is_target = |host: &str| records(answer).any(|record| host_of(record) == host);
    let mut known: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for record in answer.additionals() {
        let host = written(&record.name.to_ascii());
        if let Some(address) = record.data.ip_addr()
            && is_target(&host)
        {
            *valid = (*valid).min(Duration::from_secs(record.ttl.into()));
            known.entry(host).or_default().push(address);
        }
    }
    known
}

fn targets(records: &[&SRV], known: &BTreeMap<String, Vec<IpAddr>>) -> Vec<ResolvedTarget> {
    let mut targets = Vec::new();
    for record in records {
        let host = host_of(record);
        // Port 0 cannot be connected to.
        let addresses = known.get(&host).filter(|_| record.port != 0);
        let host: Arc<str> = host.into();
        targets.extend(addresses.into_iter().flatten().map(|ip| ResolvedTarget {
            priority: record.priority,
            host: Some(Arc::clone(&host)),
            address: SocketAddr::new(*ip, record.port),
            weight: record.weight,
        }));
    }
    targets.sort_unstable();
    // The first of several records with one address has the lowest priority.
    let mut seen = std::collections::HashSet::new();
    targets.retain(|target| seen.insert(target.address));
    targets
}

fn host_of(record: &SRV) -> String {
    written(&record.target.to_ascii())
}

/// A name in lower case, without a trailing dot.
fn written(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}
