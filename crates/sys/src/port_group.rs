//! UDP sockets that share a port, and the rule by which the kernel gives each datagram of QUIC to one of them.
//!
//! The rule looks at the connection id (RFC 9000 §5.1): its first two bytes modulo the number of sockets are the number of the socket.
//! The server makes its connection ids accordingly; a client's first one is arbitrary, and leads to one socket as well. So the datagrams of
//! a connection come to one thread, also after the client has another address, and to one process, also while another takes over.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use socket2::{Domain, Socket, Type};

use crate::error::context;

/// Bytes of datagrams that the kernel keeps for a socket until its thread takes them. Half of it where the system allows no more
/// (`net.core.rmem_max`).
const QUEUE_BYTES: usize = 2 * 1024 * 1024;

/// Makes `count` sockets at `address`, which the kernel has in this order. `is_own`: sockets of this process hold the port, so that it may be
/// in use.
///
/// # Errors
/// The address cannot be had, or another process shares the port: it would get part of the datagrams.
pub fn bind_group(address: SocketAddr, count: usize, is_own: bool) -> io::Result<Vec<OwnedFd>> {
    if !is_own {
        bind(address, false)?;
    }
    let sockets: io::Result<Vec<OwnedFd>> = (0..count).map(|_| bind(address, true)).collect();
    sockets
}

fn bind(address: SocketAddr, shares: bool) -> io::Result<OwnedFd> {
    let named = |error| context(format!("binding to UDP `{address}`"), error);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None).map_err(named)?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(named)?;
    }
    if shares {
        socket.set_reuse_port(true).map_err(named)?;
    }
    socket.bind(&address.into()).map_err(named)?;
    socket.set_nonblocking(true)?;
    // As much as there is: fewer bytes only mean that a burst is lost, and sent again.
    let _ = socket.set_recv_buffer_size(QUEUE_BYTES);
    let _ = socket.set_send_buffer_size(QUEUE_BYTES);
    Ok(socket.into())
}

/// A group has the sockets of so many generations of the process that reads them: each has a bank of its own.
pub const BANKS: u8 = 4;

/// The way of datagrams to the banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Banks {
    /// The one that gets the first packets of new connections.
    pub current: u8,
    /// Those that a process reads, as bits. Packets of the connections of another one go to `current`, whose process answers them: they would
    /// lie there unread, and their clients would not learn that their connections have ended.
    read: u8,
}

impl Banks {
    /// New connections get `current`; processes read it and these.
    pub fn new(current: u8, read: impl Iterator<Item = u8>) -> Self {
        let current = current % BANKS;
        let read = read.fold(1 << current, |bits, bank| bits | (1 << (bank % BANKS)));
        Self { current, read }
    }

    /// For each bank, two bits with the one that gets its packets.
    fn packed(self) -> u32 {
        let get = |bank: u8| match (self.read >> bank) & 1 {
            0 => self.current,
            _ => bank,
        };
        (0..BANKS).fold(0, |packed, bank| {
            packed | (u32::from(get(bank)) << (2 * bank))
        })
    }
}

/// Sets the rule for the sockets that share the port of this one: [`BANKS`] banks of so many. The third byte of a connection id says the bank.
///
/// # Errors
/// The kernel has no such rules: it goes by addresses then.
pub fn steer(socket: &OwnedFd, count: usize, banks: Banks) -> io::Result<()> {
    let count = u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    let rule = rule(count, banks);
    let program = libc::sock_fprog {
        len: rule.len() as u16,
        filter: rule.as_ptr().cast_mut(),
    };
    // SAFETY: the option takes a `sock_fprog` of this size, whose instructions live until the call has returned and are only read.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(context("steering datagrams", io::Error::last_os_error())),
    }
}

