//! `fastcgi_pass`: PHP within Tutti where the pool of PHP-FPM is known, else the FastCGI server as before.

use serde_json::{Map, Value, json};

use super::site::{Compiler, Site};
use super::tree::Statement;
use crate::finding::SourceLocation;
use crate::output::{slug, unused, within};
use crate::words::Words;

/// Variables that every script gets from Tutti, with the same meaning.
const USUAL: Words = Words(
    "CONTENT_LENGTH CONTENT_TYPE DOCUMENT_ROOT DOCUMENT_URI GATEWAY_INTERFACE HTTPS HTTP_HOST HTTP_PROXY PATH_INFO
    PATH_TRANSLATED QUERY_STRING REDIRECT_STATUS REMOTE_ADDR REMOTE_PORT REMOTE_USER REQUEST_METHOD REQUEST_SCHEME REQUEST_URI
    SCRIPT_FILENAME SCRIPT_NAME SERVER_ADDR SERVER_NAME SERVER_PORT SERVER_PROTOCOL SERVER_SOFTWARE",
);

/// Values of the usual variables that mean what Tutti gives them.
const USUAL_VALUES: Words = Words(
    "$content_length $content_type $document_root $realpath_root $document_uri $uri CGI/1.1 $https $host $http_host
    $path_info $fastcgi_path_info $document_root$path_info $document_root$fastcgi_path_info
    $realpath_root$fastcgi_path_info $query_string $args 200 $remote_addr $remote_port $request_method $scheme
    $request_uri $fastcgi_script_name $server_addr $server_name $server_port $server_protocol nginx/$nginx_version
    nginx",
);

/// The script that runs.
struct Script {
    root: String,
    /// The server behind learns its path.
    is_named: bool,
    /// One script for every request; `None`: the path names it.
    fixed: Option<String>,
    prefix: Option<String>,
}

