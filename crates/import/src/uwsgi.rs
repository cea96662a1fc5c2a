//! uWSGI: one application of Python, Perl or Ruby, from ini, YAML, JSON or XML.

pub(crate) mod options;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::fate::Fate;
use crate::finding::{Findings, SourceLocation, UnreadableSource};
use crate::output::slug;
use crate::program::{self, Program};
use crate::sources::{self, Sources};
use crate::units::ANY_BODY;
use crate::words::Words;

/// Options that have nothing to do here.
const NEEDLESS: Words = Words(
    "master vacuum die-on-term need-app single-interpreter enable-threads thunder-lock buffer-size pidfile daemonize
    daemonize2 logto logto2 log-master disable-logging log-date log-format close-on-exec
    close-on-exec2 strict auto-procname procname-prefix procname stats stats-http memory-report listen plugins-dir
    plugin-dir plugins plugin no-orphans ignore-sigpipe ignore-write-errors disable-write-exception threads-stacksize
    post-buffering http-timeout http-keepalive so-keepalive py-call-uwsgi-fork-hooks socket-timeout safe-pidfile
    worker-reload-mercy reload-mercy cheaper-algo cheaper-initial cheaper-step offload-threads http-to
    http-processes manage-script-name autoload no-default-app abstract-socket",
);

/// Options that are carried over, or say what others do.
const CARRIED: Words = Words(
    "http http-socket http11-socket socket s module wsgi w callable wsgi-file file psgi rack chdir chdir2 pythonpath
    python-path pp home virtualenv venv pyhome H processes workers p cheaper threads uid gid harakiri max-requests
    reload-on-rss evil-reload-on-rss limit-post env static-map check-static master set-placeholder set-ph set cron
    unique-cron cron2 attach-daemon mule py-autoreload python-autoreload py-auto-reload lazy-apps lazy uwsgi-socket",
);

/// Options that read another file.
const FILES: Words = Words("ini include inherit yaml yml json js xml xmlconfig config");

/// Files that files name: two that name each other would never end.
const MOST_FILES: usize = 64;

/// Options that are lost, with a problem and a cure of their own.
const LOST: &[(Words, &str, &str)] = &[
    (
        Words("mount"),
        "applications mounted at paths are not carried over",
        "write a target for each, with its `prefix`, and a step that passes its path there (`docs/languages/python.md`)",
    ),
    (
        Words(
            "touch-reload touch-chain-reload touch-workers-reload fs-reload",
        ),
        "the application is not replaced when this file or its code changes",
        "`tutti restart NAME` replaces its processes without losing a request; `watch` of the application does so when its code changes",
    ),
    (
        Words("static-safe"),
        "links from a served folder to this one are not followed",
        "serve this folder at a path of its own, or set `chroot` of the share to a folder that contains both",
    ),
    (
        Words("cgroup cgroup-opt chroot"),
        "processes are not bounded or shut in by it",
        "`isolation` of an application has `cgroup` and `rootfs` (`docs/operate/isolation.md`)",
    ),
    (
        Words(
            "static-expires static-expires-mtime static-expires-type static-expires-type-mtime
            static-expires-path-info static-expires-path-info-mtime static-expires-uri static-expires-uri-mtime",
        ),
        "files are sent without a lifetime, so browsers ask for them again",
        "set `Cache-Control` with `response_headers` of the share (`docs/http/delivery.md`)",
    ),
];

const LOST_HINT: &str = "`docs/reference/options.md` lists every option";

/// True for an option that may refuse requests, or reads a file with such options.
fn closes(name: &str) -> bool {
    let is_route = ["route", "error-route", "response-route", "final-route"]
        .iter()
        .any(|kind| name == *kind || name.starts_with(&format!("{kind}-")));
    let is_file = FILES.contains(name) || name.starts_with("inject-");
    is_route || is_file || name.contains("auth") || name == "static-skip-ext"
}

/// The fate of an option, for the table of all options.
pub(crate) fn fate(name: &str) -> Fate {
    let lost = LOST.iter().find(|(names, ..)| names.contains(name));
    if let Some((_, _, hint)) = lost {
        Fate::lost(hint)
    } else if CARRIED.contains(name) {
        Fate::carried()
    } else if let Some((_, hint)) = work::lost(name) {
        Fate::lost(hint)
    } else if matches!(name, "chmod-socket" | "chmod" | "chown-socket") {
        Fate::different(program::SOCKET_HINT)
    } else if FILES.contains(name) {
        Fate::carried()
    } else if closes(name) {
        Fate::closed("write it as `routes`, and a listener that leads to them")
    } else if NEEDLESS.contains(name) {
        program::needless()
    } else {
        Fate::lost(LOST_HINT)
    }
}

