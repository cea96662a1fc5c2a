//! Request heads are parsed: bytes in, facts out.

#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use tutti_http::{
    BodyLength, HeadError, Known, MessageLimits, Method, Progress, RequestHead, TargetForm,
};

fn parse(bytes: &[u8]) -> RequestHead {
    let mut head = RequestHead::new();
    let progress = head.parse(bytes, &MessageLimits::default()).unwrap();
    assert!(
        matches!(progress, Progress::Complete { .. }),
        "{}",
        bytes.escape_ascii()
    );
    head
}

fn refusal(bytes: &[u8], limits: &MessageLimits) -> HeadError {
    RequestHead::new().parse(bytes, limits).unwrap_err()
}

const BROWSER: &[u8] =
    b"GET /blog/?p=12&x=%41 HTTP/1.1\r\nHost: Example.ORG.:8080\r\nuser-agent: UA/1.0\r\n\
    Accept: */*\r\nX-Custom:  spaced\t \r\nCookie: a=1\r\nCookie: b=2\r\nConnection: keep-alive\r\n\
    If-None-Match: \"x\"\r\nEmpty:\r\n\r\nNEXT";

#[test]
fn a_head_is_read_in_place() {
    let head = parse(BROWSER);
    let view = head.view(BROWSER);
    assert_eq!(view.length(), BROWSER.len() - 4);
    assert_eq!(
        (view.method(), view.method_text()),
        (Method::Get, &b"GET"[..])
    );
    assert_eq!(view.request_line(), b"GET /blog/?p=12&x=%41 HTTP/1.1");
    assert_eq!(view.target(), b"/blog/?p=12&x=%41");
    assert_eq!(view.origin_target(), b"/blog/?p=12&x=%41");
    assert_eq!(view.path(), b"/blog/");
    assert_eq!(view.query(), Some(&b"p=12&x=%41"[..]));
    assert_eq!(view.version(), tutti_http::Version::Http11);
    assert_eq!(view.host(), b"Example.ORG.:8080");
    assert_eq!(view.host_name(), b"example.org");
    assert_eq!(view.body_length(), BodyLength::None);
    assert!(
        view.facts().keep_alive && !view.facts().expects_continue && !view.facts().wants_upgrade
    );
}

#[test]
fn fields_keep_order_and_case() {
    let head = parse(BROWSER);
    let fields: Vec<_> = head
        .view(BROWSER)
        .fields()
        .map(|field| {
            format!(
                "{}={}",
                field.name.escape_ascii(),
                field.value.escape_ascii()
            )
        })
        .collect();
    assert_eq!(
        fields,
        [
            "Host=Example.ORG.:8080",
            "user-agent=UA/1.0",
            "Accept=*/*",
            "X-Custom=spaced",
            "Cookie=a=1",
            "Cookie=b=2",
            "Connection=keep-alive",
            "If-None-Match=\\\"x\\\"",
            "Empty=",
        ]
    );
}

#[test]
fn fields_are_found_by_name() {
    let head = parse(BROWSER);
    let view = head.view(BROWSER);
    assert_eq!(view.get(Known::UserAgent), Some(&b"UA/1.0"[..]));
    assert_eq!(view.get(Known::Cookie), Some(&b"a=1"[..]));
    assert_eq!(view.get(Known::Range), None);
    assert_eq!(
        view.get_all(b"COOKIE").collect::<Vec<_>>(),
        [b"a=1", b"b=2"]
    );
    assert_eq!(view.get_all(b"x-custom").next(), Some(&b"spaced"[..]));
}

#[test]
fn target_forms_are_distinguished() {
    for (line, form, host, path, query, origin) in [
        ("GET / HTTP/1.1", TargetForm::Origin, "h", "/", None, "/"),
        (
            "GET /a? HTTP/1.1",
            TargetForm::Origin,
            "h",
            "/a",
            Some(""),
            "/a?",
        ),
        (
            "GET //h/../a%2Db%2Fc?b?c HTTP/1.1",
            TargetForm::Origin,
            "h",
            "/a-b/c",
            Some("b?c"),
            "/a-b%2Fc?b?c",
        ),
        (
            "GET http://h/a?b HTTP/1.1",
            TargetForm::Absolute,
            "h",
            "/a",
            Some("b"),
            "/a?b",
        ),
        (
            "GET HTTP://H HTTP/1.1",
            TargetForm::Absolute,
            "H",
            "/",
            None,
            "/",
        ),
        (
            "GET http://h?b HTTP/1.1",
            TargetForm::Absolute,
            "h",
            "/",
            Some("b"),
            "/?b",
        ),
        (
            "GET https://h:443/ HTTP/1.1",
            TargetForm::Absolute,
            "h:443",
            "/",
            None,
            "/",
        ),
        (
            "OPTIONS * HTTP/1.1",
            TargetForm::Asterisk,
            "h",
            "*",
            None,
            "*",
        ),
        (
            "CONNECT h:80 HTTP/1.1",
            TargetForm::Authority,
            "h:80",
            "",
            None,
            "",
        ),
    ] {
        let bytes = format!("{line}\r\nHost: h\r\n\r\n").into_bytes();
        let head = parse(&bytes);
        let view = head.view(&bytes);
        assert_eq!(view.target_form(), form, "{line}");
        assert_eq!(view.host(), host.as_bytes(), "{line}");
        assert_eq!(view.path(), path.as_bytes(), "{line}");
        assert_eq!(view.query(), query.map(str::as_bytes), "{line}");
        assert_eq!(view.origin_target(), origin.as_bytes(), "{line}");
    }
}

