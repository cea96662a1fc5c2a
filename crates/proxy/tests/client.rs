//! The proxy with a client that is not the server's: without a listener and a connection, and only the upstream's configuration.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::thread;

use tokio::task::LocalSet;
use tutti_config::{ValidationContext as Machine, validate};
use tutti_conn::clock::Millis;
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;
use tutti_http::{FieldLines, MessageLimits, RequestHead, Trailers};
use tutti_log::Level;
use tutti_proxy::{
    AnswerHead, BodyStreamError, BufferLimits, BufferedBody, Cgi, Client, ForwardResult,
    ProxyRequest, RequestBody, Resources, UpstreamDestination, run,
};
use tutti_upstream::ServerGroup;

/// The type of a missing body.
enum NoBody {}

impl RequestBody for NoBody {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<bool, BodyStreamError>> {
        match *self {}
    }
    fn piece(&self) -> &[u8] {
        match *self {}
    }
    fn consume(&mut self, _: usize) {}
    fn trailers(&self) -> Trailers {
        match *self {}
    }
    fn deadline(&self) -> Millis {
        match *self {}
    }
    fn start_clock(&mut self) {}
    fn stop_clock(&mut self) {}
    fn awaits_continue(&self) -> bool {
        match *self {}
    }
}

/// A client that records everything that it is given.
#[derive(Default)]
struct Recorder {
    waiting: String,
    taken: String,
    /// Set if it takes the whole backlog; it sends a message then.
    takes: Option<Sender<()>>,
    log: RefCell<Vec<String>>,
    abandoned: Option<u16>,
}

impl Recorder {
    fn take(&mut self) {
        if let Some(taken) = &self.takes
            && !self.waiting.is_empty()
        {
            self.taken += &std::mem::take(&mut self.waiting);
            let _ = taken.send(());
        }
    }
}

impl Client for Recorder {
    type Body = NoBody;
    type Answer = ();
    type Ending = String;

    fn remote(&self) -> Option<SocketAddr> {
        None
    }
    fn local(&self) -> Option<SocketAddr> {
        None
    }
    fn is_https(&self) -> bool {
        false
    }
    fn log(&self, _: Level, line: &str) {
        self.log.borrow_mut().push(line.to_owned());
    }
    fn log_limited(&self, line: &str) {
        self.log(Level::Error, line);
    }
    fn interim<'f>(&mut self, status: u16, _: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
        self.waiting += &format!("{status}\n");
    }
    fn send_continue(&mut self, body: &mut NoBody) {
        match *body {}
    }
    fn switch<'f>(&mut self, _: impl Iterator<Item = (&'f [u8], &'f [u8])>) {
        self.waiting += "101\n";
    }
    fn begin<'f>(
        &mut self,
        head: &AnswerHead,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) -> Result<(), Gone> {
        self.waiting += &format!("{} {:?}\n", head.status, head.length);
        for (name, value) in fields {
            let (name, value) = (name.escape_ascii(), value.escape_ascii());
            self.waiting += &format!("{name}: {value}\n");
        }
        Ok(())
    }
    fn write<'b>(
        &mut self,
        _: &mut (),
        pieces: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Result<usize, Gone> {
        let length = pieces.clone().map(<[u8]>::len).sum();
        for piece in pieces {
            self.waiting += &piece.escape_ascii().to_string();
        }
        Ok(length)
    }
    fn finish(&mut self, _: &mut (), _: Trailers) -> Result<(), Gone> {
        self.waiting += ".";
        Ok(())
    }
    fn end(&mut self, (): ()) -> String {
        "answered".to_owned()
    }
    fn break_off(&mut self, _: &()) {}
    fn abandon(&mut self, status: u16, _: Option<u32>) {
        self.abandoned = Some(status);
    }
    fn fail(&mut self, status: u16, _: &FieldLines, _: bool) -> String {
        format!("failed {status}")
    }
    fn refuse(&mut self, status: u16) -> String {
        format!("refused {status}")
    }
    fn discard(&mut self) {
        self.waiting.clear();
    }
    fn unsent(&self) -> u64 {
        self.waiting.len() as u64
    }
    fn allowance(&self, most: usize) -> usize {
        most
    }
    fn deliver(&mut self, _: &mut Context<'_>) -> Result<Millis, Gone> {
        self.take();
        Ok(NEVER)
    }
    fn wake_at(&self, _: Millis) {}
    fn try_send(&mut self) -> Result<bool, Gone> {
        self.take();
        Ok(self.waiting.is_empty())
    }
    fn poll_room(
        &mut self,
        _: &mut Context<'_>,
        _: BufferLimits,
        _: Millis,
    ) -> Poll<Result<(), Gone>> {
        Poll::Ready(Ok(()))
    }
    async fn flush(&mut self) -> Result<(), Gone> {
        self.take();
        Ok(())
    }
}

/// A server that reads a request, sends `answer`, and closes the connection when `close` receives a message, or at once. Returns the
/// request.
fn server(answer: &'static str, close: Option<Receiver<()>>) -> (SocketAddr, Receiver<Vec<u8>>) {
    server_with_rest(answer, close, "")
}

