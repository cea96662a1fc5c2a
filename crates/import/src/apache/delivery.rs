//! Options of an action for the responses of a place: character set, type, compression, rate, replaced texts, the size of
//! bodies, pages for errors.

use serde_json::{Map, Value, json};

use super::grammar::Directive;
use super::section::{Extent, Mapping};
use super::site::{Compiler, Site};
use crate::template::{Piece, Text};
use crate::units::{ANY_BODY, USUAL_BODY};
use crate::words::Words;

/// Directives that become such options.
pub(super) const OF_PLACE: Words = Words(
    "adddefaultcharset addoutputfilterbytype errordocument forcetype limitrequestbody setoutputfilter substitute",
);

/// The types that `AddDefaultCharset` is for.
const CHARSET_TYPES: [&str; 2] = ["text/html", "text/plain"];

/// Returns the directives of all sections that hold for a whole mapping, the outermost first.
pub(super) fn directives_of(site: &Site, mapping: &Mapping) -> Vec<Directive> {
    let holds =
        |place: Option<super::section::Where>| place.is_some_and(|place| place.is_everywhere());
    let sections = site.sections.iter();
    sections
        .filter(|section| holds(section.place(mapping, Extent::Narrow)))
        .flat_map(|section| section.directives.iter().cloned())
        .collect()
}

/// The options that differ from those around; the members of `http` one by one.
pub(super) fn differing(
    inner: Map<String, Value>,
    outer: &Map<String, Value>,
) -> Map<String, Value> {
    let mut options = Map::new();
    for (name, value) in &inner {
        match (name.as_str(), value, outer.get(name)) {
            ("http", Value::Object(http), Some(Value::Object(known))) => {
                let http = differing(http.clone(), known);
                if !http.is_empty() {
                    options.insert(name.clone(), http.into());
                }
            }
            (_, value, known) if known != Some(value) => {
                options.insert(name.clone(), value.clone());
            }
            _ => {}
        }
    }
    // An option that the place around has, and this one has not.
    for (name, known) in outer {
        let off = match name.as_str() {
            _ if inner.contains_key(name) => continue,
            "charset" | "default_type" => json!(false),
            "replace" => json!([]),
            "limit_rate" => json!(0),
            "error_pages" => {
                let statuses = known.as_object().into_iter().flat_map(|pages| pages.keys());
                let own = statuses.filter_map(|status| {
                    Some((
                        status.clone(),
                        json!({"return": status.parse::<u16>().ok()?}),
                    ))
                });
                own.collect::<Map<String, Value>>().into()
            }
            "compression" => json!(false),
            "max_body_size" => usual_size(),
            "http" => match known.as_object() {
                Some(known) => {
                    let http = differing(Map::new(), known);
                    match http.is_empty() {
                        true => continue,
                        false => http.into(),
                    }
                }
                None => continue,
            },
            _ => continue,
        };
        if off != *known {
            options.insert(name.clone(), off);
        }
    }
    options
}

