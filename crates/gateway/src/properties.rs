//! The oracles of `fuzzing` on generated input, and round trips of what is written.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use proptest::prelude::*;

use crate::fastcgi::{self, RequestWriter};
use crate::fuzzing;

/// A record's bytes, mostly valid.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![8 => Just(6_u8), 4 => Just(7), 2 => Just(3), 1 => Just(10), 1 => Just(11), 1 => 0..=12_u8];
    (
        kind,
        0..3_u16,
        prop::collection::vec(any::<u8>(), 0..40),
        0..9_u8,
    )
        .prop_map(|(kind, id, content, padding)| {
            let mut bytes = vec![1, kind];
            bytes.extend_from_slice(&id.to_be_bytes());
            bytes.extend_from_slice(&(content.len() as u16).to_be_bytes());
            bytes.extend_from_slice(&[padding, 0]);
            bytes.extend_from_slice(&content);
            bytes.extend(std::iter::repeat_n(0xaa, usize::from(padding)));
            bytes
        })
}

/// Reads a web server's own records, as an application would: kind, request and content of each.
fn records(mut bytes: &[u8]) -> Vec<(u8, u16, Vec<u8>)> {
    let mut found = Vec::new();
    while let [
        version,
        kind,
        id_high,
        id_low,
        high,
        low,
        padding,
        _,
        rest @ ..,
    ] = bytes
    {
        assert_eq!(*version, 1);
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (content, rest) = rest.split_at(length);
        bytes = rest.get(usize::from(*padding)..).unwrap();
        assert_eq!(
            (length + usize::from(*padding)) % 8,
            0,
            "a multiple of eight"
        );
        found.push((
            *kind,
            u16::from_be_bytes([*id_high, *id_low]),
            content.to_vec(),
        ));
    }
    assert!(bytes.is_empty());
    found
}

/// Reads names and values by the rules of §3.4, implemented independently.
fn pairs(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn long(first: u8, bytes: &mut impl Iterator<Item = u8>) -> usize {
        if first < 128 {
            return usize::from(first);
        }
        let rest = bytes.by_ref().take(3);
        rest.fold(usize::from(first & 127), |length, byte| {
            length << 8 | usize::from(byte)
        })
    }
    let mut bytes = bytes.iter().copied();
    let mut found = Vec::new();
    while let Some(first) = bytes.next() {
        let name = long(first, &mut bytes);
        let second = bytes.next().unwrap();
        let value = long(second, &mut bytes);
        let name: Vec<u8> = bytes.by_ref().take(name).collect();
        found.push((name, bytes.by_ref().take(value).collect()));
    }
    found
}

proptest! {
    #[test]
    fn records_in_any_pieces(records in prop::collection::vec(record(), 0..8), cut in 0..4_usize) {
        let mut bytes = records.concat();
        bytes.truncate(bytes.len().saturating_sub(cut));
        fuzzing::fastcgi(&bytes);
    }

    #[test]
    fn any_bytes_as_records(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzzing::fastcgi(&bytes);
    }

    #[test]
    fn a_request_is_read_as_it_was_written(
        parameters in prop::collection::vec(("[A-Z_]{1,200}", prop::collection::vec(any::<u8>(), 0..300)), 0..20),
        large in prop::option::of(0..200_000_usize),
        body in 0..150_000_usize,
    ) {
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> =
            parameters.into_iter().map(|(name, value)| (name.into_bytes(), value)).collect();
        expected.extend(large.map(|size| (b"LARGE".to_vec(), vec![b'v'; size])));
        let mut out = Vec::new();
        let mut writer = RequestWriter::begin(&mut out, 5, true);
        for (name, value) in &expected {
            let (first, second) = value.split_at(value.len() / 2);
            writer.parameter(name, &[first, second]);
        }
        writer.finish();
        let body: Vec<u8> = (0..body).map(|n| (n % 251) as u8).collect();
        fastcgi::stdin(&mut out, 5, &body);
        fastcgi::stdin_end(&mut out, 5);
        let records = records(&out);
        prop_assert!(records.iter().all(|(_, id, _)| *id == 5));
        let of = |kind: u8| -> Vec<u8> {
            records.iter().filter(|record| record.0 == kind).flat_map(|record| record.2.clone()).collect()
        };
        prop_assert_eq!(of(1), [0, 1, 1, 0, 0, 0, 0, 0]);
        prop_assert_eq!(pairs(&of(4)), expected);
        prop_assert_eq!(of(5), body);
        let empty: Vec<u8> = records.iter().filter(|record| record.2.is_empty()).map(|record| record.0).collect();
        prop_assert_eq!(empty, [4, 5], "each stream ends once");
    }

    #[test]
    fn proxy_headers(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        "PROXY (TCP4|TCP6|UNKNOWN) [0-9a-f:.]{0,30} [0-9a-f:.]{0,30} [0-9]{1,5} [0-9]{1,5}\r\n".prop_map(String::into_bytes),
        ("[0-9]{1,3}", any::<[u8; 4]>(), any::<u16>()).prop_map(|(_, ip, port)| {
            format!("PROXY TCP4 {}.{}.{}.{} 127.0.0.1 {port} 80\r\nGET", ip[0], ip[1], ip[2], ip[3]).into_bytes()
        }),
        (0x1f..0x23_u8, any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(command, family, rest)| {
            let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
            bytes.extend_from_slice(&[command, family & 0x33]);
            bytes.extend_from_slice(&(rest.len() as u16).to_be_bytes());
            bytes.extend_from_slice(&rest);
            bytes
        }),
    ]) {
        fuzzing::proxy_header(&bytes);
    }

    #[test]
    fn scripts_stay_below_their_root(path in "/?([a.]{0,3}|\\.php|\\.\\.|/|x|\\x00){0,12}") {
        fuzzing::script(path.as_bytes());
    }
}
