//! Apache httpd: files → directives → listeners, routes, applications and upstreams.
//!
//! A virtual host becomes a route, and a folder that is mapped (`DocumentRoot`, `Alias`) steps in it: access control, rewriting, content.
//! The directives that Apache merges for a path (`<Directory>`, `.htaccess`, `<Files>`, `<Location>`) become steps with conditions, the
//! last one merged first. `tests/real/imports` replays requests against Apache and Tutti. It must never panic on any input, never leave out
//! a directive without a finding, and never open what the source closes.

mod access;
pub(crate) mod closing;
mod condition;
mod content;
mod delivery;
mod effect;
mod environment;
mod expression;
mod gateway;
mod grammar;
mod harmless_directives;
mod headers;
mod htaccess;
mod index;
mod limit;
mod links;
mod listen;
mod lists;
mod logs;
mod meaning;
mod pages;
mod passwords;
mod proxy;
mod redirect;
mod remote;
mod restrict;
mod rewrite;
mod rule;
mod section;
mod settings;
mod site;
mod tree;
mod virtual_host;
mod who;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use environment::Time;
use gateway::is_folder_of_programs;
use grammar::Directive;
use listen::Host;
use section::{Location, Mapping, Section, Stage};
use serde_json::Value;
use site::{Compiler, Site};
use tree::Reader;

use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::fpm::{self, Pool};
use crate::ini;
use crate::output::Output;
use crate::sources::{self, Sources};