impl Compiler<'_> {
    /// Returns the options of directives. `entry`: where pages for errors are looked up, if there are any.
    pub(super) fn delivery(
        &mut self,
        directives: &[Directive],
        entry: Option<&str>,
    ) -> Map<String, Value> {
        let mut options = Map::new();
        let mut http = Map::new();
        let last = |key: &str| directives.iter().rfind(|directive| directive.is(key));
        if let Some(charset) = last("adddefaultcharset") {
            match charset.word(0).as_str() {
                "off" => drop(options.insert("charset".to_owned(), false.into())),
                word => {
                    let charset = if word == "on" { "iso-8859-1" } else { word };
                    options.insert("charset".to_owned(), charset.into());
                    options.insert("charset_types".to_owned(), json!(CHARSET_TYPES));
                }
            }
        }
        if let Some(forced) = last("forcetype").filter(|forced| is_plain_type(forced)) {
            options.insert("mime_types".to_owned(), json!({}));
            options.insert("default_type".to_owned(), forced.argument(0).into());
        }
        if let Some(limit) = last("limitrequestbody") {
            http.insert("max_body_size".to_owned(), size(limit).into());
        }
        if let Some(compression) = compression(directives) {
            http.insert("compression".to_owned(), compression);
        }
        self.filters(directives, &mut options);
        let pages = self.error_pages(directives, entry);
        if !pages.is_empty() {
            options.insert("error_pages".to_owned(), pages.into());
        }
        if !http.is_empty() {
            options.insert("http".to_owned(), http.into());
        }
        options
    }

    /// The options of a part of a site that differ from those of the site.
    pub(super) fn delivery_of_part(
        &mut self,
        site: &Site,
        mapping: &Mapping,
    ) -> Map<String, Value> {
        let root = Mapping {
            at: String::new(),
            folder: root_folder(site),
        };
        let entry = Self::entry(site);
        let outer = self.delivery(&directives_of(site, &root), Some(&entry));
        let inner = self.delivery(&directives_of(site, mapping), Some(&entry));
        differing(inner, &outer)
    }

    /// The destination of a site's requests, before its options.
    pub(super) fn entry(site: &Site) -> String {
        format!("routes/{}", site.name)
    }

    /// `RATE_LIMIT` and `SUBSTITUTE`.
    fn filters(&mut self, directives: &[Directive], options: &mut Map<String, Value>) {
        let mut rates = false;
        let mut replaced: Option<Vec<String>> = None;
        for directive in directives {
            let filters = directive.argument(0).to_ascii_uppercase();
            let types: Vec<String> = directive.arguments.iter().skip(1).cloned().collect();
            match directive.key.as_str() {
                "setoutputfilter" => {
                    rates = filters.contains("RATE_LIMIT");
                    if filters.contains("SUBSTITUTE") {
                        replaced = Some(vec!["*".to_owned()]);
                    }
                }
                "addoutputfilterbytype" if filters.contains("SUBSTITUTE") => {
                    replaced.get_or_insert_default().extend(types);
                }
                _ => {}
            }
        }
        let environment = |name: &str| {
            let set = |one: &&Directive| one.is("setenv") && one.argument(0) == name;
            let value = directives.iter().rfind(set)?;
            value.argument(1).parse::<u64>().ok()
        };
        if let (true, Some(rate)) = (rates, environment("rate-limit")) {
            options.insert("limit_rate".to_owned(), (rate << 10).into());
            if let Some(burst) = environment("rate-initial-burst") {
                options.insert("limit_rate_after".to_owned(), (burst << 10).into());
            }
        }
        let Some(types) = replaced else {
            return;
        };
        let mut replacements: Vec<Value> = Vec::new();
        for directive in directives.iter().filter(|one| one.is("substitute")) {
            match replacement(directive.argument(0)) {
                Some(replacement) => replacements.push(replacement),
                None => self.findings.lost(
                    &directive.place,
                    &directive.name,
                    "only fixed texts are replaced",
                    "write `replace` into the action (`docs/http/delivery.md`)",
                ),
            }
        }
        if !replacements.is_empty() {
            options.insert("replace".to_owned(), replacements.into());
            options.insert("replace_types".to_owned(), types.into());
        }
    }
}

/// The folder of the paths that no other mapping has.
pub(super) fn root_folder(site: &Site) -> String {
    let last = site.mappings.last().filter(|mapping| mapping.at.is_empty());
    last.map(|mapping| mapping.folder.clone())
        .unwrap_or_default()
}

/// True for a type of files that no handler runs.
fn is_plain_type(forced: &Directive) -> bool {
    let kind = forced.word(0);
    kind.contains('/') && !kind.contains("httpd") && !kind.starts_with("magnus-internal")
}

/// The bytes of `LimitRequestBody`.
fn size(limit: &Directive) -> u64 {
    match limit.argument(0).parse::<u64>() {
        Ok(0) => ANY_BODY,
        Ok(size) => size,
        Err(_) => USUAL_BODY,
    }
}

/// `max_body_size` without a `LimitRequestBody`.
pub(super) fn usual_size() -> Value {
    USUAL_BODY.into()
}

