//! Settings of the whole server: limits, times, compression, types, the access log.

use std::collections::BTreeMap;

use serde_json::{Map, json};

use super::grammar::Directive;
use super::site::{Compiler, Site};
use crate::mime;
use crate::template::{Piece, Text};

/// `LimitRequestBody 0` is any size; no disk holds more than this.
const ANY_SIZE: u64 = 1 << 50;

/// Apache's own limit, since 2.4.53.
const LARGEST_BODY: u64 = 1 << 30;

impl Compiler<'_> {
    /// Settings that Apache has for each host or folder, and Tutti for all.
    pub(super) fn settings(&mut self, all: &[&Directive], sites: &[&Site]) {
        let last = |key: &str| {
            all.iter()
                .rev()
                .find(|directive| directive.is(key))
                .copied()
        };
        let number =
            |key: &str| last(key).and_then(|directive| directive.argument(0).parse::<u64>().ok());
        let mut largest = LARGEST_BODY;
        for limit in all
            .iter()
            .filter(|directive| directive.is("limitrequestbody"))
        {
            let size = limit.argument(0).parse::<u64>().unwrap_or(LARGEST_BODY);
            let size = if size == 0 { ANY_SIZE } else { size };
            if largest != LARGEST_BODY && size != largest {
                self.for_all(limit, "the largest value applies everywhere");
            }
            largest = if largest == LARGEST_BODY {
                size
            } else {
                largest.max(size)
            };
        }
        self.out
            .http
            .insert("max_body_size".to_owned(), largest.into());
        // `Timeout` bounds every wait for a client.
        if let Some(timeout) = number("timeout").filter(|timeout| *timeout > 0) {
            for option in ["body_read_timeout", "send_timeout"] {
                self.out.http.insert(option.to_owned(), timeout.into());
            }
        }
        match (last("keepalive"), last("keepalivetimeout")) {
            (Some(keep), _) if !keep.is_on() => {
                drop(self.out.http.insert("idle_timeout".to_owned(), 1.into()))
            }
            (_, timeout) => {
                let seconds = timeout
                    .and_then(|timeout| crate::units::whole_seconds(timeout.argument(0)))
                    .unwrap_or(5);
                self.out
                    .http
                    .insert("idle_timeout".to_owned(), seconds.max(1).into());
            }
        }
        if let Some(tokens) = last("servertokens") {
            self.out.http.insert(
                "server_version".to_owned(),
                (!matches!(tokens.word(0).as_str(), "prod" | "productonly")).into(),
            );
        }
        self.types(all);
        self.compression(all);
        self.access_log(all, sites);
    }

    fn for_all(&mut self, directive: &Directive, what: &str) {
        let hint = "`settings.http` applies to the whole server; a listener or an action may have its own `http` (`docs/http/delivery.md`)";
        self.findings
            .lost(&directive.place, &directive.name, what, hint);
    }

    fn types(&mut self, all: &[&Directive]) {
        let mut types: BTreeMap<String, String> = BTreeMap::new();
        for directive in all.iter().filter(|directive| {
            directive.is("addtype") && !directive.argument(0).starts_with("application/x-httpd-php")
        }) {
            for ending in directive.arguments.iter().skip(1) {
                types.insert(
                    ending.trim_start_matches('.').to_owned(),
                    directive.argument(0).to_owned(),
                );
            }
        }
        let differences = mime::differences(&types);
        if !differences.is_empty() {
            self.out
                .http
                .insert("static".to_owned(), json!({"mime_types": differences}));
        }
        for charset in all
            .iter()
            .filter(|directive| directive.is("adddefaultcharset") && directive.word(0) != "off")
        {
            let hint = "write `charset` into the listener or the action (`docs/http/delivery.md`)";
            self.findings.lost(
                &charset.place,
                &charset.name,
                "responses get no charset",
                hint,
            );
        }
    }

    fn compression(&mut self, all: &[&Directive]) {
        let mut types: Vec<String> = Vec::new();
        let mut encodings: Vec<&str> = Vec::new();
        for directive in all
            .iter()
            .filter(|directive| directive.is("addoutputfilterbytype"))
        {
            for filter in directive.argument(0).split(';') {
                let encoding = match filter.to_ascii_uppercase().as_str() {
                    "DEFLATE" => "gzip",
                    "BROTLI_COMPRESS" => "br",
                    _ => continue,
                };
                if !encodings.contains(&encoding) {
                    encodings.push(encoding);
                }
                for kind in directive
                    .arguments
                    .iter()
                    .skip(1)
                    .filter(|kind| !kind.is_empty())
                {
                    if !types.contains(kind) {
                        types.push(kind.clone());
                    }
                }
            }
        }
        let all_kinds = all.iter().find(|directive| {
            directive.is("setoutputfilter") && directive.argument(0).eq_ignore_ascii_case("deflate")
        });
        if let (Some(_), true) = (all_kinds, encodings.is_empty()) {
            encodings.push("gzip");
        }
        if encodings.is_empty() {
            return;
        }
        let level = all
            .iter()
            .rev()
            .find(|directive| directive.is("deflatecompressionlevel"))
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
        self.out
            .http
            .insert("compression".to_owned(), compression.into());
    }

    fn access_log(&mut self, all: &[&Directive], sites: &[&Site]) {
        let mut formats: BTreeMap<&str, &Directive> = BTreeMap::new();
        for format in all
            .iter()
            .filter(|directive| directive.is("logformat") && directive.arguments.len() == 2)
        {
            formats.insert(format.argument(1), format);
        }
        // A host with a log of its own does not write into the server's.
        let logs = |directives: &[Directive]| {
            directives
                .iter()
                .filter(|directive| directive.is("customlog") || directive.is("transferlog"))
                .cloned()
                .collect::<Vec<_>>()
        };
        let own: Vec<Directive> = sites.iter().flat_map(|site| logs(&site.own)).collect();
        let outer: Vec<Directive> = sites
            .first()
            .map(|site| logs(&site.outer))
            .unwrap_or_default();
        let (chosen, others) = if own.is_empty() {
            (outer, Vec::new())
        } else {
            (own, outer)
        };
        let Some(first) = chosen.first() else {
            return;
        };
        let path = first.argument(0);
        if path.starts_with('|')
            || path.starts_with("syslog")
            || path.contains("${")
            || !path.starts_with('/')
        {
            let hint = "`access_log` takes files with their full path, and syslog servers (`docs/operate/logs.md`)";
            self.findings.lost(
                &first.place,
                &first.name,
                "a log of this kind is not carried over",
                hint,
            );
            return;
        }
        let mut log = Map::from_iter([("path".to_owned(), path.into())]);
        let format = first.argument(1);
        let named = formats.get(format).copied();
        let text = named.map_or(format, |named| named.argument(0));
        if !(text.is_empty() || matches!(format, "combined")) {
            let port = sites.first().map(|_| "");
            match log_format(text, port.unwrap_or_default()) {
                Ok(text) => drop(log.insert("format".to_owned(), text.template().into())),
                Err(unknown) => {
                    let place = named.unwrap_or(first);
                    let problem = format!(
                        "there is no equivalent of `{unknown}`: the default format is used"
                    );
                    self.findings.lost(
                        &place.place,
                        &place.name,
                        &problem,
                        "`docs/reference/variables.md` lists the available variables",
                    );
                }
            }
        }
        if !first.argument(2).is_empty() {
            self.findings.lost(
                &first.place,
                &first.name,
                &format!("`{}` is not carried over", first.argument(2)),
                "write it as `access_log.if`",
            );
        }
        self.out.access_log = Some(log.into());
        for other in chosen
            .iter()
            .skip(1)
            .chain(&others)
            .filter(|other| other.arguments != first.arguments)
        {
            let hint =
                "`access_log` can be an array, each log with its `if` (`docs/operate/logs.md`)";
            self.findings.note(
                &other.place,
                &other.name,
                "only the first log is carried over, with all requests",
                hint,
            );
        }
    }
}

