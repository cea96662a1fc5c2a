//! Pools of PHP-FPM, which become applications of PHP.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::fate::Fate;
use crate::finding::Findings;
use crate::finding::UnreadableSource;
use crate::ini::{self, Entry};
use crate::output::{Output, unused};
use crate::sources::{self, Sources};
use crate::units::whole_seconds;
use crate::words::Words;

/// Files that files name; `php-fpm.conf` names those of its pools.
const DEEPEST_INCLUDE: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    /// Its name, in brackets.
    pub(crate) name: String,
    entries: Vec<Entry>,
    /// The application that it has become.
    pub(crate) application: Option<String>,
}

impl Pool {
    fn value(&self, name: &str) -> Option<&str> {
        let entry = self.entries.iter().rev().find(|entry| entry.name == name);
        entry.map(|entry| entry.value.as_str())
    }

    /// True if `fastcgi_pass` with this address leads to it.
    pub(crate) fn listens_on(&self, address: &str) -> bool {
        let Some(listen) = self.value("listen") else {
            return false;
        };
        let listen = listen.replace("$pool", &self.name);
        let address = address.strip_prefix("unix:").unwrap_or(address);
        let port = |text: &str| text.rsplit(':').next().unwrap_or(text).to_owned();
        // A path, the same address, or a port alone, which is all addresses.
        listen == address
            || (listen.parse::<u16>().is_ok() && port(address) == listen)
            || (listen.starts_with("127.0.0.1:")
                && address.starts_with("localhost:")
                && port(address) == port(&listen))
    }
}

/// The pools of a file's entries.
pub(crate) fn pools(
    entries: &[Entry],
    sources: &dyn Sources,
) -> Result<Vec<Pool>, UnreadableSource> {
    let mut pools: Vec<Pool> = Vec::new();
    collect(entries, sources, 0, &mut pools)?;
    Ok(pools)
}

fn collect(
    entries: &[Entry],
    sources: &dyn Sources,
    depth: usize,
    pools: &mut Vec<Pool>,
) -> Result<(), UnreadableSource> {
    for entry in entries {
        if entry.name == "include" {
            if depth >= DEEPEST_INCLUDE {
                return Err(UnreadableSource {
                    file: entry.place.file.to_string(),
                    line: entry.place.line,
                    problem: "files include each other endlessly".to_owned(),
                    hint: None,
                });
            }
            let found: Vec<PathBuf> = sources::glob(Path::new(&entry.value), sources);
            for path in found {
                let (name, text) = sources::text(&path, sources)?;
                collect(&ini::parse(&name, &text)?, sources, depth + 1, pools)?;
            }
            continue;
        }
        if entry.section == "global" || entry.section.is_empty() {
            continue;
        }
        match pools.iter_mut().find(|pool| pool.name == entry.section) {
            Some(pool) => pool.entries.push(entry.clone()),
            None => pools.push(Pool {
                name: entry.section.clone(),
                entries: vec![entry.clone()],
                application: None,
            }),
        }
    }
    Ok(())
}

/// Reads pools alone: applications, to which nothing leads yet.
pub(crate) fn import(
    files: &[PathBuf],
    sources: &dyn Sources,
    findings: &mut Findings,
) -> Result<Value, UnreadableSource> {
    let mut out = Output::default();
    for path in files {
        let (name, text) = sources::text(path, sources)?;
        for pool in pools(&ini::parse(&name, &text)?, sources)? {
            let mut options = application(&pool, findings);
            if let Some(first) = pool.entries.first() {
                let hint = "also pass nginx's file: `tutti import nginx nginx.conf pool.conf`";
                findings.lost(
                    &first.place,
                    &format!("[{}]", pool.name),
                    "a pool does not contain the folder of its scripts or the requests for it",
                    hint,
                );
            }
            let root = pool
                .value("chdir")
                .filter(|chdir| chdir.starts_with('/'))
                .unwrap_or("/var/www/html");
            options.insert("root".to_owned(), root.into());
            let name = unused(&out.applications, &pool.name);
            out.applications.insert(name, options.into());
        }
    }
    Ok(out.into_json())
}

