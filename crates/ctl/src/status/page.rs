//! The page of `tutti status`: lines that fit the terminal.

use std::time::Duration;

use serde_json::{Map, Value};
use tutti_metrics::status_value::{number, time};

use super::limits;
use crate::style;

/// Columns of lists without a terminal, whose width would limit them: a server may have many listeners.
const MOST_COLUMNS: usize = 100;

/// Names are truncated to no less than this.
const SHORTEST_NAME: usize = 12;

/// Returns the page for a response of `/status` and one of `/config/listeners`, in this many columns. `before` is an
/// earlier response and its age, from which rates are computed.
pub(super) fn lines(
    status: &Value,
    listeners: &Value,
    before: Option<(&Value, Duration)>,
    width: usize,
) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(server(status));
    let readable = match width {
        usize::MAX => MOST_COLUMNS,
        width => width,
    };
    let mut add = |name: &str, items: &[String]| lines.extend(wrapped(name, items, readable));
    let empty = Map::new();
    let listeners = listeners.as_object().unwrap_or(&empty);
    let addresses = listeners.iter().map(|(address, listener)| {
        match listener.get("tls").is_some_and(Value::is_object) {
            true => format!("{address} (TLS)"),
            false => address.clone(),
        }
    });
    add("listeners", &addresses.collect::<Vec<_>>());
    let connections = ["accepted", "active", "idle", "closed"].map(|state| {
        let count = number(status, &format!("/connections/{state}"));
        format!("{count} {state}")
    });
    add("connections", &connections);
    add("streams", &streams(status));
    let mut requests = vec![format!("{} in total", number(status, TOTAL))];
    if let Some((before, time)) = before {
        let more = number(status, TOTAL).saturating_sub(number(before, TOTAL));
        requests.push(format!("{:.0}/s", more as f64 / time.as_secs_f64()));
    }
    add("requests", &requests);
    let modules = status.get("modules").and_then(Value::as_object);
    let modules = modules.unwrap_or(&empty).iter();
    let modules: Vec<String> = modules
        .map(|(name, module)| module_versions(name, module))
        .collect();
    add("modules", &modules);
    let applications = status.get("applications").and_then(Value::as_object);
    let applications = applications.unwrap_or(&empty);
    if applications.is_empty() {
        lines.push(style::quiet("no applications"));
    } else {
        lines.push(String::new());
        lines.extend(table(applications, width));
        lines.extend(applications.iter().flat_map(failure_lines));
    }
    lines.extend(maintenance(status));
    lines.extend(source(status));
    lines.extend(limits::lines(status));
    if let Some(upstreams) = status.get("upstreams").and_then(Value::as_object) {
        lines.push(String::new());
        lines.extend(servers(upstreams, width));
    }
    if let Some(spoolers) = status.get("spoolers").and_then(Value::as_object) {
        lines.push(String::new());
        lines.extend(jobs(spoolers, width));
    }
    if let Some(all) = status.get("certificates").and_then(Value::as_object) {
        lines.push(String::new());
        lines.extend(certificates(all, width));
    }
    lines.extend(problem_lines(status));
    lines
}

/// The connections of each listener that are not read as HTTP; empty without such listeners.
fn streams(status: &Value) -> Vec<String> {
    let streams = status.get("streams").and_then(Value::as_object);
    let one = |(address, stream): (&String, &Value)| {
        let outcomes = stream.get("connections").and_then(Value::as_object);
        let outcomes = outcomes.into_iter().flatten();
        let counts = outcomes.filter_map(|(word, count)| Some((word.as_str(), count.as_u64()?)));
        let counts = counts.filter(|(_, count)| *count > 0);
        let counts = counts.map(|(word, count)| format!(", {count} {word}"));
        let dropped = stream.get("dropped").and_then(Value::as_object);
        let dropped = dropped.into_iter().flatten();
        let dropped: u64 = dropped.filter_map(|(_, count)| count.as_u64()).sum();
        let more = [
            (number(stream, "/draining"), "draining"),
            (dropped, "datagrams dropped"),
        ];
        let more = more.into_iter().filter(|(count, _)| *count > 0);
        let counts = counts.chain(more.map(|(count, words)| format!(", {count} {words}")));
        let active = number(stream, "/active");
        format!("{address} {active} active{}", counts.collect::<String>())
    };
    streams.into_iter().flatten().map(one).collect()
}

