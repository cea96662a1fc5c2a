//! The directives of Caddy, PHP-FPM, gunicorn and Puma.

use crate::words::Words;

/// Caddy's directives in a site (caddyserver.com, "Caddyfile Directives").
pub(crate) const CADDY_DIRECTIVES: Words = Words(
    "abort acme_server basic_auth basicauth bind copy_response copy_response_headers encode error file_server
    forward_auth fs handle handle_errors handle_path header import intercept invoke log log_append log_name log_skip
    map method metrics php_fastcgi push redir request_body request_header respond reverse_proxy rewrite root route
    skip_log templates tls tracing try_files uri vars",
);

/// Caddy's options for all sites (caddyserver.com, "Global options").
pub(crate) const CADDY_OPTIONS: Words = Words(
    "acme_ca acme_ca_root acme_dns acme_eab admin auto_https cert_issuer cert_lifetime debug default_bind default_sni
    dns ech email events fallback_sni filesystem grace_period http_port https_port key_type local_certs log metrics
    ocsp_interval ocsp_stapling on_demand_tls order persist_config pki preferred_chains renew_interval
    renewal_window_ratio servers shutdown_delay skip_install_trust storage storage_check storage_clean_interval
    tls_resolvers",
);

/// PHP-FPM's, of `[global]` and of pools (php.net, "List of global php-fpm.conf directives" and "of pool directives").
pub(crate) const FPM: Words = Words(
    "access.format access.log access.suppress_path[] apparmor_hat catch_workers_output chdir chroot clear_env daemonize
    decorate_workers_output emergency_restart_interval emergency_restart_threshold env[] error_log events.mechanism
    group include listen listen.acl_groups listen.acl_users listen.allowed_clients listen.backlog listen.group
    listen.mode listen.owner listen.setfib log_buffering log_level log_limit php_admin_flag[] php_admin_value[]
    php_flag[] php_value[] pid ping.path ping.response pm pm.max_children pm.max_requests pm.max_spare_servers
    pm.max_spawn_rate pm.min_spare_servers pm.process_idle_timeout pm.start_servers pm.status_listen pm.status_path
    prefix process.dumpable process.max process.priority process_control_timeout request_slowlog_timeout
    request_slowlog_trace_depth request_terminate_timeout request_terminate_timeout_track_finished rlimit_core
    rlimit_files security.limit_extensions slowlog syslog.facility syslog.ident systemd_interval user",
);

/// gunicorn's settings (docs.gunicorn.org, "Settings").
pub(crate) const GUNICORN: Words = Words(
    "accesslog access_log_format asgi_disconnect_grace_period asgi_lifespan asgi_loop backlog bind ca_certs capture_output
    casefold_http_method cert_reqs certfile chdir check_config child_exit ciphers config control_socket
    control_socket_disable control_socket_mode daemon default_proc_name dirty_apps dirty_graceful_timeout
    dirty_post_fork dirty_threads dirty_timeout dirty_worker_exit dirty_worker_init dirty_workers
    disable_redirect_access_to_syslog do_handshake_on_connect dogstatsd_tags enable_backlog_metric
    enable_stdio_inheritance errorlog forwarded_allow_ips forwarder_headers graceful_timeout group header_map
    http2_cleartext http2_initial_window_size http2_max_concurrent_streams http2_max_frame_size
    http2_max_header_list_size http_parser http_protocols initgroups keepalive keyfile limit_request_field_size
    limit_request_fields limit_request_line logconfig logconfig_dict logconfig_json logger_class loglevel max_requests
    max_requests_jitter nworkers_changed on_dirty_starting on_exit on_reload on_starting paste permit_obsolete_folding
    permit_unconventional_http_method permit_unconventional_http_version pidfile post_fork post_request
    post_worker_init pre_exec pre_fork pre_request preload_app print_config proc_name protocol proxy_allow_ips
    proxy_protocol pythonpath raw_env raw_paste_global_conf reload reload_engine reload_extra_files reuse_port
    root_path secure_scheme_headers sendfile spew ssl_context ssl_version statsd_host statsd_prefix
    strip_header_spaces suppress_ragged_eofs syslog syslog_addr syslog_facility syslog_prefix threads timeout
    tmp_upload_dir umask user uwsgi_allow_ips websocket_max_message_size when_ready worker_abort worker_class
    worker_connections worker_exit worker_int worker_tmp_dir workers wsgi_app",
);

/// Puma's calls (puma.io, `Puma::DSL`).
pub(crate) const PUMA: Words = Words(
    "activate_control_app add_pem_values_to_options_store after_booted after_refork after_stopped after_worker_boot
    after_worker_fork after_worker_shutdown app before_fork before_refork before_restart before_thread_exit
    before_thread_start before_worker_boot before_worker_fork before_worker_shutdown bind bind_to_activated_sockets
    clean_thread_locals clear_binds! daemonize debug directory drain_on_shutdown early_hints enable_keep_alives
    environment extra_runtime_dependencies first_data_timeout force_shutdown_after fork_worker http_content_length_limit
    idle_timeout io_selector_backend load log_formatter log_requests lowlevel_error_handler max_fast_inline
    max_io_threads max_keep_alive mutate_stdout_and_stderr_to_sync_on_write nakayoshi_fork on_booted on_refork
    on_restart on_stopped on_thread_exit on_thread_start on_worker_boot on_worker_fork on_worker_shutdown out_of_band
    persistent_timeout pidfile plugin port preload_app! prune_bundler queue_requests quiet rack_url_scheme rackup
    raise_exception_on_sigterm restart_command rewrite_logger run_at_exit_hooks set_default_host set_remote_address
    shutdown_debug silence_fork_callback_warning silence_single_worker_warning ssl_bind state_path state_permission
    stdout_redirect supported_http_methods tag threads wait_for_less_busy_worker worker_boot_timeout
    worker_check_interval worker_culling_strategy worker_shutdown_timeout worker_timeout workers",
);
