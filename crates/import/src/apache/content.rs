//! The content of a folder: scripts by their handler, folders by their index, files.

use std::path::Path;

use serde_json::{Map, Value, json};
use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::access;
use super::grammar::Directive;
use super::headers::{AnswerOf, Variant};
use super::section::{Extent, Mapping, Section, Stage, Where};
use super::site::{Compiler, Spot};
use crate::output::{ends, step, when};
use crate::template::{Piece, Text, quoted};

/// Names of scripts of PHP, under whatever ending.
const PHP_NAMES: &str = r"(?i).+\.ph(?:p[0-9]?|ar|tml|t|ps)(?:\.|$)";

/// The second word of a `SetHandler` that a `ScriptAlias` means.
pub(super) const OF_ALIAS: &str = "(alias)";

/// Names of the scripts that Debian's mod_php runs.
const MOD_PHP_NAMES: &str = r".+\.ph(?:ar|p|tml)$";

/// The handler of files of a kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Handler {
    /// PHP within Apache.
    Php,
    /// PHP-FPM or another server of FastCGI: the address, and the folder of scripts that is named there.
    Fastcgi(String),
    /// Programs that are started for each request, with one of these endings if there are some. Those of an alias need no option, and are
    /// started for no folder.
    Cgi {
        endings: Vec<String>,
        is_alias: bool,
    },
    /// Nothing but files.
    Files,
    /// A program that Tutti does not run: its source must not be handed out.
    Closed,
    /// Scripts that Apache does not run here, whichever other handler is configured for them.
    Stopped,
}

/// Files with a handler.
#[derive(Clone, Debug)]
pub(super) struct Handled {
    place: Where,
    pub(super) wide: Where,
    handler: Handler,
    directive: Option<Directive>,
    /// All of its files end with `.php`.
    is_plain: bool,
}

/// The index of a folder.
pub(super) struct IndexChain<'a> {
    pub(super) spot: &'a Spot,
    /// The names of `DirectoryIndex`.
    pub(super) names: &'a [String],
    pub(super) handled: &'a [Handled],
    /// `FallbackResource`, which Apache applies to each name that has neither a file nor a handler.
    pub(super) fallback: Option<Value>,
    /// The action for a folder without any of the files, if no name is refused.
    pub(super) last: Value,
}

