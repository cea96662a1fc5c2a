//! The settings of requests: one entry for each combination of listeners and actions that a request can pass through.
//!
//! Made when a configuration is prepared, so that a request finds every setting behind one number. The first entry is that of the whole
//! server, and the only one of most configurations.

use std::sync::Arc;

use tutti_config::model::{self, Config, Http, Pattern, Patterns, Scope, Template};
use tutti_config::table::CASELESS;
use tutti_conn::clock::{Millis, millis};
use tutti_conn::response_buffers::OverflowFile;
use tutti_files::compression::CompressionPolicy;
use tutti_files::mime::MimeTypes;
use tutti_http::websocket::SessionOptions;
use tutti_http::{MessageLimits, PathRules, SlashPolicy};
use tutti_request_log::{AccessLogs, Logs};
use tutti_routing::{Combination, Combinations, ScopeNumber};
use tutti_spool::Spool;

/// Timeouts of `http`, in the units they are used in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// `header_read_timeout`.
    pub(crate) header_read: Millis,
    /// `body_read_timeout`.
    pub(crate) body_read: Millis,
    /// `send_timeout`.
    pub(crate) send: Millis,
    /// `idle_timeout`.
    pub(crate) idle: Millis,
}

/// The settings of a request.
pub(crate) struct RequestSettings {
    /// Limits of its head and its body.
    pub(crate) limits: MessageLimits,
    /// Timeouts for its client.
    pub(crate) timeouts: Timeouts,
    /// `websocket`.
    pub(crate) websocket: SessionOptions,
    /// `Server` has the version.
    pub(crate) shows_version: bool,
    /// `None`: responses are sent as they are.
    pub(crate) compression: Option<CompressionPolicy>,
    /// `gunzip`.
    pub(crate) gunzip: bool,
    /// `max_ranges`.
    pub(crate) max_ranges: usize,
    /// Which clients' request ids are trusted, and where ids are sent.
    pub(crate) request_id: Option<Box<model::RequestId>>,
    /// Which clients get 103.
    pub(crate) early_hints: model::EarlyHints,
    /// `chunked_transform`.
    pub(crate) accepts_chunked: bool,
    /// `response_buffering`.
    response_buffering: u64,
    /// The store for responses to slow clients; set if there is an upstream or an application, and `response_buffering` is not 0.
    pub(crate) store: Option<OverflowFile>,
    /// `None`: it is not written to an access log.
    pub(crate) access_logs: Option<Arc<AccessLogs>>,
    /// Maintenance of the innermost action first; empty: requests are served.
    pub(crate) maintenance: Vec<Arc<model::Maintenance>>,
    /// The character encoding of text.
    pub(crate) charset: Option<Charset>,
    /// The types of files; `None`: those of the server.
    pub(crate) file_types: Option<FileTypes>,
    /// Bytes per second of a response, and the bytes before that.
    pub(crate) limit_rate: Option<(u64, u64)>,
    /// Fields after the body of a response.
    pub(crate) trailers: Vec<(String, Template)>,
    /// Texts to replace in bodies of responses.
    pub(crate) replace: Option<Replacements>,
}

/// `charset` and `charset_types`.
pub(crate) struct Charset {
    /// The name of the encoding.
    pub(crate) name: String,
    /// The types that it is added to.
    pub(crate) types: Patterns,
}

/// `mime_types` and `default_type`.
pub(crate) struct FileTypes {
    /// `None`: the types of the server.
    own: Option<MimeTypes>,
    /// The type of files that have none there.
    default: Option<String>,
}

impl FileTypes {
    /// The type of a file.
    pub(crate) fn of<'t>(&'t self, path: &[u8], of_server: &'t MimeTypes) -> Option<&'t str> {
        let types = self.own.as_ref().unwrap_or(of_server);
        types.of(path).or(self.default.as_deref())
    }
}

