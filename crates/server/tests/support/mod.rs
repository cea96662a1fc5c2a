//! A server in this process on a free port, and a client that sends and reads bytes.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see that this module is only in tests"
)]

pub(crate) mod app;
pub(crate) mod backend;
pub(crate) mod frames;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tutti_config::model::Listener;
use tutti_config::{Context, Diagnostics, validate};
use tutti_pool::{Application, Level, LogSink, Manager, Threads};
use tutti_server::{Options, Server, Surroundings};

/// Longest time anything in these tests may take; reaching it is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Log lines, kept.
#[derive(Default)]
pub(crate) struct Log(pub(crate) Mutex<Vec<String>>);

impl LogSink for Log {
    fn log(&self, level: Level, message: &str) {
        self.0.lock().unwrap().push(format!("{level:?}: {message}"));
    }

    fn output(&self, application: &str, _process: i32, line: &[u8]) {
        self.0
            .lock()
            .unwrap()
            .push(format!("{application}: {}", String::from_utf8_lossy(line)));
    }
}

struct Local<'a>(Option<&'a Manager>);

impl Surroundings for Local<'_> {
    fn bind(&mut self, listener: &Listener) -> io::Result<OwnedFd> {
        // The names in these tests differ in their port only to tell listeners apart; the kernel chooses one that is free.
        if let Some(path) = listener.name.strip_prefix("unix:") {
            let socket = std::os::unix::net::UnixListener::bind(path)?;
            socket.set_nonblocking(true)?;
            return Ok(socket.into());
        }
        let socket = TcpListener::bind(("127.0.0.1", 0))?;
        assert!(listener.name.starts_with("127.0.0.1:") || listener.name.starts_with("*:"));
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }

    fn application(&mut self, name: &str) -> Option<Arc<Application>> {
        self.0.and_then(|manager| manager.application(name))
    }
}

pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
    pub(crate) log: Arc<Log>,
    pub(crate) manager: Option<Manager>,
}

impl Site {
    /// One listener, passing to routes that share `folder`; `settings` is the `settings.http` object.
    pub(crate) fn sharing(http: &str) -> Self {
        Self::new(2, |folder| {
            format!(
                r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {http}}},
                     "routes": [{{"match": {{"uri": "/return/*"}}, "action": {{"return": 200}}}},
                                {{"action": {{"share": "{folder}$uri"}}}}]}}"#
            )
        })
    }

    /// A server with the configuration that `config` makes for its folder.
    pub(crate) fn new(threads: u32, config: impl Fn(&str) -> String) -> Self {
        let threads = Threads::new(threads).unwrap();
        Self::with(threads, Arc::new(Log::default()), None, config)
    }

    /// A server beside a pool.
    pub(crate) fn with(
        threads: Arc<Threads>,
        log: Arc<Log>,
        manager: Option<Manager>,
        config: impl Fn(&str) -> String,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            threads,
            log: log.clone(),
        };
        let server = Server::start(options).unwrap();
        let site = Self {
            server,
            folder,
            log,
            manager,
        };
        site.configure(&config(site.path().to_str().unwrap()))
            .unwrap();
        site
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file below the folder.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn configure(&self, json: &str) -> Result<(), Diagnostics> {
        let document = tutti_config::parse(json.as_bytes())?;
        let config = validate(&document, &Context::with_modules([("php", "8.2.0")]))?;
        let prepared = self
            .server
            .prepare(&config, &mut Local(self.manager.as_ref()))?;
        self.server.commit(prepared);
        Ok(())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.listeners()[0].bound_address().unwrap()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::to(self.address())
    }

    /// Sends `request` on a connection of its own and reads until the server closes it.
    pub(crate) fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut client = self.connect();
        client.send(request);
        client.read_to_end()
    }

    /// GET on a connection of its own.
    pub(crate) fn get(&self, target: &str) -> Response {
        self.request("GET", target, "")
    }

    /// A request with these field lines on a connection of its own.
    pub(crate) fn request(&self, method: &str, target: &str, fields: &str) -> Response {
        let mut client = self.connect();
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"
        ));
        client.response(method)
    }
}

/// A connection to the server.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

/// A response, split.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Nothing more will be sent.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Bytes that have been read and not been asked for.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Reads some bytes, to be kept for what is asked for next.
    pub(crate) fn fill(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 * 1024];
        let read = self.stream.read(&mut bytes)?;
        self.buffer.extend_from_slice(&bytes[..read]);
        Ok(read)
    }

    /// Everything until the server closes.
    pub(crate) fn read_to_end(&mut self) -> String {
        while self.fill().expect("the server closes the connection") > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.buffer)).into_owned()
    }

    /// The next response; `method` decides whether it has a body.
    pub(crate) fn response(&mut self, method: &str) -> Response {
        let end = loop {
            if let Some(end) = self
                .buffer
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                break end + 4;
            }
            assert!(
                self.fill().expect("a response") > 0,
                "closed within a head: {:?}",
                String::from_utf8_lossy(&self.buffer)
            );
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut response = Response {
            status,
            head,
            body: Vec::new(),
        };
        let length = response
            .field("Content-Length")
            .map(|value| value.parse::<usize>().unwrap());
        if method == "HEAD" || matches!(status, 100..=199 | 204 | 304) {
            return response;
        }
        if response.field("Transfer-Encoding") == Some("chunked") {
            response.body = self.chunks().concat();
        } else if response.field("Connection") == Some("close") && length.is_none() {
            while self.fill().expect("a body") > 0 {}
            response.body = std::mem::take(&mut self.buffer);
        }
        if let Some(length) = length {
            while self.buffer.len() < length {
                assert!(self.fill().expect("a body") > 0, "closed within a body");
            }
            response.body = self.buffer.drain(..length).collect();
        }
        response
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let line = self.buffer.drain(..end + 2).collect::<Vec<u8>>();
                return String::from_utf8_lossy(&line).trim_end().to_owned();
            }
            assert!(self.fill().expect("a line") > 0, "closed within a line");
        }
    }

    /// The next chunk of a chunked body; `None` at its end.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line(), 16).unwrap();
        while self.buffer.len() < length + 2 {
            assert!(self.fill().expect("a chunk") > 0, "closed within a chunk");
        }
        let chunk = self.buffer.drain(..length).collect();
        assert_eq!(self.line(), "");
        (length > 0).then_some(chunk)
    }

    fn chunks(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.chunk()).collect()
    }

    /// Only the next head.
    pub(crate) fn head(&mut self) -> Response {
        self.response("HEAD")
    }

    /// Whether the server has closed the connection without sending anything more.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.fill(), Ok(0)) && self.buffer.is_empty()
    }

    /// Whether nothing at all arrives for a moment.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let outcome = self.fill();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        matches!(outcome, Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
    }
}

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

/// Lines of the log that have this in them.
pub(crate) fn logged(site: &Site, part: &str) -> usize {
    let lines = site.log.0.lock().unwrap();
    lines.iter().filter(|line| line.contains(part)).count()
}

pub(crate) fn expect_log(site: &Site, part: &str) {
    wait_until(&format!("`{part}` in the log"), || logged(site, part) > 0);
}

/// An address nobody listens on.
pub(crate) fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
