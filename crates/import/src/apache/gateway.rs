//! Handlers other than files: PHP, Python of mod_wsgi, other servers.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::content::Handler;
use super::grammar::Directive;
use super::headers::{AnswerOf, Variant};
use super::section::{Folder, Mapping, Section, below};
use super::site::{Compiler, Site, Spot};
use crate::output::{literal, slug, step, unused, when, within};
use crate::words::Words;

/// `ThreadsPerChild` of mod_wsgi's daemon, unless it is given.
const WSGI_THREADS: u64 = 15;

/// Options of mod_wsgi's daemon that are carried over, or are about its own log.
const DAEMON_OPTIONS: Words = Words(
    "processes threads user group home python-home python-path maximum-requests request-timeout display-name lang
    locale",
);

/// Processes of PHP that wait for requests, where Apache had whole servers waiting.
const SPARE: u64 = 2;

impl Compiler<'_> {
    /// Returns the action for scripts of PHP; `None` where the reason against it has been reported.
    pub(super) fn php(
        &mut self,
        spot: &Spot,
        handler: &Handler,
        directive: &Directive,
    ) -> Option<Map<String, Value>> {
        let mut options = match handler {
            Handler::Fastcgi(address) => {
                let Some(pool) = self.pools.iter().position(|pool| pool.listens_on(address)) else {
                    return self.fastcgi(spot, address, directive);
                };
                let pool = self.pools.get(pool)?.clone();
                let mut options = crate::fpm::application(&pool, self.findings);
                options.insert("name".to_owned(), pool.name.into());
                options
            }
            _ => self.mod_php(),
        };
        let name = options
            .remove("name")
            .and_then(|name| name.as_str().map(str::to_owned))
            .unwrap_or_else(|| "php".to_owned());
        self.directives(spot, &mut options);
        let mut target = when("root", spot.base.folder.clone());
        if !spot.base.at.is_empty() {
            target.insert("prefix".to_owned(), spot.base.at.clone().into());
        }
        // Applications differ by their options; those with the same options are one with several targets.
        let same = |known: &Value| {
            let mut known = known.as_object().cloned().unwrap_or_default();
            known.remove("targets");
            known == options
        };
        let known = self
            .out
            .applications
            .iter()
            .find(|(_, known)| same(known))
            .map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = unused(&self.out.applications, &name);
            self.out
                .applications
                .insert(name.clone(), options.clone().into());
            name
        });
        let application = self
            .out
            .applications
            .get_mut(&name)
            .and_then(Value::as_object_mut)?;
        let targets = application.entry("targets").or_insert_with(|| json!({}));
        let targets = targets.as_object_mut()?;
        let target = Value::Object(target);
        let known = targets
            .iter()
            .find(|(_, known)| **known == target)
            .map(|(name, _)| name.clone());
        let chosen = known.unwrap_or_else(|| {
            let wanted = if targets.is_empty() {
                "direct".to_owned()
            } else {
                slug(&spot.base.folder)
            };
            let chosen = unused(targets, &wanted);
            targets.insert(chosen.clone(), target);
            chosen
        });
        Some(when("pass", format!("applications/{name}/{chosen}")))
    }

    /// Returns the action for CGI programs below a folder.
    pub(super) fn cgi(
        &mut self,
        spot: &Spot,
        endings: &[String],
        is_alias: bool,
    ) -> Map<String, Value> {
        let mut options = when("type", "cgi");
        self.owner(&mut options);
        options.insert("root".to_owned(), spot.base.folder.clone().into());
        if !spot.base.at.is_empty() {
            options.insert("prefix".to_owned(), spot.base.at.clone().into());
        }
        if !endings.is_empty() {
            options.insert("extensions".to_owned(), endings.to_vec().into());
        }
        if is_alias {
            // Apache starts none for a folder, and here no name that begins with a period is one.
            options.insert("index".to_owned(), ".none".into());
        }
        self.directives(spot, &mut options);
        options.remove("options");
        let mut known = self.out.applications.iter();
        let known = known.find(|(_, known)| known.as_object() == Some(&options));
        let name = match known {
            Some((name, _)) => name.clone(),
            None => {
                let name = unused(&self.out.applications, "cgi");
                self.out.applications.insert(name.clone(), options.into());
                name
            }
        };
        when("pass", format!("applications/{name}"))
    }

    /// PHP within Apache had Apache's processes.
    fn mod_php(&self) -> Map<String, Value> {
        let mut options = when("type", "php");
        let most = self.workers.unwrap_or(150).clamp(1, 4096);
        options.insert(
            "processes".to_owned(),
            json!({"max": most, "spare": SPARE.min(most)}),
        );
        self.owner(&mut options);
        options
    }

    fn owner(&self, options: &mut Map<String, Value>) {
        for (option, value) in [("user", &self.user), ("group", &self.group)] {
            if let Some(value) = value {
                options.insert(option.to_owned(), value.clone().into());
            }
        }
    }

    /// `php_value` and its kin, and `SetEnv`.
    fn directives(&mut self, spot: &Spot, options: &mut Map<String, Value>) {
        let mut all: Vec<Directive> = Vec::new();
        // The outermost first: the inner ones replace them.
        let sections: Vec<&Section> = spot.sections().collect();
        for section in sections.iter().rev() {
            all.extend(section.directives.iter().cloned());
        }
        for directive in &all {
            let (name, value) = (directive.argument(0), directive.argument(1));
            let flag = if matches!(directive.word(1).as_str(), "on" | "1") {
                "1"
            } else {
                "0"
            };
            let (way, value): (&[&str], &str) = match directive.key.as_str() {
                "php_value" if value != "none" => (&["options", "user"], value),
                "php_admin_value" if value != "none" => (&["options", "admin"], value),
                "php_flag" if name != "engine" => (&["options", "user"], flag),
                "php_admin_flag" if name != "engine" => (&["options", "admin"], flag),
                "setenv" => (&["environment"], value),
                "phpinidir" => {
                    insert(
                        options,
                        &["options"],
                        "file",
                        &format!("{}/php.ini", name.trim_end_matches('/')),
                    );
                    continue;
                }
                _ => continue,
            };
            insert(options, way, name, value);
        }
    }

    /// PHP-FPM, or another server of FastCGI, as before.
    fn fastcgi(
        &mut self,
        spot: &Spot,
        address: &str,
        directive: &Directive,
    ) -> Option<Map<String, Value>> {
        if !spot.base.at.is_empty() {
            let hint = "also pass the file of PHP-FPM's pool: an application has `prefix`";
            self.findings.lost(
                &directive.place,
                &directive.name,
                "FastCGI does not find scripts below an `Alias`",
                hint,
            );
            return None;
        }
        let address = address.strip_prefix("fcgi://").unwrap_or(address);
        let address = if address.starts_with("unix:") || address.contains(':') {
            address.to_owned()
        } else {
            format!("{address}:8000")
        };
        let address = address.replace("localhost:", "127.0.0.1:");
        let mut action = when("proxy", format!("fastcgi://{address}"));
        action.insert("fastcgi".to_owned(), json!({"root": spot.base.folder}));
        Some(action)
    }

    /// `WSGIScriptAlias`
    pub(super) fn wsgi(&mut self, site: &Rc<Site>) -> Vec<Value> {
        let mut steps = Vec::new();
        for alias in site.all(&["wsgiscriptalias"]).cloned().collect::<Vec<_>>() {
            let (at, file) = (alias.argument(0).trim_end_matches('/'), alias.argument(1));
            let Some((folder, name)) = file.rsplit_once('/').filter(|(folder, name)| {
                folder.starts_with('/')
                    && name.ends_with(".py")
                    && !name.trim_end_matches(".py").contains('.')
            }) else {
                let hint = "write the full name of the file, ending in `.py`";
                self.findings.lost(
                    &alias.place,
                    &alias.name,
                    "the file is not an importable module: requests here get 503",
                    hint,
                );
                steps.push(step(super::section::under(at), json!({"return": 503})));
                continue;
            };
            let application = self.python(site, &alias, at, folder, name.trim_end_matches(".py"));
            let mut action = when("pass", format!("applications/{application}"));
            let mapping = Mapping {
                at: at.to_owned(),
                folder: folder.to_owned(),
            };
            let sections = of_file(&site.sections, &mapping, name);
            let spot = Spot::outermost(site, &mapping);
            self.fields(
                &spot,
                &mut action,
                AnswerOf::Application,
                &Variant::default(),
            );
            let part = format!(
                "{}-{}",
                site.name,
                if at.is_empty() {
                    "wsgi".to_owned()
                } else {
                    slug(at)
                }
            );
            let inner = self.guarded(
                site,
                &sections,
                &mapping,
                &part,
                vec![json!({"action": action})],
            );
            let action = self.out.as_action(&part, inner);
            steps.push(step(super::section::under(at), action));
        }
        steps
    }

    /// The application of a script, with the options of its group of processes.
    fn python(
        &mut self,
        site: &Site,
        alias: &Directive,
        at: &str,
        folder: &str,
        module: &str,
    ) -> String {
        let group = option(alias, "process-group").or_else(|| {
            let sections = site.sections.iter().rev();
            let mut directives = sections.flat_map(|section| section.directives.iter().rev());
            let named = directives.find(|directive| directive.is("wsgiprocessgroup"));
            named.map(|directive| directive.argument(0).to_owned())
        });
        let daemon = group.and_then(|group| {
            let mut all = site.all(&["wsgidaemonprocess"]);
            all.find(|daemon| daemon.argument(0) == group).cloned()
        });
        let mut options = when("type", "python");
        self.owner(&mut options);
        let mut paths: Vec<String> = Vec::new();
        match &daemon {
            Some(daemon) => self.daemon(daemon, &mut options, &mut paths),
            None => {
                options.insert("threads".to_owned(), WSGI_THREADS.into());
                if let Some(home) = site.setting("wsgipythonhome") {
                    options.insert("home".to_owned(), home.argument(0).into());
                }
                if let Some(path) = site.setting("wsgipythonpath") {
                    paths.extend(path.argument(0).split(':').map(str::to_owned));
                }
            }
        }
        // A module within a package has the package's name; another is found in its own folder.
        let inside = paths.iter().find_map(|path| below(path, folder));
        let module = match inside.filter(|rest| !rest.is_empty() && !rest.contains('.')) {
            Some(rest) => format!(
                "{}.{module}",
                rest.trim_start_matches('/').replace('/', ".")
            ),
            None => {
                if !paths.iter().any(|path| path == folder) {
                    paths.push(folder.to_owned());
                }
                module.to_owned()
            }
        };
        options.insert("module".to_owned(), module.into());
        let named = site
            .setting("wsgicallableobject")
            .map(|named| named.argument(0).to_owned());
        if let Some(callable) = option(alias, "callable-object").or(named) {
            options.insert("callable".to_owned(), callable.into());
        }
        options.insert("path".to_owned(), paths.into());
        if !at.is_empty() {
            options.insert("prefix".to_owned(), at.into());
        }
        for directive in site.all(&["setenv"]) {
            insert(
                &mut options,
                &["environment"],
                directive.argument(0),
                directive.argument(1),
            );
        }
        let wanted =
            daemon.map_or_else(|| site.name.clone(), |daemon| daemon.argument(0).to_owned());
        let name = unused(&self.out.applications, &wanted);
        self.out.applications.insert(name.clone(), options.into());
        name
    }

    /// `WSGIDaemonProcess`
    fn daemon(
        &mut self,
        daemon: &Directive,
        options: &mut Map<String, Value>,
        paths: &mut Vec<String>,
    ) {
        let number = |name: &str| option(daemon, name).and_then(|value| value.parse::<u64>().ok());
        let processes = number("processes").unwrap_or(1).clamp(1, 4096);
        options.insert("processes".to_owned(), processes.into());
        let threads = number("threads").unwrap_or(WSGI_THREADS).max(1);
        options.insert("threads".to_owned(), threads.into());
        for (from, to) in [
            ("user", "user"),
            ("group", "group"),
            ("home", "working_directory"),
            ("python-home", "home"),
        ] {
            if let Some(value) = option(daemon, from) {
                options.insert(to.to_owned(), value.into());
            }
        }
        let path = option(daemon, "python-path").unwrap_or_default();
        let folders = path.split(':').filter(|folder| !folder.is_empty());
        paths.extend(folders.map(|folder| folder.trim_end_matches('/').to_owned()));
        let mut limits = Map::new();
        for (from, to) in [
            ("maximum-requests", "requests"),
            ("request-timeout", "timeout"),
        ] {
            if let Some(count) = number(from).filter(|count| *count > 0) {
                limits.insert(to.to_owned(), count.into());
            }
        }
        if !limits.is_empty() {
            options.insert("limits".to_owned(), limits.into());
        }
        for argument in daemon.arguments.iter().skip(1) {
            let name = argument.split('=').next().unwrap_or_default();
            if !DAEMON_OPTIONS.contains(name) {
                let hint = "see `python` in `docs/reference/options.md`";
                let problem = format!("`{name}` has no equivalent");
                self.findings
                    .note(&daemon.place, &daemon.name, &problem, hint);
            }
        }
    }

    /// Aliases that Tutti cannot follow: nothing is served there.
    pub(super) fn closed_aliases(&mut self, site: &Site) -> Vec<Value> {
        let mut steps = Vec::new();
        let names = [
            "aliasmatch",
            "scriptalias",
            "scriptaliasmatch",
            "wsgiscriptaliasmatch",
        ];
        for alias in site
            .all(&names)
            .filter(|alias| !is_folder_of_programs(alias))
        {
            let (problem, hint) = if alias.is("aliasmatch") {
                (
                    "a folder that depends on the path is not carried over: requests here get 403",
                    "write a step with `share`, as a script (`docs/http/scripting.md`)".to_owned(),
                )
            } else if alias.is("scriptalias") {
                (
                    "a single CGI program is not carried over: requests here get 403",
                    format!(
                        "pass them to an application `{{\"type\": \"cgi\", \"root\": \"FOLDER\", \"script\": \"NAME\", \"prefix\": \"{}\"}}` (`docs/languages/cgi.md`), behind the same restrictions",
                        alias.argument(0),
                    ),
                )
            } else {
                (
                    "scripts that depend on the path are not carried over: requests here get 403",
                    "make each of them an application (`docs/languages/README.md`)".to_owned(),
                )
            };
            self.findings
                .lost(&alias.place, &alias.name, problem, &hint);
            let conditions = if alias.key.ends_with("match") {
                let pattern = format!("~{}", alias.argument(0));
                if self.is_pattern(&pattern, alias) {
                    when("uri", pattern)
                } else {
                    Map::new()
                }
            } else {
                let bare = alias.argument(0).trim_end_matches('/');
                when("uri", vec![literal(bare), format!("{}/*", literal(bare))])
            };
            steps.push(step(conditions, super::access::refusal()));
        }
        steps
    }
}

