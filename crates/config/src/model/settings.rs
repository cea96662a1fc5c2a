//! Settings of the whole server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tutti_script::Modules;

use super::{Compression, Resolver, StoredName, Telemetry};

/// `settings`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Router threads; `None`: as many as there are CPUs to run on.
    pub listen_threads: Option<u32>,
    /// HTTP settings.
    pub http: Http,
    /// How names of upstreams' servers are looked up.
    pub resolver: Resolver,
    /// `js_module`: what templates may use, in the order it is loaded.
    pub js_modules: Vec<StoredName>,
    /// Those modules.
    pub modules: Modules,
    /// `None`: requests are not traced.
    pub telemetry: Option<Telemetry>,
}

/// `settings.http`, with the defaults of Unit's documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Time to receive the whole head (408).
    pub header_read_timeout: Duration,
    /// Time between two reads of a body (408).
    pub body_read_timeout: Duration,
    /// Time between two writes of a response.
    pub send_timeout: Duration,
    /// Time between two requests of a connection.
    pub idle_timeout: Duration,
    /// Time for what has begun when the server goes; zero: any. `None`: see [`Http::STOP_TIME`] and [`Http::UPGRADE_TIME`].
    pub drain_timeout: Option<Duration>,
    /// Largest request body (413).
    pub max_body_size: u64,
    /// Bodies up to this size stay in memory.
    pub body_buffer_size: u64,
    /// Folder for larger bodies; `None`: the server's own.
    pub body_temp_path: Option<PathBuf>,
    /// Bytes of answers on disk for one slow client; 0: none.
    pub response_buffering: u64,
    /// First buffer for a head.
    pub header_buffer_size: usize,
    /// Further buffers for a head that does not fit.
    pub large_header_buffer_size: usize,
    /// How many of those (431).
    pub large_header_buffers: usize,
    /// Drop header fields whose name has other characters than letters, digits and hyphens.
    pub discard_unsafe_fields: bool,
    /// Log which route a request takes.
    pub log_route: bool,
    /// Tell the version in the `Server` field.
    pub server_version: bool,
    /// Accept chunked request bodies (411).
    pub chunked_transform: bool,
    /// Limits of WebSocket connections.
    pub websocket: WebSocket,
    /// `None`: responses are sent as they are.
    pub compression: Option<Compression>,
    /// `static.mime_types`: extensions or file names to types, added to the built-in ones.
    pub mime_types: BTreeMap<String, String>,
}

impl Http {
    /// Time for what has begun at a graceful stop, unless the configuration says another: a service manager, a container's or
    /// a test's, waits 10 to 15 seconds before it kills.
    pub const STOP_TIME: Duration = Duration::from_secs(10);

    /// The same after an upgrade, when nobody waits for the former router: an hour, for downloads.
    pub const UPGRADE_TIME: Duration = Duration::from_secs(3600);
}

impl Default for Http {
    fn default() -> Self {
        Http {
            header_read_timeout: Duration::from_secs(30),
            body_read_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(180),
            drain_timeout: None,
            max_body_size: 8 * 1024 * 1024,
            body_buffer_size: 16 * 1024,
            body_temp_path: None,
            response_buffering: 1 << 30,
            header_buffer_size: 2048,
            large_header_buffer_size: 8192,
            large_header_buffers: 4,
            discard_unsafe_fields: true,
            log_route: false,
            server_version: true,
            chunked_transform: true,
            websocket: WebSocket::default(),
            compression: None,
            mime_types: BTreeMap::new(),
        }
    }
}

/// `settings.http.websocket`.
#[derive(Clone, Debug, PartialEq)]
pub struct WebSocket {
    /// Largest message, in bytes.
    pub max_frame_size: u64,
    /// Time without data after which the connection is closed.
    pub read_timeout: Duration,
    /// Time between two pings; zero: none.
    pub keepalive_interval: Duration,
}

impl Default for WebSocket {
    fn default() -> Self {
        WebSocket {
            max_frame_size: 1024 * 1024,
            read_timeout: Duration::from_secs(60),
            keepalive_interval: Duration::from_secs(30),
        }
    }
}
