//! TLS through the whole server, with clients that other people wrote: curl, openssl s_client, Python's ssl.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::external::source;
use tutti_e2e::python::environment;
use tutti_testkit::{PATIENCE, Server, ServerOptions, client, wait_until};

fn upload(server: &Server, name: &str, pem: &str) -> tutti_testkit::Reply {
    let path = format!("/certificates/{name}");
    client::control(server.control(), "PUT", &path, pem.as_bytes()).unwrap()
}

fn must_upload(server: &Server, name: &str, pem: &str) {
    let reply = upload(server, name, pem);
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// A listener with these TLS options, which answers 201 to requests over TLS.
fn configure(server: &Server, tls: &Value) {
    configure_with(server, tls, 60);
}

/// The same, with so many seconds for the handshake and for a head.
fn configure_with(server: &Server, tls: &Value, header_read_timeout: u32) {
    let configuration = json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes", "tls": tls}},
        "settings": {"http": {"header_read_timeout": header_read_timeout}},
        "routes": [
            {"match": {"uri": "/files/*"}, "action": {"share": format!("{}/www$uri", server.folder().display())}},
            {"match": {"scheme": "https"}, "action": {"return": 201}},
            {"action": {"return": 202}}
        ]
    });
    server.put("/config", &configuration);
}

fn start() -> (Server, Authority) {
    let server = Server::start(&ServerOptions::default());
    let authority = Authority::new(server.folder());
    (server, authority)
}

/// A server with one certificate for `example.com`, named `site`.
fn site(key: &str, tls: &Value) -> (Server, Authority) {
    let (server, authority) = start();
    let pem = authority.bundle("site", key, "DNS:example.com");
    must_upload(&server, "site", &pem);
    let mut all = json!({"certificate": "site"});
    tutti_testkit::set_members(&mut all, tls);
    configure(&server, &all);
    (server, authority)
}

/// curl as `example.com`; status, body and errors.
fn curl(
    server: &Server,
    authority: &Authority,
    arguments: &[&str],
    path: &str,
) -> (String, Vec<u8>, String) {
    let port = server.port();
    let body = authority.path("body");
    let _ = fs::remove_file(&body);
    let run = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--write-out",
            "%{http_code}",
        ])
        .arg("--output")
        .arg(&body)
        .arg("--cacert")
        .arg(authority.path("ca.pem"))
        .args(["--resolve", &format!("example.com:{port}:127.0.0.1")])
        .args(arguments)
        .arg(format!("https://example.com:{port}{path}"))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&run.stdout),
        fs::read(&body).unwrap_or_default(),
        text(&run.stderr),
    )
}

/// The words of `openssl s_client` about a connection.
fn s_client(server: &Server, authority: &Authority, arguments: &str) -> String {
    let mut child = Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &format!("127.0.0.1:{}", server.port()),
        ])
        .args(["-CAfile", "ca.pem"])
        .args(arguments.split_ascii_whitespace())
        .current_dir(authority.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // An answer has come, and with it all tickets, before the connection ends.
    let request = b"GET / HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n";
    let mut input = child.stdin.take().unwrap();
    let _ = input.write_all(request);
    let reader = std::thread::spawn({
        let mut output = child.stdout.take().unwrap();
        move || {
            let mut text = Vec::new();
            output.read_to_end(&mut text).unwrap();
            text
        }
    });
    let mut errors = Vec::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_end(&mut errors)
        .unwrap();
    drop(input);
    child.wait().unwrap();
    let output = reader.join().unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&output),
        String::from_utf8_lossy(&errors)
    )
}

#[test]
fn a_bundle_is_stored_shown_used_and_kept() {
    let (mut server, authority) = start();
    let pem = authority.bundle(
        "site",
        "rsa:2048",
        "DNS:example.com,DNS:www.example.com,IP:192.0.2.1",
    );
    let reply = upload(&server, "site", &pem);
    assert_eq!(
        reply.json(),
        json!({"success": "Certificate chain uploaded."})
    );
    let shown = server.call("GET", "/certificates", &Value::Null).json();
    assert_eq!(shown["site"]["key"], "RSA (2048 bits)");
    let leaf = &shown["site"]["chain"][0];
    let subject = json!({"common_name": "site", "alt_names": ["example.com", "www.example.com", "192.0.2.1"], "country": "US",
                         "state_or_province": "CA", "organization": "Acme"});
    assert_eq!(leaf["subject"], subject);
    assert_eq!(leaf["issuer"]["common_name"], "sub");
    assert!(
        leaf["validity"]["until"]
            .as_str()
            .unwrap()
            .ends_with(" GMT")
    );
    assert_eq!(shown["site"]["chain"].as_array().unwrap().len(), 2);
    let deep = server.call(
        "GET",
        "/certificates/site/chain/0/subject/alt_names/0/",
        &Value::Null,
    );
    assert_eq!(deep.json(), "example.com");

    configure(&server, &json!({"certificate": "site"}));
    assert_eq!(curl(&server, &authority, &[], "/").0, "201");
    assert_eq!(
        curl(&server, &authority, &["--tls-max", "1.2"], "/").0,
        "201"
    );
    let refused = server.call("DELETE", "/certificates/site", &Value::Null);
    assert_eq!(refused.status, 409);
    assert!(
        refused.text().contains("tls/certificate"),
        "{}",
        refused.text()
    );

    let file = server.folder().join("state/certs/site");
    let file = if file.exists() {
        file
    } else {
        find(server.folder(), "site").unwrap()
    };
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    server.start_again(&ServerOptions::default());
    assert_eq!(curl(&server, &authority, &[], "/").0, "201");

    server.put("/config", &json!({}));
    assert_eq!(
        server
            .call("DELETE", "/certificates/site", &Value::Null)
            .status,
        200
    );
    assert_eq!(
        server
            .call("GET", "/certificates/site", &Value::Null)
            .status,
        404
    );
    assert_eq!(
        server
            .call("DELETE", "/certificates/site", &Value::Null)
            .status,
        404
    );
    assert!(!file.exists());
}

