//! The directives of nginx's rewrite module: `return`, `rewrite`, `set`, `break`, `if`.

use serde_json::{Map, Value, json};
use tutti_config::pattern::{Case, Pattern};
use tutti_config::table::DECODED;

use super::closing;
use super::condition::Condition;
use super::if_block::{Inside, acts, is_handler, sets_query};
use super::index_file::is_everything;
use super::scope::Scope;
use super::site::{Compiler, Site, ends};
use super::tree::Statement;
use super::variables::{captures, groups, query_behind};
use crate::finding::SourceLocation;
use crate::output::{step, when};
use crate::template::{Piece, Text, case, regex};

/// Rewrites that follow one another in a block; each sees the path that the one before has made.
const DEEPEST_REST: usize = 32;

/// The longest expression for a variable that conditions choose, in bytes.
const LONGEST_CHOICE: usize = 4096;

/// Ways through the locations of a configuration that an `if` gives other settings: each doubles what comes after it.
const MOST_VARIANTS: usize = 128;

/// Where requests go from the rewriting directives of a block.
pub(super) struct Exits<'e> {
    /// After `break`, and at the end of a block in which nothing was rewritten.
    pub(super) content: &'e str,
    /// At the end of a block in which something was rewritten.
    pub(super) rewritten: &'e str,
    /// The block itself, if it is a location's.
    pub(super) block: Option<&'e [Statement]>,
}

