//! A language host without a language: a small application in Rust that does what tests ask it to.
//!
//! Paths: `/hello`; `/echo` (the request's body); `/big?n=BYTES` (streamed); `/sleep?ms=N`; `/wait?file=PATH` (until that file is there); `/gone` (until the client has gone); `/status?code=N`; `/head` (the
//! request as the worker sees it); `/pid`; `/note?TEXT` (a line to stdout); `/count` (requests served by this worker); `/grow?mb=N` (memory that is kept); `/env`; `/finish?file=PATH` (answers, then works on
//! until that file is there); `/flush?file=PATH` (two pieces, the second when that file is there); `/trail?announced=1&length=1&file=PATH` (an answer before the one, and fields behind it); `/recycle`; `/crash` (abort); `/panic`; `/hang`; `/exit?code=N`.
//! `/websocket` echoes messages (`?protocol=NAME` is agreed on); `/websocket/orders` does what text messages say.
//! Orders for its start are JSON in the variable `SAMPLE` of its environment: `fail` makes loading fail with that text, `fail_worker` each worker, `fail_while` those that start while that file is there, `fail_once` the one that finds that file, and takes it away, `fail_prototype_while` the prototype; loading waits `load_while` a file is there; a worker waits `start_while` a file is there that does not list its process. Where workers have events, they run
//! event loops.

mod looping;
mod request;
mod websocket;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use request::{GLANCE, PLAIN, file, is_there, milliseconds, number, pause, text, wait, wait_for};
use tutti_worker::{
    Common, Describe, Exchange, Host, Process, Served, Start, StartError, WireRequestView,
};

/// True while the file is there and does not list this process.
fn is_held(path: &str) -> bool {
    let own = std::process::id().to_string();
    std::fs::read_to_string(path).is_ok_and(|listed| listed.lines().all(|pid| pid != own))
}

struct Sample;

struct App {
    served: u64,
    worker: u32,
    fail_worker: Option<String>,
    /// No worker starts while this file is there.
    fail_while: Option<String>,
    /// The worker that takes this file away does not start.
    fail_once: Option<String>,
    /// A worker starts when this file is gone or lists its process.
    start_while: Option<String>,
    held: Vec<Vec<u8>>,
    has_loop: bool,
}

impl Host for Sample {
    type App = App;

