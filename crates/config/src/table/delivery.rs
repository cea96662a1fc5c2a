//! Options of request mirroring, maintenance and early hints.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Referent, Text, ValueKind};
use tutti_options::{Unread, options, words};

use super::kinds::ADDRESSES;

options! {
    /// Copies of requests, for testing with real traffic. They never delay a request: if there is no capacity for a
    /// copy, it is not made
    pub struct MirrorOptions: MIRROR = "mirror" {
        /// The upstream that gets the copies: `upstreams/NAME`
        to: Unread [kind(ValueKind::String(Text::Name(Referent::Destination))), beyond(), required()],
        /// Fraction of the requests to copy
        ratio: f64 [kind(ValueKind::Number(0.0, 1.0)), beyond(), default("1")],
        /// Requests with a larger body are not copied, nor are those whose body is streamed or has been written to disk
        max_body_size: u64 [kind(ValueKind::Size(0, 1 << 30)), beyond(), default("16384"), unit("bytes")],
        /// Copies in progress at once in each thread of the server; beyond that, none are made
        max_pending: u32 [kind(ValueKind::Integer(1, 10_000)), beyond(), default("32"), unit("requests")],
        /// Time for a copy until its response is complete; then it is abandoned
        timeout: Duration [kind(ValueKind::Number(0.001, 3600.0)), beyond(), default("5"), unit("seconds")],
    }
}

options! {
    /// Maintenance mode: while this is present, requests get 503. Set by `PUT /control/maintenance`
    pub struct MaintenanceOptions: MAINTENANCE = "maintenance" {
        /// `Retry-After` of the responses; 0: leave it out
        retry_after: u32 [kind(ValueKind::Integer(0, 31_536_000)), beyond(), default("300"), unit("seconds")],
        /// File with the page; without it, or while it cannot be read, the server's own page is used
        page: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Clients that are served as usual
        except: Unread [kind(ADDRESSES), beyond()],
    }
}

words! {
    /// The clients that get 103 (Early Hints).
    pub enum EarlyHints {
        /// None.
        Never = "never",
        /// Clients that speak HTTP/2.
        Http2 = "http2",
        /// Clients that speak HTTP/1.1, too.
        Always = "always",
    }
}