impl Compiler<'_> {
    /// Returns the steps of a place's content; the last one takes every request. `fallback`: for files that do not exist; `scripts`: for
    /// scripts that do not exist, which have a handler and so no `FallbackResource`.
    pub(super) fn content(
        &mut self,
        spot: &Spot,
        fallback: Option<Value>,
        scripts: Option<Value>,
    ) -> Vec<Value> {
        let mut steps = self.local_redirects(spot);
        let handled = self.handlers(spot);
        let index = self.index(spot);
        for one in &handled {
            match &one.handler {
                Handler::Files => {
                    for variant in self.variants(spot, &one.place, AnswerOf::Files) {
                        let share = self.files(spot, &fallback, &variant);
                        steps.push(step(variant.place.conditions(), share));
                    }
                }
                Handler::Closed | Handler::Stopped => {
                    steps.push(step(one.wide.conditions(), access::refusal()))
                }
                Handler::Php | Handler::Fastcgi(_) => {
                    steps.extend(self.scripts(spot, one, &scripts));
                }
                Handler::Cgi { endings, is_alias } => {
                    steps.extend(self.programs(spot, one, (endings, *is_alias)));
                }
            }
            if ends(&steps) {
                return steps;
            }
        }
        let list = self.list(spot, &fallback);
        if !index.is_empty() || list.is_some() || fallback.is_some() {
            // A folder without an index is that of `FallbackResource`, and not of a front controller's rules.
            let own = fallback.clone().filter(|_| scripts.is_none());
            // It is that of each name that has no file, so that there is a list only without names, and no fallback without them.
            let last = match index.is_empty() {
                true => list,
                false => own.clone().or(list),
            };
            let last = last.or_else(|| {
                let mut share = self.share(spot);
                share.insert("folder".to_owned(), access::refusal());
                share.insert("fallback".to_owned(), fallback.clone()?);
                Some(share.into())
            });
            let chain = IndexChain {
                spot,
                names: &index,
                handled: &handled,
                fallback: own,
                last: last.unwrap_or_else(|| json!({"return": 404})),
            };
            let chain = self.index_chain(&chain, 0, false);
            steps.push(step(when("uri", "*/"), chain));
        }
        for variant in self.variants(spot, &Where::default(), AnswerOf::Files) {
            let share = self.files(spot, &fallback, &variant);
            steps.push(step(variant.place.conditions(), share));
        }
        steps
    }

    fn local_redirects(&mut self, spot: &Spot) -> Vec<Value> {
        let mut found = Vec::new();
        for section in spot
            .site
            .sections
            .iter()
            .rev()
            .filter(|section| section.stage != Stage::Server)
        {
            let Some(place) = section.place(&spot.sub, Extent::Narrow) else {
                continue;
            };
            for directive in section
                .directives
                .iter()
                .filter(|directive| super::redirect::NAMES.contains(&directive.key.as_str()))
            {
                found.push((directive.clone(), place.clone()));
            }
        }
        found
            .iter()
            .filter_map(|(directive, place)| self.redirect(directive, place, Some(spot)))
            .collect()
    }

    /// The steps for files that a program answers.
    fn scripts(&mut self, spot: &Spot, handled: &Handled, fallback: &Option<Value>) -> Vec<Value> {
        let mut steps = Vec::new();
        let Some(directive) = &handled.directive else {
            return steps;
        };
        let mut place = handled.wide.clone();
        if !handled.is_plain {
            place.begins(r".*\.php(?:/|$)");
        }
        let action = self.php(spot, &handled.handler, directive);
        for variant in self.variants(spot, &place, AnswerOf::Application) {
            let mut action = match action.clone() {
                Some(action) => action,
                // It has been reported.
                None => when("return", 503),
            };
            self.fields(spot, &mut action, AnswerOf::Application, &variant);
            let action = Value::Object(action);
            match fallback {
                None => steps.push(step(variant.place.conditions(), action)),
                Some(fallback) => {
                    let mut with_path = variant.place.clone();
                    with_path.begins(r".*\.php/");
                    steps.push(step(
                        with_path.conditions(),
                        self.with_path_info(spot, &action, fallback),
                    ));
                    steps.push(step(
                        variant.place.conditions(),
                        self.look(spot, &action, None, fallback),
                    ));
                }
            }
        }
        if !handled.is_plain {
            // Other names of scripts: their source must not be served.
            steps.push(step(handled.wide.conditions(), access::refusal()));
            let hint = "rename scripts so that they end with `.php`";
            self.findings.note(
                &directive.place,
                &directive.name,
                "only files that end with `.php` are run; the other ones get 403",
                hint,
            );
        }
        steps
    }

    /// The steps for CGI programs. No file of theirs is sent.
    fn programs(
        &mut self,
        spot: &Spot,
        handled: &Handled,
        (endings, is_alias): (&[String], bool),
    ) -> Vec<Value> {
        let mut steps = Vec::new();
        let action = self.cgi(spot, endings, is_alias);
        for variant in self.variants(spot, &handled.wide, AnswerOf::Application) {
            let mut action = action.clone();
            self.fields(spot, &mut action, AnswerOf::Application, &variant);
            steps.push(step(variant.place.conditions(), action.into()));
        }
        steps
    }

    /// Tests whether the script of a path with more behind it exists.
    fn with_path_info(&mut self, spot: &Spot, found: &Value, fallback: &Value) -> Value {
        let cut = spot.base.at.chars().count();
        let path = format!(
            "{} + (vars.uri ?? '').slice({cut}).replace(/(\\.php)\\/[^]*$/, '$1')",
            quoted(&spot.base.folder)
        );
        let path = Text(vec![Piece::Script(path)]).template();
        json!({"share": path, "index": "", "found": found, "fallback": fallback})
    }

    /// Tests whether the requested file exists.
    fn look(
        &mut self,
        spot: &Spot,
        found: &Value,
        folder: Option<&Value>,
        nothing: &Value,
    ) -> Value {
        let mut share = self.share(spot);
        share.insert("found".to_owned(), found.clone());
        if let Some(folder) = folder.filter(|folder| *folder != nothing) {
            share.insert("folder".to_owned(), folder.clone());
        }
        share.insert("fallback".to_owned(), nothing.clone());
        share.into()
    }

    /// Returns steps that test whether the requested path is a file or a folder; the last one takes every request.
    pub(super) fn file_test(
        &mut self,
        spot: &Spot,
        found: &Value,
        folder: &Value,
        nothing: &Value,
    ) -> Vec<Value> {
        let mut steps = Vec::new();
        let is_script = |one: &Handled| matches!(one.handler, Handler::Php | Handler::Fastcgi(_));
        if found != nothing && self.handlers(spot).iter().any(is_script) {
            steps.push(step(
                when("uri", "~\\.php/"),
                self.with_path_info(spot, found, nothing),
            ));
        }
        steps.push(json!({"action": self.look(spot, found, Some(folder), nothing)}));
        steps
    }

    /// Returns a share of the requested path, below the folder.
    pub(super) fn share(&self, spot: &Spot) -> Map<String, Value> {
        self.share_of(spot, "")
    }

    pub(super) fn share_of(&self, spot: &Spot, name: &str) -> Map<String, Value> {
        let Mapping { at, folder } = &spot.base;
        let mut path = Text::literal(folder.clone());
        path.0.push(Piece::Variable("uri".to_owned()));
        path.push(name);
        let mut share = when("share", path.template());
        share.insert("index".to_owned(), "".into());
        if !at.is_empty() {
            share.insert("prefix".to_owned(), at.clone().into());
        }
        let options: Vec<&Directive> = spot
            .sections()
            .filter_map(|section| {
                section
                    .directives
                    .iter()
                    .rfind(|directive| directive.is("options"))
            })
            .collect();
        let follows = options
            .iter()
            .find_map(|options| follows(options))
            .unwrap_or(true);
        if !follows {
            share.insert("follow_symlinks".to_owned(), false.into());
        }
        share
    }

    /// The action for files.
    fn files(&mut self, spot: &Spot, fallback: &Option<Value>, variant: &Variant) -> Value {
        let mut share = self.share(spot);
        // Where a rule removes slashes, a redirect that adds one would be an endless loop.
        if let (Some(fallback), true) = (fallback, strips_slashes(spot)) {
            let mut served = share.clone();
            self.fields(spot, &mut served, AnswerOf::Files, variant);
            share.insert("found".to_owned(), served.into());
            share.insert("fallback".to_owned(), fallback.clone());
            return share.into();
        }
        if let Some(fallback) = fallback {
            share.insert("fallback".to_owned(), fallback.clone());
        }
        self.fields(spot, &mut share, AnswerOf::Files, variant);
        share.into()
    }

    /// The names of `DirectoryIndex`.
    fn index(&mut self, spot: &Spot) -> Vec<String> {
        match spot.setting("directoryindex") {
            Some(index) if index.word(0) == "disabled" => Vec::new(),
            Some(index) => index
                .arguments
                .iter()
                .filter(|name| !name.is_empty())
                .cloned()
                .collect(),
            None => vec!["index.html".to_owned()],
        }
    }

    /// The handlers of files, the one that goes first at the front.
    fn handlers(&mut self, spot: &Spot) -> Vec<Handled> {
        let mut all = Vec::new();
        for section in spot.site.sections.iter().rev() {
            for directive in section.directives.iter().rev() {
                let Some((handler, names)) = self.handler(directive) else {
                    continue;
                };
                let mut inner = section.clone();
                if let Some(names) = names {
                    inner.file = Some(names);
                }
                let handler = match handler {
                    Handler::Cgi {
                        is_alias: false, ..
                    } if !runs_programs(spot) => {
                        let hint =
                            "add `ExecCGI` to the `Options` of the folder if its programs were run";
                        self.findings.note(
                            &directive.place,
                            &directive.name,
                            "`Options` allows no programs here: they get 403, as in Apache",
                            hint,
                        );
                        Handler::Closed
                    }
                    handler => handler,
                };
                let (Some(wide), place) = (
                    inner.place(&spot.sub, Extent::Wide),
                    inner.place(&spot.sub, Extent::Narrow),
                ) else {
                    continue;
                };
                let is_plain = inner.file.as_deref().is_some_and(is_plain_php)
                    || matches!(&inner.location, Some(super::section::Location::Match(source)) if source.contains(r"\.php"));
                let place = place.unwrap_or_default();
                let is_taken_away = taken_away(directive).is_some();
                if is_taken_away {
                    // A type for files that are no scripts takes nothing away.
                    if section
                        .file
                        .as_deref()
                        .is_some_and(|names| !names_scripts(names))
                    {
                        continue;
                    }
                    if runs_scripts(spot) {
                        let hint = "remove it if the scripts were run anyway, as with `SetHandler`";
                        self.findings.lost(
                            &directive.place,
                            &directive.name,
                            "PHP scripts get 403 here; they are neither run nor served",
                            hint,
                        );
                    }
                }
                all.push(Handled {
                    place,
                    wide,
                    handler,
                    directive: Some(directive.clone()),
                    is_plain,
                });
            }
        }
        all.sort_by_key(|one: &Handled| one.handler != Handler::Stopped);
        all.extend(self.unhandled(spot, &all));
        all
    }

    /// Scripts of PHP for which the source names no handler: it is in a file which was not given. A site's file alone runs them as
    /// mod_php would, if it has any. All others are closed, so that their source is not served.
    fn unhandled(&mut self, spot: &Spot, handled: &[Handled]) -> Vec<Handled> {
        let sample = format!("{}/index.php", spot.sub.at);
        if handled.iter().any(|one| may_hold(&one.wide, &sample)) {
            return Vec::new();
        }
        let section = |names: &str| Section {
            stage: Stage::Files,
            file: Some(names.to_owned()),
            ..Section::default()
        };
        let Some(wide) = section(PHP_NAMES).place(&spot.sub, Extent::Wide) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        let named = names_php(spot);
        match self.runs_php(spot, named.as_ref()) {
            Some(directive) => {
                let problem = "PHP scripts are run by an application, as with mod_php: the file with their handler was not given";
                let hint =
                    "also pass `apache2.conf`, so that its settings for PHP are carried over";
                self.findings
                    .note(&directive.place, &directive.name, problem, hint);
                let run = section(MOD_PHP_NAMES);
                let places =
                    [Extent::Narrow, Extent::Wide].map(|extent| run.place(&spot.sub, extent));
                if let [Some(place), Some(wide)] = places {
                    all.push(Handled {
                        place,
                        wide,
                        handler: Handler::Php,
                        directive: Some(directive),
                        is_plain: false,
                    });
                }
            }
            None => {
                let problem = "no handler for PHP scripts is configured: they get 403, so that their source is not served";
                let hint = "also pass the file with the handler: `mods-enabled/php….conf`, or `conf-enabled/php…-fpm.conf` and the pool";
                if let Some(named) = named {
                    self.findings.lost(&named.place, &named.name, problem, hint);
                }
            }
        }
        all.push(Handled {
            place: wide.clone(),
            wide,
            handler: Handler::Closed,
            directive: None,
            is_plain: false,
        });
        all
    }

    /// The directive that says that a site's file alone is one of mod_php: it speaks of PHP, or its folder has scripts.
    fn runs_php(&self, spot: &Spot, named: Option<&Directive>) -> Option<Directive> {
        if !self.is_alone {
            return None;
        }
        if let Some(named) = named {
            return Some(named.clone());
        }
        let names = self.sources.names_in(Path::new(&spot.base.folder));
        let has_scripts = names.iter().any(|name| name.ends_with(".php"));
        let own = spot.site.own.iter().find(|one| one.is("documentroot"));
        own.filter(|_| has_scripts).cloned()
    }

    /// The handler of a directive, and an expression for names of files where it is about endings.
    fn handler(&mut self, directive: &Directive) -> Option<(Handler, Option<String>)> {
        let value = directive.argument(0);
        let php = |value: &str| {
            value.starts_with("application/x-httpd-php")
                || value.starts_with("php") && value.ends_with("-script")
        };
        match directive.key.as_str() {
            "sethandler" if value == "cgi-script" => {
                let is_alias = directive.argument(1) == OF_ALIAS;
                let endings = Vec::new();
                Some((Handler::Cgi { endings, is_alias }, None))
            }
            "addhandler" if value == "cgi-script" && directive.arguments.len() > 1 => {
                let words = directive.arguments.iter().skip(1);
                let endings = words.map(|word| format!(".{}", word.trim_start_matches('.')));
                let handler = Handler::Cgi {
                    endings: endings.collect(),
                    is_alias: false,
                };
                Some((handler, Some(names_with_endings(directive))))
            }
            "sethandler" => Some((self.named_handler(value, directive), None)),
            "addhandler" | "addtype"
                if directive.arguments.len() > 1 && (directive.is("addhandler") || php(value)) =>
            {
                let is_program =
                    directive.is("addhandler") && !matches!(value, "type-map" | "default-handler");
                if !(php(value) || is_program) {
                    return None;
                }
                let names = names_with_endings(directive);
                Some((self.named_handler(value, directive), Some(names)))
            }
            "addoutputfilter" | "addoutputfilterbytype"
                if value.to_ascii_uppercase().contains("INCLUDES") =>
            {
                self.closed(directive, "server-side includes");
                Some((Handler::Closed, Some(names_with_endings(directive))))
            }
            "addtype" | "forcetype" | "removehandler" | "removetype" => taken_away(directive),
            "php_flag" | "php_admin_flag"
                if value == "engine" && matches!(directive.word(1).as_str(), "off" | "0") =>
            {
                self.not_run(directive);
                Some((Handler::Stopped, Some(PHP_NAMES.to_owned())))
            }
            _ => None,
        }
    }

    fn not_run(&mut self, directive: &Directive) {
        let hint = "delete the scripts, or keep it so";
        self.findings.note(
            &directive.place,
            &directive.name,
            "scripts that are not run get 403 here; Apache serves their source",
            hint,
        );
    }

    fn named_handler(&mut self, value: &str, directive: &Directive) -> Handler {
        if let Some(target) = value.strip_prefix("proxy:") {
            let target = target.trim_end_matches('/');
            if let Some((socket, _)) = target
                .split_once('|')
                .filter(|(_, rest)| rest.starts_with("fcgi:"))
            {
                return Handler::Fastcgi(socket.to_owned());
            }
            if let Some(address) = target.strip_prefix("fcgi://") {
                return Handler::Fastcgi(address.split('/').next().unwrap_or(address).to_owned());
            }
        }
        let is_php = value.starts_with("application/x-httpd-php")
            || value.starts_with("php") && value.ends_with("-script");
        match value {
            "application/x-httpd-php-source" => {}
            _ if is_php => return Handler::Php,
            "none" | "None" | "default-handler" | "type-map" | "send-as-is" => {
                return Handler::Files;
            }
            "server-status" | "server-info" => {
                let hint = "`tutti status`, `\"pass\": \"metrics\"` (`docs/operate/metrics.md`)";
                self.findings.note(
                    &directive.place,
                    &directive.name,
                    "Apache's own pages get 403",
                    hint,
                );
                return Handler::Closed;
            }
            _ => self.closed(directive, &format!("the handler `{value}`")),
        }
        Handler::Closed
    }

    fn closed(&mut self, directive: &Directive, what: &str) {
        let hint = "let Apache serve these files behind a `proxy`";
        self.findings.lost(
            &directive.place,
            &directive.name,
            &format!(
                "{what} has no equivalent; its files get 403, so that their source is not served"
            ),
            hint,
        );
    }
}

