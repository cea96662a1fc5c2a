//! Directives that are settings of a block: its folder, fields, limits, compression.

use serde_json::{Value, json};

use super::tree::{Directive, folder};
use super::{Caddy, Scope, matching};
use crate::units::bytes;

impl Caddy<'_> {
    /// Settings of a block, which hold for all of it.
    pub(super) fn settle(&mut self, directive: &Directive, scope: &mut Scope) {
        let place = &directive.place;
        match directive.name() {
            "root" => {
                scope.root = folder(directive);
                if scope.root.is_none() {
                    self.findings.lost(
                        place,
                        "root",
                        "a folder for only some requests is not carried over: no files are served here",
                        "write `handle` around the directives that it applies to",
                    );
                }
            }
            "header" => self.header(directive, scope),
            "request_header"
                if directive.arguments().len() == 2 && !directive.argument(1).contains('{') =>
            {
                scope.request_headers.insert(
                    directive.argument(0).to_owned(),
                    directive.argument(1).into(),
                );
            }
            "request_header"
                if directive.arguments().len() == 1 && directive.argument(0).starts_with('-') =>
            {
                scope.request_headers.insert(
                    directive.argument(0).trim_start_matches('-').to_owned(),
                    Value::Null,
                );
            }
            "request_header" => {
                // A client must not set the field in place of the source's value.
                let mut words = directive.arguments().iter();
                let name = words.find(|word| !matching::is_token(word));
                let name =
                    name.map(|name| name.trim_start_matches(['+', '-', '?', '>']).to_owned());
                if let Some(name) = name.filter(|name| !name.contains(['{', '*'])) {
                    scope.request_headers.insert(name, Value::Null);
                }
                self.findings.lost(
                    place,
                    "request_header",
                    "it is not carried over; the field from clients is removed",
                    "write it in `request_headers` of the action",
                );
            }
            "request_body" => {
                let size = directive
                    .inner()
                    .iter()
                    .find(|inner| inner.name() == "max_size")
                    .and_then(|inner| bytes(inner.argument(0).trim_end_matches(['B', 'b'])));
                match size {
                    Some(size) if !self.out.http.contains_key("max_body_size") => drop(
                        self.out
                            .http
                            .insert("max_body_size".to_owned(), size.into()),
                    ),
                    _ => self.findings.lost(
                        place,
                        "request_body",
                        "the first limit applies to the whole server: `settings.http.max_body_size`",
                        "write `max_body_size` into `http` of the action (`docs/http/delivery.md`)",
                    ),
                }
            }
            "encode" => {
                let known = ["gzip", "zstd", "br"];
                let named = directive.arguments().iter().chain(
                    directive
                        .inner()
                        .iter()
                        .filter_map(|inner| inner.words.first()),
                );
                let compressors: Vec<Value> = named
                    .filter(|name| known.contains(&name.as_str()))
                    .map(|name| json!({"encoding": name, "min_length": 512}))
                    .collect();
                self.out.http.insert(
                    "compression".to_owned(),
                    json!({"compressors": compressors}),
                );
            }
            "log" => self.findings.note(
                place,
                "log",
                "logs of sites are not carried over",
                "write `access_log` into the listener or the action (`docs/http/delivery.md`)",
            ),
            "tls" if directive.argument(0).contains('@') && directive.inner().is_empty() => {}
            "tls" if directive.arguments().len() != 2 => self.findings.lost(
                place,
                "tls",
                "only `tls CERTIFICATE KEY` is carried over",
                "see the options of `tls` in `docs/http/tls.md`",
            ),
            "bind" | "tls" => {}
            _ => {}
        }
    }

    pub(super) fn header(&mut self, directive: &Directive, scope: &mut Scope) {
        let mut lines: Vec<Vec<String>> = Vec::new();
        let arguments = directive.arguments();
        let (matcher, arguments) = match arguments.split_first() {
            Some((first, rest)) if matching::is_token(first) => (first.as_str(), rest),
            _ => ("*", arguments),
        };
        if !arguments.is_empty() {
            lines.push(arguments.to_vec());
        }
        lines.extend(directive.inner().iter().map(|inner| inner.words.clone()));
        for words in lines {
            let name = words.first().cloned().unwrap_or_default();
            let value = words.get(1).cloned().unwrap_or_default();
            if name == "defer" {
                continue;
            }
            let is_plain = matcher == "*"
                && words.len() <= 2
                && !value.contains('{')
                && !name.starts_with(['+', '?', '>']);
            if !is_plain {
                let hint = "write it in `response_headers` of the action";
                self.findings.lost(
                    &directive.place,
                    "header",
                    &format!(
                        "`{name}` for some responses, or with a variable value, is not carried over"
                    ),
                    hint,
                );
            } else if name.trim_start_matches('-').eq_ignore_ascii_case("server") {
                // The field is the server's own.
                self.out
                    .http
                    .insert("server_version".to_owned(), false.into());
                self.findings.note(
                    &directive.place,
                    "header",
                    "responses keep the field `Server`, without the version",
                    "remove it with `\"response_headers_always\": {\"Server\": null}` in the action",
                );
            } else if let Some(removed) = name.strip_prefix('-') {
                scope.always.insert(removed.to_owned(), Value::Null);
            } else {
                scope
                    .always
                    .insert(name, value.replace('$', "${dollar}").into());
            }
        }
    }
}
