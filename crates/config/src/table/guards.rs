//! Options that stand before an action: bounds on requests, answers to other origins.

use std::num::NonZeroU32;
use std::time::Duration;

use tutti_options::table::{CASELESS, Names, Referent, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

options! {
    /// A bound on requests, counted for each key: how many in a time (`rate`), how many at once (`concurrent`), or both
    pub struct LimitOptions: LIMIT = "limit" {
        /// The key that is counted by: text with variables. Without it the client's address, of IPv6 its network of 64 bits, which one client has
        /// whole. Requests for which it is empty are not bounded
        key: Unread [kind(ValueKind::String(Text::Template)), beyond()],
        /// Requests in a time: `"10r/s"`, `"300r/m"`, `"1000r/h"`, or an object with `requests` and `per`
        rate: Unread [kind(RATE), beyond()],
        /// Requests that may come sooner than the rate, and are made up for by a pause
        burst: u32 [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("0"), unit("requests"), needs(&["rate"])],
        /// Requests within `burst` wait until their time has come, instead of passing at once
        delay: bool [beyond(), default("false"), needs(&["rate"])],
        /// Requests of one key that may be under way at once
        concurrent: Option<u32> [kind(ValueKind::Integer(1, 1_000_000)), beyond(), unit("requests")],
        /// Status of the answer to a request beyond the bound
        status: u16 [kind(ValueKind::Integer(400, 599)), beyond(), default("429")],
        /// Tell clients what is left of the rate, with `RateLimit` and `RateLimit-Policy`, in every answer instead of only where there is
        /// nothing left
        announce: bool [beyond(), default("false"), needs(&["rate"])],
        /// Only tell the log what would be refused
        dry_run: bool [beyond(), default("false")],
        /// Keys that are remembered for `rate`, of 8 bytes each; where there are more, those that have asked for least are forgotten
        keys: usize [kind(ValueKind::Integer(1024, 16_777_216)), beyond(), default("65536"), unit("keys"), needs(&["rate"])],
        /// The servers that `rate` and `burst` are of: this one (`node`), or all nodes of the fleet together (`fleet`), of which each has its
        /// share: the bound by the number of nodes that are there
        scope: LimitScope [beyond(), default("\"node\""), needs(&["rate"])],
        /// One of `settings.limit_stores`: `rate` and `burst` are counted there, exactly, for all servers with this store and a limit of this name
        store: Option<String> [kind(ValueKind::String(Text::Name(Referent::LimitStore))), beyond(), needs(&["rate"])],
        /// Without an answer of the store requests are counted as with `"scope": "fleet"` (`share`), or get 503 (`refuse`)
        on_error: LimitFallback [beyond(), default("\"share\""), needs(&["store"])],
    }
}

words! {
    /// The servers that a limit is of.
    pub enum LimitScope {
        /// This one.
        Node = "node",
        /// All nodes of the fleet together.
        Fleet = "fleet",
    }
}

words! {
    /// The fate of a request without an answer of the store of its limit.
    pub enum LimitFallback {
        /// Each node has its share.
        Share = "share",
        /// Requests are refused.
        Refuse = "refuse",
    }
}

options! {
    /// A rate
    #[derive(Copy, Eq)]
    pub struct Rate: RATE_OBJECT = "rate" {
        /// So many requests
        requests: NonZeroU32 [kind(ValueKind::Integer(1, 1_000_000)), beyond(), required(), unit("requests")],
        /// in so much time
        per: Duration [kind(ValueKind::Number(0.001, 86_400.0)), beyond(), required(), unit("seconds")],
    }
}

impl Rate {
    /// The time that each request has to itself.
    pub fn interval(&self) -> Duration {
        (self.per / self.requests.get()).max(Duration::from_nanos(1))
    }
}

const RATE: ValueKind = ValueKind::OneOf(&[ValueKind::String(Text::NotEmpty), Rate::KIND]);

/// The name of one of `limits`, or a bound of its own.
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
    /// Lets pages of other origins read answers (CORS). Preflight requests are answered here; what the application says about it itself is replaced
    pub struct CorsOptions: CORS = "cors" {
        /// Origins that may read: patterns of `https://app.example`, or `"*"` for all
        origins: Unread [kind(ORIGINS), beyond(), required()],
        /// Methods that they may use
        methods: Vec<String> [kind(TOKENS), beyond(), default("[\"GET\", \"HEAD\", \"POST\"]")],
        /// Request fields that they may send beside those that are always allowed; `"*"` in it: whatever is asked for
        headers: Vec<String> [kind(TOKENS), beyond(), default("[]")],
        /// Fields of the answer that they may read beside those that are always allowed
        expose: Vec<String> [kind(TOKENS), beyond(), default("[]")],
        /// They may send cookies and passwords, and read what comes back; not with `"*"` in `origins`
        credentials: bool [beyond(), default("false")],
        /// Time that a browser may remember the answer to a preflight request
        max_age: u32 [kind(ValueKind::Integer(0, 86_400)), beyond(), default("600"), unit("seconds")],
    }
}
