//! Options that apply before an action: request limits, and responses for other origins.

use std::num::NonZeroU32;
use std::time::Duration;

use tutti_options::table::{CASELESS, Names, Referent, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

options! {
    /// A limit for each key: on requests per time (`rate`), on requests at once (`concurrent`), on the bytes of responses
    /// (`bandwidth`), or several of them
    pub struct LimitOptions: LIMIT = "limit" {
        /// The key to count by: text with variables. By default the client's address; for IPv6 its /64 network, which a
        /// single client usually has. Requests for which it is empty are not limited
        key: Unread [kind(ValueKind::String(Text::Template)), beyond()],
        /// Requests per time: `"10r/s"`, `"300r/m"`, `"1000r/h"`, or an object with `requests` and `per`
        rate: Unread [kind(RATE), beyond()],
        /// Requests that may exceed the rate for a short time
        burst: u32 [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("0"), unit("requests"), needs(&["rate"])],
        /// Delay requests within `burst` to keep to the rate, instead of passing them on at once
        delay: bool [beyond(), default("false"), needs(&["rate"])],
        /// Maximum requests in progress at once for one key
        concurrent: Option<u32> [kind(ValueKind::Integer(1, 1_000_000)), beyond(), unit("requests")],
        /// Bytes per second of all responses with the same key together; not with `dry_run`
        bandwidth: Option<u64> [kind(ValueKind::Size(1, 1 << 40)), beyond(), unit("bytes per second")],
        /// Status of the response to a request beyond the limit
        status: u16 [kind(ValueKind::Integer(400, 599)), beyond(), default("429")],
        /// Report the remaining rate to clients with `RateLimit` and `RateLimit-Policy` in every response, instead of
        /// only when it is used up
        announce: bool [beyond(), default("false"), needs(&["rate"])],
        /// Only log the requests that would be rejected
        dry_run: bool [beyond(), default("false")],
        /// Maximum keys to keep counts for (`rate`), of 8 bytes each; beyond that, the keys with the fewest requests
        /// are forgotten
        keys: usize [kind(ValueKind::Integer(1024, 16_777_216)), beyond(), default("65536"), unit("keys"), needs(&["rate"])],
        /// The servers that share `rate` and `burst`: only this one (`node`), or all nodes of the fleet (`fleet`), each
        /// of which gets the limit divided by the number of live nodes
        scope: LimitScope [beyond(), default("\"node\""), needs(&["rate"])],
        /// One of `settings.limit_stores`: `rate` and `burst` are counted there, exactly, for all servers with this
        /// store and a limit of this name. Only limits of `limits` can have one
        store: Option<String> [kind(ValueKind::String(Text::Name(Referent::LimitStore))), beyond(), needs(&["rate"])],
        /// If the store does not respond, count requests as with `"scope": "fleet"` (`share`), or respond 503
        /// (`refuse`)
        on_error: LimitFallback [beyond(), default("\"share\""), needs(&["store"])],
    }
}

words! {
    /// The servers that share a limit.
    pub enum LimitScope {
        /// This one.
        Node = "node",
        /// All nodes of the fleet together.
        Fleet = "fleet",
    }
}

words! {
    /// The treatment of a request when the store of its limit does not respond.
    pub enum LimitFallback {
        /// Each node has its share of the limit.
        Share = "share",
        /// Requests are rejected.
        Refuse = "refuse",
    }
}

options! {
    /// A rate
    #[derive(Copy, Eq)]
    pub struct Rate: RATE_OBJECT = "rate" {
        /// Number of requests
        requests: NonZeroU32 [kind(ValueKind::Integer(1, 1_000_000)), beyond(), required(), unit("requests")],
        /// Time in which they may come
        per: Duration [kind(ValueKind::Number(0.001, 86_400.0)), beyond(), required(), unit("seconds")],
    }
}

impl Rate {
    /// The average time between two requests.
    pub fn interval(&self) -> Duration {
        (self.per / self.requests.get()).max(Duration::from_nanos(1))
    }
}

const RATE: ValueKind = ValueKind::OneOf(&[ValueKind::String(Text::NotEmpty), Rate::KIND]);

/// The name of one of `limits`, or an inline limit.
const ONE_LIMIT: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::Limit)),
    LimitOptions::KIND,
]);
pub(super) const LIMITS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::Limit)),
    LimitOptions::KIND,
    ValueKind::Array(&ONE_LIMIT),
]);
pub(super) const NAMED_LIMITS: ValueKind = ValueKind::Map(Names::NotEmpty, &LimitOptions::KIND);

const TOKENS: ValueKind = ValueKind::Array(&ValueKind::String(Text::HeaderName));
const ORIGINS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(CASELESS)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(CASELESS))),
]);

options! {
    /// Lets pages of other origins read responses (CORS). Preflight requests are answered by the server; the
    /// application's own CORS fields are replaced
    pub struct CorsOptions: CORS = "cors" {
        /// Origins that may read responses: patterns of `https://app.example`, or `"*"` for all
        origins: Unread [kind(ORIGINS), beyond(), required()],
        /// Methods that they may use
        methods: Vec<String> [kind(TOKENS), beyond(), default("[\"GET\", \"HEAD\", \"POST\"]")],
        /// Request fields that they may send in addition to those that are always allowed; `"*"` among them allows any
        headers: Vec<String> [kind(TOKENS), beyond(), default("[]")],
        /// Response fields that they may read in addition to those that are always allowed
        expose: Vec<String> [kind(TOKENS), beyond(), default("[]")],
        /// Let them send cookies and passwords and read the responses; not with `"*"` in `origins`
        credentials: bool [beyond(), default("false")],
        /// Time that a browser may cache the response to a preflight request
        max_age: u32 [kind(ValueKind::Integer(0, 86_400)), beyond(), default("600"), unit("seconds")],
    }
}
