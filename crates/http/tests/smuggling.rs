//! Request smuggling: every known way to make two readers of one connection disagree, and its handling here.
//!
//! Each case is a connection's bytes; the result is the requests that are read from it, or the refusal that ends it. Every refusal closes
//! the connection, so nothing after it is read. Each case runs in one piece and byte by byte.

#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use tutti_http::{BodyDecoder, BodyError, HeadError, MessageLimits, Progress, RequestHead};

/// The result of reading a connection's bytes.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Refused with this status; the connection is closed. `before` requests were answered.
    Refused { before: usize, status: u16 },
    /// These requests, as `METHOD path body`, and nothing left.
    Requests(Vec<String>),
    /// After these requests, the rest waits for more bytes, then for a timeout.
    Waiting(Vec<String>),
}

/// Reads a connection as the server does, with `step` bytes arriving at a time.
fn read_connection(bytes: &[u8], step: usize) -> Outcome {
    let limits = MessageLimits::default();
    let (mut requests, mut head) = (Vec::new(), RequestHead::new());
    let mut start = 0;
    let refused = |before: &Vec<String>, status| Outcome::Refused {
        before: before.len(),
        status,
    };
    while start < bytes.len() {
        let mut arrived = start;
        let length = loop {
            arrived = (arrived + step).min(bytes.len());
            match head.parse(&bytes[start..arrived], &limits) {
                Ok(Progress::Complete { length }) => break length,
                Ok(Progress::Incomplete) if arrived == bytes.len() => {
                    return Outcome::Waiting(requests);
                }
                Ok(Progress::Incomplete) => {}
                Err(error) => return refused(&requests, HeadError::status(error)),
            }
        };
        let view = head.view(&bytes[start..]);
        let mut decoder = match BodyDecoder::new(view.body_length(), &limits) {
            Ok(decoder) => decoder,
            Err(error) => return refused(&requests, BodyError::status(error)),
        };
        let mut position = start + length;
        let mut body = Vec::new();
        while !decoder.is_finished() {
            let end = (position + step).min(bytes.len());
            match decoder.decode_all(&bytes[position..end], |run| body.extend_from_slice(run)) {
                Ok((_, false)) if end == bytes.len() => return Outcome::Waiting(requests),
                Ok((used, _)) => position += used,
                Err(error) => return refused(&requests, BodyError::status(error)),
            }
        }
        let text = [view.method_text(), b" ", view.path(), b" ", &body].concat();
        requests.push(String::from_utf8_lossy(&text).into_owned());
        start = position;
    }
    Outcome::Requests(requests)
}

fn check(name: &str, bytes: &[u8], expected: &Outcome) {
    for step in [bytes.len().max(1), 1, 2, 7] {
        assert_eq!(
            &read_connection(bytes, step),
            expected,
            "{name}, {step} at a time: {}",
            bytes.escape_ascii()
        );
    }
}

fn refused(status: u16) -> Outcome {
    Outcome::Refused { before: 0, status }
}

fn requests(texts: &[&str]) -> Outcome {
    Outcome::Requests(texts.iter().map(|&text| text.to_owned()).collect())
}

/// The parts of a row of a table: `STATUS NAME | BYTES`.
fn parts(row: &str) -> (u16, &str, &str) {
    let (left, bytes) = row.split_once(" | ").expect("a row");
    let (status, name) = left.split_once(' ').expect("a status");
    (status.parse().expect("a number"), name, bytes)
}

/// The request that a smuggler hides: it must never be read as one.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";

/// A `POST` with these framing fields and a seemingly chunked body that ends at once, then the hidden request.
fn with_fields(fields: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n0\r\n\r\n{HIDDEN}").into_bytes()
}