#[test]
fn hosts_are_normalised() {
    for (host, name) in [
        ("example.org", "example.org"),
        ("EXAMPLE.org", "example.org"),
        ("example.org.", "example.org"),
        ("Example.Org.:80", "example.org"),
        ("example.org:", "example.org"),
        ("[::1]", "[::1]"),
        ("[FE80::1]:8080", "[fe80::1]"),
        ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
        ("127.0.0.1:65535", "127.0.0.1"),
        ("a_b.example", "a_b.example"),
    ] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
        assert_eq!(
            parse(&bytes).view(&bytes).host_name(),
            name.as_bytes(),
            "{host}"
        );
    }
}

#[test]
fn persistence_follows_version_and_connection() {
    for (version, connection, keep_alive) in [
        ("1.1", None, true),
        ("1.1", Some("close"), false),
        ("1.1", Some("Close"), false),
        ("1.1", Some("foo, close , bar"), false),
        ("1.1", Some("keep-alive"), true),
        ("1.1", Some("keep-alive, close"), false),
        ("1.1", Some("closed"), true),
        ("1.0", None, false),
        ("1.0", Some("Keep-Alive"), true),
        ("1.0", Some("keep-alive, close"), false),
    ] {
        let field = connection
            .map(|value| format!("Connection: {value}\r\n"))
            .unwrap_or_default();
        let bytes = format!("GET / HTTP/{version}\r\nHost: h\r\n{field}\r\n").into_bytes();
        assert_eq!(
            parse(&bytes).view(&bytes).facts().keep_alive,
            keep_alive,
            "{version} {connection:?}"
        );
    }
    let split = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: x\r\nConnection: close\r\n\r\n";
    assert!(!parse(split).view(split).facts().keep_alive);
}

#[test]
fn body_lengths_are_reported() {
    for (fields, expected) in [
        ("", BodyLength::None),
        ("Content-Length: 0\r\n", BodyLength::None),
        ("Content-Length: 10\r\n", BodyLength::Known(10)),
        ("content-length:7\r\n", BodyLength::Known(7)),
        ("Transfer-Encoding: chunked\r\n", BodyLength::Chunked),
        ("transfer-encoding: Chunked\r\n", BodyLength::Chunked),
    ] {
        let bytes = format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").into_bytes();
        assert_eq!(
            parse(&bytes).view(&bytes).body_length(),
            expected,
            "{fields}"
        );
    }
}

#[test]
fn continue_is_expected_only_where_a_body_follows() {
    for (version, fields, expected) in [
        ("1.1", "Expect: 100-continue\r\nContent-Length: 5\r\n", true),
        (
            "1.1",
            "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n",
            true,
        ),
        (
            "1.1",
            "Expect: 100-continue\r\nContent-Length: 0\r\n",
            false,
        ),
        ("1.1", "Expect: 100-continue\r\n", false),
        (
            "1.0",
            "Expect: 100-continue\r\nContent-Length: 5\r\n",
            false,
        ),
        ("1.0", "Expect: magic\r\nContent-Length: 5\r\n", false),
    ] {
        let bytes = format!("POST / HTTP/{version}\r\nHost: h\r\n{fields}\r\n").into_bytes();
        assert_eq!(
            parse(&bytes).view(&bytes).facts().expects_continue,
            expected,
            "{version} {fields}"
        );
    }
}

