//! Settings of the whole server: limits, times, compression, types, the access log.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::place_options::whole_seconds;
use super::scope::Scope;
use super::site::{Compiler, Site};
use super::tree::Statement;
use super::types::types_of;
use crate::mime;
use crate::units::bytes;

impl Compiler<'_> {
    /// Settings that nginx has for each server or location, and Tutti for all.
    pub(super) fn settings(&mut self, http: &[Statement]) {
        let mut all = Vec::new();
        flatten(http, 0, &mut all);
        // Outer ones come first.
        let mut types: Option<BTreeMap<String, String>> = None;
        let mut seen: BTreeMap<String, (String, usize)> = BTreeMap::new();
        for (depth, statement) in &all {
            let value = statement.arguments().join(" ");
            match statement.name() {
                "types" if *depth == 0 => types = Some(types_of(statement)),
                name => {
                    if let Some((option, setting)) = of_server(name, &value) {
                        let known = seen.get(option).cloned();
                        match known {
                            Some((former, _)) if former != value => {
                                self.for_all(
                                    statement,
                                    &format!("`{former}` applies, because it comes first"),
                                );
                                continue;
                            }
                            Some(_) => continue,
                            None => {}
                        }
                        seen.insert(option.to_owned(), (value, *depth));
                        self.out.http.insert(option.to_owned(), setting);
                    }
                }
            }
        }
        self.types = types.unwrap_or_default();
        let differences = mime::differences(&self.types);
        if !differences.is_empty() {
            self.out
                .http
                .insert("static".to_owned(), json!({"mime_types": differences}));
        }
    }

    fn for_all(&mut self, statement: &Statement, what: &str) {
        let hint = "`settings.http` applies to the whole server; a listener or an action may have its own `http` (`docs/http/delivery.md`)";
        self.findings
            .lost(&statement.place, statement.name(), what, hint);
    }

    /// `http` and `access_log` of a place, where they differ from those around it.
    pub(super) fn place_settings(&mut self, site: &Site, around: &Scope) -> Map<String, Value> {
        let scope = &site.scope;
        let mut http = differing(&scope.http, &around.http);
        let compression = scope.gzip.compression();
        if compression != around.gzip.compression() {
            let compression = compression.unwrap_or_else(|| false.into());
            http.insert("compression".to_owned(), compression);
        }
        let mut options = self.response_options(site, around);
        if !http.is_empty() {
            options.insert("http".to_owned(), http.into());
        }
        if scope.logs != around.logs {
            let logs = self.logs(scope, &site.meaning);
            options.insert("access_log".to_owned(), logs);
        }
        options
    }
}

/// The options of a place that it does not have from the one around it.
fn differing(options: &Map<String, Value>, around: &Map<String, Value>) -> Map<String, Value> {
    let own = options
        .iter()
        .filter(|(name, value)| around.get(*name) != Some(*value));
    own.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The option of `settings.http` for a directive that has one value for the whole server.
fn of_server(name: &str, value: &str) -> Option<(&'static str, Value)> {
    let first = value.split(' ').next().unwrap_or_default();
    Some(match name {
        "client_header_timeout" => ("header_read_timeout", whole_seconds(first)?),
        // Not 0: a response says that the connection stays open, which must then be so for a moment.
        "keepalive_timeout" => (
            "idle_timeout",
            crate::units::whole_seconds(first)?.max(1).into(),
        ),
        "client_body_buffer_size" => ("body_buffer_size", bytes(first)?.into()),
        "merge_slashes" => ("merge_slashes", (first == "on").into()),
        "underscores_in_headers" if first == "on" => ("discard_unsafe_fields", false.into()),
        "ignore_invalid_headers" if first == "off" => ("discard_unsafe_fields", false.into()),
        _ => return None,
    })
}

/// All statements but those of groups and maps, with their depth.
fn flatten<'s>(block: &'s [Statement], depth: usize, all: &mut Vec<(usize, &'s Statement)>) {
    for statement in block {
        all.push((depth, statement));
        if matches!(statement.name(), "server" | "location" | "if" | "http") {
            flatten(statement.inner(), depth + 1, all);
        }
    }
}