/// True for a `ScriptAlias` of a folder. One without a slash at its end may be a program.
pub(super) fn is_folder_of_programs(alias: &Directive) -> bool {
    let (at, folder) = (alias.argument(0), alias.argument(1));
    alias.is("scriptalias")
        && at.len() > 1
        && at.ends_with('/')
        && folder.len() > 1
        && folder.starts_with('/')
        && folder.ends_with('/')
}

/// The value of `name=value`.
fn option(directive: &Directive, name: &str) -> Option<String> {
    let mut options = directive
        .arguments
        .iter()
        .filter_map(|argument| argument.split_once('='));
    options
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.to_owned())
}

/// Sections as they are for one file, whatever the path.
fn of_file(sections: &[Section], mapping: &Mapping, name: &str) -> Vec<Section> {
    let mut all = Vec::new();
    for section in sections {
        let mut section = section.clone();
        if let Some(file) = &section.file {
            let pattern = tutti_config::pattern::Pattern::parse(
                &format!("~{file}"),
                tutti_config::table::DECODED,
            )
            .ok();
            if !pattern.is_none_or(|pattern| pattern.found_in(name.as_bytes()).unwrap_or(true)) {
                continue;
            }
            section.file = None;
        }
        let is_about = match &section.folder {
            None => true,
            Some(Folder::Path(path)) => below(path, &mapping.folder).is_some(),
            Some(Folder::Match(source)) => super::htaccess::matches(source, &mapping.folder),
        };
        if !is_about {
            continue;
        }
        section.folder = None;
        all.push(section);
    }
    all
}

/// Sets a member of an object within others.
fn insert(options: &mut Map<String, Value>, way: &[&str], name: &str, value: &str) {
    if let Some(object) = within(options, way) {
        object.insert(name.to_owned(), value.into());
    }
}
