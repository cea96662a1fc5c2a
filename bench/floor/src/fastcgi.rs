//! The floor of a server in front of FastCGI: each request becomes the same canned one on a kept connection, each answer, once its end
//! has come, the same canned one, made of the first. Nothing is parsed or copied, so what a peer takes more than this is its own, and what this takes is the
//! FastCGI server's and the kernel's.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};
use tutti_gateway::cgi::{CgiRequest, ScriptLocation, variables};
use tutti_gateway::fastcgi::{ONLY_REQUEST, RecordDecoder, RecordEvent, RequestWriter, stdin_end};

use crate::sockets::{LISTENER, accept, listen, wait};

/// Tokens of connections to the server behind; those of clients use their slot number.
const BEHIND: u64 = 1 << 32;

/// A kept connection to the server behind.
struct Kept {
    socket: OwnedFd,
    decoder: RecordDecoder,
    /// The client it works for.
    client: Option<usize>,
}

/// Serves `script`, on so many connections to `socket`.
pub(crate) fn serve(
    address: SocketAddr,
    socket: &Path,
    script: &Path,
    connections: usize,
) -> io::Result<()> {
    let listener = listen(address)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let watch = |fd: &dyn rustix::fd::AsFd, token| {
        epoll::add(
            &poll,
            fd.as_fd(),
            epoll::EventData::new_u64(token),
            epoll::EventFlags::IN,
        )
    };
    watch(&listener, LISTENER)?;
    let mut kept = Vec::new();
    for number in 0..connections {
        let behind = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::net::connect(&behind, &SocketAddrUnix::new(socket)?)?;
        watch(&behind, BEHIND + number as u64)?;
        kept.push(Kept {
            socket: behind,
            decoder: RecordDecoder::new(),
            client: None,
        });
    }
    let request = request(script)?;
    let mut buffer = vec![0_u8; 64 * 1024];
    let canned = match kept.first_mut() {
        Some(first) => learn(first, &request, &mut buffer)?,
        None => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut clients: Vec<Option<OwnedFd>> = Vec::new();
    let mut vacant: Vec<usize> = Vec::new();
    let mut waiting: VecDeque<usize> = VecDeque::new();
    let mut events = Vec::with_capacity(512);
    loop {
        wait(&poll, &mut events)?;
        for event in &events {
            let token = event.data.u64();
            if token == LISTENER {
                accept(&poll, &listener, &mut clients, &mut vacant)?;
            } else if let Some(number) = token.checked_sub(BEHIND) {
                let Some(behind) = usize::try_from(number).ok().and_then(|n| kept.get_mut(n))
                else {
                    continue;
                };
                if !has_ended(behind, &mut buffer, |_| {})? {
                    continue;
                }
                if let Some(Some(client)) = behind.client.take().and_then(|at| clients.get(at)) {
                    // One that has gone needs none.
                    let _ = rustix::net::send(client, &canned, SendFlags::NOSIGNAL);
                }
                if let Some(next) = waiting.pop_front() {
                    ask(behind, next, &request)?;
                }
            } else if let Some(at) = usize::try_from(token).ok().filter(|at| *at < clients.len()) {
                let Some(client) = clients.get(at).and_then(Option::as_ref) else {
                    continue;
                };
                match rustix::net::recv(client, &mut *buffer, RecvFlags::empty()) {
                    Err(rustix::io::Errno::AGAIN) => {}
                    Ok((_, 0)) | Err(_) => {
                        if let Some(entry) = clients.get_mut(at) {
                            *entry = None; // closing takes it out of the epoll set
                        }
                        waiting.retain(|waits| *waits != at);
                        vacant.push(at);
                    }
                    Ok(_) => match kept.iter_mut().find(|kept| kept.client.is_none()) {
                        Some(idle) => ask(idle, at, &request)?,
                        None => waiting.push_back(at),
                    },
                }
            }
        }
    }
}

/// The answer to every client: the body that the script gives now.
fn learn(behind: &mut Kept, request: &[u8], buffer: &mut [u8]) -> io::Result<Vec<u8>> {
    rustix::net::send(&behind.socket, request, SendFlags::NOSIGNAL)?;
    let mut given = Vec::new();
    while !has_ended(behind, buffer, |bytes| given.extend_from_slice(bytes))? {}
    let text = String::from_utf8(given).map_err(io::Error::other)?;
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let length = body.len();
    Ok(format!(
        "HTTP/1.1 200 OK\r\nServer: floor\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes())
}

fn ask(behind: &mut Kept, client: usize, request: &[u8]) -> io::Result<()> {
    behind.client = Some(client);
    rustix::net::send(&behind.socket, request, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Reads what has come; whether that is the end of an answer.
fn has_ended(
    behind: &mut Kept,
    buffer: &mut [u8],
    mut output: impl FnMut(&[u8]),
) -> io::Result<bool> {
    let (_, count) = rustix::net::recv(&behind.socket, &mut *buffer, RecvFlags::empty())?;
    let mut input = buffer.get(..count).unwrap_or_default();
    if input.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut is_over = false;
    while let Some(event) = behind.decoder.next(&mut input).map_err(io::Error::other)? {
        match event {
            RecordEvent::Stdout(_, bytes) => output(bytes),
            RecordEvent::End { .. } => is_over = true,
            _ => {}
        }
    }
    Ok(is_over)
}

/// A small request as a script sees it.
fn request(script: &Path) -> io::Result<Vec<u8>> {
    let (root, name) = match (script.parent(), script.file_name()) {
        (Some(root), Some(name)) => (root.as_os_str(), name),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let name = [b"/", name.as_encoded_bytes()].concat();
    let cgi = CgiRequest {
        method: b"GET",
        target: &name,
        query: b"",
        protocol: b"HTTP/1.1",
        is_https: false,
        remote_address: b"127.0.0.1",
        remote_port: 50_000,
        local_address: b"127.0.0.1",
        local_port: 80,
        server_name: b"localhost",
        software: b"floor",
        user: b"",
        content_length: None,
        fields: &[(b"Host", b"localhost")],
    };
    let place = ScriptLocation {
        root: Some(root.as_encoded_bytes()),
        script_name: &name,
        path_info: None,
    };
    let mut out = Vec::new();
    let mut writer = RequestWriter::begin(&mut out, ONLY_REQUEST, true);
    variables(
        &cgi,
        &place,
        |_| false,
        &mut |name: &[u8], value: &[&[u8]]| {
            writer.parameter(name, value);
        },
    );
    writer.finish();
    stdin_end(&mut out, ONLY_REQUEST);
    Ok(out)
}
