//! A name server of its own for each test: it answers on loopback what the test says, and something else when the test
//! says so.
//!
//! It speaks RFC 1035 over UDP and TCP, as far as tests need it. An answer that is too long for UDP is cut there, as name servers do; TCP
//! gives all of it.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// An answer to a question.
#[derive(Clone, Debug)]
pub enum DnsAnswer {
    /// Those of these records that are of the type that is asked for.
    Records(Vec<Record>),
    /// The same, and addresses of other names that go along unasked.
    WithAddresses(Vec<Record>, Vec<(String, IpAddr)>),
    /// No such name.
    Nothing,
    /// It cannot say.
    Failure,
    /// It does not want to say.
    Refused,
    /// Something that is no answer: a record that ends before its time.
    Garbage,
}

/// A record of a name.
#[derive(Clone, Debug)]
pub enum Record {
    /// A or AAAA.
    Address(IpAddr),
    /// SRV (RFC 2782).
    Service {
        /// The lower ones come first.
        priority: u16,
        /// The share among those of one priority.
        weight: u16,
        /// Where the target listens.
        port: u16,
        /// A name, or `.`.
        target: String,
    },
}

impl Record {
    /// A record of a service.
    pub fn service(priority: u16, weight: u16, port: u16, target: &str) -> Self {
        Record::Service {
            priority,
            weight,
            port,
            target: target.to_owned(),
        }
    }
}

impl DnsAnswer {
    /// These addresses.
    pub fn addresses(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        DnsAnswer::Records(addresses.into_iter().map(Record::Address).collect())
    }
}

/// The name server. It ends with the test program.
pub struct NameServer {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    socket: Arc<UdpSocket>,
}

struct State {
    /// For all names that are not in `names`.
    otherwise: DnsAnswer,
    names: HashMap<String, DnsAnswer>,
    asked: Vec<String>,
    /// Questions over TCP.
    over_tcp: usize,
    /// Nothing is answered over TCP.
    is_deaf: bool,
    /// Answers that wait until they are released; `None`: they are sent at once.
    held: Option<Vec<(Vec<u8>, SocketAddr)>>,
}

impl NameServer {
    /// One with the same answer for every name.
    #[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    pub fn new(answer: DnsAnswer) -> Self {
        let (socket, listener) = sockets();
        let address = socket.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            otherwise: answer,
            names: HashMap::new(),
            asked: Vec::new(),
            over_tcp: 0,
            is_deaf: false,
            held: None,
        }));
        let shared = Arc::clone(&state);
        let socket = Arc::new(socket);
        let receiving = Arc::clone(&socket);
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((count, peer)) = receiving.recv_from(&mut buffer) {
                let asked = buffer.get(..count).unwrap_or_default();
                if let Some(reply) = reply(asked, &shared).and_then(|reply| cut(asked, reply)) {
                    let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    match &mut state.held {
                        Some(held) => held.push((reply, peer)),
                        // The client may be gone.
                        None => drop(receiving.send_to(&reply, peer)),
                    }
                }
            }
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || answer_over_tcp(stream, &shared));
            }
        });
        Self {
            address,
            state,
            socket,
        }
    }

    /// Gives every name this answer from now on.
    pub fn set_all_answers(&self, answer: DnsAnswer) {
        let mut state = self.state();
        state.names.clear();
        state.otherwise = answer;
    }

    /// Gives this name this answer from now on.
    pub fn set_answer(&self, name: &str, answer: DnsAnswer) {
        self.state().names.insert(name.to_ascii_lowercase(), answer);
    }

    /// From now on answers over UDP wait until they are released.
    pub fn hold(&self) {
        self.state().held = Some(Vec::new());
    }

    /// Sends the answers that wait, and the next ones at once.
    pub fn release(&self) {
        for (reply, peer) in self.state().held.take().into_iter().flatten() {
            // The client may be gone.
            let _ = self.socket.send_to(&reply, peer);
        }
    }

    /// Returns the number of questions for a name, for records of any type.
    pub fn query_count(&self, name: &str) -> usize {
        self.state().asked.iter().filter(|one| *one == name).count()
    }

    /// Returns the number of questions that have come over TCP.
    pub fn tcp_query_count(&self) -> usize {
        self.state().over_tcp
    }

    /// From now on nothing is answered over TCP; or it is again.
    pub fn is_deaf_over_tcp(&self, is_deaf: bool) {
        self.state().is_deaf = is_deaf;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of each kind, at one port.
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(listener) = TcpListener::bind(socket.local_addr().unwrap()) {
            return (socket, listener);
        }
    }
}

/// Each message has its length before it (RFC 1035 §4.2.2).
fn answer_over_tcp(mut stream: TcpStream, state: &Mutex<State>) {
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut asked = vec![0; u16::from_be_bytes(length).into()];
        if stream.read_exact(&mut asked).is_err() {
            return;
        }
        {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.over_tcp += 1;
            if state.is_deaf {
                return;
            }
        }
        let Some(reply) = reply(&asked, state) else {
            return;
        };
        let length = u16::try_from(reply.len()).unwrap_or(u16::MAX);
        let mut message = length.to_be_bytes().to_vec();
        message.extend(reply);
        if stream.write_all(&message).is_err() {
            return;
        }
    }
}