#[test]
fn framing_fields_with_two_readings_are_refused() {
    for row in [
        // Content-Length against Content-Length
        "400 two lengths | Content-Length: 5\r\nContent-Length: 6\r\n",
        "400 the same length twice | Content-Length: 5\r\nContent-Length: 5\r\n",
        "400 two lengths in other case | content-length: 5\r\nCONTENT-LENGTH: 0\r\n",
        "400 two lengths in one field | Content-Length: 5, 6\r\n",
        "400 the same length twice in one field | Content-Length: 5, 5\r\n",
        "400 two lengths, the second empty | Content-Length: 5\r\nContent-Length:\r\n",
        "400 lengths apart | Content-Length: 5\r\nX: y\r\nContent-Length: 0\r\n",
        // Content-Length that is not a number
        "400 empty length | Content-Length:\r\n",
        "400 blank length | Content-Length:  \t \r\n",
        "400 signed length | Content-Length: +5\r\n",
        "400 negative length | Content-Length: -5\r\n",
        "400 hexadecimal length | Content-Length: 0x5\r\n",
        "400 length with a letter | Content-Length: 5a\r\n",
        "400 length with a leading zero | Content-Length: 05\r\n",
        "400 length of zeros | Content-Length: 00\r\n",
        "400 length with a fraction | Content-Length: 5.0\r\n",
        "400 length with an exponent | Content-Length: 1e1\r\n",
        "400 length with an underscore | Content-Length: 1_0\r\n",
        "400 length with a space inside | Content-Length: 5 5\r\n",
        "400 length in quotes | Content-Length: \"5\"\r\n",
        "400 length with a semicolon | Content-Length: 5;\r\n",
        "400 length past 64 bits | Content-Length: 18446744073709551621\r\n",
        "400 length past 63 bits | Content-Length: 9223372036854775808\r\n",
        "400 length in other digits | Content-Length: ５\r\n",
        "400 length behind a vertical tab | Content-Length: \x0b5\r\n",
        "400 length before a form feed | Content-Length: 5\x0c\r\n",
        "400 length before a NUL | Content-Length: 5\0\r\n",
        "413 length too large | Content-Length: 8388609\r\n",
        // Content-Length against Transfer-Encoding
        "400 CL.TE | Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "400 TE.CL | Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "400 CL.TE, length zero | Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "400 CL.TE, unknown coding | Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n",
        "400 CL.TE, identity | Content-Length: 5\r\nTransfer-Encoding: identity\r\n",
        "400 CL.TE, empty coding | Content-Length: 5\r\nTransfer-Encoding:\r\n",
        // Transfer-Encoding in disguise
        "400 prefixed coding | Transfer-Encoding: xchunked\r\n",
        "400 suffixed coding | Transfer-Encoding: chunkedx\r\n",
        "400 empty coding | Transfer-Encoding:\r\n",
        "400 identity | Transfer-Encoding: identity\r\n",
        "400 chunked not last | Transfer-Encoding: chunked, identity\r\n",
        "400 chunked before gzip | Transfer-Encoding: chunked, gzip\r\n",
        "400 chunked twice | Transfer-Encoding: chunked, chunked\r\n",
        "400 chunked twice in two fields | Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "400 TE.TE | Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        "400 TE.TE, other order | Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
        "400 TE.TE in other case | Transfer-Encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "400 coding with a parameter | Transfer-Encoding: chunked;q=1\r\n",
        "400 coding in quotes | Transfer-Encoding: \"chunked\"\r\n",
        "400 coding in single quotes | Transfer-Encoding: 'chunked'\r\n",
        "400 coding with an empty member | Transfer-Encoding: , chunked\r\n",
        "400 coding with a comma behind | Transfer-Encoding: chunked,\r\n",
        "400 coding behind a vertical tab | Transfer-Encoding: \x0bchunked\r\n",
        "400 coding before a form feed | Transfer-Encoding: chunked\x0c\r\n",
        "400 coding before a NUL | Transfer-Encoding: chunked\0\r\n",
        "400 coding behind a no-break space | Transfer-Encoding: \u{a0}chunked\r\n",
        "400 coding split by a CR | Transfer-Encoding: chu\rnked\r\n",
        "400 unknown coding before chunked | Transfer-Encoding: x, chunked\r\n",
        "501 gzip before chunked | Transfer-Encoding: gzip, chunked\r\n",
        // names in disguise
        "400 space before the colon | Transfer-Encoding : chunked\r\n",
        "400 tab before the colon | Transfer-Encoding\t: chunked\r\n",
        "400 space before the colon of a length | Content-Length : 5\r\n",
        "400 space before the name |  Transfer-Encoding: chunked\r\n",
        "400 folded value | Transfer-Encoding:\r\n chunked\r\n",
        "400 folded with a tab | Transfer-Encoding:\r\n\tchunked\r\n",
        "400 folded in another field | X: y\r\n Transfer-Encoding: chunked\r\n",
        "400 NUL in the name | Transfer-Encoding\0: chunked\r\n",
        "400 vertical tab in the name | Transfer-Encoding\x0b: chunked\r\n",
        "400 CR in the name | Transfer\r-Encoding: chunked\r\n",
        "400 CR before the name | X: y\r\n\rTransfer-Encoding: chunked\r\n",
        "400 CR hiding a field | X: y\rTransfer-Encoding: chunked\r\n",
        "400 NUL hiding a field | X: y\0Transfer-Encoding: chunked\r\n",
        "400 two CR at the end of a line | X: y\r\r\nTransfer-Encoding: chunked\r\n",
        "400 no name | : chunked\r\n",
        "400 no colon | Transfer-Encoding chunked\r\n",
        "400 name in quotes | \"Transfer-Encoding\": chunked\r\n",
        "400 name not ASCII | Transfer-Encodıng: chunked\r\n",
        // expectations
        "417 unknown expectation | Expect: 200-ok\r\nContent-Length: 5\r\n",
        "417 two expectations | Expect: 100-continue, x\r\nContent-Length: 5\r\n",
    ] {
        let (status, name, fields) = parts(row);
        check(name, &with_fields(fields), &refused(status));
    }
}

