//! Puma's `config/puma.rb`: a Ruby program, of which calls with literals are read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::fate::Fate;
use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::literal::{self, Literals};
use crate::output::when;
use crate::program::{self, Program};
use crate::sources::{self, Sources};
use crate::words::Words;

/// Calls that have nothing to do here.
const NEEDLESS: Words = Words(
    "pidfile state_path state_permission daemonize tag quiet log_requests debug prune_bundler persistent_timeout
    worker_timeout worker_boot_timeout worker_check_interval worker_shutdown_timeout worker_culling_strategy
    queue_requests nakayoshi_fork fork_worker wait_for_less_busy_worker tcp_mode early_hints plugin first_data_timeout
    force_shutdown_after drain_on_shutdown silence_single_worker_warning extra_runtime_dependencies stdout_redirect",
);

/// Calls that are carried over.
const CARRIED: Words = Words(
    "port set_default_host threads workers preload_app! environment directory rackup bind ssl_bind clear_binds!
    supported_http_methods http_content_length_limit",
);

/// Calls that name an address, or read another file, which may do so.
const BINDING: Words =
    Words("bind ssl_bind port clear_binds! bind_to_activated_sockets load instance_eval");

const LOST_HINT: &str = "`docs/languages/ruby.md` has the hooks of a worker's life, `docs/reference/options.md` every option";

