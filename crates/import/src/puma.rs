//! Puma's `config/puma.rb`: a Ruby program, of which calls with literals are read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Value, json};

use crate::fate::Fate;
use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::literal::Literals;
use crate::program::Program;
use crate::sources::{self, Sources};
use crate::words::Words;

/// Calls that have nothing to do here.
const NEEDLESS: Words = Words(
    "pidfile state_path state_permission daemonize tag quiet log_requests debug prune_bundler persistent_timeout
    worker_timeout worker_boot_timeout worker_check_interval worker_shutdown_timeout worker_culling_strategy
    queue_requests nakayoshi_fork fork_worker wait_for_less_busy_worker tcp_mode early_hints plugin first_data_timeout
    force_shutdown_after drain_on_shutdown silence_single_worker_warning extra_runtime_dependencies clear_binds!
    supported_http_methods stdout_redirect",
);

/// Calls that are carried over.
const CARRIED: Words = Words(
    "port set_default_host threads workers preload_app! environment directory rackup bind ssl_bind",
);

const NEEDLESS_WHY: &str =
    "Tutti does this automatically, or has a flag for it (`docs/reference/command-line.md`)";
const LOST_HINT: &str = "`docs/languages/ruby.md` has the hooks of a worker's life, `docs/reference/options.md` every option";

/// The fate of a call, for the table of all calls.
pub(crate) fn fate(name: &str) -> Fate {
    if CARRIED.contains(name) {
        Fate::carried()
    } else if NEEDLESS.contains(name) {
        Fate::harmless(NEEDLESS_WHY)
    } else {
        Fate::lost(LOST_HINT)
    }
}

/// Reads the calls of a file of Puma.
pub(crate) fn import(
    files: &[PathBuf],
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Value, UnreadableSource> {
    let mut program = Program::default();
    program.options.insert("type".to_owned(), "ruby".into());
    // Puma's own defaults.
    program
        .options
        .insert("script".to_owned(), "config.ru".into());
    program.options.insert("threads".to_owned(), 5.into());
    let mut host = "0.0.0.0".to_owned();
    let mut port: Option<(u64, SourceLocation)> = None;
    for path in files {
        let (file, text) = sources::text(path, sources)?;
        let folder = root(path);
        program
            .options
            .entry("working_directory")
            .or_insert_with(|| folder.display().to_string().into());
        let mut variables = BTreeMap::new();
        for call in calls(&file, &text, &mut variables, findings) {
            let Call {
                name,
                arguments,
                place,
            } = call;
            let first = arguments.first().cloned().unwrap_or_default();
            let second = arguments.get(1).cloned().unwrap_or_default();
            match name.as_str() {
                "port" => {
                    if let Some(address) = second.as_str() {
                        address.clone_into(&mut host);
                    }
                    port = as_number(&first).map(|number| (number, place));
                }
                "set_default_host" => {
                    if let Some(address) = first.as_str() {
                        address.clone_into(&mut host);
                    }
                }
                "threads" => {
                    let most = as_number(&second)
                        .or_else(|| as_number(&first))
                        .unwrap_or(5)
                        .max(1);
                    program.options.insert("threads".to_owned(), most.into());
                }
                "workers" => {
                    let count = as_number(&first).unwrap_or(0).clamp(1, 4096);
                    program.options.insert("processes".to_owned(), count.into());
                }
                "preload_app!" => {
                    program
                        .options
                        .insert("preload".to_owned(), (first != Value::Bool(false)).into());
                }
                "environment" => {
                    for variable in ["RACK_ENV", "RAILS_ENV"] {
                        program
                            .environment
                            .insert(variable.to_owned(), first.clone());
                    }
                }
                "directory" => drop(
                    program
                        .options
                        .insert("working_directory".to_owned(), first),
                ),
                "rackup" => drop(program.options.insert("script".to_owned(), first)),
                "bind" => bind(
                    first.as_str().unwrap_or_default(),
                    &place,
                    &mut program,
                    findings,
                ),
                "ssl_bind" => ssl_bind(&arguments, &place, &mut program, findings),
                name if NEEDLESS.contains(name) => {}
                name => findings.lost(
                    &place,
                    name,
                    "the importer does not translate it",
                    LOST_HINT,
                ),
            }
        }
    }
    if let Some((port, place)) = port {
        program.listen(&format!("{host}:{port}"), &place, "port", findings);
    }
    if program.addresses.is_empty() {
        program.addresses.push("*:9292".to_owned());
    }
    Ok(program.into_json("app"))
}

/// The folder of the application: the one above `config`.
fn root(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new("."));
    let is_config = folder
        .file_name()
        .is_some_and(|name| name == "config" || name == "puma");
    let root = if is_config {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    match root.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => root.to_owned(),
    }
}

