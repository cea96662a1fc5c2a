//! Guards before a location's answer: addresses, passwords, another server's decision, `satisfy`, copies.
//!
//! Must never: leave out a guard. One that cannot be carried over refuses all clients.

use std::path::Path;

use serde_json::{Map, Value, json};
use tutti_config::model::PasswordHash;

use super::closing::Closing;
use super::site::{Compiler, Site, ends};
use super::tree::Statement;
use crate::finding::SourceLocation;
use crate::output::{one_or_many, step, when};
use crate::template::Text;

impl Compiler<'_> {
    /// Puts the guards of a place before the steps of its content.
    pub(super) fn guarded(&mut self, site: &Site, content: Vec<Value>) -> Vec<Value> {
        let shuts = |(_, closing): &(String, Closing)| *closing == Closing::Always;
        // An authentication request that is answered without its check would let clients in.
        let is_shut = match site.is_question {
            true => !site.scope.closed.is_empty(),
            false => site.scope.closed.iter().any(shuts),
        };
        if is_shut {
            return vec![json!({"action": Self::shut()})];
        }
        // nginx applies them to the client's request only.
        if site.is_question {
            return content;
        }
        if let Some(rule) = site.scope.access.first().filter(|_| !site.knows_address()) {
            let problem =
                "this location trusts other proxies than its listener does: requests here get 403";
            let hint =
                "move `set_real_ip_from` and its related directives to `http`, then import again";
            let name = if rule.allows { "allow" } else { "deny" };
            self.findings.lost(&rule.place, name, problem, hint);
            return vec![json!({"action": Self::shut()})];
        }
        let steps = self.let_in(site, content);
        let mut options = self.bounds(site);
        if let Some(mirror) = self.mirror(site) {
            options.insert("mirror".to_owned(), mirror);
        }
        self.wrapped(site, steps, options)
    }

    /// Addresses, and then authentication.
    fn let_in(&mut self, site: &Site, content: Vec<Value>) -> Vec<Value> {
        let questions = match site.scope.closed.is_empty() {
            true => self.questions(site),
            false => None,
        };
        let access = self.access(site);
        let has_rules = !site.scope.access.is_empty();
        let is_any = site.scope.satisfy_any
            && (has_rules || questions.as_ref().is_some_and(|all| all.len() > 1));
        let Some(mut questions) = questions else {
            let denies_others = |rule: &super::scope::Rule| !rule.allows && rule.source == "all";
            if is_any && site.scope.access.iter().any(denies_others) {
                return [access, content].concat();
            }
            return vec![json!({"action": Self::shut()})];
        };
        match (is_any, questions.pop()) {
            (true, Some(question)) if questions.is_empty() => {
                let route = self
                    .out
                    .add_route(&format!("{}-let-in", site.name), content);
                let mut steps = self.addresses_let_in(site, &route);
                if !ends(&steps) {
                    let mut action = question;
                    action.insert("pass".to_owned(), route.into());
                    steps.push(json!({"action": action}));
                }
                steps
            }
            (true, Some(_)) => {
                if let Some((_, place)) = &site.scope.guards.realm {
                    let problem = "either a password or an authentication service (`satisfy any`) is not supported: requests here get 403";
                    let hint = "write a step with an `authenticate` for each";
                    self.findings.lost(place, "satisfy", problem, hint);
                }
                vec![json!({"action": Self::shut()})]
            }
            (_, last) => {
                questions.extend(last);
                let mut steps = content;
                for question in questions.into_iter().rev() {
                    steps = self.wrapped(site, steps, question);
                }
                [access, steps].concat()
            }
        }
    }

    /// Returns steps that lead the clients which the addresses let in past all authentication.
    fn addresses_let_in(&mut self, site: &Site, route: &str) -> Vec<Value> {
        let mut steps = Vec::new();
        let mut denied: Vec<String> = Vec::new();
        for rule in &site.scope.access {
            let pattern = rule.pattern();
            match (rule.allows, pattern) {
                (false, Some(pattern)) => denied.push(format!("!{pattern}")),
                (false, None) => break,
                (true, pattern) => {
                    let is_all = pattern.is_none();
                    let patterns: Vec<String> =
                        pattern.into_iter().chain(denied.iter().cloned()).collect();
                    let conditions = match patterns.is_empty() {
                        true => Map::new(),
                        false => when("source", one_or_many(patterns)),
                    };
                    steps.push(step(conditions, json!({"pass": route})));
                    if is_all {
                        break;
                    }
                }
            }
        }
        steps
    }

    /// One action with these options before the steps: the only one itself, or one that passes to a route.
    pub(super) fn wrapped(
        &mut self,
        site: &Site,
        mut steps: Vec<Value>,
        mut options: Map<String, Value>,
    ) -> Vec<Value> {
        if options.is_empty() {
            return steps;
        }
        if steps.len() == 1
            && ends(&steps)
            && let Some(action) = steps
                .first_mut()
                .and_then(|step| step.get_mut("action"))
                .and_then(Value::as_object_mut)
            && !options.keys().any(|option| action.contains_key(option))
        {
            action.append(&mut options);
            return steps;
        }
        let route = self.out.add_route(&format!("{}-guarded", site.name), steps);
        options.insert("pass".to_owned(), route.into());
        vec![json!({"action": options})]
    }

    /// Each is an `authenticate`. `None`: one of them cannot be written, and all clients are refused.
    fn questions(&mut self, site: &Site) -> Option<Vec<Map<String, Value>>> {
        let mut questions = Vec::new();
        if let Some((realm, place)) = &site.scope.guards.realm {
            let basic = self.basic(site, realm, place)?;
            questions.push(when("authenticate", json!({"basic": basic})));
        }
        if let Some((uri, place)) = &site.scope.guards.question {
            let forward = self.forward(site, uri, place)?;
            questions.push(when("authenticate", json!({"forward": forward})));
        }
        Some(questions)
    }

    fn basic(
        &mut self,
        site: &Site,
        realm: &str,
        place: &SourceLocation,
    ) -> Option<Map<String, Value>> {
        let Some((file, file_place)) = site.scope.guards.password_file.clone() else {
            self.refused(place, "auth_basic", "it has no `auth_basic_user_file`");
            return None;
        };
        if file.contains('$') {
            let problem = "the password file depends on the request";
            self.refused(&file_place, "auth_basic_user_file", problem);
            return None;
        }
        let file = self.beside(&file);
        if !self.has_known_hashes(&file, &file_place) {
            return None;
        }
        let mut basic = Map::new();
        let is_plain = |character: char| {
            (character.is_ascii_graphic() || character == ' ') && !r#""\$"#.contains(character)
        };
        if realm.chars().all(is_plain) && !realm.is_empty() {
            basic.insert("realm".to_owned(), realm.into());
        } else {
            self.findings.note(
                place,
                "auth_basic",
                "its text is not carried over: all clients need a password",
                "`realm` takes plain text",
            );
        }
        basic.insert("file".to_owned(), file.into());
        let is_user = |(name, value, _): &&(String, String, SourceLocation)| {
            value == "$remote_user" && !name.eq_ignore_ascii_case("host")
        };
        if let Some((name, ..)) = site.scope.request_headers.iter().find(is_user) {
            basic.insert("field".to_owned(), name.clone().into());
        }
        Some(basic)
    }

    /// Reads a file of passwords, if it can be read: each hash must be of a known kind.
    fn has_known_hashes(&mut self, file: &str, place: &SourceLocation) -> bool {
        let name = "auth_basic_user_file";
        let Ok(bytes) = self.sources.read(Path::new(file)) else {
            self.findings.note(
                place,
                name,
                "the file could not be read, so its hashes were not checked; bcrypt is best",
                "create them with `htpasswd -B FILE NAME`",
            );
            return true;
        };
        let text = String::from_utf8_lossy(&bytes);
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let hash = line.split(':').nth(1).unwrap_or_default();
            if PasswordHash::parse(hash).is_err() {
                let problem = format!(
                    "line {} of `{file}` has an unsupported hash: requests here get 403",
                    number + 1
                );
                let hint =
                    "create new ones with `htpasswd -B FILE NAME` (bcrypt), and import again";
                self.findings.lost(place, name, &problem, hint);
                return false;
            }
        }
        true
    }

    fn forward(
        &mut self,
        site: &Site,
        uri: &str,
        place: &SourceLocation,
    ) -> Option<Map<String, Value>> {
        let path = uri.split('?').next().unwrap_or(uri);
        let Some(route) = site.questions.get(path) else {
            let problem = format!("there is no usable location for `{path}`");
            self.refused(place, "auth_request", &problem);
            return None;
        };
        let mut forward = Map::from_iter([
            ("pass".to_owned(), route.clone().into()),
            ("uri".to_owned(), uri.into()),
        ]);
        let guards = &site.scope.guards;
        let mut copied: Vec<(String, String)> = Vec::new();
        for (name, value, _) in &site.scope.request_headers {
            if let Some(field) = guards.field_of(value) {
                copied.push((name.clone(), field.clone()));
            }
        }
        let is_renamed = |(name, field): &(String, String)| !name.eq_ignore_ascii_case(field);
        if copied.iter().any(is_renamed) {
            let copied = copied.into_iter().map(|(name, field)| (name, field.into()));
            forward.insert("copy".to_owned(), Value::Object(copied.collect()));
        } else if !copied.is_empty() {
            let copied = copied.into_iter().map(|(name, _)| Value::from(name));
            forward.insert("copy".to_owned(), copied.collect());
        }
        let headers = site.scope.headers.iter();
        let headers = headers.filter(|header| guards.is_for_client(&header.name, &header.value));
        let for_client: Vec<Value> = headers.map(|header| header.name.clone().into()).collect();
        if !for_client.is_empty() {
            forward.insert("copy_to_client".to_owned(), for_client.into());
        }
        Some(forward)
    }

    fn refused(&mut self, place: &SourceLocation, name: &str, problem: &str) {
        let problem = format!("{problem}: requests here get 403");
        let hint = "write an `authenticate` (`docs/http/access.md`)";
        self.findings.lost(place, name, &problem, hint);
    }
}

