//! `Header`, `RequestHeader`, `ExpiresByType` and `ExpiresDefault`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tutti_config::pattern::{Case, Pattern};
use tutti_config::table::DECODED;

use super::environment::Time;
use super::grammar::Directive;
use super::meaning::Meaning;
use super::section::{Extent, Mapping, Section, Where};
use super::site::{Compiler, Site, Spot};
use crate::output::one_or_many;
use crate::template::{Piece, Text, quoted, regex, script_text};

/// A field of the answer on its way.
#[derive(Clone)]
struct Field {
    name: String,
    value: Option<Text>,
    /// Further fields of this name, in place of a value.
    added: Vec<Text>,
    is_always: bool,
}

impl Field {
    /// The value of its option; `former`: the one that its name has already.
    fn option(&self, former: Option<&Value>) -> Value {
        if self.added.is_empty() {
            let value = self.value.as_ref();
            return value.map_or(Value::Null, |text| text.template().into());
        }
        let former = former.and_then(|former| former.get("add"));
        let mut all = former.map(crate::output::texts).unwrap_or_default();
        all.extend(self.added.iter().map(Text::template));
        json!({"add": one_or_many(all)})
    }
}

/// The problem of a directive for `Set-Cookie` that is not carried over.
fn change_of_cookies(verb: &str, has_condition: bool) -> Option<&'static str> {
    match verb {
        "add" | "set" | "unset" if !has_condition => None,
        "append" | "merge" => Some("a cookie is no list, to which a value could be appended"),
        _ => Some("cookies are not changed: several `Set-Cookie` fields cannot be distinguished"),
    }
}

/// Adds a field `Set-Cookie` to those of a response.
fn add_cookie(
    name: &str,
    value: &str,
    is_always: bool,
    (meaning, fields): (&Meaning, &mut Vec<Field>),
) -> Result<(), String> {
    let is_same = |field: &&mut Field| field.name.eq_ignore_ascii_case(name);
    if fields
        .iter_mut()
        .filter(is_same)
        .any(|field| field.added.is_empty())
    {
        return Err(
            "a `Set-Cookie` beside one that replaces all others is not possible".to_owned(),
        );
    }
    let text = format(value, meaning)?;
    let mut same = fields.iter_mut().filter(is_same);
    match same.find(|field| field.is_always == is_always) {
        Some(same) => same.added.push(text),
        None => fields.push(Field {
            name: name.to_owned(),
            value: None,
            added: vec![text],
            is_always,
        }),
    }
    Ok(())
}

/// A change of a field.
struct Change<'c> {
    verb: &'c str,
    value: &'c str,
    /// The replacement of `edit`.
    with: &'c str,
}

impl Change<'_> {
    /// Returns the new value of a field; `None`: it is removed. The error says why it cannot be written.
    fn made(&self, base: &Text, meaning: &Meaning) -> Result<Option<Text>, String> {
        let text = match self.verb {
            "unset" => return Ok(None),
            "edit" | "edit*" => {
                let flags = if self.verb == "edit*" { "g" } else { "" };
                let expression = regex(self.value, Case::Exact)
                    .filter(|_| !self.with.contains(['%', '`', '\\']))
                    .ok_or_else(|| format!("`{}` cannot be written in JavaScript", self.value))?;
                let with = quoted(&self.with.replace("$0", "$$&"));
                let base = base.expression();
                return Ok(Some(script_text(format!(
                    "{base}.replace({expression}{flags}, {with})"
                ))));
            }
            "set" | "setifempty" | "append" | "merge" | "add" => format(self.value, meaning)?,
            other => return Err(format!("`{other}` for header fields is not carried over")),
        };
        let literals = (
            base.as_literal().filter(|base| !base.is_empty()),
            text.as_literal(),
        );
        Ok(Some(match (self.verb, literals) {
            ("set", _) => text,
            ("setifempty", (Some(base), _)) => Text::literal(base),
            ("merge", (Some(base), Some(text)))
                if base.split(',').any(|one| one.trim() == text) =>
            {
                Text::literal(base)
            }
            (_, (Some(base), Some(text))) => Text::literal(format!("{base}, {text}")),
            // Fields that are lists mean the same joined (RFC 9110 §5.3).
            (verb, _) => {
                let (base, text) = (base.expression(), text.expression());
                let joined = match verb {
                    "setifempty" => base.clone(),
                    "merge" => format!(
                        "{base}.split(/, */).includes({text}) ? {base} : {base} + ', ' + {text}"
                    ),
                    _ => format!("{base} + ', ' + {text}"),
                };
                script_text(format!("{base} !== '' ? ({joined}) : {text}"))
            }
        }))
    }
}

