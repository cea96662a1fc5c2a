//! gunicorn's configuration file: a Python program, of which the assignments of literals are read.

use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::fate::Fate;
use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::literal::{self, Literals};
use crate::output::{slug, when};
use crate::program::{self, Program};
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
    forwarded_allow_ips ca_certs cert_reqs timeout",
);

/// Settings that decide who may connect: a text that may set one, and is not read, makes its value unknown.
const CLOSING: Words = Words("bind cert_reqs ssl_context");

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
        "umask" => program::SOCKET_HINT,
        _ => LOST_HINT,
    }
}

/// The fate of a setting, for the table of all settings.
pub(crate) fn fate(name: &str) -> Fate {
    if CARRIED.contains(name) || NUMBERS.iter().any(|(known, ..)| *known == name) {
        Fate::carried()
    } else if NEEDLESS.contains(name) {
        program::needless()
    } else if name == "ssl_context" {
        Fate::closed("write `tls` of a listener")
    } else {
        Fate::lost(hint(name))
    }
}

const NO_NUMBER: &str = "its value is not a number";

/// A setting with its value; `None` where that is not known.
struct Setting {
    name: String,
    value: Option<Value>,
    place: SourceLocation,
}

/// The settings of all files, each once.
struct Settings(Vec<Setting>);

