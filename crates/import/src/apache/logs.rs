//! `CustomLog` and `LogFormat`: the access logs of a site.

use std::path::Path;

use serde_json::{Map, Value};

use super::environment::Time;
use super::grammar::Directive;
use super::meaning::Meaning;
use super::site::{Compiler, Site};
use crate::template::{Piece, Text, script_text};

/// The logs of a host, and those of the server around it.
#[derive(Default)]
pub(super) struct Logs {
    pub(super) own: Vec<Value>,
    pub(super) outer: Vec<Value>,
}

/// One log as it is, several as an array.
pub(super) fn one_or_all(mut logs: Vec<Value>) -> Value {
    match logs.len() {
        1 => logs.remove(0),
        _ => logs.into(),
    }
}

fn is_log(directive: &Directive) -> bool {
    directive.is("customlog") || directive.is("transferlog")
}

impl Compiler<'_> {
    /// Reads the logs of a site. A host with logs of its own does not write into those of the server.
    pub(super) fn logs(&mut self, site: &Site, root: Option<&Path>) -> Logs {
        let environment = self.environment_of_host(site, Time::Late);
        let meaning = self.meaning_of(site, environment, Time::Late);
        let mut logs = Logs::default();
        for (directives, list) in [(&site.own, &mut logs.own), (&site.outer, &mut logs.outer)] {
            for directive in directives.iter().filter(|one| is_log(one)) {
                list.extend(self.log(site, directive, root, &meaning));
            }
        }
        logs
    }

    fn log(
        &mut self,
        site: &Site,
        directive: &Directive,
        root: Option<&Path>,
        meaning: &Meaning,
    ) -> Option<Value> {
        let path = directive.argument(0);
        let path = match root {
            Some(root)
                if !path.starts_with(['/', '|', '$', '"']) && !path.starts_with("syslog") =>
            {
                root.join(path).display().to_string()
            }
            _ => path.to_owned(),
        };
        if !path.starts_with('/') || path.contains("${") {
            let hint = "`access_log` takes files with their full path, and syslog servers (`docs/operate/logs.md`)";
            let problem = "a log of this kind is not carried over";
            self.findings
                .lost(&directive.place, &directive.name, problem, hint);
            return None;
        }
        let mut log = Map::from_iter([("path".to_owned(), path.into())]);
        let nickname = match directive.is("transferlog") {
            true => "",
            false => directive.argument(1),
        };
        let named = site.all(&["logformat"]).find(|format| {
            format.arguments.len() == 2 && format.argument(1) == nickname
                || nickname.is_empty() && format.arguments.len() == 1
        });
        let text = named.map_or(nickname, |named| named.argument(0));
        if !(text.is_empty() || text == "combined") {
            match log_format(text, meaning) {
                Ok(text) => drop(log.insert("format".to_owned(), text.template().into())),
                Err(unknown) => {
                    let place = named.unwrap_or(directive);
                    let problem = format!(
                        "there is no equivalent of `{unknown}`: the default format is used"
                    );
                    let hint = "`docs/reference/variables.md` lists the available variables";
                    self.findings
                        .lost(&place.place, &place.name, &problem, hint);
                }
            }
        }
        let condition = directive.argument(2);
        if !condition.is_empty() {
            match self.tested(condition, meaning) {
                Ok(test) => {
                    let test = script_text(format!("{test} ? 1 : ''")).template();
                    log.insert("if".to_owned(), test.into());
                }
                Err(why) => {
                    let problem = format!("{why}: all requests are logged");
                    let hint = "write the condition as `access_log.if`";
                    self.findings
                        .lost(&directive.place, &directive.name, &problem, hint);
                }
            }
        }
        Some(log.into())
    }
}