/// Reads Apache's files, and pools of PHP-FPM among them.
pub(crate) fn import(
    files: &[PathBuf],
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Value, UnreadableSource> {
    let mut pools: Vec<Pool> = Vec::new();
    let mut own: Vec<&Path> = Vec::new();
    for path in files {
        let (name, text) = sources::text(path, sources)?;
        if ini::looks_like(&text) {
            pools.extend(fpm::pools(&ini::parse(&name, &text)?, sources)?);
        } else {
            own.push(path);
        }
    }
    let mut reader = Reader::new(sources);
    let mut all = read(&mut reader, &own)?;
    let is_alone = !reader.has_modules();
    if is_alone {
        reader = Reader::new(sources).with_modules();
        all = read(&mut reader, &own)?;
    }
    let mut compiler = Compiler {
        out: Output::default(),
        findings,
        pools,
        rests: BTreeMap::new(),
        depth: 0,
        settled: BTreeMap::new(),
        workers: None,
        user: None,
        group: None,
        is_alone,
        sources,
        root: reader.root.first().cloned(),
        common: serde_json::Map::new(),
        has_lists: reader.has_module("autoindex_module"),
        doubts_address: false,
    };
    compiler.whole(&mut reader, &all)?;
    Ok(compiler.out.into_json())
}

fn read(reader: &mut Reader<'_>, files: &[&Path]) -> Result<Vec<Directive>, UnreadableSource> {
    let mut all = Vec::new();
    for path in files {
        all.extend(reader.main(path)?);
    }
    Ok(all)
}

impl Compiler<'_> {
    fn whole(
        &mut self,
        reader: &mut Reader<'_>,
        all: &[Directive],
    ) -> Result<(), UnreadableSource> {
        closing::report_all(all, self.findings);
        let (hosts, outer): (Vec<&Directive>, Vec<&Directive>) = all
            .iter()
            .partition(|directive| directive.is("virtualhost"));
        let outer: Vec<Directive> = outer.into_iter().cloned().collect();
        let last = |key: &str| outer.iter().rfind(|directive| directive.is(key));
        self.workers = last("maxrequestworkers")
            .or_else(|| last("maxclients"))
            .and_then(|count| count.argument(0).parse().ok());
        // A variable that is not defined names no account.
        let named = |key: &str| {
            last(key)
                .map(|directive| directive.argument(0).to_owned())
                .filter(|name| !name.contains(['$', '#']))
        };
        (self.user, self.group) = (named("user"), named("group"));
        let mut made: Vec<Host> = Vec::new();
        let blocks: Vec<&[Directive]> = hosts.iter().map(|host| host.inner()).collect();
        let remote = self.remote(&blocks, &outer);
        let mut built = Vec::new();
        for section in hosts {
            self.doubts_address = remote.is_doubtful(section.inner(), &outer);
            let site = Rc::new(self.build(reader, section.inner(), &outer)?);
            built.push((section, site, self.doubts_address));
        }
        let around = match built.as_slice() {
            [] => {
                self.doubts_address = remote.is_doubtful(&[], &outer);
                Some(Rc::new(self.build(reader, &[], &outer)?))
            }
            _ => None,
        };
        // The options that all sites have are settings of the server.
        let only: Vec<Rc<Site>> = built
            .iter()
            .map(|(_, site, _)| site)
            .chain(&around)
            .cloned()
            .collect();
        match only.as_slice() {
            [only] => self.set_common(only),
            [first, ..] => self.set_common(&first.outer_alone()),
            [] => {}
        }
        for (section, site, doubts) in built {
            self.doubts_address = doubts;
            let destination = self.site(&site);
            made.push(Host {
                site,
                destination,
                addresses: listen::of_host(section),
                place: section.place.clone(),
            });
        }
        let listens: Vec<Directive> = outer
            .iter()
            .filter(|directive| directive.is("listen"))
            .cloned()
            .collect();
        let is_answered = |listen: &Directive| {
            let port = listen.argument(0).rsplit(':').next().unwrap_or_default();
            made.iter()
                .flat_map(|host| &host.addresses)
                .any(|(_, known)| known == "*" || known == port)
        };
        let mut main = None;
        if made.is_empty() || !listens.iter().all(is_answered) {
            self.doubts_address = remote.is_doubtful(&[], &outer);
            let site = match around {
                Some(site) => site,
                None => Rc::new(self.build(reader, &[], &outer)?),
            };
            let place = outer.first().map_or_else(
                || SourceLocation {
                    file: "".into(),
                    line: 0,
                },
                |first| first.place.clone(),
            );
            let destination = self.site(&site);
            main = Some(Host {
                site,
                destination,
                addresses: Vec::new(),
                place,
            });
        }
        self.listeners(&listens, &made, main.as_ref());
        remote.configure_listeners(&mut self.out.listeners);
        let sites: Vec<&Site> = made
            .iter()
            .chain(&main)
            .map(|host| host.site.as_ref())
            .collect();
        let mut flat = Vec::new();
        for site in &sites {
            flat.extend(site.sections.iter().flat_map(|section| &section.directives));
        }
        self.settings(&flat);
        Ok(())
    }

    /// Makes settings of the server of the options and logs that all sites have.
    fn set_common(&mut self, site: &Site) {
        let mapping = Mapping {
            at: String::new(),
            folder: delivery::root_folder(site),
        };
        let directives = delivery::directives_of(site, &mapping);
        let kept = |directive: &&Directive| !directive.is("errordocument");
        let directives: Vec<Directive> = directives.iter().filter(kept).cloned().collect();
        let options = self.delivery(&directives, None);
        let mut http = options
            .get("http")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        http.entry("max_body_size")
            .or_insert_with(delivery::usual_size);
        self.out.http.extend(http.clone());
        self.common = serde_json::Map::from_iter([("http".to_owned(), http.into())]);
        let root = self.root.clone();
        let logs = self.logs(site, root.as_deref());
        let logs = match logs.own.is_empty() {
            true => logs.outer,
            false => logs.own,
        };
        if !logs.is_empty() {
            let logs = logs::one_or_all(logs);
            self.common.insert("access_log".to_owned(), logs.clone());
            self.out.access_log = Some(logs);
        }
    }

    /// A virtual host with all that it has: its own, and what it has from the server around it.
    fn build(
        &mut self,
        reader: &mut Reader<'_>,
        own: &[Directive],
        outer: &[Directive],
    ) -> Result<Site, UnreadableSource> {
        let plain = |directives: &[Directive]| -> Vec<Directive> {
            directives
                .iter()
                .filter(|directive| directive.block.is_none())
                .map(|directive| of_prefix(directive).unwrap_or_else(|| directive.clone()))
                .collect()
        };
        let mut groups = BTreeMap::new();
        for group in outer
            .iter()
            .chain(own)
            .filter(|directive| directive.is("proxy"))
        {
            if let Some(name) = group.argument(0).strip_prefix("balancer://") {
                groups.insert(name.trim_end_matches('/').to_owned(), group.clone());
            }
        }
        let mut sections = Vec::new();
        section::collect(outer, None, &mut sections);
        section::collect(own, None, &mut sections);
        let mut site = Site {
            name: String::new(),
            server: String::new(),
            sections,
            own: plain(own),
            outer: plain(outer),
            mappings: Vec::new(),
            groups,
            maps: BTreeMap::new(),
            proxies: outer
                .iter()
                .chain(own)
                .filter(|directive| directive.is("proxy") || directive.is("proxymatch"))
                .cloned()
                .collect(),
            index_rules: None,
        };
        site.server = site
            .own
            .iter()
            .rfind(|directive| directive.is("servername"))
            .map(|name| host_name(name.argument(0)))
            .unwrap_or_default();
        let wanted = match (site.server.as_str(), own.is_empty()) {
            ("", true) => "main",
            ("", false) => "site",
            (server, _) => server,
        };
        site.name = self.out.route_name(wanted);
        // The name is taken before those of other sites, and before what leads back to it is made.
        self.out.routes.insert(site.name.clone(), Value::Null);
        if rule::has_rules_for_index(&site) {
            let index = format!("{}-index", site.name);
            site.index_rules = Some(self.out.add_route(&index, Vec::new()));
        }
        site.mappings = self.mappings(&site, reader);
        site.maps = self.maps(&site, reader.root.first().map(PathBuf::as_path));
        let scripts = self.scripts_elsewhere(&site);
        site.sections.extend(scripts);
        let programs = programs(&site);
        site.sections.extend(programs);
        site.sections.sort_by_key(Section::weight);
        let found = htaccess::read(reader, &site, self.findings)?;
        site.sections.extend(found);
        let restrictions: Vec<Section> =
            site.sections.iter().flat_map(restrict::sections).collect();
        site.sections.extend(restrictions);
        site.sections.sort_by_key(Section::weight);
        self.conditions(&mut site);
        self.report_environment(&site);
        for section in &site.sections {
            access::report_satisfy(section, self.findings);
            restrict::report_rules(section, self.findings);
            restrict::report_index(section, self.findings);
            restrict::report_names(section, &site, self.findings);
            self.report_aliases(section);
        }
        for section in &mut site.sections {
            passwords::check(section, reader.sources, self.findings);
        }
        Ok(site)
    }

    /// Reports folders that a section maps: they are read outside of all sections.
    fn report_aliases(&mut self, section: &Section) {
        let is_alias = |directive: &&Directive| {
            matches!(
                directive.key.as_str(),
                "alias" | "aliasmatch" | "scriptalias" | "scriptaliasmatch"
            )
        };
        let directives = section.directives.iter().filter(is_alias);
        for directive in directives.filter(|_| section.stage != Stage::Server) {
            let problem =
                "`Alias` within a section is not carried over: nothing is served from its folder";
            let hint = "write it outside of the section, with its path, then import again";
            self.findings
                .lost(&directive.place, &directive.name, problem, hint);
        }
    }

    /// Makes tests of the expressions of `<If>`; one that cannot be written is reported, and its section only refuses.
    fn conditions(&mut self, site: &mut Site) {
        let environment = self.environment_of_host(site, Time::Early);
        let meaning = self.meaning_of(site, environment, Time::Early);
        for section in &mut site.sections {
            let Some(source) = section.expression.take() else {
                continue;
            };
            match expression::condition(&source, &meaning) {
                Ok(test) => {
                    section.test = Some(match &section.test {
                        Some(around) => format!("({around}) && ({test})"),
                        None => format!("({test})"),
                    });
                }
                Err(why) => {
                    section.is_unknown = true;
                    if let Some(first) = section.directives.first() {
                        let problem = format!(
                            "{why}: of this section, only denials are kept, and apply to all requests"
                        );
                        let hint = "write its contents as a step with a `match`";
                        self.findings.lost(&first.place, "<If>", &problem, hint);
                    }
                }
            }
        }
    }

    /// The folders of a site, in the order in which Apache looks for them.
    fn mappings(&mut self, site: &Site, reader: &Reader<'_>) -> Vec<Mapping> {
        let mut mappings: Vec<Mapping> = Vec::new();
        let is_of_folder = |alias: &&Directive| alias.is("alias") || is_folder_of_programs(alias);
        for alias in site.all(&["alias", "scriptalias"]).filter(is_of_folder) {
            let (from, to) = (alias.argument(0), alias.argument(1));
            if from.len() > 1 && from.ends_with('/') && !to.ends_with('/') || !to.starts_with('/') {
                let hint =
                    "end both with a slash, or neither, and write the full path of the folder";
                self.findings.lost(
                    &alias.place,
                    &alias.name,
                    &format!("`{from}` and `{to}` are combined in a way that is not carried over"),
                    hint,
                );
                continue;
            }
            let mapping = Mapping {
                at: from.trim_end_matches('/').to_owned(),
                folder: to.trim_end_matches('/').to_owned(),
            };
            if mapping.folder.is_empty() {
                self.findings.lost(
                    &alias.place,
                    &alias.name,
                    "Tutti does not serve the whole file system",
                    "name a folder",
                );
            } else if !mappings.iter().any(|known| known.at == mapping.at) {
                mappings.push(mapping);
            }
        }
        // An alias of everything goes before `DocumentRoot`.
        if let Some(whole) = mappings.iter().position(|mapping| mapping.at.is_empty()) {
            let whole = mappings.remove(whole);
            mappings.push(whole);
            return mappings;
        }
        let Some(root) = site.setting("documentroot") else {
            return mappings;
        };
        let folder = root.argument(0).trim_end_matches('/');
        let folder = match reader.root.first() {
            Some(server) if !folder.starts_with('/') => server.join(folder).display().to_string(),
            _ => folder.to_owned(),
        };
        if folder.is_empty() {
            self.findings.lost(
                &root.place,
                &root.name,
                "Tutti does not serve the whole file system",
                "name a folder",
            );
        } else {
            mappings.push(Mapping {
                at: String::new(),
                folder,
            });
        }
        mappings
    }

    /// `ProxyPassMatch … fcgi://…`: a handler of scripts, as a section with `SetHandler` is.
    fn scripts_elsewhere(&mut self, site: &Site) -> Vec<Section> {
        let mut sections = Vec::new();
        for pass in site
            .all(&["proxypassmatch"])
            .filter(|pass| pass.argument(1).contains("fcgi://"))
        {
            let target = pass.argument(1);
            let (socket, behind) = target
                .split_once('|')
                .map_or((None, target), |(socket, behind)| (Some(socket), behind));
            let rest = behind.trim_start_matches("fcgi://");
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let folder = format!("/{}", path.trim_end_matches("$1").trim_end_matches('/'));
            let root = site
                .mappings
                .last()
                .map(|mapping| mapping.folder.clone())
                .unwrap_or_default();
            if path.contains('$') && folder != root && folder != "/" {
                let hint = "check `root` of the application";
                self.findings.lost(
                    &pass.place,
                    &pass.name,
                    &format!("scripts are in `{folder}` for PHP, but in `{root}` here"),
                    hint,
                );
            }
            let mut handler = pass.clone();
            handler.key = "sethandler".to_owned();
            handler.arguments = vec![match socket {
                Some(socket) => format!("proxy:{socket}|fcgi://localhost"),
                None => format!("proxy:fcgi://{host}"),
            }];
            sections.push(Section {
                stage: Stage::Location,
                location: Some(Location::Match(pass.argument(0).to_owned())),
                directives: vec![handler],
                ..Section::default()
            });
        }
        sections
    }
}