impl Settings {
    fn find(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.name == name)
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
    let mut settings = Settings(Vec::new());
    for path in files {
        let (file, text) = sources::text(path, sources)?;
        for setting in assignments(&file, &text, findings) {
            // A later one replaces an earlier one, as in Python.
            settings.0.retain(|known| known.name != setting.name);
            settings.0.push(setting);
        }
    }
    let mut options = Map::new();
    let mut is_named = false;
    let mut path: Vec<String> = Vec::new();
    for Setting { name, value, place } in &settings.0 {
        let Some(value) = value else {
            continue;
        };
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
    timeout(&settings, &mut program, findings);
    let file = files
        .first()
        .map_or_else(String::new, |path| path.display().to_string());
    if !is_named {
        let hint = "write `wsgi_app = \"module:callable\"` into it, or `module` into the result";
        let place = SourceLocation {
            file: file.as_str().into(),
            line: 1,
        };
        findings.lost(
            &place,
            "wsgi_app",
            "the file does not name the application to run",
            hint,
        );
        options.insert("module".to_owned(), "application".into());
    }
    let binding = settings.find("bind").map(|bind| &bind.place);
    program.listen_by_default("127.0.0.1:8000", binding, findings);
    forwarded(&settings, &mut program);
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
    // Not 0: a response says that the connection stays open, which must then be so for a moment.
    (
        "keepalive",
        |program| &mut program.http,
        "idle_timeout",
        [1, u64::MAX, 2],
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

/// `cert_reqs`, `ca_certs` and `ssl_context`: no client gets in whose certificate gunicorn would have checked, and Tutti does not.
fn client_certificates(settings: &Settings, program: &mut Program, findings: &mut Findings) {
    let of = |name: &str| settings.find(name);
    let own = of("ssl_context").filter(|own| own.value != Some(Value::Null));
    let wanted = of("cert_reqs").filter(|wanted| wanted.value != Some(0.into()));
    let authorities = of("ca_certs").and_then(|file| file.value.as_ref()?.as_str());
    for Setting { name, value, place } in own.into_iter().chain(wanted) {
        let verify = match value.as_ref().and_then(Value::as_u64) {
            Some(1) if name == "cert_reqs" => Some("optional"),
            Some(2) if name == "cert_reqs" => Some("required"),
            _ => None,
        };
        let tls = program.listener.get_mut("tls");
        let tls = tls.and_then(Value::as_object_mut);
        let how = (authorities, verify);
        program.is_closed |= !program::check_clients(tls, how, (place, name), findings);
    }
}

/// `timeout`, which limits a request only where a worker has no other; else it is for workers that hang.
fn timeout(settings: &Settings, program: &mut Program, findings: &mut Findings) {
    let Some(setting) = settings.find("timeout") else {
        return;
    };
    let Some(value) = &setting.value else {
        return;
    };
    let Some(seconds) = value.as_u64() else {
        let hint = "write the number of seconds itself";
        findings.lost(&setting.place, "timeout", NO_NUMBER, hint);
        return;
    };
    let is = |name: &str, values: &[Value]| {
        let setting = settings.find(name);
        setting.is_none_or(|one| one.value.as_ref().is_some_and(|it| values.contains(it)))
    };
    let is_sync = is(
        "worker_class",
        &["sync".into(), "gunicorn.workers.sync.SyncWorker".into()],
    );
    if is_sync && is("threads", &[0.into(), 1.into()]) {
        program.limits.insert("timeout".to_owned(), seconds.into());
    } else if seconds > 0 {
        let problem = "it is not a limit of requests with these workers, but ends those that hang";
        let hint = "set `timeout` of the application's `limits` to end long requests";
        findings.note(&setting.place, "timeout", problem, hint);
    }
}

/// The proxies that gunicorn believes; without the setting those of this machine, and always the client of a Unix socket.
fn forwarded(settings: &Settings, program: &mut Program) {
    let setting = settings.find("forwarded_allow_ips");
    let named: Vec<&str> = match setting.map(|setting| setting.value.as_ref()) {
        None => vec!["127.0.0.1", "::1"],
        Some(Some(Value::String(text))) => text.split(',').collect(),
        Some(Some(Value::Array(all))) => all.iter().filter_map(Value::as_str).collect(),
        Some(_) => Vec::new(),
    };
    let named = named.into_iter().map(str::trim);
    let mut sources: Vec<&str> = named.filter(|source| !source.is_empty()).collect();
    let is_asgi = program.options.get("protocol") == Some(&"asgi".into());
    if sources.contains(&"*") {
        sources = vec!["0.0.0.0/0", "::/0", "unix"];
    } else if program.has_unix() && !is_asgi {
        sources.push("unix");
    }
    let fields = settings.find("secure_scheme_headers");
    let is_usual = fields.is_none_or(|fields| {
        let named = fields.value.as_ref().and_then(Value::as_object);
        let has_it = |name: &String| name.eq_ignore_ascii_case("X-Forwarded-Proto");
        named.is_some_and(|named| named.keys().any(has_it))
    });
    if sources.is_empty() || !(is_usual || is_asgi) {
        return;
    }
    let mut forwarded = when("source", sources);
    forwarded.insert("protocol".to_owned(), "X-Forwarded-Proto".into());
    // uvicorn also takes the client's address from them.
    if is_asgi {
        forwarded.insert("client_ip".to_owned(), "X-Forwarded-For".into());
        forwarded.insert("recursive".to_owned(), true.into());
    }
    program.listener.extend(when("forwarded", forwarded));
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
        if value.as_u64().is_none() {
            findings.lost(place, name, NO_NUMBER, "write the number itself");
        }
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
            let all = all.iter().filter_map(Value::as_str);
            for address in all.flat_map(|all| all.split(',')).map(str::trim) {
                let with_port = if address.contains(':') || address.starts_with('/') {
                    address.to_owned()
                } else {
                    format!("{address}:8000")
                };
                program.listen(&with_port, &Map::new(), (place, "bind"), findings);
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
        // Read together, when all are known.
        "ca_certs" | "cert_reqs" | "ssl_context" | "forwarded_allow_ips" | "timeout" => {}
        _ if NEEDLESS.contains(name) => {}
        _ => findings.lost(
            place,
            name,
            "the importer does not translate it",
            hint(name),
        ),
    }
}

/// Returns the settings that get a literal at the top of the file, and those that another text may set; reports all other statements.
fn assignments(file: &Rc<str>, text: &str, findings: &mut Findings) -> Vec<Setting> {
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
            found.extend(mentioned(said, &place));
            rest = after;
            continue;
        }
        if let Some(tail) = docstring(rest) {
            rest = tail;
            continue;
        }
        // The name may have a type.
        let assigned = said.split_once('=').map(|(name, value)| {
            let name = name.split_once(':').map_or(name, |(name, _)| name);
            (name.trim(), value)
        });
        let begins_block = Words("else try finally");
        let assigned = assigned.filter(|(name, value)| {
            is_name(name) && !begins_block.contains(name) && !value.starts_with('=')
        });
        let Some((name, _)) = assigned else {
            let word = said.split([' ', '(', ':']).next().unwrap_or(said);
            let is_import = matches!(word, "import" | "from") && !said.contains('*');
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
            found.extend(mentioned(said, &place));
            rest = after;
            continue;
        };
        let begin = rest.find('=').map_or(rest.len(), |at| at + 1);
        let mut literals = Literals::python(rest.get(begin..).unwrap_or_default());
        let value = literals.value();
        let tail = literals.rest().trim_start_matches([' ', '\t', '\r']);
        let is_over = tail.is_empty() || tail.starts_with(['\n', '#']);
        let mut setting = Setting {
            name: name.to_owned(),
            value: value.filter(|_| is_over),
            place,
        };
        rest = match &setting.value {
            Some(_) => tail.split_once('\n').map_or("", |(_, tail)| tail),
            None => after,
        };
        if setting.value.is_none() && name == "cert_reqs" {
            let value = said.split_once('=').map_or("", |(_, value)| value);
            let value = value.split('#').next().unwrap_or_default();
            setting.value = match value.trim() {
                "ssl.CERT_NONE" => Some(0.into()),
                "ssl.CERT_OPTIONAL" => Some(1.into()),
                "ssl.CERT_REQUIRED" => Some(2.into()),
                _ => None,
            };
        }
        // Those that decide who may connect are reported with their effect.
        if setting.value.is_none() && !CLOSING.contains(name) {
            let hint = "the file is never executed; write the resulting value";
            findings.lost(&setting.place, name, "its value is not a literal", hint);
        }
        found.push(setting);
    }
    found
}

/// The settings of [`CLOSING`] that a line may set.
fn mentioned(line: &str, place: &SourceLocation) -> Vec<Setting> {
    let line = line.split('#').next().unwrap_or_default();
    let begin = line.trim_start().split([' ', '(']).next();
    let defines = Words("def async class import from for with del global exec eval");
    let is_definition = begin.is_some_and(|word| defines.contains(word));
    // The text before the last value that is assigned.
    let end = literal::assignments(line).next_back().unwrap_or(0);
    let setting = if is_definition {
        line
    } else {
        line.get(..end).unwrap_or_default()
    };
    let is_any = is_definition && setting.contains("import") && setting.contains('*');
    let words = |name: &&'static str| {
        let mut words = setting.split(|character: char| {
            !(character.is_alphanumeric() || matches!(character, '_' | '.'))
        });
        words.any(|word| word == *name) || is_any && *name == "cert_reqs"
    };
    let names = CLOSING.iter().filter(words);
    names
        .map(|name| Setting {
            name: name.to_owned(),
            value: None,
            place: place.clone(),
        })
        .collect()
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
