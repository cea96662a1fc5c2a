//! A load of whole, checked requests, for the tests that break something while it runs.
//!
//! Owns its client threads, one blocking connection each. Every request ends in exactly one column of
//! [`Outcome`]: what a person in front of a browser would have seen. `wrk` counts too, but it cannot distinguish a
//! connection closed before the request from one closed in the middle of the answer, and it checks no bodies.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::read_reply;

/// A load: the request, how often it is asked at once, and the right answer.
#[derive(Clone)]
pub struct LoadOptions {
    /// Where the server listens.
    pub address: SocketAddr,
    /// Connections held at once, one thread each.
    pub connections: usize,
    /// The request as it goes over the wire, complete with its blank line and its body.
    pub request: Vec<u8>,
    /// Accepts or refuses an answer of status 200.
    pub expect: fn(&[u8]) -> bool,
    /// Ask again on the same connection, or open a new one for each request.
    pub keep_alive: bool,
    /// Maximum time for one answer before the request counts as hung.
    pub answer_within: Duration,
    /// Time between an answer and the next request of its connection: none where the load is to take all it gets, some where other things
    /// have to come along beside it.
    pub pause: Duration,
}

impl LoadOptions {
    /// `GET target` over `connections` keep-alive connections; any body is right.
    pub fn get(address: SocketAddr, target: &str, connections: usize) -> Self {
        Self {
            address,
            connections,
            request: format!("GET {target} HTTP/1.1\r\nHost: load.test\r\n\r\n").into_bytes(),
            expect: |_| true,
            keep_alive: true,
            answer_within: crate::PATIENCE,
            pause: Duration::ZERO,
        }
    }
}

/// A server that stops gives a kept connection so long for its next request.
const REUSE_WITHIN: Duration = Duration::from_millis(500);

/// The outcome of the requests that were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Answered 200 with the right body.
    pub answered: u64,
    /// Answered with another status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answered 200 with a wrong body that was whole.
    pub wrong_bodies: u64,
    /// The server closed or reset the connection after the request went out, without a byte of an answer, on a
    /// connection that had not been used before: lost for certain.
    pub lost: u64,
    /// The same on a reused connection, which the server may have closed for idleness before it saw the request.
    /// Clients ask again by themselves (RFC 9112 section 9.3.1).
    pub closed_on_reuse: u64,
    /// The same where [`REUSE_WITHIN`] has passed since the request before: a machine under load stops clients, too, and a
    /// server that stops waits no longer for their next request.
    pub closed_after_pause: u64,
    /// The answer was cut short, which its framing shows.
    pub broken: u64,
    /// No answer within the time set.
    pub hung: u64,
    /// Connection refused, or not accepted.
    pub refused: u64,
    /// The longest time an answer of 200 took, in milliseconds.
    pub slowest_ms: u64,
}

impl Outcome {
    /// Requests that did not end as the user wished, refused connections aside.
    pub fn failures(&self) -> u64 {
        self.statuses.values().sum::<u64>()
            + self.wrong_bodies
            + self.lost
            + self.closed_on_reuse
            + self.broken
            + self.hung
    }
}

impl std::ops::AddAssign for Outcome {
    fn add_assign(&mut self, other: Outcome) {
        self.answered += other.answered;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.wrong_bodies += other.wrong_bodies;
        self.lost += other.lost;
        self.closed_on_reuse += other.closed_on_reuse;
        self.closed_after_pause += other.closed_after_pause;
        self.broken += other.broken;
        self.hung += other.hung;
        self.refused += other.refused;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "answered {} · other statuses {:?} · wrong body {} · lost {} · closed on reuse {} · closed after a pause {} · \
             broken {} · hung {} · refused {} · slowest {} ms",
            self.answered,
            self.statuses,
            self.wrong_bodies,
            self.lost,
            self.closed_on_reuse,
            self.closed_after_pause,
            self.broken,
            self.hung,
            self.refused,
            self.slowest_ms
        )
    }
}

/// A load under way. Dropping it stops it.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    answered: AtomicU64,
    outcome: Mutex<Outcome>,
}