/// Returns a format of `LogFormat`. The error is the directive that has no counterpart.
fn log_format(format: &str, port: &str) -> Result<Text, String> {
    let mut text = Text::default();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push(&before.replace("\\\"", "\"").replace("\\t", "\t"));
        // `%>s`, `%!400,501{User-agent}i`: what chooses is left out, the meaning stays.
        let after = after.trim_start_matches(['>', '<']);
        let (inner, after) = match after
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
        {
            Some((inner, after)) => (Some(inner), after),
            None => (None, after),
        };
        let letter = after.chars().next().ok_or_else(|| "%".to_owned())?;
        rest = after.get(letter.len_utf8()..).unwrap_or_default();
        let plain = |name: &str| Text(vec![Piece::Variable(name.to_owned())]);
        let field = |prefix: &str, name: &str| {
            plain(&format!(
                "{prefix}_{}",
                name.to_ascii_lowercase().replace('-', "_")
            ))
        };
        text.extend(match (letter, inner) {
            ('%', None) => Text::literal("%"),
            ('h' | 'a', None) => plain("remote_addr"),
            ('l' | 'u', None) => Text::literal("-"),
            ('t', None) => {
                let mut time = Text::literal("[");
                time.extend(plain("time_local"));
                time.push("]");
                time
            }
            ('r', None) => plain("request_line"),
            ('s', None) => plain("status"),
            ('b' | 'B' | 'O', None) => plain("body_bytes_sent"),
            ('v' | 'V', None) => plain("host"),
            ('m', None) => plain("method"),
            ('U', None) => plain("uri"),
            ('p', None) => Text::literal(if port.is_empty() { "-" } else { port }),
            ('T', None | Some("s")) => plain("request_time"),
            ('i', Some(name)) => field("header", name),
            ('o', Some(name)) => field("response_header", name),
            ('C', Some(name)) => plain(&format!("cookie_{name}")),
            (letter, Some(inner)) => return Err(format!("%{{{inner}}}{letter}")),
            (letter, None) => return Err(format!("%{letter}")),
        });
    }
    text.push(&rest.replace("\\\"", "\""));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let text = |format| log_format(format, "80").map(|text| text.template());
        assert_eq!(text(r#"%h %l %u %t \"%r\" %>s %O \"%{User-Agent}i\""#), Ok("$remote_addr - - [$time_local] \"$request_line\" $status $body_bytes_sent \"$header_user_agent\"".to_owned()));
        assert_eq!(text("%D"), Err("%D".to_owned()));
        assert_eq!(text("%v:%p"), Ok("$host:80".to_owned()));
    }
}
