//! `RewriteCond`, and the texts of mod_rewrite with their variables.

use std::collections::{BTreeMap, BTreeSet};

use tutti_config::pattern::Case;

use super::grammar::Directive;
use super::section::Mapping;
use crate::template::{Piece, Text, captures, case, regex, script_text};

/// The meaning of texts at a place.
#[derive(Clone, Debug)]
pub(super) struct Meaning {
    pub(super) mapping: Mapping,
    /// Variables of `E=`.
    pub(super) environment: BTreeMap<String, Text>,
    /// Those that a rule of the list sets; until then, they are empty.
    pub(super) set_later: BTreeSet<String>,
    /// Those that a rule set in a way that cannot be written.
    pub(super) unknown: BTreeSet<String>,
    /// The client's address may differ from the one that the source means.
    pub(super) doubts_address: bool,
    /// The name of the server.
    pub(super) server: String,
    /// Maps of `RewriteMap`, as functions of JavaScript that give a text or null.
    pub(super) maps: BTreeMap<String, String>,
    /// There is a response, whose status and fields may be looked at.
    pub(super) has_response: bool,
}

/// The captures that a text may use, as expressions that give an array or null.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Captures<'c> {
    /// `$1`: those of the rule.
    pub(super) rule: Option<&'c str>,
    /// `%1`: those of the condition before.
    pub(super) condition: Option<&'c str>,
}

