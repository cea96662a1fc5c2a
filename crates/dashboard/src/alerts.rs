//! The alerts: current problems and the commands that fix them, at the top of the overview and of the problems page.

use maud::{Markup, html};
use serde_json::Value;
use tutti_config::{Diagnostic, Document, Pointer};
use tutti_metrics::{Alert, Observation, Severity, Subject};

use crate::listing::Listing;
use crate::markup::{Mood, state};
use crate::redact::Redactor;
use crate::watch::Seen;

/// Returns the alerts of the last sample. Alerts about the configuration do not repeat hidden values.
pub(crate) fn of(seen: &Seen, document: &Document, redactor: &Redactor) -> Vec<Alert> {
    let Some(look) = seen.now.as_deref() else {
        return Vec::new();
    };
    let before = seen.before.as_deref();
    let observation = Observation {
        status: &look.status,
        readings: &look.readings,
        before: before.map(|before| {
            let time = look.at.saturating_duration_since(before.at);
            (&before.readings, time)
        }),
        time: look.time,
    };
    let mut alerts = observation.alerts();
    let is_of_configuration = |alert: &Alert| matches!(alert.subject, Subject::Configuration(_));
    if alerts.iter().any(is_of_configuration) {
        let listing = Listing::of(document, redactor);
        for alert in &mut alerts {
            if let Subject::Configuration(pointer) = &alert.subject {
                let pointer = Pointer::from_escaped(pointer.as_str());
                let fault = Diagnostic::new(pointer, std::mem::take(&mut alert.detail));
                alert.detail = listing.words_of(&fault, redactor);
            }
        }
    }
    alerts
}

/// Returns the parts of the configuration that are not in force, as reported by `/status`.
pub(crate) fn of_configuration(seen: &Seen) -> Vec<Diagnostic> {
    let status = seen.now.as_ref().map(|look| &look.status);
    let problems = status.and_then(|status| status.get("problems")?.as_array());
    let one = |problem: &Value| {
        let text = |member: &str| {
            problem
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        Diagnostic::new(Pointer::from_escaped(text("pointer")), text("message"))
    };
    problems.into_iter().flatten().map(one).collect()
}

/// The section that shows them.
pub(crate) fn section(seen: &Seen, alerts: &[Alert]) -> Markup {
    html! {
        section aria-labelledby="alerts-heading" {
            h2 id="alerts-heading" { "Needs attention" }
            div id="alerts" data-live {
                @if !alerts.is_empty() {
                    ul.alerts { @for alert in alerts { (one(alert)) } }
                } @else if seen.now.is_some() && seen.silence.is_none() {
                    p.healthy { (state("Everything is healthy", Mood::Good)) }
                }
            }
        }
    }
}

fn one(alert: &Alert) -> Markup {
    let (class, word, mood) = match alert.severity {
        Severity::Critical => ("alert", "Critical", Mood::Bad),
        Severity::Warning => ("alert warning", "Warning", Mood::Doubtful),
    };
    let (path, page) = match alert.subject {
        Subject::Configuration(_) => ("/configuration", "Configuration"),
        Subject::Application => ("/applications", "Applications"),
        Subject::Traffic => ("/traffic", "Traffic"),
        Subject::Jobs => ("/jobs", "Jobs"),
        Subject::Certificate => ("/certificates", "Certificates"),
        Subject::Server => ("/metrics", "Metrics"),
    };
    html! {
        li.(class) {
            p { (state(word, mood)) ": " strong { (alert.title) } " " a href=(path) { (page) } }
            @if !alert.detail.is_empty() { p { (alert.detail) } }
            (fix(&alert.command))
        }
    }
}

/// A command. One click selects it.
pub(crate) fn fix(command: &str) -> Markup {
    html! { p.fix { span.prompt { "Run" } " " code { (command) } } }
}