/// A file `certs/NAME` somewhere below `folder`.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.ends_with(format!("certs/{name}")) {
            return Some(path);
        }
        if path.is_dir()
            && let Some(found) = find(&path, name)
        {
            return Some(found);
        }
    }
    None
}

#[test]
fn errors_name_what_is_wrong_and_order_does_not_matter() {
    let (server, authority) = start();
    authority.bundle("a", "rsa:2048", "DNS:a.example");
    authority.bundle("b", EC, "DNS:b.example");
    authority.openssl("pkey -in a.key -aes256 -passout pass:x -out locked.key");
    authority.openssl("pkey -in b.key -traditional -out b.sec1");
    authority.openssl("rsa -in a.key -traditional -out a.pkcs1");
    authority.openssl("x509 -in a.pem -outform der -out a.der");
    authority
        .openssl("req -x509 -newkey ed25519 -nodes -keyout e.key -out e.pem -days 9 -subj /CN=e");
    let of = |names: &[&str]| {
        names
            .iter()
            .map(|name| authority.read(name))
            .collect::<String>()
    };
    for (pem, expected) in [
        (of(&["a.pem", "sub.pem"]), "no private key"),
        (of(&["a.key"]), "no certificate"),
        (of(&["a.pem", "b.key"]), "does not belong"),
        (of(&["a.pem", "locked.key"]), "encrypted"),
        (of(&["a.pem", "a.key", "b.key"]), "several private keys"),
        (of(&["a.pem", "b.pem", "a.key"]), "not part of the chain"),
        (of(&["a.csr", "a.key"]), "certificate request"),
        ("hello".to_owned(), "not PEM"),
        (of(&["a.pem", "a.key"]).replace('\n', ""), "PEM"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned(),
            "cannot be read",
        ),
    ] {
        let reply = upload(&server, "x", &pem);
        assert_eq!(reply.status, 400, "{expected}: {}", reply.text());
        assert!(
            reply.text().contains(expected),
            "{expected}: {}",
            reply.text()
        );
    }
    let der = fs::read(authority.path("a.der")).unwrap();
    let reply = client::control(server.control(), "PUT", "/certificates/x", &der).unwrap();
    assert!(reply.text().contains("DER"), "{}", reply.text());
    for (names, key) in [
        (
            &["a.key", "sub.pem", "ca.pem", "a.pem"][..],
            "RSA (2048 bits)",
        ),
        (&["a.pkcs1", "a.pem"], "RSA (2048 bits)"),
        (&["b.sec1", "sub.pem", "b.pem"], "ECDH"),
        (&["e.pem", "e.key"], "Ed25519 (256 bits)"),
    ] {
        must_upload(&server, "x", &of(names));
        let shown = server.call("GET", "/certificates/x", &Value::Null).json();
        assert_eq!(shown["key"], key);
        let leaf = &shown["chain"][0]["subject"]["common_name"];
        assert_ne!(leaf, "sub");
        assert_ne!(leaf, "root");
    }
}

#[test]
fn damaged_bundles_are_refused_or_taken_and_nothing_worse() {
    let (server, authority) = start();
    let pem = authority.bundle("a", EC, "DNS:a.example").into_bytes();
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    let mut random = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % limit as u64) as usize
    };
    for _ in 0..300 {
        let mut damaged = pem.clone();
        for _ in 0..=random(3) {
            let place = random(damaged.len());
            match random(3) {
                0 => damaged[place] = b"AZaz09+/=-\n"[random(11)],
                1 => drop(damaged.drain(place..(place + random(80)).min(damaged.len()))),
                _ => damaged.insert(place, b'A'),
            }
        }
        let reply = client::control(server.control(), "PUT", "/certificates/x", &damaged).unwrap();
        assert!(matches!(reply.status, 200 | 400), "{}", reply.text());
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn applications_see_tls_and_the_certificate_of_the_client() {
    let (server, authority) = site("rsa:2048", &json!({}));
    authority.issue("person", "rsa:2048", "ca", "extendedKeyUsage=clientAuth");
    must_upload(&server, "people", &authority.read("ca.pem"));
    let page =
        "<?php echo json_encode([$_SERVER['HTTPS'] ?? '', $_SERVER['HTTP_CLIENT_CERT'] ?? '']);";
    server.write("php/index.php", page);
    let configuration = |clients: Value| {
        let mut tls = json!({"certificate": "site"});
        tutti_testkit::set_members(&mut tls, &clients);
        json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "applications/php", "tls": tls}},
            "applications": {"php": {"type": "php", "root": server.folder().join("php")}}
        })
    };
    let (key, pem) = (authority.path("person.key"), authority.path("person.pem"));
    let person = [
        "--cert",
        pem.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
        "--header",
        "Client-Cert: forged",
    ];
    let forged = ["--header", "Client-Cert: forged"];
    let seen = |arguments: &[&str]| -> Value {
        let (_, body, errors) = curl(&server, &authority, arguments, "/");
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {errors}"))
    };
    server.put("/config", &configuration(json!({})));
    // No client is asked for a certificate here, and none may claim to have one (issue 10).
    assert_eq!(seen(&forged), json!(["on", ""]));
    let asked = json!({"client_ca": "people", "client_verify": "optional"});
    server.put("/config", &configuration(asked));
    assert_eq!(seen(&forged), json!(["on", ""]));
    let text = authority.read("person.pem");
    let base64: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    assert_eq!(seen(&person), json!(["on", format!(":{base64}:")]));
    // Where the configuration says the field, there is one, and it says what the configuration does (issue 10).
    for (change, (with, without)) in [
        (json!("of $tls_client_serial"), ("of ", "of ")),
        (json!(null), ("", "")),
    ] {
        let mut whole = configuration(json!({"client_ca": "people", "client_verify": "optional"}));
        let listener = format!("127.0.0.1:{}", server.port());
        whole["listeners"][&listener]["pass"] = json!("routes");
        whole["routes"] = json!([
            {"action": {"pass": "applications/php", "request_headers": {"Client-Cert": change}}}
        ]);
        server.put("/config", &whole);
        for (arguments, expected) in [(&person[..], with), (&forged, without)] {
            let said = seen(arguments)[1].as_str().unwrap().to_owned();
            assert!(
                said.starts_with(expected) && !said.contains("forged"),
                "{said}"
            );
            assert!(!said.contains(':'), "{said}");
        }
    }
}

