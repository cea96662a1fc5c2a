//! WebSocket echo: one message under way on each connection, the next when it has come back.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use serde_json::{Value, json};

/// One connection.
struct Talk {
    stream: TcpStream,
    /// Bytes of the echo that have come.
    heard: usize,
    sent_at: Instant,
}

/// Talks on `count` connections for so long; messages a second and how long a round took.
pub(crate) fn run(
    address: SocketAddr,
    path: &str,
    count: usize,
    bytes: usize,
    duration: Duration,
) -> io::Result<Value> {
    let message = frame(bytes);
    // The server's frames are not masked: four bytes fewer.
    let echo = message.len() - 4;
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut talks = Vec::with_capacity(count);
    for number in 0..count as u64 {
        let stream = open(address, path)?;
        epoll::add(&poll, &stream, EventData::new_u64(number), EventFlags::IN)?;
        talks.push(Talk {
            stream,
            heard: 0,
            sent_at: Instant::now(),
        });
    }
    let begin = Instant::now();
    for talk in &mut talks {
        talk.sent_at = Instant::now();
        talk.stream.write_all(&message)?;
    }
    let mut rounds = Vec::new();
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 * 1024];
    while begin.elapsed() < duration {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some(talk) = talks.get_mut(number) else {
                continue;
            };
            let wanted = echo - talk.heard;
            let target = buffer.get_mut(..wanted.min(64 * 1024)).unwrap_or_default();
            match talk.stream.read(target)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => talk.heard += read,
            }
            if talk.heard == echo {
                rounds.push(talk.sent_at.elapsed());
                talk.heard = 0;
                talk.sent_at = Instant::now();
                talk.stream.write_all(&message)?;
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    rounds.sort_unstable();
    let at = |part: usize| {
        let place = rounds.len() * part / 100;
        rounds
            .get(place)
            .map_or(0.0, |round| round.as_secs_f64() * 1e6)
    };
    Ok(json!({
        "messages": rounds.len(),
        "seconds": seconds,
        "rate": rounds.len() as f64 / seconds,
        "median_us": at(50),
        "p99_us": at(99),
    }))
}

/// A text message of so many bytes, masked as a client's must be.
fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x81];
    match bytes {
        0..=125 => frame.push(0x80 | bytes as u8),
        126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(bytes as u16).to_be_bytes());
        }
        _ => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(bytes as u64).to_be_bytes());
        }
    }
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    frame.extend_from_slice(&mask);
    frame.extend((0..bytes).map(|place| b'x' ^ mask[place % 4]));
    frame
}

/// Connects and shakes hands.
fn open(address: SocketAddr, path: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    if head.starts_with(b"HTTP/1.1 101 ") {
        Ok(stream)
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&head)))
    }
}