/// The fate of a call, for the table of all calls.
pub(crate) fn fate(name: &str) -> Fate {
    if CARRIED.contains(name) {
        Fate::carried()
    } else if NEEDLESS.contains(name) {
        program::needless()
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
    let mut reading = Reading {
        program,
        host: Some("0.0.0.0".to_owned()),
        binding: None,
    };
    for path in files {
        let (file, text) = sources::text(path, sources)?;
        let folder = root(path);
        reading
            .program
            .options
            .entry("working_directory")
            .or_insert_with(|| folder.display().to_string().into());
        for statement in statements(&file, &text, findings) {
            match statement {
                Statement::Call(call) => reading.take(&call, findings),
                Statement::Skipped(text, place) => reading.skip(&text, &place, findings),
            }
        }
    }
    Ok(reading.finish(findings))
}

struct Reading {
    program: Program,
    /// The address of a `port` without one; `None` if it is not known.
    host: Option<String>,
    /// The first call that names an address, or may do so.
    binding: Option<SourceLocation>,
}

impl Reading {
    fn take(&mut self, call: &Call, findings: &mut Findings) {
        let Call {
            name,
            arguments,
            place,
        } = call;
        let first = arguments.first().cloned().unwrap_or_default();
        let second = arguments.get(1).cloned().unwrap_or_default();
        let program = &mut self.program;
        if BINDING.contains(name) {
            self.binding.get_or_insert_with(|| place.clone());
        }
        let mut set = |option: &str, value: Value| {
            drop(program.options.insert(option.to_owned(), value));
        };
        match name.as_str() {
            "port" => self.port(&first, &second, place, findings),
            "set_default_host" => self.host = first.as_str().map(str::to_owned),
            "threads" => {
                let most = as_number(&second)
                    .or_else(|| as_number(&first))
                    .unwrap_or(5)
                    .max(1);
                set("threads", most.into());
            }
            "workers" => {
                let count = as_number(&first).unwrap_or(0).clamp(1, 4096);
                set("processes", count.into());
            }
            "preload_app!" => set("preload", (first != Value::Bool(false)).into()),
            "environment" => {
                for variable in ["RACK_ENV", "RAILS_ENV"] {
                    program
                        .environment
                        .insert(variable.to_owned(), first.clone());
                }
            }
            "directory" => set("working_directory", first),
            "rackup" => set("script", first),
            "clear_binds!" => program.addresses.clear(),
            "bind" => self.bind(first.as_str().unwrap_or_default(), place, findings),
            "ssl_bind" => self.ssl_bind(arguments, place, findings),
            "supported_http_methods" => self.methods(&first, place, findings),
            "http_content_length_limit" => match as_number(&first) {
                Some(size) => drop(program.http.insert("max_body_size".to_owned(), size.into())),
                None => findings.lost(
                    place,
                    name,
                    "its value is not a number of bytes",
                    "set `max_body_size` of `settings.http`",
                ),
            },
            name if NEEDLESS.contains(name) => {}
            name => findings.lost(place, name, "the importer does not translate it", LOST_HINT),
        }
    }

    /// A text that is not read, and reported: a call in it may have named an address or a method.
    fn skip(&mut self, text: &str, place: &SourceLocation, findings: &mut Findings) {
        let mut words = words(text);
        if words.clone().any(|word| BINDING.contains(word)) {
            self.binding.get_or_insert_with(|| place.clone());
        }
        if words.clone().any(|word| word == "set_default_host") {
            self.host = None;
        }
        if words.any(|word| word == "supported_http_methods") {
            self.methods(&Value::Null, place, findings);
        }
    }

    /// `port NUMBER, HOST`: Puma binds it at once, at the default address of this moment.
    fn port(
        &mut self,
        number: &Value,
        host: &Value,
        place: &SourceLocation,
        findings: &mut Findings,
    ) {
        let host = match host {
            Value::Null => self.host.clone(),
            own => own.as_str().map(str::to_owned),
        };
        match (host, as_number(number)) {
            (Some(host), Some(number)) => {
                let own = Map::new();
                let address = format!("{host}:{number}");
                self.program
                    .listen(&address, &own, (place, "port"), findings);
            }
            (host, _) => {
                let problem = match host {
                    None => "its address is not known: Tutti does not listen there",
                    Some(_) => "it is not a number: Tutti does not listen there",
                };
                let hint = "write the address and the port as literals";
                findings.lost(place, "port", problem, hint);
            }
        }
    }

    fn bind(&mut self, address: &str, place: &SourceLocation, findings: &mut Findings) {
        let (bare, query) = address.split_once('?').unwrap_or((address, ""));
        let value = |name: &str| {
            query
                .split('&')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or_default()
        };
        let place = (place, "bind");
        if let Some(rest) = bare.strip_prefix("ssl://") {
            self.encrypted(rest, value, place, findings);
            return;
        }
        let own = Map::new();
        self.program.listen(bare, &own, place, findings);
        let is_for_all = value("umask").trim_matches('0').is_empty() && !value("umask").is_empty()
            || value("mode").ends_with(['6', '7']);
        if bare.starts_with("unix:") && !bare.starts_with("unix://@") && !is_for_all {
            program::report_socket_mode(place, findings);
        }
    }

    /// `ssl_bind HOST, PORT, {cert: …, key: …}`
    fn ssl_bind(&mut self, arguments: &[Value], place: &SourceLocation, findings: &mut Findings) {
        let argument = |index: usize| arguments.get(index).cloned().unwrap_or_default();
        let address = format!(
            "{}:{}",
            argument(0).as_str().unwrap_or_default(),
            as_number(&argument(1)).unwrap_or_default()
        );
        let options = argument(2);
        let value = |name: &str| {
            options
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        self.encrypted(&address, value, (place, "ssl_bind"), findings);
    }

    /// Listens with TLS. No client gets in whose certificate Puma would have checked, and Tutti does not.
    fn encrypted<'v>(
        &mut self,
        address: &str,
        value: impl Fn(&str) -> &'v str,
        place: (&SourceLocation, &str),
        findings: &mut Findings,
    ) {
        let certificate = json!({"file": value("cert"), "key": value("key")});
        let mut tls = when("certificate", certificate);
        let verify = match value("verify_mode") {
            "" | "none" => None,
            "peer" => Some(Some("optional")),
            "force_peer" => Some(Some("required")),
            _ => Some(None),
        };
        let is_open = verify.is_none_or(|verify| {
            let how = (Some(value("ca")), verify);
            program::check_clients(Some(&mut tls), how, place, findings)
        });
        if is_open {
            self.program
                .listen(address, &when("tls", tls), place, findings);
        } else {
            self.program.close(address);
        }
    }

    /// `supported_http_methods`, which are all, or a list.
    fn methods(&mut self, value: &Value, place: &SourceLocation, findings: &mut Findings) {
        let named = value.as_array().map(|all| {
            all.iter()
                .map(|one| one.as_str().map(str::to_owned))
                .collect::<Option<Vec<String>>>()
        });
        match named.flatten().filter(|named| !named.is_empty()) {
            Some(named) => self.program.methods = named,
            None if value == "any" => self.program.methods.clear(),
            None => {
                self.program.is_closed = true;
                findings.lost(
                    place,
                    "supported_http_methods",
                    "the methods are not known: Tutti does not listen",
                    "write `:any` or a list of literals, and import again",
                );
            }
        }
    }

    fn finish(mut self, findings: &mut Findings) -> Value {
        self.program
            .listen_by_default("*:9292", self.binding.as_ref(), findings);
        self.program.into_json("app")
    }
}

/// The words of a text without its comments.
fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| {
        line.split(|character: char| !(character.is_alphanumeric() || character == '_'))
    })
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