#[test]
fn the_name_and_the_client_choose_the_certificate() {
    let (server, authority) = start();
    for (name, key, names) in [
        ("first", "rsa:2048", "DNS:first.example"),
        ("wild", "rsa:2048", "DNS:*.example.com"),
        ("exact", "rsa:2048", "DNS:www.example.com"),
        ("curve", EC, "DNS:both.example.com"),
        ("both", "rsa:2048", "DNS:both.example.com"),
    ] {
        must_upload(&server, name, &authority.bundle(name, key, names));
    }
    configure(
        &server,
        &json!({"certificate": ["first", "wild", "exact", "curve", "both"]}),
    );
    let subject = |arguments: &str| {
        let text = s_client(&server, &authority, arguments);
        let line = text
            .lines()
            .find(|line| line.starts_with("subject="))
            .map(str::to_owned);
        line.unwrap_or(text).replace(' ', "")
    };
    for (asked, expected) in [
        ("-noservername", "CN=first"),
        ("-servername other.example", "CN=first"),
        ("-servername a.example.com", "CN=wild"),
        ("-servername WWW.example.com", "CN=exact"),
        ("-servername both.example.com", "CN=curve"),
        (
            "-servername both.example.com -sigalgs RSA-PSS+SHA256",
            "CN=both",
        ),
        (
            "-servername both.example.com -tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256",
            "CN=both",
        ),
    ] {
        let found = subject(asked);
        assert!(found.ends_with(expected), "{asked}: {found}");
    }
}

#[test]
fn commands_choose_protocols_ciphers_and_groups() {
    let commands = json!({"minprotocol": "TLSv1.3", "ciphersuites": "TLS_CHACHA20_POLY1305_SHA256", "Groups": "P-384"});
    let (server, authority) = site("rsa:2048", &json!({"conf_commands": commands}));
    let text = s_client(&server, &authority, "");
    assert!(text.contains("TLS_CHACHA20_POLY1305_SHA256"), "{text}");
    assert!(text.contains("secp384r1"), "{text}");
    let text = s_client(&server, &authority, "-tls1_2");
    assert!(text.contains("alert protocol version"), "{text}");
    let commands = json!({"MaxProtocol": "TLSv1.2", "CipherString": "HIGH:!AES256:!CHACHA20"});
    configure(
        &server,
        &json!({"certificate": "site", "conf_commands": commands}),
    );
    let text = s_client(&server, &authority, "");
    assert!(text.contains("ECDHE-RSA-AES128-GCM-SHA256"), "{text}");
}

/// Connects twice; whether the second connection took up the session of the first.
fn is_resumed(server: &Server, authority: &Authority, version: &str) -> bool {
    let _ = fs::remove_file(authority.path("session.pem"));
    let first = s_client(
        server,
        authority,
        &format!("{version} -sess_out session.pem"),
    );
    assert!(first.contains("HTTP/1.1 201"), "{first}");
    is_taken_up(server, authority, version)
}

fn is_taken_up(server: &Server, authority: &Authority, version: &str) -> bool {
    if !authority.path("session.pem").exists() {
        // There was none to be kept.
        return false;
    }
    let text = s_client(
        server,
        authority,
        &format!("{version} -sess_in session.pem"),
    );
    assert!(text.contains("HTTP/1.1 201"), "{text}");
    text.contains("Reused, ")
}

#[test]
fn sessions_are_taken_up_by_cache_and_by_tickets_also_after_a_restart() {
    let (mut server, authority) = site("rsa:2048", &json!({}));
    let versions = ["-tls1_3", "-tls1_2"];
    for version in versions {
        assert!(
            !is_resumed(&server, &authority, version),
            "{version}: off by default"
        );
    }
    let with = |session: Value| json!({"certificate": "site", "session": session});
    for session in [json!({"cache_size": 100}), json!({"tickets": true})] {
        configure(&server, &with(session.clone()));
        for version in versions {
            assert!(
                is_resumed(&server, &authority, version),
                "{version} {session}"
            );
        }
    }
    // One new certificate, the same keys: sessions go on.
    let (one, two) = (
        "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm",
        "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTBmZWRjYmE5ODc2NTQzMjEw",
    );
    configure(&server, &with(json!({"tickets": [one]})));
    for version in versions {
        assert!(is_resumed(&server, &authority, version), "{version}");
        configure(&server, &with(json!({"tickets": [one, two]})));
        assert!(
            is_taken_up(&server, &authority, version),
            "{version}: both keys open"
        );
        server.start_again(&ServerOptions::default());
        assert!(
            is_taken_up(&server, &authority, version),
            "{version}: after a restart"
        );
        configure(&server, &with(json!({"tickets": [two]})));
        assert!(
            !is_taken_up(&server, &authority, version),
            "{version}: the key is gone"
        );
        configure(&server, &with(json!({"tickets": [one]})));
    }
}

