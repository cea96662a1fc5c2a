//! OpenSSL's configuration commands, as far as they can be supported (SSL_CONF_cmd(3), "Supported configuration file
//! commands").
//!
//! A command either has the same effect as in OpenSSL, or is a fault: none is accepted and ignored. Values of a list
//! that are not supported here (an old cipher, a group) are skipped, as OpenSSL skips those it was built without; an
//! empty result is a fault.

mod ciphers;
mod protocol;
mod refusal;

pub use self::protocol::TlsProtocol;
pub(crate) use self::refusal::RejectedCommand;
use self::refusal::listed;

/// The supported commands, in their usual notation.
pub(crate) const COMMANDS: [&str; 8] = [
    "MinProtocol",
    "MaxProtocol",
    "Protocol",
    "CipherString",
    "Ciphersuites",
    "Groups",
    "Curves",
    "Options",
];

/// Commands of OpenSSL that are separate options here.
const ELSEWHERE: [(&str, &str); 8] = [
    ("Certificate", "use the option `certificate`"),
    (
        "PrivateKey",
        "the key is part of the bundle that `certificate` names",
    ),
    (
        "ChainCAFile",
        "the chain is part of the bundle that `certificate` names",
    ),
    ("ServerInfoFile", "there is no equivalent"),
    ("ClientCAFile", "use the option `client_ca`"),
    ("RequestCAFile", "use the option `client_ca`"),
    ("VerifyCAFile", "use the option `client_ca`"),
    (
        "VerifyMode",
        "use the options `client_ca` and `client_verify`",
    ),
];

/// Words for `Options`. The second value is the fixed setting here; `None`: it can be chosen.
const OPTIONS: [(&str, Option<bool>); 15] = [
    ("SessionTicket", None),
    ("ServerPreference", None),
    ("Compression", Some(false)),
    ("EmptyFragments", Some(true)),
    ("Bugs", Some(false)),
    ("DHSingle", Some(true)),
    ("ECDHSingle", Some(true)),
    ("NoRenegotiation", Some(true)),
    ("NoResumptionOnRenegotiation", Some(true)),
    ("UnsafeLegacyRenegotiation", Some(false)),
    ("EncryptThenMac", Some(true)),
    ("AllowNoDHEKEX", Some(false)),
    ("MiddleboxCompat", Some(true)),
    ("AntiReplay", Some(true)),
    ("ExtendedMasterSecret", Some(true)),
];

/// Key exchange groups: number (IANA, "TLS Supported Groups") and names.
const GROUPS: [(u16, &[&str]); 5] = [
    (0x001d, &["X25519"]),
    (0x0017, &["P-256", "prime256v1", "secp256r1"]),
    (0x0018, &["P-384", "secp384r1"]),
    (0x11ec, &["X25519MLKEM768"]),
    (0x11eb, &["SecP256r1MLKEM768"]),
];

/// Groups that OpenSSL has but this server does not.
const OTHER_GROUPS: &str = "
    P-521 secp521r1 P-224 secp224r1 secp256k1 X448 ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192 brainpoolP256r1
    brainpoolP384r1 brainpoolP512r1 MLKEM512 MLKEM768 MLKEM1024 SecP384r1MLKEM1024 secp192r1";

/// The result of one listener's commands.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// Versions, ciphers and groups.
    pub(crate) protocol: TlsProtocol,
    /// True if `Options` enables tickets; `None` without the option.
    pub(crate) tickets: Option<bool>,
}

/// Applies one command.
pub(crate) fn command(
    name: &str,
    value: &str,
    settings: &mut Settings,
) -> Result<(), RejectedCommand> {
    let Some(known) = COMMANDS
        .iter()
        .find(|known| known.eq_ignore_ascii_case(name))
    else {
        return Err(unknown(name));
    };
    let protocol = &mut settings.protocol;
    match *known {
        "MinProtocol" => limit(value, protocol, Bound::Least),
        "MaxProtocol" => limit(value, protocol, Bound::Most),
        "Protocol" => protocols(value, protocol),
        "CipherString" => {
            protocol.tls12_suites = Some(ciphers::tls12(value)?);
            Ok(())
        }
        "Ciphersuites" => {
            protocol.tls13_suites = Some(ciphers::tls13(value)?);
            Ok(())
        }
        "Options" => options(value, settings),
        _ => {
            protocol.groups = groups(value)?;
            Ok(())
        }
    }
}

