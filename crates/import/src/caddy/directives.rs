//! Single directives of a Caddyfile that answer or lead elsewhere.

use serde_json::{Value, json};

use super::tree::Directive;
use super::{Caddy, Scope, trim};
use crate::output::when;
use crate::template::{Piece, Text};

impl Caddy<'_> {
    /// A directive whose matcher cannot be written: what protects something refuses everybody then. True if nothing comes after it.
    pub(super) fn unmatched(
        &mut self,
        directive: &Directive,
        arguments: &[String],
        steps: &mut Vec<Value>,
    ) -> bool {
        let name = directive.name();
        let refuses = matches!(name, "basicauth" | "basic_auth" | "forward_auth")
            || (name == "respond" && arguments.iter().any(|argument| argument.starts_with('4')));
        let problem = if refuses {
            "its matcher cannot be written as a `match`: everybody is refused"
        } else {
            "its matcher cannot be written as a `match`"
        };
        self.findings.lost(
            &directive.place,
            name,
            problem,
            "write the condition as a script (`docs/scripting.md`)",
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
                "the status is carried over, its text is not",
                "put the text into a file, and `share` that",
            );
        }
        json!({"return": status})
    }

    pub(super) fn handle(&mut self, directive: &Directive, token: &str, scope: &Scope) -> Value {
        let name = directive.name();
        let mut inner = self.steps(directive.inner(), scope);
        if name == "route" {
            self.findings.note(
                &directive.place,
                name,
                "directives in it act in Caddy's usual order",
                "look at their order in what came out",
            );
        }
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
        // A list would have the hidden names.
        let is_listed = words().any(|word| word == "browse") && !words().any(|word| word == "hide");
        if let Some(browse) = arguments
            .iter()
            .chain(
                directive
                    .inner()
                    .iter()
                    .filter_map(|inner| inner.words.first()),
            )
            .find(|word| matches!(word.as_str(), "hide" | "precompressed" | "status" | "index"))
        {
            self.findings.lost(
                &directive.place,
                directive.name(),
                &format!("`{browse}` is not carried over"),
                "`deny` of a `share` hides files; folders without an index are 404",
            );
        }
        self.files(scope, is_listed, &directive.place)
    }
}