/// An option with its value.
struct Line {
    name: String,
    value: String,
    place: SourceLocation,
}

/// Reads one file of uWSGI.
pub(crate) fn import(
    files: &[PathBuf],
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Value, UnreadableSource> {
    let mut lines = Vec::new();
    let mut name = "app".to_owned();
    let mut left = MOST_FILES;
    for path in files {
        let (file, text) = sources::text(path, sources)?;
        name = path
            .file_stem()
            .map_or_else(|| "app".to_owned(), |stem| slug(&stem.to_string_lossy()));
        let ending = path.extension().map(|ending| ending.to_string_lossy());
        let ending = ending.unwrap_or_default().to_ascii_lowercase();
        let own = read(path, (&file, &text), (&ending, "uwsgi"))?;
        expand(own, path, (sources, &mut left), findings, &mut lines);
    }
    let placeholders = placeholders(&lines);
    resolve(&mut lines);
    let mut program = Program::default();
    let mut reading = Reading {
        python: Map::new(),
        path: Vec::new(),
        chdir: None,
        callable: None,
        wsgi_file: None,
        mounts: Vec::new(),
        mules: Vec::new(),
        cheaper: None,
        processes: 1,
        is_socket: None,
        socket_file: None,
        socket_mode: None,
        master: false,
        lazy: false,
        placeholders,
    };
    for line in &lines {
        if !reading.placeholders.contains(&line.name) {
            reading.take(line, &mut program, findings);
        }
    }
    for (file, place) in std::mem::take(&mut reading.mules) {
        let home = reading.python.get("home").and_then(Value::as_str);
        let chdir = reading.chdir.as_deref();
        work::mule(
            (&file, &place),
            (home, chdir),
            sources,
            &mut program,
            findings,
        );
    }
    reading.finish(&mut program, &lines, findings);
    Ok(program.into_json(&name))
}

/// Puts the options of the files that options name in the place of these. An option whose file is not read stays: it closes.
fn expand(
    own: Vec<Line>,
    path: &Path,
    (sources, left): (&dyn Sources, &mut usize),
    findings: &mut Findings,
    lines: &mut Vec<Line>,
) {
    for line in own {
        let name = option_name(&line.name);
        let inner = match FILES.contains(&name) && *left > 0 {
            true => included(&name, &line.value, path, sources),
            false => None,
        };
        let Some((found, inner)) = inner else {
            lines.push(line);
            continue;
        };
        if !line.value.starts_with(['/', ':']) {
            let problem = format!("its options are read from `{}`", found.display());
            let hint = "import that file itself if uWSGI is started in another folder";
            findings.note(&line.place, &name, &problem, hint);
        }
        *left -= 1;
        expand(inner, &found, (sources, left), findings, lines);
    }
}

/// The file that an option of another file names, perhaps with a section, and its options; `None` if it is not read.
fn included(
    option: &str,
    value: &str,
    path: &Path,
    sources: &dyn Sources,
) -> Option<(PathBuf, Vec<Line>)> {
    let (file, section) = value.split_once(':').unwrap_or((value, "uwsgi"));
    let found = match file {
        "" => path.to_owned(),
        file => path.parent()?.join(file),
    };
    let ending = match option {
        "ini" | "yaml" | "yml" | "json" | "js" | "xml" => option.to_owned(),
        "xmlconfig" => "xml".to_owned(),
        _ => found.extension()?.to_string_lossy().to_ascii_lowercase(),
    };
    let is_known = matches!(ending.as_str(), "yaml" | "yml" | "json" | "js" | "xml");
    if !(ending == "ini" || is_known && section == "uwsgi") {
        return None;
    }
    let (name, text) = sources::text(&found, sources).ok()?;
    let lines = read(&found, (&name, &text), (&ending, section)).ok()?;
    (!lines.is_empty()).then_some((found, lines))
}

/// An option's name as uWSGI has it in its list.
fn option_name(name: &str) -> String {
    name.trim_start_matches('-').replace('_', "-")
}

/// The options of a file of this kind and section, with the values of `%d` and `%n`.
fn read(
    path: &Path,
    (file, text): (&Rc<str>, &str),
    (ending, section): (&str, &str),
) -> Result<Vec<Line>, UnreadableSource> {
    let mut lines = match ending {
        "yaml" | "yml" => structured(file, text, tutti_config::Format::Yaml)?,
        "json" | "js" => structured(file, text, tutti_config::Format::Json)?,
        "xml" => xml(file, text)?,
        _ => {
            let entries = crate::ini::parse(file, text)?;
            let own = entries.into_iter().filter(|entry| {
                entry.section == section || entry.section.is_empty() && section == "uwsgi"
            });
            own.map(|entry| Line {
                name: entry.name,
                value: entry.value,
                place: entry.place,
            })
            .collect()
        }
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    for line in &mut lines {
        line.value = line
            .value
            .replace("%d", &format!("{}/", folder.display()))
            .replace("%n", &name);
    }
    Ok(lines)
}

fn structured(
    file: &Rc<str>,
    text: &str,
    format: tutti_config::Format,
) -> Result<Vec<Line>, UnreadableSource> {
    let document =
        tutti_config::read(text.as_bytes(), format).map_err(|faults| UnreadableSource {
            file: file.to_string(),
            line: 0,
            problem: faults.to_string(),
            hint: None,
        })?;
    let mut lines = Vec::new();
    let value: Value = serde_json::from_str(&document.root().to_json()).unwrap_or_default();
    let Some(options) = value.get("uwsgi").and_then(Value::as_object) else {
        return Err(UnreadableSource {
            file: file.to_string(),
            line: 0,
            problem: "there is no `uwsgi` in it".to_owned(),
            hint: None,
        });
    };
    let mut first_lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let begun = line.trim_start().trim_start_matches(['"', '\'']);
        let name = begun
            .split([':', '"', '\'', ' '])
            .next()
            .unwrap_or_default();
        first_lines.entry(name).or_insert(number);
    }
    for (name, value) in options {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        let line = first_lines.get(name.as_str()).copied();
        for value in values {
            lines.push(Line {
                name: name.clone(),
                value: value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned),
                place: SourceLocation {
                    file: Rc::clone(file),
                    line: line.map_or(1, |line| line + 1),
                },
            });
        }
    }
    Ok(lines)
}

