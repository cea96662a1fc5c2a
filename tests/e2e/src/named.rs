//! Servers that answer every request with their own name, for tests that ask who got it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use tutti_testkit::{Server, wait_until};

/// One of them. It ends with the test program.
pub struct Named {
    /// Where it listens.
    pub address: SocketAddr,
}

/// So many at one port, at 127.0.0.1 and the addresses behind it, called `1`, `2` and so on.
pub fn at_one_port(count: u8) -> Vec<Named> {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let others = (2..=count).map(|last| {
            let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
            TcpListener::bind((address, port)).ok()
        });
        let Some(others) = others.collect::<Option<Vec<_>>>() else {
            continue;
        };
        let all = std::iter::once(first).chain(others);
        return (1..).zip(all).map(|(name, one)| serve(name, one)).collect();
    }
    panic!("no port is free at {count} addresses");
}

fn serve(name: u8, listener: TcpListener) -> Named {
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(name, stream));
        }
    });
    Named { address }
}

/// Answers requests without a body until the client goes.
fn answer(name: u8, mut stream: TcpStream) {
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(end) = got.windows(4).position(|part| part == b"\r\n\r\n") {
            got.drain(..end + 4);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(count) => got.extend_from_slice(&buffer[..count]),
        }
    }
}

/// The last numbers of the addresses of all servers that the upstream `u` has found.
pub fn servers(server: &Server) -> BTreeSet<u8> {
    let status = server.status("/upstreams/u/servers");
    let servers = status.as_object().unwrap().iter();
    let servers = servers.filter(|(_, server)| server["state"] != "unresolved");
    servers
        .map(|(name, _)| {
            let (_, address) = name.split_once("(127.0.0.").unwrap();
            address.split_once(':').unwrap().0.parse().unwrap()
        })
        .collect()
}

/// Waits until those are the servers of the upstream `u`.
pub fn wait_for(server: &Server, expected: &[u8]) {
    let expected = set(expected);
    wait_until(&format!("the servers {expected:?}"), || {
        servers(server) == expected
    });
}

/// The servers that answer so many requests, in turn.
pub fn answers(server: &Server, count: usize) -> BTreeSet<u8> {
    let one = |_| {
        let reply = server.get("/");
        assert_eq!(reply.status, 200, "{}", server.log());
        reply.text().parse().unwrap()
    };
    (0..count).map(one).collect()
}

/// These numbers.
pub fn set(list: &[u8]) -> BTreeSet<u8> {
    list.iter().copied().collect()
}