enum Statement {
    Call(Call),
    /// A text that is reported and left out.
    Skipped(String, SourceLocation),
}

const LITERAL_HINT: &str = "the file is never executed; write the resulting values";

/// Returns the statements of a file. Blocks are reported and left out.
fn statements(file: &Rc<str>, text: &str, findings: &mut Findings) -> Vec<Statement> {
    let mut variables = BTreeMap::new();
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let place = SourceLocation {
            file: Rc::clone(file),
            line: number + 1,
        };
        let said = line.trim();
        if said == "__END__" {
            break;
        }
        if said == "=begin" {
            lines.find(|(_, line)| line.trim() == "=end");
            continue;
        }
        if said.is_empty() || said.starts_with('#') || said == "end" || said.starts_with("require")
        {
            continue;
        }
        if opens(said) {
            findings.lost(
                &place,
                said,
                "it is not a call with literal values, and the file is never executed",
                LITERAL_HINT,
            );
            let mut whole = said.to_owned();
            let mut depth = 1_usize;
            while depth > 0
                && let Some((_, line)) = lines.next()
            {
                let said = line.trim();
                depth = if said == "end" || said.starts_with("end ") {
                    depth - 1
                } else {
                    depth + usize::from(opens(said))
                };
                whole = whole + "\n" + said;
            }
            forget(&whole, &mut variables);
            found.push(Statement::Skipped(whole, place));
            continue;
        }
        let mut whole = said.to_owned();
        let mut open = Open::default();
        let mut goes_on = open.goes_on(said);
        while goes_on && let Some((_, line)) = lines.next() {
            goes_on = open.goes_on(line);
            whole = whole + "\n" + line.trim();
        }
        found.extend(statement(whole, place, &mut variables, findings));
    }
    found
}

/// Forgets the variables that may have another value after a text that is not read.
fn forget(text: &str, variables: &mut BTreeMap<String, Value>) {
    for line in text.lines() {
        if let Some(at) = literal::assignments(line).next() {
            words(line.get(..at).unwrap_or_default()).for_each(|word| drop(variables.remove(word)));
        }
    }
}

/// True if `end` closes what a line begins.
fn opens(said: &str) -> bool {
    let is_block = said.ends_with(" do")
        || said.contains(" do |")
        || [
            "if ", "unless ", "def ", "case ", "begin", "class ", "module ",
        ]
        .iter()
        .any(|word| said.starts_with(word));
    is_block && !said.ends_with(" end")
}

/// The end of the lines of a statement that have been read.
#[derive(Default)]
struct Open {
    /// Brackets that are open.
    depth: usize,
    quote: Option<char>,
    /// The last character ends no statement.
    has_comma: bool,
}

impl Open {
    /// Reads a line; true if the statement goes on in the next one.
    fn goes_on(&mut self, line: &str) -> bool {
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            match (character, self.quote) {
                ('\\', Some(_)) => drop(characters.next()),
                (_, Some(open)) => self.quote = self.quote.filter(|_| character != open),
                ('#', None) => break,
                ('"' | '\'', None) => self.quote = Some(character),
                ('(' | '[' | '{', None) => self.depth += 1,
                (')' | ']' | '}', None) => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if !character.is_whitespace() {
                self.has_comma = character == ',';
            }
        }
        self.quote.is_none() && (self.depth > 0 || self.has_comma)
    }
}

/// Reads a statement that is not a block: an assignment, of which nothing is returned, or a call.
fn statement(
    whole: String,
    place: SourceLocation,
    variables: &mut BTreeMap<String, Value>,
    findings: &mut Findings,
) -> Option<Statement> {
    let said = whole.as_str();
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
            None => {
                variables.remove(name);
                findings.lost(&place, said, "its value is not a literal", LITERAL_HINT);
            }
        }
        return None;
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
            let braced = format!("{{{}\n}}", left.trim_end_matches(')'));
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
            Some(more) => literals = Literals::ruby(more.trim_start()),
            None if left.is_empty() || left.starts_with([')', '#']) => break,
            None => is_literal = false,
        }
    }
    // A condition behind the call.
    let behind = literals.rest().trim_start();
    if let Some(behind) = behind.strip_prefix(')').map(str::trim_start) {
        is_literal &= behind.is_empty() || behind.starts_with('#');
    }
    if is_literal {
        return Some(Statement::Call(Call {
            name: name.to_owned(),
            arguments,
            place,
        }));
    }
    let first = said.lines().next().unwrap_or_default();
    findings.lost(&place, first, "its values are not literals", LITERAL_HINT);
    forget(said, variables);
    Some(Statement::Skipped(whole, place))
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
