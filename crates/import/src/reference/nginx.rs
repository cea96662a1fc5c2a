//! The directives of nginx and of its commercial edition, by the blocks in which they may stand (nginx.org, "Alphabetical index of
//! directives").
//!
//! Third parties' directives are not in it: one that the importer does not know closes its place.

use crate::words::Words;

/// Blocks, and the directives that may stand in them. `lif` is an `if` in a location.
pub(crate) const DIRECTIVES: &[(&str, Words)] = &[
    (
        "events",
        Words(
            "
            accept_mutex accept_mutex_delay debug_connection multi_accept use worker_aio_requests
            worker_connections
            ",
        ),
    ),
    (
        "http",
        Words(
            "
            acme_issuer acme_shared_zone auth_jwt_claim_set auth_jwt_header_set charset_map fastcgi_cache_path
            geoip2 geoip2_proxy geoip_proxy geoip_proxy_recursive http2_recv_buffer_size js_path
            js_shared_dict_zone limit_req_zone limit_zone oidc_provider otel_exporter otel_resource_attr
            otel_service_name perl_modules perl_require perl_set proxy_cache_path scgi_cache_path
            server_names_hash_bucket_size server_names_hash_max_size session_log_format session_log_zone
            uwsgi_cache_path
            ",
        ),
    ),
    (
        "http server",
        Words(
            "
            client_header_buffer_size client_header_timeout connection_pool_size http2 http2_body_preread_size
            http2_idle_timeout http2_max_concurrent_pushes http2_max_concurrent_streams http2_max_field_size
            http2_max_header_size http2_max_requests http2_recv_timeout http3 http3_hq
            http3_max_concurrent_streams http3_stream_buffer_size ignore_invalid_headers
            large_client_header_buffers max_headers merge_slashes quic_active_connection_id_limit quic_gso
            quic_host_key quic_retry request_pool_size spdy_headers_comp ssl_buffer_size ssl_certificate_cache
            ssl_certificate_compression ssl_conf_command ssl_early_data ssl_ech_file ssl_key_log ssl_ocsp
            ssl_ocsp_cache ssl_ocsp_responder ssl_reject_handshake ssl_stapling ssl_stapling_file
            ssl_stapling_responder ssl_stapling_verify underscores_in_headers
            ",
        ),
    ),
    (
        "http server location",
        Words(
            "
            absolute_redirect add_after_body add_before_body add_header_inherit add_trailer_inherit
            addition_types aio aio_write ancient_browser ancient_browser_value auth_delay auth_jwt_leeway
            auth_jwt_type auth_oidc auth_request auth_request_set auth_require autoindex autoindex_exact_size
            autoindex_format autoindex_localtime charset_types chunked_transfer_encoding
            client_body_buffer_size client_body_in_file_only client_body_in_single_buffer
            client_body_temp_path client_body_timeout client_max_body_size create_full_put_path dav_access
            dav_methods default_type directio directio_alignment disable_symlinks early_hints etag
            f4f_buffer_size fastcgi_bind fastcgi_bind_dynamic fastcgi_buffer_size fastcgi_buffering
            fastcgi_buffers fastcgi_busy_buffers_size fastcgi_cache fastcgi_cache_background_update
            fastcgi_cache_bypass fastcgi_cache_key fastcgi_cache_lock fastcgi_cache_lock_age
            fastcgi_cache_lock_timeout fastcgi_cache_max_range_offset fastcgi_cache_methods
            fastcgi_cache_min_uses fastcgi_cache_purge fastcgi_cache_revalidate fastcgi_cache_use_stale
            fastcgi_cache_valid fastcgi_catch_stderr fastcgi_connect_timeout fastcgi_force_ranges
            fastcgi_hide_header fastcgi_ignore_client_abort fastcgi_ignore_headers fastcgi_index
            fastcgi_intercept_errors fastcgi_keep_conn fastcgi_limit_rate fastcgi_max_temp_file_size
            fastcgi_next_upstream fastcgi_next_upstream_timeout fastcgi_next_upstream_tries fastcgi_no_cache
            fastcgi_param fastcgi_pass_header fastcgi_pass_request_body fastcgi_pass_request_headers
            fastcgi_read_timeout fastcgi_request_buffering fastcgi_send_lowat fastcgi_send_timeout
            fastcgi_socket_keepalive fastcgi_split_path_info fastcgi_store fastcgi_store_access
            fastcgi_temp_file_write_size fastcgi_temp_path grpc_bind grpc_bind_dynamic grpc_buffer_size
            grpc_connect_timeout grpc_hide_header grpc_ignore_headers grpc_intercept_errors grpc_next_upstream
            grpc_next_upstream_timeout grpc_next_upstream_tries grpc_pass_header grpc_read_timeout
            grpc_send_timeout grpc_set_header grpc_socket_keepalive grpc_ssl_certificate
            grpc_ssl_certificate_cache grpc_ssl_certificate_key grpc_ssl_ciphers grpc_ssl_conf_command
            grpc_ssl_crl grpc_ssl_key_log grpc_ssl_name grpc_ssl_password_file grpc_ssl_protocols
            grpc_ssl_server_name grpc_ssl_session_reuse grpc_ssl_trusted_certificate grpc_ssl_verify
            grpc_ssl_verify_depth gunzip gunzip_buffers gzip_buffers gzip_comp_level gzip_disable
            gzip_http_version gzip_min_length gzip_proxied gzip_static gzip_types gzip_vary hls_buffers
            hls_forward_args hls_fragment hls_mp4_buffer_size hls_mp4_max_buffer_size http2_chunk_size
            http2_push http2_push_preload if_modified_since image_filter_buffer image_filter_interlace
            image_filter_jpeg_quality image_filter_sharpen image_filter_transparency image_filter_webp_quality
            index js_body_filter js_context_reuse js_engine js_fetch_buffer_size js_fetch_ciphers
            js_fetch_max_response_buffer_size js_fetch_protocols js_fetch_timeout js_fetch_trusted_certificate
            js_fetch_verify js_fetch_verify_depth js_header_filter js_import js_preload_object js_var
            keepalive_disable keepalive_min_timeout keepalive_time limit_conn_dry_run limit_conn_status
            limit_req limit_req_dry_run limit_req_log_level limit_req_status lingering_close lingering_time
            lingering_timeout log_not_found log_subrequest max_ranges memcached_bind memcached_bind_dynamic
            memcached_buffer_size memcached_connect_timeout memcached_force_ranges memcached_gzip_flag
            memcached_next_upstream memcached_next_upstream_timeout memcached_next_upstream_tries
            memcached_read_timeout memcached_send_timeout memcached_socket_keepalive min_delete_depth mirror
            mirror_request_body modern_browser modern_browser_value mp4_buffer_size mp4_limit_rate
            mp4_limit_rate_after mp4_max_buffer_size msie_padding msie_refresh open_file_cache
            open_file_cache_errors open_file_cache_min_uses open_file_cache_valid otel_span_attr
            otel_span_name otel_trace otel_trace_context output_buffers port_in_redirect postpone_output
            proxy_allow_upstream proxy_bind_dynamic proxy_buffering proxy_buffers proxy_busy_buffers_size
            proxy_cache proxy_cache_background_update proxy_cache_bypass proxy_cache_convert_head
            proxy_cache_key proxy_cache_lock proxy_cache_lock_age proxy_cache_lock_timeout
            proxy_cache_max_range_offset proxy_cache_methods proxy_cache_min_uses proxy_cache_purge
            proxy_cache_revalidate proxy_cache_use_stale proxy_cache_valid proxy_cookie_domain
            proxy_cookie_flags proxy_cookie_path proxy_force_ranges proxy_headers_hash_bucket_size
            proxy_headers_hash_max_size proxy_hide_header proxy_http_version proxy_ignore_client_abort
            proxy_ignore_headers proxy_intercept_errors proxy_limit_rate proxy_max_temp_file_size proxy_method
            proxy_no_cache proxy_pass_header proxy_pass_request_body proxy_pass_request_headers
            proxy_pass_trailers proxy_read_timeout proxy_redirect proxy_request_buffering proxy_send_lowat
            proxy_send_timeout proxy_set_body proxy_set_header proxy_ssl_certificate_cache
            proxy_ssl_conf_command proxy_ssl_key_log proxy_store proxy_store_access proxy_temp_file_write_size
            proxy_temp_path read_ahead real_ip_header real_ip_recursive recursive_error_pages
            reset_timedout_connection satisfy scgi_bind scgi_buffer_size scgi_buffering scgi_buffers
            scgi_busy_buffers_size scgi_cache scgi_cache_background_update scgi_cache_bypass scgi_cache_key
            scgi_cache_lock scgi_cache_lock_age scgi_cache_lock_timeout scgi_cache_max_range_offset
            scgi_cache_methods scgi_cache_min_uses scgi_cache_purge scgi_cache_revalidate scgi_cache_use_stale
            scgi_cache_valid scgi_connect_timeout scgi_force_ranges scgi_hide_header scgi_ignore_client_abort
            scgi_ignore_headers scgi_intercept_errors scgi_limit_rate scgi_max_temp_file_size
            scgi_next_upstream scgi_next_upstream_timeout scgi_next_upstream_tries scgi_no_cache scgi_param
            scgi_pass_header scgi_pass_request_body scgi_pass_request_headers scgi_read_timeout
            scgi_request_buffering scgi_send_timeout scgi_socket_keepalive scgi_store scgi_store_access
            scgi_temp_file_write_size scgi_temp_path secure_link secure_link_md5 secure_link_secret send_lowat
            send_timeout sendfile_max_chunk server_name_in_redirect server_tokens session_log slice
            spdy_chunk_size ssi_last_modified ssi_min_file_chunk ssi_silent_errors ssi_types ssi_value_length
            status_format sub_filter sub_filter_last_modified sub_filter_once sub_filter_types
            subrequest_output_buffer_size tcp_nopush types types_hash_bucket_size types_hash_max_size userid
            userid_domain userid_expires userid_flags userid_mark userid_name userid_p3p userid_path
            userid_service uwsgi_bind uwsgi_bind_dynamic uwsgi_buffer_size uwsgi_buffering uwsgi_buffers
            uwsgi_busy_buffers_size uwsgi_cache uwsgi_cache_background_update uwsgi_cache_bypass
            uwsgi_cache_key uwsgi_cache_lock uwsgi_cache_lock_age uwsgi_cache_lock_timeout
            uwsgi_cache_max_range_offset uwsgi_cache_methods uwsgi_cache_min_uses uwsgi_cache_purge
            uwsgi_cache_revalidate uwsgi_cache_use_stale uwsgi_cache_valid uwsgi_connect_timeout
            uwsgi_force_ranges uwsgi_hide_header uwsgi_ignore_client_abort uwsgi_ignore_headers
            uwsgi_intercept_errors uwsgi_limit_rate uwsgi_max_temp_file_size uwsgi_modifier1 uwsgi_modifier2
            uwsgi_next_upstream uwsgi_next_upstream_timeout uwsgi_next_upstream_tries uwsgi_no_cache
            uwsgi_param uwsgi_pass_header uwsgi_pass_request_body uwsgi_pass_request_headers
            uwsgi_read_timeout uwsgi_request_buffering uwsgi_send_timeout uwsgi_socket_keepalive
            uwsgi_ssl_certificate uwsgi_ssl_certificate_cache uwsgi_ssl_certificate_key uwsgi_ssl_ciphers
            uwsgi_ssl_conf_command uwsgi_ssl_crl uwsgi_ssl_key_log uwsgi_ssl_name uwsgi_ssl_password_file
            uwsgi_ssl_protocols uwsgi_ssl_server_name uwsgi_ssl_session_reuse uwsgi_ssl_trusted_certificate
            uwsgi_ssl_verify uwsgi_ssl_verify_depth uwsgi_store uwsgi_store_access uwsgi_temp_file_write_size
            uwsgi_temp_path xml_entities xslt_last_modified xslt_param xslt_string_param xslt_types
            ",
        ),
    ),
    (
        "http server location if lif",
        Words(
            "
            rewrite_log uninitialized_variable_warn
            ",
        ),
    ),
    (
        "http server location lif",
        Words(
            "
            add_header add_trailer charset error_page expires gzip limit_rate limit_rate_after
            override_charset root sendfile source_charset ssi
            ",
        ),
    ),
    (
        "http server location lif limit_except stream",
        Words(
            "
            access_log
            ",
        ),
    ),
    (
        "http server location limit_except",
        Words(
            "
            auth_basic auth_basic_user_file auth_jwt auth_jwt_key_file auth_jwt_key_request auth_jwt_require
            ",
        ),
    ),
    (
        "http server location limit_except stream",
        Words(
            "
            allow deny
            ",
        ),
    ),
    (
        "http server location stream",
        Words(
            "
            limit_conn limit_conn_log_level open_log_file_cache proxy_bind proxy_buffer_size
            proxy_connect_timeout proxy_next_upstream proxy_next_upstream_timeout proxy_next_upstream_tries
            proxy_socket_keepalive proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_ciphers
            proxy_ssl_crl proxy_ssl_name proxy_ssl_password_file proxy_ssl_protocols proxy_ssl_server_name
            proxy_ssl_session_reuse proxy_ssl_trusted_certificate proxy_ssl_verify proxy_ssl_verify_depth
            set_real_ip_from tcp_nodelay
            ",
        ),
    ),
    (
        "http server location stream mail",
        Words(
            "
            resolver_timeout
            ",
        ),
    ),
    (
        "http server location upstream",
        Words(
            "
            keepalive_requests keepalive_timeout
            ",
        ),
    ),
    (
        "http server location upstream stream mail",
        Words(
            "
            resolver
            ",
        ),
    ),
    (
        "http server mail",
        Words(
            "
            ssl
            ",
        ),
    ),
    (
        "http server stream mail",
        Words(
            "
            ssl_certificate ssl_certificate_key ssl_ciphers ssl_client_certificate ssl_crl ssl_dhparam
            ssl_ecdh_curve ssl_password_file ssl_prefer_server_ciphers ssl_protocols ssl_session_cache
            ssl_session_ticket_key ssl_session_tickets ssl_session_timeout ssl_trusted_certificate
            ssl_verify_client ssl_verify_depth
            ",
        ),
    ),
    (
        "http stream",
        Words(
            "
            geo geoip_city geoip_country geoip_org js_include js_set keyval keyval_zone limit_conn_zone
            log_format map map_hash_bucket_size map_hash_max_size match split_clients upstream
            variables_hash_bucket_size variables_hash_max_size
            ",
        ),
    ),
    (
        "http upstream stream mail",
        Words(
            "
            server
            ",
        ),
    ),
    (
        "location",
        Words(
            "
            alias api empty_gif f4f flv hls image_filter internal js_periodic limit_except mp4 random_index
            status upstream_conf xslt_stylesheet
            ",
        ),
    ),
    (
        "location lif",
        Words(
            "
            fastcgi_pass grpc_pass memcached_pass scgi_pass uwsgi_pass
            ",
        ),
    ),
    (
        "location lif limit_except stream",
        Words(
            "
            proxy_pass
            ",
        ),
    ),
    (
        "location limit_except",
        Words(
            "
            js_content perl
            ",
        ),
    ),
    (
        "location stream",
        Words(
            "
            health_check
            ",
        ),
    ),
    (
        "mail",
        Words(
            "
            auth_http auth_http_header auth_http_pass_client_cert auth_http_timeout imap_auth
            imap_capabilities imap_client_buffer max_errors pop3_auth pop3_capabilities protocol proxy_buffer
            proxy_pass_error_message proxy_smtp_auth smtp_auth smtp_capabilities smtp_client_buffer
            smtp_greeting_delay starttls timeout xclient
            ",
        ),
    ),
    (
        "main",
        Words(
            "
            daemon debug_points env events google_perftools_profiles http js_load_http_native_module
            load_module lock_file mail master_process mgmt pcre_jit pid quic_bpf ssl_engine
            ssl_object_cache_inheritable stream thread_pool timer_resolution user worker_cpu_affinity
            worker_priority worker_processes worker_rlimit_core worker_rlimit_nofile worker_shutdown_timeout
            working_directory
            ",
        ),
    ),
    (
        "main events http server location upstream stream mail",
        Words(
            "
            include
            ",
        ),
    ),
    (
        "main http server location stream mail",
        Words(
            "
            error_log
            ",
        ),
    ),
    (
        "server location",
        Words(
            "
            acme_certificate if internal_redirect location referer_hash_bucket_size referer_hash_max_size
            stub_status try_files valid_referers
            ",
        ),
    ),
    (
        "server location if lif",
        Words(
            "
            break rewrite set
            ",
        ),
    ),
    (
        "server location if lif stream",
        Words(
            "
            return
            ",
        ),
    ),
    (
        "server location lif stream",
        Words(
            "
            status_zone
            ",
        ),
    ),
    (
        "server mail",
        Words(
            "
            server_name
            ",
        ),
    ),
    (
        "server stream mail",
        Words(
            "
            listen
            ",
        ),
    ),
    (
        "stream",
        Words(
            "
            health_check_timeout js_access js_filter js_preread mqtt mqtt_preread mqtt_rewrite_buffer_size
            mqtt_set_connect pass preread_buffer_size preread_timeout proxy_download_rate proxy_half_close
            proxy_protocol proxy_protocol_timeout proxy_requests proxy_responses proxy_session_drop proxy_ssl
            proxy_upload_rate ssl_alpn ssl_handshake_timeout ssl_name ssl_preread zone_sync zone_sync_buffers
            zone_sync_connect_retry_interval zone_sync_connect_timeout zone_sync_interval
            zone_sync_recv_buffer_size zone_sync_server zone_sync_ssl zone_sync_ssl_certificate
            zone_sync_ssl_certificate_key zone_sync_ssl_ciphers zone_sync_ssl_crl zone_sync_ssl_name
            zone_sync_ssl_password_file zone_sync_ssl_protocols zone_sync_ssl_server_name
            zone_sync_ssl_trusted_certificate zone_sync_ssl_verify zone_sync_ssl_verify_depth
            zone_sync_timeout
            ",
        ),
    ),
    (
        "stream mail",
        Words(
            "
            proxy_timeout
            ",
        ),
    ),
    (
        "upstream",
        Words(
            "
            ip_hash keepalive least_time ntlm preconnect queue random sticky sticky_cookie_insert
            ",
        ),
    ),
    (
        "upstream stream",
        Words(
            "
            hash least_conn state zone
            ",
        ),
    ),
];