#[test]
fn an_upgrade_needs_both_fields_and_version() {
    for (version, fields, expected) in [
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", true),
        (
            "1.1",
            "Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n",
            true,
        ),
        ("1.1", "Upgrade: websocket\r\n", false),
        ("1.1", "Connection: upgrade\r\n", false),
        (
            "1.0",
            "Connection: Upgrade\r\nUpgrade: websocket\r\n",
            false,
        ),
    ] {
        let bytes = format!("GET / HTTP/{version}\r\nHost: h\r\n{fields}\r\n").into_bytes();
        assert_eq!(
            parse(&bytes).view(&bytes).facts().wants_upgrade,
            expected,
            "{version} {fields}"
        );
    }
}

#[test]
fn trailers_are_sent_to_clients_that_ask_for_them() {
    for (version, fields, expected) in [
        ("1.1", "TE: trailers\r\n", true),
        ("1.1", "TE: gzip\r\nte: deflate;q=0.5 , Trailers\r\n", true),
        ("1.1", "TE: gzip\r\n", false),
        ("1.1", "Trailer: trailers\r\n", false),
        ("1.0", "TE: trailers\r\n", false),
    ] {
        let bytes = format!("GET / HTTP/{version}\r\nHost: h\r\n{fields}\r\n").into_bytes();
        let head = parse(&bytes);
        let asks = head.view(&bytes).asks_for_trailers();
        assert_eq!(asks, expected, "{version} {fields}");
    }
}

#[test]
fn fields_of_one_name_are_one_list() {
    for (fields, expected) in [
        ("", None),
        ("Accept: a\r\n", Some("a")),
        (
            "Accept: a,b\r\nX: y\r\naccept: c\r\nACCEPT:\r\n",
            Some("a,b, c, "),
        ),
    ] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").into_bytes();
        let head = parse(&bytes);
        let list = head.view(&bytes).get_list(Known::Accept);
        assert_eq!(list.as_deref(), expected.map(str::as_bytes), "{fields}");
    }
}

#[test]
fn more_fields_than_permitted_are_refused() {
    for most in [1, 3, 64, 65, 100] {
        let limits = MessageLimits {
            max_fields: most,
            ..MessageLimits::default()
        };
        let head = |more: usize| {
            format!(
                "GET / HTTP/1.1\r\nHost: h\r\n{}\r\n",
                "X: y\r\n".repeat(more)
            )
        };
        let (whole, over) = (head(most - 1), head(most));
        let length = whole.len();
        let parsed = RequestHead::new().parse(whole.as_bytes(), &limits);
        assert_eq!(parsed, Ok(Progress::Complete { length }), "{most}");
        assert_eq!(refusal(over.as_bytes(), &limits), HeadError::FieldsTooLarge);
    }
}

#[test]
fn unsafe_field_names_are_dropped_unless_permitted() {
    let bytes = b"GET / HTTP/1.1\r\nHost: h\r\nX_Auth: me\r\nX-Ok9: 1\r\nX.!#$%&'*+^`|~: 2\r\n\r\n";
    let names = |limits: &MessageLimits| {
        let mut head = RequestHead::new();
        head.parse(bytes, limits).unwrap();
        let view = head.view(bytes);
        let names: Vec<_> = view
            .fields()
            .map(|field| field.name.escape_ascii().to_string())
            .collect();
        (names, view.facts().has_discarded_fields)
    };
    assert_eq!(
        names(&MessageLimits::default()),
        (vec!["Host".into(), "X-Ok9".into()], true)
    );
    let keep = MessageLimits {
        discard_unsafe_fields: false,
        ..MessageLimits::default()
    };
    assert_eq!(
        names(&keep),
        (
            vec![
                "Host".into(),
                "X_Auth".into(),
                "X-Ok9".into(),
                "X.!#$%&\\'*+^`|~".into()
            ],
            false
        )
    );
}

#[test]
fn a_dropped_field_does_not_shift_the_others() {
    let bytes = b"GET / HTTP/1.1\r\nX_Drop: 1\r\nHost: h\r\nX_Drop: 2\r\nRange: bytes=0-1\r\n\r\n";
    let head = parse(bytes);
    assert_eq!(head.view(bytes).get(Known::Range), Some(&b"bytes=0-1"[..]));
    assert_eq!(head.view(bytes).host_name(), b"h");
}

#[test]
fn storage_is_fit_for_the_next_request() {
    let mut head = RequestHead::new();
    let first = b"POST /%61?q HTTP/1.1\r\nHost: UPPER\r\nContent-Length: 3\r\nRange: x\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    let second = b"GET / HTTP/1.0\r\n\r\n";
    let limits = MessageLimits::default();
    head.parse(first, &limits).unwrap();
    assert_eq!(
        (head.view(first).path(), head.view(first).host_name()),
        (&b"/a"[..], &b"upper"[..])
    );
    head.parse(second, &limits).unwrap();
    let view = head.view(second);
    assert_eq!(
        (view.path(), view.host_name(), view.query()),
        (&b"/"[..], &b""[..], None)
    );
    assert_eq!(
        (view.get(Known::Range), view.body_length()),
        (None, BodyLength::None)
    );
    assert_eq!(view.fields().len(), 0);
    assert!(!view.facts().expects_continue && !view.facts().keep_alive);
}

