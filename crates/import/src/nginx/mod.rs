//! nginx: files → statements → listeners, routes, applications and upstreams.
//!
//! A `server` becomes a route, a `location` a step in it, in the order in which nginx would find it; a location that needs more than
//! one step gets a route of its own. `tests/real/imports` replays requests against nginx and Tutti.

mod cache;
mod caching;
mod changes;
mod clients;
pub(crate) mod closing;
mod compression;
mod condition;
mod content;
mod delivery;
mod error_page;
mod gateway;
mod guards;
mod harmless_directives;
mod if_block;
mod index_file;
mod kept;
mod limits;
mod links;
mod listen;
mod location;
mod log_format;
mod logs;
mod maps;
mod outcomes;
mod pages;
mod place_options;
mod places;
mod protect;
mod proxy;
mod query;
mod redirects;
mod rewrite;
mod scope;
mod server;
mod settings;
mod site;
mod stream;
mod stream_choice;
mod stream_fates;
mod text_type;
pub(crate) mod tree;
mod types;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clients::Host;
use scope::Scope;
use serde_json::Value;
use site::{Compiler, Site};
use tree::Statement;
use tutti_config::pattern::Case;
use variables::Meaning;

use crate::finding::UnreadableSource;
use crate::finding::{Findings, SourceLocation};
use crate::fpm::{self, Pool};
use crate::ini;
use crate::output::Output;
use crate::sources::{self, Sources};
use crate::template::Text;

