//! Caddy: sites of a Caddyfile → listeners, routes, FastCGI and upstreams.
//!
//! Directives act in Caddy's own order, whatever theirs in the file (caddyserver.com, "Directive order"); directives without a counterpart
//! in Tutti are reported.

mod actions;
mod automatic;
mod certificates;
mod clients;
mod directives;
mod guards;
mod matching;
mod paths;
mod site_settings;
mod tree;

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use tree::Directive;

use crate::fate::Fate;
use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::output::{Output, step, when};
use crate::program;
use crate::sources::Sources;
use crate::words::Words;

/// Each address to listen at, with the names of hosts there (`None`: all) and where they lead.
type Listens = Vec<(String, Vec<(Option<String>, String)>)>;

/// Caddy's order; those of one kind with longer paths come first.
const ORDER: Words = Words(
    "root header request_body redir method rewrite uri try_files basicauth basic_auth forward_auth request_header
    encode templates invoke handle handle_path route abort error respond reverse_proxy php_fastcgi file_server",
);

/// Blocks that are carried over, those behind each `rewrite` counted again; a hostile file has no end of them.
const MOST_BLOCKS: usize = 2_000;

/// Directives of one block, and those among them that change the path.
const MOST_STEPS: usize = 100;
const MOST_REWRITES: usize = 6;

/// Directives that refuse no request: they are lost, and close nothing.
const HARMLESS: Words = Words(
    "copy_response_headers intercept log_append log_name log_skip map push skip_log tracing vars",
);

/// Directives that are carried over.
const CARRIED: Words = Words(
    "root header request_body redir rewrite uri try_files basicauth basic_auth forward_auth request_header encode handle
    handle_path route abort error respond reverse_proxy php_fastcgi file_server bind tls handle_errors import",
);

/// Options for all sites that are carried over.
const OPTIONS: Words =
    Words("email acme_ca auto_https default_bind local_certs order http_port https_port servers");

/// Options for all sites for which nothing has to be written.
const NEEDLESS_OPTIONS: Words =
    Words("admin debug log persist_config grace_period skip_install_trust storage");

const OPTION_HINT: &str = "see `docs/reference/command-line.md` for the server's flags, `docs/reference/options.md` for settings";

/// The fate of a directive, for the table of all directives.
pub(crate) fn fate(name: &str) -> Fate {
    if name == "log" {
        Fate::different("its lines have only those of Caddy's fields that Tutti knows")
    } else if CARRIED.contains(name) {
        Fate::carried()
    } else if HARMLESS.contains(name) {
        Fate::lost("`docs/reference/options.md` lists every option")
    } else {
        Fate::closed("if it does not restrict access, remove it from the source and import again")
    }
}

/// The fate of an option for all sites.
pub(crate) fn fate_of_option(name: &str) -> Fate {
    if OPTIONS.contains(name) {
        Fate::carried()
    } else if NEEDLESS_OPTIONS.contains(name) {
        Fate::harmless(OPTION_HINT)
    } else {
        Fate::lost(OPTION_HINT)
    }
}

/// Directives that are no steps.
const ASIDE: &[&str] = &["bind", "tls", "log", "handle_errors", "@"];

/// Reads Caddyfiles.
pub(crate) fn import(
    files: &[PathBuf],
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Value, UnreadableSource> {
    let mut sites = Vec::new();
    for path in files {
        let mut read = tree::read(path, sources, findings)?;
        let real = sources.real(path);
        let folder = real.parent().unwrap_or(&real);
        paths::make_absolute(&mut read, folder, sources, findings);
        sites.extend(read);
    }
    let mut caddy = Caddy {
        out: Output::default(),
        findings,
        site: String::new(),
        budget: MOST_BLOCKS,
        certificates: certificates::Certificates::default(),
        order: ORDER.iter().map(str::to_owned).collect(),
        default_bind: None,
        ports: ("80".to_owned(), "443".to_owned()),
        has_http3: true,
    };
    // The first block may have options for all; a file may be one site without a block.
    if sites.iter().all(|site| site.block.is_none()) && sites.len() > 1 {
        let place = sites.first().map(|site| site.place.clone());
        let mut parts = sites.into_iter();
        let address = parts.next().map(|site| site.words).unwrap_or_default();
        sites = vec![Directive {
            place: place.unwrap_or(SourceLocation {
                file: "".into(),
                line: 1,
            }),
            words: address,
            block: Some(parts.collect()),
        }];
    }
    let mut listens = Listens::new();
    for site in &sites {
        if site.words.is_empty() {
            caddy.options(site);
            continue;
        }
        caddy.add(site, &mut listens);
    }
    caddy.redirects(&mut listens);
    for (address, hosts) in listens {
        let pass = match hosts.as_slice() {
            [(None, only)] => only.clone(),
            _ => {
                let mut steps = Vec::new();
                let exact = |host: &Option<String>| {
                    host.as_ref().map_or(0, |host| {
                        if host.contains('*') {
                            host.len()
                        } else {
                            1000 + host.len()
                        }
                    })
                };
                let mut hosts = hosts.clone();
                hosts.sort_by_key(|(host, _)| std::cmp::Reverse(exact(host)));
                for (host, destination) in hosts {
                    let conditions = host.map_or_else(Map::new, |host| when("host", host));
                    steps.push(step(conditions, json!({"pass": destination})));
                }
                caddy.out.add_route(&format!("listen-{address}"), steps)
            }
        };
        let entry = caddy
            .out
            .listeners
            .entry(address)
            .or_insert_with(|| json!({}));
        if let Some(listener) = entry.as_object_mut() {
            listener.insert("pass".to_owned(), pass.into());
            if caddy.has_http3 && listener.contains_key("tls") {
                listener.insert("http3".to_owned(), true.into());
            }
        }
    }
    Ok(caddy.out.into_json())
}

struct Caddy<'f> {
    out: Output,
    findings: &'f mut Findings,
    site: String,
    /// Blocks that may still be carried over.
    budget: usize,
    certificates: certificates::Certificates,
    /// The order in which directives act.
    order: Vec<String>,
    /// The address of sites that name none.
    default_bind: Option<String>,
    /// The ports of `http` and `https`.
    ports: (String, String),
    /// Listeners with TLS speak HTTP/3, too: Caddy's default.
    has_http3: bool,
}

