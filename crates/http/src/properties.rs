//! The fuzz oracles on generated messages: any split, any damage, always the same result and never a panic.

use proptest::prelude::*;

use crate::websocket::{Utf8, apply_mask};
use crate::{MessageLimits, OwnedPath, PathRules, Progress, RequestHead, fuzzing};

/// Text that is often almost valid.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(
        [
            "GET ",
            "POST ",
            "HEAD ",
            "OPTIONS ",
            "CONNECT ",
            "/",
            "*",
            "/a/../b",
            "/%2e%2E/",
            "//",
            "http://h/",
            "h:80",
            "?q",
            " HTTP/1.1",
            " HTTP/1.0",
            "HTTP/1.1 200 OK",
            "HTTP/1.0 204 ",
            "\r\n",
            "\n",
            "\r",
            "\r\n\r\n",
            " ",
            "\t",
            "\0",
            "\x0b",
            "Host: h\r\n",
            "Host: H.:80\r\n",
            "Content-Length: 5\r\n",
            "Content-Length: 05\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Connection: close\r\n",
            "Connection: keep-alive\r\n",
            "Expect: 100-continue\r\n",
            "X_Y: z\r\n",
            "X:",
            ": ",
            ",",
            ";",
            "é",
            "%41",
            "%00",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec(),
    );
    prop_oneof![8 => known, 1 => prop::collection::vec(any::<u8>(), 0..4)]
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z][A-Za-z0-9-]{0,20}:[ \t]{0,2}[!-~]{0,30}[ \t]{0,2}",
        Just("Connection: close".to_owned()),
        Just("Accept-Encoding: gzip, br".to_owned()),
    ]
}

/// A valid request with any line ends and any fields that do not affect framing.
fn valid_request() -> impl Strategy<Value = Vec<u8>> {
    let line_end = prop::sample::select(vec!["\r\n", "\n"]);
    let target = "/[a-z0-9%./]{0,20}".prop_filter("decodable", |path| {
        OwnedPath::parse(path.as_bytes(), &PathRules::default()).is_ok()
    });
    (
        target,
        prop::collection::vec(field(), 0..40),
        line_end,
        prop::sample::select(vec!["GET", "POST", "PURGE"]),
    )
        .prop_map(|(target, fields, line_end, method)| {
            let mut text =
                format!("{method} {target} HTTP/1.1{line_end}Host: example.org{line_end}");
            for field in fields.iter().filter(|field| {
                let name = field
                    .split(':')
                    .next()
                    .unwrap_or_default()
                    .to_ascii_lowercase();
                !["host", "content-length", "transfer-encoding", "expect"].contains(&name.as_str())
            }) {
                text.push_str(field);
                text.push_str(line_end);
            }
            text.push_str(line_end);
            text.into_bytes()
        })
}

fn chunked_fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(
        [
            "0",
            "1",
            "5",
            "a",
            "F",
            "10",
            "00",
            "\r\n",
            "\r",
            "\n",
            ";",
            ";a=b",
            ";\"x\"",
            " ",
            "\t",
            "hello",
            "x",
            "0\r\n\r\n",
            "5\r\nhello\r\n",
            "1\r\nx\r\n",
            "A: b\r\n",
            "Host: x\r\n",
            "Content-Length: 1\r\n",
            ":",
            "-",
            "+",
            "0x",
            "ffffffffffffffff",
            "\0",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec(),
    );
    prop_oneof![10 => known, 1 => prop::collection::vec(any::<u8>(), 0..4)]
}

fn joined(
    fragments: impl Strategy<Value = Vec<u8>>,
    most: usize,
) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(fragments, 0..most).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_a_head(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::head(&bytes);
    }

    #[test]
    fn nearly_valid_heads(bytes in joined(fragment(), 24)) {
        fuzzing::head(&bytes);
    }

    #[test]
    fn valid_heads_complete_in_any_split(bytes in valid_request()) {
        let mut head = RequestHead::new();
        prop_assert_eq!(
            head.parse(&bytes, &MessageLimits::default()),
            Ok(Progress::Complete { length: bytes.len() })
        );
        fuzzing::head(&bytes);
    }

    #[test]
    fn valid_heads_with_one_byte_changed(bytes in valid_request(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = bytes;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        fuzzing::head(&bytes);
    }

    #[test]
    fn targets(bytes in prop::collection::vec(prop::sample::select(b"/.%20Ff?#:@[]aA*,\\".to_vec()), 0..20)) {
        fuzzing::target(&bytes);
    }

    #[test]
    fn any_bytes_as_chunks(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzzing::chunked(&bytes);
    }

    #[test]
    fn nearly_valid_chunks(seed in any::<u8>(), bytes in joined(chunked_fragment(), 24)) {
        let mut input = vec![seed];
        input.extend_from_slice(&bytes);
        fuzzing::chunked(&input);
    }
}

