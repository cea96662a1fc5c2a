//! Settings of the whole server: limits, times, compression, types, the access log.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::site::Compiler;
use super::tree::Statement;
use super::variables::Meaning;
use crate::mime;
use crate::units::{bytes, seconds};

/// `client_max_body_size 0` is any size; no disk holds more than this.
const ANY_SIZE: u64 = 1 << 50;

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
                "types" => {
                    let own = types_of(statement);
                    match types.get_or_insert_with(|| own.clone()) {
                        known if *known == own => {}
                        _ => self.for_all(statement, "types for a single location"),
                    }
                }
                "default_type" if value != "application/octet-stream" => {
                    let hint = "unknown files get no type here; list their endings in `settings.http.static.mime_types`";
                    self.findings.lost(
                        &statement.place,
                        "default_type",
                        "unknown files cannot have a default type",
                        hint,
                    );
                }
                name => {
                    if let Some((option, setting)) = setting(name, &value) {
                        let known = seen.get(option).cloned();
                        match known {
                            Some((former, _)) if former != value && option == "max_body_size" => {
                                let larger = self.out.http.get(option).and_then(Value::as_u64)
                                    < setting.as_u64();
                                self.for_all(statement, "the largest value applies everywhere");
                                if !larger {
                                    continue;
                                }
                            }
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
        let differences = mime::differences(&types.unwrap_or_default());
        if !differences.is_empty() {
            self.out
                .http
                .insert("static".to_owned(), json!({"mime_types": differences}));
        }
        self.compression(&all);
        self.access_log(http, &all);
    }

    fn for_all(&mut self, statement: &Statement, what: &str) {
        let hint =
            "`settings.http` applies to the whole server; run a second server for different values";
        self.findings
            .lost(&statement.place, statement.name(), what, hint);
    }

    fn compression(&mut self, all: &[(usize, &Statement)]) {
        let find = |name: &str| {
            all.iter()
                .map(|(_, statement)| *statement)
                .find(|statement| statement.name() == name)
        };
        if find("gzip").is_none_or(|gzip| gzip.argument(0) != "on") {
            return;
        }
        let mut compressor = Map::from_iter([("encoding".to_owned(), "gzip".into())]);
        if let Some(Ok(level)) =
            find("gzip_comp_level").map(|level| level.argument(0).parse::<u8>())
        {
            compressor.insert("level".to_owned(), level.into());
        }
        let least = find("gzip_min_length")
            .and_then(|least| bytes(least.argument(0)))
            .unwrap_or(20);
        compressor.insert("min_length".to_owned(), least.into());
        // nginx always has HTML among them.
        let mut types = vec!["text/html".to_owned()];
        if let Some(named) = find("gzip_types") {
            types.extend(
                named
                    .arguments()
                    .iter()
                    .filter(|mime| *mime != "text/html")
                    .cloned(),
            );
        }
        for (_, other) in all.iter().filter(|(depth, statement)| {
            *depth > 0 && statement.name() == "gzip" && statement.argument(0) == "off"
        }) {
            self.for_all(other, "compression applies to the whole server");
        }
        self.out.http.insert(
            "compression".to_owned(),
            json!({"types": types, "compressors": compressor}),
        );
    }

    fn access_log(&mut self, http: &[Statement], all: &[(usize, &Statement)]) {
        let mut formats = BTreeMap::new();
        for statement in http
            .iter()
            .filter(|statement| statement.name() == "log_format")
        {
            let (name, parts) = statement
                .arguments()
                .split_first()
                .map_or(("", [].as_slice()), |(name, parts)| (name.as_str(), parts));
            let text: String = parts
                .iter()
                .filter(|part| !part.starts_with("escape="))
                .map(String::as_str)
                .collect();
            formats.insert(name, (text, statement));
        }
        let mut chosen: Option<(String, String)> = None;
        for (_, statement) in all
            .iter()
            .filter(|(_, statement)| statement.name() == "access_log")
        {
            let (path, format) = (statement.argument(0), statement.argument(1));
            if path == "off" {
                if all
                    .iter()
                    .any(|(_, other)| other.name() == "access_log" && other.argument(0) != "off")
                {
                    let hint = "use `access_log.if` to skip requests";
                    self.findings.note(
                        &statement.place,
                        "access_log",
                        "there is one log for all requests, including these",
                        hint,
                    );
                }
                continue;
            }
            if path.starts_with("syslog:") || path.contains('$') {
                let hint = "log to a file, and process that file";
                self.findings.lost(
                    &statement.place,
                    "access_log",
                    "a log goes to one file",
                    hint,
                );
                continue;
            }
            let this = (path.to_owned(), format.to_owned());
            if chosen.as_ref().is_some_and(|chosen| *chosen != this) {
                self.findings.lost(
                    &statement.place,
                    "access_log",
                    "there is one log for all requests, the first one",
                    "use `$host` in its `format` to distinguish the sites",
                );
                continue;
            }
            if chosen.is_some() {
                continue;
            }
            let mut log = Map::from_iter([("path".to_owned(), path.into())]);
            if let Some((text, declared)) = formats.get(format) {
                let meaning = Meaning::default();
                match meaning.text(text) {
                    Ok(text) => drop(log.insert("format".to_owned(), text.template().into())),
                    Err(unknown) => {
                        let problem = format!(
                            "there is no equivalent of `${}`: the default format is used",
                            unknown.0
                        );
                        self.findings.lost(
                            &declared.place,
                            "log_format",
                            &problem,
                            "`docs/reference/variables.md` lists the available variables",
                        );
                    }
                }
            }
            for option in statement.arguments().iter().skip(2) {
                if option.starts_with("if=") {
                    self.findings.lost(
                        &statement.place,
                        "access_log",
                        &format!("`{option}` is not carried over"),
                        "write it as `access_log.if`",
                    );
                }
            }
            self.out.access_log = Some(log.into());
            chosen = Some(this);
        }
    }
}

/// The types of a block, by ending.
fn types_of(statement: &Statement) -> BTreeMap<String, String> {
    let entries = statement.inner().iter();
    let entries = entries.flat_map(|entry| {
        let endings = entry.arguments().iter();
        endings.map(|ending| (ending.clone(), entry.name().to_owned()))
    });
    entries.collect()
}

/// The option of `settings.http` for a directive.
fn setting(name: &str, value: &str) -> Option<(&'static str, Value)> {
    let first = value.split(' ').next().unwrap_or_default();
    let whole = |text: &str| seconds(text).map(|seconds| Value::from(seconds.ceil() as u64));
    Some(match name {
        "client_max_body_size" => {
            let size = bytes(first)?;
            (
                "max_body_size",
                if size == 0 {
                    ANY_SIZE.into()
                } else {
                    size.into()
                },
            )
        }
        "client_header_timeout" => ("header_read_timeout", whole(first)?),
        "client_body_timeout" => ("body_read_timeout", whole(first)?),
        "send_timeout" => ("send_timeout", whole(first)?),
        "keepalive_timeout" => ("idle_timeout", whole(first)?),
        "client_body_buffer_size" => ("body_buffer_size", bytes(first)?.into()),
        "server_tokens" if matches!(first, "off" | "build") => {
            ("server_version", (first != "off").into())
        }
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
