//! Options of `settings` and `access_log`.

use tutti_options::table::{CASELESS, Kind, Names, Object, Text, opt};

/// Longest time an option can tell: 68 years.
const MAX_SECONDS: i64 = 0x7fff_ffff;
/// The most router threads a transport segment knows (`spec/wire.md`).
const MAX_THREADS: i64 = 256;
/// Largest buffer.
const MAX_BUFFER: i64 = 1 << 30;
/// Up to a terabyte.
const RESPONSE_BYTES: Kind = Kind::Size(0, 1 << 40);

/// `settings`.
pub static SETTINGS: Object = Object {
    name: "settings",
    summary: "Settings of the whole server",
    options: &[&[
        opt("http", Kind::Object(&HTTP), "How HTTP requests are handled"),
        opt(
            "resolver",
            Kind::Object(&RESOLVER),
            "How names of servers in upstreams and `proxy` are looked up",
        )
        .beyond(),
        opt(
            "listen_threads",
            Kind::Integer(1, MAX_THREADS),
            "Threads that handle connections; as many as there are CPUs unless given",
        )
        .unit("threads"),
        opt(
            "js_module",
            Kind::OneOf(&[
                Kind::String(Text::Reference),
                Kind::Array(&Kind::String(Text::Reference)),
            ]),
            "Script modules of `/js_modules` that templates may use, each by its name",
        ),
        opt(
            "telemetry",
            Kind::Object(&TELEMETRY),
            "OpenTelemetry traces: one span for each request",
        ),
    ]],
    exactly_one: &[],
};

/// `settings.resolver`.
pub static RESOLVER: Object = Object {
    name: "resolver",
    summary: "How names of servers are looked up. `/etc/hosts` goes first",
    options: &[&[
        opt(
            "servers",
            Kind::OneOf(&[
                Kind::String(Text::NameServer),
                Kind::Array(&Kind::String(Text::NameServer)),
            ]),
            "Name servers, `ADDRESS` or `ADDRESS:PORT`; without, those of `/etc/resolv.conf`",
        ),
        opt(
            "timeout",
            Kind::Number(0.001, 3600.0),
            "How long a name server has to answer; each is asked twice",
        )
        .default("2")
        .unit("seconds"),
        opt(
            "min_ttl",
            Kind::Number(0.1, 31_536_000.0),
            "Shortest time an answer is used, whatever it says",
        )
        .default("1")
        .unit("seconds"),
        opt(
            "max_ttl",
            Kind::Number(0.1, 31_536_000.0),
            "Longest time an answer is used, whatever it says; that of `/etc/hosts` always is",
        )
        .default("300")
        .unit("seconds"),
    ]],
    exactly_one: &[],
};

/// `settings.http`.
pub static HTTP: Object = Object {
    name: "http",
    summary: "How HTTP requests are handled",
    options: &[&[
        opt("header_read_timeout", Kind::Integer(0, MAX_SECONDS), "Time for a client to send the whole head; else 408")
            .default("30")
            .unit("seconds"),
        opt("body_read_timeout", Kind::Integer(0, MAX_SECONDS), "Time between two parts of a body; else 408")
            .default("30")
            .unit("seconds"),
        opt("send_timeout", Kind::Integer(0, MAX_SECONDS), "Time between two parts of a response that a client takes")
            .default("30")
            .unit("seconds"),
        opt("idle_timeout", Kind::Integer(0, MAX_SECONDS), "Time between two requests of a connection")
            .default("180")
            .unit("seconds"),
        opt(
            "drain_timeout",
            Kind::Integer(0, MAX_SECONDS),
            "Time for what connections have begun, once the server stops gracefully or an upgrade has replaced it; 0: any. Without it ten seconds at a stop, an hour after an upgrade. Applications have `limits.drain_timeout`",
        ).beyond()
        .unit("seconds"),
        opt("max_body_size", Kind::Size(0, i64::MAX), "Largest body of a request; else 413").default("8388608").unit("bytes"),
        opt("body_buffer_size", Kind::Size(0, MAX_BUFFER), "Bodies up to this size stay in memory").default("16384").unit("bytes"),
        opt("body_temp_path", Kind::String(Text::Path), "Folder for larger bodies, and for answers that wait for slow clients; without it that of `--tmpdir`"),
        opt(
            "response_buffering",
            RESPONSE_BYTES,
            "Bytes of answers of applications and proxied servers that wait on disk for one slow client, so that it holds no worker; 0: \
             none. The file has no name, is in the folder of `--tmpdir`, and takes half of what is free there at most",
        ).beyond()
        .default("1073741824")
        .unit("bytes"),
        opt("header_buffer_size", Kind::Size(1, MAX_BUFFER), "First buffer for a head").default("2048").unit("bytes"),
        opt("large_header_buffer_size", Kind::Size(1, MAX_BUFFER), "Each further buffer for a large head")
            .default("8192")
            .unit("bytes"),
        opt("large_header_buffers", Kind::Integer(1, 1024), "Number of further buffers; a larger head gets 431")
            .default("4")
            .unit("buffers"),
        opt(
            "discard_unsafe_fields",
            Kind::Boolean,
            "Leave out header fields whose names have other characters than letters, digits and hyphens",
        )
        .default("true"),
        opt("log_route", Kind::Boolean, "Log which steps a request takes").default("false"),
        opt("server_version", Kind::Boolean, "Tell the version in the `Server` field").default("true"),
        opt("chunked_transform", Kind::Boolean, "Accept bodies of unknown length (`chunked`); else they get 411")
            .default("true"),
        opt("static", Kind::Object(&STATIC), "How files are served"),
        opt("compression", Kind::Object(&COMPRESSION), "Compression of responses"),
        opt("websocket", Kind::Object(&WEBSOCKET), "Limits of WebSocket connections"),
    ]],
    exactly_one: &[],
};