#[test]
fn nothing_of_an_earlier_target_stays() {
    let mut head = RequestHead::new();
    let first = b"GET http://a/b?q HTTP/1.0\r\n\r\n";
    let second = b"OPTIONS * HTTP/1.0\r\n\r\n";
    head.parse(first, &MessageLimits::default()).unwrap();
    assert_eq!(head.view(first).query(), Some(&b"q"[..]));
    head.parse(second, &MessageLimits::default()).unwrap();
    let view = head.view(second);
    assert_eq!(
        (view.query(), view.host(), view.host_name()),
        (None, &b""[..], &b""[..])
    );
}

/// A line of the maximum length is accepted, one byte more is not, independent of its end and of the split.
#[test]
fn the_line_limit_does_not_depend_on_the_split() {
    let limits = MessageLimits {
        large_header_buffer_size: 256,
        ..MessageLimits::default()
    };
    for (extra, line, value) in [
        (0, None, None),
        (
            1,
            Some(HeadError::RequestLineTooLong),
            Some(HeadError::FieldsTooLarge),
        ),
    ] {
        let path = "p".repeat(256 - "GET / HTTP/1.1".len() + extra);
        let text = "v".repeat(256 - "X: ".len() + extra);
        let blank = " ".repeat(256 - "X: y".len() + extra);
        for (bytes, expected) in [
            (format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n"), line),
            (format!("GET /{path} HTTP/1.1\nHost: h\n\n"), line),
            (format!("\r\nGET /{path} HTTP/1.1\r\nHost: h\r\n\r\n"), line),
            (
                format!("GET / HTTP/1.1\r\nHost: h\r\nX: {text}\r\n\r\n"),
                value,
            ),
            (
                format!("GET / HTTP/1.1\r\nHost: h\r\nX: y{blank}\r\n\r\n"),
                value,
            ),
        ] {
            let bytes = bytes.as_bytes();
            assert_eq!(RequestHead::new().parse(bytes, &limits).err(), expected);
            let mut head = RequestHead::new();
            let last = (1..=bytes.len())
                .map(|end| head.parse(&bytes[..end], &limits))
                .find(|progress| *progress != Ok(Progress::Incomplete));
            assert_eq!(last.unwrap().err(), expected);
        }
    }
}

#[test]
fn a_head_without_end_is_refused_at_the_limit() {
    let limits = MessageLimits::default();
    for (start, expected) in [
        ("GET / HTTP/1.1\r\nHost: h\r\n", HeadError::FieldsTooLarge),
        ("\r\n", HeadError::FieldsTooLarge),
    ] {
        let mut head = RequestHead::new();
        let mut bytes = start.as_bytes().to_vec();
        let refusal = loop {
            match head.parse(&bytes, &limits) {
                Ok(progress) => assert_eq!(progress, Progress::Incomplete),
                Err(error) => break error,
            }
            assert!(
                bytes.len() < limits.max_head_bytes(),
                "more was read than a head may have"
            );
            let line: &[u8] = if start.starts_with('G') {
                b"X-Filler: 0123456789012345678901234567890123456789\r\n"
            } else {
                b"\r\n"
            };
            bytes.extend_from_slice(line);
        };
        assert_eq!(refusal, expected);
    }
}

#[test]
fn leading_empty_lines_are_skipped() {
    let bytes = b"\r\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let head = parse(bytes);
    assert_eq!(head.view(bytes).length(), bytes.len());
    assert_eq!(head.view(bytes).request_line(), b"GET / HTTP/1.1");
}

#[test]
fn long_heads_are_refused_in_one_piece_and_in_many() {
    let limits = MessageLimits {
        large_header_buffer_size: 512,
        large_header_buffers: 3,
        ..MessageLimits::default()
    };
    let long = "x".repeat(512);
    let fields: String = (0..40)
        .map(|number| format!("X-{number:02}: {}\r\n", &long[..40]))
        .collect();
    let many: String = (0..1100).map(|_| "a:\n").collect();
    let roomy = MessageLimits::default();
    for (text, limits, expected) in [
        (
            format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"),
            &limits,
            HeadError::RequestLineTooLong,
        ),
        // There is no target that could be too long.
        (
            format!("{long} / HTTP/1.1\r\nHost: h\r\n\r\n"),
            &limits,
            HeadError::StartLine,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n"),
            &limits,
            HeadError::FieldsTooLarge,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"),
            &limits,
            HeadError::FieldsTooLarge,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: h\r\n{many}\r\n"),
            &roomy,
            HeadError::FieldsTooLarge,
        ),
    ] {
        let bytes = text.as_bytes();
        assert_eq!(refusal(bytes, limits), expected);
        let mut head = RequestHead::new();
        let in_pieces = (1..=bytes.len()).find_map(|end| head.parse(&bytes[..end], limits).err());
        assert_eq!(in_pieces, Some(expected));
    }
}

#[test]
fn a_head_may_be_as_large_as_the_limits_say() {
    let limits = MessageLimits::default();
    let cookie = "c".repeat(limits.large_header_buffer_size - "Cookie: ".len());
    let bytes = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nCookie: {cookie}\r\nCookie: {cookie}\r\nCookie: {cookie}\r\n\r\n"
    )
    .into_bytes();
    assert_eq!(parse(&bytes).view(&bytes).get_all(b"cookie").count(), 3);
    let fields: String = (0..1023)
        .map(|number| format!("X-{number}: y\r\n"))
        .collect();
    let bytes = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").into_bytes();
    assert_eq!(parse(&bytes).view(&bytes).fields().len(), 1024);
}