/// `replace` and `replace_types`.
pub(crate) struct Replacements {
    /// In the order of the configuration.
    pub(crate) list: Vec<model::Replacement>,
    /// The types of responses that they apply to.
    pub(crate) types: Patterns,
}

impl RequestSettings {
    fn new(config: &Config, combination: &Combination) -> Self {
        let scopes = || {
            let numbers = combination.scopes.iter();
            numbers.filter_map(|number| config.scopes.get(*number))
        };
        let mut http = config.settings.http.clone();
        // The inner one takes precedence.
        for scope in scopes().collect::<Vec<_>>().into_iter().rev() {
            http.take(&scope.http);
        }
        let inner = scopes().filter_map(|scope| scope.maintenance.as_ref());
        let maintenance = inner.chain(&config.settings.maintenance);
        let rate = scopes().find_map(|scope| scope.limit_rate);
        let after = scopes().find_map(|scope| scope.limit_rate_after);
        let rate = rate.filter(|rate| *rate > 0);
        let trailers = scopes().find_map(|scope| scope.trailers.as_ref());
        Self {
            maintenance: maintenance.cloned().map(Arc::new).collect(),
            charset: charset(scopes()),
            file_types: file_types(scopes()),
            limit_rate: rate.map(|rate| (rate, after.unwrap_or(0))),
            trailers: trailers.cloned().unwrap_or_default(),
            replace: replacements(scopes()),
            ..Self::of(http)
        }
    }

    fn of(http: Http) -> Self {
        let (connection, request) = (&http.connection, &http.request);
        Self {
            limits: MessageLimits {
                large_header_buffer_size: connection.large_header_buffer_size,
                large_header_buffers: connection.large_header_buffers,
                discard_unsafe_fields: connection.discard_unsafe_fields,
                max_body_size: request.max_body_size,
                paths: Some(path_rules(&http)),
                ..MessageLimits::default()
            },
            timeouts: Timeouts {
                header_read: millis(connection.header_read_timeout),
                body_read: millis(request.body_read_timeout),
                send: millis(request.send_timeout),
                idle: millis(connection.idle_timeout),
            },
            websocket: SessionOptions {
                max_message: request.websocket.max_frame_size,
                read_timeout: request.websocket.read_timeout.0.map(millis),
                keepalive: request.websocket.keepalive_interval.0.map(millis),
            },
            shows_version: request.server_version,
            early_hints: request.early_hints,
            gunzip: request.gunzip,
            max_ranges: request.max_ranges,
            accepts_chunked: connection.chunked_transform,
            response_buffering: request.response_buffering,
            compression: http
                .compression
                .as_ref()
                .filter(|compression| !compression.compressors.is_empty())
                .map(CompressionPolicy::new),
            request_id: http.request_id.map(Box::new),
            store: None,
            access_logs: None,
            maintenance: Vec::new(),
            charset: None,
            file_types: None,
            limit_rate: None,
            trailers: Vec::new(),
            replace: None,
        }
    }
}

/// The default of `charset_types`.
const CHARSET_TYPES: &[&str] = &[
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "text/javascript",
    "application/javascript",
    "application/rss+xml",
];

/// The default of `replace_types`.
const REPLACE_TYPES: &[&str] = &["text/html"];

fn patterns(given: Option<&Patterns>, default: &[&str]) -> Patterns {
    given.cloned().unwrap_or_else(|| {
        let parsed = default
            .iter()
            .filter_map(|text| Pattern::parse(text, CASELESS).ok());
        Patterns::new(parsed.collect())
    })
}

fn charset<'s>(mut scopes: impl Iterator<Item = &'s Scope> + Clone) -> Option<Charset> {
    let types = scopes
        .clone()
        .find_map(|scope| scope.charset_types.as_ref());
    let name = scopes.find_map(|scope| scope.charset.as_ref())?;
    (!name.is_empty()).then(|| Charset {
        name: name.clone(),
        types: patterns(types, CHARSET_TYPES),
    })
}

