//! Holds the oracles of the fuzz targets, so that they run under `cargo fuzz` (`fuzz/`) and under proptest (`properties.rs`).

#![allow(clippy::panic, clippy::expect_used, missing_docs)] // oracles speak by panicking

use crate::cgi::{FileKind, Script, ScriptRules, find_script};
use crate::fastcgi::{ProtocolStatus, RecordDecoder, RecordError, RecordEvent};
use crate::proxy_protocol::{self, HeaderProgress};

/// The content of a stream of records, with pieces joined.
#[derive(Debug, Default, PartialEq, Eq)]
struct Meaning {
    /// Request, whether it is stdout, bytes.
    streams: Vec<(u16, bool, Vec<u8>)>,
    ends: Vec<(u16, u32, ProtocolStatus)>,
    values: Vec<bool>,
    is_between: bool,
    error: Option<RecordError>,
}

fn meaning(bytes: &[u8], step: usize) -> Meaning {
    let mut decoder = RecordDecoder::new();
    let mut meaning = Meaning::default();
    for mut piece in bytes.chunks(step.max(1)) {
        loop {
            match decoder.next(&mut piece) {
                Ok(Some(RecordEvent::Stdout(id, part))) => {
                    append(&mut meaning.streams, id, true, part)
                }
                Ok(Some(RecordEvent::Stderr(id, part))) => {
                    append(&mut meaning.streams, id, false, part)
                }
                Ok(Some(RecordEvent::End {
                    id,
                    application_status,
                    protocol_status,
                })) => meaning.ends.push((id, application_status, protocol_status)),
                Ok(Some(RecordEvent::Values { multiplexes })) => meaning.values.push(multiplexes),
                Ok(None) => break,
                Err(error) => {
                    meaning.error = Some(error);
                    return meaning;
                }
            }
        }
        assert!(piece.is_empty(), "something was left unread");
    }
    meaning.is_between = decoder.is_between();
    meaning
}

fn append(streams: &mut Vec<(u16, bool, Vec<u8>)>, id: u16, is_answer: bool, part: &[u8]) {
    assert!(!part.is_empty(), "an event without bytes");
    match streams.last_mut() {
        Some((last, kind, bytes)) if *last == id && *kind == is_answer => {
            bytes.extend_from_slice(part)
        }
        _ => streams.push((id, is_answer, part.to_vec())),
    }
}

/// Records: the split of the input must not matter.
pub fn fastcgi(bytes: &[u8]) {
    let whole = meaning(bytes, bytes.len());
    for step in [1, 7, 64] {
        let pieces = meaning(bytes, step);
        assert_eq!(whole, pieces, "in pieces of {step}");
    }
}

/// PROXY headers: a prefix of an accepted one is never accepted, and an accepted one can be written and read again.
pub fn proxy_header(bytes: &[u8]) {
    let outcome = proxy_protocol::read(bytes);
    let mut in_pieces = Ok(HeaderProgress::Incomplete);
    for end in 0..=bytes.len() {
        in_pieces = proxy_protocol::read(bytes.get(..end).expect("prefix"));
        if in_pieces != Ok(HeaderProgress::Incomplete) {
            break;
        }
    }
    match (outcome, in_pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces, "the split changed the meaning"),
        (Err(_), Err(_)) => {}
        (whole, pieces) => panic!("{whole:?} as a whole, {pieces:?} in pieces"),
    }
    let Ok(HeaderProgress::Complete { proxied, length }) = outcome else {
        return;
    };
    assert!(length <= proxy_protocol::MAX_BYTES.min(bytes.len()));
    for version in [
        proxy_protocol::ProxyHeaderVersion::V1,
        proxy_protocol::ProxyHeaderVersion::V2,
    ] {
        let mut written = Vec::new();
        proxy_protocol::write(&mut written, version, proxied.addresses);
        let Ok(HeaderProgress::Complete {
            proxied: again,
            length,
        }) = proxy_protocol::read(&written)
        else {
            panic!("what was written is refused");
        };
        assert_eq!(length, written.len());
        let ips = |addresses: Option<proxy_protocol::Addresses>| {
            addresses.map(|addresses| {
                [addresses.source, addresses.destination]
                    .map(|address| (address.ip().to_canonical(), address.port()))
            })
        };
        assert_eq!(ips(again.addresses), ips(proxied.addresses));
    }
}

/// Paths: a script is never outside its root, and name and rest are the path.
pub fn script(path: &[u8]) {
    let suffixes: [Box<[u8]>; 1] = [b".php"[..].into()];
    let rules = ScriptRules {
        suffixes: &suffixes,
        index: b"index.php",
    };
    for kind in [
        FileKind::File,
        FileKind::Directory,
        FileKind::Missing,
        FileKind::Unknown,
    ] {
        let found = find_script(path, &rules, |name| {
            assert!(is_below(name), "{} was looked at", name.escape_ascii());
            kind
        });
        let Script::Found { name, path_info_at } = found else {
            continue;
        };
        assert!(is_below(&name) && name.ends_with(b".php"));
        match path_info_at {
            Some(at) => assert_eq!([&name, path.get(at..).expect("within")].concat(), path),
            None => assert!(name == path || name == [path, b"index.php"].concat()),
        }
    }
}

fn is_below(name: &[u8]) -> bool {
    name.first() == Some(&b'/') && !name.split(|byte| *byte == b'/').any(|part| part == b"..")
}