impl Compiler<'_> {
    /// The action of `fastcgi_pass`.
    pub(super) fn fastcgi(
        &mut self,
        site: &Site,
        statement: &Statement,
    ) -> Option<Map<String, Value>> {
        let script = self.script(site, statement)?;
        let address = statement.argument(0);
        let servers = self.group_addresses(address);
        let pool = self
            .pools
            .iter()
            .position(|pool| servers.iter().any(|server| pool.listens_on(server)));
        if let Some(pool) = pool {
            if script.root.contains('$') {
                let hint = "write a step for each host, with an application target for its folder";
                let problem = "the folder depends on the request, which an application does not support; the requests still go to PHP-FPM";
                self.findings
                    .lost(&statement.place, "fastcgi_pass", problem, hint);
            } else {
                return Some(self.php(site, pool, &script));
            }
        }
        self.fastcgi_server(site, statement, &script)
    }

    /// Finds the script that `SCRIPT_FILENAME` names.
    fn script(&mut self, site: &Site, statement: &Statement) -> Option<Script> {
        let named = site
            .scope
            .params
            .iter()
            .rev()
            .find(|(name, ..)| name == "SCRIPT_FILENAME");
        let (folder, prefix) = match &site.scope.folder {
            Some(folder) => (
                folder.path.trim_end_matches('/').to_owned(),
                folder.at.clone().filter(|_| folder.is_alias),
            ),
            None => ("/usr/share/nginx/html".to_owned(), None),
        };
        let prefix = prefix
            .map(|prefix| prefix.trim_end_matches('/').to_owned())
            .filter(|prefix| !prefix.is_empty());
        let by_path = |root: String| Script {
            root,
            is_named: named.is_some(),
            fixed: None,
            prefix: prefix.clone(),
        };
        let Some((_, value, place)) = named else {
            // Without it PHP-FPM answers nothing.
            return Some(by_path(folder));
        };
        let value = value.replace("${", "$").replace('}', "");
        if value.ends_with("$request_filename") {
            return Some(by_path(folder));
        }
        let value = value
            .replace("$document_root", &folder)
            .replace("$realpath_root", &folder);
        for whole in ["$fastcgi_script_name", "$uri", "$script_name"] {
            if let Some(root) = value.strip_suffix(whole) {
                return Some(by_path(root.trim_end_matches('/').to_owned()));
            }
        }
        if value.contains('$') || !value.starts_with('/') {
            let problem =
                format!("the script in `{value}` is not known in advance; the path selects it");
            let hint = "check `script` or `root` of the application";
            let _ = statement;
            self.findings.lost(place, "fastcgi_param", &problem, hint);
            return Some(by_path(folder));
        }
        let below = value
            .strip_prefix(&folder)
            .and_then(|rest| rest.strip_prefix('/'));
        let (root, fixed) = match below {
            Some(below) => (folder.clone(), below.to_owned()),
            None => {
                let (root, name) = value.rsplit_once('/').unwrap_or(("/", value.as_str()));
                (root.to_owned(), name.to_owned())
            }
        };
        Some(Script {
            root,
            is_named: true,
            fixed: Some(fixed),
            prefix: None,
        })
    }

    /// An application for a pool, and its target for a script.
    fn php(&mut self, site: &Site, pool: usize, script: &Script) -> Map<String, Value> {
        let name = self.application(pool);
        self.environment(site, &name);
        let mut target = Map::new();
        target.insert("root".to_owned(), script.root.clone().into());
        if let Some(fixed) = &script.fixed {
            target.insert("script".to_owned(), fixed.clone().into());
        } else if let Some(index) = site
            .scope
            .script_index
            .as_ref()
            .filter(|index| *index != "index.php")
        {
            target.insert("index".to_owned(), index.clone().into());
        }
        if let Some(prefix) = &script.prefix {
            target.insert("prefix".to_owned(), prefix.clone().into());
        }
        let application = self
            .out
            .applications
            .get_mut(&name)
            .and_then(Value::as_object_mut);
        let targets = application.and_then(|options| {
            let targets = options.entry("targets").or_insert_with(|| json!({}));
            targets.as_object_mut()
        });
        let mut chosen = "direct".to_owned();
        if let Some(targets) = targets {
            let target = Value::Object(target);
            let known = targets
                .iter()
                .find(|(_, known)| **known == target)
                .map(|(name, _)| name.clone());
            chosen = known.unwrap_or_else(|| {
                let wanted = match &script.fixed {
                    Some(fixed) => slug(fixed.trim_end_matches(".php")),
                    None if targets.is_empty() => "direct".to_owned(),
                    None => slug(&script.root),
                };
                let name = unused(targets, &wanted);
                targets.insert(name.clone(), target);
                name
            });
        }
        let mut action = crate::output::when("pass", format!("applications/{name}/{chosen}"));
        self.request_fields(site, &mut action);
        self.fields_of_params(site, &mut action);
        action
    }

    /// `fastcgi_param HTTP_…` of an application: header fields, which clients must not set in its place.
    fn fields_of_params(&mut self, site: &Site, action: &mut Map<String, Value>) {
        let mut fields = Map::new();
        for (name, value, place) in site.scope.params.clone() {
            let Some(field) = name
                .strip_prefix("HTTP_")
                .filter(|_| !is_usual(&name, &value))
            else {
                continue;
            };
            let text = match value.is_empty() {
                true => None,
                false => self.text(site, &value, &place, "fastcgi_param"),
            };
            let value = text.map_or(Value::Null, |text| text.template().into());
            fields.insert(field.replace('_', "-"), value);
        }
        if fields.is_empty() {
            return;
        }
        let known = action.entry("request_headers").or_insert_with(|| json!({}));
        if let Some(known) = known.as_object_mut() {
            known.extend(fields);
        }
    }

    /// The name of the application that a pool has become.
    fn application(&mut self, number: usize) -> String {
        let Some(pool) = self.pools.get_mut(number) else {
            return "php".to_owned();
        };
        if let Some(name) = &pool.application {
            return name.clone();
        }
        let name = unused(&self.out.applications, &pool.name);
        pool.application = Some(name.clone());
        let options = crate::fpm::application(pool, self.findings);
        self.out.applications.insert(name.clone(), options.into());
        name
    }

    /// Variables that a location sets: environment, or directives of php.ini.
    fn environment(&mut self, site: &Site, application: &str) {
        for (name, value, place) in site.scope.params.clone() {
            // An application gets the user whose password was checked, and no other (docs/start/import.md): a client's claim is not carried over.
            let is_user = name == "REMOTE_USER" && value == "$remote_user";
            if is_usual(&name, &value) || is_user || name.starts_with("HTTP_") {
                continue;
            }
            if name == "PHP_VALUE" || name == "PHP_ADMIN_VALUE" {
                let kind = if name == "PHP_VALUE" { "user" } else { "admin" };
                let directives = value.lines().filter_map(|line| line.split_once('='));
                for (directive, value) in directives {
                    self.set_inside(
                        application,
                        &["options", kind],
                        directive.trim(),
                        value.trim().trim_matches('"'),
                        &place,
                    );
                }
                continue;
            }
            match site
                .meaning
                .text(&value)
                .ok()
                .and_then(|text| text.as_literal())
            {
                Some(value) => {
                    self.set_inside(application, &["environment"], &name, &value, &place)
                }
                None => {
                    let problem = format!(
                        "`{name}` depends on the request, and an application's environment does not"
                    );
                    let hint = "set a field of the request instead (`request_headers`), or let PHP-FPM handle this location";
                    self.findings.lost(&place, "fastcgi_param", &problem, hint);
                }
            }
        }
    }

    /// Sets a member of an application, unless another location has set it otherwise.
    fn set_inside(
        &mut self,
        application: &str,
        way: &[&str],
        name: &str,
        value: &str,
        place: &SourceLocation,
    ) {
        let options = self
            .out
            .applications
            .get_mut(application)
            .and_then(Value::as_object_mut);
        let Some(object) = options.and_then(|options| within(options, way)) else {
            return;
        };
        match object.get(name).and_then(Value::as_str) {
            Some(former) if former != value => {
                let problem = format!(
                    "`{name}` is `{former}` elsewhere, but an application has one environment"
                );
                let hint = "write an application for each, with its own `environment`";
                self.findings.lost(place, "fastcgi_param", &problem, hint);
            }
            _ => drop(object.insert(name.to_owned(), value.into())),
        }
    }

    /// Variables of CGI that a location sets, for a server behind. A variable that cannot be written is removed: a client must not set it
    /// with a header field.
    pub(super) fn params(&mut self, site: &Site, directive: &str) -> Map<String, Value> {
        let mut params = Map::new();
        for (name, value, place) in site.scope.params.clone() {
            // Tutti names the host that the client asked for.
            let is_of_host = name == "SERVER_NAME"
                && matches!(value.as_str(), "$server_name" | "${server_name}")
                && site.has_other_hosts;
            if is_usual(&name, &value) && !is_of_host {
                continue;
            }
            let is_guarded = site.scope.guards.realm.is_some();
            if is_guarded && value.contains("$remote_user") {
                // The server behind gets it without a parameter.
                if name == "REMOTE_USER" && value == "$remote_user" {
                    continue;
                }
                let problem = "the name of the user is not passed on in a parameter";
                let hint = "`field` of `authenticate.basic` passes it on in a field (`docs/http/access.md`)";
                self.findings.lost(&place, directive, problem, hint);
                params.insert(name, Value::Null);
                continue;
            }
            let text = self.text(site, &value, &place, directive);
            let value = text.map_or(Value::Null, |text| text.template().into());
            params.insert(name, value);
        }
        params
    }

    /// The FastCGI server as before.
    fn fastcgi_server(
        &mut self,
        site: &Site,
        statement: &Statement,
        script: &Script,
    ) -> Option<Map<String, Value>> {
        let mut options = Map::new();
        let file = match script.prefix {
            Some(_) => self.file_of_alias(site),
            None => None,
        };
        if !script.is_named || file.is_some() {
            // Programs that are no scripts do not need it.
            let mut params = self.params(site, "fastcgi_param");
            if let Some(file) = file {
                params.insert("SCRIPT_FILENAME".to_owned(), file.into());
                for name in ["PATH_INFO", "PATH_TRANSLATED"] {
                    params.entry(name).or_insert(Value::Null);
                }
            }
            for (name, value) in [
                ("DOCUMENT_ROOT", "$document_root"),
                ("DOCUMENT_URI", "$uri"),
            ] {
                let text = site.meaning.text(value).ok();
                if let Some(text) = text.filter(|_| is_set(site, name)) {
                    params.entry(name).or_insert_with(|| text.template().into());
                }
            }
            let is_missing = |name: &&str| !name.starts_with("HTTP_") && !is_set(site, name);
            for name in USUAL.iter().filter(is_missing) {
                params.entry(name).or_insert(Value::Null);
            }
            if is_set(site, "SCRIPT_NAME") {
                params.insert("SCRIPT_NAME".to_owned(), "$uri".into());
            }
            options.insert("params".to_owned(), params.into());
            return self.send(site, statement, "fastcgi", Some(options));
        }
        if script.root.contains('$') {
            let hint = "write a step for each host, each with its `fastcgi.root`";
            let problem =
                "the folder depends on the request, which `fastcgi.root` does not support";
            self.findings
                .lost(&statement.place, "fastcgi_pass", problem, hint);
            return None;
        }
        options.insert("root".to_owned(), script.root.clone().into());
        if let Some(fixed) = &script.fixed {
            options.insert("script".to_owned(), fixed.clone().into());
        } else if let Some(index) = site
            .scope
            .script_index
            .as_ref()
            .filter(|index| *index != "index.php")
        {
            options.insert("index".to_owned(), index.clone().into());
        }
        if let Some((pattern, place)) = &site.scope.split {
            match script_ending(pattern) {
                Some(".php") => {}
                Some(ending) => drop(options.insert("split_path".to_owned(), ending.into())),
                None => {
                    let problem =
                        format!("`{pattern}` is not carried over: `PATH_INFO` begins after `.php`");
                    let hint = "list the extensions of scripts in `fastcgi.split_path`";
                    self.findings
                        .lost(place, "fastcgi_split_path_info", &problem, hint);
                }
            }
        }
        if script.prefix.is_some() {
            let hint = "also pass the file of PHP-FPM's pool: an application has `prefix`";
            self.findings.lost(
                &statement.place,
                "fastcgi_pass",
                "FastCGI does not find scripts below an `alias`",
                hint,
            );
        }
        let mut params = self.params(site, "fastcgi_param");
        if !is_set(site, "PATH_TRANSLATED") {
            params.insert("PATH_TRANSLATED".to_owned(), Value::Null);
        }
        // With one script for all, nginx names the path all the same.
        for (name, value) in [
            ("SCRIPT_NAME", "$fastcgi_script_name"),
            ("DOCUMENT_URI", "$document_uri"),
        ] {
            let is_own = |(own, text, _): &(String, String, SourceLocation)| {
                own == name && matches!(text.as_str(), text if text == value || text == "$uri")
            };
            if script.fixed.is_some() && site.scope.params.iter().any(is_own) {
                params.insert(name.to_owned(), "$uri".into());
            }
        }
        if !params.is_empty() {
            options.insert("params".to_owned(), params.into());
        }
        self.send(site, statement, "fastcgi", Some(options))
    }
}