    fn describe() -> Describe {
        Describe {
            kind: "sample".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn load(start: &Start, common: &Common) -> Result<App, StartError> {
        let orders = common.environment.get("SAMPLE");
        let orders: serde_json::Value = orders
            .and_then(|orders| serde_json::from_str(orders).ok())
            .unwrap_or_default();
        let text = |key: &str| {
            let value = orders.get(key);
            value.and_then(|value| value.as_str()).map(str::to_owned)
        };
        if let Some(message) = text("fail") {
            eprintln!("sample: cannot go on");
            return Err(StartError::new("loading the sample", message)
                .hint("remove `fail` from the configuration")
                .member("fail"));
        }
        if let Some(path) = text("fail_prototype_while")
            && std::path::Path::new(&path).exists()
        {
            return Err(StartError::new("loading the sample", "not yet"));
        }
        while text("load_while").is_some_and(|path| is_there(&path)) {
            pause(GLANCE);
        }
        Ok(App {
            served: 0,
            worker: u32::MAX,
            fail_worker: text("fail_worker"),
            fail_while: text("fail_while"),
            fail_once: text("fail_once"),
            start_while: text("start_while"),
            held: Vec::new(),
            has_loop: start.worker_events,
        })
    }

    fn worker_started(app: &mut App, worker: u32) -> Result<(), StartError> {
        app.worker = worker;
        while app.start_while.as_deref().is_some_and(is_held) {
            pause(GLANCE);
        }
        let is_taken = |path: &str| std::fs::remove_file(path).is_ok();
        if app.fail_while.as_deref().is_some_and(is_there)
            || app.fail_once.as_deref().is_some_and(is_taken)
        {
            return Err(StartError::new("starting the sample's worker", "not yet"));
        }
        match app.fail_worker.take() {
            Some(message) => {
                eprintln!("sample: cannot go on");
                Err(StartError::new("starting the sample's worker", message))
            }
            None => Ok(()),
        }
    }

    fn process(app: &mut App, process: &mut Process) -> Result<(), StartError> {
        if app.has_loop {
            return looping::run(process);
        }
        if process.threads() == 1 {
            return process.serve_alone(|requests| Self::run(app, requests));
        }
        let first = app.worker;
        process.serve_threads(None, |index, requests| {
            let mut app = App {
                served: 0,
                worker: first + index,
                fail_worker: None,
                fail_while: None,
                fail_once: None,
                start_while: None,
                held: Vec::new(),
                has_loop: false,
            };
            while let Some(mut exchange) = requests.next_request() {
                let then = Self::serve(&mut app, &mut exchange);
                requests.done(exchange, then);
            }
        })
    }

    fn serve(app: &mut App, exchange: &mut Exchange) -> Served {
        app.served += 1;
        let path = exchange.request().path().to_vec();
        match path.as_slice() {
            b"/echo" => echo(exchange),
            b"/big" => big(exchange),
            b"/sleep" => {
                pause(milliseconds(exchange));
                text(exchange, 200, "slept\n");
            }
            b"/wait" => {
                wait(exchange);
                text(exchange, 200, "waited\n");
            }
            b"/gone" => {
                while !exchange.is_client_gone() {
                    pause(GLANCE);
                }
            }
            b"/status" => {
                let code = number(&exchange.request(), "code").unwrap_or(200);
                text(exchange, code as u16, "status\n");
            }
            b"/head" => {
                let seen = head(&exchange.request());
                text(exchange, 200, &seen);
            }
            b"/pid" => text(
                exchange,
                200,
                &format!("{} {}\n", tutti_sys::process::id(), app.worker),
            ),
            b"/note" => {
                // One write of one line: appended whole even by several workers, and before the answer.
                let line = format!("{}\n", String::from_utf8_lossy(exchange.request().query()));
                let written = std::io::stdout().write_all(line.as_bytes());
                let status = if written.is_ok() { 200 } else { 500 };
                text(exchange, status, &line);
            }
            b"/count" => text(exchange, 200, &format!("{}\n", app.served)),
            b"/grow" => {
                let megabytes = number(&exchange.request(), "mb").unwrap_or(0);
                app.held.push(vec![1; (megabytes << 20) as usize]);
                pause(milliseconds(exchange));
                text(exchange, 200, "grown\n");
            }
            b"/env" => {
                let all: Vec<_> = std::env::vars()
                    .map(|(name, value)| format!("{name}={value}\n"))
                    .collect();
                text(exchange, 200, &all.concat());
            }
            b"/finish" => {
                let path = file(exchange);
                text(exchange, 200, "finished early\n");
                wait_for(path.as_deref());
            }
            b"/flush" => flush(exchange),
            b"/trail" => trail(exchange),
            b"/linger" => linger(exchange),
            b"/recycle" => {
                text(exchange, 200, "recycled\n");
                return Served::Recycle;
            }
            b"/crash" => std::process::abort(),
            b"/half" => half(exchange),
            #[allow(clippy::panic, reason = "that is what the path is for")]
            b"/panic" => panic!("asked to panic"),
            b"/hang" => loop {
                pause(Duration::from_secs(1));
            },
            #[allow(clippy::disallowed_methods, reason = "user code does such things")]
            b"/exit" => {
                let code = number(&exchange.request(), "code").unwrap_or(0);
                std::process::exit(code as i32)
            }
            b"/websocket" | b"/websocket/orders" => {
                websocket::serve(exchange, path.ends_with(b"orders"));
            }
            _ => text(exchange, 200, "Hello from a worker\n"),
        }
        Served::Again
    }
}

fn echo(exchange: &mut Exchange) {
    let field = |name| exchange.request().field(name).map(<[u8]>::to_vec);
    let kind = field(b"content-type").unwrap_or_else(|| b"application/octet-stream".to_vec());
    let encoding = field(b"content-encoding");
    let fields = [
        Some((&b"Content-Type"[..], &*kind)),
        encoding
            .as_deref()
            .map(|encoding| (&b"Content-Encoding"[..], encoding)),
    ];
    let fields = fields.into_iter().flatten();
    if exchange.start(200, fields).is_err() {
        return;
    }
    let mut piece = vec![0; 32 * 1024];
    loop {
        match exchange.body_read(&mut piece) {
            Ok(0) => return exchange.finish(),
            Ok(count) => {
                if exchange
                    .write(piece.get(..count).unwrap_or_default())
                    .is_err()
                {
                    return exchange.abort();
                }
            }
            Err(error) => {
                eprintln!("reading the body: {error}");
                return exchange.abort();
            }
        }
    }
}

/// Lines of 64 bytes, numbered, so that a piece lost or doubled shows.
fn big(exchange: &mut Exchange) {
    let mut left = number(&exchange.request(), "n").unwrap_or(1 << 20);
    if exchange.start(200, [PLAIN]).is_err() {
        return;
    }
    let mut line = 0u64;
    while left > 0 {
        let text = format!("{line:063}\n");
        let count = left.min(64) as usize;
        if exchange
            .write(text.as_bytes().get(..count).unwrap_or_default())
            .is_err()
        {
            return exchange.abort();
        }
        left -= count as u64;
        line += 1;
    }
    exchange.finish();
}

/// Sends the whole answer, and ends it after a pause.
fn linger(exchange: &mut Exchange) {
    let longer = milliseconds(exchange);
    let fields = [PLAIN, (&b"Content-Length"[..], &b"4"[..])];
    if exchange.start(200, fields).is_err() || exchange.write(b"all\n").is_err() {
        return exchange.abort();
    }
    exchange.flush();
    pause(longer);
    exchange.finish();
}

/// Dies in the middle of an answer, before any completion was sent.
fn half(exchange: &mut Exchange) {
    pause(milliseconds(exchange));
    let _ = exchange.start(200, [PLAIN]);
    let _ = exchange.write(b"half of it\n");
    std::process::abort();
}

fn flush(exchange: &mut Exchange) {
    if exchange.start(200, [PLAIN]).is_err() || exchange.write(b"first\n").is_err() {
        return exchange.abort();
    }
    exchange.flush();
    wait(exchange);
    if exchange.write(b"second\n").is_err() {
        return exchange.abort();
    }
    exchange.finish();
}

/// Sends an interim answer, and fields behind the body, with some that no client may get there: the head names the latter if `announced` is set, and
/// declares the body's length with `length`; where there is a `file`, the end comes when that is there.
fn trail(exchange: &mut Exchange) {
    let hints: [(&[u8], &[u8]); 5] = [
        (b"Link", b"</a.css>"),
        (b"Content-Length", b"50"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"close"),
        (b"Trailer", b"X-Sum"),
    ];
    let behind: [(&[u8], &[u8]); 5] = [
        (b"X-Sum", b"1"),
        (b"Set-Cookie", b"a=1"),
        (b"Content-Length", b"50"),
        (b"Authorization", b"x"),
        (b"X-End", b"z"),
    ];
    let asked = |name| number(&exchange.request(), name);
    let announced = asked("announced").map(|_| (&b"Trailer"[..], &b"X-Sum, X-End"[..]));
    let length = asked("length").map(|length| length.to_string());
    let length = length
        .as_ref()
        .map(|text| (&b"Content-Length"[..], text.as_bytes()));
    let fields: Vec<_> = announced.into_iter().chain(length).collect();
    let _ = exchange.interim(103, hints);
    if exchange.start(200, fields).is_err() || exchange.write(b"body").is_err() {
        return exchange.abort();
    }
    if file(exchange).is_some() {
        exchange.flush();
        wait(exchange);
    }
    match exchange.trailers(behind) {
        Ok(()) => exchange.finish(),
        Err(_) => exchange.abort(),
    }
}

fn head(request: &WireRequestView<'_>) -> String {
    let mut seen = String::new();
    let mut line = |name: &str, value: &[u8]| {
        let _ = writeln!(seen, "{name}: {}", String::from_utf8_lossy(value));
    };
    line("method", request.method());
    line("target", request.target());
    line("path", request.path());
    line("query", request.query());
    line("version", request.version_minor().to_string().as_bytes());
    line("tls", request.tls().to_string().as_bytes());
    line("scheme", request.scheme());
    line("remote", request.remote_address());
    line("remote_port", request.remote_port().to_string().as_bytes());
    line("local", request.local_address());
    line("local_port", request.local_port().to_string().as_bytes());
    line("server_name", request.server_name());
    line("target_name", request.target_name());
    line("user", request.user());
    line(
        "content_length",
        format!("{:?}", request.content_length()).as_bytes(),
    );
    for (name, value) in request.fields() {
        line(&format!("field {}", String::from_utf8_lossy(name)), value);
    }
    seen
}

fn main() -> ExitCode {
    tutti_worker::main::<Sample>()
}
