//! Upstreams over TLS: the servers that the proxy trusts, what it says of the others, and how connections end.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::tls_server::TlsServer;
use tutti_e2e::{read_until, wait_for_health};
use tutti_testkit::{PATIENCE, Reply, Server, ServerOptions, client, wait_until};

/// The proxy, and what certificates are made with.
struct Front {
    server: Server,
    authority: Authority,
}

impl Front {
    fn new() -> Self {
        let server = Server::start(&ServerOptions::default());
        let authority = Authority::new(server.folder());
        // The router's user reads the authorities.
        for path in [
            server.folder().to_owned(),
            authority.folder().to_owned(),
            authority.path("ca.pem"),
        ] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { server, authority }
    }

    /// A server with a certificate for these names that holds, and more options.
    fn backend(&self, names: &str, more: &Value) -> TlsServer {
        self.authority
            .issue("backend", EC, "ca", &format!("subjectAltName={names}"));
        self.backend_with("backend", more)
    }

    fn backend_with(&self, name: &str, more: &Value) -> TlsServer {
        let mut options = json!({
            "chain": self.authority.path(&format!("{name}.pem")),
            "key": self.authority.path(&format!("{name}.key")),
        });
        tutti_testkit::set_members(&mut options, more);
        TlsServer::start(&options)
    }

    fn ca(&self) -> String {
        self.authority.path("ca.pem").to_string_lossy().into_owned()
    }

    /// Sends everything to `address` over TLS.
    fn proxy(&self, address: &str, options: &Value) {
        self.server.put(
            "/config",
            &json!({
                "listeners": {format!("127.0.0.1:{}", self.server.port()): {"pass": "routes"}},
                "routes": [{"action": {"proxy": format!("https://{address}"), "proxy_options": options}}],
                "settings": {"http": {"max_body_size": 67_108_864}},
            }),
        );
    }

    fn upload(&self, name: &str, pem: &str) {
        let path = format!("/certificates/{name}");
        let reply = client::control(self.server.control(), "PUT", &path, pem.as_bytes()).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
    }

    fn info(&self) -> Value {
        let reply = self.server.get("/info");
        assert_eq!(reply.status, 200, "{}", self.server.log());
        reply.json()
    }

    fn post(&self, path: &str, body: &[u8]) -> Reply {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client::request(self.server.address(), &[head.as_bytes(), body].concat()).unwrap()
    }

    fn expect_log(&self, text: &str) {
        self.server.wait_for_log(text);
    }

    /// Asks until the server's failure is in the log: of many errors in a short time it has not every one.
    fn expect_failure(&self, text: &str) {
        wait_until(&format!("`{text}` in the log"), || {
            self.server.get("/").status == 502 && self.server.log().contains(text)
        });
    }
}

#[test]
fn requests_and_answers_go_through_tls_on_kept_connections() {
    let front = Front::new();
    for version in ["1.2", "1.3"] {
        let backend = front.backend("IP:127.0.0.1", &json!({"version": version}));
        let tls = json!({"tls": {"ca": front.ca()}, "keepalive_timeout": 600});
        front.proxy(&backend.address().to_string(), &tls);
        let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let echoed = front.post("/echo", &body);
        assert_eq!(echoed.status, 200, "{}", front.server.log());
        assert!(echoed.body == body, "other bytes");
        assert_eq!(front.server.get("/large").body.len(), 3_200_000);
        // One for each listen thread, and some for requests that come before the one before has given its connection back.
        let most = 2 * std::thread::available_parallelism().unwrap().get();
        for _ in 0..2 * most {
            assert_eq!(front.post("/echo", b"small").text(), "small");
        }
        let info = front.info();
        assert_eq!(info["version"], format!("TLSv{version}"));
        assert_eq!(info["protocol"], "http/1.1");
        // An address is no name to ask for (RFC 6066 §3).
        assert_eq!(info["name"], Value::Null);
        assert!(
            info["connections"].as_u64().unwrap() <= most as u64,
            "{info}"
        );
    }
}