/// The same for a server that sends `rest` before it closes.
fn server_with_rest(
    answer: &'static str,
    close: Option<Receiver<()>>,
    rest: &'static str,
) -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, heard) = channel();
    thread::spawn(move || {
        let (mut stream, _): (TcpStream, _) = listener.accept().unwrap();
        let mut request = vec![0; 64 * 1024];
        let count = stream.read(&mut request).unwrap();
        request.truncate(count);
        stream.write_all(answer.as_bytes()).unwrap();
        if let Some(close) = close {
            let _ = close.recv();
        }
        stream.write_all(rest.as_bytes()).unwrap();
        sender.send(request).unwrap();
    });
    (address, heard)
}

/// Sends `GET /a` to the upstream.
fn get(client: &mut Recorder, upstream: &str) -> Result<String, Gone> {
    let json = format!(r#"{{"upstreams": {{"u": {upstream}}}}}"#);
    let document = tutti_config::parse(json.as_bytes()).unwrap();
    let config = validate(&document, &Machine::default()).unwrap();
    let destination = UpstreamDestination {
        upstream: Arc::new(ServerGroup::new(&config.upstreams["u"], None, None)),
        key: Vec::new(),
        cookie: None,
        cgi: Cgi::default(),
        body: None,
        method: None,
    };
    let text = b"GET /a HTTP/1.1\r\nHost: b\r\nConnection: x\r\nX: y\r\n\r\n";
    let mut head = RequestHead::new();
    head.parse(text, &MessageLimits::default()).unwrap();
    let request = ProxyRequest {
        view: head.view(text),
        destination: &destination,
        path: head.view(text).request_path(),
        edits: &[],
        body: BufferedBody::None,
        user: b"",
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let resources = Rc::new(Resources::new(Rc::default()));
    let answered = run(request, client, None, &resources);
    let (outcome, rest) = LocalSet::new().block_on(&runtime, answered)?;
    assert!(rest.is_none());
    match outcome {
        ForwardResult::Answered(ending) => Ok(ending),
        ForwardResult::Tunnel(_) => Ok("tunnel".to_owned()),
    }
}

#[test]
fn an_answer_goes_to_the_client_without_the_fields_of_the_servers_connection() {
    let answer = "HTTP/1.1 203 Fine\r\nConnection: close, one\r\nOne: 1\r\nTwo: 2\r\nContent-Length: 2\r\n\r\nok";
    let (address, heard) = server(answer, None);
    let mut client = Recorder::default();
    let ending = get(
        &mut client,
        &format!(r#"{{"servers": {{"{address}": {{}}}}}}"#),
    );
    assert_eq!(ending.unwrap(), "answered");
    assert_eq!(client.waiting, "203 Some(2)\nTwo: 2\nok.");
    let heard = String::from_utf8(heard.recv().unwrap()).unwrap();
    assert!(
        heard.starts_with("GET /a HTTP/1.1\r\nHost: b\r\n"),
        "{heard}"
    );
    assert!(!heard.contains("X: y"), "{heard}");
}

#[test]
fn an_answer_of_cgi_goes_to_the_client_as_one_of_http() {
    let (address, heard) = server("Status: 404 No\r\nTwo: 2\r\n\r\nno", None);
    let mut client = Recorder::default();
    let ending = get(
        &mut client,
        &format!(r#"{{"scgi": {{}}, "servers": {{"{address}": {{}}}}}}"#),
    );
    assert_eq!(ending.unwrap(), "answered");
    assert_eq!(client.waiting, "404 None\nTwo: 2\nno.");
    let heard = heard.recv().unwrap();
    // A field of the client's connection is not forwarded.
    assert!(!heard.windows(8).any(|bytes| bytes == b"\0HTTP_X\0"));
}

#[test]
fn an_answer_that_breaks_off_is_taken_back_from_a_client_that_has_none_of_it() {
    let (address, _heard) = server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", None);
    let mut client = Recorder::default();
    let ending = get(
        &mut client,
        &format!(r#"{{"servers": {{"{address}": {{}}}}}}"#),
    );
    assert_eq!(ending.unwrap(), "failed 502");
    assert_eq!((&*client.waiting, client.abandoned), ("", None));
    assert!(client.log.borrow()[0].contains("in the middle of its answer"));
}

/// The client has taken it, but it is not part of the answer: another server could be asked, and the client can get an error.
#[test]
fn an_interim_answer_is_not_the_beginning_of_the_answer() {
    for (interim, ending) in [
        ("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", ""),
        ("HTTP/1.1 102 Processing\r\n\r\n", "no head"),
    ] {
        let (takes, taken) = channel();
        let (address, _heard) = server_with_rest(interim, Some(taken), ending);
        let mut client = Recorder {
            takes: Some(takes),
            ..Recorder::default()
        };
        let servers = format!(r#"{{"servers": {{"{address}": {{}}}}}}"#);
        assert_eq!(get(&mut client, &servers).unwrap(), "failed 502");
        assert_eq!((&*client.waiting, client.abandoned), ("", None));
        assert!(
            interim.contains(client.taken.trim_end()),
            "{}",
            client.taken
        );
    }
}

#[test]
fn an_answer_that_breaks_off_ends_the_connection_of_a_client_that_has_some_of_it() {
    let (takes, taken) = channel();
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok";
    let (address, _heard) = server(answer, Some(taken));
    let mut client = Recorder {
        takes: Some(takes),
        ..Recorder::default()
    };
    let ending = get(
        &mut client,
        &format!(r#"{{"servers": {{"{address}": {{}}}}}}"#),
    );
    assert_eq!(ending, Err(Gone::Closed));
    assert_eq!(client.abandoned, Some(502));
    assert_eq!(client.taken, "200 Some(9)\nok");
}