fn unknown(name: &str) -> RejectedCommand {
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    let refusal = RejectedCommand::new(format!("the command `{name}` is not supported"))
        .expect(format!("one of {}", listed(COMMANDS)));
    let refusal = match elsewhere {
        Some((_, cure)) => refusal.suggest(*cure),
        None => refusal,
    };
    RejectedCommand {
        is_name: true,
        ..refusal
    }
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Old,
    Tls12,
    Tls13,
}

fn version(word: &str) -> Option<Version> {
    let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(word));
    if is(&["TLSv1.3"]) {
        Some(Version::Tls13)
    } else if is(&["TLSv1.2"]) {
        Some(Version::Tls12)
    } else if is(&["SSLv2", "SSLv3", "TLSv1", "TLSv1.0", "TLSv1.1"]) {
        Some(Version::Old)
    } else {
        None
    }
}

/// The message about versions that are no longer supported.
fn too_old(word: &str) -> RejectedCommand {
    RejectedCommand::new(format!(
        "`{word}` is not supported: it is not secure (RFC 8996)"
    ))
    .expect("`TLSv1.2` or `TLSv1.3`")
}

/// The two limits of the versions.
#[derive(PartialEq)]
enum Bound {
    Least,
    Most,
}

fn limit(value: &str, protocol: &mut TlsProtocol, bound: Bound) -> Result<(), RejectedCommand> {
    if value.eq_ignore_ascii_case("None") {
        return Ok(());
    }
    match version(value) {
        None => {
            return Err(
                RejectedCommand::new("this is not a TLS version").expect("`TLSv1.2` or `TLSv1.3`")
            );
        }
        Some(Version::Old) => return Err(too_old(value)),
        Some(Version::Tls13) if bound == Bound::Least => protocol.allows_tls12 = false,
        Some(Version::Tls12) if bound == Bound::Most => protocol.allows_tls13 = false,
        Some(_) => {}
    }
    check_versions(protocol)
}

fn check_versions(protocol: &TlsProtocol) -> Result<(), RejectedCommand> {
    if protocol.allows_tls12 || protocol.allows_tls13 {
        return Ok(());
    }
    Err(RejectedCommand::new("no TLS version is left"))
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

fn protocols(value: &str, protocol: &mut TlsProtocol) -> Result<(), RejectedCommand> {
    // Words without a sign add to the set; the first one starts a new list.
    let is_signed = words(value)
        .next()
        .is_some_and(|word| word.starts_with(['+', '-']));
    if !is_signed {
        (protocol.allows_tls12, protocol.allows_tls13) = (false, false);
    }
    for word in words(value) {
        let (is_wanted, name) = match word.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, word.strip_prefix('+').unwrap_or(word)),
        };
        if name.eq_ignore_ascii_case("ALL") {
            (protocol.allows_tls12, protocol.allows_tls13) = (is_wanted, is_wanted);
            continue;
        }
        match version(name) {
            Some(Version::Tls12) => protocol.allows_tls12 = is_wanted,
            Some(Version::Tls13) => protocol.allows_tls13 = is_wanted,
            Some(Version::Old) if is_wanted => return Err(too_old(name)),
            Some(Version::Old) => {}
            None => {
                let refusal = RejectedCommand::new(format!("`{name}` is not a TLS version"));
                return Err(refusal.expect("a list of `ALL`, `TLSv1.2` and `TLSv1.3`, each with `-` in front to leave it out"));
            }
        }
    }
    check_versions(protocol)
}

fn groups(value: &str) -> Result<Option<Vec<u16>>, RejectedCommand> {
    let mut found: Vec<u16> = Vec::new();
    let separators = [':', ',', '/', ' '];
    for word in value.split(separators).filter(|word| !word.is_empty()) {
        let is_forgiven = word.contains('?');
        let name = word.trim_start_matches(['?', '*']);
        if name.eq_ignore_ascii_case("auto") || name.eq_ignore_ascii_case("DEFAULT") {
            return Ok(None);
        }
        let group = GROUPS
            .iter()
            .find(|(_, names)| names.iter().any(|known| known.eq_ignore_ascii_case(name)));
        match group {
            Some((number, _)) if !found.contains(number) => found.push(*number),
            Some(_) => {}
            None if is_forgiven => {}
            None if OTHER_GROUPS
                .split_ascii_whitespace()
                .any(|other| other.eq_ignore_ascii_case(name)) => {}
            None => {
                return Err(
                    RejectedCommand::new(format!("`{name}` is not a group")).expect(group_names())
                );
            }
        }
    }
    if found.is_empty() {
        return Err(RejectedCommand::new("none of these groups is available").expect(group_names()));
    }
    Ok(Some(found))
}

fn group_names() -> String {
    let names = GROUPS.iter().filter_map(|(_, names)| names.first());
    format!("some of {}, separated by `:`", listed(names.copied()))
}