/// A part of a place whose answers have fields of their own.
#[derive(Clone, Default)]
pub(super) struct Variant {
    pub(super) place: Where,
    /// The sections, by number, whose conditions hold there.
    active: Vec<usize>,
    /// The sections, by number, whose conditions become conditions of each field.
    tested: Vec<(usize, String)>,
    /// `Cache-Control` of files.
    cache: Option<String>,
}

impl Variant {
    /// True if it is the part that files of this name are in.
    pub(super) fn is_for(&self, name: &str) -> bool {
        let conditions = self.place.conditions();
        match conditions.get("uri").and_then(Value::as_str) {
            Some(pattern) => Pattern::parse(pattern, DECODED)
                .ok()
                .is_some_and(|pattern| {
                    pattern
                        .found_in(format!("/{name}").as_bytes())
                        .unwrap_or(false)
                }),
            None => conditions.is_empty(),
        }
    }
}

/// The kinds of answers that fields are set in.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum AnswerOf {
    Files,
    Application,
    /// Another server.
    Server,
}

/// Most sections that set fields for some files only: each doubles the steps.
const MOST_CONDITIONS: usize = 3;

impl Compiler<'_> {
    /// The parts of a place with fields of their own, the last of which is all of it.
    pub(super) fn variants(&mut self, spot: &Spot, base: &Where, answer: AnswerOf) -> Vec<Variant> {
        let mut conditions: Vec<(usize, Where)> = Vec::new();
        let mut tested: Vec<(usize, String)> = Vec::new();
        for (number, section) in spot.site.sections.iter().enumerate() {
            let varies = |directive: &&Directive| {
                directive.is("header")
                    || directive.key.starts_with("expires") && answer == AnswerOf::Files
                    || directive.is("requestheader") && answer == AnswerOf::Server
                    || super::delivery::OF_PLACE.contains(&directive.key) && !section.is_part()
            };
            let Some(first) = section.directives.iter().find(varies) else {
                continue;
            };
            let Some(place) = section
                .place(&spot.sub, Extent::Narrow)
                .filter(|place| !place.is_everywhere())
            else {
                continue;
            };
            if conditions.len() < MOST_CONDITIONS {
                conditions.push((number, place));
                continue;
            }
            let are_fields = section
                .directives
                .iter()
                .filter(varies)
                .all(|directive| directive.is("header"));
            match place.expression().filter(|_| are_fields) {
                Some(test) => tested.push((number, test)),
                None => {
                    let hint = "write a step with this condition and its options";
                    self.findings.lost(
                        &first.place,
                        &first.name,
                        "too many sections have settings for only some files",
                        hint,
                    );
                }
            }
        }
        let mut variants = Vec::new();
        for chosen in (0..1_usize << conditions.len()).rev() {
            let mut variant = Variant {
                place: base.clone(),
                tested: tested.clone(),
                ..Variant::default()
            };
            for (position, (number, place)) in conditions.iter().enumerate() {
                if chosen >> position & 1 == 1 {
                    variant.place = variant.place.and(place);
                    variant.active.push(*number);
                }
            }
            let ages = match answer {
                AnswerOf::Files => self.expires(spot, &variant),
                AnswerOf::Application | AnswerOf::Server => Vec::new(),
            };
            for (endings, value) in &ages {
                let mut one = variant.clone();
                one.cache = Some(value.clone());
                if let Some(endings) = endings {
                    one.place.begins(endings);
                }
                variants.push(one);
            }
            if ages.last().is_none_or(|(endings, _)| endings.is_some()) {
                variants.push(variant);
            }
        }
        variants
    }

    /// The directives that hold for a part of a place, the outermost first, each with the test that it depends on.
    pub(super) fn holding(spot: &Spot, variant: &Variant) -> Vec<(Directive, Option<String>)> {
        let mut all = Vec::new();
        for (number, section) in spot.site.sections.iter().enumerate() {
            let place = section.place(&spot.sub, Extent::Narrow);
            let holds = place.is_some_and(|place| place.is_everywhere())
                || variant.active.contains(&number);
            let mut tested = variant.tested.iter();
            let test = tested.find(|(known, _)| *known == number);
            if holds || test.is_some() {
                let test = test.map(|(_, test)| test.clone());
                let directives = section.directives.iter().cloned();
                all.extend(directives.map(|directive| (directive, test.clone())));
            }
        }
        all
    }

    /// Sets the fields of an answer.
    pub(super) fn fields(
        &mut self,
        spot: &Spot,
        action: &mut Map<String, Value>,
        answer: AnswerOf,
        variant: &Variant,
    ) {
        let mut fields: Vec<Field> = Vec::new();
        let holding = Self::holding(spot, variant);
        let meaning = self.meaning_of_fields(spot, &holding);
        if let Some(cache) = variant.cache.clone() {
            fields.push(Field {
                name: "Cache-Control".to_owned(),
                value: Some(Text::literal(cache)),
                added: Vec::new(),
                is_always: false,
            });
        }
        for (directive, test) in holding
            .iter()
            .filter(|(directive, _)| directive.is("header"))
        {
            // Files have no cookies, and those of servers have options of their own.
            if answer != AnswerOf::Application
                && super::delivery::cookie_attributes(directive).is_some()
            {
                continue;
            }
            self.field(directive, test.as_deref(), &meaning, &mut fields);
        }
        // An option of the whole place is one of the way to it.
        let own: Vec<Directive> = spot
            .site
            .sections
            .iter()
            .enumerate()
            .filter(|(number, section)| variant.active.contains(number) && !section.is_part())
            .flat_map(|(_, section)| section.directives.iter().cloned())
            .collect();
        if !own.is_empty() {
            let entry = Self::entry(&spot.site);
            let options = self.delivery(&own, Some(&entry));
            action.extend(options);
        }
        let is_error = action.get("return").is_some();
        let (mut sometimes, mut always) = (Map::new(), Map::new());
        for field in fields {
            if field.is_always || answer != AnswerOf::Files {
                if field.added.is_empty() {
                    sometimes.remove(&field.name);
                }
                let value = field.option(always.get(&field.name));
                always.insert(field.name, value);
            } else if !is_error {
                let value = field.option(sometimes.get(&field.name));
                sometimes.insert(field.name, value);
            }
        }
        for (option, fields) in [
            ("response_headers", sometimes),
            ("response_headers_always", always),
        ] {
            if !fields.is_empty() {
                action.insert(option.to_owned(), fields.into());
            }
        }
    }

    fn meaning_of_fields(&self, spot: &Spot, holding: &[(Directive, Option<String>)]) -> Meaning {
        let directives = holding.iter().filter(|(_, test)| test.is_none());
        let section = Section {
            directives: directives.map(|(directive, _)| directive.clone()).collect(),
            ..Section::default()
        };
        let mut environment = self.environment(&spot.site, std::iter::once(&section), Time::Late);
        // A variable that rules set is known to the rules only.
        let rules = spot
            .site
            .sections
            .iter()
            .flat_map(|section| &section.directives);
        for rule in rules.filter(|directive| directive.is("rewriterule")) {
            let flags = super::condition::flags(rule.argument(2)).into_iter();
            let set = flags.filter(|(name, _)| matches!(name.as_str(), "E" | "ENV"));
            let names =
                set.map(|(_, value)| value.split(':').next().unwrap_or_default().to_owned());
            environment.unknown.extend(names);
        }
        Meaning {
            mapping: spot.base.clone(),
            ..self.meaning_of(&spot.site, environment, Time::Late)
        }
    }

    /// The refusal of a place, with the fields that every answer there has.
    pub(super) fn refusal(
        &mut self,
        (site, sections): (&Site, &[Section]),
        mapping: &Mapping,
        meaning: &Meaning,
    ) -> Value {
        let holds = |section: &&Section| {
            let place = section.place(mapping, Extent::Narrow);
            place.is_some_and(|place| place.is_everywhere())
        };
        let all = sections
            .iter()
            .filter(holds)
            .flat_map(|section| &section.directives);
        let always: Vec<&Directive> = all
            .filter(|directive| directive.is("header") && directive.word(0) == "always")
            .collect();
        let refusal = self.with_always(super::access::refusal(), &always, meaning);
        self.with_pages_of_parts((site, sections), mapping, refusal)
    }

    /// An action that answers by itself, with fields of `Header always`.
    pub(super) fn with_always(
        &mut self,
        mut action: Value,
        always: &[&Directive],
        meaning: &Meaning,
    ) -> Value {
        let mut fields: Vec<Field> = Vec::new();
        for directive in always {
            self.field(directive, None, meaning, &mut fields);
        }
        let fields: Map<String, Value> = fields
            .into_iter()
            .map(|field| (field.name.clone(), field.option(None)))
            .collect();
        if let (Some(action), false) = (action.as_object_mut(), fields.is_empty()) {
            action.insert("response_headers_always".to_owned(), fields.into());
        }
        action
    }

    fn field(
        &mut self,
        directive: &Directive,
        test: Option<&str>,
        meaning: &Meaning,
        fields: &mut Vec<Field>,
    ) {
        let mut words = directive.arguments.as_slice();
        let is_always = directive.word(0) == "always";
        if is_always || directive.word(0) == "onsuccess" {
            words = words.get(1..).unwrap_or_default();
        }
        let lost = |compiler: &mut Self, problem: &str| {
            compiler.findings.lost(
                &directive.place,
                "Header",
                problem,
                "write it in `response_headers`, perhaps as a script (`docs/http/scripting.md`)",
            );
        };
        // `env=` and `expr=` at the end are conditions.
        let mut tests: Vec<String> = test.map(|test| format!("({test})")).into_iter().collect();
        let mut condition = None;
        if let Some((last, rest)) = words.split_last()
            && rest.len() >= 2
            && (last.starts_with("env=")
                || last.starts_with("expr=") && rest.len() >= 3
                || last.starts_with("expr=")
                    && words
                        .first()
                        .is_some_and(|verb| verb.eq_ignore_ascii_case("unset")))
        {
            condition = Some(last.clone());
            words = rest;
        }
        if let Some(condition) = condition {
            match self.tested(&condition, meaning) {
                Ok(test) => tests.push(test),
                // The field belongs to a balancer's cookie, which `sticky` replaces.
                Err(_) if condition == "env=BALANCER_ROUTE_CHANGED" => return,
                Err(why) => return lost(self, &why),
            }
        }
        let (verb, name, value, with) = match words {
            [verb, name] => (verb.to_ascii_lowercase(), name, "", ""),
            [verb, name, value] => (verb.to_ascii_lowercase(), name, value.as_str(), ""),
            [verb, name, value, with] => (
                verb.to_ascii_lowercase(),
                name,
                value.as_str(),
                with.as_str(),
            ),
            _ => return,
        };
        let known = fields
            .iter()
            .rposition(|field| field.name.eq_ignore_ascii_case(name));
        let existing = || {
            Text(vec![Piece::Variable(format!(
                "response_header_{}",
                name.to_ascii_lowercase().replace('-', "_")
            ))])
        };
        let before = known
            .and_then(|known| fields.get(known))
            .map(|field| field.value.clone().unwrap_or_default());
        let is_cookie = name.eq_ignore_ascii_case("set-cookie");
        if is_cookie && let Some(problem) = change_of_cookies(&verb, !tests.is_empty()) {
            return lost(self, problem);
        }
        let change = Change {
            verb: &verb,
            value,
            with,
        };
        if is_cookie && verb == "add" {
            if let Err(why) = add_cookie(name, value, is_always, (meaning, fields)) {
                lost(self, &why);
            }
            return;
        }
        let base = before.clone().unwrap_or_else(existing);
        let value = match change.made(&base, meaning) {
            Ok(value) => value,
            Err(why) => return lost(self, &why),
        };
        let value = match tests.is_empty() {
            true => value,
            false => {
                let otherwise = before.unwrap_or_else(existing).expression();
                let value = value.unwrap_or_default().expression();
                let test = tests.join(" && ");
                Some(script_text(format!("{test} ? {value} : {otherwise}")))
            }
        };
        let field = Field {
            name: name.clone(),
            value,
            added: Vec::new(),
            is_always,
        };
        match known.and_then(|known| fields.get_mut(known)) {
            Some(known) => *known = field,
            None => fields.push(field),
        }
    }

    /// The test of `env=` or `expr=`.
    pub(super) fn tested(&self, condition: &str, meaning: &Meaning) -> Result<String, String> {
        if let Some(name) = condition.strip_prefix("env=") {
            let (name, is_set) = match name.strip_prefix('!') {
                Some(name) => (name, "==="),
                None => (name, "!=="),
            };
            let text = super::expression::text(&format!("%{{ENV:{name}}}"), meaning)?;
            return Ok(format!("{} {is_set} ''", text.expression()));
        }
        let source = condition.strip_prefix("expr=").unwrap_or(condition);
        super::expression::condition(source, meaning).map(|test| format!("({test})"))
    }

    /// Values of `Cache-Control` with an expression for the names of files, the one for all others last, without.
    fn expires(&mut self, spot: &Spot, variant: &Variant) -> Vec<(Option<String>, String)> {
        let mut directives: Vec<Directive> = Self::holding(spot, variant)
            .into_iter()
            .filter(|(directive, test)| test.is_none() && directive.key.starts_with("expires"))
            .map(|(directive, _)| directive)
            .collect();
        // The last one counts.
        directives.reverse();
        let active = directives.iter().find(|one| one.is("expiresactive"));
        if active.is_none_or(|active| !active.is_on()) {
            return Vec::new();
        }
        let mut by_value: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut known: Vec<String> = Vec::new();
        let mut default: Option<String> = None;
        for directive in &directives {
            let value = match directive.key.as_str() {
                "expiresbytype" => directive.arguments.get(1..).unwrap_or_default().join(" "),
                "expiresdefault" => directive.arguments.join(" "),
                _ => continue,
            };
            let Some(age) = age(&value) else {
                let hint = "write `Cache-Control` in `response_headers`";
                self.findings.lost(
                    &directive.place,
                    &directive.name,
                    &format!("`{value}` depends on the file, or is not a time"),
                    hint,
                );
                continue;
            };
            let value = format!("max-age={age}");
            if directive.is("expiresdefault") {
                default.get_or_insert(value);
                continue;
            }
            let kind = directive.word(0);
            let of_kind = |mime: &str| match kind.strip_suffix('*') {
                Some(major) => mime.starts_with(major),
                None => mime == kind,
            };
            for ending in tutti_config::MIME_TYPES
                .iter()
                .filter(|(mime, _)| of_kind(mime))
                .flat_map(|(_, endings)| endings.iter())
            {
                let ending = crate::template::escaped(ending);
                if !known.contains(&ending) {
                    known.push(ending.clone());
                    by_value.entry(value.clone()).or_default().push(ending);
                }
            }
        }
        let named = by_value
            .into_iter()
            .map(|(value, endings)| (Some(format!("(?i:.*(?:{})$)", endings.join("|"))), value));
        named.chain(default.map(|value| (None, value))).collect()
    }

    /// Returns the fields of `RequestHeader`, for the server or application that answers.
    pub(super) fn request_fields(
        &mut self,
        directives: &[Directive],
        meaning: &Meaning,
    ) -> Map<String, Value> {
        let mut fields: Map<String, Value> = Map::new();
        let mut values: BTreeMap<String, Text> = BTreeMap::new();
        for directive in directives
            .iter()
            .filter(|directive| directive.is("requestheader"))
        {
            let words: Vec<&String> = directive
                .arguments
                .iter()
                .filter(|word| !matches!(word.to_ascii_lowercase().as_str(), "early"))
                .collect();
            let verb = words
                .first()
                .map(|verb| verb.to_ascii_lowercase())
                .unwrap_or_default();
            let name = words.get(1).map_or("", |name| name.as_str()).to_owned();
            let mut rest: Vec<&String> = words.into_iter().skip(2).collect();
            let takes = usize::from(verb != "unset") + usize::from(verb.starts_with("edit"));
            let condition = match rest.len() > takes {
                true => rest.pop(),
                false => None,
            };
            let existing = Text(vec![Piece::Variable(format!(
                "header_{}",
                name.to_ascii_lowercase().replace('-', "_")
            ))]);
            let before = values
                .get(&name.to_ascii_lowercase())
                .cloned()
                .unwrap_or(existing);
            let base = before.expression();
            let value = rest.first().map_or("", |value| value.as_str());
            let made = match verb.as_str() {
                "unset" => Ok(Text::default()),
                "set" => format(value, meaning),
                "setifempty" => format(value, meaning).map(|text| {
                    script_text(format!("{base} !== '' ? {base} : {}", text.expression()))
                }),
                "append" | "add" | "merge" => format(value, meaning).map(|text| {
                    let text = text.expression();
                    script_text(format!("{base} !== '' ? {base} + ', ' + {text} : {text}"))
                }),
                "edit" | "edit*" => {
                    let flags = if verb == "edit*" { "g" } else { "" };
                    let with = rest.get(1).map_or("", |with| with.as_str());
                    match regex(value, Case::Exact) {
                        Some(expression) if !with.contains(['%', '`', '\\']) => Ok(script_text(
                            format!("{base}.replace({expression}{flags}, {})", quoted(with)),
                        )),
                        _ => Err(format!("`{value}` cannot be written in JavaScript")),
                    }
                }
                other => Err(format!("`{other}` has no equivalent")),
            };
            let test = match condition {
                None => Ok(None),
                Some(condition) => self.tested(condition, meaning).map(Some),
            };
            let made = made.and_then(|text| {
                Ok(match test? {
                    None => text,
                    Some(test) => script_text(format!("{test} ? {} : {base}", text.expression())),
                })
            });
            match made {
                Ok(text) => {
                    let template = text.template();
                    let value = match template.is_empty() {
                        true => Value::Null,
                        false => template.into(),
                    };
                    values.insert(name.to_ascii_lowercase(), text);
                    fields.insert(name, value);
                }
                Err(why) => {
                    let hint = "write it in `request_headers` of the action";
                    self.findings.lost(
                        &directive.place,
                        "RequestHeader",
                        &format!("{why}: the field from clients is removed"),
                        hint,
                    );
                    // A client must not set the field in place of the source's value.
                    fields.insert(name, Value::Null);
                }
            }
        }
        fields
    }
}

