//! The fate of each directive: it is carried over elsewhere, needs nothing here, keeps somebody out, or is lost.

use super::tree::Statement;
use crate::finding::Findings;

/// Directives that other files of this folder read.
const READ: &[&str] = &[
    "access_log",
    "add_header",
    "alias",
    "allow",
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "auth_request_set",
    "autoindex",
    "autoindex_format",
    "brotli_static",
    "break",
    "client_body_buffer_size",
    "client_body_timeout",
    "client_header_timeout",
    "client_max_body_size",
    "deny",
    "error_page",
    "expires",
    "fastcgi_buffering",
    "fastcgi_connect_timeout",
    "fastcgi_hide_header",
    "fastcgi_index",
    "fastcgi_intercept_errors",
    "fastcgi_param",
    "fastcgi_pass",
    "fastcgi_read_timeout",
    "fastcgi_request_buffering",
    "fastcgi_send_timeout",
    "fastcgi_split_path_info",
    "grpc_pass",
    "gzip",
    "gzip_comp_level",
    "gzip_min_length",
    "gzip_static",
    "gzip_types",
    "http",
    "http2",
    "if",
    "index",
    "internal",
    "keepalive_timeout",
    "large_client_header_buffers",
    "limit_conn",
    "limit_conn_dry_run",
    "limit_conn_status",
    "limit_conn_zone",
    "limit_except",
    "limit_req",
    "limit_req_dry_run",
    "limit_req_status",
    "limit_req_zone",
    "listen",
    "location",
    "log_format",
    "map",
    "mirror",
    "mirror_request_body",
    "proxy_buffering",
    "proxy_connect_timeout",
    "proxy_hide_header",
    "proxy_http_version",
    "proxy_intercept_errors",
    "proxy_pass",
    "proxy_read_timeout",
    "proxy_request_buffering",
    "proxy_send_timeout",
    "proxy_set_header",
    "proxy_ssl_server_name",
    "proxy_ssl_name",
    "proxy_ssl_verify",
    "proxy_ssl_trusted_certificate",
    "real_ip_header",
    "real_ip_recursive",
    "return",
    "rewrite",
    "root",
    "satisfy",
    "scgi_param",
    "scgi_pass",
    "send_timeout",
    "server",
    "server_name",
    "server_tokens",
    "set",
    "set_real_ip_from",
    "ssl",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_client_certificate",
    "ssl_protocols",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_session_tickets",
    "ssl_verify_client",
    "try_files",
    "types",
    "default_type",
    "upstream",
    "uwsgi_param",
    "uwsgi_pass",
    "uwsgi_connect_timeout",
    "uwsgi_intercept_errors",
    "uwsgi_read_timeout",
    "uwsgi_send_timeout",
    "disable_symlinks",
    "zstd_static",
];

