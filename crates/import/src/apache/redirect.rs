//! `Redirect` and its kin.

use serde_json::{Value, json};
use tutti_config::pattern::Case;

use super::grammar::Directive;
use super::section::Where;
use super::site::{Compiler, Spot};
use crate::output::{step, when};
use crate::template::{Piece, Text, captures, quoted};

/// Their names.
pub(super) const NAMES: &[&str] = &[
    "redirect",
    "redirectmatch",
    "redirectpermanent",
    "redirecttemp",
];

/// Returns a step that refuses the requests which a redirect would have led away.
fn refused(place: &Where) -> Value {
    step(place.conditions(), json!({"return": 403}))
}

/// The status of a redirect, and the words behind it.
fn status(directive: &Directive) -> (u16, &[String]) {
    let words = directive.arguments.as_slice();
    let first = directive.word(0);
    let named = match (directive.key.as_str(), first.as_str()) {
        ("redirectpermanent", _) => return (301, words),
        ("redirecttemp", _) => return (302, words),
        (_, "permanent") => Some(301),
        (_, "temp") => Some(302),
        (_, "seeother") => Some(303),
        (_, "gone") => Some(410),
        (_, number) => number.parse().ok(),
    };
    match named {
        Some(status) => (status, words.get(1..).unwrap_or_default()),
        None => (302, words),
    }
}

impl Compiler<'_> {
    /// The step of a redirect, for requests that are there, too.
    pub(super) fn redirect(
        &mut self,
        directive: &Directive,
        around: &Where,
        spot: Option<&Spot>,
    ) -> Option<Value> {
        let (status, words) = status(directive);
        if let Some(spot) = spot
            && words.len() < 2
            && words.is_empty() != (300..400).contains(&status)
        {
            return Some(self.whole_place(directive, status, words.first(), around, spot));
        }
        let (from, to) = match words {
            [from, to] => (from.as_str(), to.as_str()),
            [from] if !(300..400).contains(&status) => (from.as_str(), ""),
            _ => {
                let hint =
                    "write the path and the address: `Redirect /old https://site.example/new`";
                self.findings.lost(
                    &directive.place,
                    &directive.name,
                    "a redirect without its own path is not carried over: requests here get 403",
                    hint,
                );
                return Some(refused(around));
            }
        };
        let mut place = around.clone();
        let mut location = Text::default();
        let uri = Text(vec![Piece::Variable("uri".to_owned())]);
        if directive.is("redirectmatch") {
            if !self.is_pattern(&format!("~{from}"), directive) {
                // The paths that it redirects or refuses are not known.
                return Some(refused(around));
            }
            place.found(from);
            let mut rest = to;
            while let Some((before, after)) = rest.split_once('$') {
                location.push(before);
                let digit = after.chars().next().filter(char::is_ascii_digit);
                let groups = captures(from, Case::Exact, &uri);
                match (digit, groups) {
                    (Some(digit), Some(groups)) => {
                        location
                            .0
                            .push(Piece::Script(format!("({groups} ?? [])[{digit}] ?? ''")));
                        rest = after.get(1..).unwrap_or_default();
                    }
                    (Some(_), None) => {
                        let hint = "write the expression without PCRE-only syntax";
                        self.findings.lost(
                            &directive.place,
                            &directive.name,
                            &format!("`{from}` cannot be written in JavaScript: its paths get 403"),
                            hint,
                        );
                        return Some(refused(&place));
                    }
                    _ => {
                        location.push("$");
                        rest = after;
                    }
                }
            }
            location.push(rest);
        } else {
            place.path(from);
            location.push(to);
            let bare = from.trim_end_matches('/');
            let cut = if from.ends_with('/') { from } else { bare };
            location.0.push(Piece::Script(format!(
                "(vars.uri ?? '').slice({}.length)",
                quoted(cut)
            )));
        }
        let mut action = when("return", status);
        if (300..400).contains(&status) {
            if !to.contains('?') {
                location.0.push(Piece::Script(
                    "vars.query ? '?' + vars.query : ''".to_owned(),
                ));
            }
            action.insert("location".to_owned(), location.template().into());
        }
        let action = match spot {
            Some(spot) => self.finish(spot, action),
            None => json!(action),
        };
        Some(step(place.conditions(), action))
    }

    /// The step of a redirect that says no path: all requests of its place lead to one address.
    fn whole_place(
        &mut self,
        directive: &Directive,
        status: u16,
        to: Option<&String>,
        around: &Where,
        spot: &Spot,
    ) -> Value {
        let mut action = when("return", status);
        if let Some(to) = to {
            let meaning = self.meaning(spot);
            match super::expression::text(to, &meaning) {
                Ok(text) => drop(action.insert("location".to_owned(), text.template().into())),
                Err(why) => {
                    let problem = format!("{why}: requests here get 403");
                    let hint = "write the address without variables";
                    self.findings
                        .lost(&directive.place, &directive.name, &problem, hint);
                    return refused(around);
                }
            }
        }
        let action = self.finish(spot, action);
        step(around.conditions(), action)
    }

    /// True if Tutti can compile a pattern; reports it else.
    pub(super) fn is_pattern(&mut self, pattern: &str, directive: &Directive) -> bool {
        match tutti_config::pattern::Pattern::parse(pattern, tutti_config::table::DECODED) {
            Ok(_) => true,
            Err(error) => {
                self.findings.lost(
                    &directive.place,
                    &directive.name,
                    &error.to_string(),
                    "write the expression in another way",
                );
                false
            }
        }
    }
}
