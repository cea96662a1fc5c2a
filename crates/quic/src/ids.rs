//! Connection ids: the first two bytes select the socket, two bits of the third its bank, the others are random.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, RandomConnectionIdGenerator};
use tutti_sys::port_group::BANKS;

/// Bytes of an id: three for routing, eight random ones that cannot be guessed.
const BYTES: usize = 11;

/// Makes ids for one of several sockets.
pub(crate) struct Ids {
    random: RandomConnectionIdGenerator,
    socket: u16,
    sockets: u16,
    bank: u8,
}

impl Ids {
    /// For the socket with this number.
    pub(crate) fn new(socket: usize, sockets: usize, bank: u8) -> Self {
        Self {
            random: RandomConnectionIdGenerator::new(BYTES),
            socket: u16::try_from(socket).unwrap_or(0),
            sockets: u16::try_from(sockets).unwrap_or(1).max(1),
            bank: bank % BANKS,
        }
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let random = self.random.generate_cid();
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(random.get(..BYTES).unwrap_or(&[0; BYTES]));
        let [high, low, third, rest @ ..] = bytes;
        let number = number_for_socket(u16::from_be_bytes([high, low]), self.socket, self.sockets);
        let [high, low] = number.to_be_bytes();
        let third = third - third % BANKS + self.bank;
        let mut bytes = [high, low, third].to_vec();
        bytes.extend_from_slice(&rest);
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        BYTES
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

/// Returns a number close to `random` that [`port_group`](tutti_sys::port_group) maps to `socket`.
fn number_for_socket(random: u16, socket: u16, sockets: u16) -> u16 {
    let start = random - random % sockets;
    // The last interval may be incomplete.
    start
        .checked_add(socket)
        .unwrap_or_else(|| start - sockets + socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_to_their_socket() {
        for sockets in [1, 2, 3, 7, 128] {
            for socket in 0..sockets {
                for random in [0, 1, 500, u16::MAX - 1, u16::MAX] {
                    assert_eq!(number_for_socket(random, socket, sockets) % sockets, socket);
                }
                let mut ids = Ids::new(socket.into(), sockets.into(), 2);
                let id = ids.generate_cid();
                assert_eq!(id.len(), ids.cid_len());
                assert_eq!(u16::from_be_bytes([id[0], id[1]]) % sockets, socket);
                assert_eq!(id[2] % BANKS, 2);
                assert_ne!(id, ids.generate_cid());
            }
        }
    }
}
