//! Settings of listeners and actions for the requests that pass through them.

use tutti_document::{Diagnostic, Value};
use tutti_options::table::Opt;

use super::builder::Builder;
use super::reader::{Reader, each};
use crate::model::{AccessLog, HttpLevel, Replacement, Scope};
use crate::table::{CASELESS, ReplacementOptions, ScopeOptions};
use crate::template::Template;

impl<'d> Builder<'d> {
    /// Builds the settings of a listener or an action, whose row for `http` is given. Returns their number in
    /// [`Config::scopes`](crate::Config::scopes); `None`: there are none.
    pub(super) fn scope(&mut self, reader: &Reader<'d>, http: &Opt) -> Option<usize> {
        let options: ScopeOptions = reader.read();
        let http = match reader.inner(http) {
            Some(http) => self.http_level(&http),
            None => HttpLevel::default(),
        };
        let scope = Scope {
            pointer: reader.pointer.clone(),
            http,
            access_logs: self.own_access_logs(reader),
            maintenance: self.maintenance(reader, &ScopeOptions::maintenance),
            charset: self.text_or_none(reader, &ScopeOptions::charset, charset_fault),
            charset_types: reader.patterns(&ScopeOptions::charset_types, CASELESS),
            default_type: self.text_or_none(reader, &ScopeOptions::default_type, type_fault),
            mime_types: reader
                .get(&ScopeOptions::mime_types)
                .map(|given| self.mime_types(Some(given))),
            limit_rate: options.limit_rate,
            limit_rate_after: options.limit_rate_after,
            trailers: Self::trailers(reader),
            replace: self.replacements(reader),
            replace_types: reader.patterns(&ScopeOptions::replace_types, CASELESS),
        };
        if scope.is_empty() {
            return None;
        }
        self.scopes.push(scope);
        Some(self.scopes.len() - 1)
    }

    fn own_access_logs(&mut self, reader: &Reader<'d>) -> Option<Vec<AccessLog>> {
        let (node, pointer) = reader.get(&ScopeOptions::access_log)?;
        if let Value::Bool(is_on) = node.value {
            if is_on {
                let diagnostic = Diagnostic::new(pointer, "`true` does not name a log");
                let hint = "write the path of a file; or remove the option, to use the outer logs";
                self.faults.value(diagnostic.suggest(hint), node);
            }
            return Some(Vec::new());
        }
        let logs = each(node, &pointer).into_iter();
        Some(
            logs.filter_map(|(node, pointer)| self.access_log(node, pointer))
                .collect(),
        )
    }

    /// Builds a text, which must have no fault; `false` is the empty one.
    fn text_or_none(
        &mut self,
        reader: &Reader<'d>,
        option: &Opt,
        fault: fn(&str) -> Option<&'static str>,
    ) -> Option<String> {
        let (node, pointer) = reader.get(option)?;
        match &node.value {
            Value::Bool(false) => Some(String::new()),
            Value::Bool(true) => {
                self.wrong(node, pointer, "`true` has no meaning here");
                None
            }
            _ => {
                let text = node.as_str()?;
                if let Some(fault) = fault(text) {
                    self.wrong(node, pointer, fault);
                }
                Some(text.to_owned())
            }
        }
    }

    fn trailers(reader: &Reader<'d>) -> Option<Vec<(String, Template)>> {
        let (node, _) = reader.get(&ScopeOptions::trailers)?;
        let mut trailers = Vec::new();
        for member in node.members() {
            let template = member.node.as_str().map(Template::parse);
            if let Some(Ok(template)) = template {
                trailers.push((member.name.to_string(), template));
            }
        }
        Some(trailers)
    }

    fn replacements(&mut self, reader: &Reader<'d>) -> Option<Vec<Replacement>> {
        let (node, pointer) = reader.get(&ScopeOptions::replace)?;
        let mut replacements = Vec::new();
        for (node, pointer) in each(node, &pointer) {
            let reader = Reader::new(node, pointer);
            let options: ReplacementOptions = reader.read();
            if options.find.len() > LONGEST_FIND
                && let Some((node, pointer)) = reader.get(&ReplacementOptions::find)
            {
                let message = format!("the text is longer than {LONGEST_FIND} bytes");
                self.wrong(node, pointer, message);
            }
            if let Some(with) = reader.template(&ReplacementOptions::with)
                && !options.find.is_empty()
            {
                replacements.push(Replacement { with, options });
            }
        }
        Some(replacements)
    }
}

/// Longest text that is replaced: as many bytes of a response are kept back until it is clear whether it has the text.
const LONGEST_FIND: usize = 1024;

fn charset_fault(text: &str) -> Option<&'static str> {
    // RFC 9110 §8.3.2: a token.
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (!text.bytes().all(is_letter))
        .then_some("this is not the name of a character encoding, such as `utf-8`")
}

fn type_fault(text: &str) -> Option<&'static str> {
    let has_parts = text
        .split_once('/')
        .is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
    let is_text = text
        .bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic());
    (!has_parts || !is_text).then_some("this is not a MIME type, such as `text/html`")
}
