//! Automatic certificates by records that a name server takes as updates (RFC 2136): BIND, with pebble, which asks it.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tutti_e2e::documents::json_examples;
use tutti_e2e::external::source;
use tutti_e2e::pebble::{Pebble, PebbleOptions};
use tutti_testkit::{Server, ServerOptions, free_port, wait_until};

const SECRET: &str = "c2l4dGVlbiBieXRlcyBvZiBhIHNlY3JldCwgdHdpY2U=";
const OTHER: &str = "YW5vdGhlciBzZWNyZXQgdGhhdCBub2JvZHkga25vd3M=";

/// BIND with the zone `example.com`, which the key `tutti` updates and the key `guest` does not. Dropping it ends it.
struct Bind {
    process: Child,
    port: u16,
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Bind {
    fn start(server: &Server, port: u16) -> Bind {
        let folder = server.write(
            "bind/zone",
            "$TTL 1\n@ SOA ns hostmaster 1 60 60 60 1\n@ NS ns\n@ A 127.0.0.1\nns A 127.0.0.1\n",
        );
        let folder = folder.parent().unwrap();
        let text = format!(
            r#"options {{ directory "{folder}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no;
                pid-file none; session-keyfile none; dnssec-validation no; }};
            controls {{ }};
            key "tutti" {{ algorithm hmac-sha256; secret "{SECRET}"; }};
            key "guest" {{ algorithm hmac-sha512; secret "{SECRET}"; }};
            zone "example.com" {{ type primary; file "zone"; update-policy {{ grant tutti name _acme-challenge.example.com. TXT; }}; }};
            "#,
            folder = folder.display()
        );
        let config = server.write("bind/named.conf", text);
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new("/usr/sbin/named")
            .args(["-g", "-c"])
            .arg(config)
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("BIND", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Bind { process, port }
    }

    /// The records that are left there.
    fn records(&self) -> String {
        let run = Command::new("dig")
            .args([
                "@127.0.0.1",
                "-p",
                &self.port.to_string(),
                "+short",
                "+tcp",
                "TXT",
                "_acme-challenge.example.com",
            ])
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
        String::from_utf8_lossy(&run.stdout).into_owned()
    }
}

struct Site {
    server: Server,
    pebble: Pebble,
    bind: Bind,
    port: u16,
}

impl Site {
    fn start() -> Site {
        let server = Server::start(&ServerOptions {
            wrapper: vec!["env".to_owned(), "TUTTI_ACME_PAUSE=1".to_owned()],
            ..ServerOptions::default()
        });
        let port = free_port();
        let bind = Bind::start(&server, port);
        let pebble = Pebble::start(&PebbleOptions {
            dns: Some(port),
            ..PebbleOptions::default()
        });
        Site {
            port: free_port(),
            server,
            pebble,
            bind,
        }
    }

    fn secret(&self, name: &str, text: &str) -> PathBuf {
        self.server.write(name, text)
    }

    fn configure(&self, name: &str, nameserver: &Value) {
        let mut rfc2136 = json!({"server": format!("127.0.0.1:{}", self.bind.port)});
        tutti_testkit::set_members(&mut rfc2136, nameserver);
        let account = json!({"challenge": "dns-01", "rfc2136": rfc2136});
        self.server.put("/config", &json!({
            "listeners": {format!("127.0.0.1:{}", self.port): {"pass": "routes", "tls": {"certificate": {"acme": "test", "names": name}}}},
            "settings": {"acme": {"test": self.pebble.account(&account)}},
            "routes": []
        }));
    }

    /// The only automatic certificate that the configuration has. Each has names of its own: no pause of another is theirs.
    fn certificate(&self) -> Value {
        let all = self.server.status("/certificates");
        let all = all.as_object().cloned().unwrap_or_default();
        all.into_values()
            .find(|one| one.get("state").is_some())
            .unwrap_or_default()
    }

    fn wait_for_error(&self, text: &str) {
        wait_until(text, || {
            self.certificate()["last_error"]["message"]
                .to_string()
                .contains(text)
        });
    }
}