/// `compression`, if there is any.
fn compression(directives: &[Directive]) -> Option<Value> {
    let mut types: Vec<String> = Vec::new();
    let mut encodings: Vec<&str> = Vec::new();
    let mut of_all: Vec<&str> = Vec::new();
    let read = |filters: &str| -> Vec<&'static str> {
        let known = |filter: &str| match filter.to_ascii_uppercase().as_str() {
            "DEFLATE" => Some("gzip"),
            "BROTLI_COMPRESS" => Some("br"),
            _ => None,
        };
        filters.split(';').filter_map(known).collect()
    };
    for directive in directives {
        let found = read(directive.argument(0));
        match directive.key.as_str() {
            "addoutputfilterbytype" => {
                for encoding in &found {
                    if !encodings.contains(encoding) {
                        encodings.push(encoding);
                    }
                }
                let named = directive.arguments.iter().skip(1);
                for kind in named.filter(|kind| !found.is_empty() && !kind.is_empty()) {
                    if !types.contains(kind) {
                        types.push(kind.clone());
                    }
                }
            }
            "setoutputfilter" => of_all = found,
            _ => {}
        }
    }
    if encodings.is_empty() && of_all.is_empty() {
        return None;
    }
    if !of_all.is_empty() {
        types.clear();
        encodings = of_all;
    }
    let level = directives
        .iter()
        .rfind(|directive| directive.is("deflatecompressionlevel"))
        .and_then(|level| level.argument(0).parse::<u8>().ok());
    let compressors: Vec<_> = encodings
        .iter()
        .map(|encoding| {
            let mut compressor = Map::from_iter([("encoding".to_owned(), (*encoding).into())]);
            if let (Some(level), &"gzip") = (level, encoding) {
                compressor.insert("level".to_owned(), level.into());
            }
            compressor
        })
        .collect();
    let mut compression = Map::from_iter([("compressors".to_owned(), json!(compressors))]);
    if !types.is_empty() {
        compression.insert("types".to_owned(), types.into());
    }
    Some(compression.into())
}

/// `s|find|with|flags`, if `find` is no expression.
fn replacement(text: &str) -> Option<Value> {
    let rest = text.strip_prefix('s')?;
    let separator = rest.chars().next()?;
    let mut parts = rest.get(separator.len_utf8()..)?.split(separator);
    let (find, with, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let is_fixed =
        flags.contains('n') || !find.contains(|one: char| r"\.+*?()|[]{}^$".contains(one));
    let is_known = flags.chars().all(|flag| "niqf".contains(flag));
    if !is_fixed
        || !is_known
        || with.contains(['\\', '$']) && !flags.contains('n')
        || parts.next().is_some()
    {
        return None;
    }
    let with = Text(vec![Piece::Text(with.to_owned())]).template();
    Some(json!({"find": find, "with": with, "ignore_case": flags.contains('i')}))
}

/// `Header edit Set-Cookie ^(.*)$ "$1; Secure; HttpOnly"`: the attributes that all cookies get.
pub(super) fn cookie_attributes(directive: &Directive) -> Option<Value> {
    let mut words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
    words.retain(|word| !matches!(word.to_ascii_lowercase().as_str(), "always" | "onsuccess"));
    let [verb, name, pattern, with] = words.as_slice() else {
        return None;
    };
    let is_of_all = directive.is("header")
        && verb.to_ascii_lowercase().starts_with("edit")
        && name.eq_ignore_ascii_case("set-cookie")
        && matches!(*pattern, "^(.*)$" | "(.*)" | "^(.*)" | "^(.+)$");
    let rest = with.strip_prefix("$1").filter(|_| is_of_all)?;
    let mut attributes = Map::new();
    for attribute in rest.split(';').map(str::trim).filter(|one| !one.is_empty()) {
        match attribute.to_ascii_lowercase().as_str() {
            "secure" => drop(attributes.insert("secure".to_owned(), true.into())),
            "httponly" => drop(attributes.insert("http_only".to_owned(), true.into())),
            site @ ("samesite=lax" | "samesite=strict" | "samesite=none") => {
                let value = site.split_once('=').map(|(_, value)| value);
                attributes.insert("same_site".to_owned(), value.into());
            }
            _ => return None,
        }
    }
    Some(attributes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_texts_are_replaced() {
        let made = |find: &str, with: &str, ignore: bool| {
            Some(json!({"find": find, "with": with, "ignore_case": ignore}))
        };
        assert_eq!(replacement("s|a b|c|"), made("a b", "c", false));
        assert_eq!(replacement("s/a.b/$1/ni"), made("a.b", "${dollar}1", true));
        for expression in ["s|a.b|c|", "s|a|$1|", "s|a|b|x", "s|a", "", "s|a|b|n|"] {
            assert_eq!(replacement(expression), None, "{expression}");
        }
    }
}
