//! The fuzz oracles on generated messages: any split, any damage, always the same answer and never a panic.

use crate::{Limits, Progress, RequestHead, fuzzing, normalise_path};
use proptest::prelude::*;

/// Text that is often nearly right.
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

/// A valid request with any line ends and any fields that do not matter to framing.
fn valid_request() -> impl Strategy<Value = Vec<u8>> {
    let line_end = prop::sample::select(vec!["\r\n", "\n"]);
    let target = "/[a-z0-9%./]{0,20}".prop_filter("decodable", |path| {
        normalise_path(path.as_bytes(), &mut Vec::new()).is_ok()
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
            head.parse(&bytes, &Limits::default()),
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