#[test]
fn the_name_is_asked_for_and_compared() {
    let front = Front::new();
    let backend = front.backend("DNS:inner.example", &json!({}));
    let address = backend.address().to_string();
    front.upload("inner", &front.authority.read("ca.pem"));
    let options = json!({"tls": {"ca": "inner", "server_name": "inner.example"}});
    front.proxy(&address, &options);
    assert_eq!(front.info()["name"], "inner.example");
    let used = front
        .server
        .call("DELETE", "/certificates/inner", &Value::Null);
    assert_eq!(used.status, 409, "{}", used.text());

    front.proxy(&address, &json!({"tls": {"ca": "inner"}}));
    front.expect_failure("its certificate is not for `127.0.0.1` but for `inner.example`");

    // A group has the options itself.
    let config = json!({
        "listeners": {format!("127.0.0.1:{}", front.server.port()): {"pass": "upstreams/u"}},
        "upstreams": {"u": {"servers": {address: {}}, "tls": options["tls"]}},
    });
    front.server.put("/config", &config);
    assert_eq!(front.info()["name"], "inner.example");
}

#[test]
fn a_name_leads_to_a_server_and_its_certificate_is_for_it() {
    let front = Front::new();
    let tls = json!({"tls": {"ca": front.ca()}});
    let backend = front.backend("DNS:localhost", &json!({}));
    front.proxy(&format!("localhost:{}", backend.address().port()), &tls);
    assert_eq!(front.info()["name"], "localhost");

    let other = front.backend("DNS:inner.example", &json!({}));
    front.proxy(&format!("localhost:{}", other.address().port()), &tls);
    front.expect_failure("its certificate is not for `localhost` but for `inner.example`");
}

#[test]
fn a_server_that_does_not_agree_on_http2_is_logged() {
    let front = Front::new();
    let options = json!({"tls": {"ca": front.ca()}, "http_version": 2});
    for protocols in [json!(["http/1.1"]), json!([])] {
        let backend = front.backend("IP:127.0.0.1", &json!({"protocols": protocols}));
        let address = backend.address().to_string();
        front.proxy(&address, &options);
        front.expect_failure(&format!(
            "server {address}: TLS handshake failed: it does not support HTTP/2 (ALPN `h2`)"
        ));
    }
}