impl Meaning {
    /// Reads a text. The error is the variable that is not known.
    pub(super) fn text(&self, source: &str, captures: Captures<'_>) -> Result<Text, String> {
        let mut text = Text::default();
        let mut characters = source.chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek().copied();
            match (character, next) {
                ('\\', Some(escaped)) => {
                    text.push(&escaped.to_string());
                    characters.next();
                }
                ('$' | '%', Some(digit)) if digit.is_ascii_digit() => {
                    characters.next();
                    let groups = if character == '$' {
                        captures.rule
                    } else {
                        captures.condition
                    };
                    let groups = groups.ok_or_else(|| format!("{character}{digit}"))?;
                    text.extend(script_text(format!("({groups} ?? [])[{digit}] ?? ''")));
                }
                ('%', Some('{')) => {
                    characters.next();
                    let name = braced(&mut characters).ok_or_else(|| "%{…".to_owned())?;
                    text.extend(self.variable(&name)?);
                }
                ('$', Some('{')) => {
                    characters.next();
                    let inner = braced(&mut characters).ok_or_else(|| "${…".to_owned())?;
                    text.extend(self.looked_up(&inner, captures)?);
                }
                (other, _) => text.push(&other.to_string()),
            }
        }
        Ok(text)
    }

    /// `${MAP:KEY|DEFAULT}`
    fn looked_up(&self, inner: &str, captures: Captures<'_>) -> Result<Text, String> {
        let (map, key) = inner.split_once(':').unwrap_or((inner, ""));
        let (key, default) = key.split_once('|').unwrap_or((key, ""));
        let unknown = || format!("${{{map}:…}}");
        let function = self.maps.get(map).ok_or_else(unknown)?;
        let key = self.text(key, captures)?.expression();
        let default = self.text(default, captures)?.expression();
        Ok(script_text(format!("({function})({key}) ?? {default}")))
    }

    fn variable(&self, name: &str) -> Result<Text, String> {
        let plain = |name: &str| Ok(Text(vec![Piece::Variable(name.to_owned())]));
        let field = |name: &str| {
            plain(&format!(
                "header_{}",
                name.to_ascii_lowercase().replace('-', "_")
            ))
        };
        if let Some((kind, name)) = name.split_once(':') {
            return match kind.to_ascii_uppercase().as_str() {
                "HTTP" | "REQ" => field(name),
                "RESP" if self.has_response => plain(&format!(
                    "response_header_{}",
                    name.to_ascii_lowercase().replace('-', "_")
                )),
                "ENV" | "REQENV" => self.environment(name),
                "SSL" => match name {
                    "HTTPS" | "SSL_PROTOCOL" | "SSL_CIPHER" | "SSL_TLS_SNI"
                    | "SSL_CLIENT_VERIFY" => self.variable(name),
                    _ => Err(format!("%{{{kind}:{name}}}")),
                },
                "TOLOWER" => {
                    let text = self.variable(name)?;
                    Ok(script_text(format!("{}.toLowerCase()", text.expression())))
                }
                _ => Err(format!("%{{{kind}:{name}}}")),
            };
        }
        match name.to_ascii_uppercase().as_str() {
            "REQUEST_URI" => plain("uri"),
            "REQUEST_FILENAME" | "SCRIPT_FILENAME" => Ok(self.file()),
            "DOCUMENT_ROOT" => Ok(Text::literal(self.mapping.folder.clone())),
            "HTTP_HOST" => field("host"),
            "HTTP_USER_AGENT" => field("user-agent"),
            "HTTP_REFERER" => field("referer"),
            "HTTP_COOKIE" => field("cookie"),
            "HTTP_ACCEPT" => field("accept"),
            "HTTP_FORWARDED" => field("forwarded"),
            "QUERY_STRING" => plain("query"),
            "REQUEST_METHOD" => plain("method"),
            "REQUEST_SCHEME" => Ok(script_text(
                "vars.tls_protocol ? 'https' : 'http'".to_owned(),
            )),
            "HTTPS" => Ok(script_text("vars.tls_protocol ? 'on' : 'off'".to_owned())),
            "REMOTE_ADDR" if !self.doubts_address => plain("remote_addr"),
            "SERVER_NAME" => Ok(if self.server.is_empty() {
                Text(vec![Piece::Variable("host".to_owned())])
            } else {
                Text::literal(self.server.clone())
            }),
            "THE_REQUEST" => plain("request_line"),
            "CONTENT_TYPE" if self.has_response => plain("response_header_content_type"),
            "REQUEST_STATUS" if self.has_response => plain("status"),
            "REMOTE_USER" if self.has_response => plain("remote_user"),
            "SERVER_PORT" => plain("server_port"),
            "SERVER_ADDR" => plain("server_addr"),
            "REMOTE_PORT" => plain("remote_port"),
            "SSL_PROTOCOL" => plain("tls_protocol"),
            "SSL_TLS_SNI" => plain("tls_server_name"),
            "SSL_CLIENT_VERIFY" => plain("tls_client_verify"),
            // A later protocol has another number than that of HTTP/1.
            "SERVER_PROTOCOL" => plain("protocol"),
            "IS_SUBREQ" => Ok(Text::literal("false")),
            "REMOTE_IDENT" => Ok(Text::literal("")),
            other => Err(format!("%{{{other}}}")),
        }
    }

    /// Returns a variable of the environment. No rule has redirected a request that comes here, so that `REDIRECT_…`
    /// are empty; other modules
    /// may have set the rest.
    fn environment(&self, name: &str) -> Result<Text, String> {
        let is_empty = || self.set_later.contains(name) || name.starts_with("REDIRECT_");
        match (self.environment.get(name), name) {
            _ if self.unknown.contains(name) => Err(format!("%{{ENV:{name}}}")),
            (Some(text), _) => Ok(text.clone()),
            (None, "HTTPS") => Ok(script_text("vars.tls_protocol ? 'on' : ''".to_owned())),
            (None, _) if is_empty() => Ok(Text::literal("")),
            (None, _) => Err(format!("%{{ENV:{name}}}")),
        }
    }

    /// Returns the path of the requested file.
    fn file(&self) -> Text {
        let mut text = Text::literal(self.mapping.folder.clone());
        if self.mapping.at.is_empty() {
            text.0.push(Piece::Variable("uri".to_owned()));
        } else {
            text.extend(script_text(format!(
                "(vars.uri ?? '').slice({})",
                self.mapping.at.chars().count()
            )));
        }
        text
    }
}

/// A condition, carried over.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// A test of the requested file.
    Asked { test: char, negated: bool },
    /// A test of another file.
    File {
        path: Text,
        test: char,
        negated: bool,
    },
    /// The protocol.
    Scheme(&'static str),
    /// An expression for the path, and whether it is not to match.
    Path { expression: String, negated: bool },
    /// An expression of JavaScript.
    Test(String),
    /// It always holds, or never.
    Always(bool),
}

/// A condition and its captures.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) condition: Condition,
    pub(super) captures: Option<String>,
    pub(super) or_next: bool,
}

