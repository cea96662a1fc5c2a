//! The fates of the directives of `stream`.
//!
//! Must never: take a directive that no list has for harmless.

use crate::fate::Fate;
use crate::words::Words;

/// Directives that are carried over.
const READ: Words = Words(
    "server listen upstream map log_format access_log allow deny set_real_ip_from ssl_preread proxy_pass proxy_protocol
    proxy_timeout proxy_requests proxy_responses proxy_connect_timeout proxy_next_upstream proxy_next_upstream_tries proxy_next_upstream_timeout
    proxy_ssl proxy_ssl_name proxy_ssl_server_name proxy_ssl_verify proxy_ssl_trusted_certificate",
);

/// Directives for which nothing has to be written.
const NEEDLESS: Words = Words(
    "tcp_nodelay preread_buffer_size preread_timeout proxy_buffer_size proxy_half_close proxy_socket_keepalive
    proxy_session_drop proxy_protocol_timeout resolver resolver_timeout error_log open_log_file_cache
    variables_hash_bucket_size variables_hash_max_size map_hash_bucket_size map_hash_max_size include
    proxy_ssl_session_reuse proxy_ssl_ciphers",
);

/// Directives without which a server serves the same clients in another way, and what to do.
const LOST: &[(Words, &str)] = &[
    (
        Words("health_check health_check_timeout match"),
        "`health_check` of an upstream checks its servers (`docs/proxy/streams.md`)",
    ),
    (
        Words("proxy_bind proxy_download_rate proxy_upload_rate"),
        "`docs/proxy/streams.md` has what streams can do",
    ),
    (
        Words("limit_conn_zone limit_conn_log_level limit_conn_dry_run status_zone keyval_zone js_import js_include
            js_path js_shared_dict_zone js_fetch_ geoip_ zone_sync"),
        "`docs/proxy/streams.md` has what streams can do",
    ),
];

/// The cure for a directive without which a server is not opened.
pub(super) const CLOSING: &str =
    "Tutti does not listen there: write the server by hand (`docs/proxy/streams.md`)";

/// The fate of a directive of `stream` and its servers, for the table of all directives. One in no list may be a check:
/// its server is left out.
pub(super) fn fate(name: &str) -> Fate {
    if READ.contains(name) {
        return Fate::carried();
    }
    if NEEDLESS.contains(name) {
        return Fate::harmless("streams do this automatically, or have no such setting");
    }
    match lost(name) {
        Some(hint) => Fate::lost(hint),
        None => Fate::lost(CLOSING),
    }
}

/// The cure for a directive without which a server still serves.
pub(super) fn lost(name: &str) -> Option<&'static str> {
    let mut lists = LOST.iter();
    let found = lists.find(|(names, _)| names.contains(name) || names.begin(name));
    found.map(|(_, hint)| *hint)
}

/// True for a directive that is carried over elsewhere, or for which nothing has to be written.
pub(super) fn needs_nothing(name: &str) -> bool {
    READ.contains(name) || NEEDLESS.contains(name)
}

/// True for a directive that may restrict clients: its servers are left out.
pub(super) fn closes(name: &str) -> bool {
    !needs_nothing(name) && lost(name).is_none()
}