impl Compiler<'_> {
    /// The script of a location with an `alias`, where the source takes it from the path below that.
    fn file_of_alias(&mut self, site: &Site) -> Option<String> {
        let mut params = site.scope.params.iter().rev();
        let (_, value, place) = params.find(|(name, ..)| name == "SCRIPT_FILENAME")?;
        if !matches!(value.as_str(), "$request_filename" | "${request_filename}") {
            return None;
        }
        let (value, place) = (value.clone(), place.clone());
        Some(self.text(site, &value, &place, "fastcgi_param")?.template())
    }
}

/// True if the source sets a variable of CGI.
fn is_set(site: &Site, name: &str) -> bool {
    site.scope.params.iter().any(|(known, ..)| known == name)
}

/// The ending of scripts in an expression of `fastcgi_split_path_info`: `^(.+\.php)(/.+)$`.
fn script_ending(pattern: &str) -> Option<&str> {
    let rest = pattern.strip_prefix("^(.+")?;
    let rest = rest.strip_prefix('?').unwrap_or(rest);
    let rest = rest.strip_prefix('\\')?;
    let (ending, rest) = rest.split_once(')')?;
    let is_plain = ending
        .strip_prefix('.')?
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric());
    let is_whole = matches!(
        rest,
        "(/.+)$" | "(/.*)$" | "(.*)$" | "(/?.+)$" | "(/?.*)$" | "(/.*)" | "(/.+)"
    );
    (is_plain && is_whole).then_some(ending)
}

/// True for a variable to which Tutti gives the same value. An empty `HTTP_…` is not: it removes a field of the client.
fn is_usual(name: &str, value: &str) -> bool {
    name == "SCRIPT_FILENAME"
        || (USUAL.contains(name) && (value.is_empty() || USUAL_VALUES.contains(value)))
        || (value.is_empty() && !name.starts_with("HTTP_"))
}
