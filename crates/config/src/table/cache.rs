//! Options of the cache of responses: the stores, and what an action keeps in them.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::table::{Names, PLAIN, Referent, Text, ValueKind};
use tutti_options::{Typed as _, Unread, options, words};

/// A year.
const MOST_SECONDS: f64 = 31_536_000.0;
/// A wait for another's request.
const MOST_WAIT: f64 = 3600.0;

options! {
    /// A store of responses. But for what is on disk it lasts as long as the server's process that serves requests
    pub struct CacheStoreOptions: CACHE_STORE = "cache store" {
        /// Memory for responses with their fields and keys; those that are asked for least go first
        memory: usize [kind(ValueKind::Size(1 << 20, 1 << 40)), beyond(), default("67108864"), unit("bytes")],
        /// Largest body that is stored
        max_object: usize [kind(ValueKind::Size(1, 1 << 32)), beyond(), default("1048576"), unit("bytes")],
        /// A file for responses that memory has no room for, and for those that are too large for it. It outlasts the server's processes
        disk: Unread [kind(CacheDiskOptions::KIND), beyond()],
    }
}

options! {
    /// The part of a store of responses that is on disk
    pub struct CacheDiskOptions: CACHE_DISK = "disk of a cache" {
        /// Folder of the file, the folder `cache` in the state folder (`--statedir`) unless given. It is made if it does not exist; nobody but
        /// the users of the server may write there
        path: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Bytes of the file at most; the oldest responses go first
        size: u64 [kind(ValueKind::Size(4 << 20, 1 << 50)), beyond(), required(), unit("bytes")],
        /// Largest body that is kept there; a quarter of `memory`, which large responses are gathered in, or an eighth of `size`, unless given
        max_object: Option<usize> [kind(ValueKind::Size(1, 1 << 32)), beyond(), unit("bytes")],
    }
}

options! {
    /// The responses of an action that are kept, and for which requests
    pub struct CacheOptions: CACHE = "cache" {
        /// The store, one of `settings.cache`
        store: String [kind(ValueKind::String(Text::Name(Referent::CacheStore))), beyond(), required()],
        /// Text that makes a request another one than the next, and by which its response is purged; scheme, host and target unless given
        key: Unread [kind(ValueKind::String(Text::Template)), beyond()],
        /// Lifetime of responses that tell none: one, for 200, 301, 308, 404 and 410; or by status: `200`, `4xx`, `any`. They are not kept
        /// where the request has cookies, but for those that `cookies` lets pass
        valid: Unread [kind(VALID), beyond(), unit("seconds")],
        /// `valid` counts whatever a response tells, `no-store` and `private` too
        force_valid: bool [beyond(), default("false"), needs(&["valid"])],
        /// Guess a lifetime from `Last-Modified` where nothing else tells: a tenth of the time since then, a day at most
        heuristic: bool [beyond(), default("false")],
        /// Text with variables: unless it is empty, `0`, `false`, `null` or `undefined` the request goes past the cache; `!` for the
        /// opposite
        bypass: Unread [kind(ValueKind::String(Text::Condition)), beyond()],
        /// Names of cookies, patterns as those of `match.cookies`: a request with one of them goes past the cache. The others do not
        /// matter then, which is the application's to promise
        cookies: Unread [kind(COOKIE_NAMES), beyond()],
        /// A response with `Set-Cookie` is not stored (`pass`), or loses it for everybody (`strip`)
        set_cookie: SetCookie [beyond(), default("\"pass\"")],
        /// Fields with tags, parted by spaces or commas, that responses can be purged by
        tags: Vec<String> [kind(TAG_FIELDS), beyond(), default("[\"Surrogate-Key\", \"Cache-Tag\"]")],
        /// Time that a response is used beyond its lifetime while a newer one is fetched, where it tells none
        stale_while_revalidate: Duration [kind(ValueKind::Number(0.0, MOST_SECONDS)), beyond(), default("0"), unit("seconds")],
        /// Time that a response is used beyond its lifetime where the application or server fails, where it tells none
        stale_if_error: Duration [kind(ValueKind::Number(0.0, MOST_SECONDS)), beyond(), default("0"), unit("seconds")],
        /// Time that a request waits for another one that fetches the same; 0: it does not
        lock_timeout: Duration [kind(ValueKind::Number(0.0, MOST_WAIT)), beyond(), default("5"), unit("seconds")],
        /// Tell in `Cache-Status` (RFC 9211) what the cache did
        status_field: bool [beyond(), default("true")],
    }
}

words! {
    /// The fate of a response that sets cookies.
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