/// `<uwsgi><name>value</name><flag/></uwsgi>`, the only shape that uWSGI reads.
fn xml(file: &Rc<str>, text: &str) -> Result<Vec<Line>, UnreadableSource> {
    let mut lines = Vec::new();
    let mut rest = text;
    let (mut counted, mut line) = (text, 1_usize);
    while let Some((_, after)) = rest.split_once('<') {
        let passed = counted.len().saturating_sub(after.len());
        line += counted
            .get(..passed)
            .unwrap_or_default()
            .matches('\n')
            .count();
        counted = after;
        let place = SourceLocation {
            file: Rc::clone(file),
            line,
        };
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, tail)| tail);
            continue;
        }
        let Some((tag, tail)) = after.split_once('>') else {
            return Err(UnreadableSource {
                file: file.to_string(),
                line: place.line,
                problem: "a `<` is not closed".to_owned(),
                hint: None,
            });
        };
        rest = tail;
        let name = tag
            .trim_end_matches('/')
            .split_whitespace()
            .next()
            .unwrap_or_default();
        if tag.starts_with(['/', '?', '!']) || matches!(name, "uwsgi" | "") {
            continue;
        }
        let value = if tag.ends_with('/') {
            "true".to_owned()
        } else {
            let closing = format!("</{name}>");
            let Some((value, tail)) = tail.split_once(closing.as_str()) else {
                return Err(UnreadableSource {
                    file: file.to_string(),
                    line: place.line,
                    problem: format!("`<{name}>` is not closed"),
                    hint: None,
                });
            };
            rest = tail;
            value
                .trim()
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&amp;", "&")
        };
        lines.push(Line {
            name: name.to_owned(),
            value,
            place,
        });
    }
    Ok(lines)
}