/// A request of HTTP/2 for its oracle, often almost valid.
fn listed_request() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec!["GET", "POST", "OPTIONS", "CONNECT", "get", "G T", ""]);
    let target = prop_oneof![
        "/[a-z0-9%./?#]{0,20}",
        "[ -~]{0,8}",
        Just("*".to_owned()),
        Just("h:80".to_owned())
    ];
    let authority = prop::sample::select(vec!["h", "Example.org:80", "[::1]", "a@b", "a b", ""]);
    let name = prop_oneof![
        "[a-z][a-z-]{0,10}",
        "[ -~]{0,5}",
        prop::sample::select(vec![
            "host",
            "cookie",
            "te",
            "content-length",
            "connection",
            "transfer-encoding",
            "expect",
            "x_y",
            "Host"
        ])
        .prop_map(str::to_owned),
    ];
    let value = prop_oneof![
        "[!-~]{0,20}",
        "[ -~\t]{0,5}",
        "[0-9]{1,3}",
        Just("100-continue".to_owned()),
        Just("\r\nx: y".to_owned())
    ];
    (
        method,
        target,
        authority,
        prop::collection::vec((name, value), 0..6),
    )
        .prop_map(|(method, target, authority, fields)| {
            let mut bytes = Vec::new();
            for text in [method, &target, authority] {
                bytes.extend_from_slice(text.as_bytes());
                bytes.push(0xff);
            }
            for (name, value) in fields {
                bytes.extend_from_slice(name.as_bytes());
                bytes.push(0xfe);
                bytes.extend_from_slice(value.as_bytes());
                bytes.push(0xff);
            }
            bytes.pop();
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn requests_of_http2_mean_what_they_mean_in_http1(bytes in listed_request()) {
        fuzzing::http2(&bytes);
    }

    #[test]
    fn any_bytes_as_a_request_of_http2(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        fuzzing::http2(&bytes);
    }

    #[test]
    fn any_bytes_as_streams_of_http3(bytes in prop::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..100)) {
        fuzzing::http3(&bytes);
    }

    #[test]
    fn any_bytes_as_a_section_of_qpack(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        fuzzing::qpack(&bytes);
    }

    #[test]
    fn nearly_right_sections_of_qpack(
        base in 0..3_u8,
        bytes in prop::collection::vec(prop_oneof![Just(0x51_u8), Just(0x2f), 0xc0..0xff_u8, 0..9_u8, any::<u8>()], 0..60),
    ) {
        fuzzing::qpack(&[&[0, base], &*bytes].concat());
    }
}

/// Frames of a client, often almost valid: chosen heads, each with its payload and sometimes with other bytes after it.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let head = prop::sample::select(vec![
        0x81_u8, 0x01, 0x82, 0x02, 0x80, 0x00, 0x88, 0x89, 0x8a, 0xc1, 0x83,
    ]);
    let text = prop::sample::select(
        ["", "a", "hello", "κόσμε", "\u{10ffff}"]
            .map(|text| text.as_bytes().to_vec())
            .into_iter()
            .chain([
                b"\xff".to_vec(),
                b"\xce".to_vec(),
                b"\xba".to_vec(),
                b"\x03\xe8".to_vec(),
                vec![7; 130],
            ])
            .collect::<Vec<_>>(),
    );
    (head, text, any::<[u8; 4]>(), any::<bool>()).prop_map(
        |(head, mut payload, mask, is_masked)| {
            let flag = if is_masked { 0x80 } else { 0 };
            let mut frame = vec![head];
            match payload.len() {
                short @ 0..126 => frame.push(flag | short as u8),
                long => {
                    frame.push(flag | 126);
                    frame.extend_from_slice(&(long as u16).to_be_bytes());
                }
            }
            if is_masked {
                frame.extend_from_slice(&mask);
                apply_mask(&mut payload, mask, 0);
            }
            frame.extend_from_slice(&payload);
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_as_websocket_frames(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::websocket(&bytes);
    }

    #[test]
    fn nearly_valid_websocket_frames(seed in any::<u8>(), frames in joined(frames(), 12)) {
        let mut input = vec![seed];
        input.extend_from_slice(&frames);
        fuzzing::websocket(&input);
    }

    #[test]
    fn masking_twice_is_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200), mask in any::<[u8; 4]>(), phase in 0_u64..9) {
        let mut masked = bytes.clone();
        apply_mask(&mut masked, mask, phase);
        apply_mask(&mut masked, mask, phase);
        prop_assert_eq!(masked, bytes);
    }

    #[test]
    fn utf8_in_pieces_is_utf8_as_a_whole(bytes in joined(prop::sample::select(
        ["a".as_bytes(), "é".as_bytes(), "€".as_bytes(), "\u{10000}".as_bytes(), b"\xff", b"\xe2", b"\x82", b"\xf0\x90", b"\xed", b"\xa0"].map(<[u8]>::to_vec).to_vec(),
    ), 12), step in 1_usize..9) {
        let mut text = Utf8::default();
        let pieces = bytes.chunks(step).all(|piece| text.accept(piece)) && text.is_complete();
        prop_assert_eq!(pieces, std::str::from_utf8(&bytes).is_ok());
    }
}
