//! Variables of `SetEnvIf`, `BrowserMatch` and `SetEnv`, as texts; and the maps of `RewriteMap`.
//!
//! Must never: take a variable for unset whose condition is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use tutti_config::pattern::Case;

use super::grammar::Directive;
use super::meaning::Meaning;
use super::section::{Section, Stage};
use super::site::{Compiler, Site, Spot};
use crate::template::{Piece, Text, case, quoted, regex, script_text};
use crate::words::Words;

/// Entries of a map's file that become part of the configuration.
const MOST_ENTRIES: usize = 500;

/// Variables that only Apache's own modules look at, for old browsers and for compression; or that applications have anyway.
const OF_APACHE: Words = Words(
    "nokeepalive ssl-unclean-shutdown downgrade-1.0 force-response-1.0 force-no-vary force-gzip gzip-only-text/html
    no-gzip no-brotli dont-vary redirect-carefully suppress-error-charset prefer-language HTTP_AUTHORIZATION
    Authorization proxy-nokeepalive proxy-sendchunked proxy-sendcl proxy-initial-not-pooled proxy-chain-auth
    proxy-interim-response rate-limit rate-initial-burst static",
);

/// Directives that look at variables.
const LOOKING: Words = Words(
    "header requestheader customlog logformat require allow deny rewritecond rewriterule if elseif setenvif
    setenvifnocase setenvifexpr redirect errordocument",
);

/// The variables that are known at a place.
#[derive(Default)]
pub(super) struct Environment {
    pub(super) values: BTreeMap<String, Text>,
    /// Those whose condition cannot be written.
    pub(super) unknown: BTreeSet<String>,
}

/// The time at which variables are looked at.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Time {
    /// Before access control and rewriting: `SetEnv` comes later.
    Early,
    /// With the response.
    Late,
}