/// Directives that tune what Tutti does by itself, and why nothing is written for them.
const NEEDLESS: &[(&[&str], &str)] = &[
    (
        &[
            "worker_processes",
            "worker_connections",
            "worker_cpu_affinity",
            "worker_priority",
            "worker_rlimit_nofile",
            "events",
            "use",
            "multi_accept",
            "accept_mutex",
            "accept_mutex_delay",
            "thread_pool",
            "timer_resolution",
            "daemon",
            "master_process",
            "pid",
            "lock_file",
            "load_module",
            "env",
            "pcre_jit",
        ],
        "Tutti has a thread for each processor and takes as many descriptors as it may; its flags say the rest (`docs/command-line.md`)",
    ),
    (
        &[
            "sendfile",
            "sendfile_max_chunk",
            "tcp_nopush",
            "tcp_nodelay",
            "aio",
            "aio_write",
            "directio",
            "directio_alignment",
            "output_buffers",
            "postpone_output",
            "read_ahead",
            "reset_timedout_connection",
            "types_hash_max_size",
            "types_hash_bucket_size",
            "server_names_hash_bucket_size",
            "server_names_hash_max_size",
            "variables_hash_max_size",
            "variables_hash_bucket_size",
            "map_hash_bucket_size",
            "map_hash_max_size",
            "open_file_cache",
            "open_file_cache_valid",
            "open_file_cache_min_uses",
            "open_file_cache_errors",
            "open_log_file_cache",
            "keepalive_requests",
            "client_body_in_file_only",
            "client_body_in_single_buffer",
            "client_header_buffer_size",
            "connection_pool_size",
            "request_pool_size",
            "autoindex_exact_size",
            "autoindex_localtime",
            "recursive_error_pages",
            "http2_max_concurrent_streams",
            "http2_recv_buffer_size",
            "http2_chunk_size",
        ],
        "Tutti does this by itself",
    ),
    (
        &[
            "fastcgi_buffers",
            "fastcgi_buffer_size",
            "fastcgi_busy_buffers_size",
            "fastcgi_temp_file_write_size",
            "fastcgi_max_temp_file_size",
            "fastcgi_temp_path",
            "fastcgi_keep_conn",
            "fastcgi_intercept_errors_off",
            "fastcgi_ignore_client_abort",
            "proxy_buffers",
            "proxy_buffer_size",
            "proxy_busy_buffers_size",
            "proxy_temp_file_write_size",
            "proxy_max_temp_file_size",
            "proxy_temp_path",
            "proxy_headers_hash_max_size",
            "proxy_headers_hash_bucket_size",
            "proxy_socket_keepalive",
            "uwsgi_buffers",
            "uwsgi_buffer_size",
            "client_body_temp_path",
            "scgi_temp_path",
            "uwsgi_temp_path",
            "uwsgi_modifier1",
        ],
        "answers wait in bounds of Tutti's own (`settings.http.response_buffering`, `proxy_options.buffer_size`)",
    ),
    (
        &[
            "ssl_ciphers",
            "ssl_prefer_server_ciphers",
            "ssl_dhparam",
            "ssl_ecdh_curve",
            "ssl_buffer_size",
            "ssl_stapling",
            "ssl_stapling_verify",
            "ssl_trusted_certificate",
            "ssl_conf_command",
            "ssl_early_data",
        ],
        "Tutti offers TLS 1.2 and 1.3 with forward secrecy and authenticated ciphers only (`docs/tls.md`)",
    ),
    (
        &[
            "gzip_vary",
            "gzip_proxied",
            "gzip_disable",
            "gzip_buffers",
            "gzip_http_version",
            "gunzip",
        ],
        "Tutti says `Vary` by itself and compresses for whoever asks (`docs/compression.md`)",
    ),
    (
        &[
            "log_not_found",
            "log_subrequest",
            "rewrite_log",
            "error_log",
            "uninitialized_variable_warn",
            "user",
        ],
        "where the daemon logs, and as whom it runs, are flags: `--log`, `--user`",
    ),
    (
        &["resolver", "resolver_timeout"],
        "names are looked up as `/etc/resolv.conf` says; `settings.resolver` says otherwise",
    ),
    (
        &[
            "etag",
            "if_modified_since",
            "absolute_redirect",
            "server_name_in_redirect",
            "port_in_redirect",
            "merge_slashes",
            "underscores_in_headers",
            "ignore_invalid_headers",
            "chunked_transfer_encoding",
            "msie_padding",
            "keepalive_disable",
            "lingering_close",
            "lingering_time",
            "lingering_timeout",
            "max_ranges",
        ],
        "Tutti does as HTTP's standards say",
    ),
];

/// Directives that keep somebody out. Without them a place would be open.
const CLOSING: &[(&[&str], &str)] = &[
    (
        &["auth_jwt", "auth_jwt_key_file"],
        "`authenticate` has `jwt` (`docs/authentication.md`)",
    ),
    (
        &["auth_digest", "auth_pam", "auth_ldap"],
        "`authenticate` asks for passwords (`basic`), or another server about each request (`forward`)",
    ),
    (
        &["secure_link", "secure_link_md5", "secure_link_secret"],
        "write the check as a script: `docs/scripting.md` has it",
    ),
    (
        &[
            "perl",
            "js_content",
            "js_access",
            "access_by_lua",
            "access_by_lua_block",
            "access_by_lua_file",
            "rewrite_by_lua_block",
            "rewrite_by_lua_file",
            "content_by_lua_block",
            "content_by_lua_file",
        ],
        "write the check as a script (`docs/scripting.md`), or as conditions of a `match`",
    ),
];