#[test]
fn clients_show_certificates_and_no_old_session_gets_around_that() {
    let keys =
        json!({"tickets": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm"});
    let (server, authority) = site("rsa:2048", &json!({"session": keys}));
    authority.issue("person", "rsa:2048", "ca", "extendedKeyUsage=clientAuth");
    authority.openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout own.key -out own.pem -days 9 -subj /CN=own",
    );
    must_upload(&server, "people", &authority.read("ca.pem"));
    assert!(is_resumed(&server, &authority, "-tls1_3"));
    let options = |verify: &str| json!({"certificate": "site", "session": keys, "client_ca": "people", "client_verify": verify});
    let (key, pem) = (authority.path("person.key"), authority.path("person.pem"));
    let person = [
        "--cert",
        pem.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ];
    let (own_key, own_pem) = (authority.path("own.key"), authority.path("own.pem"));
    let own = [
        "--cert",
        own_pem.to_str().unwrap(),
        "--key",
        own_key.to_str().unwrap(),
    ];
    for (verify, without) in [("required", "000"), ("optional", "201")] {
        configure(&server, &options(verify));
        assert_eq!(curl(&server, &authority, &person, "/").0, "201", "{verify}");
        assert_eq!(curl(&server, &authority, &[], "/").0, without, "{verify}");
        assert_eq!(curl(&server, &authority, &own, "/").0, "000", "{verify}");
    }
    configure(&server, &options("required"));
    // A session from before, without a certificate, and the same ticket key.
    let text = s_client(&server, &authority, "-tls1_3 -sess_in session.pem");
    assert!(!text.contains("HTTP/1.1 201"), "{text}");
    let refused = server.call(
        "PUT",
        &format!(
            "/config/listeners/127.0.0.1:{}/tls/certificate",
            server.port()
        ),
        &json!("people"),
    );
    assert!(
        refused.text().contains("no private key"),
        "{}",
        refused.text()
    );
}

/// A listener, and clients with certificates of all kinds: `person` holds, `server` is for servers, `own` is self-signed, `old` is of X.509
/// version 1, and an empty name is a client without one.
struct Clients {
    server: Server,
    authority: Authority,
}

/// Options of curl for the versions of TLS and HTTP.
const VERSIONS: [&str; 3] = ["--http1.1 --tls-max 1.2", "--http1.1", "--http2"];

impl Clients {
    fn new() -> Self {
        let (server, authority) = site(EC, &json!({}));
        authority.issue("person", EC, "ca", "extendedKeyUsage=clientAuth");
        authority.issue("server", EC, "ca", "extendedKeyUsage=serverAuth");
        authority.openssl(&format!(
            "req -x509 -newkey {EC} -nodes -keyout own.key -out own.pem -days 2 -subj /CN=own"
        ));
        // Without extensions.
        authority.openssl(&format!(
            "req -new -newkey {EC} -nodes -keyout old.key -out old.csr -subj /CN=old"
        ));
        authority.openssl("x509 -req -in old.csr -signkey old.key -out old.pem -days 2");
        must_upload(&server, "people", &authority.read("ca.pem"));
        fs::write(authority.path("page.html"), "Show a certificate.").unwrap();
        Self { server, authority }
    }

    fn listen(&self, tls: &Value) {
        let mut all = json!({"certificate": "site", "client_ca": "people"});
        tutti_testkit::set_members(&mut all, tls);
        let listener = json!({
            "pass": "routes",
            "tls": all,
            "error_pages": {"400": {"share": self.authority.path("page.html")}},
        });
        let step = json!({"action": {"return": 201, "response_headers_always": {"X": "$tls_client_verify"}}});
        let address = format!("127.0.0.1:{}", self.server.port());
        let config = json!({"listeners": {address: listener}, "routes": [step]});
        self.server.put("/config", &config);
    }

    /// Status and content, with the head if `options` ask for it.
    fn ask(&self, name: &str, options: &str) -> (String, String) {
        let file = |end: &str| {
            let path = self.authority.path(&format!("{name}.{end}"));
            path.display().to_string()
        };
        let shown = match name {
            "" => Vec::new(),
            _ => vec![
                "--cert".to_owned(),
                file("pem"),
                "--key".to_owned(),
                file("key"),
            ],
        };
        let shown = shown.iter().map(String::as_str);
        let arguments: Vec<&str> = shown.chain(options.split(' ')).collect();
        let (status, body, _) = curl(&self.server, &self.authority, &arguments, "/");
        (status, String::from_utf8(body).unwrap())
    }

    /// `$tls_client_verify`.
    fn said(&self, name: &str, version: &str) -> String {
        let (_, text) = self.ask(name, &format!("{version} --include"));
        let lines = text.lines();
        let mut found = lines.filter(|line| line.to_lowercase().starts_with("x: "));
        found
            .next()
            .map_or(text.clone(), |line| line[3..].to_owned())
    }
}

/// Issue 31, 4.6.
#[test]
fn a_client_without_a_valid_certificate_gets_a_page() {
    let clients = Clients::new();
    clients.listen(&json!({"client_failure": "page"}));
    for version in VERSIONS {
        assert_eq!(clients.ask("person", version).0, "201", "{version}");
        for name in ["", "server", "own", "old"] {
            let expected = ("400".to_owned(), "Show a certificate.".to_owned());
            assert_eq!(clients.ask(name, version), expected, "{name} {version}");
        }
    }
    for line in [
        "400: the client has shown no certificate",
        "400: FAILED:the certificate is not for clients",
    ] {
        clients.server.wait_for_log(line);
    }
    clients.listen(&json!({"client_failure": "page", "client_verify": "optional"}));
    for version in VERSIONS {
        assert_eq!(clients.ask("", version).0, "201", "{version}");
        assert_eq!(clients.ask("own", version).0, "400", "{version}");
    }
    clients.listen(&json!({}));
    for version in VERSIONS {
        assert_eq!(clients.ask("person", version).0, "201", "{version}");
        for name in ["", "server", "own", "old"] {
            assert_eq!(clients.ask(name, version).0, "000", "{name} {version}");
        }
    }
}

#[test]
fn connections_from_before_a_rule_about_certificates_are_not_served() {
    let (server, authority) = site(EC, &json!({}));
    must_upload(&server, "people", &authority.read("ca.pem"));
    let mut run = Command::new("openssl")
        .args(["s_client", "-quiet", "-CAfile", "ca.pem", "-connect"])
        .arg(server.address().to_string())
        .current_dir(authority.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (run.stdin.take().unwrap(), run.stdout.take().unwrap());
    let mut ask = || {
        input
            .write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
            .unwrap();
        let reply = client::read_reply(&mut output, &mut Vec::new(), "GET").unwrap();
        let reply = reply.unwrap();
        (reply.status, reply.keeps_connection())
    };
    assert_eq!(ask(), (201, true));
    // A change of something else.
    configure(
        &server,
        &json!({"certificate": "site", "session": {"timeout": 60}}),
    );
    assert_eq!(ask(), (201, true));
    let rule = json!({"certificate": "site", "client_ca": "people"});
    configure(&server, &rule);
    assert_eq!(ask(), (421, false));
    assert_eq!(output.read(&mut [0; 1]).unwrap(), 0, "it is closed");
    run.wait().unwrap();
    server.wait_for_log("421: the connection is from before a change");
    // Plain HTTP from before the listener had TLS.
    let plain = json!({"listeners": {server.address().to_string(): {"pass": "routes"}}, "routes": [{"action": {"return": 202}}]});
    server.put("/config", &plain);
    let mut open = client::Client::to(server.address());
    let mut ask = || {
        open.send("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n");
        open.response("GET").status
    };
    assert_eq!(ask(), 202);
    configure(&server, &rule);
    assert_eq!(ask(), 421);
    assert!(open.is_closed());
}

/// Asks over HTTP/2, and again on the same connection after a line; prints the kinds of the frames that come then, until the end.
const HTTP2_TWICE: &str = r#"
import socket, ssl, sys
def frame(kind, flags, stream, payload): return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
head = b"\x82\x87\x84\x41\x0bexample.com"
context = ssl.create_default_context(cafile=sys.argv[2])
context.set_alpn_protocols(["h2"])
heard = b""
def frames(tls):
    global heard
    while piece := tls.recv(65536):
        heard += piece
        while len(heard) >= 9 and len(heard) >= 9 + (length := int.from_bytes(heard[:3], "big")):
            kind, flags, stream, heard = heard[3], heard[4], int.from_bytes(heard[5:9], "big"), heard[9 + length:]
            yield kind, flags, stream
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) as plain:
    with context.wrap_socket(plain, server_hostname="example.com") as tls:
        tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, head))
        next(1 for kind, flags, stream in frames(tls) if stream == 1 and flags & 1)
        print("answered", flush=True)
        sys.stdin.readline()
        tls.sendall(frame(1, 5, 3, head))
        try: print(*(kind for kind, _, _ in frames(tls)))
        except ssl.SSLEOFError: pass