/// Entries that state the default, or describe the socket, which is gone; those of `pm` are `processes`.
const SAID_ELSEWHERE: Words = Words(
    "listen listen.owner listen.group listen.mode listen.backlog listen.acl_users listen.acl_groups
    listen.allowed_clients pm pm.max_children pm.min_spare_servers pm.max_spare_servers pm.start_servers
    pm.process_idle_timeout pm.max_spawn_rate catch_workers_output decorate_workers_output chdir listen.setfib prefix",
);

/// Entries that are not carried over: the problem, and the cure.
const LOST: &[(&[&str], &str, &str)] = &[
    (
        &["security.limit_extensions"],
        "only files that end with `.php` run",
        "rename the others, or let PHP-FPM serve them",
    ),
    (
        &[
            "pm.status_path",
            "pm.status_listen",
            "ping.path",
            "ping.response",
        ],
        "the pool's own pages are not supported",
        "`tutti status`, `\"pass\": \"metrics\"` (`docs/operate/metrics.md`)",
    ),
    (
        &[
            "slowlog",
            "request_slowlog_timeout",
            "request_slowlog_trace_depth",
        ],
        "the server has one log of slow requests",
        "`slow_log` contains a backtrace of the script (`docs/operate/logs.md`)",
    ),
    (
        &["access.log", "access.format", "access.suppress_path[]"],
        "logs of a single application are not supported",
        "`access_log` can be an array, each log with its `if` (`docs/operate/logs.md`)",
    ),
    (
        &["chroot"],
        "paths of the site would change",
        "see `isolation.rootfs` (`docs/operate/isolation.md`)",
    ),
];

/// Entries that become options of an application.
const CARRIED: Words = Words("user group pm.max_requests request_terminate_timeout include");

/// Entries of `[global]`, which are about the processes of PHP-FPM itself.
const GLOBAL: Words = Words(
    "pid error_log syslog.facility syslog.ident log_buffering log_level log_limit emergency_restart_threshold
    emergency_restart_interval process_control_timeout process.max daemonize events.mechanism systemd_interval",
);

/// The fate of an entry, for the table of all entries.
pub(crate) fn fate(name: &str) -> Fate {
    let lost = LOST.iter().find(|(names, ..)| names.contains(&name));
    if let Some((_, _, hint)) = lost {
        Fate::lost(hint)
    } else if CARRIED.contains(name) || name.ends_with("[]") {
        Fate::carried()
    } else if name == "clear_env" {
        Fate::different("an application gets the server's own environment")
    } else if SAID_ELSEWHERE.contains(name) {
        Fate::harmless(
            "it describes the pool's socket and processes, which become those of an application",
        )
    } else if GLOBAL.contains(name) {
        Fate::harmless("it is about the processes and the log of PHP-FPM itself")
    } else {
        Fate::lost("`docs/reference/options.md` lists the options of an application")
    }
}

/// The options of an application for a pool, but for its scripts.
pub(crate) fn application(pool: &Pool, findings: &mut Findings) -> Map<String, Value> {
    let mut options = Map::from_iter([("type".to_owned(), "php".into())]);
    options.insert("processes".to_owned(), processes(pool));
    let mut parts = Parts::default();
    for entry in &pool.entries {
        let value = entry.value.replace("$pool", &pool.name);
        let place = &entry.place;
        let number = || value.trim_end_matches('s').parse::<u64>().ok();
        match entry.name.as_str() {
            "user" | "group" => drop(options.insert(entry.name.clone(), value.into())),
            "chdir" if value != "/" => {
                drop(options.insert("working_directory".to_owned(), value.into()))
            }
            "pm.max_requests" => drop(
                number()
                    .filter(|count| *count > 0)
                    .map(|count| parts.limits.insert("requests".to_owned(), count.into())),
            ),
            "request_terminate_timeout" => match whole_seconds(&value) {
                Some(seconds) if seconds > 0 => {
                    drop(parts.limits.insert("timeout".to_owned(), seconds.into()))
                }
                _ => {}
            },
            name if SAID_ELSEWHERE.contains(name) => {}
            // It is noted once for the pool.
            "clear_env" => {}
            "security.limit_extensions" if value == ".php" => {}
            name => match LOST.iter().find(|(names, _, _)| names.contains(&name)) {
                Some((_, problem, hint)) => findings.lost(place, name, problem, hint),
                None => parts.set(entry, value, findings),
            },
        }
    }
    note_environment(pool, findings);
    parts.into_options(options)
}

