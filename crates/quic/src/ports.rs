//! The UDP sockets of a listener that speaks HTTP/3, as all threads share them, and the limits of its connections.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};
use tutti_config::model::Http3;
use tutti_tls::{Offer, QuicKeys};

/// Streams in one direction that a client may have: control, two of QPACK, and some that mean nothing (RFC 9114 §6.2).
const ONE_WAY_STREAMS: u32 = 8;

/// Bytes of answers that are kept for a connection until the client has them: what a way of 100 ms takes at 80 Mbit/s.
const SEND_WINDOW: u64 = 1024 * 1024;

/// A client from which nothing comes for so long is gone. While it has a request under way, it is asked (PING) in time.
const SILENCE: Duration = Duration::from_secs(30);

/// The UDP sockets of an address, and what they have in common with those of the processes before and after this one.
#[derive(Debug)]
pub struct Datagrams {
    /// Bound, non-blocking, close-on-exec, in the order that the kernel has them.
    pub sockets: Vec<OwnedFd>,
    /// The bank that they are, which connection ids name.
    pub bank: u8,
    /// The keys of tokens and resets are made of it.
    pub secret: Vec<u8>,
}

/// Sockets, and the keys of what is sent before there is a connection.
pub struct Ports {
    /// The sockets, in the order that the kernel has them.
    pub sockets: Vec<Arc<OwnedFd>>,
    /// Without limits and certificates: each connection gets those of its time.
    pub(crate) common: Arc<ServerConfig>,
    pub(crate) keys: QuicKeys,
    pub(crate) bank: u8,
}

impl Ports {
    /// `None` if the offer has no TLS 1.3.
    pub fn new(datagrams: Datagrams, offer: &Offer) -> Option<Self> {
        let keys = QuicKeys::new(&datagrams.secret);
        let crypto = offer.quic()?.common()?;
        let mut common = ServerConfig::new(crypto, keys.tokens.clone());
        common.migration(true);
        Some(Self {
            sockets: datagrams.sockets.into_iter().map(Arc::new).collect(),
            common: Arc::new(common),
            keys,
            bank: datagrams.bank,
        })
    }
}

/// HTTP/3 of a listener of one configuration.
#[derive(Clone)]
pub struct Spoken {
    /// Its sockets.
    pub ports: Arc<Ports>,
    pub(crate) transport: Arc<TransportConfig>,
    /// The value of `Alt-Svc` for clients of an older HTTP.
    pub alt_svc: Option<String>,
}

impl Spoken {
    /// With these limits, at this port.
    pub fn new(options: Http3, ports: Arc<Ports>, port: u16) -> Self {
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(options.max_concurrent_streams))
            .max_concurrent_uni_streams(VarInt::from_u32(ONE_WAY_STREAMS))
            .stream_receive_window(VarInt::from_u32(options.stream_window_size))
            .receive_window(VarInt::from_u32(options.connection_window_size))
            .send_window(SEND_WINDOW)
            .max_idle_timeout(IdleTimeout::try_from(SILENCE).ok())
            .datagram_receive_buffer_size(None)
            // Others on the way are not to measure how far the client is.
            .allow_spin(false);
        let max_age = options.alt_svc_max_age;
        Self {
            alt_svc: (max_age > 0).then(|| format!("h3=\":{port}\"; ma={max_age}")),
            ports,
            transport: Arc::new(transport),
        }
    }
}

/// Returns what a client that has been here before goes by in its first packets (RFC 9000 §7.4.1, RFC 9114 §7.2.4.2): its streams, what it may send, and
/// the `most` bytes that a head may have.
pub fn promised(options: &Http3, most: usize) -> [u64; 4] {
    [
        options.max_concurrent_streams.into(),
        options.stream_window_size.into(),
        options.connection_window_size.into(),
        most as u64,
    ]
}

/// A PING is due after so long without a word, while a request is under way.
pub(crate) const ASK_AFTER: Duration = Duration::from_secs(SILENCE.as_secs() / 3);