/// An expression for names of files with one of the endings that a directive lists behind its first argument. `x.php.txt` has the ending
/// `php`, too.
fn names_with_endings(directive: &Directive) -> String {
    let endings = directive.arguments.iter().skip(1);
    let endings = endings.map(|ending| crate::template::escaped(ending.trim_start_matches('.')));
    let endings: Vec<String> = endings.collect();
    format!(r"(?i).+\.(?:{})(?:\.|$)", endings.join("|"))
}

/// Returns a handler or a type that scripts had, and no longer have.
fn taken_away(directive: &Directive) -> Option<(Handler, Option<String>)> {
    let skipped = usize::from(directive.is("addtype"));
    let is_about = matches!(
        directive.key.as_str(),
        "addtype" | "forcetype" | "removehandler" | "removetype"
    );
    let php = directive.argument(0).starts_with("application/x-httpd-php");
    let mut endings = directive
        .arguments
        .iter()
        .skip(skipped)
        .map(|ending| ending.trim_start_matches('.').to_ascii_lowercase());
    let takes = directive.is("forcetype") || endings.any(|ending| ending.starts_with("ph"));
    (is_about && takes && !php).then(|| (Handler::Stopped, Some(PHP_NAMES.to_owned())))
}

/// True if an expression for names of files may be about scripts of PHP.
fn names_scripts(names: &str) -> bool {
    let pattern = Pattern::parse(&format!("~{names}"), DECODED).ok();
    let Some(pattern) = pattern else {
        return true;
    };
    let samples = ["index.php", "a.phtml", "a.php5", "a.phar", "a.phps"];
    let mut found = samples
        .iter()
        .map(|name| pattern.found_in(name.as_bytes()).unwrap_or(true));
    names.contains("ph") || found.any(|found| found)
}

