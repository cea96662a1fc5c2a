//! Responses: their framing, their bytes, and reading them again.

#![allow(clippy::unwrap_used, clippy::expect_used)] // tests

use tutti_http::{
    BodyDecoder, BodyLength, ConnectionField, DeclaredBody, HeadError, Known, LAST_CHUNK,
    MessageLimits, Method, OutgoingHead, Progress, ResponseFraming, ResponseHead, ResponseQuestion,
    Version, frame_response, write_chunk_head,
};

#[test]
fn framing_follows_version_method_and_status() {
    use ConnectionField::{Close, KeepAlive, Nothing};
    use DeclaredBody::{Length, Unknown};
    use ResponseFraming::{Chunked, NoBody, UntilClose};
    use Version::{Http2, Http10, Http11};
    // Version, method, status, length of the body, and whether the connection may stay; the framing, `Content-Length` and `Connection`.
    for row in [
        "1.1 GET  200 5 keep | length  5 -",
        "1.1 GET  200 0 keep | length  0 -",
        "1.1 GET  200 5 end  | length  5 close",
        "1.1 GET  200 ? keep | chunked - -",
        "1.1 GET  200 ? end  | chunked - close",
        "1.1 POST 404 ? keep | chunked - -",
        "1.0 GET  200 5 keep | length  5 keep-alive",
        "1.0 GET  200 5 end  | length  5 close",
        "1.0 GET  200 ? keep | close   - close",
        "1.0 HEAD 200 ? keep | none    - keep-alive",
        "1.1 HEAD 200 5 keep | none    5 -",
        "1.1 HEAD 200 ? keep | none    - -",
        "1.1 HEAD 404 9 keep | none    9 -",
        "1.1 GET  204 5 keep | none    - -",
        "1.1 GET  204 ? end  | none    - close",
        "1.1 GET  205 5 keep | none    0 -",
        "1.1 GET  304 5 keep | none    5 -",
        "1.1 GET  304 0 keep | none    - -",
        "1.1 GET  304 ? keep | none    - -",
        "1.1 HEAD 304 ? keep | none    - -",
        "1.1 POST 100 ? keep | none    - -",
        "2   GET  200 ? keep | close   - -",
        "2   GET  200 5 keep | length  5 -",
        "1.1 POST 100 ? end  | none    - -",
        "1.1 GET  101 ? keep | none    - -",
    ] {
        let words: Vec<&str> = row.split_ascii_whitespace().collect();
        let [
            version,
            method,
            status,
            body,
            wish,
            "|",
            framing,
            length,
            connection,
        ] = words[..]
        else {
            panic!("{row}");
        };
        let content_length = length.parse().ok();
        let framing = match framing {
            "chunked" => Chunked,
            "none" => NoBody,
            "close" => UntilClose,
            _ => ResponseFraming::Length(content_length.unwrap()),
        };
        let connection = match connection {
            "close" => Close,
            "keep-alive" => KeepAlive,
            _ => Nothing,
        };
        let question = ResponseQuestion {
            version: match version {
                "1.0" => Http10,
                "1.1" => Http11,
                _ => Http2,
            },
            method: Method::from_bytes(method.as_bytes()),
            status: status.parse().unwrap(),
            body: body.parse().map_or(Unknown, Length),
            keep_alive: wish == "keep",
        };
        let decision = frame_response(&question);
        assert_eq!(
            (
                decision.framing,
                decision.content_length,
                decision.connection
            ),
            (framing, content_length, connection),
            "{question:?}"
        );
        assert_eq!(
            decision.keep_alive,
            question.keep_alive && framing != UntilClose && question.version != Http2,
            "{question:?}"
        );
    }
}