impl Load {
    /// Starts the client threads.
    pub fn start(options: &LoadOptions) -> Self {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            outcome: Mutex::new(Outcome::default()),
        });
        let threads = (0..options.connections)
            .map(|_| {
                let shared = Arc::clone(&shared);
                let options = options.clone();
                std::thread::spawn(move || LoadClient::new(&options).run(&shared))
            })
            .collect();
        Self { shared, threads }
    }

    /// Right answers so far.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Waits until `count` more right answers have come in; false if none has for as long as `limit`.
    /// The limit is not one of the whole, which would depend on the speed of the machine.
    pub fn wait_for_answers(&self, count: u64, limit: Duration) -> bool {
        let mut last = self.answered();
        let wanted = last + count;
        let mut end = Instant::now() + limit;
        while last < wanted {
            let answered = self.answered();
            if answered > last {
                last = answered;
                end = Instant::now() + limit;
            } else if Instant::now() > end {
                return false;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        true
    }

    /// Lets the requests under way come to their ends and adds everything up.
    pub fn stop(mut self) -> Outcome {
        self.join();
        self.shared
            .outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn join(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.join();
    }
}

/// The outcome of one request.
enum End {
    Answer {
        status: u16,
        right: bool,
        reusable: bool,
    },
    Refused,
    Closed,
    Broken,
    Hung,
}

struct LoadClient<'a> {
    options: &'a LoadOptions,
    stream: Option<TcpStream>,
    uses: u32,
    /// When the latest request was sent. The time of its answer is not known: a client that the machine does not run reads it late.
    asked: Instant,
    /// The time between the last two requests.
    paused: Duration,
    buffer: Vec<u8>,
}

impl<'a> LoadClient<'a> {
    fn new(options: &'a LoadOptions) -> Self {
        Self {
            options,
            stream: None,
            uses: 0,
            asked: Instant::now(),
            paused: Duration::ZERO,
            buffer: Vec::new(),
        }
    }

    fn run(mut self, shared: &Shared) {
        let mut mine = Outcome::default();
        // Once at least, however late this thread runs.
        loop {
            let reused = self.stream.is_some() && self.uses > 0;
            let start = Instant::now();
            let end = self.request();
            let took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut keep = false;
            match end {
                End::Answer {
                    status: 200,
                    right: true,
                    reusable,
                } => {
                    mine.answered += 1;
                    mine.slowest_ms = mine.slowest_ms.max(took_ms);
                    shared.answered.fetch_add(1, Ordering::Relaxed);
                    keep = reusable && self.options.keep_alive;
                }
                End::Answer {
                    status: 200,
                    right: false,
                    ..
                } => mine.wrong_bodies += 1,
                End::Answer {
                    status, reusable, ..
                } => {
                    *mine.statuses.entry(status).or_default() += 1;
                    keep = reusable && self.options.keep_alive;
                }
                End::Refused => {
                    mine.refused += 1;
                    // A port without a listener refuses in microseconds: do not spin on it.
                    std::thread::park_timeout(Duration::from_millis(5));
                }
                End::Closed if reused && self.paused >= REUSE_WITHIN => {
                    mine.closed_after_pause += 1;
                }
                End::Closed if reused => mine.closed_on_reuse += 1,
                End::Closed => mine.lost += 1,
                End::Broken => mine.broken += 1,
                End::Hung => mine.hung += 1,
            }
            if !keep {
                self.stream = None;
            }
            if !self.options.pause.is_zero() {
                std::thread::park_timeout(self.options.pause);
            }
            if shared.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        let mut all = shared
            .outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *all += mine;
    }

    fn request(&mut self) -> End {
        if self.stream.is_none() {
            match self.connect() {
                Ok(stream) => {
                    self.stream = Some(stream);
                    self.uses = 0;
                }
                Err(_) => return End::Refused,
            }
        }
        let Some(stream) = self.stream.as_mut() else {
            return End::Refused;
        };
        self.uses += 1;
        // A write may fail because the server has answered early and closed: the answer decides.
        let _ = stream.write_all(&self.options.request);
        let asked = Instant::now();
        self.paused = asked - std::mem::replace(&mut self.asked, asked);
        self.buffer.clear();
        match read_reply(stream, &mut self.buffer, "GET") {
            Ok(Some(reply)) if reply.is_whole => End::Answer {
                status: reply.status,
                right: (self.options.expect)(&reply.body),
                reusable: reply.keeps_connection(),
            },
            Ok(Some(_)) => End::Broken,
            Ok(None) => End::Closed,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                End::Hung
            }
            Err(_) if self.buffer.is_empty() => End::Closed,
            Err(_) => End::Broken,
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.options.address, crate::PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.options.answer_within))?;
        stream.set_write_timeout(Some(self.options.answer_within))?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// Serves each connection with one of `answers` in turn, then closes it.
    fn serve(answers: &'static [&'static [u8]]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers.iter().cycle() {
                let Ok((mut stream, _)) = listener.accept() else {
                    return;
                };
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(answer);
            }
        });
        address
    }

    fn outcome_of(answers: &'static [&'static [u8]]) -> Outcome {
        let mut options = LoadOptions::get(serve(answers), "/", 1);
        options.expect = |body| body == b"ok";
        let load = Load::start(&options);
        let end = Instant::now() + Duration::from_secs(20);
        while load.shared.answered.load(Ordering::Relaxed) < 3 && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        load.stop()
    }

    #[test]
    fn each_way_to_fail_has_its_column() {
        let outcome = outcome_of(&[
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            b"",
            b"HTTP/1.1 200 OK\r\nConte",
        ]);
        assert!(outcome.answered >= 3, "{outcome}");
        assert!(outcome.wrong_bodies >= 1, "{outcome}");
        assert!(
            outcome.statuses.get(&502).is_some_and(|&count| count >= 1),
            "{outcome}"
        );
        assert!(outcome.lost >= 1, "{outcome}");
        assert!(outcome.broken >= 3, "{outcome}");
    }

    #[test]
    fn a_kept_connection_that_is_closed_counts_by_the_pause_of_its_client() {
        const KEEPS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let mut options = LoadOptions::get(serve(&[KEEPS]), "/", 1);
        options.pause = REUSE_WITHIN;
        let load = Load::start(&options);
        // The server closes each connection after its first response; the second response comes on another one.
        assert!(load.wait_for_answers(2, crate::PATIENCE));
        let outcome = load.stop();
        assert!(outcome.closed_after_pause > 0, "{outcome}");
        assert_eq!(outcome.closed_on_reuse, 0, "{outcome}");
    }

    #[test]
    fn a_closed_port_counts_as_refused_and_not_as_lost() {
        let load = Load::start(&LoadOptions::get(crate::refusing_address(), "/", 2));
        let outcome = load.stop();
        assert!(outcome.refused > 0 && outcome.failures() == 0, "{outcome}");
    }
}
