//! Cipher strings (openssl-ciphers(1)) and lists of TLS 1.3 suites, for the available suites.

use super::refusal::{RejectedCommand, listed};

/// A cipher suite of TLS 1.2.
struct Suite {
    /// IANA, "TLS Cipher Suites".
    number: u16,
    name: &'static str,
    iana: &'static str,
    is_ecdsa: bool,
    bits: u16,
    is_chacha: bool,
}

/// In OpenSSL's order of preference.
const TLS12: [Suite; 6] = [
    suite(
        0xc02c,
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        256,
    ),
    suite(
        0xc030,
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        256,
    ),
    chacha(
        0xcca9,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    chacha(
        0xcca8,
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    suite(
        0xc02b,
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        128,
    ),
    suite(
        0xc02f,
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        128,
    ),
];

const fn suite(number: u16, name: &'static str, iana: &'static str, bits: u16) -> Suite {
    Suite {
        number,
        name,
        iana,
        // The suites for ECDSA have odd numbers below those for RSA, with one exception: listed by number.
        is_ecdsa: matches!(number, 0xc02b | 0xc02c | 0xcca9),
        bits,
        is_chacha: false,
    }
}

const fn chacha(number: u16, name: &'static str, iana: &'static str) -> Suite {
    Suite {
        is_chacha: true,
        ..suite(number, name, iana, 256)
    }
}

/// Suites of TLS 1.3 and their numbers (RFC 8446 §B.4).
const TLS13: [(&str, u16); 3] = [
    ("TLS_AES_256_GCM_SHA384", 0x1302),
    ("TLS_CHACHA20_POLY1305_SHA256", 0x1303),
    ("TLS_AES_128_GCM_SHA256", 0x1301),
];

/// Suites of TLS 1.3 that OpenSSL has but this server does not.
const OTHER_TLS13: [&str; 4] = [
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
    "TLS_SHA256_SHA256",
    "TLS_SHA384_SHA384",
];

/// Keywords that match all suites here.
const ALL: &str = "
    ALL DEFAULT HIGH ECDHE EECDH kECDHE kEECDH ECDH TLSv1.2 FIPS SUITEB128 SUITEB192 SUITEB128ONLY COMPLEMENTOFALL
    COMPLEMENTOFDEFAULT";

/// Parts of the names of other suites, and keywords for them.
const OTHER: &str = "
    3DES ADH AECDH AES AES128 AES256 AESCCM AESCCM8 AESGCM ARIA ARIA128 ARIA256 ARIAGCM CAMELLIA CAMELLIA128
    CAMELLIA256 CBC CBC3 CCM CCM8 CHACHA20 DES DH DHE DSS ECDH ECDHE ECDSA EDE EDH EXP EXPORT EXPORT40 EXPORT56 GCM
    GOST GOST12 GOST2001 GOST2012 GOST89 GOST89MAC IDEA KUZNYECHIK LOW MAGMA MD5 MEDIUM NULL PSK POLY1305 RC2 RC4 RSA
    SEED SHA SHA1 SHA256 SHA384 SRP SSLv2 SSLv3 TLSv1 TLSv1.0 TLSv1.1 TLSv1.3 aDH aDSS aECDH aGOST aNULL aPSK eNULL
    kDH kDHE kEDH kGOST kPSK kRSA";

/// Returns the suites of a cipher string, by number, in its order.
pub(crate) fn tls12(value: &str) -> Result<Vec<u16>, RejectedCommand> {
    let mut chosen: Vec<&Suite> = Vec::new();
    let mut killed: Vec<u16> = Vec::new();
    for item in value
        .split([':', ',', ' ', ';'])
        .filter(|item| !item.is_empty())
    {
        if let Some(directive) = item.strip_prefix('@') {
            direct(directive, &mut chosen)?;
            continue;
        }
        let (sign, words) = match item.split_at_checked(1) {
            Some((sign @ ("!" | "-" | "+"), words)) => (sign, words),
            _ => ("", item),
        };
        let matching = matching(words)?;
        let is_meant = |suite: &&Suite| matching.contains(&suite.number);
        match sign {
            "!" | "-" => {
                chosen.retain(|suite| !is_meant(suite));
                if sign == "!" {
                    killed.extend(&matching);
                }
            }
            "+" => {
                let (last, first) = chosen.iter().copied().partition(is_meant);
                chosen = first;
                let mut last: Vec<&Suite> = last;
                chosen.append(&mut last);
            }
            _ => {
                let added: Vec<&Suite> = TLS12
                    .iter()
                    .filter(|suite| is_meant(suite) && !killed.contains(&suite.number))
                    .filter(|suite| chosen.iter().all(|old| old.number != suite.number))
                    .collect();
                chosen.extend(added);
            }
        }
    }
    if chosen.is_empty() {
        return Err(RejectedCommand::new("no cipher of TLS 1.2 is left").expect(expected()));
    }
    Ok(chosen.iter().map(|suite| suite.number).collect())
}

fn expected() -> String {
    let names = TLS12.iter().map(|suite| suite.name);
    format!(
        "some of {}, or keywords for them such as `HIGH`",
        listed(names)
    )
}

fn direct(directive: &str, chosen: &mut [&Suite]) -> Result<(), RejectedCommand> {
    match directive {
        "STRENGTH" => {
            chosen.sort_by_key(|suite| std::cmp::Reverse(suite.bits));
            Ok(())
        }
        // Below 3 it excludes none of the available ones.
        "SECLEVEL=0" | "SECLEVEL=1" | "SECLEVEL=2" => Ok(()),
        _ => Err(
            RejectedCommand::new(format!("`@{directive}` is not supported"))
                .expect("`@STRENGTH`, or `@SECLEVEL` up to 2"),
        ),
    }
}

/// Returns the numbers of the suites that match all of `words`, joined by `+`.
fn matching(words: &str) -> Result<Vec<u16>, RejectedCommand> {
    let mut meant: Vec<&Suite> = TLS12.iter().collect();
    for word in words.split('+') {
        let test = keyword(word).ok_or_else(|| {
            RejectedCommand::new(format!(
                "`{word}` is neither a cipher nor a keyword for some"
            ))
            .expect(expected())
        })?;
        meant.retain(|suite| test.holds(suite));
    }
    Ok(meant.iter().map(|suite| suite.number).collect())
}

/// A condition on suites.
enum Test {
    All,
    None,
    Number(u16),
    Ecdsa,
    Rsa,
    Bits(u16),
    Aes,
    Chacha,
}

impl Test {
    fn holds(&self, suite: &Suite) -> bool {
        match self {
            Test::All => true,
            Test::None => false,
            Test::Number(number) => suite.number == *number,
            Test::Ecdsa => suite.is_ecdsa,
            Test::Rsa => !suite.is_ecdsa,
            Test::Bits(bits) => !suite.is_chacha && suite.bits == *bits,
            Test::Aes => !suite.is_chacha,
            Test::Chacha => suite.is_chacha,
        }
    }
}

fn keyword(word: &str) -> Option<Test> {
    let named = TLS12
        .iter()
        .find(|suite| suite.name == word || suite.iana == word);
    if let Some(suite) = named {
        return Some(Test::Number(suite.number));
    }
    Some(match word {
        "COMPLEMENTOFALL" | "COMPLEMENTOFDEFAULT" => Test::None,
        "SUITEB128ONLY" => Test::Number(0xc02b),
        "SUITEB192" => Test::Number(0xc02c),
        "SUITEB128" => Test::Ecdsa,
        _ if has(ALL, word) => Test::All,
        "ECDSA" | "aECDSA" => Test::Ecdsa,
        "aRSA" => Test::Rsa,
        "AES" | "AESGCM" => Test::Aes,
        "AES128" => Test::Bits(128),
        "AES256" => Test::Bits(256),
        "CHACHA20" => Test::Chacha,
        _ if is_other(word) => Test::None,
        _ => return None,
    })
}

/// True if this is one of the words of a list.
fn has(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|one| one == word)
}

/// True if it is the name of a suite, or a keyword, that OpenSSL has or had.
fn is_other(word: &str) -> bool {
    word.split('-').all(|part| has(OTHER, part))
        || (word.starts_with("TLS_") && word.contains("_WITH_"))
}

/// Returns the suites of a list for TLS 1.3, by number, in its order.
pub(crate) fn tls13(value: &str) -> Result<Vec<u16>, RejectedCommand> {
    let names = || {
        format!(
            "some of {}, separated by `:`",
            listed(TLS13.map(|(name, _)| name))
        )
    };
    let mut chosen = Vec::new();
    for word in value.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        match TLS13.iter().find(|(name, _)| *name == word) {
            Some((_, number)) if !chosen.contains(number) => chosen.push(*number),
            Some(_) => {}
            None if OTHER_TLS13.contains(&word) => {}
            None => {
                let refusal =
                    RejectedCommand::new(format!("`{word}` is not a TLS 1.3 cipher suite"));
                return Err(refusal.expect(names()));
            }
        }
    }
    if chosen.is_empty() {
        return Err(RejectedCommand::new("no cipher suite of TLS 1.3 is left").expect(names()));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: [u16; 6] = [0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc02b, 0xc02f];

    #[test]
    fn keywords_choose_and_signs_remove_and_reorder() {
        let of = |value| tls12(value).unwrap();
        assert_eq!(of("HIGH:!aNULL:!MD5"), EVERYTHING);
        assert_eq!(of("ECDHE+AESGCM:!AES128"), [0xc02c, 0xc030]);
        assert_eq!(
            of("ALL:-CHACHA20:CHACHA20"),
            [0xc02c, 0xc030, 0xc02b, 0xc02f, 0xcca9, 0xcca8]
        );
        assert_eq!(of("ALL:!aRSA:ALL"), [0xc02c, 0xcca9, 0xc02b]);
        assert_eq!(
            of("AES128:AES256:@STRENGTH"),
            [0xc02c, 0xc030, 0xc02b, 0xc02f]
        );
        assert_eq!(of("AESGCM+aRSA:+AES256"), [0xc02f, 0xc030]);
    }

    #[test]
    fn recommended_lists_are_taken_and_lose_what_is_not_there() {
        let intermediate = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
                            ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
                            DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:DES-CBC3-SHA";
        let chosen = tls12(intermediate).unwrap();
        assert_eq!(chosen, [0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8]);
    }

    #[test]
    fn strangers_and_nothing_left_are_refused() {
        assert!(tls12("ECDHE-RSA-AES512").is_err());
        assert!(tls12("kRSA:RC4").unwrap_err().message.contains("left"));
        assert!(tls12("ALL:@SECLEVEL=4").is_err());
        assert!(tls12("").is_err());
        assert!(tls13("TLS_AES_128_CCM_SHA256").is_err());
        assert!(tls13("AES128").is_err());
    }

    #[test]
    fn suites_of_tls_1_3_keep_their_order() {
        let value = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
        assert_eq!(tls13(value).unwrap(), [0x1301, 0x1302, 0x1303]);
    }
}
