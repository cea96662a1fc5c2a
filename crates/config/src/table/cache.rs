//! Options of the response cache: the stores, and the caching of an action's responses.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Names, PLAIN, Referent, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

/// A year.
const MOST_SECONDS: f64 = 31_536_000.0;
/// The limit of a wait for another request's response.
const MOST_WAIT: f64 = 3600.0;

options! {
    /// A store of responses. The part in memory lasts as long as the server process that handles requests
    pub struct CacheStoreOptions: CACHE_STORE = "cache store" {
        /// Memory for responses with their fields and keys; when it is full, the least used responses are evicted first
        memory: usize [kind(ValueKind::Size(1 << 20, 1 << 40)), beyond(), default("67108864"), unit("bytes")],
        /// Largest body to store
        max_object: usize [kind(ValueKind::Size(1, 1 << 32)), beyond(), default("1048576"), unit("bytes")],
        /// A file for responses that do not fit into memory or are evicted from it. It survives restarts
        disk: Unread [kind(CacheDiskOptions::KIND), beyond()],
    }
}

options! {
    /// The part of a store of responses that is on disk
    pub struct CacheDiskOptions: CACHE_DISK = "disk of a cache" {
        /// Folder of the file, by default `cache` in the state folder (`--statedir`). It is created if it does not
        /// exist; only the server's users may be able to write to it
        path: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Maximum size of the file; the oldest responses are evicted first
        size: u64 [kind(ValueKind::Size(4 << 20, 1 << 50)), beyond(), required(), unit("bytes")],
        /// Largest body to store on disk; by default the smaller of a quarter of `memory`, where large responses are
        /// assembled, and an eighth of `size`
        max_object: Option<usize> [kind(ValueKind::Size(1, 1 << 32)), beyond(), unit("bytes")],
    }
}

options! {
    /// Caching of an action's responses
    pub struct CacheOptions: CACHE = "cache" {
        /// The store, one of `settings.cache`
        store: String [kind(ValueKind::String(Text::Name(Referent::CacheStore))), beyond(), required()],
        /// Text that identifies a request's cached response, and by which it can be purged; by default scheme, host and
        /// target
        key: Unread [kind(ValueKind::String(Text::Template)), beyond()],
        /// Lifetime of responses that have none of their own: one value, for 200, 301, 308, 404 and 410; or by status:
        /// `200`, `4xx`, `any`. Responses to requests with cookies are not cached, except as `cookies` allows
        valid: Unread [kind(VALID), beyond(), unit("seconds")],
        /// Use `valid` for all responses, whatever lifetime they have, even with `no-store` or `private`
        force_valid: bool [beyond(), default("false"), needs(&["valid"])],
        /// Estimate a lifetime from `Last-Modified` if a response has none: a tenth of its age, at most a day
        heuristic: bool [beyond(), default("false")],
        /// Text with variables: the request bypasses the cache unless the text is empty, `0`, `false`, `null` or
        /// `undefined`; `!` negates the condition
        bypass: Unread [kind(ValueKind::String(Text::Condition)), beyond()],
        /// Names of cookies, as patterns like those of `match.cookies`: requests with one of them bypass the cache.
        /// Responses must not depend on any other cookie
        cookies: Unread [kind(COOKIE_NAMES), beyond()],
        /// A response with `Set-Cookie` is not stored (`pass`), or is stored without that field, which no client then
        /// gets (`strip`)
        set_cookie: SetCookie [beyond(), default("\"pass\"")],
        /// Response fields with tags, separated by spaces or commas, by which responses can be purged
        tags: Vec<String> [kind(TAG_FIELDS), beyond(), default("[\"Surrogate-Key\", \"Cache-Tag\"]")],
        /// Time for which an expired response is still used while a newer one is fetched, if the response does not set
        /// it
        stale_while_revalidate: Duration [kind(ValueKind::Number(0.0, MOST_SECONDS)), beyond(), default("0"), unit("seconds")],
        /// Time for which an expired response is still used if the application or server fails, if the response does
        /// not set it
        stale_if_error: Duration [kind(ValueKind::Number(0.0, MOST_SECONDS)), beyond(), default("0"), unit("seconds")],
        /// Time that a request waits for another one that fetches the same response; 0: do not wait
        lock_timeout: Duration [kind(ValueKind::Number(0.0, MOST_WAIT)), beyond(), default("5"), unit("seconds")],
        /// Fetch and store large responses in slices of this size, which are requested with `Range`. For servers that
        /// answer ranges; others are unaffected. At most `max_object` of the store
        slice: Option<usize> [kind(ValueKind::Size(1024, 1 << 32)), beyond(), unit("bytes")],
        /// Report the result of the lookup in the `Cache-Status` field (RFC 9211)
        status_field: bool [beyond(), default("true")],
    }
}

words! {
    /// The treatment of a response that sets cookies.
    pub enum SetCookie {
        /// It is not stored.
        Pass = "pass",
        /// It is stored without them.
        Strip = "strip",
    }
}

/// A time, or times by status.
const VALID: ValueKind = ValueKind::OneOf(&[SECONDS, ValueKind::Map(Names::NotEmpty, &SECONDS)]);
const SECONDS: ValueKind = ValueKind::Number(0.0, MOST_SECONDS);
const COOKIE_NAMES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(PLAIN)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(PLAIN))),
]);
const TAG_FIELDS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::HeaderName),
    ValueKind::Array(&ValueKind::String(Text::HeaderName)),
]);
