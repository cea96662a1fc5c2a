//! The examples of Unit's reference: each configuration of `tests/config/documented-*.case` that needs no application, with requests that
//! prove the documented behaviour. In the examples `/www` stands for the test's folder.
//!
//! The examples with applications or addresses are in `crates/routing/tests/documented.rs` and `tests/e2e`.

mod conditions;
mod files;
#[path = "../support/mod.rs"]
mod support;

use std::os::unix::fs::symlink;

use conditions::CONDITIONS;
use files::FILES;
use support::Site;
use tutti_testkit::client::{Client, Reply};
use tutti_testkit::wait_until;

/// A request and the expected response: `STATUS`, then `> LOCATION` or the body, then the requested fields.
struct DocumentedCase {
    case: &'static str,
    requests: &'static [(&'static str, &'static str)],
}

const fn asked(
    case: &'static str,
    requests: &'static [(&'static str, &'static str)],
) -> DocumentedCase {
    DocumentedCase { case, requests }
}

/// The configuration of a case, for a folder.
#[allow(
    clippy::unwrap_used,
    reason = "only in tests, which clippy does not see"
)]
fn documented(case: &str, folder: &str) -> String {
    let path = format!(
        "{}/../../tests/config/documented-{case}.case",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let (_, rest) = text.split_once("=== put /\n").unwrap();
    let (sent, _) = rest.split_once("=== ").unwrap();
    sent.replace("\"/www", &format!("\"{folder}/www"))
        .replace("\"/var/log", &format!("\"{folder}"))
}

/// One file for each path, whose text is its path.
#[allow(
    clippy::unwrap_used,
    reason = "only in tests, which clippy does not see"
)]
fn fill(site: &Site) {
    for path in [
        "static_version/page.html",
        "static/default.html",
        "static/a.css",
        "static/assets/cat.jpg",
        "static/plain",
        "test/found.html",
        "storage/found.html",
        "storage/common.html",
        "error_pages/not_found.html",
        "data/one",
        "data/index.htm",
        "data/page.html",
        "data/var/log/app.log",
        "data/static/a.txt",
        "data/static/a.css",
        "data/static/a.js",
        "data/static/a.png",
        "data/static/a.3gpp",
        "data/static/a.3gpp2",
        "data/static/a.pdf",
        "data/known-types-only/a.txt",
        "data/known-types-only/a.unheard",
        "folder/index.html",
        "cache/cached",
        "index.xml",
        "real/static/index.html",
        "php-app/assets/files/a.png",
        "php-app/assets/files/a.css",
        "php-app/assets/files/page",
        "dist/app.js",
        "dist/index.html",
        "code/a.c",
        "code/a.txt",
        "code/Makefile",
    ] {
        site.write(&format!("www/{path}"), path);
    }
    site.write("www/static/large.css", "a { color: red }\n".repeat(1000));
    let link = |to: &str, path: &str| symlink(to, site.path().join("www").join(path)).unwrap();
    link("/var/log/app.log", "data/log");
    link("../../../../var/log/app.log", "data/relative");
    link("index.html", "real/static/symlink");
    link("real", "linked");
}

/// `GET /path Field: value; Field: value` to the host `test`, or to that of a `Host` field. After ` ? ` follow the fields of the response
/// to compare.
#[allow(
    clippy::unwrap_used,
    reason = "only in tests, which clippy does not see"
)]
fn ask(site: &Site, request: &str) -> String {
    let (request, compared) = request.split_once(" ? ").unwrap_or((request, ""));
    let mut parts = request.splitn(3, ' ');
    let (method, target) = (parts.next().unwrap(), parts.next().unwrap());
    let mut fields = String::new();
    for field in parts.next().unwrap_or_default().split(" | ") {
        if !field.is_empty() {
            fields += &format!("{field}\r\n");
        }
    }
    if !fields.contains("Host: ") {
        fields += "Host: test\r\n";
    }
    if matches!(method, "POST" | "PUT") && !fields.contains("Content-Length") {
        fields += "Content-Length: 0\r\n";
    }
    let mut client: Client = site.connect();
    client.send(format!("{method} {target} HTTP/1.1\r\n{fields}\r\n"));
    describe(&client.response(method), compared)
}

fn describe(response: &Reply, fields: &str) -> String {
    let mut text = response.status.to_string();
    if let Some(location) = response.field("Location") {
        text += &format!(" > {location}");
    } else if response.status == 200 && !response.body.is_empty() {
        text += &format!(" {}", response.text());
    }
    for name in fields.split_whitespace() {
        let value = response.field(name).unwrap_or("-");
        text += &format!(" | {name}: {value}");
    }
    text
}

