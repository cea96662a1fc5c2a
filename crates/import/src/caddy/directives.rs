//! Single directives of a Caddyfile that answer or lead elsewhere.

use serde_json::{Value, json};

use super::tree::Directive;
use super::{Caddy, Scope, trim};
use crate::output::when;
use crate::template::{Piece, Text};

impl Caddy<'_> {
    /// A directive whose matcher cannot be written: it may deny requests what comes after it, so all of them are refused. True if nothing
    /// comes after it.
    pub(super) fn unmatched(&mut self, directive: &Directive, steps: &mut Vec<Value>) -> bool {
        let name = directive.name();
        let refuses = !super::HARMLESS.contains(name);
        let problem = match refuses {
            true => "its matcher cannot be written as a `match`: requests that reach it get 403",
            false => "its matcher cannot be written as a `match`",
        };
        self.findings.lost(
            &directive.place,
            name,
            problem,
            "write the condition as a script (`docs/http/scripting.md`)",
        );
        if refuses {
            steps.push(json!({"action": {"return": 403}}));
        }
        refuses
    }

    /// `respond` and `error`: a status with a text.
    pub(super) fn respond(
        &mut self,
        directive: &Directive,
        arguments: &[String],
        scope: &Scope,
    ) -> Value {
        let is_status = |word: &String| word.len() == 3 && word.parse::<u16>().is_ok();
        let mut status = scope.error_status();
        let mut text = None;
        match arguments {
            [one] if is_status(one) => status = one.parse().unwrap_or(200).into(),
            [text_of] => text = Some(text_of.clone()),
            [text_of, number, ..] => {
                text = Some(text_of.clone());
                status = number.parse::<u16>().map_or(json!(200), Value::from);
            }
            [] => {}
        }
        for option in directive.inner() {
            match option.name() {
                "body" => text = Some(option.argument(0).to_owned()),
                // The connection is closed after the response.
                "close" => {}
                name => {
                    let hint = "write the text as `body` of the action (`docs/http/delivery.md`)";
                    self.findings
                        .lost(&option.place, name, "it is not carried over", hint);
                }
            }
        }
        let mut action = when("return", status);
        let text = text.filter(|text| !text.is_empty());
        if let Some(text) = text {
            match self.text(&text, &directive.place, directive.name()) {
                Some(text) => {
                    let kind = kind_of(scope).unwrap_or("text/plain; charset=utf-8");
                    action.insert("body".to_owned(), text.template().into());
                    action.insert("content_type".to_owned(), kind.into());
                }
                // It has been reported.
                None => return json!({"return": 403}),
            }
        }
        action.into()
    }

    pub(super) fn handle(&mut self, directive: &Directive, token: &str, scope: &Scope) -> Value {
        let name = directive.name();
        let mut scope = scope.clone();
        scope.is_in_order = name == "route";
        let mut inner = self.steps(directive.inner(), &scope);
        inner.push(json!({"action": {"return": 404}}));
        trim(&mut inner);
        let wanted = format!("{}-{}", self.site, token.trim_matches(['*', '@']));
        let pass = self.out.add_route(&wanted, inner);
        let mut action = when("pass", pass);
        let prefix = token.trim_end_matches('*').trim_end_matches('/');
        if name == "handle_path" && !prefix.is_empty() {
            let mut text = Text::literal("/");
            text.0.push(Piece::Script(format!(
                "uri.slice({}.length)",
                crate::template::quoted(prefix)
            )));
            action.insert("rewrite".to_owned(), text.template().into());
        }
        Value::Object(action)
    }

    /// Makes files of texts say their encoding, as Caddy does.
    pub(super) fn name_texts(&mut self) {
        let texts = json!({"text/html; charset=utf-8": [".html", ".htm"], "text/css; charset=utf-8": ".css", "text/javascript; charset=utf-8": [".js", ".mjs"],
                           "text/plain; charset=utf-8": ".txt"});
        self.out
            .http
            .insert("static".to_owned(), json!({"mime_types": texts}));
    }

    pub(super) fn file_server(
        &mut self,
        directive: &Directive,
        arguments: &[String],
        scope: &Scope,
    ) -> Value {
        self.name_texts();
        let words = || {
            let inner = directive.inner().iter();
            arguments
                .iter()
                .chain(inner.filter_map(|inner| inner.words.first()))
        };
        // A list would show the hidden names.
        let is_listed = words().any(|word| word == "browse") && !words().any(|word| word == "hide");
        for inner in directive.inner() {
            if matches!(
                inner.name(),
                "status" | "pass_thru" | "etag_file_extensions"
            ) {
                self.findings.lost(
                    &directive.place,
                    directive.name(),
                    &format!("`{}` is not carried over", inner.name()),
                    "see `share` in `docs/reference/options.md`",
                );
            }
        }
        let mut scope = scope.clone();
        let named = directive.inner().iter().find(|one| one.name() == "root");
        if let Some(root) = named {
            let path = root.argument(0);
            scope.root = (!path.contains('{')).then(|| path.trim_end_matches('/').to_owned());
        }
        let is_other = directive.inner().iter().any(|one| one.name() == "fs");
        let Some(hidden) = hidden(directive, &scope).filter(|_| !is_other) else {
            let problem = "the files to hide cannot be expressed: requests here get 403";
            let hint = "`deny` of a `share` hides files";
            self.findings
                .lost(&directive.place, directive.name(), problem, hint);
            return json!({"return": 403});
        };
        let share = self.files(&scope, is_listed, hidden, &directive.place);
        self.with_options(directive, share)
    }

    /// `index` and `precompressed` of a `file_server`.
    fn with_options(&mut self, directive: &Directive, mut share: Value) -> Value {
        let named = |name: &str| directive.inner().iter().find(|one| one.name() == name);
        let Some(options) = share
            .as_object_mut()
            .filter(|share| share.contains_key("share"))
        else {
            return share;
        };
        if let Some(index) = named("index") {
            options.insert("index".to_owned(), index.argument(0).into());
            if index.arguments().len() > 1 {
                let hint = "write a `share` with a `fallback` for each of them";
                let problem = "only the first name of an index is looked for";
                self.findings.lost(&index.place, "index", problem, hint);
            }
        }
        if let Some(precompressed) = named("precompressed") {
            let words: Vec<&str> = match precompressed.arguments() {
                [] => vec!["br", "zstd", "gzip"],
                words => words.iter().map(String::as_str).collect(),
            };
            let known: Vec<&str> = words
                .into_iter()
                .filter(|word| ["br", "zstd", "gzip"].contains(word))
                .collect();
            options.insert("precompressed".to_owned(), json!(known));
        }
        share
    }
}

