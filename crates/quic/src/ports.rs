//! The UDP sockets of an HTTP/3 listener, which all threads share, and the limits of its connections.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};
use tutti_config::model::Http3;
use tutti_tls::{Offer, QuicKeys};

/// Unidirectional streams that a client may open: control, two of QPACK, and some reserved ones (RFC 9114 §6.2).
const ONE_WAY_STREAMS: u32 = 8;

/// Response bytes buffered for a connection until the client acknowledges them: the bandwidth-delay product of 100 ms at 80 Mbit/s.
const SEND_WINDOW: u64 = 1024 * 1024;

/// A client that is silent for so long is given up. While it has an open request, it is pinged in time.
const SILENCE: Duration = Duration::from_secs(30);

/// The UDP sockets of an address, and what they share with those of the processes before and after this one.
#[derive(Debug)]
pub struct Datagrams {
    /// Bound, non-blocking, close-on-exec, in the kernel's order.
    pub sockets: Vec<OwnedFd>,
    /// The number of their bank, which connection ids contain.
    pub bank: u8,
    /// The secret from which the keys of tokens and resets are derived.
    pub secret: Vec<u8>,
}

/// Sockets, and the keys for what is sent before a connection exists.
pub struct Ports {
    /// The sockets, in the kernel's order.
    pub sockets: Vec<Arc<OwnedFd>>,
    /// Without limits and certificates: each connection gets those in force when it begins.
    pub(crate) common: Arc<ServerConfig>,
    pub(crate) keys: QuicKeys,
    pub(crate) bank: u8,
}

impl Ports {
    /// `None` if TLS 1.3 is not offered.
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

/// HTTP/3 of a listener in one configuration, which requests may keep: it has no share in the sockets, whose port must become free.
#[derive(Clone)]
pub struct Spoken {
    pub(crate) transport: Arc<TransportConfig>,
    /// The value of `Alt-Svc` for clients of older versions of HTTP.
    pub alt_svc: Option<String>,
}

impl Spoken {
    /// Makes it with these limits and this port.
    pub fn new(options: Http3, port: u16) -> Self {
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(options.max_concurrent_streams))
            .max_concurrent_uni_streams(VarInt::from_u32(ONE_WAY_STREAMS))
            .stream_receive_window(VarInt::from_u32(options.stream_window_size))
            .receive_window(VarInt::from_u32(options.connection_window_size))
            .send_window(SEND_WINDOW)
            .max_idle_timeout(IdleTimeout::try_from(SILENCE).ok())
            .datagram_receive_buffer_size(None)
            // The spin bit would let observers measure the distance of the client.
            .allow_spin(false);
        let max_age = options.alt_svc_max_age;
        Self {
            alt_svc: (max_age > 0).then(|| format!("h3=\":{port}\"; ma={max_age}")),
            transport: Arc::new(transport),
        }
    }
}

/// Returns the limits that a returning client relies on in its first packets (RFC 9000 §7.4.1, RFC 9114 §7.2.4.2): its streams, what it may
/// send, and the `most` bytes of a head.
pub fn promised(options: &Http3, most: usize) -> [u64; 4] {
    [
        options.max_concurrent_streams.into(),
        options.stream_window_size.into(),
        options.connection_window_size.into(),
        most as u64,
    ]
}

/// Time from the last packet until a PING is due while a request is open.
pub(crate) const ASK_AFTER: Duration = Duration::from_secs(SILENCE.as_secs() / 3);
