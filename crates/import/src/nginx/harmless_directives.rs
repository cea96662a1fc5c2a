//! Directives that refuse no request: they are carried over elsewhere, need nothing here, or are lost.

use crate::words::Words;

/// Directives that other files of this folder read.
const READ: Words = Words(
    "access_log add_header alias allow auth_basic auth_basic_user_file auth_request auth_request_set autoindex
    autoindex_format brotli_static break client_body_buffer_size client_body_timeout client_header_timeout
    client_max_body_size deny error_page expires fastcgi_buffering fastcgi_connect_timeout fastcgi_hide_header
    fastcgi_index fastcgi_intercept_errors fastcgi_param fastcgi_pass fastcgi_read_timeout fastcgi_request_buffering
    fastcgi_send_timeout fastcgi_split_path_info grpc_connect_timeout grpc_hide_header grpc_pass grpc_read_timeout
    grpc_send_timeout grpc_set_header grpc_ssl_name grpc_ssl_trusted_certificate grpc_ssl_verify gzip gzip_comp_level
    gzip_min_length gzip_static gzip_types http http2 if index internal keepalive_timeout large_client_header_buffers
    limit_conn limit_conn_dry_run limit_conn_status limit_conn_zone limit_except limit_req limit_req_dry_run
    limit_req_status limit_req_zone listen location log_format map geo split_clients mirror mirror_request_body proxy_buffering
    proxy_connect_timeout proxy_hide_header proxy_http_version proxy_intercept_errors proxy_pass proxy_read_timeout
    proxy_request_buffering proxy_send_timeout proxy_set_header proxy_ssl_server_name proxy_ssl_name proxy_ssl_verify
    proxy_ssl_trusted_certificate real_ip_header real_ip_recursive return rewrite root satisfy scgi_connect_timeout
    scgi_hide_header scgi_intercept_errors scgi_param scgi_pass scgi_read_timeout scgi_send_timeout send_timeout
    server server_name server_tokens set stream set_real_ip_from ssl ssl_certificate ssl_certificate_key
    ssl_client_certificate ssl_crl ssl_ocsp ssl_protocols ssl_reject_handshake ssl_session_cache ssl_session_timeout
    ssl_session_tickets ssl_trusted_certificate ssl_verify_client try_files types default_type upstream uwsgi_param
    uwsgi_pass uwsgi_connect_timeout uwsgi_hide_header uwsgi_intercept_errors uwsgi_read_timeout uwsgi_send_timeout
    disable_symlinks zstd_static etag merge_slashes underscores_in_headers ignore_invalid_headers
    valid_referers secure_link secure_link_md5 proxy_next_upstream
    proxy_next_upstream_tries proxy_next_upstream_timeout fastcgi_next_upstream fastcgi_next_upstream_tries
    fastcgi_next_upstream_timeout uwsgi_next_upstream uwsgi_next_upstream_tries uwsgi_next_upstream_timeout
    scgi_next_upstream scgi_next_upstream_tries scgi_next_upstream_timeout grpc_next_upstream
    grpc_next_upstream_tries grpc_next_upstream_timeout proxy_redirect proxy_cookie_path proxy_cookie_domain
    proxy_cookie_flags sub_filter sub_filter_once sub_filter_types add_trailer slice limit_rate limit_rate_after charset charset_types gunzip max_ranges
    proxy_set_body proxy_pass_request_body proxy_method stub_status uwsgi_buffering uwsgi_request_buffering
    scgi_buffering scgi_request_buffering grpc_intercept_errors",
);