#[test]
fn transfer_encoding_in_http_1_0_is_refused() {
    for fields in [
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
    ] {
        let bytes = format!(
            "POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n{fields}\r\n0\r\n\r\n{HIDDEN}"
        );
        check(fields, bytes.as_bytes(), &refused(400));
    }
}

#[test]
fn fields_that_only_look_like_framing_have_no_effect() {
    for (name, fields) in [
        ("underscore", "Transfer_Encoding: chunked\r\n"),
        ("underscore in length", "Content_Length: 50\r\n"),
        ("other name", "X-Transfer-Encoding: chunked\r\n"),
        ("longer name", "Content-Length-X: 50\r\n"),
        (
            "named by Connection",
            "Connection: Content-Length, Transfer-Encoding\r\n",
        ),
        ("TE", "TE: chunked, trailers\r\n"),
        ("in a value", "X: Content-Length: 50\r\n"),
    ] {
        let bytes = format!(
            "POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\nGET /next HTTP/1.1\r\nHost: h\r\n\r\n"
        );
        check(
            name,
            bytes.as_bytes(),
            &requests(&["POST / ", "GET /next "]),
        );
    }
}

#[test]
fn chunked_framing_is_strict() {
    for row in [
        "400 LF after the size | 5\nhello\r\n0\r\n\r\n",
        "400 LF after the data | 5\r\nhello\n0\r\n\r\n",
        "400 LF after the last size | 5\r\nhello\r\n0\n\r\n",
        "400 LF at the end | 5\r\nhello\r\n0\r\n\n",
        "400 CR alone after the size | 5\rhello\r\n0\r\n\r\n",
        "400 CR CR LF after the size | 5\r\r\nhello\r\n0\r\n\r\n",
        "400 CR alone after the data | 5\r\nhello\r0\r\n\r\n",
        "400 nothing after the data | 5\r\nhello0\r\n\r\n",
        "400 data longer than its size | 5\r\nhello!\r\n0\r\n\r\n",
        "400 data shorter than its size | 6\r\nhello\r\n0\r\n\r\n",
        // A byte in place of another: with one more or less, what follows would be refused anyway.
        "400 a byte for the LF after the size | 5\rXhello\r\n0\r\n\r\n",
        "400 a byte for the CR after the data | 5\r\nhelloX\n0\r\n\r\n",
        "400 a byte for the LF after the data | 5\r\nhello\rX0\r\n\r\n",
        "400 a byte for the LF of a trailer | 0\r\nA: b\rX\r\n",
        "400 a byte for the LF at the end | 0\r\n\rX",
        "400 empty size | \r\nhello\r\n0\r\n\r\n",
        "400 empty last size | \r\n\r\n",
        "400 extension without a size | ;a\r\nhello\r\n0\r\n\r\n",
        "400 extension without a size, and the end | ;a\r\n\r\n",
        "400 negative size | -5\r\nhello\r\n0\r\n\r\n",
        "400 plus sign | +5\r\nhello\r\n0\r\n\r\n",
        "400 0x | 0x5\r\nhello\r\n0\r\n\r\n",
        "400 h behind | 5h\r\nhello\r\n0\r\n\r\n",
        "400 underscore in the size | 0_5\r\nhello\r\n0\r\n\r\n",
        "400 comma in the size | 0,5\r\nhello\r\n0\r\n\r\n",
        "400 space before the size |  5\r\nhello\r\n0\r\n\r\n",
        "400 space after the size | 5 \r\nhello\r\n0\r\n\r\n",
        "400 tab after the size | 5\t\r\nhello\r\n0\r\n\r\n",
        "400 space before an extension | 5 ;a\r\nhello\r\n0\r\n\r\n",
        "400 vertical tab after the size | 5\x0b\r\nhello\r\n0\r\n\r\n",
        "400 NUL after the size | 5\0\r\nhello\r\n0\r\n\r\n",
        "400 size of 2^64 | 10000000000000000\r\nhello\r\n0\r\n\r\n",
        "400 size of 2^64+5 | 10000000000000005\r\nhello\r\n0\r\n\r\n",
        "413 size of 2^64-1 | ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "413 size of 2^32+5 | 100000005\r\nhello\r\n0\r\n\r\n",
        "400 17 digits of zeros | 00000000000000005\r\nhello\r\n0\r\n\r\n",
        "400 LF in an extension | 5;a\nhello\r\n0\r\n\r\n",
        "400 CR in an extension | 5;a\rb\r\nhello\r\n0\r\n\r\n",
        "400 CRLF in a quoted extension | 5;a=\"\r\n0\r\n\r\n\"\r\n0\r\n\r\n",
        "400 extension without a name | 5;\r\nhello\r\n0\r\n\r\n",
        "400 second one without a name | 5;a;\r\nhello\r\n0\r\n\r\n",
        "400 nothing between semicolons | 5;;a\r\nhello\r\n0\r\n\r\n",
        "400 semicolon for a value | 5;a=;b\r\nhello\r\n0\r\n\r\n",
        "400 name that is no token | 5;a(b\r\nhello\r\n0\r\n\r\n",
        "400 two names | 5;a b\r\nhello\r\n0\r\n\r\n",
        "400 value without a name | 5;=b\r\nhello\r\n0\r\n\r\n",
        "400 no value | 5;a=\r\nhello\r\n0\r\n\r\n",
        "400 value that is no token | 5;a=b@\r\nhello\r\n0\r\n\r\n",
        "400 text behind a quoted value | 5;a=\"b\"c\r\nhello\r\n0\r\n\r\n",
        "400 quotes not closed | 5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n",
        "400 space behind an extension | 5;a \r\nhello\r\n0\r\n\r\n",
        "400 NUL in an extension | 5;a\0\r\nhello\r\n0\r\n\r\n",
        "400 Transfer-Encoding in a trailer | 0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "400 Content-Length in a trailer | 0\r\ncontent-length: 5\r\n\r\n",
        "400 Host in a trailer | 0\r\nHOST: evil\r\n\r\n",
        "400 Host in the second trailer | 0\r\nA: b\r\nHost: evil\r\n\r\n",
        "400 Connection in a trailer | 0\r\nConnection: close\r\n\r\n",
        "400 folded trailer | 0\r\nA: b\r\n c\r\n\r\n",
        "400 space before a trailer's colon | 0\r\nA : b\r\n\r\n",
        "400 trailer without colon | 0\r\nGET / HTTP/1.1\r\n\r\n",
        "400 trailer ended by LF | 0\r\nA: b\n\r\n",
        "400 CR in a trailer | 0\r\nA: b\rc\r\n\r\n",
        "400 NUL in a trailer | 0\r\nA: b\0\r\n\r\n",
        "400 no end of the trailers | 0\r\nGET /hidden HTTP/1.1\r\n",
    ] {
        let (status, name, body) = parts(row);
        let bytes = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}{HIDDEN}"
        );
        check(name, bytes.as_bytes(), &refused(status));
    }
}

