//! gunicorn's configuration file: a Python program, of which the assignments of literals are read.

use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::fate::Fate;
use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::literal::Literals;
use crate::output::{slug, when};
use crate::program::Program;
use crate::sources::{self, Sources};
use crate::words::Words;

/// Settings that have nothing to do here.
const NEEDLESS: Words = Words(
    "errorlog loglevel capture_output proc_name pidfile daemon worker_tmp_dir tmp_upload_dir worker_connections
    max_requests_jitter limit_request_line limit_request_fields limit_request_field_size sendfile reuse_port
    print_config check_config spew reload_engine reload_extra_files disable_redirect_access_to_syslog
    enable_stdio_inheritance logger_class initgroups default_proc_name",
);

/// Settings that are carried over, besides [`NUMBERS`].
const CARRIED: Words = Words(
    "wsgi_app chdir pythonpath bind worker_class preload_app reload user group raw_env accesslog certfile keyfile
    forwarded_allow_ips ca_certs cert_reqs",
);

const NEEDLESS_WHY: &str =
    "Tutti does this automatically, or has a flag for it (`docs/reference/command-line.md`)";
const LOST_HINT: &str = "`docs/reference/options.md` lists every option";

/// The cure for a setting that is lost.
fn hint(name: &str) -> &'static str {
    match name {
        "proxy_protocol" | "proxy_allow_ips" => {
            "`proxy_protocol` of a listener names the proxies that send it (`docs/reference/options.md`)"
        }
        "protocol" | "uwsgi_allow_ips" => {
            "clients speak HTTP to a listener: let the server in front do so, too"
        }
        _ => LOST_HINT,
    }
}

/// The fate of a setting, for the table of all settings.
pub(crate) fn fate(name: &str) -> Fate {
    if CARRIED.contains(name) || NUMBERS.iter().any(|(known, ..)| *known == name) {
        Fate::carried()
    } else if NEEDLESS.contains(name) {
        Fate::harmless(NEEDLESS_WHY)
    } else {
        Fate::lost(hint(name))
    }
}