"#;

#[test]
fn connections_of_http2_from_before_a_rule_about_certificates_end() {
    let (server, authority) = site(EC, &json!({}));
    must_upload(&server, "people", &authority.read("ca.pem"));
    let mut run = Command::new("python3")
        .args(["-c", HTTP2_TWICE, &server.port().to_string()])
        .arg(authority.path("ca.pem"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (run.stdin.take().unwrap(), run.stdout.take().unwrap());
    let mut first = [0; 9];
    output.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"answered\n");
    configure(
        &server,
        &json!({"certificate": "site", "client_ca": "people"}),
    );
    input.write_all(b"\n").unwrap();
    let mut kinds = String::new();
    output.read_to_string(&mut kinds).unwrap();
    assert!(run.wait().unwrap().success());
    server.wait_for_log("421: the connection is from before a change");
    // GOAWAY.
    assert!(
        kinds.split_ascii_whitespace().any(|kind| kind == "7"),
        "{kinds}"
    );
}

/// The example of the guide, for nginx's 495 and 496.
#[test]
fn an_error_page_tells_missing_certificates_from_invalid_ones() {
    let clients = Clients::new();
    let page = include_str!("../../../docs/http/tls.md");
    let examples = page.split("```json\n").skip(1);
    let mut examples = examples.filter_map(|rest| rest.split("```").next());
    let example = examples.find(|example| example.contains("map_refusal"));
    let address = format!("127.0.0.1:{}", clients.server.port());
    let example = example.unwrap().replace("*:443", &address);
    let example = example.replace("\"bundle\"", "\"site\"");
    clients
        .server
        .put("/config", &serde_json::from_str(&example).unwrap());
    for version in VERSIONS {
        let asked = |name: &str| clients.ask(name, version);
        assert_eq!(asked("person").0, "200", "{version}");
        let expected = ("400".to_owned(), "Please choose a certificate.".to_owned());
        assert_eq!(asked(""), expected, "{version}");
        let expected = (
            "400".to_owned(),
            "This certificate is not valid here.".to_owned(),
        );
        for name in ["own", "server", "old"] {
            assert_eq!(asked(name), expected, "{name} {version}");
        }
    }
}

/// Issue 31, 4.6.
#[test]
fn the_check_of_a_client_s_certificate_can_be_reported_alone() {
    let clients = Clients::new();
    clients.listen(&json!({"client_failure": "report", "client_verify": "optional"}));
    for version in VERSIONS {
        for (name, verified) in [
            ("", "NONE"),
            ("person", "SUCCESS"),
            ("server", "FAILED:the certificate is not for clients"),
            ("own", "FAILED:the certificate is that of an authority"),
            ("old", "FAILED:the certificate is not of X.509 version 3"),
        ] {
            assert_eq!(clients.said(name, version), verified, "{name} {version}");
        }
    }
    let place = format!("/config/listeners/127.0.0.1:{}/tls", clients.server.port());
    let refused = clients
        .server
        .call("PUT", &format!("{place}/client_verify"), &json!("required"));
    assert!(
        refused.text().contains("client_failure"),
        "{}",
        refused.text()
    );
}

/// `openssl x509` about a certificate of the authority's folder, without the name of what is asked.
fn x509(authority: &Authority, name: &str, arguments: &str) -> String {
    let run = Command::new("openssl")
        .args(["x509", "-noout", "-in", name])
        .args(arguments.split(' '))
        .current_dir(authority.folder())
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    text.trim().split_once('=').unwrap().1.to_owned()
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn variables_tell_of_tls_and_of_the_client_in_routes_in_fields_and_in_the_log() {
    let (server, authority) = site(EC, &json!({}));
    authority.openssl("req -new -newkey rsa:2048 -nodes -keyout person.key -out person.csr -multivalue-rdn -subj /C=US/O=Acme,Inc./CN=Zo\u{eb}+UID=7 -utf8");
    fs::write(
        authority.path("extensions"),
        "extendedKeyUsage=clientAuth\n",
    )
    .unwrap();
    authority.openssl("x509 -req -extfile extensions -in person.csr -CA ca.pem -CAkey ca.key -set_serial 0xC0FFEE00112233 -out person.pem -days 9");
    let names = [
        "protocol",
        "cipher",
        "server_name",
        "client_verify",
        "client_subject",
        "client_issuer",
        "client_serial",
        "client_fingerprint",
    ];
    let said = names.map(|name| format!("$tls_{name}")).join("|");
    let log = server.folder().join("access.log");
    let listener = json!({"certificate": "site", "client_ca": authority.path("ca.pem"), "client_verify": "optional"});
    let configuration = json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes", "tls": listener}},
        "routes": [
            {"match": {"if": "$tls_client_subject"}, "action": {"return": 201, "response_headers": {"X-Said": said}}},
            {"action": {"return": 202, "response_headers": {"X-Said": said}}}
        ],
        "access_log": {"path": log, "format": said}
    });
    // The authorities are in a file, which the router's user must be able to read.
    let mode = |mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        for path in [
            server.folder().to_owned(),
            authority.folder().to_owned(),
            authority.path("ca.pem"),
        ] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    mode(0o755);
    server.put("/config", &configuration);
    let (key, pem) = (authority.path("person.key"), authority.path("person.pem"));
    let person = [
        "--cert",
        pem.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ];
    let serial = "C0FFEE00112233";
    let fingerprint = x509(&authority, "person.pem", "-fingerprint -sha256")
        .replace(':', "")
        .to_lowercase();
    let subject = x509(
        &authority,
        "person.pem",
        "-subject -nameopt RFC2253,-esc_msb,utf8",
    );
    assert!(subject.contains("Acme\\,Inc."), "{subject}");
    let own = [
        format!("SUCCESS|{subject}|CN=root|{serial}|{fingerprint}"),
        "NONE||||".to_owned(),
    ];
    let mut expected = Vec::new();
    for (version, suite, http) in [
        ("1.3", "TLS_AES_128_GCM_SHA256", "--http2"),
        ("1.3", "TLS_AES_128_GCM_SHA256", "--http1.1"),
        (
            "1.2",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "--http1.1",
        ),
    ] {
        let cipher = match version {
            "1.3" => ["--tls13-ciphers", suite],
            _ => ["--ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"],
        };
        for (client, status, own) in [(&person[..], "201", &own[0]), (&[], "202", &own[1])] {
            let common = [http, "--tls-max", version, "--include", "--head"];
            let all = [&common[..], &cipher, client].concat();
            let (got, answer, errors) = curl(&server, &authority, &all, "/");
            let shown = String::from_utf8_lossy(&answer);
            assert_eq!(got, status, "{all:?}: {errors}{shown}");
            let line = format!("TLSv{version}|{suite}|example.com|{own}");
            let answer = String::from_utf8(answer).unwrap();
            let field = answer.lines().find_map(|one| {
                one.split_once(": ")
                    .filter(|(name, _)| name.eq_ignore_ascii_case("x-said"))
            });
            assert_eq!(field.unwrap().1, line, "{all:?}");
            // Empty values and backslashes are written as in all logs.
            let values = line
                .split('|')
                .map(|value| if value.is_empty() { "-" } else { value });
            expected.push(
                values
                    .collect::<Vec<_>>()
                    .join("|")
                    .replace('\\', "\\x5C")
                    .replace('ë', "\\xC3\\xAB"),
            );
        }
    }
    // Each listen thread writes its own lines, when it has nothing else to do.
    let mut lines = Vec::new();
    wait_until("the lines of the log", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        lines = text.lines().map(str::to_owned).collect();
        text.ends_with('\n') && lines.len() == expected.len()
    });
    lines.sort();
    expected.sort();
    assert_eq!(lines, expected);
    // Without TLS there is none.
    let mut plain = configuration.clone();
    plain["listeners"] = json!({format!("127.0.0.1:{}", server.port()): {"pass": "routes"}});
    server.put("/config", &plain);
    let answer = client::raw(
        server.address(),
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    .unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 202 ") && answer.contains("X-Said: |||||||\r\n"),
        "{answer}"
    );
}

