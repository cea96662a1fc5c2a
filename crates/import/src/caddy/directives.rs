//! Single directives of a Caddyfile that answer or lead elsewhere.

use serde_json::{Value, json};

use super::tree::Directive;
use super::{Caddy, Scope, trim};
use crate::output::when;
use crate::template::{Piece, Text};

impl Caddy<'_> {
    /// A directive whose matcher cannot be written: it may deny requests what comes after it, so all of them are
    /// refused. True if
    /// nothing comes after it.
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

    pub(super) fn respond(&mut self, directive: &Directive, arguments: &[String]) -> Value {
        let status = arguments
            .iter()
            .find_map(|argument| argument.parse::<u16>().ok())
            .unwrap_or(200);
        if arguments.len() > 1
            || arguments
                .first()
                .map_or("", String::as_str)
                .parse::<u16>()
                .is_err()
        {
            self.findings.lost(
                &directive.place,
                directive.name(),
                "the status is carried over, but not its text",
                "write the text as `body` of the action (`docs/http/delivery.md`)",
            );
        }
        json!({"return": status})
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

    pub(super) fn file_server(
        &mut self,
        directive: &Directive,
        arguments: &[String],
        scope: &Scope,
    ) -> Value {
        // Caddy names the encoding of texts.
        let texts = json!({"text/html; charset=utf-8": [".html", ".htm"], "text/css; charset=utf-8": ".css", "text/javascript; charset=utf-8": [".js", ".mjs"],
                           "text/plain; charset=utf-8": ".txt"});
        self.out
            .http
            .insert("static".to_owned(), json!({"mime_types": texts}));
        let words = || {
            let inner = directive.inner().iter();
            arguments
                .iter()
                .chain(inner.filter_map(|inner| inner.words.first()))
        };
        // A list would show the hidden names.
        let is_listed = words().any(|word| word == "browse") && !words().any(|word| word == "hide");
        if let Some(browse) = arguments
            .iter()
            .chain(
                directive
                    .inner()
                    .iter()
                    .filter_map(|inner| inner.words.first()),
            )
            .find(|word| {
                matches!(
                    word.as_str(),
                    "precompressed" | "status" | "index" | "pass_thru"
                )
            })
        {
            self.findings.lost(
                &directive.place,
                directive.name(),
                &format!("`{browse}` is not carried over"),
                "folders without an index are 404",
            );
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
        self.files(&scope, is_listed, hidden, &directive.place)
    }
}

/// Returns the patterns of `deny` for a `file_server`: Caddy's own file, wherever that is, and the paths that it hides.
/// `None`: they cannot be
/// written.
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