impl Compiler<'_> {
    /// The meaning of texts at the beginning of a place's rules.
    pub(super) fn meaning(&self, spot: &Spot) -> Meaning {
        let mut sections: Vec<&Section> = spot.sections().collect();
        sections.reverse();
        let environment = self.environment(&spot.site, sections.into_iter(), Time::Early);
        Meaning {
            mapping: spot.base.clone(),
            ..self.meaning_of(&spot.site, environment, Time::Early)
        }
    }

    /// Returns the variables that sections set, the outermost first.
    pub(super) fn environment<'s>(
        &self,
        site: &Site,
        sections: impl Iterator<Item = &'s Section>,
        time: Time,
    ) -> Environment {
        let mut environment = Environment::default();
        for section in sections {
            for directive in &section.directives {
                self.set(site, directive, time, &mut environment);
            }
        }
        environment
    }

    /// The variables of the server and of the host, and none of its parts.
    pub(super) fn environment_of_host(&self, site: &Site, time: Time) -> Environment {
        let sections = site.sections.iter();
        let sections = sections.filter(|section| section.stage == Stage::Server);
        let mut environment = self.environment(site, sections, time);
        let parts = site.sections.iter();
        for directive in parts
            .filter(|section| section.stage != Stage::Server)
            .flat_map(|section| &section.directives)
        {
            environment.unknown.extend(names(directive));
        }
        environment
    }

    /// The meaning of texts where a site has the variables of this environment.
    pub(super) fn meaning_of(&self, site: &Site, environment: Environment, time: Time) -> Meaning {
        let nowhere = || super::section::Mapping {
            at: String::new(),
            folder: "/var/empty".to_owned(),
        };
        Meaning {
            mapping: site.mappings.last().cloned().unwrap_or_else(nowhere),
            environment: environment.values,
            set_later: BTreeSet::new(),
            unknown: environment.unknown,
            doubts_address: self.doubts_address,
            server: site.server.clone(),
            maps: site.maps.clone(),
            has_response: time == Time::Late,
        }
    }

    fn set(&self, site: &Site, directive: &Directive, time: Time, environment: &mut Environment) {
        let arguments = directive.arguments.as_slice();
        match directive.key.as_str() {
            "setenv" if time == Time::Late => {
                let value = Text::literal(directive.argument(1));
                environment
                    .values
                    .insert(directive.argument(0).to_owned(), value);
                return;
            }
            "unsetenv" if time == Time::Late => {
                for name in arguments {
                    environment.values.remove(name);
                }
                return;
            }
            _ => {}
        }
        let words = names_and_values(directive);
        if words.is_empty() {
            return;
        }
        let is_caseless = directive.key.ends_with("nocase");
        let tested = match directive.key.as_str() {
            "setenvifexpr" => {
                let known = Environment {
                    values: environment.values.clone(),
                    unknown: environment.unknown.clone(),
                };
                let meaning = self.meaning_of(site, known, Time::Early);
                super::expression::condition(directive.argument(0), &meaning)
                    .ok()
                    .map(|test| (test, None))
            }
            "browsermatch" | "browsermatchnocase" => {
                let agent = Text(vec![Piece::Variable("header_user_agent".to_owned())]);
                test(&agent, directive.argument(0), case(is_caseless))
            }
            _ => self
                .attribute(directive.argument(0), environment)
                .and_then(|subject| test(&subject, directive.argument(1), case(is_caseless))),
        };
        for word in words {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, value),
                None => (word.as_str(), "1"),
            };
            let (name, value) = match name.strip_prefix('!') {
                Some(name) => (name, ""),
                None => (name, value),
            };
            let text = tested
                .as_ref()
                .and_then(|(test, groups)| Some((test, with_groups(value, groups.as_deref())?)));
            let Some((test, text)) = text else {
                environment.unknown.insert(name.to_owned());
                continue;
            };
            let before = environment.values.get(name).cloned().unwrap_or_default();
            let script = format!("{test} ? {} : {}", text.expression(), before.expression());
            environment
                .values
                .insert(name.to_owned(), script_text(script));
        }
    }

    /// The text that `SetEnvIf` looks at.
    fn attribute(&self, name: &str, environment: &Environment) -> Option<Text> {
        let plain = |name: &str| Some(Text(vec![Piece::Variable(name.to_owned())]));
        match name.to_ascii_lowercase().as_str() {
            "remote_addr" if self.doubts_address => None,
            "remote_host" | "remote_user" => None,
            "remote_addr" => plain("remote_addr"),
            "server_addr" => plain("server_addr"),
            "request_method" => plain("method"),
            "request_protocol" => plain("protocol"),
            // As the client has sent it.
            "request_uri" => Some(script_text(
                r"(vars.request_uri ?? '').replace(/\?[^]*$/, '')".to_owned(),
            )),
            _ if environment.unknown.contains(name) => None,
            lower => match environment.values.get(name) {
                Some(text) => Some(text.clone()),
                None => {
                    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                    lower
                        .bytes()
                        .all(is_name)
                        .then(|| plain(&format!("header_{}", lower.replace('-', "_"))))?
                }
            },
        }
    }

    /// Reports variables of a request that are not carried over, or that applications do not get.
    pub(super) fn report_environment(&mut self, site: &Site) {
        let whole: Vec<Directive> = site
            .sections
            .iter()
            .flat_map(|section| section.directives.iter().cloned())
            .collect();
        let known = self.environment(site, site.sections.iter(), Time::Early);
        for directive in &whole {
            for name in names(directive) {
                let looks = |one: &Directive| looks_at(one, directive, &name);
                if OF_APACHE.contains(&name) {
                    if matches!(name.as_str(), "no-gzip" | "no-brotli") {
                        let problem =
                            "responses are compressed by their type, whatever the variable says";
                        let hint = "see `compression` in `docs/http/delivery.md`";
                        self.findings
                            .note(&directive.place, &directive.name, problem, hint);
                    }
                    continue;
                }
                let (problem, hint) = if known.unknown.contains(&name) {
                    (
                        format!("the condition of the variable `{name}` is not carried over"),
                        "`match` and `vars` look at the request itself (`docs/http/scripting.md`)",
                    )
                } else if whole.iter().any(looks) {
                    continue;
                } else {
                    (
                        format!("applications do not get the variable `{name}`"),
                        "send it in a field, with `request_headers` of the action; for `HTTPS`, see `forwarded` of listeners",
                    )
                };
                self.findings
                    .lost(&directive.place, &directive.name, &problem, hint);
            }
        }
    }

    /// Reads the maps of a site, each as a function of JavaScript.
    pub(super) fn maps(&mut self, site: &Site, root: Option<&Path>) -> BTreeMap<String, String> {
        let mut maps = BTreeMap::new();
        for directive in site.all(&["rewritemap"]) {
            let (name, source) = (directive.argument(0), directive.argument(1));
            if maps.contains_key(name) {
                continue;
            }
            let (kind, rest) = source.split_once(':').unwrap_or((source, ""));
            let function = match (kind, rest) {
                ("int", "tolower") => Ok("(key) => key.toLowerCase()".to_owned()),
                ("int", "toupper") => Ok("(key) => key.toUpperCase()".to_owned()),
                ("txt", path) => self.entries(path, root),
                _ => Err(format!("a map of the kind `{source}` has no equivalent")),
            };
            match function {
                Ok(function) => {
                    if kind == "txt" {
                        let hint = "import again after a change of the file";
                        let problem = "its entries are part of the configuration: changes of the file have no effect";
                        self.findings
                            .note(&directive.place, &directive.name, problem, hint);
                    }
                    maps.insert(name.to_owned(), function);
                }
                Err(problem) => {
                    let hint = "write it as a script (`docs/http/scripting.md`)";
                    let problem = format!("{problem}: rules with it get 403");
                    self.findings
                        .lost(&directive.place, &directive.name, &problem, hint);
                }
            }
        }
        maps
    }

    fn entries(&self, path: &str, root: Option<&Path>) -> Result<String, String> {
        let path = match root {
            Some(root) if !path.starts_with('/') => root.join(path),
            _ => Path::new(path).to_owned(),
        };
        let unreadable = || format!("`{}` cannot be read", path.display());
        let bytes = self.sources.read(&path).map_err(|_| unreadable())?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable())?;
        let mut function = "(key) => ({".to_owned();
        let mut known: BTreeSet<&str> = BTreeSet::new();
        for line in text.lines().map(str::trim) {
            let mut words = line.split_whitespace();
            let (Some(key), Some(value)) = (words.next(), words.next()) else {
                continue;
            };
            // The first entry of a key counts.
            if key.starts_with('#') || !known.insert(key) {
                continue;
            }
            if known.len() > MOST_ENTRIES {
                return Err(format!("it has more than {MOST_ENTRIES} entries"));
            }
            // With a colon before it, no key is a member that every object has.
            let key = quoted(&format!(":{key}"));
            let _ = write!(function, "{key}: {}, ", quoted(value));
        }
        Ok(function + "})[':' + key]")
    }
}