/// Issue 31, 4.6.
#[test]
fn a_certificate_of_version_1_is_for_servers_that_are_not_verified() {
    let front = Front::new();
    for key in ["rsa:2048", EC] {
        let authority = &front.authority;
        authority.openssl(&format!(
            "req -new -newkey {key} -nodes -keyout v1.key -out v1.csr -subj /CN=v1"
        ));
        // Without extensions.
        authority.openssl("x509 -req -in v1.csr -signkey v1.key -out v1.pem -days 9");
        for version in ["1.2", "1.3"] {
            let backend = front.backend_with("v1", &json!({"version": version}));
            let address = backend.address().to_string();
            front.proxy(&address, &json!({"tls": {"verify": false}}));
            assert_eq!(front.server.get("/info").status, 200, "{key} {version}");
            front.proxy(&address, &json!({"tls": {"ca": front.ca()}}));
            assert_eq!(front.server.get("/info").status, 502, "{key} {version}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_server_is_said() {
    let front = Front::new();
    let authority = &front.authority;
    let names = "subjectAltName=IP:127.0.0.1";
    authority.issue_for("-days 0", "old", EC, "ca", names);
    // It is good until the end of the second it was made in.
    let issued = std::time::Instant::now();
    wait_until("it has expired", || {
        issued.elapsed() > std::time::Duration::from_secs(2)
    });
    authority.openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout own.key -out own.pem -days 9 -subj /CN=own",
    );
    let ca = json!({"tls": {"ca": front.ca()}, "keepalive": 0});
    let ask = |address: &str, options: &Value, words: &str| {
        front.proxy(address, options);
        front.expect_failure(words);
    };
    let old = front.backend_with("old", &json!({}));
    ask(
        &old.address().to_string(),
        &ca,
        "its certificate has expired: ",
    );
    let good = front.backend("IP:127.0.0.1", &json!({}));
    let good_address = good.address().to_string();
    ask(
        &good_address,
        &json!({}),
        "not signed by a trusted authority",
    );
    let own = front.backend_with("own", &json!({}));
    ask(
        &own.address().to_string(),
        &ca,
        "TLS handshake failed: its certificate is",
    );
    let plain = tutti_e2e::backends::Running::start(tutti_e2e::backends::Kind::Nginx);
    ask(
        &plain.address().to_string(),
        &ca,
        "perhaps it speaks plain HTTP on this port",
    );
    let new_only = json!({"tls": {"ca": front.ca(), "conf_commands": {"MinProtocol": "TLSv1.3"}}});
    let old_only = front.backend("IP:127.0.0.1", &json!({"version": "1.2"}));
    ask(
        &old_only.address().to_string(),
        &new_only,
        "it refuses the versions of TLS offered",
    );

    // Not looked at, which is said once.
    front.proxy(
        &own.address().to_string(),
        &json!({"tls": {"verify": false}}),
    );
    assert_eq!(front.server.get("/info").status, 200);
    front.expect_log("are not verified (`verify` is off)");

    // A failure of the server: another is asked, whatever the request, since nothing of it was sent.
    let config = json!({
        "listeners": {format!("127.0.0.1:{}", front.server.port()): {"pass": "upstreams/u"}},
        "upstreams": {"u": {"servers": {old.address().to_string(): {"weight": 1000}, good_address: {}}, "tls": ca["tls"]}},
    });
    front.server.put("/config", &config);
    for _ in 0..10 {
        assert_eq!(
            front.post("/echo", b"once").text(),
            "once",
            "{}",
            front.server.log()
        );
    }
    wait_until("it is reported as down", || {
        assert_eq!(front.post("/echo", b"again").text(), "again");
        let status = front.server.status("/upstreams/u/servers");
        status[old.address().to_string()]["state"] == "down"
    });
}

#[test]
fn a_certificate_is_shown_to_servers_that_want_one() {
    let front = Front::new();
    front
        .authority
        .issue("proxy", EC, "ca", "extendedKeyUsage=clientAuth");
    let bundle = [
        front.authority.read("proxy.pem"),
        front.authority.read("proxy.key"),
    ]
    .concat();
    front.upload("proxy", &bundle);
    let failures = [
        ("1.2", "a certificate that is missing"),
        (
            "1.3",
            "it wants a certificate of us; hint: name a bundle in `certificate`",
        ),
    ];
    for (version, failure) in failures {
        let backend = front.backend(
            "IP:127.0.0.1",
            &json!({"clients": front.ca(), "version": version}),
        );
        let address = backend.address().to_string();
        front.proxy(
            &address,
            &json!({"tls": {"ca": front.ca(), "certificate": "proxy"}}),
        );
        assert_eq!(front.info()["client"], "proxy");
        front.proxy(&address, &json!({"tls": {"ca": front.ca()}}));
        front.expect_failure(failure);
    }
    front.upload("ca", &front.authority.read("ca.pem"));
    let refused = front.server.call(
        "PUT",
        "/config/routes/0/action/proxy_options/tls",
        &json!({"certificate": "ca"}),
    );
    assert_eq!(refused.status, 500);
    assert!(
        refused.text().contains("has no private key"),
        "{}",
        refused.text()
    );
}

#[test]
fn sessions_are_taken_up_again() {
    let front = Front::new();
    for version in ["1.2", "1.3"] {
        let backend = front.backend("IP:127.0.0.1", &json!({"version": version}));
        let address = backend.address().to_string();
        let tls = json!({"tls": {"ca": front.ca()}, "keepalive": 0});
        front.proxy(&address, &tls);
        // Sessions are those of all threads.
        front.info();
        assert_eq!(front.info()["resumed"], true, "{version}");
        let off = json!({"tls": {"ca": front.ca(), "conf_commands": {"Options": "-SessionTicket"}}, "keepalive": 0});
        front.proxy(&address, &off);
        front.info();
        assert_eq!(front.info()["resumed"], false, "{version}");
    }
}

#[test]
fn an_answer_that_may_have_been_cut_is_not_taken_for_whole() {
    let front = Front::new();
    let backend = front.backend("IP:127.0.0.1", &json!({}));
    front.proxy(
        &backend.address().to_string(),
        &json!({"tls": {"ca": front.ca()}}),
    );
    let end = front.server.get("/end");
    assert_eq!((end.status, end.text().as_str()), (200, "no length"));
    // With a length nothing can be missing.
    assert_eq!(front.post("/rude", b"whole").text(), "whole");
    let cut = client::raw(
        front.server.address(),
        b"GET /cut HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let cut = String::from_utf8_lossy(&cut.unwrap_or_default()).into_owned();
    assert!(
        !cut.contains("\r\n0\r\n\r\n") || cut.contains(" 502 "),
        "{cut}"
    );
    front.expect_log("without TLS's `close_notify`");
    // And again on new connections, without harm.
    assert_eq!(front.post("/echo", b"after").text(), "after");
}

#[test]
fn a_tunnel_goes_through_tls() {
    let front = Front::new();
    let backend = front.backend("IP:127.0.0.1", &json!({}));
    front.proxy(
        &backend.address().to_string(),
        &json!({"tls": {"ca": front.ca()}}),
    );
    let mut stream = TcpStream::connect(front.server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nfirst.",
        )
        .unwrap();
    let got = read_until(&mut stream, "first.");
    assert!(got.starts_with("HTTP/1.1 101 "), "{got}");
    let sent: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 241) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut echoed = Vec::new();
    stream.read_to_end(&mut echoed).unwrap();
    writing.join().unwrap();
    assert!(echoed == sent, "{} bytes of {}", echoed.len(), sent.len());
}

#[test]
fn a_server_that_does_not_shake_hands_has_the_time_to_connect() {
    let front = Front::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    front.proxy(
        &address,
        &json!({"tls": {"ca": front.ca()}, "connect_timeout": 0.3}),
    );
    assert_eq!(front.server.get("/").status, 504);
    front.expect_log("no connection within 300ms");
}

#[test]
fn health_checks_are_asked_over_tls() {
    let front = Front::new();
    let backend = front.backend("DNS:a.example", &json!({"protocols": ["http/1.1"]}));
    // It speaks both versions of HTTP over TLS.
    let both = Server::start(&ServerOptions::default());
    let bundle = ["backend.pem", "backend.key"].map(|name| front.authority.read(name));
    let path = "/certificates/own";
    let reply = client::control(both.control(), "PUT", path, bundle.concat().as_bytes()).unwrap();
    assert_eq!(reply.status, 200, "{}", reply.text());
    let both_address = format!("127.0.0.1:{}", both.port());
    both.put(
        "/config",
        &json!({
            "listeners": {&both_address: {"pass": "routes", "tls": {"certificate": "own"}}},
            "routes": [{"match": {"uri": "/health"}, "action": {"return": 204}}],
        }),
    );
    let upstream = |address: &str, name: &str, uri: &str, version: u8| {
        json!({
            "servers": {address: {}},
            "tls": {"ca": front.ca(), "server_name": name},
            "http_version": version,
            "health_check": {"uri": uri, "interval": 0.1},
        })
    };
    let address = backend.address().to_string();
    front.server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", front.server.port()): {"pass": "upstreams/one"}},
            "upstreams": {
                "one": upstream(&address, "a.example", "/info", 1),
                "both1": upstream(&both_address, "a.example", "/health", 1),
                "both2": upstream(&both_address, "a.example", "/health", 2),
                "none2": upstream(&both_address, "a.example", "/none", 2),
                "other": upstream(&address, "b.example", "/info", 1),
                "plain": upstream(&address, "a.example", "/info", 2),
            },
        }),
    );
    for (upstream, state, why) in [
        ("one", "passing", ""),
        ("both1", "passing", ""),
        ("both2", "passing", ""),
        ("none2", "failing", "its answer is 404"),
        (
            "other",
            "failing",
            "TLS handshake failed: its certificate is not for `b.example` but for `a.example`; hint: set it with `server_name`",
        ),
        ("plain", "failing", "it does not support HTTP/2 (ALPN `h2`)"),
    ] {
        wait_for_health(&front.server, upstream, state, why);
    }
}