/// PHP-FPM clears the environment unless `clear_env` says otherwise.
fn note_environment(pool: &Pool, findings: &mut Findings) {
    let own = pool
        .entries
        .iter()
        .rev()
        .find(|one| one.name == "clear_env");
    let is_kept = own.is_some_and(|own| {
        let value = own.value.to_ascii_lowercase();
        matches!(value.as_str(), "no" | "0" | "false" | "off")
    });
    let Some(entry) = own.or(pool.entries.first()).filter(|_| !is_kept) else {
        return;
    };
    findings.note(
        &entry.place,
        "clear_env",
        "an application gets the server's own environment",
        "start the server with an environment without secrets",
    );
}

/// Parts of an application, as entries fill them.
#[derive(Default)]
struct Parts {
    limits: Map<String, Value>,
    environment: Map<String, Value>,
    admin: Map<String, Value>,
    user: Map<String, Value>,
}

impl Parts {
    /// An entry with a name in brackets: a variable, or a directive of PHP.
    fn set(&mut self, entry: &ini::Entry, value: String, findings: &mut Findings) {
        let is_on = matches!(
            value.to_ascii_lowercase().as_str(),
            "on" | "1" | "yes" | "true"
        );
        let flag = if is_on { "1" } else { "0" };
        let bracketed = entry
            .name
            .strip_suffix(']')
            .and_then(|name| name.split_once('['));
        let (part, name, value) = match bracketed {
            Some(("env", _)) if value.starts_with('$') => {
                findings.note(
                    &entry.place,
                    "env",
                    "an application gets the server's own environment",
                    "start the server with that variable",
                );
                return;
            }
            Some(("env", name)) => (&mut self.environment, name, value.as_str()),
            Some(("php_admin_value", name)) => (&mut self.admin, name, value.as_str()),
            Some(("php_admin_flag", name)) => (&mut self.admin, name, flag),
            Some(("php_value", name)) => (&mut self.user, name, value.as_str()),
            Some(("php_flag", name)) => (&mut self.user, name, flag),
            _ => {
                findings.lost(
                    &entry.place,
                    &entry.name,
                    "the importer does not translate it",
                    "`docs/reference/options.md` lists the options of an application",
                );
                return;
            }
        };
        part.insert(name.to_owned(), value.into());
    }

    fn into_options(self, mut options: Map<String, Value>) -> Map<String, Value> {
        let mut php = Map::new();
        for (name, part) in [("admin", self.admin), ("user", self.user)] {
            if !part.is_empty() {
                php.insert(name.to_owned(), part.into());
            }
        }
        for (name, part) in [
            ("limits", self.limits),
            ("environment", self.environment),
            ("options", php),
        ] {
            if !part.is_empty() {
                options.insert(name.to_owned(), part.into());
            }
        }
        options
    }
}

fn processes(pool: &Pool) -> Value {
    let number = |name: &str| {
        pool.value(name)
            .and_then(|value| value.trim_end_matches('s').parse::<u64>().ok())
    };
    let most = number("pm.max_children").unwrap_or(5).clamp(1, 4096);
    match pool.value("pm") {
        Some("static") => most.into(),
        Some("ondemand") => {
            let idle = pool
                .value("pm.process_idle_timeout")
                .and_then(whole_seconds)
                .unwrap_or(10);
            json!({"max": most, "spare": 0, "idle_timeout": idle})
        }
        _ => json!({"max": most, "spare": number("pm.min_spare_servers").unwrap_or(1).min(most)}),
    }
}
