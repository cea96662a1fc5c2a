//! A component that makes the checks of Wasmtime's test programs for `wasi:http` 0.2, under their names: the path of a request is the name of a case.
//! A case that fails panics, so that the client gets 500 and the log has the cause.

use std::env;
use std::io::Write as _;

use wasip2::cli::stderr::get_stderr;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, HeaderError, IncomingBody, IncomingRequest,
    IncomingResponse, Method, OutgoingBody, OutgoingRequest, OutgoingResponse, RequestOptions,
    ResponseOutparam, Scheme, http_error_code,
};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

struct Cases;

wasip2::http::proxy::export!(Cases);

/// Bytes that `blocking_write_and_flush` takes at once.
const PIECE: usize = 4096;

impl Guest for Cases {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let target = request.path_with_query().expect("each request has a path");
        let (path, argument) = target.split_once('?').unwrap_or((&target, ""));
        match path.trim_start_matches('/') {
            "p2_http_outbound_request_get" => get(),
            "p2_http_outbound_request_post" => post(&Method::Post, b"{\"foo\": \"bar\"}"),
            "p2_http_outbound_request_put" => post(&Method::Put, b""),
            "p2_http_outbound_request_large_post" => post(&Method::Post, &vec![1; 1025 * 1024]),
            "p2_http_outbound_request_invalid_version" => refused_by_the_origin(),
            "p2_http_outbound_request_invalid_header" => invalid_header(),
            "p2_http_outbound_request_unknown_method" => {
                assert!(
                    OutgoingRequest::new(Fields::new())
                        .set_method(&Method::Other("bad\nmethod".into()))
                        .is_err()
                );
            }
            "p2_http_outbound_request_unsupported_scheme" => {
                let error = fetch(
                    &Method::Get,
                    &Scheme::Other("WS".into()),
                    "localhost:3000",
                    "/",
                    None,
                )
                .unwrap_err();
                assert!(matches!(error, ErrorCode::HttpProtocolError), "{error}");
            }
            "p2_http_outbound_request_invalid_port" => {
                let request = OutgoingRequest::new(Fields::new());
                if request.set_authority(Some("localhost:99999")).is_ok() {
                    outgoing_handler::handle(request, None)
                        .map(|future| drop(answer(future)))
                        .unwrap_err();
                }
            }
            "p2_http_outbound_request_invalid_dnsname" => {
                let error = fetch(
                    &Method::Get,
                    &Scheme::Http,
                    "some.invalid.dnsname:3000",
                    "/",
                    None,
                )
                .unwrap_err();
                assert!(
                    matches!(error, ErrorCode::DnsError(_) | ErrorCode::ConnectionRefused),
                    "{error}"
                );
            }
            "p2_http_outbound_request_response_build" => build(),
            "p2_http_outbound_request_content_length" => content_length(),
            "p2_http_outbound_request_missing_path_and_query" => {
                let request = OutgoingRequest::new(Fields::new());
                request.set_scheme(Some(&Scheme::Https)).unwrap();
                request.set_authority(Some("example.com")).unwrap();
                assert!(outgoing_handler::handle(request, None).is_err());
            }
            "p2_http_outbound_request_timeout" => connect_timeout(),
            "wasi_http_proxy_tests" => return proxy(&request, out),
            "wasi_http_hash_all" => return fetch_all(&request, out),
            "wasi_http_hash_all_with_reject" => rejected(),
            "wasi_http_echo" => return echo(&request, out),
            "wasi_http_double_echo" => return double_echo(&request, out),
            "wasi_http_no_trap_on_early_drop" => return early_drop(out),
            "wasi_http_fields_limit_incoming_request" => {
                append(argument.parse().unwrap(), |number| {
                    (format!("k{number:07}"), b"v")
                })
            }
            "p2_cli_http_headers" => match argument {
                "p2-append" => append(u32::MAX, |number| (format!("a{number}"), b"a")),
                "p2-append-empty" => append(u32::MAX, |number| (format!("a{number}"), b"")),
                "p2-append-same" => append(u32::MAX, |_| ("a".into(), b"b")),
                _ => append(u32::MAX, |_| ("a".into(), b"")),
            },
            "p2_cli_serve_echo_env" => return environment(&request, out),
            "p2_cli_serve_authority_and_scheme" => {
                assert_eq!(request.authority().as_deref(), Some("localhost"));
                assert!(matches!(request.scheme(), Some(Scheme::Http)));
            }
            "p2_cli_serve_hello_world" => return send(out, b"Hello, WASI!"),
            "p2_cli_serve_return_before_set" => return,
            "p2_cli_serve_trap_before_set" => std::process::abort(),
            "p2_cli_serve_sleep" => subscribe_duration(u64::MAX).block(),
            "p2_cli_serve_with_print" => print(),
            other => panic!("there is no case {other}"),
        }
        send(out, b"");
    }
}

