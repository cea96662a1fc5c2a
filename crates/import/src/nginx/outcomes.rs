//! The fates that depend on where a directive stands: for the table of all directives (`docs/reference/import-nginx.md`).

use crate::fate::Fate;
use crate::words::Words;

/// Directives of `upstream`.
const UPSTREAM: Words = Words("server least_conn ip_hash hash keepalive keepalive_timeout sticky");

/// Directives of `upstream` for which nothing has to be written.
const UPSTREAM_NEEDLESS: Words = Words("zone keepalive_requests keepalive_time state");

/// Directives that mean something slightly different here: the blocks, the names, and the difference, which is reported.
const DIFFERENT: &[(Words, Words, &str)] = &[
    (
        Words("server location"),
        Words(
            "client_header_timeout keepalive_timeout client_body_buffer_size merge_slashes underscores_in_headers
            ignore_invalid_headers",
        ),
        "the first value applies to the whole server",
    ),
    (
        Words("http server location"),
        Words("limit_req limit_conn"),
        "requests with another limit or status are counted separately",
    ),
    (
        Words("server location"),
        Words("set_real_ip_from real_ip_header real_ip_recursive"),
        "a listener trusts the same proxies for all its servers: where others are trusted, requests get 403",
    ),
];

/// The fate of a directive that is read.
pub(super) fn of_read(name: &str, block: &str) -> Fate {
    let is_here =
        |(blocks, names, _): &&(Words, Words, &str)| blocks.contains(block) && names.contains(name);
    match DIFFERENT.iter().find(is_here) {
        Some((_, _, difference)) => Fate::different(difference),
        None => Fate::carried(),
    }
}

/// The fate of a directive of `upstream`.
pub(super) fn of_upstream(name: &str) -> Fate {
    if UPSTREAM.contains(name) {
        Fate::carried()
    } else if UPSTREAM_NEEDLESS.contains(name) {
        Fate::harmless("groups are always shared by all threads")
    } else if name == "random" {
        Fate::different("servers take turns")
    } else {
        Fate::lost("see `upstream` in `docs/reference/options.md`")
    }
}
