//! Options of copies of requests and of maintenance, and who gets early hints.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Referent, Text, ValueKind};
use tutti_options::{Unread, options, words};

use super::kinds::ADDRESSES;

options! {
    /// Copies of requests, to try something with real ones. They never delay a request: where there is no room for a copy there is none
    pub struct MirrorOptions: MIRROR = "mirror" {
        /// The upstream that gets them: `upstreams/NAME`
        to: Unread [kind(ValueKind::String(Text::Name(Referent::Destination))), beyond(), required()],
        /// Part of the requests that is copied
        ratio: f64 [kind(ValueKind::Number(0.0, 1.0)), beyond(), default("1")],
        /// A request with a larger body is not copied; nor is one whose body is handed over while it comes, or has gone to disk
        max_body_size: u64 [kind(ValueKind::Size(0, 1 << 30)), beyond(), default("16384"), unit("bytes")],
        /// Copies under way at once, of one thread of the server; where there are more, none is made
        max_pending: u32 [kind(ValueKind::Integer(1, 10_000)), beyond(), default("32"), unit("requests")],
        /// Time for a copy, until its answer is whole; then it is given up
        timeout: Duration [kind(ValueKind::Number(0.001, 3600.0)), beyond(), default("5"), unit("seconds")],
    }
}

options! {
    /// Maintenance: as long as this is here, requests get 503. `PUT /control/maintenance` puts it here
    pub struct MaintenanceOptions: MAINTENANCE = "maintenance" {
        /// `Retry-After` of the answers; 0: they have none
        retry_after: u32 [kind(ValueKind::Integer(0, 31_536_000)), beyond(), default("300"), unit("seconds")],
        /// File with the page; without it, or while it cannot be read, the server's own
        page: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Clients that are served as ever
        except: Unread [kind(ADDRESSES), beyond()],
    }
}

words! {
    /// Who gets 103 (Early Hints).
    pub enum EarlyHints {
        /// Nobody.
        Never = "never",
        /// Clients that speak HTTP/2.
        Http2 = "http2",
        /// Clients that speak HTTP/1.1, too.
        Always = "always",
    }
}