#[test]
fn a_file_of_authorities_that_cannot_be_used_is_reported_with_its_reason() {
    let (server, authority) = site(EC, &json!({}));
    authority.issue("leaf", EC, "ca", "subjectAltName=DNS:leaf");
    fs::write(authority.path("text.pem"), "nothing").unwrap();
    let place = format!("/listeners/127.0.0.1:{}/tls/client_ca/1", server.port());
    for (file, reason) in [
        ("missing.pem", "cannot read"),
        (".", "is not a regular file"),
        ("text.pem", "not PEM"),
        ("leaf.pem", "no private key"),
    ] {
        let path = authority.path(file);
        let files = json!([authority.path("ca.pem"), path]);
        let reply = server.call(
            "PUT",
            &format!(
                "/config/listeners/127.0.0.1:{}/tls/client_ca",
                server.port()
            ),
            &files,
        );
        let text = reply.text();
        assert_eq!(reply.status, 500, "{file}: {text}");
        assert!(
            text.contains(reason) && text.contains(&place),
            "{file}: {text}"
        );
        assert!(text.contains(path.to_str().unwrap()), "{file}: {text}");
    }
    assert_eq!(curl(&server, &authority, &[], "/").0, "201");
}

/// Agrees to speak HTTP/2 and sends what it is given; prints the frames that come, until the end of the connection.
const NO_HTTP2: &str = r#"
import socket, ssl, struct, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.set_alpn_protocols(["h2", "http/1.1"])
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) as plain:
    with context.wrap_socket(plain, server_hostname="example.com") as tls:
        assert tls.selected_alpn_protocol() == "h2"
        tls.sendall(bytes.fromhex(sys.argv[3]))
        heard = b""
        try:
            while piece := tls.recv(65536): heard += piece
        except ssl.SSLEOFError: pass
