//! HTTP/2 of a listener.

/// `http2` of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2 {
    /// Requests under way at once on one connection.
    pub max_concurrent_streams: u32,
    /// Bytes that a client may send of one body ahead of what has been taken.
    pub stream_window_size: u32,
    /// Bytes that it may send of all bodies of a connection.
    pub connection_window_size: u32,
}

impl Default for Http2 {
    fn default() -> Self {
        Http2 {
            max_concurrent_streams: 100,
            stream_window_size: 256 * 1024,
            connection_window_size: 1024 * 1024,
        }
    }
}
