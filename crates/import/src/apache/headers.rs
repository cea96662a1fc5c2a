//! `Header`, `RequestHeader`, `ExpiresByType` and `ExpiresDefault`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::grammar::Directive;
use super::section::{Extent, Where};
use super::site::{Compiler, Spot};
use crate::template::{Piece, Text};

/// A field of the answer on its way.
#[derive(Clone)]
struct Field {
    name: String,
    value: Option<Text>,
    is_always: bool,
}

/// A part of a place whose answers have fields of their own.
#[derive(Clone, Default)]
pub(super) struct Variant {
    pub(super) place: Where,
    /// The sections, by number, whose conditions hold there.
    active: Vec<usize>,
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
}

/// Most sections that set fields for some files only: each doubles the steps.
const MOST_CONDITIONS: usize = 3;

impl Compiler<'_> {
    /// The parts of a place with fields of their own, the last of which is all of it.
    pub(super) fn variants(&mut self, spot: &Spot, base: &Where, answer: AnswerOf) -> Vec<Variant> {
        let mut conditions: Vec<(usize, Where)> = Vec::new();
        for (number, section) in spot.site.sections.iter().enumerate() {
            let Some(header) = section
                .directives
                .iter()
                .find(|directive| directive.is("header"))
            else {
                continue;
            };
            let Some(place) = section
                .place(&spot.sub, Extent::Narrow)
                .filter(|place| !place.is_everywhere())
            else {
                continue;
            };
            if conditions.len() >= MOST_CONDITIONS {
                let hint = "write a step with this condition and its `response_headers`";
                self.findings.lost(
                    &header.place,
                    "Header",
                    "too many sections set fields for only some files",
                    hint,
                );
                continue;
            }
            conditions.push((number, place));
        }
        let ages = if answer == AnswerOf::Files {
            self.expires(spot)
        } else {
            Vec::new()
        };
        let mut variants = Vec::new();
        for chosen in (0..1_usize << conditions.len()).rev() {
            let mut variant = Variant {
                place: base.clone(),
                ..Variant::default()
            };
            for (position, (number, place)) in conditions.iter().enumerate() {
                if chosen >> position & 1 == 1 {
                    variant.place = variant.place.and(place);
                    variant.active.push(*number);
                }
            }
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

    /// Sets the fields of an answer.
    pub(super) fn fields(
        &mut self,
        spot: &Spot,
        action: &mut Map<String, Value>,
        answer: AnswerOf,
        variant: &Variant,
    ) {
        let mut fields: Vec<Field> = Vec::new();
        for (number, section) in spot.site.sections.iter().enumerate() {
            let holds = section
                .place(&spot.sub, Extent::Narrow)
                .is_some_and(|place| place.is_everywhere())
                || variant.active.contains(&number);
            for directive in section
                .directives
                .iter()
                .filter(|directive| holds && directive.is("header"))
            {
                self.field(directive, &mut fields);
            }
        }
        if let Some(cache) = variant.cache.clone().filter(|_| {
            !fields
                .iter()
                .any(|field| field.name.eq_ignore_ascii_case("cache-control"))
        }) {
            fields.push(Field {
                name: "Cache-Control".to_owned(),
                value: Some(Text::literal(cache)),
                is_always: false,
            });
        }
        let is_error = action.get("return").is_some();
        let (mut sometimes, mut always) = (Map::new(), Map::new());
        for field in fields {
            let value = field
                .value
                .map_or(Value::Null, |text| text.template().into());
            if field.is_always || answer == AnswerOf::Application {
                sometimes.remove(&field.name);
                always.insert(field.name, value);
            } else if !is_error {
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

    fn field(&mut self, directive: &Directive, fields: &mut Vec<Field>) {
        let mut words = directive.arguments.as_slice();
        let is_always = directive.word(0) == "always";
        if is_always || directive.word(0) == "onsuccess" {
            words = words.get(1..).unwrap_or_default();
        }
        let (verb, name, value, more) = match words {
            [verb, name] => (verb.to_ascii_lowercase(), name, "", None),
            [verb, name, value] => (verb.to_ascii_lowercase(), name, value.as_str(), None),
            [verb, name, value, more, ..] => (
                verb.to_ascii_lowercase(),
                name,
                value.as_str(),
                Some(more.as_str()),
            ),
            _ => return,
        };
        let lost = |compiler: &mut Self, problem: &str| {
            compiler.findings.lost(
                &directive.place,
                "Header",
                problem,
                "write it in `response_headers`, perhaps as a script (`docs/http/scripting.md`)",
            );
        };
        let more = if verb == "unset" && !value.is_empty() {
            Some(value)
        } else {
            more
        };
        if more.is_some() {
            return lost(
                self,
                "a field that depends on a variable or an expression is not carried over",
            );
        }
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
            .and_then(|field| field.value.clone());
        let value = match verb.as_str() {
            "unset" => None,
            "set" | "setifempty" | "append" | "merge" | "add" => {
                let Some(text) = format(value) else {
                    return lost(self, &format!("`{value}` has a part without an equivalent"));
                };
                let is_cookie = name.eq_ignore_ascii_case("set-cookie");
                if is_cookie && verb != "set" {
                    return lost(self, "a second `Set-Cookie` is not possible");
                }
                Some(match verb.as_str() {
                    "set" => text,
                    // Fields that are lists mean the same joined (RFC 9110 §5.3).
                    verb => {
                        let base = before.clone().unwrap_or_else(existing).expression();
                        let joined = if verb == "setifempty" {
                            base.clone()
                        } else {
                            format!("{base} + ', ' + {}", text.expression())
                        };
                        Text(vec![Piece::Script(format!(
                            "{base} !== '' ? {joined} : {}",
                            text.expression()
                        ))])
                    }
                })
            }
            other => {
                return lost(
                    self,
                    &format!("`{other}` for header fields is not carried over"),
                );
            }
        };
        let field = Field {
            name: name.clone(),
            value,
            is_always,
        };
        match known.and_then(|known| fields.get_mut(known)) {
            Some(known) => *known = field,
            None => fields.push(field),
        }
    }

    /// Values of `Cache-Control` with an expression for the names of files, the one for all others last, without.
    fn expires(&mut self, spot: &Spot) -> Vec<(Option<String>, String)> {
        if spot
            .setting("expiresactive")
            .is_none_or(|active| !active.is_on())
        {
            return Vec::new();
        }
        let mut by_value: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut known: Vec<String> = Vec::new();
        let mut default: Option<String> = None;
        let directives: Vec<Directive> = spot
            .sections()
            .flat_map(|section| section.directives.iter().rev())
            .cloned()
            .collect();
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
    pub(super) fn request_fields(&mut self, directives: &[Directive]) -> Map<String, Value> {
        let mut fields = Map::new();
        for directive in directives
            .iter()
            .filter(|directive| directive.is("requestheader"))
        {
            let (verb, name, value) = (
                directive.word(0),
                directive.argument(1).to_owned(),
                directive.argument(2),
            );
            let text = request_format(value);
            // A client must not set the field in place of the source's value.
            if matches!(verb.as_str(), "set" | "unset" | "setifempty") {
                fields.insert(name.clone(), Value::Null);
            }
            match (verb.as_str(), text) {
                ("unset", _) if directive.arguments.len() == 2 => {
                    drop(fields.insert(name, Value::Null))
                }
                ("set", Some(text)) if directive.arguments.len() == 3 => {
                    drop(fields.insert(name, text.template().into()))
                }
                _ => {
                    let hint = "write it in `request_headers` of the action";
                    self.findings.lost(
                        &directive.place,
                        "RequestHeader",
                        "it is not carried over; the field from clients is removed",
                        hint,
                    );
                }
            }
        }
        fields
    }
}

/// The value of `Header`, with its `%` specifiers.
fn format(value: &str) -> Option<Text> {
    let mut text = Text::default();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('%') {
        text.push(before);
        rest = match after.chars().next()? {
            '%' => {
                text.push("%");
                after.get(1..)?
            }
            // Times and variables of the server.
            _ => return None,
        };
    }
    text.push(rest);
    Some(text)
}

/// The value of `RequestHeader`.
fn request_format(value: &str) -> Option<Text> {
    match value {
        "expr=%{REQUEST_SCHEME}" | "%{REQUEST_SCHEME}s" | "%{REQUEST_SCHEME}e" => {
            Some(Text(vec![Piece::Script(
                "vars.tls_protocol ? 'https' : 'http'".to_owned(),
            )]))
        }
        "%{REMOTE_ADDR}s" | "%{REMOTE_ADDR}e" => {
            Some(Text(vec![Piece::Variable("remote_addr".to_owned())]))
        }
        other if other.starts_with("expr=") => None,
        other => format(other),
    }
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
