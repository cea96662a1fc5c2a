//! The same scripts, asked the same, under Tutti and under nginx with PHP-FPM: what they see and what comes back is the same,
//! but for the differences that are listed here with their reasons.
//!
//! The same FPM is asked through Tutti's own FastCGI too: there nothing may differ from Tutti's PHP but what lies in there being
//! another PHP.
//!
//! A difference that is listed and does not show fails the test too, so that the list only shrinks.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::json;
use tutti_e2e::Site;
use tutti_e2e::answer::{ask, differences};
use tutti_e2e::peer::Peer;
use tutti_testkit::{client, free_port, skip};

/// May differ in every answer.
const EVERYWHERE: &[(&str, &str)] = &[
    ("body/server/SERVER_SOFTWARE", "each names itself"),
    ("body/server/REMOTE_PORT", "two connections"),
    ("body/server/REQUEST_TIME", "not the same moment"),
    ("body/server/REQUEST_TIME_FLOAT", "not the same moment"),
    (
        "body/server/USER",
        "FPM puts its pool's user into the environment; Tutti gives the application what `environment` says",
    ),
    ("body/server/HOME", "as USER"),
    (
        "body/server/HTTP_CONTENT_TYPE",
        "CGI has it as CONTENT_TYPE; nginx hands it over twice",
    ),
    ("body/server/HTTP_CONTENT_LENGTH", "as HTTP_CONTENT_TYPE"),
    ("body/server/FCGI_ROLE", "there is no FastCGI"),
];

/// May differ in every answer of FPM behind Tutti.
const BEHIND_US: &[&str] = &[
    "body/server/REMOTE_PORT",
    "body/server/REQUEST_TIME",
    "body/server/REQUEST_TIME_FLOAT",
    "body/server/USER",
    "body/server/HOME",
    "body/server/FCGI_ROLE",
];

/// Requests whose answers differ behind Tutti, with the places.
const ALSO_BEHIND_US: &[(&str, &[&str])] = &[
    // FPM puts it out as it is; what is no field line is refused.
    ("case=unsound", &["body", "fields", "status"]),
    ("ini.php", &["body/scanned"]),
    // The pages of the language host and of the server.
    ("GET /none", &["body"]),
    ("GET /folder \"", &["body", "fields"]),
    ("GET /folder?", &["body", "fields"]),
    // FPM takes the type off by itself.
    ("code=304", &["fields"]),
];

/// Further differences of one request: the place and the reason.
type Differences = &'static [(&'static str, &'static str)];

const ERROR_PAGE: (&str, &str) = ("body", "the server's own page");
const TRANSLATED: (&str, &str) = (
    "body/server/PATH_TRANSLATED",
    "given with PATH_INFO, as CGI has it; Debian's nginx does not ask FPM for it",
);
const DOCUMENT_URI: (&str, &str) = (
    "body/server/DOCUMENT_URI",
    "the whole path; Debian's `try_files` takes the path information off",
);
const CHECKED: (&str, &str) = (
    "body/server/REQUEST_URI",
    "the path that conditions saw, not another spelling of it (decision 0690)",
);
const CHECKED_GETENV: (&str, &str) = ("body/getenv", "as REQUEST_URI");
/// Several fields of one name: RFC 9110 section 5.3. nginx hands over the last one before 1.23, and all since.
const JOINED: &str = "several fields are joined, none is lost";
const REMOTE_USER: (&str, &str) = (
    "body/server/REMOTE_USER",
    "no guard has checked the password, so there is no user",
);

struct Case {
    name: String,
    bytes: Vec<u8>,
    differs: Differences,
}