#[test]
fn chunked_abuse_is_bounded() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let extension = "x".repeat(1000);
    let many_extensions = format!("1;{extension}\r\na\r\n").repeat(17);
    check(
        "extensions",
        format!("{head}{many_extensions}0\r\n\r\n").as_bytes(),
        &refused(400),
    );
    let trailers = format!("A: {}\r\n", "x".repeat(100)).repeat(80);
    check(
        "trailers",
        format!("{head}0\r\n{trailers}\r\n").as_bytes(),
        &refused(400),
    );
    let mebibyte = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
    let bytes = format!("{head}{}1\r\nx\r\n0\r\n\r\n", mebibyte.repeat(8));
    assert_eq!(read_connection(bytes.as_bytes(), 65_536), refused(413));
}

#[test]
fn valid_chunked_bodies_are_read_to_their_end() {
    for (name, body, data) in [
        ("plain", "5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("empty", "0\r\n\r\n", ""),
        ("zeros", "0005\r\nhello\r\n0000\r\n\r\n", "hello"),
        (
            "either case",
            "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
            "01234567890123456789",
        ),
        (
            "extension",
            "5;a=b;c=\"d e\"\r\nhello\r\n0;last\r\n\r\n",
            "hello",
        ),
        (
            "extensions with spaces, and signs in quotes",
            "5; a = b\t; c=\"\\\";=\\\\\" ;d\r\nhello\r\n0\r\n\r\n",
            "hello",
        ),
        (
            "trailers",
            "5\r\nhello\r\n0\r\nETag: x\r\nX-Sum:\r\n\r\n",
            "hello",
        ),
        (
            "data that looks like framing",
            "9\r\n0\r\n\r\nGET \r\n0\r\n\r\n",
            "0\r\n\r\nGET ",
        ),
    ] {
        let bytes = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{body}GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
        );
        check(
            name,
            bytes.as_bytes(),
            &requests(&[&format!("POST / {data}"), "GET /next "]),
        );
    }
}