/// `ssl_bind HOST, PORT, {cert: …, key: …}`
fn ssl_bind(
    arguments: &[Value],
    place: &SourceLocation,
    program: &mut Program,
    findings: &mut Findings,
) {
    let argument = |index: usize| arguments.get(index).cloned().unwrap_or_default();
    let options = argument(2);
    let file = |name: &str| options.get(name).cloned().unwrap_or_default();
    let certificate = json!({"file": file("cert"), "key": file("key")});
    let address = format!(
        "{}:{}",
        argument(0).as_str().unwrap_or_default(),
        as_number(&argument(1)).unwrap_or_default()
    );
    program.listen(&address, place, "ssl_bind", findings);
    program
        .listener
        .insert("tls".to_owned(), json!({"certificate": certificate}));
    let text = |name: &str| {
        let value = options.get(name).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    clients(
        &text("ca"),
        &text("verify_mode"),
        (place, "ssl_bind"),
        program,
        findings,
    );
}

/// The certificates of clients: no client gets in whose certificate Puma would have checked, and Tutti does not.
fn clients(
    authorities: &str,
    mode: &str,
    (place, name): (&SourceLocation, &str),
    program: &mut Program,
    findings: &mut Findings,
) {
    let verify = match mode {
        "" | "none" => return,
        "peer" => Some("optional"),
        "force_peer" => Some("required"),
        _ => None,
    };
    program.check_clients(Some(authorities), verify, (place, name), findings);
}

fn bind(address: &str, place: &SourceLocation, program: &mut Program, findings: &mut Findings) {
    let (bare, query) = address.split_once('?').unwrap_or((address, ""));
    if let Some(rest) = bare.strip_prefix("ssl://") {
        let value = |name: &str| {
            query
                .split('&')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or_default()
        };
        program.listen(rest, place, "bind", findings);
        program.listener.insert(
            "tls".to_owned(),
            json!({"certificate": {"file": value("cert"), "key": value("key")}}),
        );
        clients(
            value("ca"),
            value("verify_mode"),
            (place, "bind"),
            program,
            findings,
        );
        return;
    }
    program.listen(bare, place, "bind", findings);
}

/// A call with its literals.
struct Call {
    name: String,
    arguments: Vec<Value>,
    place: SourceLocation,
}

fn as_number(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// Returns the calls of a file, line by line. Blocks are reported and left out.
fn calls(
    file: &Rc<str>,
    text: &str,
    variables: &mut BTreeMap<String, Value>,
    findings: &mut Findings,
) -> Vec<Call> {
    let hint = "the file is never executed; write the resulting values";
    let mut calls = Vec::new();
    let mut depth = 0_usize;
    for (number, line) in text.lines().enumerate() {
        let place = SourceLocation {
            file: Rc::clone(file),
            line: number + 1,
        };
        let said = line.trim();
        let opens = said.ends_with(" do")
            || said.contains(" do |")
            || [
                "if ", "unless ", "def ", "case ", "begin", "class ", "module ",
            ]
            .iter()
            .any(|word| said.starts_with(word));
        if depth > 0 {
            depth = if said == "end" || said.starts_with("end ") {
                depth - 1
            } else {
                depth + usize::from(opens)
            };
            continue;
        }
        if said.is_empty() || said.starts_with('#') || said == "end" || said.starts_with("require")
        {
            continue;
        }
        if opens {
            depth = 1;
            findings.lost(
                &place,
                said,
                "it is not a call with literal values, and the file is never executed",
                hint,
            );
            continue;
        }
        let end = said
            .find(|character: char| {
                !(character.is_alphanumeric() || matches!(character, '_' | '!' | '?'))
            })
            .unwrap_or(said.len());
        let (name, rest) = said.split_at(end);
        let rest = rest.trim_start();
        if let Some(assigned) = rest.strip_prefix('=').filter(|rest| !rest.starts_with('=')) {
            match value(&mut Literals::ruby(assigned), variables, &place, findings) {
                Some(value) => drop(variables.insert(name.to_owned(), value)),
                None => findings.lost(&place, said, "its value is not a literal", hint),
            }
            continue;
        }
        let inner = rest.strip_prefix('(').unwrap_or(rest);
        let mut literals = Literals::ruby(inner);
        let mut arguments = Vec::new();
        let mut is_literal = !name.is_empty();
        while is_literal {
            let left = literals.rest().trim_start();
            if left.is_empty() || left.starts_with([')', '#']) {
                break;
            }
            // The rest of a Ruby call may be the members of a hash.
            let named = left.split_once(':').filter(|(key, _)| {
                key.chars()
                    .all(|character| character.is_alphanumeric() || character == '_')
                    && !key.is_empty()
            });
            if named.is_some() && !left.starts_with(':') {
                let braced = format!("{{{}}}", left.trim_end_matches(')'));
                match Literals::ruby(&braced).value() {
                    Some(members) => arguments.push(members),
                    None => is_literal = false,
                }
                break;
            }
            match value(&mut literals, variables, &place, findings) {
                Some(value) => arguments.push(value),
                None => is_literal = false,
            }
            let left = literals.rest().trim_start();
            match left.strip_prefix(',') {
                Some(more) => literals = Literals::ruby(more),
                None if left.is_empty() || left.starts_with([')', '#']) => break,
                None => is_literal = false,
            }
        }
        if is_literal {
            calls.push(Call {
                name: name.to_owned(),
                arguments,
                place,
            });
        } else {
            findings.lost(&place, said, "its values are not literals", hint);
        }
    }
    calls
}

/// A literal, a variable with one, or the default of `ENV.fetch`.
fn value(
    literals: &mut Literals<'_>,
    variables: &BTreeMap<String, Value>,
    place: &SourceLocation,
    findings: &mut Findings,
) -> Option<Value> {
    let text = literals.rest().trim_start();
    if let Some(rest) = text.strip_prefix("ENV.fetch(") {
        let mut inner = Literals::ruby(rest);
        let variable = inner.value()?;
        let left = inner.rest().trim_start();
        let (mut inner, closing) = match left.strip_prefix(',') {
            Some(more) => (Literals::ruby(more), ")"),
            None => (
                Literals::ruby(
                    left.strip_prefix(')')?
                        .trim_start()
                        .strip_prefix('{')?
                        .trim_start(),
                ),
                "}",
            ),
        };
        let default = variable_or_literal(&mut inner, variables)?;
        *literals = Literals::ruby(inner.rest().trim_start().strip_prefix(closing)?);
        let name = variable.as_str().unwrap_or_default();
        let problem =
            format!("its default {default} is used, regardless of `{name}` in the environment");
        findings.note(
            place,
            "ENV.fetch",
            &problem,
            "change the result if the environment differs",
        );
        return Some(default);
    }
    variable_or_literal(literals, variables)
}

fn variable_or_literal(
    literals: &mut Literals<'_>,
    variables: &BTreeMap<String, Value>,
) -> Option<Value> {
    let text = literals.rest().trim_start();
    let end = text
        .find(|character: char| !(character.is_alphanumeric() || character == '_'))
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if let Some(value) = variables.get(word) {
        *literals = Literals::ruby(rest);
        return Some(value.clone());
    }
    literals.value()
}