/// True if a directive, or one in it, looks at a variable. The depth is that of sections, which the reader bounds.
fn looks_at(one: &Directive, setting: &Directive, name: &str) -> bool {
    let is_named = LOOKING.contains(&one.key) && one.place != setting.place;
    let is_part =
        |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    let mut found = one.raw.match_indices(name);
    let is_looked_at = found.any(|(at, _)| {
        let before = one
            .raw
            .get(..at)
            .and_then(|before| before.chars().next_back());
        let after = one
            .raw
            .get(at + name.len()..)
            .and_then(|after| after.chars().next());
        !is_part(before) && !is_part(after)
    });
    is_named && is_looked_at
        || one
            .inner()
            .iter()
            .any(|inner| looks_at(inner, setting, name))
}

/// A test of a text, and the expression of its captures.
fn test(subject: &Text, source: &str, case: Case) -> Option<(String, Option<String>)> {
    let expression = regex(source, case)?;
    let subject = subject.expression();
    Some((
        format!("{expression}.test({subject})"),
        Some(format!("{expression}.exec({subject})")),
    ))
}

/// The value of a variable, with `$1`.
fn with_groups(value: &str, groups: Option<&str>) -> Option<Text> {
    let mut text = Text::default();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('$') {
        text.push(before);
        match after.chars().next().filter(char::is_ascii_digit) {
            Some(digit) => {
                let groups = groups?;
                text.extend(script_text(format!("({groups} ?? [])[{digit}] ?? ''")));
                rest = after.get(1..)?;
            }
            None => {
                text.push("$");
                rest = after;
            }
        }
    }
    text.push(rest);
    Some(text)
}

/// The names that a directive sets by a condition, with their values.
fn names_and_values(directive: &Directive) -> Vec<String> {
    let skipped = match directive.key.as_str() {
        "setenvif" | "setenvifnocase" => 2,
        "browsermatch" | "browsermatchnocase" | "setenvifexpr" => 1,
        _ => return Vec::new(),
    };
    directive.arguments.iter().skip(skipped).cloned().collect()
}

/// The names that a directive sets by a condition.
fn names(directive: &Directive) -> Vec<String> {
    let words = names_and_values(directive).into_iter();
    words
        .map(|word| {
            let name = word.split('=').next().unwrap_or_default();
            name.trim_start_matches('!').to_owned()
        })
        .collect()
}