while heard:
    length = int.from_bytes(heard[:3], "big")
    kind, payload, heard = heard[3], heard[9:9 + length], heard[9 + length:]
    print(kind, *struct.unpack(">II", payload[:8]) if kind == 7 else "", payload[8:].decode() if kind == 7 else "")
"#;

#[test]
fn a_client_that_agrees_on_http2_and_does_not_speak_it_gets_goaway() {
    let (server, authority) = site(EC, &json!({}));
    let tell = |bytes: &[u8]| {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let run = Command::new("python3")
            .args(["-c", NO_HTTP2, &server.port().to_string()])
            .arg(authority.path("ca.pem"))
            .arg(text)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{errors}");
        String::from_utf8(run.stdout).unwrap()
    };
    // GOAWAY, no stream, PROTOCOL_ERROR.
    let goaway = "7 0 1 it does not begin with HTTP/2's preface";
    for wrong in [
        &b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ] {
        let heard = tell(wrong);
        assert!(heard.contains(goaway), "{heard}");
    }
    // Silence, and half a preface: no longer than for a head.
    configure_with(&server, &json!({"certificate": "site"}), 3);
    for silent in [&b""[..], b"PRI * HTTP"] {
        let heard = tell(silent);
        assert!(!heard.contains("7 0 1"), "{heard}");
    }
    server.wait_for_log("closed: it does not begin with HTTP/2's preface");
    configure(&server, &json!({"certificate": "site"}));
    assert_eq!(curl(&server, &authority, &["--http2"], "/").0, "201");
}