impl Compiler<'_> {
    /// Returns the steps of a block's directives, in order. Requests that none of them takes go on after them.
    ///
    /// `set` changes the meaning of variables for what comes after, in `site`.
    pub(super) fn rewrites(
        &mut self,
        site: &mut Site,
        statements: &[Statement],
        exits: &Exits<'_>,
    ) -> Vec<Value> {
        let mut steps = Vec::new();
        for (index, statement) in statements.iter().enumerate() {
            match statement.name() {
                "return" => {
                    let action = self.answer(site, statement);
                    steps.push(json!({"action": action}));
                }
                "rewrite" => {
                    let rest = statements.get(index + 1..).unwrap_or_default();
                    steps.extend(self.rewrite(site, statement, rest, exits, Map::new()));
                }
                "set" if sets_query(statement) => {
                    let rest = statements.get(index + 1..).unwrap_or_default();
                    steps.extend(self.set_query(site, statement, rest, exits));
                }
                "set" => self.set(site, statement),
                "break" => steps.push(json!({"action": {"pass": exits.content}})),
                "if" if Self::is_of_link(site, statement) => {}
                "if" => {
                    let rest = statements.get(index + 1..).unwrap_or_default();
                    steps.extend(self.condition(site, statement, rest, exits));
                }
                _ => {}
            }
            if ends(&steps) {
                break;
            }
        }
        steps
    }

    fn set(&mut self, site: &mut Site, statement: &Statement) {
        let name = statement.argument(0).trim_start_matches('$').to_owned();
        self.note_set(site, statement);
        // An unknown variable matters only where it is used.
        if let Ok(text) = site.meaning.text(statement.argument(1)) {
            site.meaning.learn(&name, [&text].into_iter());
            site.meaning.unknown.remove(&name);
            site.meaning.named.insert(name, text);
        } else {
            site.meaning.named.remove(&name);
            site.meaning.unknown.insert(name);
        }
    }

    /// The action of `return`.
    fn answer(&mut self, site: &Site, statement: &Statement) -> Value {
        let (first, second) = (statement.argument(0), statement.argument(1));
        let (status, text) = match first.parse::<u16>() {
            Ok(status) => (status, second),
            Err(_) => (302, first),
        };
        // nginx's own: the connection is closed without a word.
        if status == 444 {
            let hint = "the client gets 403 instead of a closed connection";
            self.findings
                .note(&statement.place, "return", "444 is nginx's own", hint);
            return self.status(site, 403);
        }
        let mut site = site.clone();
        site.meaning
            .named
            .insert("status".to_owned(), Text::literal(status.to_string()));
        let site = &site;
        let has_text = statement.arguments().len() > 1;
        if matches!(status, 408 | 499) && !has_text {
            let problem = format!("for {status}, nginx closes the connection without a response");
            let hint = "the client gets a page with this status";
            self.findings
                .note(&statement.place, "return", &problem, hint);
        }
        let page = site.named_page(status).filter(|_| !site.is_question);
        if let (false, Some(destination)) = (has_text, page) {
            // The request goes on with its method and its body.
            return json!({"pass": destination});
        }
        let mut action = when("return", status);
        let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
        let has_body = !matches!(status, 100..=199 | 204 | 205 | 304);
        if is_redirect && !text.is_empty() {
            // nginx sends whole addresses: this is a path, and no other host.
            let whole = match text.starts_with("//") {
                true => &format!("$scheme://$http_host{text}"),
                false => text,
            };
            if let Some(text) = self.text(site, whole, &statement.place, "return") {
                action.insert("location".to_owned(), text.template().into());
            }
        } else if has_text
            && !is_redirect
            && has_body
            && let Some(text) = self.text(site, text, &statement.place, "return")
        {
            action.insert("body".to_owned(), text.template().into());
        } else if matches!(status, 200..=299) && has_body {
            // It has a type, even without a text.
            action.insert("body".to_owned(), "".into());
        }
        let has_text = action.contains_key("body");
        let mut action = self.finish(site, action);
        if has_text {
            super::text_type::set(site, &mut action);
        }
        action
    }

    /// A step for `rewrite`, for requests of which `conditions` hold, too.
    fn rewrite(
        &mut self,
        site: &mut Site,
        statement: &Statement,
        rest: &[Statement],
        exits: &Exits<'_>,
        mut conditions: Map<String, Value>,
    ) -> Vec<Value> {
        let (pattern, replacement, flag) = (
            statement.argument(0),
            statement.argument(1),
            statement.argument(2),
        );
        let place = &statement.place;
        let uri = Text(vec![Piece::Variable("uri".to_owned())]);
        // A request that is led away does not get the content here: without its destination, it gets nothing.
        let refusal = Self::shut();
        if !self.is_pattern(&format!("~{pattern}"), place, "rewrite") {
            return vec![step(conditions, refusal)];
        }
        if !is_everything(pattern) {
            conditions.insert("uri".to_owned(), format!("~{pattern}").into());
        }
        let mut inner = site.clone();
        if let Some(captured) = captures(pattern, Case::Exact, &uri) {
            inner.meaning.groups = groups(pattern, &captured);
            inner.meaning.captures = Some(captured);
        } else if replacement.contains('$') {
            let hint = "write the expression without PCRE-only syntax";
            self.findings.lost(
                place,
                "rewrite",
                &format!("`{pattern}` cannot be written in JavaScript: its requests get 403"),
                hint,
            );
            return vec![step(conditions, refusal)];
        }
        let is_external = ["http://", "https://", "$scheme"]
            .iter()
            .any(|begin| replacement.starts_with(begin));
        let action = if is_external || matches!(flag, "redirect" | "permanent") {
            self.redirect(&inner, replacement, flag, place)
        } else {
            let Some(rewritten) = self.new_path(&inner, replacement, place, "rewrite") else {
                return vec![step(conditions, refusal)];
            };
            if flag == "break" && exits.block.is_some() && leaves_alias(site, replacement) {
                let problem = "the new path is none of the location, from which its `alias` takes the rest: requests here get 403";
                let hint = "write `root` in place of `alias`, then import again";
                self.findings.lost(place, "rewrite", problem, hint);
                return vec![step(conditions, refusal)];
            }
            let after = match flag {
                "last" => site.entry.clone(),
                // A path of another one is looked up as one from inside.
                "break" if exits.block.is_none() => exits.rewritten.to_owned(),
                "break" => exits.content.to_owned(),
                _ => self.rest(site, rest, exits, exits.rewritten),
            };
            Some(json!({"rewrite": rewritten, "pass": after}))
        };
        vec![step(conditions, action.unwrap_or(refusal))]
    }

    /// The destination for the rest of a block after a `rewrite` without a flag, which ends at `then`. It is made once: else each `rewrite` would double the work.
    pub(super) fn rest(
        &mut self,
        site: &Site,
        rest: &[Statement],
        exits: &Exits<'_>,
        then: &str,
    ) -> String {
        let Some(first) = rest.first() else {
            return then.to_owned();
        };
        let key = (rest.as_ptr() as usize, site.variant, then.to_owned());
        if let Some(made) = self.rewritten.get(&key) {
            return made.clone();
        }
        if self.depth >= DEEPEST_REST {
            let problem = format!(
                "more than {DEEPEST_REST} rewrites in sequence: requests that reach the last one get 503"
            );
            self.findings.lost(
                &first.place,
                first.name(),
                &problem,
                "write them as steps of a route",
            );
            let refusal = json!([{"action": {"return": 503}}]);
            self.out
                .routes
                .insert("too-many-rewrites".to_owned(), refusal);
            let destination = "routes/too-many-rewrites".to_owned();
            self.rewritten.insert(key, destination.clone());
            return destination;
        }
        self.depth += 1;
        let mut changed = site.clone();
        self.forget_path(&mut changed.meaning);
        let mut steps = self.rewrites(&mut changed, rest, exits);
        self.depth -= 1;
        let destination = if steps.is_empty() {
            then.to_owned()
        } else {
            if !ends(&steps) {
                steps.push(json!({"action": {"pass": then}}));
            }
            self.out
                .add_route(&format!("{}-rewritten", site.name), steps)
        };
        self.rewritten.insert(key, destination.clone());
        destination
    }

    fn redirect(
        &mut self,
        site: &Site,
        replacement: &str,
        flag: &str,
        place: &SourceLocation,
    ) -> Option<Value> {
        let status = if flag == "permanent" { 301 } else { 302 };
        let (replacement, adds_query) = match replacement.strip_suffix('?') {
            Some(bare) => (bare, false),
            None => (replacement, true),
        };
        let (path, query) =
            replacement.split_at(replacement.find('?').unwrap_or(replacement.len()));
        let mut location = self.text(site, path, place, "rewrite")?;
        let mut inside = site.clone();
        inside.meaning.is_in_query = true;
        location.extend(self.text(&inside, query, place, "rewrite")?);
        if adds_query {
            let joint = if replacement.contains('?') { '&' } else { '?' };
            location.0.push(query_behind(joint));
        }
        let mut action = when("return", status);
        action.insert("location".to_owned(), location.template().into());
        Some(self.finish(site, action))
    }

    /// The value of `rewrite` for a path that may have a query behind it.
    pub(super) fn new_path(
        &mut self,
        site: &Site,
        target: &str,
        place: &SourceLocation,
        name: &str,
    ) -> Option<String> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        // A `rewrite` keeps the client's query, and a new place has that which is written.
        let is_bare = query.is_none()
            && name != "rewrite"
            && !["$is_args", "$request_uri", "${request_uri}", "${is_args}"]
                .iter()
                .any(|variable| path.contains(variable));
        let path = path
            .replace("$is_args$args", "")
            .replace("$is_args$query_string", "")
            .replace("$request_uri", "$uri")
            .replace("${request_uri}", "$uri");
        let mut text = self.text(site, &path, place, name)?;
        for piece in &mut text.0 {
            if let Piece::Text(text) = piece {
                // Literal text of a `rewrite` is percent-decoded.
                *text = text.replace('%', "%25");
            }
        }
        if is_bare {
            text.push("?");
        }
        if let Some(query) = query {
            self.add_query(site, &mut text, query, place, name)?;
        }
        Some(text.template())
    }

    /// True if Tutti can compile a pattern; reports it else.
    pub(super) fn is_pattern(&mut self, pattern: &str, place: &SourceLocation, name: &str) -> bool {
        match Pattern::parse(pattern, DECODED) {
            Ok(_) => true,
            Err(error) => {
                let hint = "write the expression in another way";
                self.findings.lost(place, name, &error.to_string(), hint);
                false
            }
        }
    }
}

