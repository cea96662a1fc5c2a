//! Directives that are settings of a block: its folder, fields, limits, compression.

use serde_json::{Map, Value, json};
use tutti_config::pattern::Case;

use super::tree::{Directive, folder};
use super::{Caddy, Scope, matching};
use crate::template::{Text, quoted, regex, script_text};

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
            "request_header" => self.request_header(directive, scope),
            // Options of the whole site, or of the blocks in it.
            "request_body" | "encode" | "log" => {}
            "tls" if directive.argument(0) == "internal" && directive.inner().is_empty() => {}
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

    /// The options of a site: the size of bodies, compression, logs.
    pub(super) fn options_of_site(&mut self, block: &[Directive]) -> Map<String, Value> {
        let mut options = Map::new();
        let mut http = Map::new();
        let mut logs: Vec<Value> = Vec::new();
        for directive in block {
            match directive.name() {
                "request_body" => self.request_body(directive, &mut http),
                "encode" => drop(http.insert("compression".to_owned(), compression(directive))),
                "log" => logs.extend(self.log(directive)),
                _ => {}
            }
        }
        if !http.is_empty() {
            options.insert("http".to_owned(), http.into());
        }
        match logs.len() {
            0 => {}
            1 => drop(options.insert("access_log".to_owned(), logs.remove(0))),
            _ => drop(options.insert("access_log".to_owned(), logs.into())),
        }
        options
    }

    fn request_body(&mut self, directive: &Directive, http: &mut Map<String, Value>) {
        let is_for_all = directive.arguments().iter().all(|word| word == "*");
        for option in directive.inner() {
            let size = size(option.argument(0));
            match (option.name(), size) {
                ("max_size", Some(size)) if is_for_all => {
                    http.insert("max_body_size".to_owned(), size.into());
                }
                // A limit for some requests is one for all: rather too little.
                ("max_size", Some(size)) => {
                    http.insert("max_body_size".to_owned(), size.into());
                    let problem = "the limit applies to all requests of the site";
                    let hint =
                        "write `max_body_size` into `http` of an action (`docs/http/delivery.md`)";
                    self.findings
                        .lost(&directive.place, "request_body", problem, hint);
                }
                (name, _) => {
                    let hint = "write it into `http` of the action (`docs/http/delivery.md`)";
                    self.findings
                        .lost(&option.place, name, "it is not carried over", hint);
                }
            }
        }
    }

    /// `log`: a file, as lines of JSON with the members of Caddy's that Tutti knows.
    fn log(&mut self, directive: &Directive) -> Option<Value> {
        let named = |name: &str| directive.inner().iter().find(|one| one.name() == name);
        for option in directive.inner() {
            let is_known = matches!(option.name(), "output" | "format" | "level" | "hostnames");
            if !is_known {
                let hint = "see `access_log` in `docs/reference/options.md`";
                self.findings
                    .lost(&option.place, option.name(), "it is not carried over", hint);
            }
        }
        let path = match named("output").map(|output| (output.argument(0), output.argument(1))) {
            Some(("discard", _)) => return None,
            Some(("file", path)) if path.starts_with('/') => path.to_owned(),
            Some(("stdout", _)) => "/dev/stdout".to_owned(),
            None | Some(("stderr", _)) => "/dev/stderr".to_owned(),
            Some((other, _)) => {
                let problem = format!("the output `{other}` is not carried over");
                let hint = "`access_log` takes files with their full path, and syslog servers (`docs/operate/logs.md`)";
                self.findings.lost(&directive.place, "log", &problem, hint);
                return None;
            }
        };
        let format = named("format");
        if format.is_some_and(|format| {
            !matches!(format.argument(0), "json" | "console") || !format.inner().is_empty()
        }) {
            let problem = "lines are written as JSON with Caddy's names";
            let hint = "write `format` into `access_log` (`docs/operate/logs.md`)";
            self.findings.lost(&directive.place, "log", problem, hint);
        } else {
            let problem = "lines have the address, the method, the address of the page, the status, the size and the time, not the fields of requests and responses";
            let hint = "write other members into `format` of `access_log` (`docs/operate/logs.md`)";
            self.findings.note(&directive.place, "log", problem, hint);
        }
        let number = |text: &str| json!({"number": text});
        Some(json!({"path": path, "format": {
            "level": "info", "ts": number("$msec"), "logger": "http.log.access", "msg": "handled request",
            "remote_ip": "$remote_addr", "remote_port": "$remote_port", "proto": "$protocol", "method": "$method",
            "host": "$host", "uri": "$request_uri", "user_id": "$remote_user", "duration": number("$request_time"),
            "size": number("$body_bytes_sent"), "status": number("$status")
        }}))
    }

    /// A field of requests. One that cannot be carried over is removed from those of clients, which must not set it in place of the source's
    /// value; where its name is not known, no server may get it.
    fn request_header(&mut self, directive: &Directive, scope: &mut Scope) {
        let (matcher, words) = matched(directive);
        if let ("*", Some((name, value))) = (matcher, request_field(words)) {
            scope.request_headers.insert(name, value);
            return;
        }
        let bare = words.first().map_or("", |name| bare_name(name));
        let problem = match is_plain(bare) {
            true => {
                scope.request_headers.insert(bare.to_owned(), Value::Null);
                "it is not carried over; the field from clients is removed"
            }
            false => {
                scope.has_unknown_fields = true;
                "it is not carried over: requests for servers and programs get 503 here"
            }
        };
        let hint = "write it in `request_headers` of the action";
        self.findings
            .lost(&directive.place, "request_header", problem, hint);
    }

    pub(super) fn header(&mut self, directive: &Directive, scope: &mut Scope) {
        let mut lines: Vec<Vec<String>> = Vec::new();
        let (matcher, arguments) = matched(directive);
        if !arguments.is_empty() {
            lines.push(arguments.to_vec());
        }
        lines.extend(directive.inner().iter().map(|inner| inner.words.clone()));
        let test = match matcher {
            "*" => Some(None),
            _ => matching::of_token(matcher, &scope.named)
                .and_then(|conditions| matching::as_test(&conditions))
                .map(Some),
        };
        for words in lines {
            let name = words.first().cloned().unwrap_or_default();
            let value = words.get(1).cloned().unwrap_or_default();
            if name == "defer" {
                continue;
            }
            // `>` sets a field after all others: as here.
            let name = name.strip_prefix('>').map(str::to_owned).unwrap_or(name);
            if let Some(test) = &test
                && !name
                    .trim_start_matches(['-', '+', '?'])
                    .eq_ignore_ascii_case("server")
                && let Some((name, value)) =
                    self.changed(directive, &words, &name, test.as_deref(), scope)
            {
                scope.always.insert(name, value);
                continue;
            }
            if name.trim_start_matches('-').eq_ignore_ascii_case("server") && matcher == "*" {
                // A value that another server has is not Tutti's to say.
                scope.always.insert("Server".to_owned(), Value::Null);
                if !name.starts_with('-') {
                    let problem = format!("the field `Server: {value}` is left out of responses");
                    let hint = "see `response_headers` in `docs/reference/options.md`";
                    self.findings
                        .note(&directive.place, "header", &problem, hint);
                }
            } else {
                let hint = "write it in `response_headers` of the action";
                self.findings.lost(
                    &directive.place,
                    "header",
                    &format!(
                        "`{name}` for some responses, or with a variable value, is not carried over"
                    ),
                    hint,
                );
            }
        }
    }

    /// The new value of a field; `None` if it cannot be written.
    pub(super) fn changed(
        &mut self,
        directive: &Directive,
        words: &[String],
        name: &str,
        test: Option<&str>,
        scope: &Scope,
    ) -> Option<(String, Value)> {
        let (verb, bare) = match name.chars().next()? {
            verb @ ('-' | '+' | '?') => (verb, name.get(1..)?),
            _ => ('=', name),
        };
        if bare.is_empty() || bare.contains(['*', '{']) {
            return None;
        }
        let existing = format!(
            "response_header_{}",
            bare.to_ascii_lowercase().replace('-', "_")
        );
        let known = scope
            .always
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(bare));
        // The values of a field that is set twice would have to be combined.
        if known && (verb != '=' || test.is_some()) {
            return None;
        }
        let base = crate::template::script_of(&existing);
        let text = match (verb, words) {
            ('-', [_]) => Text::default(),
            ('=', [_, find, with]) => {
                let expression = regex(find, Case::Exact)?;
                if with.contains(['{', '`', '\\']) {
                    return None;
                }
                script_text(format!("{base}.replace({expression}g, {})", quoted(with)))
            }
            (_, [_, value]) => {
                let value = self.text(value, &directive.place, "header")?;
                match verb {
                    '=' => value,
                    '?' => script_text(format!("{base} !== '' ? {base} : {}", value.expression())),
                    // Cookies are no list.
                    _ if bare.eq_ignore_ascii_case("set-cookie") => return None,
                    _ => {
                        let value = value.expression();
                        script_text(format!("{base} !== '' ? {base} + ', ' + {value} : {value}"))
                    }
                }
            }
            _ => return None,
        };
        let value = match test {
            None if text == Text::default() => Value::Null,
            None => text.template().into(),
            Some(test) => {
                let script = format!("{test} ? {} : {base}", text.expression());
                script_text(script).template().into()
            }
        };
        Some((bare.to_owned(), value))
    }
}