/// Puts values in the place of `%(name)` in the order of the file, as uWSGI does.
fn resolve(lines: &mut [Line]) {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for line in lines {
        line.name = option_name(&line.name);
        let mut value = String::new();
        for (index, part) in line.value.split("%(").enumerate() {
            match part.split_once(')').filter(|_| index > 0) {
                Some((name, rest)) => {
                    let held = known.get(name).cloned();
                    value.push_str(&held.unwrap_or_else(|| format!("%({name})")));
                    value.push_str(rest);
                }
                None if index > 0 => value.extend(["%(", part]),
                None => value.push_str(part),
            }
        }
        // A value that doubles itself line by line would grow without end.
        if value.len() > 4096 {
            value.clone_from(&line.value);
        }
        line.value = value;
        let (key, held) = match (line.name.as_str(), line.value.split_once('=')) {
            ("set-placeholder" | "set-ph" | "set", Some((key, held))) => {
                (key.trim().to_owned(), held.trim().to_owned())
            }
            _ => (line.name.clone(), line.value.clone()),
        };
        known.insert(key, held);
    }
}

/// The names that values mention and uWSGI does not know: a name that is not an option exists only for this.
fn placeholders(lines: &[Line]) -> BTreeSet<String> {
    let mentioned = lines.iter().flat_map(|line| line.value.split("%(").skip(1));
    let names = mentioned.filter_map(|rest| rest.split_once(')'));
    let mut names: BTreeSet<String> = names.map(|(name, _)| name.replace('_', "-")).collect();
    names.retain(|name| !is_option(name));
    names
}

/// True for an option that uWSGI or one of its plugins knows.
fn is_option(name: &str) -> bool {
    CARRIED.contains(name) || closes(name) || options::OPTIONS.contains(name)
}

/// Options that are limits, with a number.
const LIMITS: Words = Words("harakiri max-requests reload-on-rss evil-reload-on-rss limit-post");

/// Sets the limit of one of [`LIMITS`].
fn limit(name: &str, number: u64, program: &mut Program) {
    let memory = number.saturating_mul(1 << 20);
    let size = if number == 0 { ANY_BODY } else { number };
    let (part, option, value) = match name {
        "harakiri" => (&mut program.limits, "timeout", number),
        "max-requests" => (&mut program.limits, "requests", number),
        "reload-on-rss" => (&mut program.limits, "memory", memory),
        "evil-reload-on-rss" => (&mut program.limits, "memory_max", memory),
        _ => (&mut program.http, "max_body_size", size),
    };
    part.insert(option.to_owned(), value.into());
    let limits = &mut program.limits;
    let Some(soft) = limits.get("memory").and_then(Value::as_u64) else {
        return;
    };
    // uWSGI ends a process only after its request, unless the other option says otherwise.
    let hard = limits.entry("memory_max").or_insert(0.into()).as_u64();
    let hard = hard.filter(|hard| *hard > 0).unwrap_or(soft);
    limits.insert("memory".to_owned(), soft.min(hard).into());
}

struct Reading {
    placeholders: BTreeSet<String>,
    python: Map<String, Value>,
    path: Vec<String>,
    chdir: Option<String>,
    callable: Option<String>,
    wsgi_file: Option<String>,
    mounts: Vec<(String, String, SourceLocation)>,
    /// Files of mules.
    mules: Vec<(String, SourceLocation)>,
    cheaper: Option<u64>,
    processes: u64,
    is_socket: Option<SourceLocation>,
    /// The first HTTP socket that is a file.
    socket_file: Option<(String, SourceLocation)>,
    /// `chmod-socket`.
    socket_mode: Option<(String, SourceLocation)>,
    master: bool,
    lazy: bool,
}

