//! A component of the world `wasi:http/proxy` that shows its request, or misbehaves: the path says how.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    Fields, IncomingRequest, Method, OutgoingBody, OutgoingRequest, OutgoingResponse, ResponseOutparam, Scheme,
};
use wasip2::io::streams::{InputStream, OutputStream, StreamError};

struct Conformance;

wasip2::http::proxy::export!(Conformance);

thread_local! {
    /// Requests that this instance has served.
    static SERVED: Cell<u32> = const { Cell::new(0) };
}

/// Bytes read or written at once.
const PIECE: u64 = 16 * 1024;

impl Guest for Conformance {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        SERVED.set(SERVED.get() + 1);
        let target = request.path_with_query().unwrap_or_default();
        let (path, argument) = target.split_once('?').unwrap_or((&target, ""));
        match path {
            "/echo" | "/body" => echo(&request, out),
            "/request" => text(out, 200, &[], &describe(&request)),
            "/served" => text(out, 200, &[], &SERVED.get().to_string()),
            "/status" => text(out, argument.parse().unwrap_or(200), &[], "told"),
            "/fields" => fields(out),
            "/bad-field" => bad_field(out),
            "/trailers" => trailers(out, argument),
            "/large-field" => large_field(out, argument),
            "/environment" => environment(out),
            "/print" => print(out),
            "/head" => head(&request, out),
            "/hints" => trailers(out, "announced"),
            "/slow" => slow(out),
            "/grows" => {
                let grown = vec![b'x'; 200 << 20];
                subscribe_duration(500_000_000).block();
                text(out, 200, &[], &format!("grown {}", std::hint::black_box(&grown).len()));
            }
            "/pieces" => pieces(out, argument),
            "/endless" => endless(out),
            "/wait" => {
                subscribe_duration(number(argument) * 1_000_000).block();
                text(out, 200, &[], "waited");
            }
            "/begin-and-wait" => begin_and(out, || subscribe_duration(number(argument) * 1_000_000).block()),
            "/begin-and-loop" => begin_and(out, || compute_for_ever()),
            "/trap" | "/fails" => trap(out),
            "/trap-in-body" => trap_in_body(out),
            "/loop" | "/hangs" => compute_for_ever(),
            "/memory" => text(out, 200, &[], &allocate(number(argument) as usize)),
            "/exit" => std::process::exit(3),
            "/no-answer" => drop(out),
            "/short" => length(out, "10", b"short"),
            "/long" => length(out, "4", b"longer"),
            "/after" => {
                text(out, 200, &[], "answered");
                eprintln!("went on after the answer");
            }
            "/fetch" => fetch(out, argument),
            "/read" => text(out, 200, &[], &read(argument)),
            "/write" => text(out, 200, &[], &write(argument)),
            "/connect" => text(out, 200, &[], &connect(argument)),
            // Any path, for tests that ask several applications the same.
            _ if request.headers().has(&"app".to_owned()) => text(out, 200, &[], &describe(&request)),
            _ => text(out, 200, &[("content-type", "text/plain")], "Hello from a component\n"),
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// Sets the answer's head, and gives its body.
fn begin(out: ResponseOutparam, status: u16, fields: &[(&str, &str)]) -> OutgoingBody {
    let head = Fields::new();
    for (name, value) in fields {
        head.append(name, value.as_bytes()).unwrap();
    }
    let response = OutgoingResponse::new(head);
    let is_valid = response.set_status_code(status);
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    if is_valid.is_err() {
        eprintln!("the status {status} was refused");
    }
    body
}

fn text(out: ResponseOutparam, status: u16, fields: &[(&str, &str)], text: &str) {
    let body = begin(out, status, fields);
    let stream = body.write().unwrap();
    let _ = write_all(&stream, text.as_bytes());
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

fn write_all(stream: &OutputStream, bytes: &[u8]) -> Result<(), StreamError> {
    for piece in bytes.chunks(4096) {
        stream.blocking_write_and_flush(piece)?;
    }
    Ok(())
}

/// Each piece goes back as it comes.
fn echo(request: &IncomingRequest, out: ResponseOutparam) {
    let body = begin(out, 200, &[]);
    let to = body.write().unwrap();
    let incoming = request.consume().unwrap();
    let from: InputStream = incoming.stream().unwrap();
    loop {
        match from.blocking_read(PIECE) {
            Ok(piece) if write_all(&to, &piece).is_ok() => {}
            Err(StreamError::Closed) => break,
            _ => return eprintln!("cut short"),
        }
    }
    drop((from, to));
    let _ = OutgoingBody::finish(body, None);
}

fn describe(request: &IncomingRequest) -> String {
    let mut shown = String::new();
    let _ = writeln!(shown, "method {:?}", request.method());
    let _ = writeln!(shown, "target {}", request.path_with_query().unwrap_or_default());
    let _ = writeln!(shown, "scheme {:?}", request.scheme());
    let _ = writeln!(shown, "authority {}", request.authority().unwrap_or_default());
    for (name, value) in request.headers().entries() {
        let _ = writeln!(shown, "field {name}: {}", String::from_utf8_lossy(&value));
    }
    shown
}

fn fields(out: ResponseOutparam) {
    let fields = [("X-One", "1"), ("x-two", "a"), ("x-two", "b"), ("set-cookie", "a=1"), ("set-cookie", "b=2")];
    text(out, 201, &fields, "fields");
}

/// Fields as the language contract has them.
fn head(request: &IncomingRequest, out: ResponseOutparam) {
    let all = |name: &str| {
        let values = request.headers().get(&name.to_owned());
        let texts: Vec<_> = values.into_iter().map(|value| String::from_utf8_lossy(&value).into_owned()).collect();
        texts.join(", ")
    };
    let long = all("x-long");
    let fields = [("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-empty", ""), ("x-back", &long)];
    text(out, 201, &fields, &all("x-seen"));
}

/// A part, and another when there is the file `go`.
fn slow(out: ResponseOutparam) {
    let body = begin(out, 200, &[]);
    let stream = body.write().unwrap();
    let _ = write_all(&stream, b"first\n");
    let go = format!("{}/go", std::env::var("WORK").unwrap_or_default());
    while std::fs::metadata(&go).is_err() {
        subscribe_duration(5_000_000).block();
    }
    let _ = write_all(&stream, b"second\n");
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

/// A field behind the body; with the argument `announced` the head says so.
fn trailers(out: ResponseOutparam, argument: &str) {
    let announced = [("trailer", "X-Sum")];
    let body = begin(out, 200, if argument == "announced" { &announced } else { &[] });
    let stream = body.write().unwrap();
    let _ = write_all(&stream, b"whole");
    drop(stream);
    let behind = Fields::new();
    behind.append("X-Sum", b"5").unwrap();
    OutgoingBody::finish(body, Some(behind)).unwrap();
}

/// Fields that a component may not send are refused when it makes them.
fn bad_field(out: ResponseOutparam) {
    let head = Fields::new();
    let mut told = String::new();
    for (name, value) in [("x-a", "b\r\nx-evil: 1"), ("x a", "b"), ("transfer-encoding", "chunked"), ("connection", "close")] {
        let _ = writeln!(told, "{name}: {:?}", head.append(name, value.as_bytes()).is_err());
    }
    text(out, 200, &[], &told);
}

fn large_field(out: ResponseOutparam, argument: &str) {
    let head = Fields::new();
    let value = vec![b'x'; 1000];
    let mut count = 0;
    while count < number(argument) && head.append("x-large", &value).is_ok() {
        count += 1;
    }
    let response = OutgoingResponse::new(head);
    let body = response.body().unwrap();
    eprintln!("{count} fields of 1000 bytes");
    ResponseOutparam::set(out, Ok(response));
    let _ = OutgoingBody::finish(body, None);
}

fn environment(out: ResponseOutparam) {
    let mut all: Vec<_> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    all.sort();
    text(out, 200, &[], &format!("{all:?} {:?}", std::env::args().collect::<Vec<_>>()));
}

fn print(out: ResponseOutparam) {
    println!("to standard output");
    eprint!("to standard ");
    eprint!("error\n");
    std::io::stderr().write_all(b"without an end").unwrap();
    text(out, 200, &[], "printed");
}

/// So many pieces, each when the client has had time to see the one before.
fn pieces(out: ResponseOutparam, argument: &str) {
    let body = begin(out, 200, &[]);
    let stream = body.write().unwrap();
    for index in 0..number(argument) {
        let piece = format!("piece {index}\n");
        if let Err(error) = stream.blocking_write_and_flush(piece.as_bytes()) {
            return eprintln!("the client has gone: {error}");
        }
        subscribe_duration(10_000_000).block();
    }
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

/// More than any client takes.
fn endless(out: ResponseOutparam) {
    let body = begin(out, 200, &[]);
    let stream = body.write().unwrap();
    while stream.blocking_write_and_flush(&[b'x'; 4096]).is_ok() {}
    eprintln!("the endless answer has ended");
}

#[inline(never)]
fn trap(out: ResponseOutparam) {
    if SERVED.get() > 0 {
        panic!("this component fails, told to fail");
    }
    text(out, 200, &[], "");
}

/// An answer of which the client has the beginning when the component goes on.
fn begin_and(out: ResponseOutparam, go_on: impl FnOnce()) {
    let body = begin(out, 200, &[]);
    let stream = body.write().unwrap();
    let _ = stream.blocking_write_and_flush(b"begun\n");
    go_on();
    eprintln!("went on after the wait");
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

fn trap_in_body(out: ResponseOutparam) {
    let body = begin(out, 200, &[]);
    let stream = body.write().unwrap();
    let _ = stream.blocking_write_and_flush(b"half an answer");
    panic!("failed in its answer");
}

#[inline(never)]
fn compute_for_ever() -> ! {
    let mut x = 1_u64;
    loop {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

fn allocate(count: usize) -> String {
    let mut bytes: Vec<u8> = Vec::new();
    match bytes.try_reserve_exact(count) {
        Ok(()) => {
            bytes.resize(count, 1);
            format!("{} bytes", std::hint::black_box(&bytes).len())
        }
        Err(error) => format!("refused: {error}"),
    }
}

/// An answer whose head tells a length that is not its body's.
fn length(out: ResponseOutparam, told: &str, bytes: &[u8]) {
    let body = begin(out, 200, &[("content-length", told)]);
    let stream = body.write().unwrap();
    let written = stream.blocking_write_and_flush(bytes);
    drop(stream);
    let finished = OutgoingBody::finish(body, None);
    eprintln!("{:?} {:?}", written.is_ok(), finished.is_ok());
}

/// `SCHEME://HOST/PATH`: the answer's status and body.
fn fetch(out: ResponseOutparam, url: &str) {
    let told = match try_fetch(url) {
        Ok(told) => told,
        Err(error) => format!("refused: {error}"),
    };
    text(out, 200, &[], &told);
}

fn try_fetch(url: &str) -> Result<String, String> {
    let (scheme, rest) = url.split_once("://").ok_or("no URL")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let request = OutgoingRequest::new(Fields::new());
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    let _ = request.set_method(&Method::Get);
    let _ = request.set_scheme(Some(&scheme));
    let _ = request.set_authority(Some(authority));
    let _ = request.set_path_with_query(Some(&format!("/{path}")));
    let sent = outgoing_handler::handle(request, None).map_err(|error| format!("{error:?}"))?;
    sent.subscribe().block();
    let response = sent.get().ok_or("not ready")?.map_err(|()| "taken")?;
    let response = response.map_err(|error| format!("{error:?}"))?;
    let body = response.consume().map_err(|()| "consumed")?;
    let stream = body.stream().map_err(|()| "taken")?;
    let mut bytes = Vec::new();
    while let Ok(piece) = stream.blocking_read(PIECE) {
        bytes.extend_from_slice(&piece);
    }
    Ok(format!("{} {}", response.status(), String::from_utf8_lossy(&bytes)))
}

fn read(path: &str) -> String {
    let mut text = String::new();
    let opened = std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    opened.map_or_else(|error| format!("refused: {error}"), |_| text)
}

fn write(path: &str) -> String {
    match std::fs::write(path, "written by a component") {
        Ok(()) => "written".to_owned(),
        Err(error) => format!("refused: {error}"),
    }
}

fn connect(address: &str) -> String {
    match std::net::TcpStream::connect(address) {
        Ok(_) => "connected".to_owned(),
        Err(error) => format!("refused: {error}"),
    }
}