/// `encode`: the encodings that Tutti knows.
fn compression(directive: &Directive) -> Value {
    let known = ["gzip", "zstd", "br"];
    let inner = directive.inner().iter();
    let named = directive
        .arguments()
        .iter()
        .chain(inner.filter_map(|inner| inner.words.first()));
    let named: Vec<&str> = named
        .map(String::as_str)
        .filter(|name| known.contains(name))
        .collect();
    // Without a name, those that Caddy has.
    let named = match named.is_empty() {
        true => vec!["zstd", "gzip"],
        false => named,
    };
    let least = directive
        .inner()
        .iter()
        .find(|one| one.name() == "minimum_length");
    let least: u64 = least
        .and_then(|least| least.argument(0).parse().ok())
        .unwrap_or(512);
    let compressors: Vec<Value> = named
        .into_iter()
        .map(|name| json!({"encoding": name, "min_length": least}))
        .collect();
    json!({"compressors": compressors})
}

/// A size: `10MB` is ten million bytes, `10MiB` some more.
fn size(text: &str) -> Option<u64> {
    let end = text
        .find(|end: char| !end.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The matcher of a directive, `*` if it has none, and its other words.
fn matched(directive: &Directive) -> (&str, &[String]) {
    let arguments = directive.arguments();
    match arguments.split_first() {
        Some((first, rest)) if matching::is_token(first) => (first, rest),
        _ => ("*", arguments),
    }
}

/// The change of a request's field that these words make, without a variable: the name, and its value or null.
pub(super) fn request_field(words: &[String]) -> Option<(String, Value)> {
    match words {
        [name, value] if is_plain(name) && !value.contains('{') => {
            Some((name.clone(), value.as_str().into()))
        }
        [name] => {
            let bare = name.strip_prefix('-')?;
            is_plain(bare).then(|| (bare.to_owned(), Value::Null))
        }
        _ => None,
    }
}

/// A name without the sign for the kind of change.
pub(super) fn bare_name(name: &str) -> &str {
    name.trim_start_matches(['+', '-', '?', '>'])
}

/// True for the name of one field.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && bare_name(name) == name && !name.contains(['*', '{'])
}