impl Reading {
    fn take(&mut self, line: &Line, program: &mut Program, findings: &mut Findings) {
        let Line { name, value, place } = line;
        let number = value.parse::<u64>().ok();
        let set = |map: &mut Map<String, Value>, option: &str, value: Value| {
            drop(map.insert(option.to_owned(), value))
        };
        match name.as_str() {
            "http" | "http-socket" | "http11-socket" => self.listen(line, program, findings),
            "chmod-socket" | "chmod" => self.socket_mode = Some((value.clone(), place.clone())),
            "chown-socket" => {}
            "socket" | "uwsgi-socket" | "s" => self.is_socket = Some(place.clone()),
            "module" | "wsgi" | "w" => {
                let (module, callable) = value.split_once(':').unwrap_or((value, ""));
                set(&mut self.python, "module", module.into());
                if !callable.is_empty() {
                    self.factory_or_callable(callable);
                }
            }
            "callable" => self.callable = Some(value.clone()),
            "wsgi-file" | "file" => self.wsgi_file = Some(value.clone()),
            "psgi" => {
                set(&mut program.options, "type", "perl".into());
                set(&mut program.options, "script", value.as_str().into());
            }
            "rack" => {
                set(&mut program.options, "type", "ruby".into());
                set(&mut program.options, "script", value.as_str().into());
            }
            "mount" => match value.split_once('=') {
                Some((path, module)) => {
                    self.mounts
                        .push((path.to_owned(), module.to_owned(), place.clone()))
                }
                None => findings.lost(
                    place,
                    name,
                    "it does not name an application",
                    "write `/path=module:callable`",
                ),
            },
            "chdir" | "chdir2" => self.chdir = Some(value.clone()),
            "pythonpath" | "python-path" | "pp" => self.path.push(value.clone()),
            "home" | "virtualenv" | "venv" | "pyhome" | "H" => {
                set(&mut self.python, "home", value.as_str().into())
            }
            "processes" | "workers" | "p" => self.processes = number.unwrap_or(1).clamp(1, 4096),
            "cheaper" => self.cheaper = number,
            "threads" => set(
                &mut program.options,
                "threads",
                number.unwrap_or(1).max(1).into(),
            ),
            "uid" => set(&mut program.options, "user", value.as_str().into()),
            "gid" => set(&mut program.options, "group", value.as_str().into()),
            "py-autoreload" | "python-autoreload" | "py-auto-reload" => set(
                &mut program.options,
                "watch",
                (value != "0" && value != "false").into(),
            ),
            name if LIMITS.contains(name) => match number {
                Some(number) => limit(name, number, program),
                None => {
                    let problem = "its value is not a number: nothing is limited by it";
                    findings.lost(place, name, problem, "write the number itself");
                }
            },
            "env" => match value.split_once('=') {
                Some((variable, value)) => set(
                    &mut program.environment,
                    variable.trim(),
                    value.trim().into(),
                ),
                None => set(&mut program.environment, value, "".into()),
            },
            "static-map" => match value.split_once('=') {
                Some((path, folder)) if path.starts_with('/') => {
                    program.files.push((path.to_owned(), folder.to_owned()))
                }
                _ => findings.lost(
                    place,
                    name,
                    "it does not name a folder",
                    "write `/static=/srv/site/static`",
                ),
            },
            "check-static" => program.files.push(("/".to_owned(), value.clone())),
            "lazy-apps" | "lazy" => self.lazy = value != "false",
            "master" => self.master = value != "false",
            "set-placeholder" | "set-ph" | "set" => {}
            "cron" | "unique-cron" | "cron2" => {
                work::schedule(name, value, place, program, findings);
            }
            "attach-daemon" => work::daemon(value, program),
            "mule" if value.ends_with(".py") => self.mules.push((value.clone(), place.clone())),
            name => self.report(name, place, findings),
        }
    }

    fn listen(&mut self, line: &Line, program: &mut Program, findings: &mut Findings) {
        let Line { name, value, place } = line;
        program.listen(value, &Map::new(), (place, name), findings);
        if program.has_unix() {
            self.socket_file
                .get_or_insert_with(|| (name.clone(), place.clone()));
        }
    }

    /// Reports an option that is not carried over.
    fn report(&mut self, name: &str, place: &SourceLocation, findings: &mut Findings) {
        if work::report(name, place, findings) {
            return;
        }
        if closes(name) {
            let is_file = FILES.contains(name) || name.starts_with("inject-");
            let (problem, hint) = match is_file {
                true => (
                    "its options cannot be read, and may be rules about requests: Tutti does not listen",
                    "write the options of that file into this one, and import again",
                ),
                false => (
                    "rules about requests are not carried over: Tutti does not listen",
                    "write the rule as a step of `routes`, and a listener that leads to them",
                ),
            };
            findings.lost(place, name, problem, hint);
            self.python.insert("closed".to_owned(), true.into());
            return;
        }
        if NEEDLESS.contains(name) {
            return;
        }
        let known = LOST.iter().find(|(names, ..)| names.contains(name));
        let (problem, hint) = known.map_or(
            ("the importer does not translate it", LOST_HINT),
            |(_, problem, hint)| (*problem, *hint),
        );
        findings.lost(place, name, problem, hint);
    }