/// True if a site has scripts of PHP that are run.
fn runs_scripts(spot: &Spot) -> bool {
    let is_php = |text: &str| text.contains("php") || text.contains("ph(");
    let runs = |directive: &Directive| {
        matches!(
            directive.key.as_str(),
            "sethandler" | "addhandler" | "addtype"
        ) && is_php(&directive.raw)
    };
    spot.site.sections.iter().any(|section| {
        section.file.as_deref().is_some_and(is_php) || section.directives.iter().any(runs)
    })
}

/// The first directive of a place that speaks of PHP.
fn names_php(spot: &Spot) -> Option<Directive> {
    let speaks = |directive: &&Directive| {
        directive.key.starts_with("php_")
            || directive.arguments.iter().any(|word| word.contains(".php"))
    };
    let mut sections = spot.site.sections.iter();
    let found = sections.find_map(|section| section.directives.iter().find(speaks));
    found.cloned()
}

/// True if `Options` allows CGI programs.
fn runs_programs(spot: &Spot) -> bool {
    let options = spot.sections().filter_map(|section| {
        let mut directives = section.directives.iter();
        directives.rfind(|directive| directive.is("options"))
    });
    let mut said = options.filter_map(|options| {
        let has = |word: &str| {
            let mut words = options.arguments.iter();
            words.any(|argument| argument.eq_ignore_ascii_case(word))
        };
        let first = options.arguments.first();
        let is_absolute = first.is_some_and(|first| !first.starts_with(['+', '-']));
        match has("ExecCGI") || has("+ExecCGI") || has("All") {
            true => Some(true),
            false => (is_absolute || has("-ExecCGI")).then_some(false),
        }
    });
    said.next().unwrap_or(false)
}