/// In a packet with a long head the id of the receiver is behind flags, version and its own length; in others behind the flags. The id of
/// the first kinds with a long head (Initial, 0-RTT) may be the client's choice, that of a Handshake packet never is (RFC 9000 §17, §7.2).
fn rule(count: u32, banks: Banks) -> [libc::sock_filter; 27] {
    use libc::{
        BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IMM, BPF_JA, BPF_JEQ, BPF_JMP,
        BPF_JSET, BPF_K, BPF_LD, BPF_LDX, BPF_LSH, BPF_MEM, BPF_MISC, BPF_MOD, BPF_MUL, BPF_RET,
        BPF_RSH, BPF_ST, BPF_TAX, BPF_X,
    };
    const LONG_HEAD: u32 = 0x80;
    const KIND: u32 = 0x30;
    const HANDSHAKE: u32 = 0x20;
    const BANK: u32 = BANKS as u32 - 1;
    let one = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let and = |k| one(BPF_ALU | BPF_AND | BPF_K, 0, 0, k);
    let modulo = one(BPF_ALU | BPF_MOD | BPF_K, 0, 0, count);
    let byte = |at| one(BPF_LD | BPF_B | BPF_ABS, 0, 0, at);
    let half = |at| one(BPF_LD | BPF_H | BPF_ABS, 0, 0, at);
    let keep = one(BPF_ST, 0, 0, 0);
    let answer = one(BPF_RET | BPF_A, 0, 0, 0);
    let current = u32::from(banks.current);
    [
        byte(0),
        one(BPF_JMP | BPF_JSET | BPF_K, 0, 11, LONG_HEAD),
        and(KIND),
        one(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, HANDSHAKE),
        // A first packet: the bank of this moment.
        half(6),
        modulo,
        one(BPF_ALU | BPF_ADD | BPF_K, 0, 0, current * count),
        answer,
        // A Handshake packet.
        half(6),
        modulo,
        keep,
        byte(8),
        one(BPF_JMP | BPF_JA, 0, 0, 4),
        // A short head.
        half(1),
        modulo,
        keep,
        byte(3),
        // Both: the two bits of the id's bank.
        and(BANK),
        one(BPF_ALU | BPF_LSH | BPF_K, 0, 0, 1),
        one(BPF_MISC | BPF_TAX, 0, 0, 0),
        one(BPF_LD | BPF_IMM, 0, 0, banks.packed()),
        one(BPF_ALU | BPF_RSH | BPF_X, 0, 0, 0),
        and(BANK),
        one(BPF_ALU | BPF_MUL | BPF_K, 0, 0, count),
        one(BPF_LDX | BPF_MEM, 0, 0, 0),
        one(BPF_ALU | BPF_ADD | BPF_X, 0, 0, 0),
        answer,
    ]
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    /// Banks of so many sockets.
    fn group(count: usize, banks: Banks) -> (Vec<UdpSocket>, SocketAddr) {
        let free = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let sockets = bind_group(free, count * usize::from(BANKS), false).unwrap();
        steer(&sockets[0], count, banks).unwrap();
        let sockets = sockets.into_iter().map(UdpSocket::from);
        let sockets = sockets.inspect(|one| one.set_nonblocking(false).unwrap());
        (sockets.collect(), free)
    }

    #[test]
    fn datagrams_go_where_their_connection_is() {
        let all = (0..BANKS).map(|current| (current, 0..BANKS));
        let first_two = (0..BANKS).map(|current| (current, 0..2));
        for (current, read) in all.chain(first_two) {
            let (sockets, address) = group(3, Banks::new(current, read.clone()));
            for socket in &sockets {
                socket
                    .set_read_timeout(Some(Duration::from_secs(10)))
                    .unwrap();
            }
            for number in 0..24_u8 {
                // Another client each time: the address does not matter.
                let client = UdpSocket::bind("127.0.0.1:0").unwrap();
                let [high, low] = (0x1200 + u16::from(number)).to_be_bytes();
                let id = [high, low, 0xf0 | (number / 3)];
                let short = [&[0x40], &id[..], &[number]].concat();
                let long = |flags| [&[flags, 0, 0, 0, 1, 8], &id[..], &[number]].concat();
                let place = (0x1200 + usize::from(number)) % 3;
                let bank = (number / 3) % BANKS;
                let reads = if read.contains(&bank) { bank } else { current };
                let own = place + 3 * usize::from(reads);
                let new = place + 3 * usize::from(current);
                for (sent, place) in [
                    (short, own),
                    (long(0xe0), own),
                    (long(0xc0), new),
                    (long(0xd0), new),
                ] {
                    client.send_to(&sent, address).unwrap();
                    let mut room = [0; 20];
                    let length = sockets[place].recv(&mut room).unwrap();
                    assert_eq!(&room[..length], sent);
                }
            }
        }
    }

    #[test]
    fn a_port_that_is_taken_is_refused() {
        let (_sockets, address) = group(2, Banks::default());
        let error = bind_group(address, 2, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(bind_group(address, 2, true).is_ok());
    }
}