/// Reads the literals of a file of gunicorn.
pub(crate) fn import(
    files: &[PathBuf],
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Value, UnreadableSource> {
    let mut program = Program::default();
    program.options.insert("type".to_owned(), "python".into());
    let mut settings: Vec<(String, Value, SourceLocation)> = Vec::new();
    for path in files {
        let (file, text) = sources::text(path, sources)?;
        for setting in assignments(&file, &text, findings) {
            // A later one replaces an earlier one, as in Python.
            settings.retain(|(name, ..)| *name != setting.0);
            settings.push(setting);
        }
    }
    let mut options = Map::new();
    let mut is_named = false;
    let mut path: Vec<String> = Vec::new();
    for (name, value, place) in &settings {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        match name.as_str() {
            "wsgi_app" => {
                is_named = true;
                let (module, callable) = text.split_once(':').unwrap_or((&text, "application"));
                options.insert("module".to_owned(), module.into());
                let (callable, is_factory) = callable
                    .strip_suffix("()")
                    .map_or((callable, false), |callable| (callable, true));
                if callable != "application" {
                    options.insert("callable".to_owned(), callable.into());
                }
                if is_factory {
                    options.insert("factory".to_owned(), true.into());
                }
            }
            "chdir" => {
                program
                    .options
                    .insert("working_directory".to_owned(), text.as_str().into());
                path.insert(0, text);
            }
            "pythonpath" => path.extend(text.split(',').map(str::to_owned)),
            _ => setting(name, value, place, &mut program, findings),
        }
    }
    client_certificates(&settings, &mut program, findings);
    let (file, place) = match files.first() {
        Some(path) => (
            path.display().to_string(),
            SourceLocation {
                file: path.display().to_string().into(),
                line: 1,
            },
        ),
        None => (
            String::new(),
            SourceLocation {
                file: "".into(),
                line: 1,
            },
        ),
    };
    if !is_named {
        let hint = "write `wsgi_app = \"module:callable\"` into it, or `module` into the result";
        findings.lost(
            &place,
            "wsgi_app",
            "the file does not name the application to run",
            hint,
        );
        options.insert("module".to_owned(), "application".into());
    }
    if program.addresses.is_empty() {
        program.addresses.push("127.0.0.1:8000".to_owned());
    }
    if !path.is_empty() {
        let path = match path.as_slice() {
            [only] => only.as_str().into(),
            _ => json!(path),
        };
        program.options.insert("path".to_owned(), path);
    }
    let name = options
        .get("module")
        .and_then(Value::as_str)
        .and_then(|module| module.split('.').next())
        .map_or_else(|| slug(&file), slug);
    program.options.extend(options);
    Ok(program.into_json(&name))
}

/// A part of the output.
type Part = fn(&mut Program) -> &mut Map<String, Value>;

/// Settings that are a number: the option, where it is, what is the least and the most, and gunicorn's default.
const NUMBERS: &[(&str, Part, &str, [u64; 3])] = &[
    (
        "workers",
        |program| &mut program.options,
        "processes",
        [1, 4096, 1],
    ),
    (
        "threads",
        |program| &mut program.options,
        "threads",
        [1, u64::MAX, 1],
    ),
    (
        "timeout",
        |program| &mut program.limits,
        "timeout",
        [0, u64::MAX, 0],
    ),
    (
        "graceful_timeout",
        |program| &mut program.limits,
        "drain_timeout",
        [0, u64::MAX, 60],
    ),
    (
        "max_requests",
        |program| &mut program.limits,
        "requests",
        [0, u64::MAX, 0],
    ),
    (
        "keepalive",
        |program| &mut program.http,
        "idle_timeout",
        [0, u64::MAX, 2],
    ),
    (
        "backlog",
        |program| &mut program.listener,
        "backlog",
        [0, u64::MAX, 2048],
    ),
];

fn certificate(name: &str, text: &str, program: &mut Program) {
    let option = if name == "certfile" { "file" } else { "key" };
    let tls = program
        .listener
        .entry("tls")
        .or_insert_with(|| json!({"certificate": {}}));
    if let Some(certificate) = tls.get_mut("certificate").and_then(Value::as_object_mut) {
        certificate.insert(option.to_owned(), text.into());
    }
}

/// `cert_reqs` and `ca_certs`: no client gets in whose certificate gunicorn would have checked, and Tutti does not.
fn client_certificates(
    settings: &[(String, Value, SourceLocation)],
    program: &mut Program,
    findings: &mut Findings,
) {
    let find = |name: &str| settings.iter().find(|(known, ..)| known == name);
    let Some((name, wanted, place)) = find("cert_reqs").filter(|(_, wanted, _)| *wanted != 0)
    else {
        return;
    };
    let authorities = find("ca_certs").and_then(|(_, file, _)| file.as_str());
    let verify = match wanted.as_u64() {
        Some(1) => Some("optional"),
        Some(2) => Some("required"),
        _ => None,
    };
    program.check_clients(authorities, verify, (place, name), findings);
}

fn forwarded(text: &str, program: &mut Program) {
    let sources: Vec<&str> = if text == "*" {
        vec!["0.0.0.0/0", "::/0", "unix"]
    } else {
        text.split(',').map(str::trim).collect()
    };
    program.listener.extend(when(
        "forwarded",
        json!({"source": sources, "protocol": "X-Forwarded-Proto"}),
    ));
}

fn setting(
    name: &str,
    value: &Value,
    place: &SourceLocation,
    program: &mut Program,
    findings: &mut Findings,
) {
    if let Some((_, part, option, [least, most, default])) =
        NUMBERS.iter().find(|(known, ..)| *known == name)
    {
        let number = value.as_u64().unwrap_or(*default).clamp(*least, *most);
        part(program).insert((*option).to_owned(), number.into());
        return;
    }
    let text = value.as_str().unwrap_or_default();
    let mut set = |map: fn(&mut Program) -> &mut Map<String, Value>, option: &str, value: Value| {
        drop(map(program).insert(option.to_owned(), value))
    };
    match name {
        "bind" => {
            let all = match value {
                Value::Array(all) => all.clone(),
                one => vec![one.clone()],
            };
            for address in all.iter().filter_map(Value::as_str) {
                let with_port = if address.contains(':') || address.starts_with('/') {
                    address.to_owned()
                } else {
                    format!("{address}:8000")
                };
                program.listen(&with_port, place, "bind", findings);
            }
        }
        "worker_class" => match text {
            "sync" | "gthread" => {}
            "uvicorn.workers.UvicornWorker"
            | "uvicorn.workers.UvicornH11Worker"
            | "uvicorn_worker.UvicornWorker" => {
                set(|program| &mut program.options, "protocol", "asgi".into())
            }
            _ => findings.lost(
                place,
                name,
                &format!("there are no workers of the class `{text}`"),
                "use threads instead: set `threads`, or make the application an ASGI one",
            ),
        },
        "preload_app" => set(
            |program| &mut program.options,
            "preload",
            (*value == Value::Bool(true)).into(),
        ),
        "reload" => set(
            |program| &mut program.options,
            "watch",
            (*value == Value::Bool(true)).into(),
        ),
        "user" | "group" if value.is_string() => {
            set(|program| &mut program.options, name, text.into())
        }
        "user" | "group" if value.is_null() => {}
        "raw_env" => {
            let all = value.as_array().cloned().unwrap_or_default();
            for variable in all.iter().filter_map(Value::as_str) {
                let (variable, value) = variable.split_once('=').unwrap_or((variable, ""));
                program
                    .environment
                    .insert(variable.to_owned(), value.into());
            }
        }
        "accesslog" if value.is_null() => {}
        "accesslog" => {
            program.access_log =
                Some(json!({"path": if text == "-" { "/dev/stdout" } else { text }}))
        }
        "certfile" | "keyfile" => certificate(name, text, program),
        "forwarded_allow_ips" => forwarded(text, program),
        // Read together, when all are known.
        "ca_certs" | "cert_reqs" => {}
        _ if NEEDLESS.contains(name) => {}
        _ => findings.lost(
            place,
            name,
            "the importer does not translate it",
            hint(name),
        ),
    }
}

/// Returns the names that get a literal at the top of the file; reports all other statements.
fn assignments(
    file: &Rc<str>,
    text: &str,
    findings: &mut Findings,
) -> Vec<(String, Value, SourceLocation)> {
    let mut found = Vec::new();
    let mut rest = text;
    let (mut counted, mut line_number) = (text, 1_usize);
    while !rest.is_empty() {
        // Counted on from the line before: a file has many lines.
        let passed = counted.len().saturating_sub(rest.len());
        line_number += counted
            .get(..passed)
            .unwrap_or_default()
            .matches('\n')
            .count();
        counted = rest;
        let place = SourceLocation {
            file: Rc::clone(file),
            line: line_number,
        };
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let said = line.trim_end();
        let is_comment = said.is_empty() || said.trim_start().starts_with('#');
        // Lines that belong to a statement above it.
        if is_comment || said.starts_with([' ', '\t', ')', ']', '}', '@']) {
            rest = after;
            continue;
        }
        if let Some(tail) = docstring(rest) {
            rest = tail;
            continue;
        }
        let assigned = said
            .split_once('=')
            .filter(|(name, value)| is_name(name.trim()) && !value.starts_with('='));
        let Some((name, _)) = assigned else {
            let word = said.split([' ', '(', ':']).next().unwrap_or(said);
            let is_import = matches!(word, "import" | "from");
            let hint = "the file is never executed; write the resulting values";
            if is_import {
                findings.note(&place, said, "it is not executed", hint);
            } else {
                findings.lost(
                    &place,
                    said,
                    "it does not assign a literal value, and the file is never executed",
                    hint,
                );
            }
            rest = after;
            continue;
        };
        let begin = rest.find('=').map_or(rest.len(), |at| at + 1);
        let mut literals = Literals::python(rest.get(begin..).unwrap_or_default());
        let value = literals.value();
        let tail = literals.rest().trim_start_matches([' ', '\t', '\r']);
        let is_over = tail.is_empty() || tail.starts_with(['\n', '#']);
        match value.filter(|_| is_over) {
            Some(value) => {
                found.push((name.trim().to_owned(), value, place));
                rest = tail.split_once('\n').map_or("", |(_, tail)| tail);
            }
            // A check of clients that is not understood must not be left out.
            None if name.trim() == "cert_reqs" => {
                let said = rest.get(begin..).unwrap_or_default().lines().next();
                let value: Value = match said.unwrap_or_default().trim() {
                    "ssl.CERT_NONE" => 0.into(),
                    "ssl.CERT_OPTIONAL" => 1.into(),
                    "ssl.CERT_REQUIRED" => 2.into(),
                    _ => Value::Null,
                };
                found.push((name.trim().to_owned(), value, place));
                rest = after;
            }
            None => {
                let hint = "the file is never executed; write the resulting value";
                findings.lost(&place, name.trim(), "its value is not a literal", hint);
                rest = after;
            }
        }
    }
    found
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The text behind a string that stands alone.
fn docstring(text: &str) -> Option<&str> {
    if !text.starts_with(['"', '\'']) {
        return None;
    }
    let mut literals = Literals::python(text);
    literals.value()?;
    let tail = literals.rest();
    Some(tail.split_once('\n').map_or("", |(_, tail)| tail))
}
