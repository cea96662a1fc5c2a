//! The socket and the clock. This crate's tests replace them by a network in memory and a clock of their own.

#[cfg(not(test))]
mod real {
    pub(crate) use tutti_conn::clock::now_millis;
    pub(crate) use tutti_conn::udp::UdpSocket;

    /// Returns the current time for QUIC.
    pub(crate) fn now() -> std::time::Instant {
        std::time::Instant::now()
    }
}

#[cfg(not(test))]
pub(crate) use real::{UdpSocket, now, now_millis};

#[cfg(test)]
pub(crate) use crate::tests::network::{UdpSocket, now, now_millis};