/// Runs every configuration in turn on one server.
fn run(cases: &[DocumentedCase]) {
    let site = Site::new(1, |folder| documented("routes-array", folder));
    fill(&site);
    let folder = site.path().to_string_lossy().into_owned();
    let mut wrong = Vec::new();
    for DocumentedCase { case, requests } in cases {
        if let Err(faults) = site.configure(&documented(case, &folder)) {
            wrong.push(format!("{case}: {faults}"));
            continue;
        }
        for (request, expected) in *requests {
            let came = ask(&site, request);
            if came != *expected {
                wrong.push(format!("{case}: {request}: {came}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every example has a request.
#[test]
fn every_example_is_asked() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/config");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Some(case) = name.strip_prefix("documented-") else {
            continue;
        };
        let is_elsewhere = case.starts_with("access-log")
            || case.starts_with("match-addresses")
            || documented(case, "").contains("\"applications\"")
            || case.starts_with("upstreams")
            || case == "match-allow-deny";
        let is_asked = CONDITIONS
            .iter()
            .chain(FILES)
            .any(|asked| asked.case == case);
        assert!(is_elsewhere || is_asked, "{case}");
    }
}

#[test]
fn conditions_variables_and_answers() {
    run(CONDITIONS);
}

#[test]
fn files_and_their_fields() {
    run(FILES);
}

/// Sends requests, and returns the lines of the log when there are as many.
#[allow(
    clippy::unwrap_used,
    reason = "only in tests, which clippy does not see"
)]
fn logged(case: &str, requests: &[&str], lines: usize) -> Vec<String> {
    let site = Site::new(1, |folder| documented(case, folder));
    for request in requests {
        assert_eq!(ask(&site, request), "200", "{case}: {request}");
    }
    let read = || std::fs::read_to_string(site.path().join("access.log")).unwrap();
    wait_until(case, || read().lines().count() >= lines);
    read().lines().map(str::to_owned).collect()
}

/// A time in brackets, replaced.
fn without_time(line: &str) -> String {
    let Some((before, rest)) = line.split_once('[') else {
        return line.to_owned();
    };
    let (time, after) = rest.split_once(']').unwrap_or_default();
    let shape: String = time
        .chars()
        .map(|c| match c {
            '0'..='9' => '9',
            'a'..='z' | 'A'..='Z' => 'a',
            '+' | '-' => '+',
            other => other,
        })
        .collect();
    assert_eq!(shape, "99/aaa/9999:99:99:99 +9999", "{line}");
    format!("{before}[]{after}")
}

#[test]
fn the_access_log_has_the_configured_format() {
    let combined = "127.0.0.1 - - [] \"GET /a/../b?c HTTP/1.1\" 200 0 \"http://example.com/links.html\" \"Godzilla/5.0\"";
    let request = "GET /a/../b?c Referer: http://example.com/links.html | User-Agent: Godzilla/5.0";
    for case in ["access-log-path", "access-log-format"] {
        let lines = logged(case, &[request], 1);
        assert_eq!(
            lines
                .iter()
                .map(|line| without_time(line))
                .collect::<Vec<_>>(),
            [combined],
            "{case}"
        );
    }
    let lines = logged("access-log-json", &[request], 1);
    let members = lines[0]
        .strip_prefix('{')
        .unwrap()
        .strip_suffix('}')
        .unwrap();
    for member in [
        r#""remote_addr":"127.0.0.1""#,
        r#""request_line":"GET /a/../b?c HTTP/1.1""#,
        r#""status":"200""#,
        r#""body_bytes_sent":"0""#,
        r#""header_referer":"http://example.com/links.html""#,
        r#""header_user_agent":"Godzilla/5.0""#,
        r#""time_local":""#,
    ] {
        assert!(members.contains(member), "{member} in {members}");
    }
}

#[test]
fn the_access_log_depends_on_a_cookie() {
    let with = "GET /with Cookie: session=1";
    let without = "GET /without";
    // The last request is in both logs, so all earlier ones have been decided.
    assert_eq!(
        logged(
            "access-log-if",
            &[without, with, "GET /last Cookie: session=1"],
            2
        ),
        ["/with", "/last"]
    );
    assert_eq!(
        logged("access-log-if-not", &[with, without, "GET /last"], 2),
        ["/without", "/last"]
    );
}
