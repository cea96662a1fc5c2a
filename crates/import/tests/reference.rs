//! The table of all directives says what the importer does: each directive is imported at each place, and is reported as the table has it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tutti_import::{
    ForeignServer, Importance, Imported, Outcome, Row, Sources, import, reference_rows,
};

const ALL: [ForeignServer; 7] = [
    ForeignServer::Nginx,
    ForeignServer::Apache,
    ForeignServer::Caddy,
    ForeignServer::Fpm,
    ForeignServer::Uwsgi,
    ForeignServer::Gunicorn,
    ForeignServer::Puma,
];

/// One file.
struct One(String);

impl Sources for One {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path == Path::new("/etc/it") {
            true => Ok(self.0.clone().into_bytes()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn names_in(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}

fn imported(source: ForeignServer, text: &str) -> Imported {
    let one = One(text.to_owned());
    import(source, &[PathBuf::from("/etc/it")], &one)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The names of what is reported as lost.
fn lost(imported: &Imported) -> Vec<String> {
    let findings = imported.findings.iter();
    let lost = findings.filter(|finding| finding.importance == Importance::Lost);
    lost.map(|finding| finding.directive.clone()).collect()
}

/// A configuration of nginx with a directive in a block.
fn nginx(directive: &str, block: &str) -> String {
    let site = |main: &str, http: &str, server: &str, location: &str| {
        format!(
            "{main} http {{ {http} server {{ listen 127.0.0.1:8080; server_name a; {server} location / {{ {location} proxy_pass http://127.0.0.1:1; }} }} }}"
        )
    };
    match block {
        "main" => site(directive, "", "", ""),
        "events" => site(&format!("events {{ {directive} }}"), "", "", ""),
        "http" => site("", directive, "", ""),
        "server" => site("", "", directive, ""),
        "location" => site("", "", "", directive),
        "if" => site("", "", &format!("if ($arg_a) {{ {directive} }}"), ""),
        "lif" => site("", "", "", &format!("if ($arg_a) {{ {directive} }}")),
        "limit_except" => site("", "", "", &format!("limit_except GET {{ {directive} }}")),
        "upstream" => format!(
            "http {{ upstream u {{ server 127.0.0.1:1; {directive} }} server {{ listen 127.0.0.1:8080; location / {{ proxy_pass http://u; }} }} }}"
        ),
        "mail" => site(&format!("{block} {{ {directive} }}"), "", "", ""),
        "stream" => site(
            &format!(
                "stream {{ server {{ listen 127.0.0.1:9000; {directive} proxy_pass 127.0.0.1:1; }} }}"
            ),
            "",
            "",
            "",
        ),
        "zone_sync" => site(
            &format!("stream {{ server {{ {directive} }} }}"),
            "",
            "",
            "",
        ),
        other => panic!("{other}"),
    }
}

/// The text with a directive, and the name under which it is reported.
fn text_with(source: ForeignServer, row: &Row) -> (String, String) {
    let Row { name, place, .. } = row;
    match source {
        ForeignServer::Nginx => {
            let reported = match *place {
                "mail" => *place,
                _ => *name,
            };
            // These close where they are switched off.
            let value = match name.ends_with("_pass_request_headers") {
                true => "off",
                false => "1 2",
            };
            (
                nginx(&format!("{name} {value};"), place),
                reported.to_owned(),
            )
        }
        ForeignServer::Apache => (
            format!("Listen 80\nServerName a\nDocumentRoot /srv\n{name} 1 2 3\n"),
            (*name).to_owned(),
        ),
        ForeignServer::Caddy if *place == "site" => (
            format!("http://a {{\n {name} 1\n reverse_proxy 127.0.0.1:1\n}}\n"),
            (*name).to_owned(),
        ),
        ForeignServer::Caddy => (
            format!("{{\n {name} 1\n}}\nhttp://a {{\n reverse_proxy 127.0.0.1:1\n}}\n"),
            (*name).to_owned(),
        ),
        // Entries of `[global]` are not read.
        ForeignServer::Fpm => (
            format!("[www]\nlisten = /run/x\n{name} = 1\n"),
            (*name).to_owned(),
        ),
        ForeignServer::Uwsgi => (
            format!("[uwsgi]\nhttp = :8080\nmodule = a\n{name} = 1\n"),
            (*name).to_owned(),
        ),
        ForeignServer::Gunicorn => (
            format!("wsgi_app = \"a:b\"\n{name} = 1\n"),
            (*name).to_owned(),
        ),
        ForeignServer::Puma => (format!("port 80\n{name} 1\n"), (*name).to_owned()),
    }
}

#[test]
fn each_directive_is_reported_as_the_table_says() {
    let mut wrong = Vec::new();
    for source in ALL {
        for row in reference_rows(source) {
            let (text, reported) = text_with(source, &row);
            let is_global =
                matches!(source, ForeignServer::Fpm) && row.outcome == Outcome::Harmless;
            let one = One(text.clone());
            // A file or a macro that is not there ends the import.
            let Ok(done) = import(source, &[PathBuf::from("/etc/it")], &one) else {
                continue;
            };
            let names = lost(&done);
            let is_lost = names.iter().any(|name| {
                name.eq_ignore_ascii_case(&reported)
                    || name
                        .trim_matches(['<', '>'])
                        .eq_ignore_ascii_case(&reported)
            });
            let is_right = match row.outcome {
                Outcome::Carried | Outcome::Different => true,
                Outcome::Harmless => !is_lost || is_global,
                Outcome::Lost | Outcome::Closed => is_lost,
            };
            if !is_right {
                wrong.push(format!(
                    "{source:?} {} in {}: {:?}, {names:?}",
                    row.name, row.place, row.outcome
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_directive_has_one_row_for_each_place() {
    for source in ALL {
        let mut known = HashSet::new();
        for row in reference_rows(source) {
            assert!(
                known.insert((row.name, row.place)),
                "{source:?} {} {}",
                row.name,
                row.place
            );
            let has_why = !row.why.is_empty();
            assert_eq!(
                has_why,
                row.outcome != Outcome::Carried,
                "{source:?} {}",
                row.name
            );
        }
    }
}

/// Parts of the names of directives that keep clients out, or decide which proxies a server believes.
const RESTRICTING: &[&str] = &[
    "allow",
    "auth",
    "crl",
    "deny",
    "forbid",
    "internal",
    "limit",
    "realip",
    "real_ip",
    "referer",
    "remoteip",
    "require",
    "revocation",
    "satisfy",
    "secure",
    "trusted",
    "verify",
];

/// Directives with such names that keep no client out, with the reason.
const NO_RESTRICTIONS: &[(&str, &str)] = &[
    ("worker_rlimit_nofile", "files that the server may open"),
    (
        "listen.allowed_clients",
        "servers that may use the pool's socket, which is gone",
    ),
    (
        "wsgipassauthorization",
        "the application gets the field anyway",
    ),
    ("serverlimit", "processes of the server"),
    ("threadlimit", "threads of the server"),
    ("limit_request_line", "heads are bounded anyway"),
    ("limit_request_fields", "heads are bounded anyway"),
    ("limit_request_field_size", "heads are bounded anyway"),
    ("sslproxycheckpeername", "always checked"),
    ("log_limit", "characters of a line of the log"),
    ("sslinsecurerenegotiation", "there is no renegotiation"),
    (
        "ssl_stapling_verify",
        "it is about what the server itself sends",
    ),
    ("limit_conn_log_level", "lines of the log"),
    ("limit_req_log_level", "lines of the log"),
    ("referer_hash_bucket_size", "memory"),
    ("referer_hash_max_size", "memory"),
    (
        "quic_active_connection_id_limit",
        "identifiers of one connection",
    ),
];

#[test]
fn nothing_that_restricts_is_called_harmless() {
    let mut wrong = Vec::new();
    for source in ALL {
        for row in reference_rows(source) {
            let restricts = RESTRICTING.iter().any(|part| row.name.contains(part));
            let is_known = NO_RESTRICTIONS.iter().any(|(name, _)| *name == row.name);
            if row.outcome == Outcome::Harmless && restricts && !is_known {
                wrong.push(format!("{source:?} {}: {}", row.name, row.why));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Directives of nginx that keep clients out, with values that do.
const CHECKS: &[&str] = &[
    "allow 192.0.2.1; deny all;",
    "deny 192.0.2.1;",
    "auth_basic x; auth_basic_user_file /none;",
    "auth_request /ask;",
    "auth_jwt x;",
    "auth_jwt_require $x;",
    "auth_oidc x;",
    "auth_require $x;",
    "satisfy all; deny all;",
    "secure_link $arg_md5;",
    "secure_link_secret x;",
    "internal;",
    "limit_except GET { deny all; }",
    "js_access x;",
    "perl x;",
    "proxy_pass_request_headers off;",
    "an_unknown_check on;",
];

#[test]
fn a_restriction_is_carried_over_or_closes_its_place() {
    let rows = reference_rows(ForeignServer::Nginx);
    for check in CHECKS {
        let name = check.split([' ', ';']).next().unwrap();
        let mut blocks: Vec<&str> = rows
            .iter()
            .filter(|row| row.name == name && !matches!(row.place, "stream" | "mail"))
            .map(|row| row.place)
            .collect();
        if blocks.is_empty() {
            blocks = vec!["http", "server", "location", "lif"];
        }
        for block in blocks {
            let done = imported(ForeignServer::Nginx, &nginx(check, block));
            let text = done.configuration.to_string();
            let open = imported(ForeignServer::Nginx, &nginx("", block));
            let closes = text.contains("403") || text.contains("404");
            let is_carried = lost(&done).is_empty() && done.configuration != open.configuration;
            assert!(
                is_carried || closes && !lost(&done).is_empty() || closes && name == "internal",
                "{check} in {block}: {:?} {text}",
                lost(&done)
            );
        }
    }
}

/// The names of options in the schema of configurations, which is made from the table of options.
fn options() -> HashSet<String> {
    fn collect(value: &Value, names: &mut HashSet<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::Object(properties)) = members.get("properties") {
                    names.extend(properties.keys().cloned());
                }
                members.values().for_each(|inner| collect(inner, names));
            }
            Value::Array(elements) => elements.iter().for_each(|inner| collect(inner, names)),
            _ => {}
        }
    }
    let mut names = HashSet::new();
    collect(&tutti_config::schema(), &mut names);
    names
}

/// The importer's own sources.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut all = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => all.push((path.clone(), std::fs::read_to_string(&path).unwrap())),
            }
        }
    }
    all
}

/// Claims that an ability is missing, and the option that gives it: a message with such a claim is out of date where the option exists.
const CLAIMS: &[(&str, &str)] = &[
    ("HTTP/3 is not supported", "http3"),
    ("there is no HTTP/3", "http3"),
    ("brotli is not supported", "compressors"),
    ("responses are not cached\"", "cache"),
    ("put a cache in front", "cache"),
    ("cache on disk is not supported", "disk"),
    ("a log goes to one file", "access_log"),
    ("there is one log for all", "access_log"),
    ("syslog is not supported", "access_log"),
    ("ciphers cannot be chosen", "conf_commands"),
    ("client certificates cannot be sent", "certificate"),
    ("the resolver cannot be chosen", "resolver"),
    ("bandwidth cannot be limited", "limit_rate"),
    ("the text of an answer cannot be set", "body"),
    ("trailers are not supported", "response_trailers"),
];

#[test]
fn no_message_denies_what_an_option_does() {
    let options = options();
    for (path, text) in sources() {
        for (claim, option) in CLAIMS {
            assert!(
                !options.contains(*option) || !text.contains(claim),
                "{}: `{claim}`, and there is the option `{option}`",
                path.display()
            );
        }
    }
}

/// Directives that are lost though an option has their name: the option is another thing.
const OTHER_THINGS: &[&str] = &[
    // It is about checks of health, not about requests.
    "match",
    // uWSGI's cache for programs, its own router of logs, its processes, its messages by UDP.
    "cache",
    "http2",
    "json",
    "log-route",
    "mode",
    "protocol",
    "queue",
    "thread-stack-size",
    "udp",
    "weight",
    // Puma ends then.
    "idle_timeout",
];

#[test]
fn no_directive_is_lost_whose_option_exists() {
    let options = options();
    let mut stale = Vec::new();
    for source in ALL {
        for row in reference_rows(source) {
            let is_lost = matches!(row.outcome, Outcome::Lost | Outcome::Closed);
            let says_none = row.why.contains("every option") || row.why.contains("no option");
            let name = row.name.replace('-', "_");
            if is_lost && says_none && options.contains(&name) && !OTHER_THINGS.contains(&row.name)
            {
                stale.push(format!("{source:?} {}", row.name));
            }
        }
    }
    assert!(stale.is_empty(), "{stale:?}");
}

#[test]
fn hints_name_pages_and_options_that_exist() {
    let options = options();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in sources() {
        for part in text.split("`docs/").skip(1) {
            let page = part.split('`').next().unwrap();
            let of_pages = |byte: u8| byte.is_ascii_alphanumeric() || b"/-.".contains(&byte);
            let is_page = page.ends_with(".md") && page.contains('/') && page.bytes().all(of_pages);
            assert!(
                !is_page || root.join("docs").join(page).exists(),
                "{}: docs/{page}",
                path.display()
            );
        }
        for part in text.split('`').skip(1).step_by(2) {
            let is_option = [
                "settings.",
                "proxy_options.",
                "access_log.",
                "isolation.",
                "fastcgi.",
            ]
            .iter()
            .any(|start| part.starts_with(start))
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || b"_.0123456789".contains(&byte));
            if is_option {
                for name in part.split('.') {
                    assert!(options.contains(name), "{}: `{part}`", path.display());
                }
            }
        }
    }
}
