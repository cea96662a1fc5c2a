//! `tutti status`: what a running server is doing, as a table or as JSON.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value};

use super::client::Client;
use super::reach::ControlArguments;
use super::report::{Failure, say, write};
use super::style;

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
    } else {
        lines.push(String::new());
        lines.extend(table(applications));
        lines.extend(applications.iter().flat_map(failure_lines));
    }
    if let Some(upstreams) = status.get("upstreams").and_then(Value::as_object) {
        lines.push(String::new());
        lines.extend(servers(upstreams));
    }
    lines.extend(problem_lines(status));
    lines
}

/// Headings of the table of applications, and where their numbers are.
const COLUMNS: [(&str, &str); 8] = [
    ("running", "/processes/running"),
    ("starting", "/processes/starting"),
    ("idle", "/processes/idle"),
    ("active", "/requests/active"),
    ("queued", "/requests/queued"),
    ("requests", "/requests/total"),
    ("restarts", "/restarts"),
    ("failed starts", "/failures/total"),
];

fn table(applications: &Map<String, Value>) -> Vec<String> {
    let number = |application: &Value, pointer: &str| {
        let number = application.pointer(pointer).and_then(Value::as_u64);
        number.unwrap_or_default().to_string()
    };
    let title = "application";
    let names = applications.keys().map(|name| name.chars().count());
    let width = names.max().unwrap_or(0).max(title.len());
    let widths = COLUMNS.map(|(heading, pointer)| {
        let longest = applications
            .values()
            .map(|a| number(a, pointer).len())
            .max();
        longest.unwrap_or(0).max(heading.len())
    });
    let line = |first: &str, cells: [String; COLUMNS.len()]| {
        let cells = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("  {cell:>width$}"));
        format!("{first:width$}{}", cells.collect::<String>())
    };
    let heading = line(title, COLUMNS.map(|(heading, _)| heading.to_owned()));
    let rows = applications
        .iter()
        .map(|(name, a)| line(name, COLUMNS.map(|(_, pointer)| number(a, pointer))));
    std::iter::once(style::strong(&heading))
        .chain(rows)
        .collect()
}

/// Why the last start of an application failed, until one succeeds.
fn failure_lines((name, application): (&String, &Value)) -> Vec<String> {
    let Some(failure) = application
        .pointer("/failures/last")
        .filter(|last| last.is_object())
    else {
        return Vec::new();
    };
    let text = |member: &str| {
        failure
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let mut lines = vec![
        String::new(),
        format!(
            "{} {} ({}): {}",
            style::bad(&format!("{name} does not start:")),
            text("pointer"),
            text("step"),
            text("message")
        ),
    ];
    if !text("hint").is_empty() {
        lines.push(format!("  hint: {}", text("hint")));
    }
    let output = text("output").trim_end().lines();
    lines.extend(output.map(|line| format!("  {}", style::quiet(line))));
    lines
}

/// Lists the parts of the stored configuration that are not served.
fn problem_lines(status: &Value) -> Vec<String> {
    let problems = status.get("problems").and_then(Value::as_array);
    let mut lines = Vec::new();
    // Those of an application that does not start are told with it.
    let is_told = |problem: &&Value| {
        let pointer = problem
            .get("pointer")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = pointer
            .strip_prefix("/applications/")
            .and_then(|rest| rest.split('/').next());
        name.is_some_and(|name| {
            let last = status.pointer(&format!("/applications/{name}/failures/last"));
            last.is_some_and(Value::is_object)
        })
    };
    for problem in problems
        .into_iter()
        .flatten()
        .filter(|problem| !is_told(problem))
    {
        if lines.is_empty() {
            lines.push(String::new());
            lines.push(style::bad("not served of the stored configuration:"));
        }
        let text = |member: &str| {
            problem
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        lines.push(format!("  {}: {}", text("pointer"), text("message")));
    }
    lines
}

/// The servers of upstreams.
fn servers(upstreams: &Map<String, Value>) -> Vec<String> {
    let one = |name: &str, server: &str, status: &Value| {
        let number = |member: &str| {
            let number = status.get(member).and_then(Value::as_u64);
            number.unwrap_or_default().to_string()
        };
        let state = status.get("state").and_then(Value::as_str);
        [
            name.to_owned(),
            server.to_owned(),
            state.unwrap_or_default().to_owned(),
            number("active"),
            number("requests"),
            number("failures"),
        ]
    };
    let headings = [
        "upstream", "server", "state", "active", "requests", "failures",
    ];
    let mut rows = vec![headings.map(str::to_owned)];
    for (name, upstream) in upstreams {
        let servers = upstream.get("servers").and_then(Value::as_object);
        for (server, status) in servers.into_iter().flatten() {
            rows.push(one(name, server, status));
        }
    }
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3, 4, 5].map(width);
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).enumerate();
        // Words to the left, numbers to the right.
        let cells = cells.map(|(column, (cell, width))| match column {
            0..3 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    if let Some(heading) = lines.first_mut() {
        *heading = style::strong(heading);
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
    use serde_json::json;

    use super::*;

    #[test]
    fn every_application_has_its_line() {
        let status = json!({
            "modules": {"php": {"version": "8.2.35", "lib": "/x"}},
            "connections": {"accepted": 7, "active": 1, "idle": 2, "closed": 4},
            "requests": {"total": 99},
            "applications": {"blog": {"processes": {"running": 5, "starting": 1, "idle": 3}, "requests": {"active": 2, "queued": 6, "total": 1234567890}, "restarts": 8,
                "failures": {"total": 9, "last": {"pointer": "/applications/blog", "step": "boot", "message": "exit code 1",
                    "hint": "look there", "output": "no database\n"}}}},
            "problems": [{"pointer": "/listeners/*:80", "message": "in use"}, {"pointer": "/applications/blog/script", "message": "twice"}]
        });
        let text = lines(&status).join("\n");
        for part in [
            "7 accepted, 1 active, 2 idle, 4 closed",
            "99 in total",
            "php 8.2.35",
            "/applications/blog (boot): exit code 1\n  hint: look there\n",
            "no database",
            "  /listeners/*:80: in use",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("twice"), "{text}");
        let row = text
            .lines()
            .find(|line| line.starts_with("blog  "))
            .unwrap();
        let row: Vec<_> = row.split_whitespace().collect();
        assert_eq!(
            row,
            ["blog", "5", "1", "3", "2", "6", "1234567890", "8", "9"]
        );
    }

    #[test]
    fn every_server_of_an_upstream_has_its_line() {
        let status = json!({"upstreams": {"u": {"servers": {
            "10.0.0.1:80": {"state": "down", "active": 1, "requests": 20, "failures": 3},
        }}}});
        let text = lines(&status);
        let row: Vec<_> = text.last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["u", "10.0.0.1:80", "down", "1", "20", "3"]);
    }

    #[test]
    fn an_answer_of_another_shape_does_no_harm() {
        for status in [
            json!(null),
            json!({"applications": []}),
            json!({"modules": 1, "applications": {"a": null}, "problems": [1]}),
            json!({"upstreams": {"a": null, "b": {"servers": {"c": 1}}}}),
            json!({"applications": {"a": {"failures": {"last": {"hint": 1}}}}, "problems": {}}),
        ] {
            assert!(!lines(&status).is_empty());
        }
    }
}
