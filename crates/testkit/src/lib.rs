//! Tests only: servers on temporary folders, clients that send bytes as they are, waiting for conditions, skipping.
//!
//! Used by the tests of every crate. It knows a whole server only from outside: flags, control socket, `/proc`, log. Nothing
//! here may sleep for a fixed time and hope, and nothing may outlive the test that started it. A function that cannot do what it says
//! panics, which fails the test.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

pub mod client;
pub mod edits;
pub mod files;
mod gate;
pub mod guide;
pub mod load;
pub mod names;
pub mod processes;
pub mod program;
pub mod prototype;
pub mod server;
mod site;
mod skip;
pub mod wire;
#[cfg(feature = "workers")]
pub mod workers;

use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use client::{Reply, request};
pub use gate::Gate;
pub use load::{Load, LoadOptions, Outcome};
pub use prototype::Prototype;
pub use server::{Server, ServerOptions};
pub use site::{Site, set_members};
pub use skip::skipped;

/// Longest time that anything in a test may take, on a machine that does other work too. Reaching it is a failure, so it
/// costs nothing where all goes well.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Sets a flag when it is dropped, also by a failed assertion: threads that work until then end, and `thread::scope` does not wait for them
/// without end.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Returns an address of this machine at which connections are refused for as long as the test program runs: its port is taken, by a socket
/// that does not listen. A port that was merely free a moment ago may be taken by another test the next.
pub fn refusing_address() -> SocketAddr {
    let socket = ClosedPort::new();
    let address = socket.address();
    std::mem::forget(socket);
    address
}

/// A port at which connections are refused until [`Self::listen`] is called.
#[derive(Debug)]
pub struct ClosedPort(socket2::Socket);

impl ClosedPort {
    /// Any port of 127.0.0.1.
    pub fn new() -> ClosedPort {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        socket.bind(&any.into()).expect("a free port");
        ClosedPort(socket)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        let address = self.0.local_addr().expect("it is bound");
        address.as_socket().expect("an address of IP")
    }

    /// From now on connections are taken.
    pub fn listen(self) -> TcpListener {
        self.0.listen(128).expect("a socket that listens");
        self.0.into()
    }
}

impl Default for ClosedPort {
    fn default() -> Self {
        Self::new()
    }
}

/// True if this test runs as root.
pub fn is_root() -> bool {
    tutti_sys::credentials::is_root()
}

/// Returns a port of 127.0.0.1 on which no process listens right now, and which no other test program gets as long as this one runs.
pub fn free_port() -> u16 {
    static LEFT: Mutex<Range<u16>> = Mutex::new(0..0);
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        // Each only once.
        if let Some(port) = left.by_ref().find(|port| is_free(*port)) {
            return port;
        }
        *left = claimed_ports();
    }
}

/// True if no process listens at this port of 127.0.0.1.
fn is_free(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    // It never listens: a process that another test forks meanwhile holds it until it executes its program, and would be in the way.
    socket.set_reuse_address(true).expect("an option");
    socket.bind(&address.into()).is_ok()
}

/// Some ports that are this program's until it ends, below those that the kernel hands out (ip_local_port_range), which any process may get
/// before they are used here.
fn claimed_ports() -> Range<u16> {
    const FIRST: u16 = 12_000;
    const EACH: u16 = 100;
    const CLAIMS: u16 = 200;
    // Programs that begin one after the other begin at different places: a port may still be that of a process that is ending.
    let start = std::process::id().wrapping_mul(97);
    let numbers = (0..CLAIMS).map(|number| (start + u32::from(number)) % u32::from(CLAIMS));
    for number in numbers.filter_map(|number| u16::try_from(number).ok()) {
        // The kernel lets one process have this name.
        let name = format!("tutti-test-ports-{number}");
        let name = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a name");
        if let Ok(claim) = UnixDatagram::bind_addr(&name) {
            std::mem::forget(claim);
            let first = FIRST + number * EACH;
            return first..first + EACH;
        }
    }
    panic!("no free ports");
}