#[test]
fn plain_http_garbage_and_silence_end_well() {
    let (server, authority) = site("rsa:2048", &json!({}));
    let log = server.folder().join("access.log");
    server.put(
        "/config/access_log",
        &json!({"path": log, "format": "$request_line $status"}),
    );
    let answer = client::raw(server.address(), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("https://"),
        "{answer}"
    );
    // Both logs report it (issue 10).
    wait_until("the access log to have it", || {
        fs::read_to_string(&log).is_ok_and(|text| text == "- 400\n")
    });
    server.wait_for_log("the client speaks HTTP without TLS");
    let time = "/config/settings/http/header_read_timeout";
    server.put(time, &json!(3));
    // Handshakes that stop at each place: none of them holds up the others, all end within the deadline.
    let mut silent = Vec::new();
    for length in 0..40u8 {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let hello = [&[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3][..], &[length; 40]].concat();
        stream.write_all(&hello[..usize::from(length)]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        silent.push(stream);
    }
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for length in 1..200usize {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let garbage: Vec<u8> = (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[0]
            })
            .collect();
        let header: &[u8] = if length % 2 == 0 { &[22, 3, 1] } else { &[] };
        let _ = stream.write_all(&[header, &garbage].concat());
    }
    wait_until("others are served beside them", || {
        curl(&server, &authority, &[], "/").0 == "201"
    });
    for mut stream in silent {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = stream.read_to_end(&mut rest);
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// Issue 33: the connection was closed with unread bytes, and the reset overtook the alert.
#[test]
fn a_client_that_is_still_sending_gets_the_alert() {
    let (server, _) = site("rsa:2048", &json!({}));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A message of an unknown kind, and more than fits into the buffers of both sockets.
    let record = [&[22, 3, 3, 0, 4, 99, 0, 0, 0][..], &[0; 8 << 20]].concat();
    stream.write_all(&record).expect("all is taken");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("no reset");
    // A fatal alert (RFC 8446 §6).
    assert_eq!(heard.get(..6), Some(&[21, 3, 3, 0, 2, 2][..]), "{heard:?}");
}

#[test]
fn files_and_bodies_of_any_size_arrive_whole() {
    let (server, authority) = site(EC, &json!({}));
    fs::create_dir_all(server.folder().join("www/files")).unwrap();
    for size in [0usize, 1, 1300, 16_384, 16_385, 70_000, 5_000_000] {
        let content: Vec<u8> = (0..size).map(|n| (n * 7 + n / 251) as u8).collect();
        server.write(&format!("www/files/{size}"), &content);
        for version in ["1.2", "1.3"] {
            let (status, body, errors) = curl(
                &server,
                &authority,
                &["--tls-max", version],
                &format!("/files/{size}"),
            );
            assert_eq!(status, "200", "{errors}");
            assert!(
                body == content,
                "{size} bytes by TLS {version}: {} came",
                body.len()
            );
        }
    }
    let (status, body, _) = curl(
        &server,
        &authority,
        &["--range", "100000-4000000"],
        "/files/5000000",
    );
    assert_eq!((status.as_str(), body.len()), ("206", 3_900_001));
    let upload = authority.path("upload");
    fs::write(&upload, vec![7; 3_000_000]).unwrap();
    let data = format!("@{}", upload.display());
    assert_eq!(
        curl(&server, &authority, &["--data-binary", &data], "/").0,
        "201"
    );
}

/// Many connections, each with several requests, until told to stop; prints how many requests went well and the serial numbers seen.
const CLIENT: &str = r#"
import socket, ssl, sys, threading
port, ca = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(cafile=ca)
stop, begun = threading.Event(), threading.Event()
good, faults, serials = [0], [], set()
def one():
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        with context.wrap_socket(plain, server_hostname="example.com") as tls:
            serials.add(tls.getpeercert()["serialNumber"])
            for _ in range(5):
                tls.sendall(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
                answer = b""
                while b"\r\n\r\n" not in answer:
                    piece = tls.recv(65536)
                    if not piece: raise Exception("closed after %r" % answer)
                    answer += piece
                if not answer.startswith(b"HTTP/1.1 201"): raise Exception(repr(answer))
                good[0] += 1
def run():
    while not stop.is_set():
        try: one()
        except Exception as error: faults.append(repr(error))
        begun.set()
threads = [threading.Thread(target=run) for _ in range(4)]
for thread in threads: thread.start()
begun.wait()
print("ready", flush=True)
sys.stdin.read()
stop.set()
for thread in threads: thread.join()
print(good[0], len(serials), faults[:3])
sys.exit(1 if faults or not good[0] else 0)
"#;

#[test]
fn a_certificate_is_replaced_under_load_without_a_failed_request() {
    let (server, authority) = site(EC, &json!({}));
    let mut child = Command::new("python3")
        .args(["-c", CLIENT, &server.port().to_string()])
        .arg(authority.path("ca.pem"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    let output = child.stdout.as_mut().unwrap();
    output.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    let serial = || {
        let text = s_client(&server, &authority, "-servername example.com");
        let begin = text
            .find("-----BEGIN CERTIFICATE-----")
            .unwrap_or_else(|| panic!("{text}"));
        let end = text.find("-----END CERTIFICATE-----").unwrap();
        text[begin..end].to_owned()
    };
    let mut seen = serial();
    for round in 0..5 {
        let key = if round % 2 == 0 { "rsa:2048" } else { EC };
        must_upload(
            &server,
            "site",
            &authority.bundle("site", key, "DNS:example.com"),
        );
        let now = serial();
        assert_ne!(
            now, seen,
            "the new one is in force as soon as it is uploaded"
        );
        seen = now;
    }
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{text}");
}

/// Runs a script of `tests/conformance/tls` against a site.
fn check_conformance(python: &Path, script: &str, arguments: &[&str]) {
    let (server, authority) = site(
        EC,
        &json!({"session": {"tickets": true, "cache_size": 100}}),
    );
    let run = Command::new(python)
        .arg(source("tests/conformance/tls").join(script))
        .args(arguments)
        .arg(format!("127.0.0.1:{}", server.port()))
        .arg(authority.path("ca.pem"))
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr)
    );
    assert!(run.status.success(), "{text}");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

#[test]
fn testssl_finds_nothing() {
    check_conformance("python3".as_ref(), "check.py", &[]);
}

#[test]
#[ignore = "takes minutes; `make test-long` runs it"]
fn testssl_finds_nothing_at_length() {
    check_conformance("python3".as_ref(), "check.py", &["--long"]);
}

#[test]
fn sslyze_finds_nothing() {
    let requirements = include_str!("../../conformance/tls/requirements.txt");
    let python = environment("sslyze", requirements).join("bin/python3");
    check_conformance(&python, "scan.py", &[]);
}

#[test]
fn every_example_of_the_guide_works() {
    let (server, authority) = start();
    authority.bundle("cert", EC, "DNS:example.com");
    fs::copy(authority.path("sub.pem"), authority.path("chain.pem")).unwrap();
    fs::copy(authority.path("cert.key"), authority.path("key.pem")).unwrap();
    let page = include_str!("../../../docs/http/tls.md");
    let blocks = |language: &str| -> Vec<String> {
        let begin = format!("```{language}\n");
        let blocks = page.split(&begin).skip(1);
        blocks
            .map(|rest| rest.split("```").next().unwrap().to_owned())
            .collect()
    };
    let live = authority.path("live");
    fs::create_dir(&live).unwrap();
    let chain = authority.read("cert.pem") + &authority.read("chain.pem");
    fs::write(live.join("fullchain.pem"), chain).unwrap();
    fs::copy(authority.path("key.pem"), live.join("privkey.pem")).unwrap();
    let [upload] = blocks("sh").try_into().unwrap();
    fs::rename(authority.path("cert.pem"), authority.path("leaf.pem")).unwrap();
    fs::copy(authority.path("leaf.pem"), authority.path("cert.pem")).unwrap();
    let upload = upload.replace(
        "/run/tutti/control.sock",
        server.control().to_str().unwrap(),
    );
    let run = Command::new("sh")
        .args(["-e", "-c", &upload])
        .current_dir(authority.folder())
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&run.stdout).unwrap();
    must_upload(&server, "people", &authority.read("ca.pem"));
    let shown = server.call("GET", "/certificates", &Value::Null).json();
    let mut applied = 0;
    for example in blocks("json") {
        let example: Value = serde_json::from_str(&example).unwrap();
        if example.get("success").is_some() {
            assert_eq!(example, answer);
        } else if example.get("bundle").is_some() {
            // The same members, whatever they say.
            let keys = |value: &Value| -> Vec<String> {
                value.as_object().unwrap().keys().cloned().collect()
            };
            let (one, other) = (&example["bundle"], &shown["bundle"]);
            assert_eq!(keys(one), keys(other));
            assert_eq!(keys(&one["chain"][0]), keys(&other["chain"][0]));
            assert_eq!(one["key"], other["key"]);
        } else if example.get("listeners").is_some() {
            let text = example
                .to_string()
                .replace("*:443", &format!("127.0.0.1:{}", server.port()))
                .replace("/etc/letsencrypt/live/example.com", live.to_str().unwrap())
                .replace("/var/log/tutti", server.folder().to_str().unwrap());
            server.put("/config", &serde_json::from_str(&text).unwrap());
            // One of them refuses clients without a certificate.
            let expected = match example.get("maps") {
                Some(_) => "400",
                None => "200",
            };
            assert_eq!(curl(&server, &authority, &[], "/").0, expected);
            applied += 1;
        } else {
            configure(&server, &example);
            assert_eq!(curl(&server, &authority, &[], "/").0, "201");
            applied += 1;
        }
    }
    assert_eq!(applied, 7);
}
