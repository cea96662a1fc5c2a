//! Options of streams: TCP connections that are passed on without being parsed as HTTP.

use tutti_options::table::{Referent, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options};

use super::kinds::{ADDRESSES, CASELESS_PATTERNS, PLAIN_PATTERNS};

options! {
    /// A step of a stream: the first step whose conditions all match acts; if none matches, the connection is closed
    pub struct StreamStepOptions: STREAM_STEP = "stream step" {
        /// Conditions that must all match; without them, every connection matches
        conditions: Unread [key("match"), kind(StreamMatchOptions::KIND), beyond()],
        /// The action
        action: Unread [kind(StreamActionOptions::KIND), beyond(), required()],
    }
}

options! {
    /// Conditions for a connection, with patterns as in the `match` of a route. `server_name` and `alpn` are read from
    /// the first message of a TLS client, without decrypting anything. A connection that does not begin with one is
    /// closed when a step needs it, unless a step of the stream has `tls`
    pub struct StreamMatchOptions: STREAM_MATCH = "stream match" {
        /// `true`: it begins with TLS; `false`: with something else. The client must send the first byte
        tls: Unread [kind(ValueKind::Boolean), beyond()],
        /// The name of the server that the client asks for (SNI), in lower case; empty if it asks for none
        server_name: Unread [kind(CASELESS_PATTERNS), beyond()],
        /// A protocol that the client offers (ALPN), such as `h2`; one of those that it offers must match. The only one
        /// is empty if it offers none
        alpn: Unread [kind(PLAIN_PATTERNS), beyond()],
        /// Address and port that the connection comes from
        source: Unread [kind(ADDRESSES), beyond()],
        /// Address and port that the connection was made to
        destination: Unread [kind(ADDRESSES), beyond()],
    }
}

options! {
    /// The action for a connection: one of `pass`, `terminate`, `close`
    pub struct StreamActionOptions: STREAM_ACTION = "stream action", exactly_one ["pass", "terminate", "close"] {
        /// Pass its bytes to a server of `upstreams/NAME`, and the bytes of the server back
        pass: Unread [kind(ValueKind::String(Text::Name(Referent::Destination))), beyond()],
        /// `true`: terminate TLS here, and pass the requests to the `pass` of the listener, which needs `tls`
        terminate: Unread [kind(ValueKind::Boolean), beyond()],
        /// `true`: close it
        close: Unread [kind(ValueKind::Boolean), beyond()],
    }
}