// Answers.

/// Sets the head of a response, and returns its body.
fn begin(out: ResponseOutparam, fields: Fields) -> OutgoingBody {
    let response = OutgoingResponse::new(fields);
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    body
}

fn send(out: ResponseOutparam, bytes: &[u8]) {
    let body = begin(out, Fields::new());
    write(&body.write().unwrap(), bytes).unwrap();
    OutgoingBody::finish(body, None).unwrap();
}

fn write(stream: &OutputStream, bytes: &[u8]) -> Result<(), StreamError> {
    bytes
        .chunks(PIECE)
        .try_for_each(|piece| stream.blocking_write_and_flush(piece))
}

/// The next bytes, or None at the end.
fn read(stream: &InputStream) -> Option<Vec<u8>> {
    match stream.blocking_read(PIECE as u64) {
        Ok(bytes) => Some(bytes),
        Err(StreamError::Closed) => None,
        Err(StreamError::LastOperationFailed(error)) => panic!("{}", error.to_debug_string()),
    }
}

fn read_all(body: &IncomingBody) -> Vec<u8> {
    let stream = body.stream().unwrap();
    std::iter::from_fn(|| read(&stream)).flatten().collect()
}

fn content_type(request: &IncomingRequest) -> Fields {
    let values = request.headers().get("content-type");
    Fields::from_list(
        &values
            .into_iter()
            .map(|value| ("content-type".to_owned(), value))
            .collect::<Vec<_>>(),
    )
    .unwrap()
}

// Requests of the component.

fn origin() -> String {
    env::var("HTTP_SERVER").unwrap()
}

fn prepare(
    method: &Method,
    scheme: &Scheme,
    authority: &str,
    path: &str,
    fields: Fields,
) -> OutgoingRequest {
    let request = OutgoingRequest::new(fields);
    request.set_method(method).unwrap();
    request.set_scheme(Some(scheme)).unwrap();
    request.set_authority(Some(authority)).unwrap();
    request.set_path_with_query(Some(path)).unwrap();
    request
}

fn answer(future: FutureIncomingResponse) -> Result<IncomingResponse, ErrorCode> {
    future.subscribe().block();
    future.get().unwrap().unwrap()
}

fn fetch(
    method: &Method,
    scheme: &Scheme,
    authority: &str,
    path: &str,
    options: Option<RequestOptions>,
) -> Result<IncomingResponse, ErrorCode> {
    let request = prepare(method, scheme, authority, path, Fields::new());
    let body = request.body().unwrap();
    let future = outgoing_handler::handle(request, options)?;
    OutgoingBody::finish(body, None)?;
    answer(future)
}

fn field(response: &IncomingResponse, name: &str) -> String {
    String::from_utf8(response.headers().get(name).concat()).unwrap()
}

fn get() {
    let path = "/get?some=arg&goes=here";
    let response = fetch(&Method::Get, &Scheme::Http, &origin(), path, None).unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(field(&response, "x-method"), "GET");
    assert_eq!(field(&response, "x-target"), path);
    assert_eq!(read_all(&response.consume().unwrap()), b"");
}

/// The origin sends the body back.
fn post(method: &Method, bytes: &[u8]) {
    let request = prepare(method, &Scheme::Http, &origin(), "/post", Fields::new());
    let body = request.body().unwrap();
    let future = outgoing_handler::handle(request, None).unwrap();
    write(&body.write().unwrap(), bytes).unwrap();
    OutgoingBody::finish(body, None).unwrap();
    let response = answer(future).unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(
        field(&response, "x-method"),
        if matches!(method, Method::Put) {
            "PUT"
        } else {
            "POST"
        }
    );
    let returned = read_all(&response.consume().unwrap());
    assert!(
        returned == bytes,
        "{} bytes came back of {}",
        returned.len(),
        bytes.len()
    );
}

/// The origin closes the connection on CONNECT, without a response.
fn refused_by_the_origin() {
    let error = fetch(&Method::Connect, &Scheme::Http, &origin(), "/", None).unwrap_err();
    assert!(
        matches!(
            error,
            ErrorCode::HttpProtocolError
                | ErrorCode::ConnectionReadTimeout
                | ErrorCode::HttpResponseIncomplete
        ),
        "{error}"
    );
}

