//! Chooses among servers: in turn by weight, the least busy, or always the same one for a key.
//!
//! Pure: the caller decides which servers may be chosen.

use tutti_config::model::Balance;

/// A server that may be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'s> {
    /// Its index in the group.
    pub(crate) index: usize,
    /// Its share of the requests; more than 0.
    pub(crate) weight: f64,
    /// Open requests.
    pub(crate) active: u32,
    /// Its name, which identifies it wherever the same group is configured.
    pub(crate) name: &'s str,
}

/// Chooses one. `turns` has a number for each server of the group, updated here.
pub(crate) fn choose(
    balance: &Balance,
    candidates: &[Candidate<'_>],
    key: &[u8],
    turns: &mut [f64],
) -> Option<usize> {
    match balance {
        Balance::RoundRobin => in_turn(candidates.iter(), turns),
        Balance::LeastConnections => {
            let load = |candidate: &Candidate<'_>| f64::from(candidate.active) / candidate.weight;
            let least = candidates.iter().map(load).fold(f64::INFINITY, f64::min);
            in_turn(
                candidates
                    .iter()
                    .filter(|candidate| load(candidate) <= least),
                turns,
            )
        }
        Balance::Hash(_) => candidates
            .iter()
            .max_by(|a, b| score(key, a).total_cmp(&score(key, b)))
            .map(|candidate| candidate.index),
    }
}

/// Smooth weighted round robin: every server gains its weight, the one with the most is chosen and loses the sum of all weights. Three
/// servers of weights 2, 1 and 1 are chosen as A B A C, not as A A B C.
fn in_turn<'c>(
    candidates: impl Iterator<Item = &'c Candidate<'c>>,
    turns: &mut [f64],
) -> Option<usize> {
    let mut total = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for candidate in candidates {
        let turn = turns.get_mut(candidate.index)?;
        *turn += candidate.weight;
        total += candidate.weight;
        if best.is_none_or(|(_, most)| *turn > most) {
            best = Some((candidate.index, *turn));
        }
    }
    let (index, _) = best?;
    *turns.get_mut(index)? -= total;
    Some(index)
}

/// Weighted rendezvous hashing (Thaler and Ravishankar 1998; the weights as in draft-ietf-bess-weighted-hrw): the highest score wins. So
/// the loss of a server moves only its own keys, and a new server takes its share from all others equally.
fn score(key: &[u8], candidate: &Candidate<'_>) -> f64 {
    // The upper 53 bits, all that a float holds, as a number between 0 and 1, both excluded.
    let draw = ((hash(key, candidate.name.as_bytes()) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    candidate.weight / -draw.ln()
}

/// FNV-1a over both, and the finaliser of SplitMix64, which spreads it over all bits. The same on every machine, so that several load
/// balancers choose the same server.
fn hash(key: &[u8], name: &[u8]) -> u64 {
    let bytes = key.iter().chain(&[0]).chain(name);
    let mut mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use tutti_config::model::Template;

    use super::*;

    const NAMES: [&str; 4] = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"];

    fn candidates(weights: &[f64]) -> Vec<Candidate<'static>> {
        let one = |(index, weight): (usize, &f64)| Candidate {
            index,
            weight: *weight,
            active: 0,
            name: NAMES[index],
        };
        weights.iter().enumerate().map(one).collect()
    }

    fn by_hash() -> Balance {
        Balance::Hash(Template::parse("$remote_addr").unwrap())
    }

    #[test]
    fn turns_follow_weights_smoothly() {
        for (weights, expected) in [
            (&[1.0, 1.0][..], "0101"),
            (&[2.0, 1.0, 1.0], "01200120"),
            (&[1.0, 0.5], "010010"),
            (&[1e1, 10.0, 10.0], "012012"),
        ] {
            let list = candidates(weights);
            let mut turns = vec![0.0; weights.len()];
            let mut order = String::new();
            for _ in 0..expected.len() {
                let index = choose(&Balance::RoundRobin, &list, b"", &mut turns).unwrap();
                order.push_str(&index.to_string());
            }
            assert_eq!(order, expected, "{weights:?}");
        }
    }

    #[test]
    fn the_least_busy_for_its_weight_is_chosen() {
        let mut list = candidates(&[1.0, 2.0, 1.0]);
        list[0].active = 2;
        list[1].active = 3;
        list[2].active = 2;
        let mut turns = vec![0.0; 3];
        let balance = Balance::LeastConnections;
        assert_eq!(choose(&balance, &list, b"", &mut turns), Some(1));
        list[1].active = 4;
        let mut chosen: Vec<_> = (0..4)
            .map(|_| choose(&balance, &list, b"", &mut turns).unwrap())
            .collect();
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 1, 1, 2], "equals take turns by weight");
    }

    #[test]
    fn a_key_stays_with_its_server() {
        let all = candidates(&[1.0, 1.0, 1.0, 1.0]);
        let without: Vec<_> = all.iter().filter(|one| one.index != 2).copied().collect();
        let mut counts = [0; 4];
        let mut moved = 0;
        for number in 0..4000 {
            let key = format!("192.0.2.{number}");
            let mut turns = vec![0.0; 4];
            let first = choose(&by_hash(), &all, key.as_bytes(), &mut turns).unwrap();
            let second = choose(&by_hash(), &without, key.as_bytes(), &mut turns).unwrap();
            counts[first] += 1;
            moved += usize::from(first != 2 && first != second);
        }
        assert_eq!(moved, 0, "only the keys of the server that went move");
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn keys_are_shared_by_weight() {
        let list = candidates(&[3.0, 1.0]);
        let first = (0..4000)
            .filter(|number| {
                let key = number.to_string();
                choose(&by_hash(), &list, key.as_bytes(), &mut [0.0; 2]) == Some(0)
            })
            .count();
        assert!((2850..3150).contains(&first), "{first} of 4000");
    }

    #[test]
    fn no_server_is_chosen_from_an_empty_group() {
        assert_eq!(choose(&Balance::RoundRobin, &[], b"", &mut []), None);
        assert_eq!(choose(&by_hash(), &[], b"", &mut []), None);
    }
}