#[test]
fn a_response_is_written_in_order() {
    let mut out = Vec::new();
    let decision = frame_response(&ResponseQuestion {
        version: Version::Http11,
        method: Method::Get,
        status: 404,
        body: DeclaredBody::Unknown,
        keep_alive: false,
    });
    let mut head = OutgoingHead::new(404);
    head.fields.push(b"Content-Type", b"text/html");
    head.fields.push(b"x-lower", b"");
    let date = tutti_http::format_date(784_111_777);
    head.fields
        .push_with(b"Date", |value| value.extend_from_slice(&date));
    head.frame(&decision);
    head.write_http1(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nx-lower: \r\n\
         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
}

/// Every framing written by one half of the crate is read by the other to the same end.
#[test]
fn every_written_framing_is_read_to_the_same_end() {
    for method in [Method::Get, Method::Head] {
        for status in [200, 204, 205, 304, 404] {
            for body in [
                DeclaredBody::Length(0),
                DeclaredBody::Length(5),
                DeclaredBody::Unknown,
            ] {
                for keep_alive in [true, false] {
                    let question = ResponseQuestion {
                        version: Version::Http11,
                        method,
                        status,
                        body,
                        keep_alive,
                    };
                    let decision = frame_response(&question);
                    let mut out = Vec::new();
                    let mut written = OutgoingHead::new(status);
                    written.frame(&decision);
                    written.write_http1(&mut out);
                    let expected: &[u8] = match decision.framing {
                        ResponseFraming::NoBody => b"",
                        ResponseFraming::Length(length) => &b"hello"[..length as usize],
                        ResponseFraming::Chunked | ResponseFraming::UntilClose => b"hello",
                    };
                    match decision.framing {
                        ResponseFraming::Chunked => {
                            write_chunk_head(expected.len(), &mut out);
                            out.extend_from_slice(expected);
                            out.extend_from_slice(b"\r\n");
                            out.extend_from_slice(LAST_CHUNK);
                        }
                        _ => out.extend_from_slice(expected),
                    }
                    let end = out.len();
                    out.extend_from_slice(b"HTTP/1.1 ");
                    let (mut head, limits) = (ResponseHead::new(), MessageLimits::default());
                    let Progress::Complete { length } = head.parse(&out, &limits).unwrap() else {
                        unreachable!("whole head given")
                    };
                    let view = head.view(&out);
                    assert_eq!(view.keep_alive(method), decision.keep_alive, "{question:?}");
                    let mut decoder = BodyDecoder::new(view.body_length(method), &limits).unwrap();
                    let mut data = Vec::new();
                    let (used, finished) = decoder
                        .decode_all(&out[length..], |run| data.extend_from_slice(run))
                        .unwrap();
                    assert!(finished, "{question:?}");
                    assert_eq!(
                        (data.as_slice(), length + used),
                        (expected, end),
                        "{question:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn response_heads_are_read() {
    let bytes =
        b"HTTP/1.1 200 All Right\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 3\r\n\r\nabc";
    let mut head = ResponseHead::new();
    assert_eq!(
        head.parse(bytes, &MessageLimits::default()),
        Ok(Progress::Complete {
            length: bytes.len() - 3
        })
    );
    let view = head.view(bytes);
    assert_eq!(
        (view.status(), view.reason(), view.version()),
        (200, &b"All Right"[..], Version::Http11)
    );
    assert_eq!(
        view.get_all(b"Set-Cookie").collect::<Vec<_>>(),
        [b"a", b"b"]
    );
    assert_eq!(view.get(Known::ContentLength), Some(&b"3"[..]));
}

#[test]
fn heads_of_cgi_answers_are_read() {
    const LINE: &str = "HTTP/1.1 200 OK\r\n";
    for (cgi, expected) in [
        (
            "Status: 404 Not Found\r\nX-A: 1\r\nContent-type: text/html\r\n\r\n",
            Ok((404, "X-A: 1, Content-type: text/html")),
        ),
        ("status:404\nA: b\n\n", Ok((404, "A: b"))),
        (
            "Content-Type: text/plain\n\n",
            Ok((200, "Content-Type: text/plain")),
        ),
        ("Location: /x\r\n\r\n", Ok((302, "Location: /x"))),
        (
            "Location: /x\r\nStatus: 201 Created\r\n\r\n",
            Ok((201, "Location: /x")),
        ),
        (
            "Transfer-Encoding: chunked\r\nA: b\r\n\r\n",
            Ok((200, "A: b")),
        ),
        ("Status: 99\r\n\r\n", Err(HeadError::StartLine)),
        (
            "Status: 101 Switching Protocols\r\n\r\n",
            Err(HeadError::StartLine),
        ),
        ("Status: 2000\r\n\r\n", Err(HeadError::StartLine)),
        ("Status: +20\r\n\r\n", Err(HeadError::StartLine)),
        ("Status:\r\n\r\n", Err(HeadError::StartLine)),
    ] {
        let bytes = format!("{LINE}{cgi}body");
        let mut head = ResponseHead::new();
        let progress = head.parse(bytes.as_bytes(), &MessageLimits::default());
        let length = LINE.len() + cgi.len();
        assert_eq!(progress, Ok(Progress::Complete { length }), "{cgi:?}");
        let outcome = head.read_as_cgi(bytes.as_bytes()).map(|()| {
            let view = head.view(bytes.as_bytes());
            let fields = view.fields().map(|field| {
                let text = [field.name, b": ", field.value].concat();
                String::from_utf8(text).unwrap()
            });
            (view.status(), fields.collect::<Vec<_>>().join(", "))
        });
        let expected = expected.map(|(status, fields)| (status, fields.to_owned()));
        assert_eq!(outcome, expected, "{cgi:?}");
    }
}

#[test]
fn response_bodies_end_where_rfc_9112_says() {
    for (method, head, length, keep_alive) in [
        (
            Method::Get,
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n",
            BodyLength::Known(3),
            true,
        ),
        (
            Method::Get,
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
            BodyLength::None,
            true,
        ),
        (
            Method::Get,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
            BodyLength::Chunked,
            true,
        ),
        (
            Method::Get,
            "HTTP/1.1 200 OK\r\n",
            BodyLength::UntilClose,
            false,
        ),
        (
            Method::Get,
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n",
            BodyLength::UntilClose,
            false,
        ),
        (
            Method::Get,
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n",
            BodyLength::Known(1),
            true,
        ),
        (
            Method::Get,
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n",
            BodyLength::Known(1),
            false,
        ),
        (
            Method::Get,
            "HTTP/1.1 200\r\nConnection: close\r\nContent-Length: 1\r\n",
            BodyLength::Known(1),
            false,
        ),
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n",
            BodyLength::None,
            true,
        ),
        (
            Method::Head,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
            BodyLength::None,
            true,
        ),
        (
            Method::Get,
            "HTTP/1.1 204 No Content\r\n",
            BodyLength::None,
            true,
        ),
        (
            Method::Get,
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n",
            BodyLength::None,
            true,
        ),
        (
            Method::Get,
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n",
            BodyLength::None,
            true,
        ),
    ] {
        let bytes = format!("{head}\r\n").into_bytes();
        let mut parsed = ResponseHead::new();
        assert_eq!(
            parsed.parse(&bytes, &MessageLimits::default()),
            Ok(Progress::Complete {
                length: bytes.len()
            }),
            "{head}"
        );
        let view = parsed.view(&bytes);
        assert_eq!(
            (view.body_length(method), view.keep_alive(method)),
            (length, keep_alive),
            "{method:?} {head}"
        );
    }
}

#[test]
fn responses_with_two_readings_are_refused() {
    for (head, expected) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
            HeadError::ContentLengthRepeated,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n",
            HeadError::ContentLength,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n",
            HeadError::ContentLength,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
            HeadError::LengthConflict,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            HeadError::TransferEncoding,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n",
            HeadError::TransferEncoding,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",
            HeadError::TransferCodingUnsupported,
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n",
            HeadError::TransferEncodingVersion,
        ),
        ("HTTP/1.1 200 OK\r\nX : y\r\n", HeadError::FieldName),
        ("HTTP/1.1 200 OK\r\nX: y\r\n z\r\n", HeadError::FieldName),
        ("HTTP/1.1 200 OK\r\nX: y\rZ: z\r\n", HeadError::FieldValue),
        ("HTTP/1.1 099 OK\r\n", HeadError::StartLine),
        ("HTTP/1.1 20 OK\r\n", HeadError::StartLine),
        ("HTTP/1.1 2000 OK\r\n", HeadError::StartLine),
        ("HTTP/1.1  200 OK\r\n", HeadError::StartLine),
        ("HTTP/2.0 200 OK\r\n", HeadError::Version),
        ("ICY 200 OK\r\n", HeadError::Version),
    ] {
        let bytes = format!("{head}\r\n").into_bytes();
        assert_eq!(
            ResponseHead::new().parse(&bytes, &MessageLimits::default()),
            Err(expected),
            "{head}"
        );
    }
}