/// Directives that tune what Tutti does by itself, and why nothing is written for them.
const NEEDLESS: &[(Words, &str)] = &[
    (
        Words(
            "worker_processes worker_connections worker_cpu_affinity worker_priority worker_rlimit_nofile events use
            multi_accept accept_mutex accept_mutex_delay thread_pool timer_resolution daemon master_process pid
            lock_file load_module env pcre_jit",
        ),
        "Tutti has a thread for each processor and uses as many descriptors as allowed; see its flags for the rest (`docs/reference/command-line.md`)",
    ),
    (
        Words(
            "sendfile sendfile_max_chunk tcp_nopush tcp_nodelay aio aio_write directio directio_alignment
            output_buffers postpone_output read_ahead reset_timedout_connection types_hash_max_size
            types_hash_bucket_size server_names_hash_bucket_size server_names_hash_max_size variables_hash_max_size
            variables_hash_bucket_size map_hash_bucket_size map_hash_max_size open_file_cache open_file_cache_valid
            open_file_cache_min_uses open_file_cache_errors open_log_file_cache keepalive_requests
            client_body_in_file_only client_body_in_single_buffer client_header_buffer_size connection_pool_size
            request_pool_size autoindex_exact_size autoindex_localtime recursive_error_pages
            http2_max_concurrent_streams http2_recv_buffer_size http2_chunk_size gunzip_buffers send_lowat subrequest_output_buffer_size
            http2_body_preread_size http2_idle_timeout http2_max_concurrent_pushes http2_max_field_size
            http2_max_header_size http2_max_requests http2_push http2_push_preload http2_recv_timeout http3
            http3_max_concurrent_streams http3_stream_buffer_size quic_active_connection_id_limit quic_bpf quic_gso
            quic_host_key quic_retry keepalive_time keepalive_min_timeout referer_hash_bucket_size
            referer_hash_max_size",
        ),
        "Tutti does this automatically",
    ),
    (
        Words(
            "fastcgi_buffers fastcgi_buffer_size fastcgi_busy_buffers_size fastcgi_temp_file_write_size
            fastcgi_max_temp_file_size fastcgi_temp_path fastcgi_keep_conn fastcgi_intercept_errors_off
            fastcgi_ignore_client_abort proxy_buffers proxy_buffer_size proxy_busy_buffers_size
            proxy_temp_file_write_size proxy_max_temp_file_size proxy_temp_path proxy_headers_hash_max_size
            proxy_headers_hash_bucket_size proxy_socket_keepalive uwsgi_buffers uwsgi_buffer_size
            client_body_temp_path scgi_temp_path uwsgi_temp_path uwsgi_modifier1 uwsgi_busy_buffers_size
            uwsgi_max_temp_file_size uwsgi_temp_file_write_size uwsgi_socket_keepalive scgi_buffer_size
            scgi_buffers scgi_busy_buffers_size scgi_max_temp_file_size scgi_temp_file_write_size
            scgi_socket_keepalive fastcgi_socket_keepalive fastcgi_send_lowat proxy_send_lowat grpc_buffer_size
            grpc_socket_keepalive",
        ),
        "Tutti has its own limits for buffered responses (`settings.http.response_buffering`, `proxy_options.buffer_size`)",
    ),
    (
        Words(
            "ssl_ciphers ssl_prefer_server_ciphers ssl_dhparam ssl_ecdh_curve ssl_buffer_size ssl_stapling
            ssl_stapling_verify ssl_stapling_file ssl_stapling_responder ssl_conf_command ssl_early_data
            ssl_session_ticket_key ssl_object_cache_inheritable ssl_certificate_cache ssl_certificate_compression
            proxy_ssl_ciphers proxy_ssl_protocols proxy_ssl_session_reuse
            proxy_ssl_certificate_cache grpc_ssl_ciphers grpc_ssl_protocols grpc_ssl_session_reuse
            grpc_ssl_certificate_cache grpc_ssl_server_name",
        ),
        "Tutti offers only TLS 1.2 and 1.3, with forward secrecy and authenticated ciphers (`docs/http/tls.md`)",
    ),
    (
        Words(
            "gzip_vary gzip_proxied gzip_disable gzip_buffers gzip_http_version",
        ),
        "Tutti sets `Vary` itself and compresses for all clients that accept it (`docs/http/delivery.md`)",
    ),
    (
        Words(
            "log_not_found log_subrequest rewrite_log error_log uninitialized_variable_warn user
            limit_conn_log_level limit_req_log_level",
        ),
        "the log and the user of the daemon are flags: `--log`, `--user`",
    ),
    (
        Words("resolver resolver_timeout"),
        "names are resolved according to `/etc/resolv.conf`, or to `settings.resolver`",
    ),
    (
        Words(
            "if_modified_since absolute_redirect server_name_in_redirect port_in_redirect chunked_transfer_encoding
            msie_padding keepalive_disable lingering_close lingering_time lingering_timeout",
        ),
        "Tutti follows the HTTP standards",
    ),
];

/// Directives that are lost, and what to do then. Directives in no list of this file are lost, too.
const LOST: &[(Words, &str)] = &[
    (Words("random_index"), "let an application choose"),
    (
        Words("early_hints"),
        "`early_hints` of an action sends them, and `settings.http.early_hints` passes on those of upstream servers",
    ),
    (
        Words("health_check health_check_timeout"),
        "`health_check` of an upstream checks its servers (`docs/proxy/upstreams.md`)",
    ),
    (
        Words("proxy_cache_purge fastcgi_cache_purge"),
        "purge responses with the control API (`docs/http/cache.md`)",
    ),
    (
        Words("source_charset"),
        "Tutti does not convert texts: store the files in the charset that clients get",
    ),
    (
        Words("addition_types add_before_body add_after_body"),
        "let the application produce the final content",
    ),
    (
        Words(
            "modsecurity_rules modsecurity_rules_file modsecurity_rules_remote modsecurity_transaction_id
            SecRulesDisabled LearningMode DeniedUrl BasicRule MainRule CheckRule",
        ),
        "keep the web application firewall in front",
    ),
    (
        Words(
            "ancient_browser ancient_browser_value modern_browser modern_browser_value keyval
            keyval_zone",
        ),
        "write the choice as conditions of a `match` (`source`, `headers`), or as a script (`docs/http/scripting.md`)",
    ),
    (
        Words("dav_methods dav_access create_full_put_path min_delete_depth flv mp4"),
        "use an application for this",
    ),
    (
        Words("mail"),
        "Tutti does not read mail protocols: pass the connections on in a stream (`docs/proxy/streams.md`), or keep this part in nginx",
    ),
];

