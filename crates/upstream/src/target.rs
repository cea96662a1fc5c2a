//! The targets of a name, and how they share the requests of its configured server.
//!
//! Pure: lookups happen elsewhere.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// An address that a name resolves to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResolvedTarget {
    /// Targets with a lower priority get requests first (RFC 2782).
    pub priority: u16,
    /// Its own name, if it differs from the configured one.
    pub host: Option<Arc<str>>,
    /// Its address.
    pub address: SocketAddr,
    /// Its share among targets of the same priority.
    pub weight: u16,
}

impl ResolvedTarget {
    /// One of several equal addresses of a name.
    pub(crate) fn alike(ip: IpAddr, port: u16) -> Self {
        ResolvedTarget {
            priority: 0,
            host: None,
            address: SocketAddr::new(ip, port),
            weight: 1,
        }
    }
}

/// A target's share of the requests of its server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Targets of rank 0 get requests first; those of 1 while none of rank 0 can, and so on.
    pub(crate) rank: u16,
    /// 1 on average over the targets of a rank, so that the configured weight means the same for all servers.
    pub(crate) weight: f64,
}

/// Returns the share of each target.
///
/// The addresses of one name and port are one target in the DNS: they share its weight. A weight of 0 counts as 1, which gives one such
/// target among others the chance that RFC 2782's algorithm gives it.
pub(crate) fn shares(targets: &[ResolvedTarget]) -> Vec<Share> {
    /// Targets of a priority by name and port, each with its weight and its number of addresses.
    type Rank<'t> = BTreeMap<(Option<&'t str>, u16), (f64, u32)>;

    let mut ranks: BTreeMap<u16, Rank<'_>> = BTreeMap::new();
    for target in targets {
        let rank = ranks.entry(target.priority).or_default();
        let known = rank.entry(name(target)).or_insert((0.0, 0));
        known.0 = f64::from(target.weight.max(1));
        known.1 += 1;
    }
    let share = |target: &ResolvedTarget| {
        let rank = ranks.range(..target.priority).count();
        let of_rank = ranks.get(&target.priority);
        let total: f64 = of_rank
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(|one| one.0)
            .sum();
        let (weight, addresses) = of_rank
            .and_then(|rank| rank.get(&name(target)))
            .copied()
            .unwrap_or((1.0, 1));
        let is_named = target.host.is_some();
        let count = of_rank.map_or(1, BTreeMap::len) as f64;
        Share {
            rank: u16::try_from(rank).unwrap_or(u16::MAX),
            weight: match is_named {
                true => weight * count / total / f64::from(addresses),
                // All addresses of a configured name have the configured weight.
                false => 1.0,
            },
        }
    };
    targets.iter().map(share).collect()
}

fn name(target: &ResolvedTarget) -> (Option<&str>, u16) {
    (target.host.as_deref(), target.address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(priority: u16, weight: u16, host: &str, address: &str) -> ResolvedTarget {
        ResolvedTarget {
            priority,
            host: Some(host.into()),
            address: address.parse().unwrap(),
            weight,
        }
    }

    fn of(targets: &[ResolvedTarget]) -> Vec<(u16, f64)> {
        let shares = shares(targets).into_iter();
        shares.map(|share| (share.rank, share.weight)).collect()
    }

    #[test]
    fn weights_are_relative_within_a_priority() {
        let targets = [
            target(10, 60, "a", "10.0.0.1:80"),
            target(10, 20, "b", "10.0.0.2:80"),
            target(20, 7, "c", "10.0.0.3:80"),
            target(65_535, 0, "d", "10.0.0.4:80"),
            target(65_535, 0, "e", "10.0.0.5:80"),
        ];
        let expected = [(0, 1.5), (0, 0.5), (1, 1.0), (2, 1.0), (2, 1.0)];
        assert_eq!(of(&targets), expected);
    }

    #[test]
    fn a_weight_of_nothing_is_a_small_one_beside_others() {
        let targets = [
            target(0, 9, "a", "10.0.0.1:80"),
            target(0, 0, "b", "10.0.0.2:80"),
        ];
        assert_eq!(of(&targets), [(0, 1.8), (0, 0.2)]);
    }

    #[test]
    fn addresses_of_one_target_divide_its_weight() {
        let targets = [
            target(0, 1, "a", "10.0.0.1:80"),
            target(0, 1, "a", "[::1]:80"),
            target(0, 1, "a", "10.0.0.1:81"),
            target(0, 1, "b", "10.0.0.2:80"),
        ];
        assert_eq!(of(&targets), [(0, 0.5), (0, 0.5), (0, 1.0), (0, 1.0)]);
    }

    #[test]
    fn addresses_of_a_written_name_are_alike() {
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        let targets = [
            ResolvedTarget::alike(ip(1), 80),
            ResolvedTarget::alike(ip(2), 80),
        ];
        assert_eq!(of(&targets), [(0, 1.0), (0, 1.0)]);
        assert_eq!(of(&[]), []);
    }
}