/// Returns a format of `LogFormat`. The error is the directive that has no counterpart.
fn log_format(format: &str, meaning: &Meaning) -> Result<Text, String> {
    let mut text = Text::default();
    let unescaped = |text: &str| text.replace("\\\"", "\"").replace("\\t", "\t");
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push(&unescaped(before));
        // `%>s`, `%!400,501{User-agent}i`: what chooses is left out, the meaning stays.
        let chooses = |one: char| one.is_ascii_digit() || matches!(one, '!' | ',');
        let after = after
            .trim_start_matches(chooses)
            .trim_start_matches(['>', '<']);
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
        let script = |script: &str| script_text(script.to_owned());
        let field = |prefix: &str, name: &str| {
            plain(&format!(
                "{prefix}_{}",
                name.to_ascii_lowercase().replace('-', "_")
            ))
        };
        let unknown = || match inner {
            Some(inner) => format!("%{{{inner}}}{letter}"),
            None => format!("%{letter}"),
        };
        text.extend(match (letter, inner) {
            ('%', None) => Text::literal("%"),
            ('h' | 'a', None) => plain("remote_addr"),
            ('a', Some("c")) => plain("peer_addr"),
            ('A', None) => plain("server_addr"),
            ('l', None) => Text::literal("-"),
            ('u', None) => plain("remote_user"),
            ('t', None) => {
                let mut time = Text::literal("[");
                time.extend(plain("time_local"));
                time.push("]");
                time
            }
            ('t', Some("sec")) => script("Math.floor(vars.msec)"),
            ('t', Some("msec")) => script("Math.floor(vars.msec * 1000)"),
            ('r', None) => plain("request_line"),
            ('s', None) => plain("status"),
            ('b' | 'B', None) => plain("body_bytes_sent"),
            ('O', None) => plain("bytes_sent"),
            ('v', None) if !meaning.server.is_empty() => Text::literal(meaning.server.clone()),
            ('v' | 'V', None) => plain("host"),
            ('m', None) => plain("method"),
            ('H', None) => plain("protocol"),
            ('U', None) => plain("uri"),
            ('q', None) => script("vars.query ? '?' + vars.query : ''"),
            ('p', None | Some("canonical" | "local")) => plain("server_port"),
            ('p', Some("remote")) => plain("remote_port"),
            ('T', None | Some("s")) => script("Math.floor(vars.request_time)"),
            ('T', Some("ms")) => script("Math.round(vars.request_time * 1000)"),
            ('D', None) | ('T', Some("us")) => script("Math.round(vars.request_time * 1000000)"),
            ('k', None) => script("vars.connection_requests - 1"),
            ('i', Some(name)) => field("header", name),
            ('o', Some(name)) => field("response_header", name),
            ('C', Some(name)) => plain(&format!("cookie_{name}")),
            ('x', Some("SSL_PROTOCOL")) => plain("tls_protocol"),
            ('x', Some("SSL_CIPHER")) => plain("tls_cipher"),
            ('e', Some(name)) => {
                let text = super::expression::text(&format!("%{{ENV:{name}}}"), meaning);
                text.map_err(|_| unknown())?
            }
            _ => return Err(unknown()),
        });
    }
    text.push(&unescaped(rest));
    if text.0.iter().any(|piece| matches!(piece, Piece::Script(_))) {
        // In a script, too, a variable without a value is a hyphen.
        for piece in &mut text.0 {
            if let Piece::Variable(name) = piece {
                *piece = Piece::Script(format!("{} || '-'", crate::template::script_of(name)));
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::section::Mapping;
    use super::*;

    #[test]
    fn formats() {
        let meaning = Meaning {
            mapping: Mapping {
                at: String::new(),
                folder: "/srv".to_owned(),
            },
            environment: BTreeMap::from([("kind".to_owned(), Text::literal("k"))]),
            set_later: BTreeSet::new(),
            unknown: BTreeSet::new(),
            doubts_address: false,
            server: "s.example".to_owned(),
            maps: BTreeMap::new(),
            has_response: true,
        };
        let text = |format| log_format(format, &meaning).map(|text| text.template());
        assert_eq!(text(r#"%h %l %u %t \"%r\" %>s %O \"%{User-Agent}i\""#), Ok("$remote_addr - $remote_user [$time_local] \"$request_line\" $status $bytes_sent \"$header_user_agent\"".to_owned()));
        assert_eq!(text("%P"), Err("%P".to_owned()));
        assert_eq!(
            text("%v:%p %!200,304{Referer}i %{kind}e"),
            Ok("s.example:$server_port $header_referer k".to_owned())
        );
        assert_eq!(text("%{other}e"), Err("%{other}e".to_owned()));
    }
}