/// Directives by the beginning of their names that refuse nothing: what to do without those that are in no list above.
const FAMILIES: &[(Words, &str)] = &[
    (
        Words("proxy_ fastcgi_ uwsgi_ scgi_ grpc_"),
        "see `proxy_options` in `docs/reference/options.md`",
    ),
    (
        Words("ssl_ http2_ http3 quic_"),
        "`docs/http/tls.md` and `docs/http/http2-and-http3.md` have the options of a listener",
    ),
    (
        Words(
            "gzip brotli zstd charset sub_filter subs_filter image_filter addition_ autoindex fancyindex mp4_
            hls_ f4f_ ssi_ xslt_ xml_ slice more_set_headers more_clear_headers add_trailer_ add_header_inherit
            override_charset pagespeed dav_ext",
        ),
        "let the application produce the final content",
    ),
    (
        Words(
            "geoip js_ perl_ lua_ init_by_lua init_worker_by_lua exit_worker_by_lua set_by_lua header_filter_by_lua
            body_filter_by_lua log_by_lua balancer_by_lua set_",
        ),
        "write it as a script (`docs/http/scripting.md`)",
    ),
    (
        Words(
            "log_ session_log status vhost_traffic_status userid otel_ opentracing opentelemetry zipkin datadog",
        ),
        "`docs/operate/logs.md`, `docs/operate/metrics.md` and `docs/operate/telemetry.md` describe logs, metrics and traces",
    ),
    (
        Words(
            "auth_jwt_ auth_digest_ auth_pam_ auth_ldap_ auth_gss_ auth_oidc_ auth_saml_ auth_delay auth_basic_
            ldap_server oidc_provider secure_link_ passenger_ echo_ memcached_ redis_ limit_req_ limit_conn_
            limit_rate referer_hash keepalive_ lingering_ client_ open_file_cache map_hash variables_hash types_hash
            server_names_hash proxy_protocol_ msie_refresh early_hints
            max_headers post_action match health_ mgmt",
        ),
        "`docs/reference/options.md` lists every option; please report what you miss",
    ),
];

/// True for a directive that refuses nothing, or that other files of this folder read.
pub(super) fn is_known(name: &str) -> bool {
    let has = |(names, _): &(Words, &str)| names.contains(name);
    is_read(name) || NEEDLESS.iter().any(has) || LOST.iter().any(has) || family(name).is_some()
}

/// The cure for a directive whose name begins as those of one of [`FAMILIES`].
fn family(name: &str) -> Option<&'static str> {
    let found = FAMILIES.iter().find(|(prefixes, _)| prefixes.begin(name));
    found.map(|(_, hint)| *hint)
}

/// True for a directive that other files of this folder read.
pub(super) fn is_read(name: &str) -> bool {
    READ.contains(name) || super::caching::reads(name)
}

/// Values for which a directive that needs nothing here is lost, and what to do then.
const LOST_VALUES: &[(&str, &str, &str)] = &[
    (
        "if_modified_since",
        "off",
        "`response_headers` with `\"Last-Modified\": null` removes the field that such requests are about",
    ),
    (
        "server_name_in_redirect",
        "on",
        "write the whole address into `return`",
    ),
];

/// The cure for a value of a directive that needs nothing else here.
pub(super) fn lost_value(name: &str, value: &str) -> Option<&'static str> {
    let found = LOST_VALUES
        .iter()
        .find(|(known, lost, _)| *known == name && *lost == value);
    found.map(|(.., hint)| *hint)
}

/// The reason why nothing is written for a directive that needs nothing here.
pub(super) fn needless(name: &str) -> Option<&'static str> {
    let found = NEEDLESS.iter().find(|(names, _)| names.contains(name));
    found.map(|(_, why)| *why)
}

/// The cure for a directive that is lost.
pub(super) fn cure(name: &str) -> &'static str {
    let found = LOST.iter().find(|(names, _)| names.contains(name));
    found
        .map(|(_, hint)| *hint)
        .or_else(|| family(name))
        .unwrap_or("`docs/reference/options.md` lists every option; please report what you miss")
}