    fn factory_or_callable(&mut self, callable: &str) {
        match callable.strip_suffix("()") {
            Some(factory) => {
                self.python.insert("factory".to_owned(), true.into());
                self.callable = Some(factory.to_owned());
            }
            None => self.callable = Some(callable.to_owned()),
        }
    }

    fn finish(mut self, program: &mut Program, lines: &[Line], findings: &mut Findings) {
        let is_closed = self.python.remove("closed").is_some();
        let place = lines.first().map_or_else(
            || SourceLocation {
                file: "".into(),
                line: 1,
            },
            |line| line.place.clone(),
        );
        if let Some(chdir) = &self.chdir {
            program
                .options
                .insert("working_directory".to_owned(), chdir.as_str().into());
        }
        if !program.options.contains_key("type") {
            self.as_python(program, &place, findings);
        }
        let processes = match self.cheaper {
            Some(spare) => json!({"max": self.processes, "spare": spare.min(self.processes)}),
            None => self.processes.into(),
        };
        program.options.insert("processes".to_owned(), processes);
        // uWSGI loads the application in its master, and forks.
        if self.master && !self.lazy && self.processes > 1 {
            program.options.insert("preload".to_owned(), true.into());
        }
        if program.addresses.is_empty() {
            let place = self.is_socket.as_ref().unwrap_or(&place);
            let hint = "write a listener for clients (`\"*:80\"`), to replace the server in front; `tutti import nginx` converts its rules";
            findings.lost(place, "socket", "clients connect through a server in front with the uwsgi protocol, which Tutti does not accept", hint);
        }
        program.is_closed |= is_closed;
        // Without the option, only its owner may connect; a flag alone admits all users.
        if let Some((name, place)) = self.socket_file.filter(|_| !is_closed) {
            let (mode, name, place) = match &self.socket_mode {
                Some((mode, place)) => (mode.as_str(), "chmod-socket", place),
                None => ("", name.as_str(), &place),
            };
            if mode != "true" && !mode.ends_with(['2', '3', '6', '7']) {
                program::report_socket_mode((place, name), findings);
            }
        }
    }

    fn as_python(
        &mut self,
        program: &mut Program,
        place: &SourceLocation,
        findings: &mut Findings,
    ) {
        program.options.insert("type".to_owned(), "python".into());
        if let Some(home) = self.python.remove("home") {
            program.options.insert("home".to_owned(), home);
        }
        // uWSGI puts its working folder into Python's path.
        if let Some(chdir) = self.chdir.clone() {
            self.path.insert(0, chdir);
        }
        if let Some(file) = self
            .wsgi_file
            .clone()
            .filter(|_| !self.python.contains_key("module"))
        {
            let path = match &self.chdir {
                Some(chdir) if !file.starts_with('/') => PathBuf::from(chdir).join(&file),
                _ => PathBuf::from(&file),
            };
            let module = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default();
            if let Some(folder) = path
                .parent()
                .map(|folder| folder.display().to_string())
                .filter(|folder| !folder.is_empty() && !self.path.contains(folder))
            {
                self.path.push(folder);
            }
            self.python.insert("module".to_owned(), module.into());
        }
        if let Some(callable) = self
            .callable
            .take()
            .filter(|callable| callable != "application")
        {
            self.python.insert("callable".to_owned(), callable.into());
        }
        if !self.path.is_empty() {
            let path = match self.path.as_slice() {
                [only] => only.as_str().into(),
                _ => json!(self.path),
            };
            program.options.insert("path".to_owned(), path);
        }
        if !self.mounts.is_empty() {
            let place = &self
                .mounts
                .first()
                .map_or_else(|| place.clone(), |(_, _, place)| place.clone());
            findings.lost(place, "mount", "applications mounted at paths are not carried over", "write a target for each, with its `prefix`, and a step that passes its path there (`docs/languages/python.md`)");
        }
        if !self.python.contains_key("module") {
            findings.lost(
                place,
                "module",
                "it does not name the application to run",
                "write `module` of the application",
            );
            self.python
                .insert("module".to_owned(), "application".into());
        }
        program.options.extend(std::mem::take(&mut self.python));
    }
}
