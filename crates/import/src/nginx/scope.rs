//! Settings that a block inherits from the one around it, as nginx's modules merge them.

use serde_json::{Map, Value};

use super::caching::{self, Caches};
use super::changes::{Changes, Delivery};
use super::closing::{self, Closing};
use super::compression::Gzip;
use super::error_page::ErrorPage;
use super::guards::Guards;
use super::place_options;
use super::tree::Statement;
use super::types::Types;
use crate::finding::{Findings, SourceLocation};
use crate::units::{bytes, seconds};

/// A field of `add_header`.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) always: bool,
    pub(super) place: SourceLocation,
}

/// A folder: `root`, or `alias` with the path that it stands at.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) path: String,
    pub(super) is_alias: bool,
    /// For an alias: the path of its location, or `None` where that is a regular expression.
    pub(super) at: Option<String>,
    pub(super) place: SourceLocation,
}

/// A rule of `allow` and `deny`.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) allows: bool,
    /// `all`, `unix:`, an address or a network.
    pub(super) source: String,
    pub(super) place: SourceLocation,
}

impl Rule {
    /// The pattern of `match.source`; `None` for all clients.
    pub(super) fn pattern(&self) -> Option<String> {
        match self.source.as_str() {
            "all" => None,
            "unix:" => Some("unix".to_owned()),
            address => Some(address.to_owned()),
        }
    }
}

/// Proxies that are trusted for the client's address, and where they send it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RealIp {
    /// `set_real_ip_from`; nothing else matters where there is none.
    pub(super) sources: Vec<String>,
    header: Option<String>,
    pub(super) is_recursive: bool,
}

impl RealIp {
    /// The directives of a block within these. Lists are inherited whole or not at all.
    pub(super) fn enter(&self, statements: &[Statement]) -> RealIp {
        let mut inner = self.clone();
        let named = |name: &'static str| {
            let statements = statements.iter();
            statements.filter(move |statement| statement.name() == name)
        };
        if named("set_real_ip_from").next().is_some() {
            let sources = named("set_real_ip_from");
            let source = |one: &Statement| one.argument(0).trim_end_matches(':').to_owned();
            inner.sources = sources.map(source).collect();
        }
        if let Some(header) = named("real_ip_header").next_back() {
            inner.header = Some(header.argument(0).to_owned());
        }
        if let Some(recursive) = named("real_ip_recursive").next_back() {
            inner.is_recursive = recursive.argument(0) == "on";
        }
        inner
    }

    /// True if both take the same address of a client.
    pub(super) fn is_like(&self, other: &RealIp) -> bool {
        let is_same = self.sources == other.sources
            && self.is_recursive == other.is_recursive
            && self.header().eq_ignore_ascii_case(other.header());
        is_same || self.sources.is_empty() && other.sources.is_empty()
    }

    /// The header field with the address, or `proxy_protocol`.
    pub(super) fn header(&self) -> &str {
        self.header.as_deref().unwrap_or("X-Real-IP")
    }
}

/// Settings of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Options of `http` of an action.
    pub(super) http: Map<String, Value>,
    /// Options of an action for its responses.
    pub(super) responses: Map<String, Value>,
    pub(super) delivery: Delivery,
    pub(super) changes: Changes,
    pub(super) gzip: Gzip,
    /// The words of each `access_log`.
    pub(super) logs: Vec<(Vec<String>, SourceLocation)>,
    pub(super) folder: Option<Folder>,
    pub(super) index: Vec<String>,
    pub(super) headers: Vec<Header>,
    pub(super) expires: Option<(String, SourceLocation)>,
    pub(super) access: Vec<Rule>,
    pub(super) real_ip: RealIp,
    /// Directives without which the place would be open: all clients are refused.
    pub(super) closed: Vec<(String, Closing)>,
    /// Clients that the addresses let in need no password.
    pub(super) satisfy_any: bool,
    pub(super) guards: Guards,
    pub(super) caches: Caches,
    pub(super) error_pages: Vec<ErrorPage>,
    /// Errors of servers behind have these pages, too.
    pub(super) intercepts: Option<bool>,
    /// Folders without an index are listed.
    lists: bool,
    is_json_list: bool,
    /// Files that stand beside others, compressed.
    pub(super) precompressed: Vec<&'static str>,
    pub(super) params: Vec<(String, String, SourceLocation)>,
    pub(super) script_index: Option<String>,
    /// `valid_referers`.
    pub(super) referers: Vec<String>,
    /// `secure_link` and `secure_link_md5`.
    pub(super) link: Option<(String, SourceLocation)>,
    pub(super) link_text: Option<(String, SourceLocation)>,
    /// `fastcgi_split_path_info`.
    pub(super) split: Option<(String, SourceLocation)>,
    pub(super) request_headers: Vec<(String, String, SourceLocation)>,
    /// `proxy_set_body`.
    pub(super) request_body: Option<(String, SourceLocation)>,
    /// `proxy_pass_request_body off`
    pub(super) sends_no_body: bool,
    /// `proxy_method`.
    pub(super) request_method: Option<(String, SourceLocation)>,
    /// `proxy_options`.
    pub(super) options: Map<String, Value>,
    pub(super) upstream_tls: Map<String, Value>,
    pub(super) hidden: Vec<String>,
    pub(super) types: Types,
    /// A `charset` with variables.
    pub(super) charset_text: Option<(String, SourceLocation)>,
    pub(super) follow_symlinks: bool,
    /// `slice`: the bytes of each part of a large response.
    pub(super) slice: Option<u64>,
    /// `etag off`.
    pub(super) has_no_etag: bool,
}