#[test]
fn garbage_is_refused_before_its_end_comes() {
    let limits = MessageLimits::default();
    assert_eq!(
        refusal(b"\x16\x03\x01\x02\x00\x01", &limits),
        HeadError::StartLine
    ); // a TLS greeting
    let mut head = RequestHead::new();
    let mut bytes = b"GET / HTTP/1.1\r\n".to_vec();
    assert_eq!(head.parse(&bytes, &limits), Ok(Progress::Incomplete));
    bytes.extend_from_slice(b"no colon here ");
    let outcome = (0..200).find_map(|_| {
        bytes.extend_from_slice(b"and on ");
        head.parse(&bytes, &limits).err()
    });
    assert_eq!(outcome, Some(HeadError::FieldName));
}

#[test]
fn other_versions_are_505_and_malformed_lines_400() {
    for (line, expected) in [
        ("GET / HTTP/2.0", HeadError::Version),
        ("GET / HTTP/1.2", HeadError::Version),
        ("GET / HTTP/0.9", HeadError::Version),
        ("PRI * HTTP/2.0", HeadError::Version),
        ("GET / HTTP/11", HeadError::StartLine),
        ("GET / HTTP/1.x", HeadError::StartLine),
        ("GET / HTTP/x.1", HeadError::StartLine),
        ("GET / http/1.1", HeadError::StartLine),
        ("GET / HTTPS/1.1", HeadError::StartLine),
        ("GET / FTP/1.1", HeadError::StartLine),
        ("GET / HTTP/1.1 x", HeadError::LineEnd),
        ("GET /", HeadError::StartLine),
        ("GET", HeadError::StartLine),
        ("GET  / HTTP/1.1", HeadError::StartLine),
        ("GET /  HTTP/1.1", HeadError::StartLine),
        (" GET / HTTP/1.1", HeadError::StartLine),
        ("GET\t/ HTTP/1.1", HeadError::StartLine),
        ("G(T / HTTP/1.1", HeadError::StartLine),
        ("GET /\u{7f} HTTP/1.1", HeadError::StartLine),
    ] {
        let bytes = format!("{line}\r\nHost: h\r\n\r\n").into_bytes();
        assert_eq!(
            refusal(&bytes, &MessageLimits::default()),
            expected,
            "{line}"
        );
    }
}

#[test]
fn an_absolute_target_replaces_the_host_field() {
    // RFC 9112 §3.2.2: "the origin server MUST ignore the received Host header field (if any)".
    for (target, host, authority) in [
        ("http://a/", "b", "a"),
        ("http://a/", "a:8080", "a"),
        ("https://A.example:8443/", "a", "A.example:8443"),
        ("http://a/", "a", "a"),
    ] {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nX: y\r\n\r\n").into_bytes();
        let head = parse(&bytes);
        let view = head.view(&bytes);
        assert_eq!(view.host(), authority.as_bytes());
        assert_eq!(view.get(Known::Host), Some(authority.as_bytes()));
        let fields: Vec<_> = view.fields().map(|field| field.value).collect();
        assert_eq!(fields, [authority.as_bytes(), b"y"]);
    }
    // Issue 28, 2.6: an empty Host means that there is no authority (RFC 9110 §7.2).
    let bytes = b"GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n";
    assert_eq!(
        refusal(bytes, &MessageLimits::default()),
        HeadError::HostInvalid
    );
}
