//! A server for the proxy tests: each connection runs the test's script, byte by byte.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use tutti_testkit::PATIENCE;

/// Serves a connection.
type Script = dyn Fn(&mut Peer) + Send + Sync;

pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    connections: AtomicUsize,
    requests: Mutex<Vec<String>>,
    has_ended: AtomicBool,
}

/// A connection of the server.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
    /// The number of earlier connections.
    pub(crate) number: usize,
    state: Arc<State>,
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(crate) fn fields(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1);
        lines
            .filter_map(|line| {
                let (found, value) = line.split_once(": ")?;
                found.eq_ignore_ascii_case(name).then_some(value)
            })
            .collect()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields(name).first().copied()
    }
}

impl Backend {
    /// Serves each connection in a thread of its own.
    pub(crate) fn new(script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    /// The same on a listening socket.
    pub(crate) fn on(
        listener: TcpListener,
        script: impl Fn(&mut Peer) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let script: Arc<Script> = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { return };
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut peer = Peer {
                    stream,
                    buffer: Vec::new(),
                    number: shared.connections.fetch_add(1, Ordering::SeqCst),
                    state: Arc::clone(&shared),
                };
                let script = Arc::clone(&script);
                std::thread::spawn(move || script(&mut peer));
            }
        });
        Self { address, state }
    }

    /// Sends these bytes in response to every request of every connection.
    pub(crate) fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |peer| {
            while peer.request().is_some() {
                peer.send(&answer);
            }
        })
    }

    /// Responds to each request with this body when the sender has sent for it.
    pub(crate) fn gated(body: &'static [u8]) -> (mpsc::Sender<()>, Self) {
        let (go, wait) = mpsc::channel();
        let wait = Mutex::new(wait);
        let backend = Self::new(move |peer| {
            while peer.request().is_some() {
                wait.lock().unwrap().recv().unwrap();
                peer.answer(body);
            }
        });
        (go, backend)
    }

    /// Responds to every request with a body that describes the request.
    pub(crate) fn echoing(name: &'static str) -> Self {
        Self::echoing_on(TcpListener::bind("127.0.0.1:0").unwrap(), name)
    }

    /// The same on a listening socket.
    pub(crate) fn echoing_on(listener: TcpListener, name: &'static str) -> Self {
        Self::on(listener, move |peer| {
            while let Some(asked) = peer.request() {
                let body = format!("{name} {}", asked.line());
                peer.answer(body.as_bytes());
            }
        })
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// The received request lines, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap().clone()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

impl Peer {
    fn fill(&mut self) -> Option<usize> {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                Some(count)
            }
        }
    }

    /// The next request; `None` at the end of the connection.
    pub(crate) fn request(&mut self) -> Option<ReceivedRequest> {
        let head = self.request_head()?;
        let mut asked = ReceivedRequest {
            head,
            body: Vec::new(),
        };
        if asked.field("Transfer-Encoding") == Some("chunked") {
            loop {
                let line = self.line()?;
                let length = usize::from_str_radix(&line, 16).unwrap();
                let chunk = self.bytes(length)?;
                asked.body.extend_from_slice(&chunk);
                assert_eq!(self.line()?, "");
                if length == 0 {
                    break;
                }
            }
        } else if let Some(length) = asked.field("Content-Length") {
            let length = length.parse().unwrap();
            asked.body = self.bytes(length)?;
        }
        Some(asked)
    }

    /// Only its head.
    pub(crate) fn request_head(&mut self) -> Option<String> {
        let end = loop {
            let mut windows = self.buffer.windows(4);
            if let Some(end) = windows.position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.fill()?;
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let line = head.lines().next().unwrap_or_default().to_owned();
        self.state.requests.lock().unwrap().push(line);
        Some(head)
    }

    /// The next line, without its end.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            self.fill()?;
        }
    }

    /// This number of bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < count {
            self.fill()?;
        }
        Some(self.buffer.drain(..count).collect())
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A client that does not read it has closed.
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// 200 with this body.
    pub(crate) fn answer(&mut self, body: &[u8]) {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        self.send([head.as_bytes(), body].concat());
    }

    /// Waits until the other side has closed.
    pub(crate) fn wait_closed(&mut self) {
        while self.fill().is_some() {}
    }

    pub(crate) fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes so that the other side gets a reset.
    pub(crate) fn reset(&mut self) {
        socket2::SockRef::from(&self.stream)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
