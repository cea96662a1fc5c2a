//! The floor: what one request costs when a server does nothing but answer.
//!
//! Each thread has its own listening socket (`SO_REUSEPORT`) and its own epoll. Whatever arrives on a
//! connection is answered with one canned response: nothing is parsed, so a peer that comes close to
//! this program spends its time in the kernel's TCP. `bench/harness` starts it beside the real servers.
//! It answers one response per read and must therefore never be sent pipelined requests.
//!
//! With a FastCGI socket and a script it is the floor of a server in front of one ([`fastcgi`]).
//!
//! usage: `tutti-floor ADDRESS:PORT [THREADS [SOCKET SCRIPT CONNECTIONS]]`

mod fastcgi;
mod sockets;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags};

use crate::sockets::{LISTENER, accept, listen, wait};

/// Shorter than nginx's `return 200` by the `Connection` and `Content-Type` fields.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(Ok(address)) = arguments.next().map(|text| text.parse::<SocketAddr>()) else {
        eprintln!("usage: tutti-floor ADDRESS:PORT [THREADS [SOCKET SCRIPT CONNECTIONS]]");
        return ExitCode::from(2);
    };
    let threads = arguments
        .next()
        .and_then(|text| text.parse::<usize>().ok())
        .unwrap_or(2);
    let behind = match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(socket), Some(script), Some(connections)) => Some((
            PathBuf::from(socket),
            PathBuf::from(script),
            connections.parse().unwrap_or(1),
        )),
        _ => None,
    };
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let behind = behind.clone();
            std::thread::spawn(move || match behind {
                None => serve(address),
                Some((socket, script, connections)) => {
                    fastcgi::serve(address, &socket, &script, connections)
                }
            })
        })
        .collect();
    for handle in handles {
        match handle.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                eprintln!("tutti-floor: {address}: {error}");
                return ExitCode::FAILURE;
            }
            Err(_) => return ExitCode::FAILURE,
        }
    }
    ExitCode::SUCCESS
}

fn serve(address: SocketAddr) -> io::Result<()> {
    let listener = listen(address)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(
        &poll,
        &listener,
        epoll::EventData::new_u64(LISTENER),
        epoll::EventFlags::IN,
    )?;
    let mut connections: Vec<Option<OwnedFd>> = Vec::new();
    let mut vacant: Vec<usize> = Vec::new();
    let mut events = Vec::with_capacity(512);
    let mut buffer = [0_u8; 16 * 1024];
    loop {
        wait(&poll, &mut events)?;
        for event in &events {
            let token = event.data.u64();
            if token == LISTENER {
                accept(&poll, &listener, &mut connections, &mut vacant)?;
                continue;
            }
            let Ok(index) = usize::try_from(token) else {
                continue;
            };
            let Some(entry) = connections.get_mut(index) else {
                continue;
            };
            let Some(connection) = entry.as_ref() else {
                continue;
            };
            if !answer(connection, &mut buffer) {
                *entry = None; // closing takes it out of the epoll set
                vacant.push(index);
            }
        }
    }
}

/// One read, one canned answer; `false` when the connection is over.
fn answer(connection: &OwnedFd, buffer: &mut [u8]) -> bool {
    match rustix::net::recv(connection, &mut *buffer, RecvFlags::empty()) {
        Ok((_, 0)) => false,
        Ok(_) => rustix::net::send(connection, ANSWER, SendFlags::NOSIGNAL) == Ok(ANSWER.len()),
        Err(rustix::io::Errno::AGAIN) => true,
        Err(_) => false,
    }
}