impl Scope {
    pub(super) fn outermost() -> Self {
        Scope {
            follow_symlinks: true,
            ..Scope::default()
        }
    }

    /// The settings of a block in this one. Lists of directives are inherited whole or not at all.
    pub(super) fn enter(&self, statements: &[Statement], findings: &mut Findings) -> Scope {
        let mut scope = self.clone();
        let has = |name: &str| statements.iter().any(|statement| statement.name() == name);
        if has("add_header") {
            scope.headers.clear();
        }
        if has("allow") || has("deny") {
            scope.access.clear();
        }
        if has("index") {
            scope.index.clear();
        }
        if has("access_log") {
            scope.logs.clear();
        }
        if has("valid_referers") {
            scope.referers.clear();
        }
        if has("fastcgi_param") || has("uwsgi_param") || has("scgi_param") {
            scope.params.clear();
        }
        if has("proxy_set_header") || has("grpc_set_header") {
            scope.request_headers.clear();
        }
        let hides = |statement: &Statement| statement.name().ends_with("_hide_header");
        if statements.iter().any(hides) {
            scope.hidden.clear();
        }
        if has("error_page") {
            scope.error_pages.clear();
        }
        scope.real_ip = self.real_ip.enter(statements);
        scope.guards.enter(statements);
        scope.delivery.enter(statements);
        scope.changes.enter(statements);
        caching::enter(&mut scope.caches, statements);
        for statement in statements {
            scope.take(statement, findings);
            scope.guards.take(statement, findings);
            scope.types.take(statement);
            scope.delivery.take(statement);
            scope.changes.take(statement);
            caching::take(&mut scope.caches, statement, findings);
        }
        scope
    }