fn file_types<'s>(mut scopes: impl Iterator<Item = &'s Scope> + Clone) -> Option<FileTypes> {
    let default = scopes.clone().find_map(|scope| scope.default_type.clone());
    let own = scopes.find_map(|scope| scope.mime_types.as_ref());
    (own.is_some() || default.is_some()).then(|| FileTypes {
        own: own.map(MimeTypes::only),
        default: default.filter(|default| !default.is_empty()),
    })
}

fn replacements<'s>(mut scopes: impl Iterator<Item = &'s Scope> + Clone) -> Option<Replacements> {
    let types = scopes
        .clone()
        .find_map(|scope| scope.replace_types.as_ref());
    let list = scopes.find_map(|scope| scope.replace.as_ref())?;
    (!list.is_empty()).then(|| Replacements {
        list: list.clone(),
        types: patterns(types, REPLACE_TYPES),
    })
}

/// The rules for paths of requests.
fn path_rules(http: &Http) -> PathRules {
    PathRules {
        merge_slashes: http.connection.merge_slashes,
        encoded_slashes: match http.connection.encoded_slashes {
            model::EncodedSlashes::Plain => SlashPolicy::Plain,
            model::EncodedSlashes::Any => SlashPolicy::Any,
            model::EncodedSlashes::Refuse => SlashPolicy::Refuse,
        },
        backslashes: http.connection.backslashes,
        decode_unreserved: http.decode_unreserved,
    }
}

/// The settings of all requests.
pub(crate) struct SettingsTable {
    /// Those of the whole server.
    server: RequestSettings,
    /// The other combinations, in the router's order.
    scoped: Vec<RequestSettings>,
}

impl SettingsTable {
    /// The settings for the combinations of the router.
    pub(crate) fn new(config: &Config, combinations: &Combinations) -> Self {
        let mut all = combinations.iter();
        let of_server = Combination::default();
        let server = all.next().unwrap_or(&of_server);
        Self {
            server: RequestSettings::new(config, server),
            scoped: all.map(|one| RequestSettings::new(config, one)).collect(),
        }
    }

    /// The settings with this number.
    pub(crate) fn get(&self, number: ScopeNumber) -> &RequestSettings {
        match number.index() {
            0 => &self.server,
            index => self.scoped.get(index - 1).unwrap_or(&self.server),
        }
    }

    /// True if listeners and actions have settings of their own.
    pub(crate) fn has_scopes(&self) -> bool {
        !self.scoped.is_empty()
    }

    /// The longest `send_timeout`: a connection with several requests must not be closed before the last of them is given up.
    pub(crate) fn longest_send(&self) -> Millis {
        let inner = self.scoped.iter().map(|one| one.timeouts.send);
        inner.fold(self.server.timeouts.send, u64::max)
    }

    fn each(&mut self) -> impl Iterator<Item = &mut RequestSettings> {
        std::iter::once(&mut self.server).chain(&mut self.scoped)
    }

    /// Lets responses to slow clients wait in this spool, as far as their settings permit it.
    pub(crate) fn set_store(&mut self, spool: &Spool) {
        for one in self.each().filter(|one| one.response_buffering != 0) {
            one.store = Some(OverflowFile {
                spool: spool.clone(),
                most: one.response_buffering,
            });
        }
    }

    /// Sets the access logs, which have been opened.
    pub(crate) fn set_logs(&mut self, config: &Config, combinations: &Combinations, logs: &Logs) {
        for (one, combination) in self.each().zip(combinations.iter()) {
            let numbers = combination.scopes.iter();
            let own = numbers.copied().find(|number| {
                let scope = config.scopes.get(*number);
                scope.is_some_and(|scope| scope.access_logs.is_some())
            });
            one.access_logs = match own {
                Some(scope) => logs.of_scope(scope).cloned(),
                None => logs.access.clone(),
            };
        }
    }
}