static STATIC: Object = Object {
    name: "static",
    summary: "How files are served",
    options: &[&[opt(
        "mime_types",
        Kind::Map(
            Names::MimeType,
            &Kind::OneOf(&[
                Kind::String(Text::NotEmpty),
                Kind::Array(&Kind::String(Text::NotEmpty)),
            ]),
        ),
        "File name extensions (`.html`) or file names of MIME types, added to the built-in ones",
    )]],
    exactly_one: &[],
};

/// `settings.http.compression`.
pub static COMPRESSION: Object = Object {
    name: "compression",
    summary: "Compression of responses",
    options: &[&[
        opt(
            "types",
            Kind::OneOf(&[
                Kind::String(Text::Pattern(CASELESS)),
                Kind::Array(&Kind::String(Text::Pattern(CASELESS))),
            ]),
            "MIME types to compress; without it text, JSON, XML, JavaScript, WebAssembly, SVG and uncompressed fonts and bitmaps",
        ),
        opt(
            "compressors",
            Kind::OneOf(&[
                Kind::Object(&COMPRESSOR),
                Kind::Array(&Kind::Object(&COMPRESSOR)),
            ]),
            "Methods, the preferred one first",
        ),
    ]],
    exactly_one: &[],
};

/// One of `compression.compressors`.
pub static COMPRESSOR: Object = Object {
    name: "compressor",
    summary: "A method of compression",
    options: &[&[
        opt(
            "encoding",
            Kind::String(Text::Word(&["gzip", "deflate", "zstd", "br"])),
            "The method",
        )
        .required(),
        opt(
            "level",
            Kind::Integer(-7, 22),
            "How hard to try: gzip and deflate 1 to 9, usually 6; zstd -7 to 22, usually 3; br 0 to 11, usually 4",
        ),
        opt(
            "min_length",
            Kind::Size(0, i64::MAX),
            "Shorter responses are not compressed; one whose length is not known is",
        )
        .default("0")
        .unit("bytes"),
    ]],
    exactly_one: &[],
};

/// `settings.http.websocket`.
pub static WEBSOCKET: Object = Object {
    name: "websocket",
    summary: "Limits of WebSocket connections",
    options: &[&[
        opt(
            "max_frame_size",
            Kind::Size(0, i64::MAX),
            "Longest message of a client, over all its frames; else 1009",
        )
        .default("1048576")
        .unit("bytes"),
        opt(
            "read_timeout",
            Kind::Integer(0, MAX_SECONDS),
            "Silence, pongs included, after which a connection is closed; 0: never",
        )
        .default("60")
        .unit("seconds"),
        opt(
            "keepalive_interval",
            Kind::Integer(0, MAX_SECONDS),
            "Silence after which a client is pinged; 0: never",
        )
        .default("30")
        .unit("seconds"),
    ]],
    exactly_one: &[],
};

/// `settings.telemetry`.
pub static TELEMETRY: Object = Object {
    name: "telemetry",
    summary: "OpenTelemetry traces",
    options: &[&[
        opt(
            "endpoint",
            Kind::String(Text::NotEmpty),
            "URL of the collector, `http://` or `https://`; over HTTP, without a path, `/v1/traces` is added",
        )
        .required(),
        opt(
            "protocol",
            Kind::String(Text::Word(&["http", "https", "grpc"])),
            "How to speak to it: OTLP over HTTP or over gRPC",
        )
        .required(),
        opt(
            "batch_size",
            Kind::Integer(1, 65_536),
            "Spans that are sent at once, at the latest after two seconds",
        )
        .default("512")
        .unit("spans"),
        opt(
            "sampling_ratio",
            Kind::Number(0.0, 1.0),
            "Part of the requests that is traced, of those that do not come with a `traceparent` that decides it",
        )
        .default("1"),
    ]],
    exactly_one: &[],
};

/// `access_log` in its long form.
pub static ACCESS_LOG: Object = Object {
    name: "access_log",
    summary: "The file that gets a line for each request, and what is in it",
    options: &[&[
        opt("path", Kind::String(Text::Path), "The file").required(),
        opt(
            "format",
            Kind::OneOf(&[
                Kind::String(Text::TemplateOrEmpty),
                Kind::Map(Names::Any, &Kind::String(Text::TemplateOrEmpty)),
            ]),
            "A line, with variables; or an object, for a line of JSON",
        )
        .default(concat!(
            r#""$remote_addr - - [$time_local] \"$request_line\" $status $body_bytes_sent "#,
            r#"\"$header_referer\" \"$header_user_agent\"""#
        )),
        opt(
            "if",
            Kind::String(Text::Condition),
            "Log only requests for which this is not empty, `0`, `false`, `null` or `undefined`",
        ),
    ]],
    exactly_one: &[],
};