fn invalid_header() {
    let fields = Fields::new();
    assert!(matches!(
        fields.append("malformed field name", b"value"),
        Err(HeaderError::InvalidSyntax)
    ));
    assert!(matches!(
        fields.append("name", b"bad\nvalue"),
        Err(HeaderError::InvalidSyntax)
    ));
    fields.append("name", b"value").unwrap();
    for name in ["Connection", "Keep-Alive", "Host"] {
        assert!(
            matches!(fields.append(name, b"value"), Err(HeaderError::Forbidden)),
            "{name}"
        );
    }
    assert!(matches!(
        Fields::from_list(&[("bad name".into(), b"value".into())]),
        Err(HeaderError::InvalidSyntax)
    ));
    assert!(matches!(
        Fields::from_list(&[("name".into(), b"bad\nvalue".into())]),
        Err(HeaderError::InvalidSyntax)
    ));
    let sealed = OutgoingRequest::new(fields).headers();
    assert!(matches!(
        sealed.set("content-length", &[b"10".into()]),
        Err(HeaderError::Immutable)
    ));
    assert!(matches!(
        sealed.append("content-length", b"10"),
        Err(HeaderError::Immutable)
    ));
    assert!(matches!(
        sealed.delete("content-length"),
        Err(HeaderError::Immutable)
    ));
}

fn build() {
    let request = prepare(
        &Method::Get,
        &Scheme::Https,
        "www.example.com",
        "/",
        Fields::new(),
    );
    write(&request.body().unwrap().write().unwrap(), b"request-body").unwrap();
    let response = OutgoingResponse::new(Fields::new());
    write(&response.body().unwrap().write().unwrap(), b"response-body").unwrap();
    let request = OutgoingRequest::new(Fields::new());
    assert!(
        request
            .set_method(&Method::Other("invalid method".into()))
            .is_err()
    );
    assert!(request.set_authority(Some("bad-\nhost")).is_err());
    request.set_authority(Some("[::]:443")).unwrap();
    request.set_authority(Some("[::]")).unwrap();
    assert!(
        request
            .set_scheme(Some(&Scheme::Other("bad\nscheme".into())))
            .is_err()
    );
    assert!(request.set_path_with_query(Some("/bad\npath")).is_err());
}

/// Bodies of three lengths, where the head says 11 bytes.
fn content_length() {
    let begin = || {
        let fields = Fields::from_list(&[("content-length".into(), b"11".into())]).unwrap();
        let request = prepare(&Method::Post, &Scheme::Http, &origin(), "/", fields);
        let body = request.body().unwrap();
        (request, body)
    };
    let (_whole, body) = begin();
    write(&body.write().unwrap(), b"long enough").unwrap();
    OutgoingBody::finish(body, None).unwrap();

    let (_short, body) = begin();
    write(&body.write().unwrap(), b"msg").unwrap();
    let error = OutgoingBody::finish(body, None).unwrap_err();
    assert!(
        matches!(error, ErrorCode::HttpRequestBodySize(Some(3))),
        "{error}"
    );

    let (_long, body) = begin();
    match write(&body.write().unwrap(), b"more than 11 bytes") {
        Err(StreamError::LastOperationFailed(error)) => {
            assert!(matches!(
                http_error_code(&error),
                Some(ErrorCode::HttpRequestBodySize(Some(18)))
            ));
        }
        other => panic!("{other:?}"),
    }
    let error = OutgoingBody::finish(body, None).unwrap_err();
    assert!(
        matches!(error, ErrorCode::HttpRequestBodySize(Some(18))),
        "{error}"
    );
}

/// A server whose queue is full answers no attempt to connect.
fn connect_timeout() {
    let options = RequestOptions::new();
    options.set_connect_timeout(Some(200_000_000)).unwrap();
    let error = fetch(
        &Method::Get,
        &Scheme::Http,
        &env::var("FULL_SERVER").unwrap(),
        "/",
        Some(options),
    )
    .unwrap_err();
    assert!(matches!(error, ErrorCode::ConnectionTimeout), "{error}");
}

/// The configuration names the origin alone.
fn rejected() {
    let error = fetch(&Method::Get, &Scheme::Http, "forbidden.example", "/", None).unwrap_err();
    assert!(matches!(error, ErrorCode::HttpRequestDenied), "{error}");
    fetch(&Method::Get, &Scheme::Http, &origin(), "/", None).unwrap();
}

// Requests to the component.