/// True if `Options` follows links; `None` if it has no word about it. Tutti cannot test for links of the owner alone:
/// it follows none then.
pub(super) fn follows(options: &Directive) -> Option<bool> {
    let has = |word: &str| {
        let mut words = options.arguments.iter();
        words.any(|argument| argument.eq_ignore_ascii_case(word))
    };
    let is_absolute = options
        .arguments
        .first()
        .is_some_and(|first| !first.starts_with(['+', '-']));
    if has("SymLinksIfOwnerMatch") || has("+SymLinksIfOwnerMatch") || has("-FollowSymLinks") {
        Some(false)
    } else if has("FollowSymLinks") || has("+FollowSymLinks") || has("All") {
        Some(true)
    } else {
        is_absolute.then_some(false)
    }
}

/// True if an expression for names has none but those that end with `.php`.
fn is_plain_php(source: &str) -> bool {
    matches!(
        source,
        r"\.php$" | r".+\.php$" | r"[^.]+\.php$" | r"^.+\.php$" | r".php$"
    )
}

/// True if a place may hold for a path.
pub(super) fn may_hold(place: &Where, path: &str) -> bool {
    match place.conditions().get("uri").and_then(Value::as_str) {
        Some(pattern) => Pattern::parse(pattern, DECODED)
            .ok()
            .is_none_or(|pattern| pattern.found_in(path.as_bytes()).unwrap_or(true)),
        None => true,
    }
}

/// True if a rule redirects paths that end with a slash to those without.
fn strips_slashes(spot: &Spot) -> bool {
    let conditions = spot.sections().flat_map(|section| &section.directives);
    let mut conditions = conditions.filter(|directive| directive.is("rewritecond"));
    conditions.any(|condition| {
        condition.argument(0) == "%{REQUEST_FILENAME}" && condition.argument(1) == "!-d"
    }) && spot
        .sections()
        .flat_map(|section| &section.directives)
        .any(|directive| {
            directive.is("rewriterule")
                && directive.argument(2).contains("R=301")
                && directive.argument(1).contains(['%', '$'])
        })
}