/// The longest answer over UDP for a client that names no other length (RFC 1035 §4.2.1).
const LONGEST: usize = 512;

/// The answer as it fits into a datagram: where it does not, without records, and with the bit that says so.
fn cut(asked: &[u8], mut reply: Vec<u8>) -> Option<Vec<u8>> {
    let question = question_length(asked)?;
    // Behind the question, a record of the type OPT says how much the client can take (RFC 6891 §6.1.2).
    let longest = match asked.get(12 + question..)? {
        [0, 0, 41, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])).max(LONGEST),
        _ => LONGEST,
    };
    if reply.len() > longest {
        reply.truncate(12 + question);
        *reply.get_mut(2)? |= 0x02;
        reply.get_mut(6..12)?.fill(0);
    }
    Some(reply)
}

/// The length of a question: labels up to an empty one, type, class.
fn question_length(asked: &[u8]) -> Option<usize> {
    let length = asked.get(12..)?.iter().position(|byte| *byte == 0)?;
    Some(length + 5)
}

/// Types of records (RFC 1035 §3.2.2, RFC 3596, RFC 2782).
const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;

fn reply(asked: &[u8], state: &Mutex<State>) -> Option<Vec<u8>> {
    let length = question_length(asked)?;
    let question = asked.get(12..12 + length)?;
    let name = name_of(question)?;
    let kind = u16::from_be_bytes([*question.get(length - 4)?, *question.get(length - 3)?]);
    let answer = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.asked.push(name.clone());
        state.names.get(&name).unwrap_or(&state.otherwise).clone()
    };
    let is_garbage = matches!(answer, DnsAnswer::Garbage);
    let (code, records, addresses) = match answer {
        DnsAnswer::Records(records) => (0, records, Vec::new()),
        DnsAnswer::WithAddresses(records, addresses) => (0, records, addresses),
        DnsAnswer::Garbage => (0, Vec::new(), Vec::new()),
        DnsAnswer::Failure => (2, Vec::new(), Vec::new()),
        DnsAnswer::Nothing => (3, Vec::new(), Vec::new()),
        DnsAnswer::Refused => (5, Vec::new(), Vec::new()),
    };
    // A pointer to the question's name.
    let records: Vec<Vec<u8>> = records
        .iter()
        .filter_map(|record| encoded(&[0xc0, 12], record, Some(kind)))
        .collect();
    let addresses: Vec<Vec<u8>> = addresses
        .iter()
        .filter_map(|(name, address)| encoded(&labels(name), &Record::Address(*address), None))
        .collect();
    let mut reply = asked.get(..2)?.to_vec();
    reply.extend_from_slice(&[0x81, 0x80 | code, 0, 1]);
    let answers = if is_garbage { 1 } else { records.len() };
    reply.extend_from_slice(&u16::try_from(answers).ok()?.to_be_bytes());
    reply.extend_from_slice(&[0, 0]);
    reply.extend_from_slice(&u16::try_from(addresses.len()).ok()?.to_be_bytes());
    reply.extend_from_slice(question);
    if is_garbage {
        // It says that 200 bytes follow, and 3 do.
        reply.extend_from_slice(&[0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 9, 0, 200, 1, 2, 3]);
    }
    reply.extend(records.into_iter().chain(addresses).flatten());
    Some(reply)
}

/// One record, which lives for 0 seconds; `None`: it is of another type than `wanted`.
fn encoded(name: &[u8], record: &Record, wanted: Option<u16>) -> Option<Vec<u8>> {
    let (kind, data) = match record {
        Record::Address(IpAddr::V4(address)) => (A, address.octets().to_vec()),
        Record::Address(IpAddr::V6(address)) => (AAAA, address.octets().to_vec()),
        Record::Service {
            priority,
            weight,
            port,
            target,
        } => {
            let numbers = [priority, weight, port];
            let mut data: Vec<u8> = numbers.iter().flat_map(|one| one.to_be_bytes()).collect();
            data.extend(labels(target));
            (SRV, data)
        }
    };
    if wanted.is_some_and(|wanted| wanted != kind) {
        return None;
    }
    let mut bytes = name.to_vec();
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
    bytes.extend_from_slice(&u16::try_from(data.len()).ok()?.to_be_bytes());
    bytes.extend(data);
    Some(bytes)
}

/// A name as it is sent.
fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(u8::try_from(label.len()).unwrap_or(63));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A name as it is written, in small letters.
fn name_of(mut bytes: &[u8]) -> Option<String> {
    let mut labels = Vec::new();
    while let [length, rest @ ..] = bytes {
        if *length == 0 {
            break;
        }
        let (label, rest) = rest.split_at_checked((*length).into())?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        bytes = rest;
    }
    Some(labels.join("."))
}