/// The type that the block's fields say.
fn kind_of(scope: &Scope) -> Option<&str> {
    let mut fields = scope.always.iter();
    let (_, kind) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-type"))?;
    kind.as_str().filter(|kind| !kind.contains('$'))
}

/// Returns the patterns of `deny` for a `file_server`: Caddy's own file, wherever that is, and the paths that it hides. `None`: they cannot
/// be written.
pub(super) fn hidden(directive: &Directive, scope: &Scope) -> Option<Vec<String>> {
    let mut patterns = vec!["*/Caddyfile".to_owned()];
    let hides = directive.inner().iter().filter(|one| one.name() == "hide");
    for name in hides.flat_map(|hide| hide.arguments()) {
        let is_plain = !name.contains(['[', '?', '\\', '{', '%']) && !name.is_empty();
        let within = scope
            .root
            .as_ref()
            .and_then(|root| name.strip_prefix(root.as_str()));
        let pattern = match (name.contains('/'), within) {
            _ if !is_plain => return None,
            (false, _) => format!("*/{name}"),
            // `*` in a path is no slash there, and anything here: rather too much is hidden.
            (true, Some(within)) if within.starts_with('/') => within.to_owned(),
            (true, _) => return None,
        };
        let pattern = pattern.trim_end_matches('/');
        patterns.extend([pattern.to_owned(), format!("{pattern}/*")]);
    }
    Some(patterns)
}