/// Where a directive stands.
#[derive(Clone)]
struct Scope {
    root: Option<String>,
    named: Vec<Directive>,
    always: Map<String, Value>,
    /// Fields of requests to servers behind.
    request_headers: Map<String, Value>,
    /// They may have fields that the source removes.
    has_unknown_fields: bool,
    /// Directives act as they are written: in `route`.
    is_in_order: bool,
    /// The status of a `respond` in `handle_errors` that says none.
    status: Option<u16>,
}

impl Scope {
    fn error_status(&self) -> Value {
        self.status.unwrap_or(200).into()
    }
}

impl Caddy<'_> {
    fn options(&mut self, block: &Directive) {
        for option in block.inner() {
            if self.certificates.option(option) || self.option_of_all(option) {
                continue;
            }
            if !NEEDLESS_OPTIONS.contains(option.name()) {
                self.findings.lost(
                    &option.place,
                    option.name(),
                    "the importer does not translate it",
                    OPTION_HINT,
                );
            }
        }
    }

    fn add(&mut self, site: &Directive, listens: &mut Listens) {
        let words = site
            .words
            .iter()
            .flat_map(|word| word.split(','))
            .filter(|word| !word.is_empty());
        let addresses: Vec<String> = words.map(str::to_owned).collect();
        let first = addresses.first().cloned().unwrap_or_default();
        let bare = first
            .split("://")
            .last()
            .unwrap_or(&first)
            .split([':', '/'])
            .next()
            .unwrap_or_default()
            .to_owned();
        let wanted = if bare.is_empty() {
            "site".to_owned()
        } else {
            bare
        };
        if first.starts_with('&') {
            let hint = "write the directives where the route is invoked";
            self.findings.lost(
                &site.place,
                &first,
                "a named route is not carried over: where it is invoked, requests get 403",
                hint,
            );
            return;
        }
        self.site = self.out.route_name(&wanted);
        self.out.routes.insert(self.site.clone(), Value::Null);
        let mut destination = format!("routes/{}", self.site);
        let scope = Scope {
            root: None,
            named: Vec::new(),
            always: Map::new(),
            request_headers: Map::new(),
            has_unknown_fields: false,
            is_in_order: false,
            status: None,
        };
        let mut steps = self.steps(site.inner(), &scope);
        // A request that no directive answers gets 200 without a body.
        steps.push(json!({"action": {"return": 200}}));
        trim(&mut steps);
        let name = self.site.clone();
        self.out.routes.insert(name.clone(), steps.into());
        let pages = self.error_pages(site.inner(), &scope);
        let mut options = self.options_of_site(site.inner());
        if !pages.is_empty() {
            options.insert("error_pages".to_owned(), pages.into());
        }
        if !options.is_empty() {
            options.insert("pass".to_owned(), destination.into());
            let steps = vec![json!({"action": options})];
            destination = self.out.add_route(&format!("{name}-options"), steps);
        }
        for address in addresses {
            self.listen(site, &address, destination.clone(), listens);
        }
    }

    /// A listener for one address of a site, which leads to `destination`.
    fn listen(
        &mut self,
        site: &Directive,
        address: &str,
        destination: String,
        listens: &mut Listens,
    ) {
        let tls = site
            .inner()
            .iter()
            .find(|directive| directive.name() == "tls" && directive.arguments().len() == 2);
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let (rest, path) = rest
            .split_once('/')
            .map_or((rest, ""), |(rest, path)| (rest, path));
        let mut destination = destination;
        if !path.is_empty() {
            let conditions = matching::of_token(&format!("/{path}"), &[]).unwrap_or_default();
            let steps = vec![
                step(conditions, json!({"pass": destination})),
                json!({"action": {"return": 404}}),
            ];
            destination = self.out.add_route(&format!("{}-path", self.site), steps);
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => (host, port.to_owned()),
            _ => (
                rest,
                if scheme == "http" {
                    self.ports.0.clone()
                } else {
                    self.ports.1.clone()
                },
            ),
        };
        let has_tls = site.inner().iter().any(|one| one.name() == "tls");
        let is_tls = scheme == "https"
            || (scheme.is_empty()
                && port != self.ports.0
                && (!host.is_empty() || port == self.ports.1))
            || (has_tls && scheme != "http");
        let automatic = match is_tls && tls.is_none() {
            true => self.certificates.of(site, host),
            false => None,
        };
        if is_tls && tls.is_none() && automatic.is_none() {
            let (problem, hint) = match host.is_empty() {
                true => (
                    "a certificate is for names, and the site has none",
                    "write the name or the address of the site before its port, `site.example:8443`, then import again",
                ),
                false => (
                    "Tutti cannot obtain a certificate for it",
                    "write `tls CERTIFICATE KEY` into the site, or use the server's own authority (`docs/http/acme.md`)",
                ),
            };
            let problem = format!(
                "{problem}: it does not listen on this address, since connections would not be encrypted"
            );
            self.findings.lost(&site.place, address, &problem, hint);
            return;
        }
        let bind = site
            .inner()
            .iter()
            .find(|directive| directive.name() == "bind");
        let interface = match (bind, &self.default_bind) {
            (Some(bind), _) => bind.argument(0).to_owned(),
            (None, Some(bind)) => bind.clone(),
            (None, None) => String::new(),
        };
        let is_named = bind.is_none() && self.default_bind.is_none() || !interface.is_empty();
        let listen = program::address(&format!("{interface}:{port}"));
        let Some(listen) = listen.filter(|_| is_named) else {
            self.findings.lost(
                &site.place,
                "bind",
                &format!("`{interface}` is not an address"),
                "write numbers: `127.0.0.1`",
            );
            return;
        };
        if let Some(tls) = tls.filter(|_| is_tls) {
            let certificate = json!({"file": tls.argument(0), "key": tls.argument(1)});
            self.put_certificate(&listen, certificate);
            destination = self.with_client(tls, &listen, destination);
        }
        if let Some(certificate) = automatic {
            self.add_certificate(&listen, certificate);
        }
        let host = (!host.is_empty()).then(|| host.to_ascii_lowercase());
        match listens.iter_mut().find(|(known, _)| *known == listen) {
            Some((_, hosts)) => hosts.push((host, destination)),
            None => listens.push((listen, vec![(host, destination)])),
        }
    }

    /// The steps of a block, in Caddy's order.
    fn steps(&mut self, block: &[Directive], around: &Scope) -> Vec<Value> {
        let mut scope = around.clone();
        scope.named.extend(
            block
                .iter()
                .filter(|directive| directive.name().starts_with('@'))
                .cloned(),
        );
        for directive in block {
            self.settle(directive, &mut scope);
        }
        // The folder of some requests is not that of the others.
        if block
            .iter()
            .any(|one| one.name() == "root" && tree::folder(one).is_none())
        {
            scope.root = None;
        }
        let mut acting: Vec<&Directive> = block
            .iter()
            .filter(|directive| {
                !ASIDE.contains(&directive.name()) && !directive.name().starts_with('@')
            })
            .collect();
        // An unknown directive may be a check: it comes before all others.
        let order = self.order.clone();
        let rank = |directive: &Directive| {
            let position = order.iter().position(|name| name == directive.name());
            position.map_or(0, |position| position + 1)
        };
        let length = |directive: &Directive| match directive.argument(0) {
            path if path.starts_with('/') => 1 + path.trim_end_matches('*').len(),
            named if named.starts_with('@') => 1,
            _ => 0,
        };
        // `handle` and `handle_path` are one kind.
        let kind = |directive: &Directive| {
            if directive.name() == "handle_path" {
                rank(&Directive {
                    words: vec!["handle".to_owned()],
                    ..directive.clone()
                })
            } else {
                rank(directive)
            }
        };
        if !around.is_in_order {
            acting.sort_by_key(|directive| (kind(directive), std::cmp::Reverse(length(directive))));
        }
        let rewrites = |directive: &&&Directive| {
            let again = [
                "rewrite",
                "try_files",
                "uri",
                "basicauth",
                "basic_auth",
                "forward_auth",
            ];
            again.contains(&directive.name())
        };
        let is_too_much =
            acting.len() > MOST_STEPS || acting.iter().filter(rewrites).count() > MOST_REWRITES;
        let left = self.budget.checked_sub(1).filter(|_| !is_too_much);
        let (Some(left), Some(_)) = (left, acting.first()) else {
            if let Some(first) = acting.first() {
                let problem = "there are too many directives in one block: requests here get 503";
                self.findings.lost(
                    &first.place,
                    first.name(),
                    problem,
                    "split the file, and import its parts",
                );
                return vec![json!({"action": {"return": 503}})];
            }
            return Vec::new();
        };
        self.budget = left;
        let mut steps = Vec::new();
        for (index, directive) in acting.iter().enumerate() {
            let rest: Vec<Directive> = acting
                .iter()
                .skip(index + 1)
                .map(|directive| (*directive).clone())
                .collect();
            if self.act(directive, &rest, &scope, &mut steps) {
                break;
            }
        }
        steps
    }

    /// The steps of one directive. True if nothing comes after it.
    fn act(
        &mut self,
        directive: &Directive,
        rest: &[Directive],
        scope: &Scope,
        steps: &mut Vec<Value>,
    ) -> bool {
        let name = directive.name();
        let place = directive.place.clone();
        if matches!(
            name,
            "root" | "header" | "request_header" | "request_body" | "encode"
        ) {
            return false;
        }
        let first = directive.argument(0);
        let (token, arguments) = if matching::is_token(first)
            && !(name == "rewrite" && directive.arguments().len() == 1)
            && !(name == "redir" && directive.arguments().len() == 1)
        {
            (first, directive.arguments().get(1..).unwrap_or_default())
        } else {
            ("*", directive.arguments())
        };
        let Some(conditions) = matching::of_token(token, &scope.named) else {
            return self.unmatched(directive, steps);
        };
        let is_all = conditions.is_empty();
        let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
        let action = match name {
            "basicauth" | "basic_auth" | "forward_auth" => {
                self.guard(directive, arguments, rest, scope)
            }
            "respond" => self.respond(directive, arguments, scope),
            "redir" => {
                let status = match argument(1) {
                    "permanent" => 301,
                    "" | "temporary" => 302,
                    code => code.parse().unwrap_or(302),
                };
                match self.text(argument(0), &place, name) {
                    Some(location) => json!({"return": status, "location": location.template()}),
                    // Files that would have been redirected are not shown.
                    None => json!({"return": 403}),
                }
            }
            "abort" => json!({"return": 403}),
            // Pages for errors answer it, whatever its message is.
            "error" => {
                let mut statuses = arguments.iter().filter_map(|word| word.parse::<u16>().ok());
                let status = statuses.find(|status| (400..600).contains(status));
                json!({"return": status.unwrap_or(500)})
            }
            "rewrite" | "try_files" | "uri" => {
                return self.rewriting(directive, conditions, arguments, rest, scope, steps);
            }
            "handle" | "handle_path" | "route" => self.handle(directive, token, scope),
            // It has been reported.
            "reverse_proxy" | "php_fastcgi" if scope.has_unknown_fields => {
                json!({"return": 503})
            }
            "reverse_proxy" => match self.proxy(directive, arguments, scope) {
                Some(action) => action,
                // It has been reported.
                None => json!({"return": 503}),
            },
            "php_fastcgi" => {
                return self.php(directive, arguments, &conditions, rest, scope, steps);
            }
            "file_server" => self.file_server(directive, arguments, scope),
            other if HARMLESS.contains(other) => {
                self.findings.lost(
                    &place,
                    other,
                    "the importer does not translate it",
                    "`docs/reference/options.md` lists every option",
                );
                return false;
            }
            other => {
                self.findings.lost(
                    &place,
                    other,
                    "Tutti has no equivalent: requests that it applies to get 403",
                    "if it does not restrict access, remove it from the source and import again",
                );
                json!({"return": 403})
            }
        };
        let action = finished(action, scope);
        steps.push(step(conditions, action));
        is_all
    }
}

/// An action with the fields of answers that the block sets.
fn finished(mut action: Value, scope: &Scope) -> Value {
    if let Some(options) = action.as_object_mut()
        && !scope.always.is_empty()
        && !options
            .get("pass")
            .and_then(Value::as_str)
            .is_some_and(|pass| pass.starts_with("routes/"))
    {
        options
            .entry("response_headers_always")
            .or_insert_with(|| scope.always.clone().into());
    }
    action
}

/// Leaves out what comes behind a step for every request.
fn trim(steps: &mut Vec<Value>) {
    if let Some(last) = steps.iter().position(|step| step.get("match").is_none()) {
        steps.truncate(last + 1);
    }
}