/// Directives that are lost, and what to do then. All that is nowhere in this file is lost, too.
const LOST: &[(&[&str], &str)] = &[
    (&["random_index"], "let an application choose"),
    (
        &["proxy_cache_purge", "fastcgi_cache_purge"],
        "the control API removes what is kept (`docs/cache.md`)",
    ),
    (
        &["limit_rate", "limit_rate_after"],
        "`limit` bounds requests, and `max_connections_per_client` connections; nothing bounds bytes in a time",
    ),
    (
        &["charset", "charset_types", "source_charset"],
        "write the type with its charset in `settings.http.static.mime_types`",
    ),
    (
        &[
            "sub_filter",
            "sub_filter_once",
            "sub_filter_types",
            "addition_types",
            "add_before_body",
            "add_after_body",
            "ssi",
            "ssi_types",
            "image_filter",
        ],
        "let the application write what it means",
    ),
    (
        &[
            "modsecurity",
            "modsecurity_rules",
            "modsecurity_rules_file",
            "SecRulesEnabled",
            "SecRulesDisabled",
            "BasicRule",
            "CheckRule",
        ],
        "leave the firewall for applications in front",
    ),
    (
        &[
            "geo",
            "geoip_country",
            "geoip_city",
            "geoip2",
            "split_clients",
            "valid_referers",
        ],
        "write the choice as conditions of a `match` (`source`, `headers`), or as a script (`docs/scripting.md`)",
    ),
    (
        &["stub_status"],
        "`\"pass\": \"metrics\"` is Tutti's own (`docs/metrics.md`)",
    ),
    (
        &[
            "dav_methods",
            "dav_access",
            "create_full_put_path",
            "memcached_pass",
            "echo",
            "empty_gif",
            "flv",
            "mp4",
            "xslt_stylesheet",
        ],
        "an application has to do this",
    ),
    (
        &["stream", "mail"],
        "Tutti speaks HTTP only; leave this part where it is",
    ),
    (
        &[
            "proxy_redirect",
            "proxy_cookie_path",
            "proxy_cookie_domain",
            "proxy_cookie_flags",
        ],
        "let the server behind know its public name: `proxy_set_header Host $host`",
    ),
    (
        &[
            "proxy_next_upstream",
            "proxy_next_upstream_tries",
            "proxy_next_upstream_timeout",
            "fastcgi_next_upstream",
        ],
        "`retries` and `retry_methods` of `proxy_options` say when another server is asked",
    ),
];

/// True for a directive that closes what it stands in, unless it says `off`.
pub(super) fn closes(statement: &Statement) -> Option<&'static str> {
    let name = statement.name();
    if statement.argument(0) == "off" {
        return None;
    }
    let found = CLOSING.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, hint)| *hint)
}

/// Says what becomes of a directive that is not read.
pub(super) fn tell(statement: &Statement, findings: &mut Findings) {
    let name = statement.name();
    if READ.contains(&name) || super::caching::reads(name) || closes(statement).is_some() {
        return;
    }
    let has = |list: &&(&'static [&'static str], &'static str)| list.0.contains(&name);
    if let Some((_, why)) = NEEDLESS.iter().find(has) {
        findings.note(&statement.place, name, "nothing is written for it", why);
        return;
    }
    if CLOSING.iter().any(|entry| has(&entry))
        || (statement.argument(0) == "off" && LOST.iter().any(|entry| has(&entry)))
    {
        // `off` is what holds here anyway.
        return;
    }
    let hint = LOST.iter().find(has).map_or(
        "`docs/reference.md` lists every option there is; say what you miss",
        |(_, hint)| *hint,
    );
    findings.lost(&statement.place, name, "there is no option for it", hint);
}

/// [`tell`] for each of a block.
pub(super) fn tell_all(statements: &[Statement], findings: &mut Findings) {
    for statement in statements {
        tell(statement, findings);
    }
}