/// The value of `Header` or `RequestHeader`, with its `%` specifiers. The error says why there is no equivalent.
fn format(value: &str, meaning: &Meaning) -> Result<Text, String> {
    if let Some(expression) = value.strip_prefix("expr=") {
        return super::expression::text(expression, meaning);
    }
    let mut text = Text::default();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('%') {
        text.push(before);
        let unknown = || format!("`{value}` has a part without an equivalent");
        if let Some(after) = after.strip_prefix('%') {
            text.push("%");
            rest = after;
            continue;
        }
        let (name, after) = after
            .strip_prefix('{')
            .and_then(|after| after.split_once('}'))
            .ok_or_else(unknown)?;
        let name = match (after.chars().next(), name) {
            (
                Some('e'),
                "REMOTE_ADDR" | "REQUEST_SCHEME" | "HTTP_HOST" | "REQUEST_URI" | "SERVER_NAME"
                | "SERVER_PORT" | "HTTPS",
            ) => {
                format!("%{{{name}}}")
            }
            (Some('e'), _) => format!("%{{ENV:{name}}}"),
            (Some('s'), "REMOTE_ADDR" | "REQUEST_SCHEME") => format!("%{{{name}}}"),
            (Some('s'), _) => format!("%{{SSL:{name}}}"),
            _ => return Err(unknown()),
        };
        text.extend(super::expression::text(&name, meaning)?);
        rest = after.get(1..).unwrap_or_default();
    }
    text.push(rest);
    Ok(text)
}