fn proxy(request: &IncomingRequest, out: ResponseOutparam) {
    assert!(request.scheme().is_some() && request.authority().is_some());
    assert!(std::fs::File::open(".").is_err());
    let fields = request.headers();
    assert!(!fields.has("host"));
    assert!(fields.delete("x-sent").is_err() && fields.append("x-added", b"no").is_err());
    assert!(fields.has("x-sent") && !fields.has("x-added"));
    send(out, b"hello, world!");
}

/// Responses of the addresses in the fields `url`, which are requested at the same time.
fn fetch_all(request: &IncomingRequest, out: ResponseOutparam) {
    let futures: Vec<_> = request
        .headers()
        .get("url")
        .into_iter()
        .map(|url| {
            let url = String::from_utf8(url).unwrap();
            let (authority, path) = url
                .strip_prefix("http://")
                .unwrap()
                .split_once('/')
                .unwrap();
            let request = prepare(
                &Method::Get,
                &Scheme::Http,
                authority,
                &format!("/{path}"),
                Fields::new(),
            );
            outgoing_handler::handle(request, None).unwrap()
        })
        .collect();
    let body = begin(out, Fields::new());
    let stream = body.write().unwrap();
    for future in futures {
        let response = answer(future).unwrap();
        write(
            &stream,
            format!("{}\n", field(&response, "x-target")).as_bytes(),
        )
        .unwrap();
    }
    drop(stream);
    OutgoingBody::finish(body, None).unwrap();
}

fn echo(request: &IncomingRequest, out: ResponseOutparam) {
    let body = begin(out, content_type(request));
    let incoming = request.consume().unwrap();
    let (from, to) = (incoming.stream().unwrap(), body.write().unwrap());
    while let Some(piece) = read(&from) {
        write(&to, &piece).unwrap();
    }
    drop(to);
    OutgoingBody::finish(body, None).unwrap();
}

/// Each piece of the body goes to the origin, comes back from it, and goes to the client before the next is read.
fn double_echo(request: &IncomingRequest, out: ResponseOutparam) {
    let outgoing = prepare(
        &Method::Post,
        &Scheme::Http,
        &origin(),
        "/echo",
        Fields::new(),
    );
    let outgoing_body = outgoing.body().unwrap();
    let future = outgoing_handler::handle(outgoing, None).unwrap();
    let response = answer(future).unwrap();
    let body = begin(out, content_type(request));
    let (incoming, returned) = (request.consume().unwrap(), response.consume().unwrap());
    let (from, there, back, to) = (
        incoming.stream().unwrap(),
        outgoing_body.write().unwrap(),
        returned.stream().unwrap(),
        body.write().unwrap(),
    );
    while let Some(piece) = read(&from) {
        write(&there, &piece).unwrap();
        let mut missing = piece.len();
        while missing > 0 {
            let piece = read(&back).expect("the origin sends back all that it gets");
            missing -= piece.len();
            write(&to, &piece).unwrap();
        }
    }
    drop(there);
    OutgoingBody::finish(outgoing_body, None).unwrap();
    assert!(read(&back).is_none());
    drop(to);
    OutgoingBody::finish(body, None).unwrap();
}

/// Writes until the client is gone, and then tells the origin that nothing has trapped.
fn early_drop(out: ResponseOutparam) {
    let body = begin(out, Fields::new());
    let stream = body.write().unwrap();
    while write(&stream, &[b'x'; PIECE]).is_ok() {}
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
    fetch(&Method::Get, &Scheme::Http, &origin(), "/dropped", None).unwrap();
}

/// Fields without an end are too many at some point, where the instance is trapped.
fn append(number: u32, field: impl Fn(u32) -> (String, &'static [u8])) {
    let fields = Fields::new();
    for number in 0..number {
        let (name, value) = field(number);
        fields.append(&name, value).unwrap();
    }
}

/// The variables that the fields `env` name.
fn environment(request: &IncomingRequest, out: ResponseOutparam) {
    let fields = Fields::new();
    for name in request.headers().get("env") {
        if let Ok(value) = env::var(String::from_utf8(name).unwrap()) {
            fields.append("env", value.as_bytes()).unwrap();
        }
    }
    OutgoingBody::finish(begin(out, fields), None).unwrap();
}

fn print() {
    print!("this is half a print ");
    std::io::stdout().flush().unwrap();
    println!("to stdout\n\nafter empty");
    for piece in ["start a print ", "1", "2", "3", "4", "\n"] {
        get_stderr()
            .blocking_write_and_flush(piece.as_bytes())
            .unwrap();
    }
}