/// Flags in brackets.
pub(super) fn flags(text: &str) -> Vec<(String, String)> {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    let flags = inner
        .split(',')
        .map(str::trim)
        .filter(|flag| !flag.is_empty());
    flags
        .map(|flag| match flag.split_once('=') {
            Some((name, value)) => (name.to_ascii_uppercase(), value.to_owned()),
            None => (flag.to_ascii_uppercase(), String::new()),
        })
        .collect()
}

/// Reads a condition. The error says why it cannot be carried over.
pub(super) fn compile(
    directive: &Directive,
    meaning: &Meaning,
    captured: Captures<'_>,
) -> Result<Compiled, String> {
    let (subject, pattern) = (directive.argument(0), directive.argument(1));
    let flags = flags(directive.argument(2));
    let has = |names: [&str; 2]| flags.iter().any(|(name, _)| names.contains(&name.as_str()));
    let ignore_case = has(["NC", "NOCASE"]);
    let or_next = has(["OR", "ORNEXT"]);
    let (negated, pattern) = match pattern.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, pattern),
    };
    let done = |condition, captures| {
        Ok(Compiled {
            condition,
            captures,
            or_next,
        })
    };
    if subject.eq_ignore_ascii_case("expr") {
        let test = super::expression::condition(pattern, meaning)?;
        let test = if negated { format!("!({test})") } else { test };
        return done(Condition::Test(test), None);
    }
    if let Some(test) = pattern.strip_prefix('-').filter(|test| test.len() == 1) {
        let test = test.chars().next().unwrap_or('f');
        return done(file_test(subject, test, negated, meaning, captured)?, None);
    }
    if let Some((comparison, number)) = number(pattern) {
        let text = meaning
            .text(subject, captured)
            .map_err(|unknown| format!("there is no equivalent of `{unknown}`"))?;
        let test = format!(
            "(parseInt({}) || 0) {comparison} {number}",
            text.expression()
        );
        let test = if negated { format!("!({test})") } else { test };
        return done(Condition::Test(test), None);
    }
    if subject.eq_ignore_ascii_case("%{HTTPS}") {
        let is_on = matches!(pattern, "=on" | "on" | "^on$" | "^on" | "on$");
        let is_off = matches!(pattern, "=off" | "off" | "^off$" | "^off" | "off$");
        if is_on || is_off {
            return done(
                Condition::Scheme(if is_on != negated { "https" } else { "http" }),
                None,
            );
        }
    }
    let text = meaning
        .text(subject, captured)
        .map_err(|unknown| format!("there is no equivalent of `{unknown}`"))?;
    let not = |test: String| if negated { format!("!({test})") } else { test };
    if let Some((comparison, value)) = ["<=", ">=", "<", ">"]
        .iter()
        .find_map(|one| Some((one, pattern.strip_prefix(one)?)))
    {
        let value = crate::template::quoted(value.trim_matches('"'));
        let test = format!("{} {comparison} {value}", text.expression());
        return done(Condition::Test(not(test)), None);
    }
    if let Some(value) = pattern.strip_prefix('=') {
        let value = value.trim_matches('"');
        if let Some(known) = text.as_literal() {
            let same = if ignore_case {
                known.eq_ignore_ascii_case(value)
            } else {
                known == value
            };
            return done(Condition::Always(same != negated), None);
        }
        let test = format!(
            "{} === {}",
            text.expression(),
            crate::template::quoted(value)
        );
        return done(Condition::Test(not(test)), None);
    }
    let unwritable = || format!("`{pattern}` cannot be written in JavaScript");
    let captures = captures(pattern, case(ignore_case), &text).ok_or_else(unwritable)?;
    let is_path = text == Text(vec![Piece::Variable("uri".to_owned())]);
    if is_path {
        let expression = anchored("", pattern, case(ignore_case)).ok_or_else(unwritable)?;
        return done(
            Condition::Path {
                expression,
                negated,
            },
            Some(captures),
        );
    }
    let expression = regex(pattern, case(ignore_case)).ok_or_else(unwritable)?;
    let test = format!("{expression}.test({})", text.expression());
    done(Condition::Test(not(test)), Some(captures))
}