#[test]
fn a_name_server_takes_the_records_and_nothing_is_left_there() {
    let site = Site::start();
    let key = format!("key \"tutti\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{SECRET}\";\n}};\n");
    let file = site.secret("dns.key", &key).display().to_string();
    let page = fs::read_to_string(source("docs/http/acme.md")).unwrap();
    let (listener, server) = (
        format!("127.0.0.1:{}", site.port),
        format!("127.0.0.1:{}", site.bind.port),
    );
    let places = [
        ("*:443", listener.as_str()),
        ("192.0.2.53", &server),
        ("/etc/tutti/dns.key", &file),
    ];
    let mut examples = json_examples(&page, &places).into_iter();
    let mut example = examples
        .find(|example| example.to_string().contains("rfc2136"))
        .unwrap();
    let accounts = example["settings"]["acme"].as_object_mut().unwrap();
    for account in accounts.values_mut() {
        *account = site.pebble.account(account);
    }
    site.server.put("/config", &example);
    wait_until("a certificate", || site.certificate()["state"] == "valid");
    assert_eq!(site.certificate()["failures"], 0, "{}", site.server.log());
    assert_eq!(
        site.certificate()["names"],
        json!(["*.example.com", "example.com"])
    );
    wait_until("the records to go", || site.bind.records().is_empty());
    assert_eq!(site.pebble.issued(), 1);
}

#[test]
fn a_key_that_is_wrong_is_told_with_its_cure_and_a_right_one_goes_on() {
    let site = Site::start();
    let (secret, other) = (site.secret("secret", SECRET), site.secret("other", OTHER));
    site.configure(
        "n1.example.com",
        &json!({"key": "tutti", "secret_file": other}),
    );
    site.wait_for_error("not signed with the key `tutti`");
    site.configure(
        "n2.example.com",
        &json!({"key": "nobody", "secret_file": secret}),
    );
    site.wait_for_error("not signed with the key `nobody`");
    // A right one that may not.
    site.configure(
        "n3.example.com",
        &json!({"key": "guest", "algorithm": "hmac-sha512", "secret_file": secret}),
    );
    site.wait_for_error("check that the key `guest` may update it");
    site.configure(
        "n4.example.com",
        &json!({"key": "tutti", "secret_file": site.server.folder().join("none")}),
    );
    site.wait_for_error("of `secret_file` cannot be used");
    site.configure(
        "n5.example.com",
        &json!({"key": "tutti", "secret_file": secret, "zone": "example.org"}),
    );
    site.wait_for_error("is not in the zone `example.org.`");
    assert_eq!(site.pebble.issued(), 0);
    assert_eq!(site.bind.records(), "");
    site.configure(
        "*.example.com",
        &json!({"key": "tutti", "secret_file": secret, "zone": "example.com"}),
    );
    wait_until("a certificate", || site.certificate()["state"] == "valid");
    // No secret is told to anybody.
    for told in [site.server.log(), site.server.status("").to_string()] {
        assert!(!told.contains(SECRET) && !told.contains(OTHER));
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let server = Server::start(&ServerOptions::default());
    let port = free_port();
    let right =
        json!({"server": "192.0.2.53", "key": "tutti", "secret_file": "/etc/tutti/dns.key"});
    let with = |name: &str, value: &str| {
        let mut wrong = right.clone();
        wrong[name] = json!(value);
        json!({"challenge": "dns-01", "rfc2136": wrong})
    };
    for (account, told) in [
        (
            json!({"challenge": "dns-01"}),
            "`rfc2136`, a name server that accepts updates",
        ),
        (json!({"rfc2136": right}), "no effect without"),
        (
            json!({"challenge": "dns-01", "hook": "/bin/true", "rfc2136": right}),
            "not by both",
        ),
        (
            json!({"challenge": "dns-01", "rfc2136": {"server": "192.0.2.53"}}),
            "key",
        ),
        (with("server", "ns1.example.com"), "name server"),
        (with("secret_file", "dns.key"), "does not begin with `/`"),
        (with("algorithm", "hmac-md5"), "hmac-sha256"),
    ] {
        let configuration = json!({
            "listeners": {format!("127.0.0.1:{port}"): {"pass": "routes", "tls": {"certificate": {"acme": "le", "names": "a.example.com"}}}},
            "settings": {"acme": {"le": account}},
            "routes": []
        });
        let reply = server.call("PUT", "/config", &configuration);
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert!(reply.text().contains(told), "{told}: {}", reply.text());
    }
}
