//! HTTP/2 as other people's programs speak it: h2spec whole, nghttp2's nghttp and h2load, curl, Node, Python's httpx; what PHP, WSGI and
//! ASGI applications receive. The router's own tests are in `crates/server/tests/http2.rs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::json;
use tutti_e2e::documents::chapter;
use tutti_e2e::external::source;
use tutti_e2e::http2::echoes;
use tutti_e2e::{echo, hundred_files, tls};
use tutti_testkit::{Server, ServerOptions, client, free_port};

/// A server with files, a page and PHP, and where it is.
struct Site {
    server: Server,
    is_tls: bool,
}

impl Site {
    fn url(&self, path: &str) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.server.port())
    }
}

/// One without TLS, and one with.
fn sites() -> [Site; 2] {
    [false, true].map(|is_tls| Site {
        server: site(is_tls),
        is_tls,
    })
}

fn site(is_tls: bool) -> Server {
    let server = Server::start(&ServerOptions::default());
    let mut listener = json!({"pass": "routes"});
    if is_tls {
        tls::certificate(&server);
        listener["tls"] = json!({"certificate": "site"});
    }
    let folder = server.folder().to_owned();
    for (name, content) in [
        ("small.txt", b"small".to_vec()),
        ("large.bin", vec![7; 3_000_000]),
        (
            "digest.php",
            b"<?php $body = file_get_contents('php://input');\n\
              echo $_SERVER['SERVER_PROTOCOL'], ' ', strlen($body), ' ', sha1($body);"
                .to_vec(),
        ),
        (
            "cookie.php",
            b"<?php echo $_SERVER['HTTP_COOKIE'];".to_vec(),
        ),
    ] {
        server.write(name, content);
    }
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): listener},
            "routes": [
                {"match": {"uri": "*.php"}, "action": {"pass": "applications/php"}},
                {"match": {"uri": "/page"}, "action": {"return": 200}},
                {"action": {"share": format!("{}$uri", folder.display()), "index": "small.txt"}}
            ],
            "applications": {"php": {"type": "php", "root": folder, "processes": 2}},
            "settings": {"http": {"max_body_size": 16 << 20}}
        }),
    );
    server
}

fn run(program: impl AsRef<Path>, arguments: &[&str]) -> Output {
    let program = program.as_ref();
    Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "{}: {error}; `packaging/install-deps test` installs it",
                program.display()
            )
        })
}

/// The output of a program, which must succeed.
fn output_of(program: impl AsRef<Path>, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// h2spec, built from the versions that `tests/conformance/h2/go.sum` names.
fn h2spec() -> &'static PathBuf {
    static H2SPEC: OnceLock<PathBuf> = OnceLock::new();
    H2SPEC.get_or_init(|| {
        let program = std::env::temp_dir().join(format!("tutti-h2spec-{}", std::process::id()));
        let output = Command::new("go")
            .args(["build", "-mod=readonly", "-o"])
            .arg(&program)
            .arg("github.com/summerwind/h2spec/cmd/h2spec")
            .current_dir(source("tests/conformance/h2"))
            .output()
            .expect("go runs; `packaging/install-deps test` says what is missing");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "go build: {errors}");
        program
    })
}

