//! The value that a map has for a text.

use std::net::IpAddr;

use tutti_config::model::{
    CapturedGroups, HostCases, MapCases, OutOfSteps, Template, TextCases, VariableMap,
};

/// A value, and the groups of the expression that chose it.
pub(crate) type Chosen<'m> = (&'m Template, Option<CapturedGroups>);

/// Chooses the value for a key; `None`: the default.
///
/// # Errors
/// A regular expression ran out of steps.
pub(crate) fn choose<'m>(
    map: &'m VariableMap,
    key: &[u8],
) -> Result<Option<Chosen<'m>>, OutOfSteps<'m>> {
    let plain = |template: &'m Template| -> Result<Option<Chosen<'m>>, OutOfSteps<'m>> {
        Ok(Some((template, None)))
    };
    match &map.cases {
        MapCases::Texts(texts) => match texts.exact.get(&*key.to_ascii_lowercase()) {
            Some(template) => plain(template),
            None => by_pattern(texts, key),
        },
        MapCases::Hosts(hosts) => {
            let key = key.strip_suffix(b".").unwrap_or(key);
            match by_name(hosts, &key.to_ascii_lowercase()) {
                Some(template) => plain(template),
                None => by_pattern(&hosts.texts, key),
            }
        }
        MapCases::Addresses(cases) => {
            let text = std::str::from_utf8(key).ok();
            let address = text.and_then(|text| text.parse::<IpAddr>().ok());
            let found = address.and_then(|address| cases.get(address.to_canonical()));
            Ok(found.map(|template| (template, None)))
        }
        MapCases::Shares(shares) => {
            let hash = u64::from(murmur2(key));
            let share = shares.iter().find(|(end, _)| hash < *end);
            Ok(share.map(|(_, template)| (template, None)))
        }
    }
}

/// Longest name of a host (RFC 1035 §2.3.4). It bounds the time for a longer text, which a client may send.
const LONGEST_NAME: usize = 255;

fn by_name<'m>(hosts: &'m HostCases, name: &[u8]) -> Option<&'m Template> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let periods = || name.iter().enumerate().filter(|(_, byte)| **byte == b'.');
    // Longer ends begin further left, longer beginnings end further right. Neither `*` stands for nothing.
    let mut by_end = periods()
        .filter(|(at, _)| *at > 0)
        .filter_map(|(at, _)| hosts.ends.get(name.get(at..)?));
    let mut by_beginning = periods()
        .rev()
        .filter(|(at, _)| at + 1 < name.len())
        .filter_map(|(at, _)| hosts.beginnings.get(name.get(..=at)?));
    let exact = hosts.texts.exact.get(name);
    exact
        .or_else(|| by_end.next())
        .or_else(|| by_beginning.next())
}

fn by_pattern<'m>(texts: &'m TextCases, key: &[u8]) -> Result<Option<Chosen<'m>>, OutOfSteps<'m>> {
    for (pattern, template) in &texts.patterns {
        if let Some(groups) = pattern.groups_in(key)? {
            return Ok(Some((template, Some(groups))));
        }
    }
    Ok(None)
}

/// MurmurHash2 with 32 bits and the seed 0 (Austin Appleby, public domain), which nginx documents for `split_clients`.
fn murmur2(text: &[u8]) -> u32 {
    const FACTOR: u32 = 0x5bd1_e995;
    let mut hash = text.len() as u32;
    let mut words = text.chunks_exact(4);
    for word in words.by_ref() {
        let word = word
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
        let mut mixed = word.wrapping_mul(FACTOR);
        mixed ^= mixed >> 24;
        mixed = mixed.wrapping_mul(FACTOR);
        hash = hash.wrapping_mul(FACTOR) ^ mixed;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(FACTOR);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> 15
}