fn options(value: &str, settings: &mut Settings) -> Result<(), RejectedCommand> {
    for word in words(value) {
        let (is_wanted, name) = match word.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, word.strip_prefix('+').unwrap_or(word)),
        };
        let Some((known, fixed)) = OPTIONS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
        else {
            let names = OPTIONS.iter().map(|(known, _)| *known);
            let refusal = RejectedCommand::new(format!("the option `{name}` is not supported"));
            return Err(refusal.expect(format!("some of {}", listed(names))));
        };
        match (*known, *fixed) {
            (_, Some(fixed)) if fixed == is_wanted => {}
            (_, Some(fixed)) => {
                let state = if fixed { "always on" } else { "never on" };
                return Err(RejectedCommand::new(format!("`{known}` is {state}")));
            }
            ("SessionTicket", None) => settings.tickets = Some(is_wanted),
            (_, None) => settings.protocol.is_server_preferred = is_wanted,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(commands: &[(&str, &str)]) -> Result<Settings, RejectedCommand> {
        let mut settings = Settings::default();
        for (name, value) in commands {
            command(name, value, &mut settings)?;
        }
        Ok(settings)
    }

    fn versions(commands: &[(&str, &str)]) -> (bool, bool) {
        let protocol = run(commands).unwrap().protocol;
        (protocol.allows_tls12, protocol.allows_tls13)
    }

    #[test]
    fn versions_are_chosen() {
        assert_eq!(versions(&[]), (true, true));
        assert_eq!(versions(&[("minprotocol", "TLSv1.3")]), (false, true));
        assert_eq!(versions(&[("MaxProtocol", "TLSv1.2")]), (true, false));
        assert_eq!(versions(&[("Protocol", "-TLSv1.3")]), (true, false));
        assert_eq!(
            versions(&[("Protocol", "ALL,-SSLv3,-TLSv1,-TLSv1.1,-TLSv1.2")]),
            (false, true)
        );
        assert_eq!(versions(&[("Protocol", "TLSv1.2")]), (true, false));
        assert_eq!(versions(&[("Protocol", "-ALL, TLSv1.3")]), (false, true));
    }

    #[test]
    fn no_version_and_old_versions_are_refused() {
        let message = |commands| run(commands).unwrap_err().message;
        assert!(message(&[("Protocol", "-ALL")]).contains("no TLS version"));
        assert!(message(&[("MinProtocol", "TLSv1")]).contains("RFC 8996"));
        assert!(message(&[("Protocol", "TLSv1.1")]).contains("RFC 8996"));
        assert!(message(&[("MaxProtocol", "3")]).contains("not a TLS version"));
        let both = [("MinProtocol", "TLSv1.3"), ("MaxProtocol", "TLSv1.2")];
        assert!(message(&both).contains("no TLS version"));
    }

    #[test]
    fn groups_are_found_by_any_of_their_names() {
        let groups = |value| run(&[("groups", value)]).map(|settings| settings.protocol.groups);
        assert_eq!(
            groups("x25519:prime256v1:P-521:secp384r1"),
            Ok(Some(vec![0x1d, 0x17, 0x18]))
        );
        assert_eq!(groups("?unheard:*X25519MLKEM768"), Ok(Some(vec![0x11ec])));
        assert_eq!(groups("auto"), Ok(None));
        assert!(groups("P-521").is_err());
        assert!(groups("P-257").is_err());
    }

    #[test]
    fn options_are_set_or_refused() {
        let settings = run(&[("Options", "-SessionTicket,ServerPreference,NoRenegotiation")]);
        let settings = settings.unwrap();
        assert_eq!(settings.tickets, Some(false));
        assert!(settings.protocol.is_server_preferred);
        let settings = run(&[("Options", "-ServerPreference")]).unwrap();
        assert!(!settings.protocol.is_server_preferred);
        let message = |value| run(&[("Options", value)]).unwrap_err().message;
        assert_eq!(message("Compression"), "`Compression` is never on");
        assert_eq!(
            message("-ExtendedMasterSecret"),
            "`ExtendedMasterSecret` is always on"
        );
        assert!(message("KTLS").contains("not supported"));
    }

    #[test]
    fn other_commands_are_refused_with_what_to_use_instead() {
        let refusal = run(&[("VerifyMode", "Require")]).unwrap_err();
        assert!(refusal.is_name);
        assert!(refusal.suggestion.unwrap().contains("client_verify"));
        assert!(run(&[("RecordPadding", "16")]).unwrap_err().is_name);
    }
}
