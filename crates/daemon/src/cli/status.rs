//! `tutti status`: what a running server is doing, as a table or as JSON.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value};

use super::client::Client;
use super::report::{Failure, say, write};
use super::{ControlArguments, style};

#[derive(Args)]
pub(crate) struct StatusArguments {
    /// Print the answer of `/status` as it is
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: ControlArguments,
}

pub(crate) fn run(arguments: &StatusArguments) -> Result<ExitCode, Failure> {
    let answer = Client::new(&arguments.control)?.call("GET", "/status", None, None)?;
    answer.succeeded(None)?;
    if arguments.json {
        return write(&answer.body);
    }
    for line in lines(&answer.json()?) {
        say(&line);
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let number = |pointer: &str| {
        status
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    lines.push(format!(
        "{}  {} accepted, {} active, {} idle, {} closed",
        style::strong("connections"),
        number("/connections/accepted"),
        number("/connections/active"),
        number("/connections/idle"),
        number("/connections/closed")
    ));
    lines.push(format!(
        "{}     {} in total",
        style::strong("requests"),
        number("/requests/total")
    ));
    let empty = Map::new();
    let modules = status
        .get("modules")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    if !modules.is_empty() {
        let names: Vec<_> = modules
            .iter()
            .map(|(name, module)| module_line(name, module))
            .collect();
        lines.push(format!(
            "{}      {}",
            style::strong("modules"),
            names.join(", ")
        ));
    }
    let applications = status
        .get("applications")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    if applications.is_empty() {
        lines.push(style::quiet("no applications"));
        return lines;
    }
    lines.push(String::new());
    let width = applications
        .keys()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .max("application".len());
    lines.push(style::strong(&format!(
        "{:width$}  running  starting  idle  active requests",
        "application"
    )));
    for (name, application) in applications {
        let number = |pointer: &str| {
            application
                .pointer(pointer)
                .and_then(Value::as_u64)
                .unwrap_or_default()
        };
        lines.push(format!(
            "{name:width$}  {:>7}  {:>8}  {:>4}  {:>15}",
            number("/processes/running"),
            number("/processes/starting"),
            number("/processes/idle"),
            number("/requests/active")
        ));
    }
    lines
}

fn module_line(name: &str, module: &Value) -> String {
    let one = |module: &Value| {
        module
            .get("version")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let versions: Vec<_> = match module {
        Value::Array(modules) => modules.iter().map(one).collect(),
        module => vec![one(module)],
    };
    format!("{name} {}", versions.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_application_has_its_line() {
        let status = json!({
            "modules": {"php": {"version": "8.2.35", "lib": "/x"}},
            "connections": {"accepted": 7, "active": 1, "idle": 2, "closed": 4},
            "requests": {"total": 99},
            "applications": {"blog": {"processes": {"running": 5, "starting": 1, "idle": 3}, "requests": {"active": 2}}}
        });
        let text = lines(&status).join("\n");
        for part in [
            "7 accepted, 1 active, 2 idle, 4 closed",
            "99 in total",
            "php 8.2.35",
            "blog",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let row: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["blog", "5", "1", "3", "2"]);
    }

    #[test]
    fn an_answer_of_another_shape_does_no_harm() {
        for status in [
            json!(null),
            json!({"applications": []}),
            json!({"modules": 1, "applications": {"a": null}}),
        ] {
            assert!(!lines(&status).is_empty());
        }
    }
}