    /// The form of lists of folders, where there are some.
    pub(super) fn listing(&self) -> Option<&'static str> {
        let form = if self.is_json_list { "json" } else { "html" };
        self.lists.then_some(form)
    }

    /// The location `@name` that answers instead of a missing file.
    pub(super) fn not_found(&self) -> Option<&String> {
        self.error_pages.iter().find_map(ErrorPage::not_found)
    }

    fn take(&mut self, statement: &Statement, findings: &mut Findings) {
        if statement.name() == "secure_link" {
            self.link = Some((statement.argument(0).to_owned(), statement.place.clone()));
            return;
        }
        if let Some((closing, problem, hint)) = closing::closes(statement) {
            self.closed.push((statement.name().to_owned(), closing));
            findings.lost(&statement.place, statement.name(), problem, hint);
            return;
        }
        // Inherited values are taken back.
        self.closed.retain(|(closed, _)| closed != statement.name());
        let place = statement.place.clone();
        let first = statement.argument(0);
        let pair = || {
            (
                first.to_owned(),
                statement.argument(1).to_owned(),
                place.clone(),
            )
        };
        match statement.name() {
            "root" | "alias" => {
                self.folder = Some(Folder {
                    path: first.to_owned(),
                    is_alias: statement.name() == "alias",
                    at: None,
                    place,
                });
            }
            "satisfy" => self.satisfy_any = first == "any",
            "index" => self.index.extend_from_slice(statement.arguments()),
            "add_header" => self.headers.push(Header {
                name: first.to_owned(),
                value: statement.argument(1).to_owned(),
                always: statement.argument(2) == "always",
                place,
            }),
            "expires" => self.expires = Some((statement.arguments().join(" "), place)),
            "allow" | "deny" => self.access.push(Rule {
                allows: statement.name() == "allow",
                source: first.to_owned(),
                place,
            }),
            "error_page" => self
                .error_pages
                .extend(ErrorPage::read(statement, findings)),
            "proxy_intercept_errors"
            | "fastcgi_intercept_errors"
            | "uwsgi_intercept_errors"
            | "scgi_intercept_errors"
            | "grpc_intercept_errors" => {
                self.intercepts = Some(first == "on");
            }
            "autoindex" | "autoindex_format" => self.lists(statement, findings),
            "gzip_static" | "brotli_static" | "zstd_static" => self.beside(statement, findings),
            "fastcgi_param" | "uwsgi_param" | "scgi_param" => self.params.push(pair()),
            "valid_referers" => self.referers.extend_from_slice(statement.arguments()),
            "secure_link_md5" => self.link_text = Some((first.to_owned(), place)),
            "fastcgi_split_path_info" => self.split = Some((first.to_owned(), place)),
            "fastcgi_index" => self.script_index = Some(first.to_owned()),
            "proxy_method" => self.request_method = Some((first.to_owned(), place)),
            "proxy_pass_request_body" => self.sends_no_body = first == "off",
            "proxy_set_body" => self.request_body = Some((first.to_owned(), place)),
            "proxy_set_header" | "grpc_set_header" => self.request_headers.push(pair()),
            "proxy_hide_header"
            | "fastcgi_hide_header"
            | "uwsgi_hide_header"
            | "scgi_hide_header"
            | "grpc_hide_header" => self.hidden.push(first.to_owned()),
            "disable_symlinks" => self.follow_symlinks = first == "off",
            "gzip" | "gzip_comp_level" | "gzip_min_length" | "gzip_types" => {
                self.gzip.take(statement);
            }
            "access_log" => self.logs.push((statement.arguments().to_vec(), place)),
            "slice" => self.slice = bytes(first).filter(|bytes| *bytes > 0),
            "etag" => self.has_no_etag = first == "off",
            name => self.option(name, first, statement, findings),
        }
    }

    /// Takes a directive that `proxy_options` has.
    fn option(&mut self, name: &str, value: &str, statement: &Statement, findings: &mut Findings) {
        if let Some((option, value)) = place_options::of_place(name, value) {
            self.http.insert(option.to_owned(), value);
            return;
        }
        if name == "charset" {
            let text = (value.to_owned(), statement.place.clone());
            self.charset_text = value.contains('$').then_some(text);
            if self.charset_text.is_some() {
                self.responses.insert(name.to_owned(), false.into());
                return;
            }
        }
        if place_options::IS_OF_RESPONSES.contains(name) {
            match place_options::of_responses(name, statement.arguments()) {
                Some(value) => drop(self.responses.insert(name.to_owned(), value)),
                None => findings.lost(
                    &statement.place,
                    name,
                    &format!("`{value}` is not the same for all requests"),
                    "write a step with the condition and the value of each case",
                ),
            }
            return;
        }
        let gateway = ["proxy_", "fastcgi_", "uwsgi_", "scgi_", "grpc_"];
        let Some(rest) = gateway.iter().find_map(|prefix| name.strip_prefix(prefix)) else {
            return;
        };
        match rest {
            "connect_timeout" | "send_timeout" | "read_timeout" => match seconds(value) {
                Some(seconds) => {
                    self.options.insert(rest.to_owned(), seconds.into());
                }
                None => findings.lost(
                    &statement.place,
                    name,
                    &format!("`{value}` is not a time"),
                    "write seconds, or `60s`, `5m`",
                ),
            },
            "buffering" | "request_buffering" => {
                self.options
                    .insert(rest.to_owned(), (value != "off").into());
            }
            "ssl_verify" => {
                self.upstream_tls
                    .insert("verify".to_owned(), (value == "on").into());
            }
            "ssl_trusted_certificate" => {
                self.upstream_tls.insert("ca".to_owned(), value.into());
            }
            "ssl_name" => {
                self.upstream_tls
                    .insert("server_name".to_owned(), value.into());
            }
            "http_version" if name == "proxy_http_version" => {
                // Versions of HTTP/1 are chosen by themselves.
                match value.starts_with('2') {
                    true => drop(self.options.insert(rest.to_owned(), 2.into())),
                    false => drop(self.options.remove(rest)),
                }
            }
            "next_upstream" | "next_upstream_tries" | "next_upstream_timeout" => {
                self.next_server(rest, statement, findings);
            }
            _ => {}
        }
    }

    /// `autoindex` and its form.
    fn lists(&mut self, statement: &Statement, findings: &mut Findings) {
        let first = statement.argument(0);
        match (statement.name(), first) {
            ("autoindex", _) => self.lists = first == "on",
            (_, "json") => self.is_json_list = true,
            (_, "html") => self.is_json_list = false,
            _ => findings.lost(
                &statement.place,
                statement.name(),
                &format!("lists are available as HTML or JSON, not `{first}`"),
                "choose one in `listing` of a `share`",
            ),
        }
    }

    /// Files that stand beside others, compressed.
    fn beside(&mut self, statement: &Statement, findings: &mut Findings) {
        let encoding = match statement.name() {
            "brotli_static" => "br",
            "zstd_static" => "zstd",
            _ => "gzip",
        };
        self.precompressed.retain(|known| *known != encoding);
        match statement.argument(0) {
            "off" => return,
            "always" => findings.lost(
                &statement.place,
                statement.name(),
                "clients that do not accept such a file get the plain one, or 404",
                "keep the plain files next to the compressed ones",
            ),
            _ => {}
        }
        self.precompressed.push(encoding);
    }
}