const TOTAL: &str = "/requests/total";

/// `maintenance  requests get 503`, and `maintenance  requests of /listeners/*:8080 get 503`; nothing without maintenance.
fn maintenance(status: &Value) -> Vec<String> {
    let line = |of: &str, maintenance: &Value| {
        let mut text = format!("{} requests{of} get 503", style::bad("maintenance"));
        match number(maintenance, "/retry_after") {
            0 => {}
            seconds => text.push_str(&format!(", try again after {}", time(seconds))),
        }
        text
    };
    let whole = status.get("maintenance").map(|one| line("", one));
    let parts = status
        .get("maintenance_of_parts")
        .and_then(Value::as_object);
    let parts = parts.into_iter().flatten();
    let parts = parts.map(|(place, one)| line(&format!(" of {place}"), one));
    whole.into_iter().chain(parts).collect()
}

/// `source       generation 7, applied, from http://10.0.0.1:2379 as node web-1`; nothing without a source.
fn source(status: &Value) -> Option<String> {
    let source = status.get("source")?;
    let word = |name: &str| source.get(name).and_then(Value::as_str).unwrap_or_default();
    let state = match word("state") {
        "refused" => style::bad("refused"),
        "differs" => style::bad("changed by hand since"),
        state => state.to_owned(),
    };
    let generation = match source.get("generation").and_then(Value::as_u64) {
        Some(generation) => format!("generation {generation}, {state}"),
        None => state,
    };
    let from = match word("endpoint") {
        "" => style::bad("not connected"),
        endpoint => format!("from {endpoint}"),
    };
    let mut text = format!(
        "{:<13}{generation}, {from} as node {}",
        "source",
        word("node")
    );
    match number(source, "/nodes") {
        0 => {}
        nodes => text.push_str(&format!(" of {nodes}")),
    }
    if let Some(error) = source.get("error").and_then(Value::as_str) {
        text.push_str(&format!("\n  {error}"));
    }
    text.push_str(&certificates_of_fleet(source));
    if word("state") == "refused" {
        let reason = source.pointer("/refused/reason").and_then(Value::as_str);
        let number = number(source, "/refused/generation");
        text.push_str(&format!(
            "\n  generation {number}: {}",
            reason.unwrap_or_default()
        ));
    }
    Some(text)
}

/// Returns a line for each certificate of its fleet that a node could not apply.
fn certificates_of_fleet(source: &Value) -> String {
    let error = source
        .pointer("/certificates/error")
        .and_then(Value::as_str);
    let error = error.map(|error| format!("\n  certificates: {error}"));
    let refused = source.pointer("/certificates/refused");
    let refused = refused.and_then(Value::as_object).into_iter().flatten();
    let refused = refused.map(|(name, one)| {
        let reason = one.get("reason").and_then(Value::as_str);
        format!("\n  certificate `{name}`: {}", reason.unwrap_or_default())
    });
    error.into_iter().chain(refused).collect()
}

/// `tutti 0.1.0, process 4711, up 3 days 4 hours`; nothing if the server does not report it.
fn server(status: &Value) -> Option<String> {
    let server = status.get("server")?;
    let version = server.get("version")?.as_str()?;
    let mut text = format!("{} {version}", style::strong("tutti"));
    if let Some(pid) = server.get("pid").and_then(Value::as_u64) {
        text.push_str(&format!(", process {pid}"));
    }
    if let Some(seconds) = server.get("uptime").and_then(Value::as_u64) {
        text.push_str(&format!(", up {}", time(seconds)));
    }
    Some(text)
}

/// `1.2 GiB`, `17 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && size < 10.0);
    format!("{size:.digits$} {}", units.get(unit).unwrap_or(&""))
}