/// Reads nginx's files, and pools of PHP-FPM among them.
pub(crate) fn import(
    files: &[PathBuf],
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Value, UnreadableSource> {
    let (mut main, mut http, mut streams) = (Vec::new(), Vec::new(), Vec::new());
    let mut has_main = false;
    let mut pools: Vec<Pool> = Vec::new();
    for path in files {
        let (name, text) = sources::text(path, sources)?;
        if ini::looks_like(&text) {
            pools.extend(fpm::pools(&ini::parse(&name, &text)?, sources)?);
        } else {
            // The file of a site has no `http` around it.
            let statements = tree::read(path, sources, findings)?;
            let has = |name: &str| statements.iter().any(|one| one.name() == name);
            let (has_http, has_stream) = (has("http"), has("stream"));
            has_main |= has_http;
            for statement in statements {
                match statement.name() {
                    "http" => http.extend(statement.block.unwrap_or_default()),
                    "stream" => streams.extend(statement.block.unwrap_or_default()),
                    _ if has_http || has_stream => main.push(statement),
                    _ => http.push(statement),
                }
            }
        }
    }
    let mut compiler = Compiler {
        out: Output::default(),
        findings,
        pools,
        rewritten: BTreeMap::new(),
        depth: 0,
        variants: 0,
        formats: log_format::LogFormat::all(&http),
        address_maps: BTreeSet::new(),
        groups: BTreeMap::new(),
        sources,
        folder: folder(files),
        zones: guards::Zone::all(&http),
        maps: BTreeMap::new(),
        types: BTreeMap::new(),
        responses: serde_json::Map::new(),
        has_logs_of_servers: false,
        has_replaced_answers: false,
        page_routes: BTreeMap::new(),
        stores: BTreeMap::new(),
        places: Vec::new(),
        around: Vec::new(),
    };
    closing::report_main(&main, compiler.findings);
    for statement in main.iter().filter(|one| one.name() == "events") {
        closing::report_main(statement.inner(), compiler.findings);
    }
    let http = in_server(http, compiler.findings);
    compiler.report_outside(&http);
    compiler.http(&http, has_main);
    compiler.stream(&streams);
    if compiler.out.listeners.is_empty()
        && compiler.findings.is_whole()
        && let Some(file) = files.first()
    {
        let place = SourceLocation {
            file: file.display().to_string().into(),
            line: 1,
        };
        let problem = "there is no `server` in it: nothing is carried over";
        let hint = "pass the main file, `/etc/nginx/nginx.conf`, or the file of a site";
        compiler.findings.lost(&place, "server", problem, hint);
    }
    Ok(compiler.out.into_json())
}

/// Puts a `server` around the directives of a file that is included in one: locations without a server.
fn in_server(statements: Vec<Statement>, findings: &mut Findings) -> Vec<Statement> {
    let has = |name: &str| statements.iter().any(|statement| statement.name() == name);
    let (true, Some(first)) = (has("location") && !has("server"), statements.first()) else {
        return statements;
    };
    let place = first.place.clone();
    let problem = "it is outside of a `server`: it becomes a server on port 80";
    let hint = "pass the file with the `server` that includes this one";
    findings.lost(&place, first.name(), problem, hint);
    let is_of_http = |statement: &Statement| {
        matches!(
            statement.name(),
            "upstream" | "map" | "geo" | "split_clients" | "log_format"
        ) || statement.name().ends_with("_zone")
            || statement.name().ends_with("_cache_path")
    };
    let (mut http, inside): (Vec<_>, Vec<_>) = statements.into_iter().partition(is_of_http);
    http.push(Statement {
        place,
        words: vec!["server".to_owned()],
        block: Some(inside),
    });
    http
}

/// The folder of the main file; that of Debian, if only files of sites are given.
fn folder(files: &[PathBuf]) -> PathBuf {
    let main = files
        .iter()
        .find(|path| path.file_name().is_some_and(|name| name == "nginx.conf"));
    let folder = main.and_then(|path| path.parent());
    folder.map_or_else(|| PathBuf::from("/etc/nginx"), PathBuf::from)
}

impl Compiler<'_> {
    /// Reports directives of servers and locations that stand outside of a server.
    fn report_outside(&mut self, http: &[Statement]) {
        const INSIDE: crate::words::Words = crate::words::Words(
            "location if return rewrite break set try_files listen server_name alias internal limit_except
            proxy_pass fastcgi_pass uwsgi_pass scgi_pass grpc_pass",
        );
        for statement in http.iter().filter(|one| INSIDE.contains(one.name())) {
            let problem = "it is outside of a `server`, so no request reaches it";
            let hint = "pass the file with the `server` that includes this one";
            self.findings
                .lost(&statement.place, statement.name(), problem, hint);
        }
    }

    /// `has_main`: the source is the main file, so that what it does not say has nginx's own value.
    fn http(&mut self, http: &[Statement], has_main: bool) {
        closing::report_all(http, self.findings);
        for statement in http
            .iter()
            .filter(|statement| statement.name() == "upstream")
        {
            self.groups
                .insert(statement.argument(0).to_owned(), statement.clone());
        }
        // Maps count where their variables are used.
        let is_inherited = |one: &&Statement| {
            !matches!(
                one.name(),
                "server" | "upstream" | "map" | "geo" | "split_clients"
            )
        };
        self.around = http.iter().filter(is_inherited).cloned().collect();
        self.settings(http);
        self.stores = caching::stores(http, self.findings);
        let mut outermost = Site {
            name: String::new(),
            scope: Scope::outermost().enter(http, self.findings),
            meaning: self.maps(http),
            entry: String::new(),
            named: BTreeMap::new(),
            others: Vec::new(),
            successful: Vec::new(),
            paged: BTreeSet::new(),
            handlers: Vec::new(),
            named_handlers: BTreeSet::new(),
            named_files: BTreeSet::new(),
            prefix: None,
            expression: None,
            has_other_hosts: false,
            keeps_path: false,
            is_from_outside: false,
            is_exact: false,
            has_signed_link: false,
            is_question: false,
            questions: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            variant: 0,
            by_answer: None,
            believed: Vec::new(),
            place: 0,
            kept: BTreeMap::new(),
            all_pages: Vec::new(),
            status_of_page: None,
            again: String::new(),
        };
        if has_main {
            outermost.scope.types.settle(&self.types);
        }
        self.responses = self.response_options(&outermost, &Scope::outermost());
        let scope = &outermost.scope;
        self.out.http.extend(scope.http.clone());
        let compression = scope.gzip.compression();
        self.out
            .http
            .extend(compression.map(|value| ("compression".to_owned(), value)));
        self.has_logs_of_servers = self.has_logs_of_servers(scope);
        if !scope.logs.is_empty() && !self.has_logs_of_servers {
            let logs = self.logs(scope, &outermost.meaning);
            self.out.access_log = Some(logs).filter(|logs| *logs != Value::Bool(false));
        }
        let mut servers = Vec::new();
        for statement in http.iter().filter(|statement| statement.name() == "server") {
            servers.push((statement, self.listens(statement, http)));
        }
        listen::add_ipv4(&mut servers);
        let believed = listen::believed(&servers, &outermost.scope.real_ip);
        let mut hosts = Vec::new();
        for (statement, listens) in servers {
            let mut site = outermost.clone();
            site.has_other_hosts = has_other_hosts(statement);
            site.meaning = of_server(&outermost.meaning, statement);
            site.believed = listens
                .iter()
                .filter_map(|listen| believed.get(&listen.address).cloned())
                .collect();
            let names = statement
                .inner()
                .iter()
                .find(|inner| inner.name() == "server_name");
            let name = names
                .map_or("", |names| names.argument(0))
                .trim_matches(['_', '*', '.', '~', '^']);
            let name = if name.is_empty() { "site" } else { name };
            let destination = self.server(name, &site, statement);
            hosts.push(Host {
                statement,
                destination,
                listens,
            });
        }
        self.listeners(&hosts, http, &believed);
    }

    /// The variables of maps. One that is declared and cannot be written has no value, even if a built-in variable has its
    /// name.
    fn maps(&mut self, http: &[Statement]) -> Meaning {
        let mut meaning = Meaning::default();
        meaning.unknown.extend(declared(http));
        self.declare_maps(http, &mut meaning);
        meaning
    }
}