/// True if a path does not begin as that of a location with an `alias`.
fn leaves_alias(site: &Site, path: &str) -> bool {
    let folder = site.scope.folder.as_ref().filter(|folder| folder.is_alias);
    let at = folder.and_then(|folder| folder.at.as_deref());
    at.is_some_and(|at| !path.starts_with(at))
}

impl Compiler<'_> {
    /// `if`: its condition becomes one of a step, and its block the action. A condition that cannot be carried over may deny
    /// requests what is behind it: all are refused then.
    fn condition(
        &mut self,
        site: &mut Site,
        statement: &Statement,
        rest: &[Statement],
        exits: &Exits<'_>,
    ) -> Vec<Value> {
        let condition =
            Condition::read(statement.arguments()).filter(|_| !self.uses_kept(site, statement));
        let inner = statement.inner();
        let effect = Inside::of(inner);
        self.report_inside_if(inner, effect);
        let is_chosen = self.choose(site, condition.as_ref(), statement);
        let may_branch = exits.block.is_some() && self.variants < MOST_VARIANTS;
        // Only the server's own rules use the variables, which therefore need no value in its locations.
        let may_repeat = exits.block.is_none()
            && effect == Inside::Variables
            && self.variants < MOST_VARIANTS
            && self.sets_for_rules(inner);
        if !(is_chosen || (may_branch || may_repeat) && condition.is_some()) {
            self.report_unchosen(site, statement);
        }
        // As in nginx, `try_files` does not apply within an `if`, whatever stands in it.
        let mut block = exits.block.into_iter().flatten();
        let leaves_tries =
            effect == Inside::Variables && block.any(|one| one.name() == "try_files");
        let leads = is_chosen || !(may_branch || may_repeat);
        if effect == Inside::Variables && !leaves_tries && leads {
            return Vec::new();
        }
        // The existence of a folder decides about a redirect, not about access to the content.
        let is_of_folders = matches!(condition, Some(Condition::File { .. }))
            && effect == Inside::Leads
            || inner.iter().all(Inside::adds_fields);
        let read = condition.and_then(|condition| self.compile(site, &condition, statement));
        let Some(compiled) = read else {
            let problem = match is_of_folders {
                false => "the condition cannot be carried over: all requests here get 403",
                true => "the condition and its contents cannot be carried over",
            };
            let hint = "write it as a `match` or as a script (`docs/http/scripting.md`)";
            self.findings.lost(&statement.place, "if", problem, hint);
            if !is_of_folders {
                return vec![json!({"action": Self::shut()})];
            }
            self.report_unchosen(site, statement);
            return Vec::new();
        };
        let mut scoped = site.clone();
        scoped.scope = site.scope.enter(inner, self.findings);
        if let Compiled::Step(_, Some(captured), named) = &compiled {
            scoped.meaning.captures = Some(captured.clone());
            scoped.meaning.groups.extend(named.clone());
        }
        let is_branch = effect == Inside::Content || leaves_tries || !is_chosen;
        if may_repeat {
            self.variants += 1;
            scoped.variant = self.variants;
            site.meaning.declare(inner);
        }
        let content = match is_branch && !may_repeat {
            true => match self.branch(&mut scoped, inner, exits, &site.scope) {
                Some(content) => content,
                None => {
                    let problem = "within `if`, it is not carried over: requests that match the condition get 403";
                    let hint = "write a step with this condition and its own action";
                    self.findings.lost(&statement.place, "if", problem, hint);
                    return self.led(site, compiled, Self::shut(), rest, exits);
                }
            },
            false => exits.content.to_owned(),
        };
        let has_rewrite = inner.iter().any(|one| one.name() == "rewrite");
        let rewritten = match has_rewrite {
            true => self.rest(&scoped, rest, exits, exits.rewritten),
            false => exits.rewritten.to_owned(),
        };
        let exits_inside = Exits {
            content: &content,
            rewritten: &rewritten,
            block: exits.block,
        };
        let mut actions = inner.iter().filter(|one| acts(one));
        // One rule is a step by itself, unless both are about the path.
        if let (Some(only), None, Compiled::Step(conditions, ..)) =
            (actions.next(), actions.next(), &compiled)
            && only.name() == "rewrite"
            && effect != Inside::Unknown
            && !is_branch
            && !conditions.contains_key("uri")
        {
            return self.rewrite(&mut scoped, only, &[], &exits_inside, conditions.clone());
        }
        let mut taken = match effect {
            Inside::Unknown => vec![json!({"action": Self::shut()})],
            _ => self.rewrites(&mut scoped, inner, &exits_inside),
        };
        if !ends(&taken) {
            let exits_after = Exits {
                rewritten: exits.rewritten,
                ..exits_inside
            };
            let other = self.rest(&scoped, rest, &exits_after, &content);
            taken.push(json!({"action": {"pass": other}}));
        }
        let action = self.out.as_action(&format!("{}-if", site.name), taken);
        self.led(site, compiled, action, rest, exits)
    }

    /// The destination of the content that requests get from within an `if`: with its settings, its variables, and its
    /// own handler if it has one. As in nginx, `try_files` does not apply there.
    fn branch(
        &mut self,
        scoped: &mut Site,
        inner: &[Statement],
        exits: &Exits<'_>,
        around: &Scope,
    ) -> Option<String> {
        let block = exits.block?;
        if self.variants >= MOST_VARIANTS {
            return None;
        }
        self.variants += 1;
        scoped.variant = self.variants;
        for set in inner
            .iter()
            .filter(|one| one.name() == "set" && !sets_query(one))
        {
            self.set(scoped, set);
        }
        let has_handler = inner.iter().any(is_handler);
        let has_settings = matches!(Inside::of(inner), Inside::Content | Inside::Variables);
        let stays = |one: &&Statement| {
            !(has_settings && one.name() == "try_files" || has_handler && is_handler(one))
        };
        let own = inner.iter().filter(|one| is_handler(one));
        let statements: Vec<Statement> = block.iter().filter(stays).chain(own).cloned().collect();
        let steps = self.content(scoped, &statements);
        let settings = self.place_settings(scoped, around);
        let steps = self.wrapped(scoped, steps, settings);
        Some(self.out.add_route(&format!("{}-if", scoped.name), steps))
    }

    /// The steps of an `if` with its action.
    fn led(
        &mut self,
        site: &Site,
        compiled: Compiled,
        action: Value,
        rest: &[Statement],
        exits: &Exits<'_>,
    ) -> Vec<Value> {
        match compiled {
            Compiled::Step(conditions, ..) => vec![step(conditions, action)],
            Compiled::Unless(conditions) => {
                let other = self.rest(site, rest, exits, exits.content);
                vec![
                    step(conditions, json!({"pass": other})),
                    json!({"action": action}),
                ]
            }
            Compiled::File {
                mut share,
                test,
                when_there,
            } => {
                let other = self.rest(site, rest, exits, exits.content);
                let other = json!({"pass": other});
                let (there, absent) = match when_there {
                    true => (action, other),
                    false => (other, action),
                };
                let (file, folder) = match test {
                    'f' => (there, None),
                    'd' => (absent.clone(), Some(there)),
                    _ => (there.clone(), Some(there)),
                };
                share.insert("found".to_owned(), file);
                if let Some(folder) = folder {
                    share.insert("folder".to_owned(), folder);
                }
                share.insert("fallback".to_owned(), absent);
                vec![json!({"action": share})]
            }
        }
    }

    /// `set` within `if`: the variable is one text or another.
    /// False if that cannot be written as an expression.
    fn choose(
        &mut self,
        site: &mut Site,
        condition: Option<&Condition>,
        statement: &Statement,
    ) -> bool {
        let mut inside = site.meaning.clone();
        if let Some((captured, named)) =
            condition.and_then(|condition| condition.captures(&site.meaning))
        {
            inside.groups.extend(named);
            inside.captures = Some(captured);
        }
        let mut chosen_all = Vec::new();
        let sets = statement.inner().iter();
        for set in sets.filter(|one| one.name() == "set" && !sets_query(one)) {
            let name = set.argument(0).trim_start_matches('$').to_owned();
            let test = condition.and_then(|condition| condition.script(&site.meaning));
            let is_known = !site.meaning.unknown.contains(&name);
            let former = site.meaning.text(&format!("${{{name}}}"));
            let chosen = test
                .filter(|_| is_known)
                .zip(inside.text(set.argument(1)).ok())
                .map(|(test, text)| {
                    let former = former.unwrap_or_default().expression();
                    format!("({test}) ? {} : {former}", text.expression())
                })
                // A path changes on its way, where the variable would not; and texts of texts grow without end.
                .filter(|script| site.keeps_path || !script.contains("vars.uri"))
                .filter(|script| script.len() <= LONGEST_CHOICE)
                .filter(|script| site.knows_address() || !self.uses_address(script));
            let Some(script) = chosen else {
                return false;
            };
            // It has one of its former values, or this one.
            let mut values = site.meaning.values.get(&name).cloned();
            let own = inside.text(set.argument(1)).ok();
            let own = own.and_then(|text| text.as_literal());
            match (&mut values, own) {
                (Some(values), Some(own)) => values.push(own),
                _ => values = None,
            }
            self.note_set(site, set);
            chosen_all.push((name, crate::template::script_text(script), values));
        }
        for (name, text, values) in chosen_all {
            let values = values.unwrap_or_default().into_iter().map(Text::literal);
            let values: Vec<Text> = values.collect();
            site.meaning.values.remove(&name);
            if !values.is_empty() {
                site.meaning.learn(&name, values.iter());
            }
            site.meaning.named.insert(name, text);
        }
        true
    }

    fn report_unchosen(&mut self, site: &mut Site, statement: &Statement) {
        for set in statement
            .inner()
            .iter()
            .filter(|one| one.name() == "set" && !sets_query(one))
        {
            let name = set.argument(0).trim_start_matches('$').to_owned();
            site.meaning.unknown.insert(name);
            let problem = "a variable that is set within `if` is not carried over";
            let hint = "write the choice as a script (`docs/http/scripting.md`)";
            self.findings.lost(&set.place, "set", problem, hint);
        }
    }

    fn report_inside_if(&mut self, inner: &[Statement], effect: Inside) {
        for statement in inner {
            if closing::closes(statement).is_some() && effect == Inside::Unknown {
                let hint = "write a step with this condition and its own action";
                let problem =
                    "within `if` it is not carried over: requests that match the condition get 403";
                self.findings
                    .lost(&statement.place, statement.name(), problem, hint);
            } else {
                closing::report(statement, self.findings);
            }
        }
    }

    /// A condition that looks whether there is a file.
    fn file_condition(
        &mut self,
        site: &Site,
        (test, path, negated): (char, &str, bool),
        place: &SourceLocation,
    ) -> Option<Compiled> {
        let is_known = matches!(test, 'f' | 'd' | 'e');
        let is_asked = matches!(
            path,
            "$request_filename"
                | "$document_root$uri"
                | "$document_root/$uri"
                | "${document_root}${uri}"
        );
        if !is_asked {
            let text = self.text(site, path, place, "if")?;
            let share = Map::from_iter([
                ("share".to_owned(), text.template().into()),
                ("index".to_owned(), "".into()),
            ]);
            return is_known.then_some(Compiled::File {
                share,
                test,
                when_there: !negated,
            });
        }
        let share = self.file_test(site)?;
        is_known.then_some(Compiled::File {
            share,
            test,
            when_there: !negated,
        })
    }

    /// Returns the variable that a condition tests; `None` where it is about a client address that may differ from the
    /// one that the source means.
    fn subject(&mut self, site: &Site, variable: &str, place: &SourceLocation) -> Option<Text> {
        let subject = self.text(site, &format!("${{{variable}}}"), place, "if")?;
        (site.knows_address() || !self.uses_address(&subject.expression())).then_some(subject)
    }

    fn compile(
        &mut self,
        site: &Site,
        condition: &Condition,
        statement: &Statement,
    ) -> Option<Compiled> {
        let plain = |conditions| Some(Compiled::Step(conditions, None, Default::default()));
        let place = &statement.place;
        match condition {
            Condition::File {
                test,
                path,
                negated,
            } => self.file_condition(site, (*test, path, *negated), place),
            Condition::Compare {
                variable,
                operator,
                value,
            } => {
                let is_regex = operator.contains('~');
                let negated = operator.starts_with('!');
                let pattern = match (is_regex, operator.ends_with('*')) {
                    (true, true) => format!("~(?i){value}"),
                    (true, false) => format!("~{value}"),
                    _ => crate::output::literal(value),
                };
                let plain_name = match variable.as_str() {
                    "request_method" => Some("method"),
                    "host" => Some("host"),
                    "uri" | "document_uri" => Some("uri"),
                    "scheme"
                        if !is_regex && !negated && matches!(value.as_str(), "http" | "https") =>
                    {
                        return plain(when("scheme", value.as_str()));
                    }
                    _ => None,
                };
                let subject = self.subject(site, variable, place)?;
                let captured = is_regex
                    .then(|| captures(value, case(operator.ends_with('*')), &subject))
                    .flatten();
                if let Some(name) = plain_name {
                    if is_regex && !self.is_pattern(&pattern, place, "if") {
                        return None;
                    }
                    let pattern = if negated {
                        format!("!{pattern}")
                    } else {
                        pattern
                    };
                    let named = captured
                        .as_ref()
                        .map(|captured| groups(value, captured))
                        .unwrap_or_default();
                    return Some(Compiled::Step(when(name, pattern), captured, named));
                }
                let test = if is_regex {
                    format!(
                        "{}.test({})",
                        regex(value, case(operator.ends_with('*')))?,
                        subject.expression()
                    )
                } else {
                    let other = self.text(site, value, place, "if")?;
                    format!("{} === {}", subject.expression(), other.expression())
                };
                let test = if negated { format!("!({test})") } else { test };
                let named = captured
                    .as_ref()
                    .map(|captured| groups(value, captured))
                    .unwrap_or_default();
                let condition = format!("`${{{test} ? 1 : ''}}`");
                Some(Compiled::Step(when("if", condition), captured, named))
            }
            Condition::True(variable) if variable == "invalid_referer" => Some(Compiled::Unless(
                super::links::of_referer(&site.scope.referers)?,
            )),
            Condition::True(variable) => {
                let subject = self.subject(site, variable, place)?;
                // Texts that count as false in Tutti alone are none of a map's values.
                let values = site.meaning.values.get(variable);
                let is_odd =
                    |value: &String| matches!(value.as_str(), "false" | "null" | "undefined");
                if let ([Piece::Variable(name)], Some(values)) = (subject.0.as_slice(), values)
                    && !values.iter().any(is_odd)
                {
                    return plain(when("if", format!("${name}")));
                }
                let test = format!(
                    "((value) => value !== '' && value !== '0' ? 1 : '')({})",
                    subject.expression()
                );
                plain(when("if", format!("`${{{test}}}`")))
            }
        }
    }
}

/// A condition, carried over.
enum Compiled {
    /// Conditions of a step, the captures they have, and their names.
    Step(
        Map<String, Value>,
        Option<String>,
        std::collections::BTreeMap<String, String>,
    ),
    /// Conditions of the requests for which it does not hold.
    Unless(Map<String, Value>),
    /// A look at a file.
    File {
        share: Map<String, Value>,
        /// `f`: a file, `d`: a folder, `e`: either.
        test: char,
        when_there: bool,
    },
}