/// Seconds of `access plus 1 month 2 days`, or `A3600`.
fn age(text: &str) -> Option<u64> {
    if let Some(seconds) = text
        .strip_prefix(['A', 'a'])
        .and_then(|seconds| seconds.parse().ok())
    {
        return Some(seconds);
    }
    let mut words = text.split_whitespace();
    if !matches!(
        words.next()?.to_ascii_lowercase().as_str(),
        "access" | "now"
    ) {
        return None;
    }
    let mut words = words.filter(|word| !word.eq_ignore_ascii_case("plus"));
    let mut total = 0_u64;
    while let Some(number) = words.next() {
        let number: u64 = number.parse().ok()?;
        let unit = words.next()?.to_ascii_lowercase();
        let factor = match unit.trim_end_matches('s') {
            "second" | "sec" => 1,
            "minute" | "min" => 60,
            "hour" => 3600,
            "day" => 86_400,
            "week" => 604_800,
            "month" => 2_592_000,
            "year" => 31_536_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        for (text, expected) in [
            ("access plus 1 month", Some(2_592_000)),
            ("A3600", Some(3600)),
            ("access plus 1 day 2 hours", Some(93_600)),
            ("modification plus 1 day", None),
            ("now", Some(0)),
        ] {
            assert_eq!(age(text), expected, "{text}");
        }
    }
}