impl Compiler<'_> {
    /// Where copies of requests go.
    fn mirror(&mut self, site: &Site) -> Option<Value> {
        let (uri, place) = site.scope.guards.mirror.clone()?;
        let path = uri.split('?').next().unwrap_or(&uri);
        let Some(upstream) = site.mirrors.get(path) else {
            let hint =
                "copies go to an upstream with the path of the request (`docs/http/delivery.md`)";
            let problem = format!("`{uri}` is not a location with a `proxy_pass` to the same path");
            self.findings.lost(&place, "mirror", &problem, hint);
            return None;
        };
        let mut mirror = when("to", upstream.clone());
        if site.scope.guards.mirrors_no_body {
            mirror.insert("max_body_size".to_owned(), 0.into());
            let hint = "remove `max_body_size` to copy bodies too";
            let problem = "requests with a body are not copied";
            self.findings
                .note(&place, "mirror_request_body", problem, hint);
        }
        Some(mirror.into())
    }

    /// Returns the upstream of a location that copies go to; `None` where it would get another path than the requested
    /// one.
    pub(super) fn mirror_upstream(&mut self, site: &Site, block: &[Statement]) -> Option<String> {
        let pass = block
            .iter()
            .find(|statement| statement.name() == "proxy_pass")?;
        let server = pass.argument(0).strip_suffix("$request_uri")?;
        let (scheme, authority) = server.split_once("://")?;
        if authority.contains('/') || authority.contains('$') {
            return None;
        }
        let mut named = pass.clone();
        named.words.truncate(1);
        named.words.push(server.to_owned());
        let action = self.send(site, &named, scheme, None)?;
        if let Some(pass) = action.get("pass").and_then(Value::as_str) {
            return Some(pass.to_owned());
        }
        let address = action
            .get("proxy")?
            .as_str()?
            .split_once("://")?
            .1
            .to_owned();
        let mut upstream = when("servers", json!({address.clone(): {}}));
        if let Some(options) = action.get("proxy_options").and_then(Value::as_object) {
            upstream.extend(options.clone());
        }
        Some(format!(
            "upstreams/{}",
            self.out.upstream(upstream, &address)
        ))
    }

    /// The variables of an authentication request, which are about the client's request.
    pub(super) fn asked_about(site: &mut Site) {
        let about = [
            ("request_uri", "header_x_forwarded_uri"),
            ("request_method", "header_x_forwarded_method"),
            ("remote_addr", "header_x_forwarded_for"),
            ("proxy_add_x_forwarded_for", "header_x_forwarded_for"),
            ("scheme", "header_x_forwarded_proto"),
        ];
        for (name, variable) in about {
            let piece = crate::template::Piece::Variable(variable.to_owned());
            site.meaning
                .named
                .insert(name.to_owned(), Text(vec![piece]));
        }
        site.is_question = true;
    }
}