/// The handler that each `ScriptAlias` means, as a section for its path.
fn programs(site: &Site) -> Vec<Section> {
    let aliases = site.all(&["scriptalias"]);
    let is_mapped = |alias: &&Directive| {
        let mut mappings = site.mappings.iter();
        let folder = alias.argument(1).trim_end_matches('/');
        let at = alias.argument(0).trim_end_matches('/');
        is_folder_of_programs(alias)
            && mappings.any(|mapping| mapping.at == at && mapping.folder == folder)
    };
    let section = |alias: &Directive| {
        let mut handler = alias.clone();
        handler.key = "sethandler".to_owned();
        handler.arguments = vec!["cgi-script".to_owned(), content::OF_ALIAS.to_owned()];
        let at = alias.argument(0).trim_end_matches('/').to_owned();
        Section {
            stage: Stage::Location,
            location: Some(Location::Path(at)),
            directives: vec![handler],
            ..Section::default()
        }
    };
    aliases.filter(is_mapped).map(section).collect()
}

/// An `AliasMatch` of a path and all below it, as the `Alias` that it means.
fn of_prefix(directive: &Directive) -> Option<Directive> {
    let (from, to) = (directive.argument(0), directive.argument(1));
    let bare = from
        .strip_prefix('^')
        .filter(|_| directive.is("aliasmatch"))?;
    let ends = [
        ("/(.*)$", "/$1", "/"),
        ("/(.*)", "/$1", "/"),
        ("(/.*)?$", "$1", ""),
        ("(/.*)$", "$1", "/"),
        ("(?:/(.*))?$", "/$1", ""),
    ];
    let (path, folder, slash) = ends.iter().find_map(|(end, group, slash)| {
        let path = bare.strip_suffix(end)?;
        Some((path, to.strip_suffix(group)?, *slash))
    })?;
    let path = path.replace("\\.", ".").replace("\\-", "-");
    let is_plain = |text: &str| !text.contains(|one: char| r"\+*?()|[]{}^$".contains(one));
    let is_whole = is_plain(&path) && is_plain(folder) && !path.is_empty() && !folder.is_empty();
    is_whole.then(|| {
        let mut alias = directive.clone();
        alias.key = "alias".to_owned();
        let folder = folder.trim_end_matches('/');
        alias.arguments = vec![format!("{path}{slash}"), format!("{folder}{slash}")];
        alias
    })
}

/// The name of `ServerName`, without a scheme and a port.
fn host_name(text: &str) -> String {
    let text = text.split_once("://").map_or(text, |(_, rest)| rest);
    let text = match text.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => text,
    };
    text.to_ascii_lowercase()
}