#[test]
fn targets_and_hosts_with_two_readings_are_refused() {
    for row in [
        "400 no Host | GET / HTTP/1.1\r\n\r\n",
        "400 two Hosts | GET / HTTP/1.1\r\nHost: h\r\nHost: g\r\n\r\n",
        "400 the same Host twice | GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        "400 two Hosts in HTTP/1.0 | GET / HTTP/1.0\r\nHost: h\r\nHost: g\r\n\r\n",
        "400 Host with white space before the colon | GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        "400 folded Host | GET / HTTP/1.1\r\nHost: h\r\n g\r\n\r\n",
        "400 empty Host | GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "400 blank Host | GET / HTTP/1.1\r\nHost: \t\r\n\r\n",
        "400 empty Host in HTTP/1.0 | GET / HTTP/1.0\r\nHost:\r\n\r\n",
        "400 list of Hosts | GET / HTTP/1.1\r\nHost: h, g\r\n\r\n",
        // Issue 10: names that no DNS has, and that applications compare with the names they know.
        "400 two dots in a Host | GET / HTTP/1.1\r\nHost: a..b\r\n\r\n",
        "400 two dots behind a Host | GET / HTTP/1.1\r\nHost: a..\r\n\r\n",
        "400 two dots and a port | GET / HTTP/1.1\r\nHost: a..:80\r\n\r\n",
        "400 Host of two dots | GET / HTTP/1.1\r\nHost: ..\r\n\r\n",
        "400 two dots in an absolute target | GET http://a..b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 Host with a space | GET / HTTP/1.1\r\nHost: h g\r\n\r\n",
        "400 Host with a path | GET / HTTP/1.1\r\nHost: h/g\r\n\r\n",
        "400 Host with a query | GET / HTTP/1.1\r\nHost: h?g\r\n\r\n",
        "400 Host with a fragment | GET / HTTP/1.1\r\nHost: h#g\r\n\r\n",
        "400 Host with a user | GET / HTTP/1.1\r\nHost: u@h\r\n\r\n",
        "400 Host with a backslash | GET / HTTP/1.1\r\nHost: h\\g\r\n\r\n",
        "400 Host of a port only | GET / HTTP/1.1\r\nHost: :80\r\n\r\n",
        "400 Host with a port past 65535 | GET / HTTP/1.1\r\nHost: h:65536\r\n\r\n",
        "400 Host with a huge port | GET / HTTP/1.1\r\nHost: h:99999999999999999999\r\n\r\n",
        "400 Host with a port that is no number | GET / HTTP/1.1\r\nHost: h:http\r\n\r\n",
        "400 Host with two ports | GET / HTTP/1.1\r\nHost: h:80:81\r\n\r\n",
        "400 Host with an open bracket | GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
        "400 Host with something behind the bracket | GET / HTTP/1.1\r\nHost: [::1]x:80\r\n\r\n",
        "400 Host with empty brackets | GET / HTTP/1.1\r\nHost: []\r\n\r\n",
        "400 Host with a zone | GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n",
        "400 Host with a NUL | GET / HTTP/1.1\r\nHost: h\0\r\n\r\n",
        "400 Host not ASCII | GET / HTTP/1.1\r\nHost: é\r\n\r\n",
        "400 absolute target without Host | GET http://a/ HTTP/1.1\r\n\r\n",
        "400 absolute target with a user | GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 absolute target with a user, Host alike | GET http://u@a/ HTTP/1.1\r\nHost: u@a\r\n\r\n",
        "400 absolute target without authority | GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 absolute target of another scheme | GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 absolute target with one slash | GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 authority for GET | GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
        "400 relative target | GET a/b HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 asterisk for GET | GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 asterisk with a path | OPTIONS */a HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 path for CONNECT | CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 CONNECT without port | CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 CONNECT with an empty port | CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 CONNECT without host | CONNECT :443 HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 fragment | GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 backslash authority | GET \\\\a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 space in the target | GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 tab in the target | GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 UTF-8 in the target | GET /café HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 UTF-8 in the query | GET /?café HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 NUL in the target | GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 escaped NUL in the target | GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 broken escape | GET /a%2 HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 above the root | GET /a/../../b HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 above the root in escapes | GET /%2e%2e%2fb HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 CR in the request line | GET /\rX: HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 CR after the version | GET / HTTP/1.1\rHost: a\r\n\r\n",
        "400 space after the version | GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        "400 two request lines in one | GET / HTTP/1.1 GET /b HTTP/1.1\r\nHost: a\r\n\r\n",
        "400 HTTP/0.9 | GET /\r\n\r\n",
        "400 space before the first field | GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        "400 leading CR | \rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "505 HTTP/2 preface | PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "505 HTTP/1.2 | GET / HTTP/1.2\r\nHost: a\r\n\r\n",
    ] {
        let (status, name, head) = parts(row);
        check(name, format!("{head}{HIDDEN}").as_bytes(), &refused(status));
    }
}