fn file_test(
    subject: &str,
    test: char,
    negated: bool,
    meaning: &Meaning,
    captured: Captures<'_>,
) -> Result<Condition, String> {
    // A link is served as the file that it leads to.
    let test = match test {
        'f' | 'F' | 's' | 'U' | 'x' => 'f',
        'd' => 'd',
        'e' => 'e',
        'l' | 'h' | 'L' => 'l',
        other => return Err(format!("`-{other}` is not a file test")),
    };
    let asked = [
        "%{REQUEST_FILENAME}",
        "%{SCRIPT_FILENAME}",
        "%{DOCUMENT_ROOT}%{REQUEST_URI}",
        "%{DOCUMENT_ROOT}/%{REQUEST_URI}",
        // In a server, the name of the file is still the path.
        "%{DOCUMENT_ROOT}%{REQUEST_FILENAME}",
        "%{DOCUMENT_ROOT}/%{REQUEST_FILENAME}",
    ];
    if asked.contains(&subject.to_ascii_uppercase().as_str()) {
        return Ok(Condition::Asked { test, negated });
    }
    if test == 'l' {
        return Err("`-l` of a path other than the requested one".to_owned());
    }
    let path = meaning
        .text(subject, captured)
        .map_err(|unknown| format!("there is no equivalent of `{unknown}`"))?;
    Ok(Condition::File {
        path,
        test,
        negated,
    })
}

/// The inside of braces.
fn braced(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let mut inner = String::new();
    let mut depth = 0_usize;
    loop {
        match characters.next()? {
            '}' if depth == 0 => return Some(inner),
            letter => {
                match letter {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                inner.push(letter);
            }
        }
    }
}

/// `-gt5` and its kin: the operator of JavaScript, and the number.
fn number(pattern: &str) -> Option<(&'static str, i64)> {
    let operators = [
        ("-eq", "==="),
        ("-ne", "!=="),
        ("-lt", "<"),
        ("-le", "<="),
        ("-gt", ">"),
        ("-ge", ">="),
    ];
    operators.iter().find_map(|(name, operator)| {
        let number = pattern.strip_prefix(name)?.trim().parse().ok()?;
        Some((*operator, number))
    })
}

/// An expression that is looked for in what follows `base` and a slash (in the whole path, where `base` is `""` and no folder's), so that it
/// begins where a path begins. Its groups keep their numbers.
pub(super) fn anchored(base: &str, source: &str, case: Case) -> Option<String> {
    let mut parts = Vec::new();
    for one in super::section::alternatives_of(source) {
        let (begins, body) = match one.strip_prefix('^') {
            Some(body) => (true, body),
            None => (false, one),
        };
        // An anchor in a group means the beginning of the rest.
        let mut before = ' ';
        let mut whole = String::new();
        for character in body.chars() {
            match character {
                '^' if !matches!(before, '[' | '\\') && !base.is_empty() => {
                    whole.push_str(&format!("(?<=^{})", crate::template::escaped(base)));
                }
                other => whole.push(other),
            }
            before = character;
        }
        parts.push(if begins { whole } else { format!(".*?{whole}") });
    }
    let body = match parts.as_slice() {
        [only] => only.clone(),
        _ => format!("(?:{})", parts.join("|")),
    };
    let body = if case == Case::Ignore {
        format!("(?i:{body})")
    } else {
        body
    };
    Some(format!("{}{body}", crate::template::escaped(base)))
}

/// True for an expression that every path has.
pub(super) fn is_everything(source: &str) -> bool {
    matches!(
        source,
        "" | "^" | ".*" | "^.*" | "^.*$" | ".*$" | "(.*)" | "^(.*)" | "^(.*)$" | "(.*)$" | "$"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_a_folder_become_those_of_a_path() {
        for (base, source, expected) in [
            ("/", r"^index\.php$", Some(r"/index\.php$")),
            ("/blog/", "a|^b", Some("/blog/(?:.*?a|b)")),
            ("/", "(^a|b)", Some("/.*?((?<=^/)a|b)")),
            ("", r"(^|/)\.", Some(r".*?(^|/)\.")),
            ("", "^/x", Some("/x")),
            ("/", "[^/]+", Some("/.*?[^/]+")),
        ] {
            assert_eq!(
                anchored(base, source, Case::Exact).as_deref(),
                expected,
                "{base} {source}"
            );
        }
    }
}