/// A name and items, whose further lines are aligned with the first item.
fn wrapped(name: &str, items: &[String], width: usize) -> Vec<String> {
    const INDENT: usize = 13;
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for (index, item) in items.iter().enumerate() {
        let comma = if index + 1 < items.len() { "," } else { "" };
        let length = line.chars().count() + item.chars().count() + comma.len() + 1;
        if !line.is_empty() && INDENT.saturating_add(length) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(item);
        line.push_str(comma);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    let name = format!("{}{}", style::strong(name), " ".repeat(INDENT - name.len()));
    let heads = std::iter::once(name).chain(std::iter::repeat(" ".repeat(INDENT)));
    heads
        .zip(lines)
        .map(|(head, line)| format!("{head}{line}"))
        .collect()
}

/// Headings of the table of applications, and the pointers to their numbers.
const COLUMNS: [(&str, &str); 6] = [
    ("running", "/processes/running"),
    ("idle", "/processes/idle"),
    ("active", "/requests/active"),
    ("queued", "/requests/queued"),
    ("requests", "/requests/total"),
    ("restarts", "/restarts"),
];

fn table(applications: &Map<String, Value>, width: usize) -> Vec<String> {
    let mut headings = vec!["application"];
    headings.extend(COLUMNS.map(|(heading, _)| heading));
    headings.push("memory");
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for (name, application) in applications {
        let mut row = vec![name.clone()];
        row.extend(COLUMNS.map(|(_, pointer)| number(application, pointer).to_string()));
        // Older servers do not report it.
        let memory = application.get("memory");
        row.push(memory.and_then(Value::as_u64).map(size).unwrap_or_default());
        rows.push(row);
        notes.push(application_notes(application, width));
    }
    let mut lines = aligned(&headings, &rows, 1, width).into_iter();
    let mut all: Vec<String> = lines.next().into_iter().collect();
    for (row, notes) in lines.zip(notes) {
        all.push(row);
        all.extend(notes);
    }
    all
}

/// Returns the lines below an application: its processes, and its problems.
fn application_notes(application: &Value, width: usize) -> Vec<String> {
    let mut notes = Vec::new();
    // Older servers do not report it.
    if application.get("started") == Some(&Value::Bool(false)) {
        notes.push("has never started".to_owned());
    }
    match number(application, "/processes/starting") {
        0 => {}
        count => notes.push(format!("{count} starting")),
    }
    match number(application, "/failures/total") {
        0 => {}
        1 => notes.push("1 failed start".to_owned()),
        count => notes.push(format!("{count} failed starts")),
    }
    let pids = application.get("pids");
    let pids = pids.and_then(Value::as_array).into_iter().flatten();
    let pids: Vec<String> = pids.map(Value::to_string).collect();
    let mut line = String::from("  ");
    if !notes.is_empty() {
        line.push_str(&notes.join(", "));
        line.push_str(if pids.is_empty() { "" } else { "; " });
    }
    if let Some((first, rest)) = pids.split_first() {
        line.push_str(if rest.is_empty() {
            "process "
        } else {
            "processes "
        });
        line.push_str(first);
        for (index, pid) in rest.iter().enumerate() {
            let more = format!(" and {} more", rest.len() - index);
            // The last one needs no room for the note about the rest.
            let needed = if index + 1 == rest.len() {
                0
            } else {
                more.len()
            };
            if (line.len() + 1 + pid.len()).saturating_add(needed) > width {
                line.push_str(&more);
                break;
            }
            line.push(' ');
            line.push_str(pid);
        }
    }
    let mut lines = Vec::new();
    if !line.trim().is_empty() {
        lines.push(style::quiet(&line));
    }
    lines.extend(
        mules(application, width)
            .iter()
            .map(|line| style::quiet(line)),
    );
    lines
}

/// Returns each mule of an application, in lines of at most this many columns.
pub(crate) fn mules(application: &Value, width: usize) -> Vec<String> {
    let mules = application.get("mules").and_then(Value::as_object);
    let mules = mules.into_iter().flatten();
    let lines = mules.flat_map(|(name, mule)| {
        let mut parts = Vec::new();
        for state in ["running", "starting", "stopping", "waiting"] {
            match number(mule, &format!("/processes/{state}")) {
                0 => {}
                count => parts.push(format!("{count} {state}")),
            }
        }
        let each = mule
            .get("each")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for process in each {
            if let Some(pid) = process.get("pid").and_then(Value::as_u64) {
                let seconds = time(number(process, "/seconds"));
                parts.push(format!("process {pid} for {seconds}"));
            }
        }
        match number(mule, "/restarts") {
            0 => {}
            count => parts.push(format!("{count} restarts")),
        }
        // The last end is shown while no process is running, because it explains why.
        let last = mule.pointer("/last_end/result").and_then(Value::as_str);
        if let Some(last) = last.filter(|_| number(mule, "/processes/waiting") > 0) {
            parts.push(format!("last end: {last}"));
        }
        folded(format!("  mule {name}:"), &parts, width)
    });
    lines.collect()
}

/// Wraps a head and items into lines; an item that is longer than a line is truncated.
fn folded(head: String, items: &[String], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = head;
    for (index, item) in items.iter().enumerate() {
        let comma = if index + 1 < items.len() { "," } else { "" };
        let length = line.chars().count() + item.chars().count() + comma.len();
        if length >= width && index > 0 {
            lines.push(std::mem::replace(&mut line, "   ".to_owned()));
        }
        line.push_str(&format!(" {item}{comma}"));
    }
    lines.push(line);
    let cut = |line: String| line.chars().take(width).collect();
    lines.into_iter().map(cut).collect()
}

/// A heading and rows: the first `words` columns are left-aligned, numbers right-aligned. The first column is truncated
/// if lines would be wider than `width`.
fn aligned(headings: &[&str], rows: &[Vec<String>], words: usize, width: usize) -> Vec<String> {
    let mut all = vec![headings.iter().map(ToString::to_string).collect::<Vec<_>>()];
    all.extend(rows.iter().cloned());
    let mut widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = all.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let rest: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    if let Some(first) = widths.first_mut() {
        *first = (*first).min(width.saturating_sub(rest).max(SHORTEST_NAME));
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| {
            let cell = cut(cell, width);
            if column < words {
                format!("{cell:width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines: Vec<String> = all.iter().map(line).collect();
    if let Some(heading) = lines.first_mut() {
        *heading = style::strong(heading);
    }
    lines
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// Explains why the last start of an application failed, until one succeeds.
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

/// Lists the parts of the stored configuration that are not in force.
fn problem_lines(status: &Value) -> Vec<String> {
    let problems = status.get("problems").and_then(Value::as_array);
    let mut lines = Vec::new();
    // Problems of an application that does not start are shown with the application.
    let is_listed = |problem: &&Value| {
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
        .filter(|problem| !is_listed(problem))
    {
        if lines.is_empty() {
            lines.push(String::new());
            lines.push(style::bad(
                "parts of the stored configuration that are not in force:",
            ));
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
fn servers(upstreams: &Map<String, Value>, width: usize) -> Vec<String> {
    let headings = [
        "upstream", "server", "state", "active", "requests", "failures",
    ];
    let mut rows = Vec::new();
    for (name, upstream) in upstreams {
        let servers = upstream.get("servers").and_then(Value::as_object);
        for (server, status) in servers.into_iter().flatten() {
            let state = status.get("state").and_then(Value::as_str);
            let state = state.unwrap_or_default();
            let mut row = vec![name.clone(), server.clone(), state.to_owned()];
            let counts = ["/active", "/requests", "/failures"];
            row.extend(counts.map(|pointer| number(status, pointer).to_string()));
            rows.push(row);
        }
    }
    aligned(&headings, &rows, 3, width)
}

/// Returns the certificates, and below them why some were not issued.
fn certificates(all: &Map<String, Value>, width: usize) -> Vec<String> {
    let headings = ["certificate", "state", "until", "next order"];
    let one = |(name, certificate): (&String, &Value)| {
        let word = |name: &str| {
            let word = certificate.get(name).and_then(Value::as_str);
            word.unwrap_or("-").to_owned()
        };
        vec![
            name.clone(),
            word("state"),
            word("until"),
            word("next_order"),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(one).collect();
    let mut lines = aligned(&headings, &rows, 4, width);
    for (name, certificate) in all {
        let error = certificate.pointer("/last_error/message");
        if let Some(error) = error.and_then(Value::as_str) {
            lines.push(style::bad(&format!("{name} was not issued: {error}")));
        }
    }
    lines
}

/// The jobs of spoolers.
fn jobs(spoolers: &Map<String, Value>, width: usize) -> Vec<String> {
    let headings = [
        "spooler",
        "waiting",
        "delivering",
        "failed",
        "delivered",
        "failures",
        "oldest",
    ];
    let one = |(name, status): (&String, &Value)| {
        let mut row = vec![name.clone()];
        let counts = [
            "/jobs/waiting",
            "/jobs/delivering",
            "/jobs/failed",
            "/delivered",
            "/failures",
        ];
        // After a start they are unknown for a moment.
        let known = |pointer| status.pointer(pointer).and_then(Value::as_u64);
        let text = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |n| n.to_string());
        row.extend(counts.map(|pointer| text(known(pointer))));
        let oldest = status.get("oldest").and_then(Value::as_u64);
        row.push(oldest.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds} s")));
        row
    };
    let rows: Vec<Vec<String>> = spoolers.iter().map(one).collect();
    aligned(&headings, &rows, 1, width)
}

/// `php 8.2.35 and 8.4.1`.
fn module_versions(name: &str, module: &Value) -> String {
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

    /// In 80 columns, without rates.
    fn page(status: &Value) -> Vec<String> {
        lines(status, &json!({}), None, 80)
    }

    fn busy() -> Value {
        json!({
            "server": {"version": "0.1.0", "pid": 4711, "uptime": 273_900},
            "modules": {"php": [{"version": "8.2.35", "lib": "/x"}, {"version": "8.4.1", "lib": "/y"}], "python": {"version": "3.11.2"}},
            "connections": {"accepted": 7, "active": 1, "idle": 2, "closed": 4},
            "requests": {"total": 99},
            "applications": {
                "blog": {"processes": {"running": 5, "starting": 1, "idle": 3}, "pids": [100, 101], "memory": 125_829_120, "requests": {"active": 2, "queued": 6, "total": 1_234_567_890}, "restarts": 8,
                    "mules": {"queue": {"processes": {"running": 1, "starting": 0, "stopping": 0, "waiting": 1}, "restarts": 3,
                        "each": [{"state": "running", "pid": 77, "seconds": 61, "restarts": 0}, {"state": "waiting", "pid": null, "seconds": 1, "restarts": 3}],
                        "last_end": {"result": "exited with code 3"}}},
                    "failures": {"total": 9, "last": {"pointer": "/applications/blog", "step": "boot", "message": "exit code 1",
                        "hint": "look there", "output": "no database\n"}}},
                "an-application-with-a-name-that-is-much-too-long": {"processes": {"running": 60}, "pids": (1_000_000..1_000_060).collect::<Vec<u32>>(), "memory": 3_221_225_472_u64},
            },
            "problems": [{"pointer": "/listeners/*:80", "message": "in use"}, {"pointer": "/applications/blog/script", "message": "twice"}]
        })
    }

    #[test]
    fn an_application_that_has_never_started_says_so() {
        let of = |started: bool| {
            let application = json!({"started": started, "failures": {"total": 2}});
            page(&json!({"applications": {"blog": application}})).join("\n")
        };
        assert!(
            of(false).contains("  has never started, 2 failed starts"),
            "{}",
            of(false)
        );
        assert!(!of(true).contains("never"), "{}", of(true));
    }

    #[test]
    fn many_listeners_are_several_lines() {
        let listeners: Map<String, Value> = (0..50)
            .map(|number| {
                (
                    format!("127.0.0.1:{}", 8000 + number),
                    json!({"pass": "routes"}),
                )
            })
            .collect();
        let lines = lines(&busy(), &listeners.into(), None, usize::MAX);
        let listing = lines.iter().filter(|line| line.contains("127.0.0.1:80"));
        let listing: Vec<&String> = listing.collect();
        assert!(listing.len() > 5, "{lines:?}");
        assert!(
            listing
                .iter()
                .all(|line| line.chars().count() <= MOST_COLUMNS),
            "{listing:?}"
        );
        let text = lines.join("\n");
        assert!(text.contains("127.0.0.1:8000") && text.contains("127.0.0.1:8049"));
    }

    #[test]
    fn everything_has_its_line() {
        let listeners = json!({"*:80": {"pass": "routes"}, "*:443": {"pass": "routes", "tls": {"certificate": "a"}}});
        let text = lines(&busy(), &listeners, None, 80).join("\n");
        for part in [
            "tutti 0.1.0, process 4711, up 3 days 4 hours\n",
            "listeners    *:80, *:443 (TLS)\n",
            "connections  7 accepted, 1 active, 2 idle, 4 closed\n",
            "requests     99 in total\n",
            "modules      php 8.2.35 and 8.4.1, python 3.11.2\n",
            "\n  1 starting, 9 failed starts; processes 100 101\n  mule queue: 1 running, 1 waiting, process 77 for 1 minute 1 second,\n    3 restarts, last end: exited with code 3\n",
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
            ["blog", "5", "3", "2", "6", "1234567890", "8", "120", "MiB"]
        );
    }

    #[test]
    fn nothing_is_wider_than_the_terminal() {
        let many: Map<String, Value> = (0..30)
            .map(|number| (format!("127.0.0.1:{}", 8000 + number), json!({})))
            .collect();
        for width in [80, 200] {
            for line in lines(&busy(), &Value::Object(many.clone()), None, width) {
                assert!(line.chars().count() <= width, "{line}");
            }
        }
        let text = lines(&busy(), &json!({}), None, usize::MAX).join("\n");
        assert!(text.contains("an-application-with-a-name-that-is-much-too-long "));
        assert!(text.contains(" 1000058 1000059"), "all of them: {text}");
        assert!(page(&busy()).join("\n").contains(" more"));
    }

    #[test]
    fn rates_are_those_since_the_last_look() {
        let before = json!({"requests": {"total": 20}});
        let since = Some((&before, Duration::from_secs(2)));
        let text = lines(&busy(), &json!({}), since, 80).join("\n");
        assert!(text.contains("99 in total, 40/s"), "{text}");
        // The server was restarted.
        let since = Some((&busy(), Duration::from_secs(2))).map(|(_, time)| (before.clone(), time));
        let (later, time) = since.unwrap();
        let text = lines(&later, &json!({}), Some((&busy(), time)), 80).join("\n");
        assert!(text.contains("20 in total, 0/s"), "{text}");
    }

    #[test]
    fn sizes_are_written_as_people_say_them() {
        for (bytes, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (17_825_792, "17 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn every_server_of_an_upstream_has_its_line() {
        let status = json!({"upstreams": {"u": {"servers": {
            "10.0.0.1:80": {"state": "down", "active": 1, "requests": 20, "failures": 3},
        }}}});
        let text = page(&status);
        let row: Vec<_> = text.last().unwrap().split_whitespace().collect();
        assert_eq!(row, ["u", "10.0.0.1:80", "down", "1", "20", "3"]);
    }

    #[test]
    fn the_connections_of_streams_are_counted_by_outcome() {
        let status = json!({"streams": {"*:5432": {"active": 2, "connections": {
            "passed": 20, "terminated": 0, "closed": 1}, "received": 5, "sent": 7}}});
        let text = page(&status).join("\n");
        let line = "streams      *:5432 2 active, 20 passed, 1 closed";
        assert!(text.contains(line), "{text}");
        let status = json!({"streams": {"udp:*:53": {"active": 1, "draining": 3, "connections": {"passed": 5},
            "dropped": {"sessions": 2, "size": 0, "unsent": 1}}}});
        let text = page(&status).join("\n");
        let line = "udp:*:53 1 active, 5 passed, 3 draining, 3 datagrams dropped";
        assert!(text.contains(line), "{text}");
        assert!(!page(&json!({})).join("\n").contains("streams"));
    }

    #[test]
    fn every_certificate_has_its_line_and_a_failure_its_reason() {
        let status = json!({"certificates": {
            "acme:le:a.example.com": {"names": ["a.example.com"], "until": null, "state": "missing", "next_order": "2026-12-01T00:00:00Z",
                "failures": 2, "last_error": {"message": "no answer", "at": "2026-11-30T23:50:00Z"}},
            "old": {"names": ["b"], "until": "2027-01-01T00:00:00Z"}
        }});
        let text = page(&status).join("\n");
        assert!(
            text.contains("missing") && text.contains("2026-12-01T00:00:00Z"),
            "{text}"
        );
        assert!(
            text.contains("acme:le:a.example.com was not issued: no answer"),
            "{text}"
        );
        assert!(text.contains("2027-01-01T00:00:00Z"), "{text}");
    }

    #[test]
    fn an_answer_of_another_shape_does_no_harm() {
        for status in [
            json!({"certificates": {"a": null, "b": {"last_error": {"message": 7}}}}),
            json!(null),
            json!({"applications": []}),
            json!({"server": 1, "modules": 1, "applications": {"a": null}, "problems": [1]}),
            json!({"streams": {"a": null, "b": {"connections": [1]}}}),
            json!({"upstreams": {"a": null, "b": {"servers": {"c": 1}}}}),
            json!({"server": {"version": "1", "pid": "a"}, "applications": {"a": {"pids": [null], "memory": "", "failures": {"last": {"hint": 1}}}}, "problems": {}}),
        ] {
            assert!(!page(&status).is_empty());
        }
    }
}