/// The names of variables that other directives of `http` declare, whose values are not known.
fn declared(http: &[Statement]) -> impl Iterator<Item = String> {
    http.iter().filter_map(|statement| {
        let name = match statement.name() {
            "keyval" => statement.arguments().get(1)?,
            "js_set" | "perl_set" | "auth_jwt_claim_set" | "auth_jwt_header_set" => {
                statement.arguments().first()?
            }
            _ => return None,
        };
        Some(name.trim_start_matches('$').to_owned())
    })
}

/// True for a server that has not exactly one name, or a pattern of names.
fn has_other_hosts(server: &Statement) -> bool {
    let statements = server.inner().iter();
    let statements = statements.filter(|inner| inner.name() == "server_name");
    let names: Vec<&String> = statements.flat_map(|inner| inner.arguments()).collect();
    let is_plain = |name: &str| !name.is_empty() && !name.contains(['*', '~', '_', '$']);
    !matches!(names.as_slice(), [only] if is_plain(only) && !only.starts_with('.'))
}

/// The variables that a server gives a fixed value.
fn of_server(outer: &Meaning, statement: &Statement) -> Meaning {
    let mut meaning = outer.clone();
    let mut set =
        |name: &str, value: &str| drop(meaning.named.insert(name.to_owned(), Text::literal(value)));
    set("server_name", "");
    for inner in statement.inner() {
        match inner.name() {
            "server_name" => set("server_name", inner.argument(0)),
            "root" if !inner.argument(0).contains('$') => {
                set("document_root", inner.argument(0));
                set("realpath_root", inner.argument(0));
            }
            _ => {}
        }
    }
    set("nginx_version", "");
    for inner in statement
        .inner()
        .iter()
        .filter(|inner| inner.name() == "root")
    {
        if let Ok(text) = meaning.text(inner.argument(0)) {
            meaning
                .named
                .insert("document_root".to_owned(), text.clone());
            meaning
                .named
                .insert("realpath_root".to_owned(), text.clone());
            let requested = server::requested_file(text, false, None);
            meaning
                .named
                .insert("request_filename".to_owned(), requested);
        }
    }
    // `server_name` with names in it: `~^(?<user>.+)\.example$`.
    let patterns = statement
        .inner()
        .iter()
        .filter(|inner| inner.name() == "server_name");
    for pattern in patterns
        .flat_map(|inner| inner.arguments())
        .filter_map(|name| name.strip_prefix('~'))
    {
        let host = Text(vec![crate::template::Piece::Variable("host".to_owned())]);
        if let Some(captured) = variables::captures(pattern, Case::Ignore, &host) {
            meaning.groups.extend(variables::groups(pattern, &captured));
            meaning.captures = Some(captured);
        }
    }
    meaning
}