/// Runs all of h2spec; those that fail must be the ones that are known.
fn conforms(site: &Site, path: &str) {
    let port = site.server.port().to_string();
    // A busy machine may keep any answer waiting.
    let mut arguments = vec![
        "--strict",
        "--timeout",
        "20",
        "--port",
        &port,
        "--path",
        path,
    ];
    if site.is_tls {
        arguments.extend(["--tls", "--insecure"]);
    }
    let output = run(h2spec(), &arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let known = source("tests/conformance/h2").join("expected.txt");
    let known = std::fs::read_to_string(known).unwrap();
    let known: Vec<&str> = known
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    let failed: Vec<&str> = text
        .split("Failures:")
        .next()
        .unwrap()
        .lines()
        .filter(|line| line.contains('\u{d7}'))
        .map(|line| line.trim())
        .filter(|line| !known.iter().any(|known| line.contains(known)))
        .collect();
    assert!(failed.is_empty(), "{path}: {failed:#?}\n{text}");
    let summary = text.lines().find(|line| line.contains(" tests, ")).unwrap();
    let passed = summary.split(", ").nth(1).unwrap();
    let passed: usize = passed.split(' ').next().unwrap().parse().unwrap();
    assert!(passed + known.len() >= 146, "{summary}");
}

#[test]
fn h2spec_finds_no_fault_with_files() {
    for site in sites() {
        conforms(&site, "/small.txt");
    }
}

#[test]
fn h2spec_finds_no_fault_with_applications() {
    for site in sites() {
        conforms(&site, "/digest.php");
    }
}

#[test]
fn h2load_is_answered_in_full() {
    for site in sites() {
        for (path, requests) in [
            ("/small.txt", 20_000),
            ("/page", 20_000),
            ("/digest.php", 5_000),
            ("/large.bin", 200),
        ] {
            let (url, count) = (site.url(path), requests.to_string());
            let text = output_of(
                "h2load",
                &["-n", &count, "-c", "8", "-m", "100", "-t", "1", &url],
            );
            let expected = format!("{requests} succeeded, 0 failed, 0 errored, 0 timeout");
            assert!(text.contains(&expected), "{path}: {text}");
            assert!(
                text.contains(&format!("status codes: {requests} 2xx")),
                "{text}"
            );
        }
    }
}

#[test]
fn nghttp_is_answered() {
    for site in sites() {
        assert_eq!(output_of("nghttp", &[&site.url("/small.txt")]), "small");
        let large = run("nghttp", &["--window-bits=16", &site.url("/large.bin")]);
        assert_eq!(large.stdout.len(), 3_000_000);
        // With trailers behind the body, and padding.
        let file = site.server.write("body", vec![b'x'; 200_000]);
        let body = format!("--data={}", file.display());
        let url = site.url("/digest.php");
        let arguments = ["--trailer", "x-sum: 1", "--padding=100", &body, &url];
        assert!(output_of("nghttp", &arguments).starts_with("HTTP/2.0 200000 "));
    }
}

#[test]
fn curl_is_answered() {
    for site in sites() {
        let version = [
            "-s",
            "-k",
            "-o",
            "/dev/null",
            "-w",
            "%{http_version} %{http_code}",
        ];
        let ask = |options: &[&str], path: &str| {
            output_of("curl", &[&version, options, &[&site.url(path)]].concat())
        };
        // Over TLS both say what they speak; without, an upgrade is ignored.
        let asked = if site.is_tls { "2 200" } else { "1.1 200" };
        assert_eq!(ask(&["--http2"], "/small.txt"), asked);
        assert_eq!(ask(&["--http1.1"], "/small.txt"), "1.1 200");
        let forced = if site.is_tls {
            "--http2"
        } else {
            "--http2-prior-knowledge"
        };
        assert_eq!(ask(&[forced], "/small.txt"), "2 200");
        assert_eq!(ask(&[forced, "-I"], "/large.bin"), "2 200");
        let url = site.url("/digest.php");
        let sent = output_of("curl", &["-s", "-k", forced, "-d", "hello", &url]);
        assert_eq!(sent, "HTTP/2.0 5 aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d");
    }
}

#[test]
fn a_server_in_front_says_who_the_client_is() {
    let server = Server::start(&ServerOptions::default());
    let listener = json!({
        "pass": "routes",
        "forwarded": {"client_ip": "X-Forwarded-For", "source": "127.0.0.1", "recursive": false},
    });
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): listener},
            "routes": [{"action": {"return": 302, "location": "/$remote_addr"}}],
        }),
    );
    let url = format!("http://{}/", server.address());
    let field = "X-Forwarded-For: 203.0.113.9";
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let head = output_of("curl", &["-s", "-i", version, "-H", field, &url]);
        assert!(
            head.to_lowercase().contains("location: /203.0.113.9"),
            "{head}"
        );
    }
}

#[test]
fn node_is_answered() {
    let script = source("tests/conformance/h2/client.js");
    for site in sites() {
        assert_eq!(
            output_of("node", &[script.to_str().unwrap(), &site.url("")]),
            "ok\n"
        );
    }
}

#[test]
fn httpx_is_answered() {
    let script = source("tests/conformance/h2/client.py");
    for site in sites() {
        // Debian's own Python has Debian's packages.
        let text = output_of(
            "/usr/bin/python3",
            &[script.to_str().unwrap(), &site.url("")],
        );
        assert_eq!(text, "ok\n");
    }
}

#[test]
fn applications_of_all_languages_get_bodies_and_give_them() {
    for is_tls in [false, true] {
        let mut listener = json!({"pass": "routes"});
        if is_tls {
            listener["tls"] = json!({"certificate": "site"});
        }
        let server = echo::site(&listener);
        let site = Site { server, is_tls };
        for name in echo::NAMES {
            echoes(&site.url(&format!("/{name}/")));
        }
    }
}

#[test]
fn chromium_loads_a_site_of_a_hundred_files() {
    let site = Site {
        server: site(true),
        is_tls: true,
    };
    hundred_files::write(&site.server);
    let chromium = hundred_files::Chromium::new(&[]);
    let url = site.url("/hundred.html");
    assert_eq!(chromium.sees(&url), hundred_files::seen("h2"));
    let png = chromium.picture(&url);
    assert!(
        png.starts_with(b"\x89PNG") && png.len() > 5_000,
        "{} bytes",
        png.len()
    );
    if let Some(folder) = std::env::var_os("TUTTI_SCREENSHOTS") {
        std::fs::write(PathBuf::from(folder).join("hundred-files.png"), png).unwrap();
    }
}

#[test]
fn the_guide_is_right() {
    let guide = chapter(
        include_str!("../../../docs/http/http2-and-http3.md"),
        "HTTP/2",
    );
    let example = guide.split("```json\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let server = Server::start(&ServerOptions::default());
    let without = free_port();
    let example = example
        .replace("*:8080", &format!("127.0.0.1:{}", server.port()))
        .replace("127.0.0.1:8081", &format!("127.0.0.1:{without}"));
    server.put("/config", &serde_json::from_str(&example).unwrap());
    let arguments = [
        "-s",
        "-w",
        "%{http_version} %{http_code}",
        "--http2-prior-knowledge",
    ];
    let url = format!("http://127.0.0.1:{}", server.port());
    assert_eq!(
        output_of("curl", &[&arguments[..], &[&url]].concat()),
        "2 200"
    );
    let settings = output_of("nghttp", &["-nv", &url]);
    for setting in [
        "MAX_CONCURRENT_STREAMS(0x03):50]",
        "INITIAL_WINDOW_SIZE(0x04):65536]",
    ] {
        assert!(settings.contains(setting), "{setting} in {settings}");
    }
    let refused = client::raw(
        ([127, 0, 0, 1], without).into(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    );
    assert!(refused.unwrap().starts_with(b"HTTP/1.1 505 "));
}
