//! Settings of the whole server: limits, times, types.

use std::collections::BTreeMap;

use serde_json::json;

use super::grammar::Directive;
use super::site::Compiler;
use crate::mime;

impl Compiler<'_> {
    /// Settings that Apache has for each host or folder, and Tutti for all.
    pub(super) fn settings(&mut self, all: &[&Directive]) {
        let last = |key: &str| {
            all.iter()
                .rev()
                .find(|directive| directive.is(key))
                .copied()
        };
        let number =
            |key: &str| last(key).and_then(|directive| directive.argument(0).parse::<u64>().ok());
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
        // Tutti accepts those between two names unless they are refused in so many words.
        if last("allowencodedslashes").is_some_and(|slashes| slashes.word(0) == "off") {
            self.out
                .http
                .insert("encoded_slashes".to_owned(), "none".into());
        }
        // A line and a field have one buffer here.
        let head = number("limitrequestline").max(number("limitrequestfieldsize"));
        if let Some(size) = head.filter(|size| *size > 0) {
            let option = "large_header_buffer_size";
            self.out.http.insert(option.to_owned(), size.into());
        }
        self.types(all);
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
        for directive in all.iter().filter(|one| one.is("addcharset")) {
            for ending in directive.arguments.iter().skip(1) {
                let ending = ending.trim_start_matches('.').to_ascii_lowercase();
                let kind = types
                    .get(&ending)
                    .cloned()
                    .or_else(|| mime::built_in(&ending));
                let Some(kind) = kind else {
                    continue;
                };
                let kind = kind.split(';').next().unwrap_or_default();
                let named = format!(
                    "{kind}; charset={}",
                    directive.argument(0).to_ascii_lowercase()
                );
                types.insert(ending, named);
            }
        }
        let differences = mime::differences(&types);
        if !differences.is_empty() {
            self.out
                .http
                .insert("static".to_owned(), json!({"mime_types": differences}));
        }
    }
}