fn case(method: &str, target: &str, fields: &str, body: &[u8], differs: Differences) -> Case {
    let mut bytes = format!(
        "{method} {target} HTTP/1.1\r\nHost: example.test:8080\r\nConnection: close\r\n{fields}\r\n"
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    Case {
        name: format!("{method} {target} {fields:?}"),
        bytes,
        differs,
    }
}

fn get(target: &str, differs: Differences) -> Case {
    case("GET", target, "", b"", differs)
}

fn post(target: &str, content_type: &str, body: &[u8], differs: Differences) -> Case {
    let fields = format!(
        "Content-Type: {content_type}\r\nContent-Length: {}\r\n",
        body.len()
    );
    case("POST", target, &fields, body, differs)
}

/// A part of a multipart body.
fn part(disposition: &str, content: &[u8]) -> Vec<u8> {
    let mut part =
        format!("--XX\r\nContent-Disposition: form-data; {disposition}\r\n\r\n").into_bytes();
    part.extend_from_slice(content);
    part.extend_from_slice(b"\r\n");
    part
}

fn multipart(target: &str, parts: &[Vec<u8>], differs: Differences) -> Case {
    let mut body = parts.concat();
    body.extend_from_slice(b"--XX--\r\n");
    post(target, "multipart/form-data; boundary=XX", &body, differs)
}

/// Asks both each of the cases, tells every difference that is not listed and every listed one that is not there.
fn compare(cases: &[Case]) {
    let site = Site::start(&json!({}));
    let Some(peer) = Peer::start(&site.root(), &site.server.folder().join("php.ini")) else {
        skip!("nginx or PHP-FPM, which answers are compared with, is not installed");
    };
    let behind = behind_us(&site, &peer);
    let everywhere: BTreeSet<_> = EVERYWHERE.iter().map(|(place, _)| *place).collect();
    let mut wrong = String::new();
    for case in cases {
        let ours = ask(site.server.address(), &case.bytes);
        let theirs = ask(peer.address(), &case.bytes);
        let through = ask(behind, &case.bytes);
        let mut beside = differences(&ours, &through);
        beside.retain(|place, _| !BEHIND_US.contains(&place.as_str()));
        let allowed = ALSO_BEHIND_US
            .iter()
            .find(|(part, _)| case.name.contains(part))
            .map_or(&[][..], |(_, places)| places);
        if !beside.keys().eq(allowed.iter()) {
            wrong.push_str(&format!("{}, through FastCGI:\n", case.name));
            for (place, both) in beside {
                wrong.push_str(&format!("  {place}: {both}\n"));
            }
        }
        let applies = |reason: &str| reason != JOINED || !peer.joins_fields();
        let listed = case.differs.iter().filter(|(_, reason)| applies(reason));
        let listed: BTreeSet<_> = listed.map(|(place, _)| *place).collect();
        let mut found = differences(&ours, &theirs);
        found.retain(|place, _| !everywhere.contains(place.as_str()));
        let shown: BTreeSet<_> = found.keys().map(String::as_str).collect();
        if shown != listed {
            wrong.push_str(&format!("{}, listed: {listed:?}\n", case.name));
            for (place, both) in found {
                wrong.push_str(&format!("  {place}: {both}\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}\n{}", peer.log());
}

/// Where Tutti passes everything on to the FPM of `peer`.
fn behind_us(site: &Site, peer: &Peer) -> SocketAddr {
    let port = free_port();
    let target = format!("fastcgi://unix:{}", peer.fpm().socket().display());
    site.server.put(
        "/config/routes",
        &json!({"fpm": [{"action": {"proxy": target, "fastcgi": {"root": site.root()}}}]}),
    );
    site.server.put(
        &format!("/config/listeners/127.0.0.1:{port}"),
        &json!({"pass": "routes/fpm"}),
    );
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn paths_and_queries() {
    compare(&[
        get("/server.php", &[]),
        get("/server.php?", &[]),
        get("/server.php?a=1&b[]=2&b[]=3&c[x][y]=4&d", &[]),
        get("/server.php?a=%C3%A9+%2B&a.b=1&a%20c=2&=3&&e==f", &[]),
        get("/server.php?a=1;b=2&c=%zz%4", &[]),
        get("/server.php?q=/x.php/y?z", &[]),
        get("/server.php/info", &[DOCUMENT_URI, TRANSLATED]),
        get(
            "/server.php/info/%C3%A9%20x?a=b",
            &[DOCUMENT_URI, TRANSLATED],
        ),
        get("/server.php/a%2Fb", &[DOCUMENT_URI, TRANSLATED]),
        get("/server.php/", &[DOCUMENT_URI, TRANSLATED]),
        get("/server.php/b.php/c", &[DOCUMENT_URI, TRANSLATED]),
        get("//server.php", &[CHECKED, CHECKED_GETENV]),
        get("/./folder/../server.php", &[CHECKED, CHECKED_GETENV]),
        get("/serve%72.php", &[CHECKED, CHECKED_GETENV]),
        get(
            "/server.php/a/../b//c",
            &[CHECKED, CHECKED_GETENV, DOCUMENT_URI, TRANSLATED],
        ),
        get("http://example.test:8080/server.php?a", &[]),
        get("/folder/", &[]),
        get("/folder", &[ERROR_PAGE]),
        get("/folder?a=b", &[ERROR_PAGE]),
        get("/none.php", &[ERROR_PAGE]),
        get("/none/none.php", &[ERROR_PAGE]),
    ]);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn methods_and_fields() {
    compare(&[
        case("HEAD", "/method.php", "", b"", &[]),
        case("HEAD", "/large.php?kilobytes=100", "", b"", &[]),
        case("OPTIONS", "/method.php", "", b"", &[]),
        case("PROPFIND", "/method.php/x", "", b"", &[]),
        case("DELETE", "/server.php", "", b"", &[]),
        case(
            "GET",
            "/server.php",
            "User-Agent: Mozilla/5.0 (X11)\r\nAccept: */*\r\nAccept-Language: de, en;q=0.5\r\n",
            b"",
            &[],
        ),
        case(
            "GET",
            "/server.php",
            "X-Twice: 1\r\nx-twice: 2\r\nX-Empty:\r\nX-Utf8: \u{e9}\r\n",
            b"",
            &[
                ("body/apache/X-Twice", JOINED),
                ("body/headers/X-Twice", JOINED),
                ("body/server/HTTP_X_TWICE", JOINED),
            ],
        ),
        case(
            "GET",
            "/server.php",
            "Accept: a\r\nAccept: b\r\n",
            b"",
            &[
                ("body/apache/Accept", JOINED),
                ("body/headers/Accept", JOINED),
                ("body/server/HTTP_ACCEPT", JOINED),
            ],
        ),
        case(
            "GET",
            "/server.php",
            "Cookie: a=1; b=%20x; c[k]=v; d\r\n",
            b"",
            &[],
        ),
        case(
            "GET",
            "/server.php",
            "Cookie: a=1\r\nCookie: a=2; b=3\r\n",
            b"",
            &[
                ("body/apache/Cookie", JOINED),
                ("body/cookie/a", JOINED),
                ("body/headers/Cookie", JOINED),
                ("body/server/HTTP_COOKIE", JOINED),
            ],
        ),
        case(
            "GET",
            "/server.php",
            "Proxy: http://evil.test\r\n",
            b"",
            &[],
        ),
        case("GET", "/server.php", "Under_score: 1\r\n", b"", &[]),
        case(
            "GET",
            "/server.php",
            "Authorization: Basic dXNlcjpwYTpzcw==\r\n",
            b"",
            &[REMOTE_USER],
        ),
        case(
            "GET",
            "/server.php",
            "Authorization: basic dXNlcjo=\r\n",
            b"",
            &[REMOTE_USER],
        ),
        case(
            "GET",
            "/server.php",
            "Authorization: Basic !!!\r\n",
            b"",
            &[],
        ),
        case(
            "GET",
            "/server.php",
            "Authorization: Digest username=\"u\", realm=\"r\"\r\n",
            b"",
            &[],
        ),
        case(
            "GET",
            "/server.php",
            "Authorization: Bearer token\r\n",
            b"",
            &[],
        ),
        case(
            "GET",
            "/server.php",
            "If-None-Match: \"x\"\r\nRange: bytes=0-1\r\n",
            b"",
            &[],
        ),
        case(
            "GET",
            "/server.php",
            "Content-Type: text/plain\r\n",
            b"",
            &[],
        ),
        case(
            "GET",
            "/server.php",
            "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n",
            b"",
            &[],
        ),
    ]);
}

#[test]
fn bodies() {
    let form = "application/x-www-form-urlencoded";
    let large: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let chunked = client::chunked(&large, 70_001);
    let small = part("name=\"small\"; filename=\"a b.txt\"", b"content");
    compare(&[
        post("/body.php", form, b"a=1&b[]=2&b[]=3&c=%C3%A9+x", &[]),
        post("/body.php?a=0", form, b"a=1", &[]),
        post("/server.php?a=0", form, b"a=1", &[]),
        post(
            "/body.php",
            "application/x-www-form-urlencoded; charset=UTF-8",
            b"a=1",
            &[],
        ),
        post("/body.php", "application/json", b"{\"a\": 1}", &[]),
        post("/body.php", "text/plain", b"", &[]),
        post("/body.php", "application/octet-stream", &large, &[]),
        post("/server.php", "text/plain", b"abc", &[]),
        case("PUT", "/body.php", "Content-Length: 3\r\n", b"abc", &[]),
        case(
            "PUT",
            "/body.php",
            "Content-Length: 3\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            b"a=1",
            &[],
        ),
        case(
            "POST",
            "/body.php",
            "Transfer-Encoding: chunked\r\n",
            &chunked,
            &[],
        ),
        case(
            "POST",
            "/body.php",
            "Transfer-Encoding: chunked\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            b"3\r\na=1\r\n4\r\n&b=2\r\n0\r\n\r\n",
            &[],
        ),
        case(
            "POST",
            "/server.php",
            "Transfer-Encoding: chunked\r\n",
            b"3\r\nabc\r\n0\r\n\r\n",
            &[],
        ),
        multipart(
            "/body.php",
            &[part("name=\"field\"", b"value"), small.clone()],
            &[],
        ),
        multipart(
            "/body.php",
            &[part("name=\"list[]\"", b"1"), part("name=\"list[]\"", b"2")],
            &[],
        ),
        multipart(
            "/body.php",
            &[part("name=\"none\"; filename=\"\"", b"")],
            &[],
        ),
        // Over upload_max_filesize, then over post_max_size.
        multipart(
            "/body.php",
            &[
                part("name=\"big\"; filename=\"b\"", &large[..150_000]),
                small.clone(),
            ],
            &[],
        ),
        multipart(
            "/body.php",
            &[part(
                "name=\"big\"; filename=\"b\"",
                &[large.clone(), large.clone()].concat(),
            )],
            &[],
        ),
        post("/body.php", form, &[b'a'; 400_000], &[]),
        // Over max_file_uploads.
        multipart(
            "/body.php",
            &(0..5)
                .map(|n| part(&format!("name=\"f{n}\"; filename=\"f\""), b"x"))
                .collect::<Vec<_>>(),
            &[],
        ),
        post("/body.php", "multipart/form-data", b"no boundary", &[]),
        post("/unread.php", "text/plain", &large, &[]),
    ]);
}

#[test]
fn response_heads() {
    let names = [
        "order",
        "replace",
        "remove",
        "line",
        "code",
        "third",
        "status",
        "status-line",
        "location",
        "location-201",
        "cookies",
        "length",
        "late",
        "callback",
        "no-type",
        "empty",
        "no-content",
        "split",
        "many",
    ];
    let mut cases: Vec<_> = names
        .iter()
        .map(|name| get(&format!("/headers.php?case={name}"), &[]))
        .collect();
    cases.extend([
        get(
            "/status.php?code=304&etag=x",
            &[("fields", "PHP's Content-Type stays; nginx takes it off")],
        ),
        get("/status.php?code=204", &[]),
        get("/status.php?code=404&body=own+page", &[]),
        get("/status.php?code=500", &[]),
        get("/status.php?code=503&body=later", &[]),
        get("/status.php?code=299&body=odd", &[]),
        get("/status.php?code=301&location=/x%3Fy", &[]),
        get("/status.php?code=307&location=https://example.org/", &[]),
        get("/status.php?code=302&location=//example.org/", &[]),
        get(
            "/headers.php?case=unsound",
            &[
                (
                    "status",
                    "nginx refuses the whole answer; Tutti leaves the field out and tells the log",
                ),
                ("fields", "as status"),
                ("body", "as status"),
            ],
        ),
    ]);
    compare(&cases);
}

#[test]
fn ends_of_scripts() {
    let names = [
        "exit",
        "exit&shutdown",
        "exit-message",
        "return",
        "fatal",
        "exception",
        "exception&shutdown",
        "exception-late",
        "memory",
        "time",
        "die-in-shutdown",
        "fatal-in-shutdown",
        "output-callback-throws",
        "destructor",
        "parse",
    ];
    let mut cases: Vec<_> = names
        .iter()
        .map(|name| get(&format!("/ends.php?how={name}"), &[]))
        .collect();
    cases.push(get("/kill.php?signal=9", &[ERROR_PAGE]));
    cases.push(get("/kill.php", &[ERROR_PAGE]));
    compare(&cases);
}

#[test]
fn output() {
    compare(&[
        get("/large.php?kilobytes=3000", &[]),
        get("/large.php?kilobytes=3000&buffered", &[]),
        get("/stream.php", &[]),
        get("/folder/chdir.php", &[]),
        get("/filter.php", &[]),
        get(
            "/ini.php?name=memory_limit&value=1G",
            &[("body/scanned", "the folder of another interface")],
        ),
    ]);
}