#[test]
fn unusual_but_unambiguous_requests_are_read() {
    for (name, bytes, expected) in [
        (
            "bare LF in a head",
            "GET /a HTTP/1.1\nHost: h\n\nGET /b HTTP/1.1\r\nHost: h\n\r\n",
            requests(&["GET /a ", "GET /b "]),
        ),
        (
            "no space behind the colon",
            "GET / HTTP/1.1\r\nHost:h\r\n\r\n",
            requests(&["GET / "]),
        ),
        (
            "tabs around a value",
            "GET / HTTP/1.1\r\nHost:\t h \t\r\n\r\n",
            requests(&["GET / "]),
        ),
        (
            "empty lines between requests",
            "GET /a HTTP/1.1\r\nHost: h\r\n\r\n\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
            requests(&["GET /a ", "GET /b "]),
        ),
        (
            "absolute target",
            "GET http://H/a HTTP/1.1\r\nHost: h:80\r\n\r\n",
            requests(&["GET /a "]),
        ),
        (
            "absolute target in HTTP/1.0",
            "GET http://h/a HTTP/1.0\r\n\r\n",
            requests(&["GET /a "]),
        ),
        (
            "no Host in HTTP/1.0",
            "GET / HTTP/1.0\r\n\r\n",
            requests(&["GET / "]),
        ),
        (
            "GET with a body",
            "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nHost: h\r\n\r\n",
            requests(&["GET / abc", "GET /b "]),
        ),
        (
            "body that is a request",
            &format!(
                "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{HIDDEN}",
                HIDDEN.len()
            ),
            requests(&[&format!("POST / {HIDDEN}")]),
        ),
        (
            "chunked in other case",
            "POST / HTTP/1.1\r\nHost: h\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n",
            requests(&["POST / "]),
        ),
        (
            "body cut short",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc",
            Outcome::Waiting(Vec::new()),
        ),
        (
            "chunked body cut short",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            Outcome::Waiting(Vec::new()),
        ),
    ] {
        check(name, bytes.as_bytes(), &expected);
    }
}
