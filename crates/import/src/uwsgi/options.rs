//! The options of uWSGI, and of its plugins for HTTP and for languages (`uwsgi --help`).

use crate::words::Words;

/// The options.
pub(crate) const OPTIONS: Words = Words(
    "
    abstract-socket add-cache-item add-gid add-header after-request-call after-request-hook alarm
    alarm-backlog alarm-cheap alarm-fd alarm-freq alarm-list alarm-listen-queue alarm-log alarm-lq
    alarm-metric alarm-msg-size alarm-segfault alarms-list allowed-modifiers async asyncio
    attach-control-daemon attach-daemon attach-daemon2 auto-procname auto-weight autoload backlog-alarm
    backtrace-depth binary-append-data binary-path binsh blacklist body-read-warning brutal-reload-on-fd
    buffer-size build-plugin cache cache-blocksize cache-expire-freq cache-no-expire cache-report-freed-items
    cache-store cache-store-sync cache-sync cache-udp-node cache-udp-server cache-use-last-modified cache2
    call-as-emperor call-as-emperor1 call-as-emperor2 call-as-emperor4 call-as-root call-as-user
    call-as-user-atexit call-as-vassal call-as-vassal1 call-as-vassal3 call-asap call-in-jail call-post-app
    call-post-jail call-pre-app call-pre-jail callable cap catch-exceptions cflags cgi cgi-allowed-ext
    cgi-helper cgi-index cgi-map-helper cgi-mode cgroup cgroup-dir-mode cgroup-opt chdir chdir2 cheap cheaper
    cheaper-algo cheaper-algo-list cheaper-algos-list cheaper-initial cheaper-list cheaper-overload
    cheaper-rss-limit-hard cheaper-rss-limit-soft cheaper-step check-cache check-interval check-mount
    check-mountpoint check-static check-static-docroot chmod chmod-socket chown-socket chroot
    chunked-input-limit chunked-input-timeout clock clock-list clocks-list close-on-exec close-on-exec2
    collect-header command-mode config config-py connect-and-read cpu-affinity cron cron-harakiri cron-legion
    cron2 daemonize daemonize2 daemons-honour-stdin declare-option declare-option2 del-header die-on-idle
    die-on-term disable-logging disable-sendfile disable-write-exception dlopen dot-h drop-after-apps
    drop-after-init dump-options early-emperor early-envdir emperor emperor-broodlord emperor-cap
    emperor-curse-tolerance emperor-extra-ext emperor-extra-extension emperor-freq emperor-graceful-shutdown
    emperor-magic-exec emperor-max-throttle emperor-no-blacklist emperor-nofollow emperor-on-demand-dir
    emperor-on-demand-directory emperor-on-demand-exec emperor-on-demand-ext emperor-on-demand-extension
    emperor-pg emperor-pidfile emperor-procname emperor-proxy-socket emperor-required-heartbeat emperor-stats
    emperor-stats-server emperor-throttle emperor-tyrant emperor-tyrant-nofollow emperor-use-clone
    emperor-wrapper emperor-wrapper-fallback emperor-wrapper-override enable-metrics enable-proxy-protocol
    enable-threads end-blacklist end-for end-if end-whitelist endfor endif env envdir error-page-403
    error-page-404 error-page-500 error-route error-route-host error-route-if error-route-if-not
    error-route-label error-route-qs error-route-referer error-route-remote-addr error-route-remote-user
    error-route-run error-route-status error-route-uri error-route-user-agent eval evil-reload-on-as
    evil-reload-on-rss exception-handler exec-as-emperor exec-as-root exec-as-user exec-as-user-atexit
    exec-as-vassal exec-asap exec-in-jail exec-post-app exec-post-jail exec-pre-app exec-pre-jail exit
    exit-on-reload extract fallback-config farm fastcgi-modifier1 fastcgi-modifier2 fastcgi-nph-socket
    fastcgi-socket fastrouter fd-safe file file-serve-mode file-write fileserve-mode final-route
    final-route-host final-route-if final-route-if-not final-route-label final-route-qs final-route-referer
    final-route-remote-addr final-route-remote-user final-route-run final-route-status final-route-uri
    final-route-user-agent flock flock-wait flock-wait2 flock2 for for-glob for-readline for-times force-cwd
    force-gateway forkbomb-delay freebind fs-brutal-reload fs-reload fs-signal ftok gemset get gevent
    gevent-monkey-patch gid greenlet harakiri harakiri-no-arh harakiri-verbose heartbeat help home
    honour-range honour-stdin hook-accepting hook-accepting-once hook-accepting1 hook-accepting1-once
    hook-as-emperor hook-as-gateway hook-as-mule hook-as-root hook-as-user hook-as-user-atexit hook-as-vassal
    hook-asap hook-emperor-lost hook-emperor-reload hook-emperor-start hook-emperor-stop hook-in-jail
    hook-master-start hook-post-app hook-post-fork hook-post-jail hook-pre-app hook-pre-jail hook-touch http
    http-auto-chunked http-auto-gzip http-backend-http http-buffer-size http-cheap http-chunked-input
    http-connect-timeout http-enable-proxy-protocol http-events http-gid http-headers-timeout http-keepalive
    http-manage-expect http-manage-rtsp http-manage-source http-modifier1 http-modifier2 http-processes
    http-raw-body http-resubscribe http-server-name-as-http-host http-socket http-socket-modifier1
    http-socket-modifier2 http-socket-password http-stats http-stats-server http-timeout http-to http-uid
    http-var http-websockets http-workers http11-socket http2 https https-export-cert https-session-context
    https-socket https-socket-modifier1 https-socket-modifier2 https2 idle if-dir if-directory if-env
    if-exists if-file if-hostname if-hostname-match if-not-dir if-not-env if-not-exists if-not-file
    if-not-hostname if-not-hostname-match if-not-opt if-not-plugin if-not-reload if-opt if-plugin if-reload
    ifdir ifenv ifexists ifplugin ignore-script-name ignore-sigpipe ignore-write-errors immediate-gid
    immediate-uid imperial-monitor-list imperial-monitors-list include inherit ini inject-after inject-before
    iprint jailed js json ksm lazy lazy-apps legion legion-attach-daemon legion-cron legion-death
    legion-death-on-lord-error legion-freq legion-join legion-lord legion-mcast legion-node legion-node-joined
    legion-node-left legion-quorum legion-scroll legion-scroll-list-max-size legion-scroll-max-size
    legion-setup legion-skew-tolerance legion-smart-attach-daemon legion-smart-attach-daemon2 legion-tolerance
    legion-unlord limit-as limit-nproc limit-post listen listen-queue-alarm load-file-in-cache
    load-file-in-cache-gzip lock-engine locks log-4xx log-5xx log-alarm log-backupname log-big log-date
    log-drain log-encoder log-filter log-format log-format-strftime log-ioerror log-master log-master-bufsize
    log-master-req-stream log-master-stream log-maxsize log-micros log-prefix log-reopen log-req-encoder
    log-req-route log-route log-sendfile log-slow log-socket log-syslog log-truncate log-x-forwarded-for
    log-zero logdate logfile-chmod logfile-chown logformat logformat-strftime logger logger-list logger-req
    loggers-list logto logto2 loop loop-list loops-list lq-alarm lua manage-script-name map-socket master
    master-as-root master-fifo max-apps max-fd max-requests max-vars max-worker-lifetime
    max-worker-lifetime-delta mem-collector-freq memory-report metric metric-alarm metric-dir
    metric-dir-restore metric-threshold metrics-dir metrics-dir-restore metrics-no-cores mime-file mimefile
    min-worker-lifetime mode module mount mount-as-emperor mount-as-root mount-as-vassal mount-asap
    mount-check mount-in-jail mount-post-jail mount-pre-jail mountpoint-check mule mule-harakiri mule-msg-size
    mule-reload-mercy mules multicast multicast-loop multicast-ttl namespace namespace-keep-mount
    namespace-net need-app need-plugin need-plugins never-swap no-default-app no-defer-accept no-fd-passing
    no-harakiri-after-req-hook no-harakiri-arh no-initgroups no-orphans no-server no-threads-wait
    not-alarm-log not-log-alarm notify-socket ns ns-net offload-thread offload-threads optimize paste
    paste-logger pause pcre-jit pecan pep3333-input perl-args perl-auto-reload perl-local-lib perl-no-plack
    perl-version persistent-ipcsem php-allowed-docroot php-allowed-ext php-allowed-script php-app php-docroot
    php-index php-ini php-set pidfile pidfile2 pivot pivot-root plshell plugin plugin-dir plugin-list plugins
    plugins-dir plugins-list post-buffering post-buffering-bufsize post-pymodule-alias pp print print-sym
    print-symbol prio privileged-binary-patch privileged-binary-patch-arg processes procname procname-append
    procname-master procname-prefix procname-prefix-spaced profiler propagate-touch protocol psgi
    psgi-enable-psgix-io pull-header pump puwsgi-socket py-auto-reload py-autoreload py-tracebacker pyargv
    pyhome pyimport pymodule-alias pyshell python-autoreload python-import python-path python-worker-override
    pythonpath queue queue-blocksize queue-store queue-store-sync rack rails raw-modifier1 raw-modifier2
    raw-socket rawrouter rb-require rb-threads rbrequire rbshell rbtimer re-fork re-fork-as-root
    re-fork-post-jail reaper refork refork-as-root refork-post-jail reload reload-mercy reload-on-as
    reload-on-exception reload-on-exception-repr reload-on-exception-type reload-on-exception-value
    reload-on-fd reload-on-rss reload-os-env rem-header remap-modifier req-logger resolve
    response-header-collect response-headers-limit response-route response-route-host response-route-if
    response-route-if-not response-route-label response-route-qs response-route-referer
    response-route-remote-addr response-route-remote-user response-route-run response-route-status
    response-route-uri response-route-user-agent resume reuse-port route route-host route-if route-if-not
    route-label route-qs route-referer route-remote-addr route-remote-user route-run route-uri
    route-user-agent router-list routers-list rpc-max ruby-gemset rvm safe-fd safe-pidfile safe-pidfile2
    scgi-modifier1 scgi-modifier2 scgi-nph-socket scgi-socket segfault-alarm set set-ph set-placeholder setns
    setns-preopen setns-skip setns-socket setns-socket-skip shared-pyimport shared-socket sharedarea
    show-config shutdown-sockets signal signal-bufsize signal-rbtimer signal-timer signals-bufsize
    single-interpreter skip-atexit skip-atexit-teardown skip-zero smart-attach-daemon smart-attach-daemon2 sni
    sni-dir sni-dir-ciphers sni-regexp snmp snmp-community so-keepalive so-send-timeout so-write-timeout
    socket socket-protocol socket-rcvbuf socket-send-timeout socket-sndbuf socket-timeout socket-write-timeout
    spooler spooler-chdir spooler-external spooler-freq spooler-frequency spooler-harakiri spooler-import
    spooler-max-tasks spooler-ordered spooler-processes spooler-quiet ssl-enable-sslv3 ssl-enable-tlsv1
    ssl-enable3 ssl-option ssl-socket ssl-tmp-dir ssl-verbose ssl-verify-depth sslrouter st start-unsubscribed
    static-cache-paths static-cache-paths-name static-check static-expires static-expires-mtime
    static-expires-path-info static-expires-path-info-mtime static-expires-type static-expires-type-mtime
    static-expires-uri static-expires-uri-mtime static-gzip static-gzip-all static-gzip-dir static-gzip-ext
    static-gzip-prefix static-gzip-suffix static-index static-map static-map2 static-safe static-skip-ext
    stats stats-http stats-min stats-minified stats-no-cores stats-no-metrics stats-push
    stats-pusher-default-freq stats-pushers-default-freq stats-server stop strict subscribe subscribe-freq
    subscribe-to subscribe-with-modifier1 subscribe2 subscription-algo subscription-dotsplit
    subscription-notify-socket subscription-tolerance subscriptions-credentials-check subscriptions-sign-check
    subscriptions-sign-check-tolerance subscriptions-sign-skip-uid subscriptions-use-credentials suspend
    suwsgi-socket symimport tcp-fast-open tcp-fast-open-client tcp-fastopen tcp-fastopen-client tcp-nodelay
    thread-stack-size thread-stacksize threaded-logger threads threads-stack-size threads-stacksize
    thunder-lock timer tornado touch-chain-reload touch-exec touch-logreopen touch-logrotate
    touch-mules-reload touch-reload touch-signal touch-spoolers-reload touch-workers-reload udp ugreen uid
    umask umount-as-emperor umount-as-root umount-as-vassal umount-asap umount-in-jail umount-post-jail
    umount-pre-jail undeferred-shared-socket unenv unique-cron unique-cron-legion unique-legion-cron
    unprivileged-binary-patch unprivileged-binary-patch-arg unshare unshare2 unsubscribe-on-graceful-reload
    upload-progress usage use-abort uwsgi-socket vacuum vassal-cap vassal-set vassal-sos vassal-sos-backlog
    vassals-cap vassals-include vassals-include-before vassals-inherit vassals-inherit-before vassals-set
    vassals-start-hook vassals-stop-hook venv version vhost vhost-host virtualenv wait-for-dir wait-for-file
    wait-for-fs wait-for-fs-timeout wait-for-iface wait-for-iface-timeout wait-for-interface
    wait-for-interface-timeout wait-for-mountpoint wait-for-socket wait-for-socket-timeout wait-iface
    wait-iface-timeout wait-interface wait-interface-timeout web3 websocket-max-size websocket-ping-freq
    websocket-pong-tolerance websockets-max-size websockets-ping-freq websockets-pong-tolerance weight
    whitelist worker-exec worker-exec2 worker-mount worker-reload-mercy workers write-errors-exception-only
    write-errors-tolerance wsgi wsgi-accept-buffer wsgi-env-behaviour wsgi-file wsgi-lite wsgi-strict xml
    xmlconfig yaml yml zerg zerg-fallback zerg-server
    ",
);
