//! Automatic certificates, with an authority that other people wrote: pebble.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tokio::sync::watch;
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::clocks::Clocks;
use tutti_e2e::documents::{examples, json_examples};
use tutti_e2e::external::source;
use tutti_e2e::pebble::{Pebble, PebbleOptions};
use tutti_e2e::way::watched_way;
use tutti_testkit::{
    ClosedPort, Server, ServerOptions, files, free_port, guide, is_root, wait_until,
};

/// A server and its authority, which asks it at two ports.
struct Pair {
    server: Server,
    pebble: Pebble,
    http: u16,
    tls: u16,
}

/// A first pause after a failure that no test waits for.
const LONG_PAUSE: &str = "300";

fn options(pause: &str) -> ServerOptions {
    ServerOptions {
        wrapper: vec!["env".to_owned(), format!("TUTTI_ACME_PAUSE={pause}")],
        ..ServerOptions::default()
    }
}

impl Pair {
    fn start(pause: &str, change: impl FnOnce(&mut PebbleOptions)) -> Pair {
        let mut wanted = PebbleOptions::default();
        change(&mut wanted);
        let (http, tls) = (wanted.http, wanted.tls);
        Pair {
            pebble: Pebble::start(&wanted),
            server: Server::start(&options(pause)),
            http,
            tls,
        }
    }

    /// Routes that refuse everything over HTTP, and answer 201 over TLS.
    fn configuration(&self, account: &Value, names: &Value) -> Value {
        json!({
            "listeners": {
                format!("127.0.0.1:{}", self.http): {"pass": "routes"},
                format!("127.0.0.1:{}", self.tls): {"pass": "routes", "tls": {"certificate": {"acme": "test", "names": names}}}
            },
            "settings": {"acme": {"test": self.pebble.account(account)}},
            "routes": [{"match": {"scheme": "https"}, "action": {"return": 201}}, {"action": {"return": 403}}]
        })
    }

    fn configure(&self, account: &Value, names: &Value) {
        self.server
            .put("/config", &self.configuration(account, names));
    }

    /// `/status/certificates` of the only automatic certificate.
    fn status(&self) -> Value {
        let all = self.server.status("/certificates");
        let all = all.as_object().cloned().unwrap_or_default();
        let mut found = all
            .into_iter()
            .filter(|(_, status)| status.get("state").is_some());
        found.next().map(|(_, status)| status).unwrap_or_default()
    }

    fn wait_for_certificate(&self) {
        wait_until("a certificate", || self.status()["state"] == "valid");
    }

    fn wait_for_failure(&self) -> String {
        wait_until("a failure", || {
            self.status()["failures"] != 0 && self.status()["state"] != "ordering"
        });
        self.status()["last_error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The status of a response to curl, which trusts only the authority; empty where there is none.
    fn curl(&self, name: &str) -> String {
        self.curl_with(
            name,
            &["--output", "/dev/null", "--write-out", "%{http_code}"],
        )
    }

    /// The output of curl with these arguments; empty where there is no response.
    fn curl_with(&self, name: &str, arguments: &[&str]) -> String {
        let root = self.server.folder().join("root.pem");
        self.pebble.root(&root);
        let run = Command::new("curl")
            .args(["--silent", "--max-time", "60"])
            .args(arguments)
            .arg("--cacert")
            .arg(&root)
            .args(["--resolve", &format!("{name}:{}:127.0.0.1", self.tls)])
            .arg(format!("https://{name}:{}/", self.tls))
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&run.stdout).into_owned();
        if run.status.success() {
            output
        } else {
            String::new()
        }
    }

    /// The document that is kept of the only certificate.
    fn document(&self) -> Value {
        let folder = self.server.folder().join("state/acme");
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths = entries.map(|entry| entry.path());
        let is_it = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("certificate-") && !name.ends_with(".tmp")
        };
        let text = paths
            .find(is_it)
            .and_then(|path| fs::read_to_string(path).ok());
        text.and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    }

    /// Kills the process that gets certificates, if it is there.
    fn kill(&self) {
        for pid in self.server.pids("tutti: acme") {
            let _ = tutti_sys::signal::send(pid, libc::SIGKILL);
        }
    }
}

#[test]
fn a_certificate_comes_by_http_before_the_routes_and_though_nonces_are_refused() {
    let pair = Pair::start("1", |wanted| wanted.bad_nonces = 20);
    pair.configure(
        &json!({"contact": "admin@example.com"}),
        &json!(["www.example.com", "Example.com"]),
    );
    pair.wait_for_certificate();
    for name in ["example.com", "www.example.com"] {
        assert_eq!(pair.curl(name), "201");
    }
    let status = pair.status();
    assert_eq!(status["names"], json!(["example.com", "www.example.com"]));
    assert_eq!(status["account"], "test");
    assert_eq!(status["failures"], 0, "{status}");
    assert!(
        status["until"].as_str().unwrap() > status["next_order"].as_str().unwrap(),
        "{status}"
    );
    assert_eq!(pair.pebble.issued(), 1);
    // It is renewed when the authority wishes it.
    wait_until("the authority's wish", || {
        pair.document()["issued"]["advised"].is_i64()
    });
    // No other user may read the keys. Nothing is written any more, so that no file is renamed meanwhile.
    let state = pair.server.folder().join("state/acme");
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for entry in fs::read_dir(&state).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    // No token is left.
    let reply = tutti_testkit::client::get(
        ([127, 0, 0, 1], pair.http).into(),
        "/.well-known/acme-challenge/x",
    );
    assert_eq!(reply.unwrap().status, 403);
}

#[test]
fn a_certificate_comes_by_a_handshake() {
    let pair = Pair::start("1", |_| {});
    pair.configure(
        &json!({"challenge": "tls-alpn-01", "profile": "shortlived"}),
        &json!("example.com"),
    );
    pair.wait_for_certificate();
    assert_eq!(pair.curl("example.com"), "201");
    let document = pair.document();
    let life = document["issued"]["until"].as_i64().unwrap()
        - document["issued"]["since"].as_i64().unwrap();
    assert!((5 * 86_400..7 * 86_400).contains(&life), "{document}");
    assert!(
        !pair.server.log().contains("alert"),
        "{}",
        pair.server.log()
    );
}

#[test]
fn a_certificate_for_all_names_below_one_comes_by_a_hook() {
    let pair = Pair::start("1", |_| {});
    let hook = hook(&pair);
    pair.configure(
        &json!({"challenge": "dns-01", "hook": hook}),
        &json!(["*.example.com", "example.com"]),
    );
    pair.wait_for_certificate();
    assert_eq!(pair.curl("any.example.com"), "201");
    assert_eq!(pair.curl("example.com"), "201");
}

#[test]
fn a_hook_belongs_to_the_servers_user_and_its_output_is_reported() {
    let pair = Pair::start(LONG_PAUSE, |_| {});
    let hook = pair.server.folder().join("hook");
    files::script(
        &hook,
        "#!/bin/sh\necho \"I am $(id -u), was given $1 $2\" >&2\nexit 7\n",
    );
    pair.configure(
        &json!({"challenge": "dns-01", "hook": hook}),
        &json!("example.com"),
    );
    let told = pair.wait_for_failure();
    assert!(
        told.contains("was given present _acme-challenge.example.com"),
        "{told}"
    );
    assert!(!told.contains("I am 0,"), "{told}");
    assert!(is_root() || told.contains("I am"), "{told}");
    assert!(told.contains('7'), "{told}");
}

#[test]
fn until_it_is_there_handshakes_fail_and_the_log_says_why() {
    let pair = Pair::start(LONG_PAUSE, |_| {});
    // No server answers the authority.
    let mut configuration = pair.configuration(&json!({}), &json!("example.com"));
    configuration["listeners"]
        .as_object_mut()
        .unwrap()
        .remove(&format!("127.0.0.1:{}", pair.http));
    pair.server.put("/config", &configuration);
    let told = pair.wait_for_failure();
    assert!(told.contains("`example.com`"), "{told}");
    assert_eq!(pair.curl("example.com"), "");
    pair.server.wait_for_log("there is no certificate yet");
    let status = pair.status();
    assert_eq!(
        (&status["state"], &status["failures"]),
        (&json!("missing"), &json!(1))
    );
    assert_eq!(pair.pebble.orders(), 1);
    // A pause that is not over is kept over the end of everything.
    let before = status["next_order"].clone();
    let mut pair = pair;
    pair.server.start_again(&options(LONG_PAUSE));
    wait_until("its news", || pair.status()["next_order"] == before);
    pair.kill();
    pair.server
        .wait_for_log("for automatic certificates exited on signal 9");
    wait_until("the next", || !pair.server.pids("tutti: acme").is_empty());
    // Neither does another certificate for the same name, after more than one failure, get around it.
    assert_eq!(pair.pebble.orders(), 1);
    // Another reason for a connection to fail is reported as before.
    let run = Command::new("curl")
        .args([
            "--silent",
            "--max-time",
            "60",
            &format!("http://127.0.0.1:{}/", pair.tls),
        ])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&run.stdout).contains("HTTPS"),
        "{run:?}"
    );
}

/// Where an order is, by what is kept of it and what its authority has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OrderPhase {
    /// The account has a key, and it is unknown yet if it is registered.
    AccountKey,
    /// It is registered.
    Account,
    /// The order has a key, and it is unknown yet if there is an order.
    OrderKey,
    /// There is an order.
    Order,
    /// The authority has seen that the name is ours.
    Shown,
    /// There is a certificate, which has not come.
    Issued,
}

impl OrderPhase {
    const ALL: [Self; 6] = [
        Self::AccountKey,
        Self::Account,
        Self::OrderKey,
        Self::Order,
        Self::Shown,
        Self::Issued,
    ];

    fn of(pair: &Pair) -> Option<Self> {
        let path = pair.server.folder().join("state/acme/account-test");
        let text = fs::read_to_string(path).ok()?;
        let account: Value = serde_json::from_str(&text).ok()?;
        let document = pair.document();
        let log = pair.pebble.log();
        Some(
            match (document["key"].is_string(), document["order"].is_string()) {
                _ if document["issued"].is_object() => return None,
                (true, true) if log.contains("Issued certificate serial") => Self::Issued,
                (true, true) if log.contains("set VALID by completed challenge") => Self::Shown,
                (true, true) => Self::Order,
                (true, false) => Self::OrderKey,
                (false, _) if account["url"].is_string() => Self::Account,
                (false, _) => Self::AccountKey,
            },
        )
    }
}

#[test]
fn killed_at_each_step_it_goes_on_with_the_same_order() {
    let pair = Pair::start("1", |_| {});
    // Nothing passes between two looks, so that each step is seen.
    let (looks, looked) = watch::channel(0);
    let way = watched_way(pair.pebble.directory_address(), looked);
    let directory = format!("https://{way}/dir");
    pair.configure(&json!({"directory": directory}), &json!("example.com"));
    let mut seen = BTreeSet::new();
    wait_until("a certificate", || {
        match OrderPhase::of(&pair) {
            // No message comes between these two steps: the document goes back to the one before.
            Some(OrderPhase::OrderKey) if !seen.contains(&OrderPhase::Account) => {
                fs::remove_file(kept(&pair)).unwrap();
                pair.kill();
            }
            // All that follows what is kept is lost.
            Some(step) if seen.insert(step) => pair.kill(),
            _ => {}
        }
        looks.send_modify(|looks| *looks += 1);
        pair.document()["issued"].is_object() && pair.status()["state"] == "valid"
    });
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), OrderPhase::ALL);
    assert_eq!(pair.pebble.accounts(), 1);
    assert_eq!(pair.pebble.issued(), 1, "{}", pair.server.log());
    assert_eq!(pair.curl("example.com"), "201");
}

/// The certificate that a handshake shows, in PEM.
fn shown(pair: &Pair) -> String {
    let command = format!(
        "openssl s_client -connect 127.0.0.1:{} -servername example.com </dev/null | openssl x509",
        pair.tls
    );
    let run = Command::new("sh").args(["-c", &command]).output().unwrap();
    String::from_utf8(run.stdout).unwrap()
}

/// The path of the document of the only certificate.
fn kept(pair: &Pair) -> PathBuf {
    let folder = pair.server.folder().join("state/acme");
    let mut paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("certificate-")
    };
    paths.find(is_it).unwrap()
}

#[test]
fn it_is_renewed_early_when_the_authority_wishes_it() {
    let mut pair = Pair::start("1", |_| {});
    pair.configure(&json!({}), &json!("example.com"));
    pair.wait_for_certificate();
    wait_until("the authority's wish", || {
        pair.document()["issued"]["advised"].is_i64()
    });
    let first = shown(&pair);
    // As when it is going to take certificates back: the window has been for days.
    pair.pebble
        .wish(&first, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    // It is asked again when the advice does not hold any more, which is hours from now.
    pair.server.stop(libc::SIGQUIT);
    let path = kept(&pair);
    let mut document: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    document["issued"]["ask_at"] = json!(0);
    fs::write(&path, document.to_string()).unwrap();
    pair.server.start_again(&options("1"));
    wait_until("another certificate", || pair.pebble.issued() == 2);
    wait_until("it is in force", || {
        let now = shown(&pair);
        !now.is_empty() && now != first
    });
    assert_eq!(pair.curl("example.com"), "201");
    let log = pair.pebble.log();
    assert!(log.contains("is a replacement of"), "{log}");
    assert_eq!(
        (pair.pebble.orders(), pair.status()["failures"].clone()),
        (2, json!(0))
    );
}

#[test]
fn an_address_has_a_certificate_too() {
    let pair = Pair::start("1", |_| {});
    pair.configure(&json!({"profile": "shortlived"}), &json!("127.0.0.1"));
    pair.wait_for_certificate();
    let root = pair.server.folder().join("root.pem");
    pair.pebble.root(&root);
    let run = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--output",
            "/dev/null",
        ])
        .args(["--write-out", "%{http_code}", "--cacert"])
        .arg(&root)
        .arg(format!("https://127.0.0.1:{}/", pair.tls))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), "201", "{run:?}");
}

#[test]
fn an_order_that_was_finished_while_the_server_was_away_is_taken() {
    let mut pair = Pair::start("1", |_| {});
    let configuration = pair.configuration(&json!({}), &json!("example.com"));
    pair.server.put("/config", &configuration);
    wait_until("an order", || {
        pair.document()["order"].is_string() || pair.document()["issued"].is_object()
    });
    // All of it ends, at once.
    pair.server.start_again(&options("1"));
    pair.wait_for_certificate();
    assert_eq!((pair.pebble.orders(), pair.pebble.issued()), (1, 1));
    // Nor does an upgrade, or a controller and router that end.
    pair.server.upgrade();
    pair.kill();
    pair.server.kill_router();
    wait_until("another process", || {
        !pair.server.pids("tutti: acme").is_empty()
    });
    wait_until("its news", || pair.status()["next_order"].is_string());
    assert_eq!(pair.curl("example.com"), "201");
    assert_eq!((pair.pebble.orders(), pair.pebble.issued()), (1, 1));
}

#[test]
fn it_is_renewed_before_it_ends() {
    let pair = Pair::start("1", |wanted| wanted.validity = 24);
    // Without a name the authority takes any of its profiles.
    pair.configure(&json!({"profile": "default"}), &json!("example.com"));
    wait_until("another certificate", || pair.pebble.issued() >= 2);
    wait_until("it is in force", || pair.curl("example.com") == "201");
    assert!(pair.pebble.accounts() == 1);
}

#[test]
fn a_clock_that_is_ahead_does_not_order_without_growing_pauses() {
    let wanted = PebbleOptions {
        validity: 600,
        ..PebbleOptions::default()
    };
    let clocks = Clocks::new();
    let mut clock = clocks.make("server");
    let mut options = options("1");
    options.wrapper.extend(clock.environment());
    let pair = Pair {
        pebble: Pebble::start(&wanted),
        server: Server::start(&options),
        http: wanted.http,
        tls: wanted.tls,
    };
    // Each certificate has less than a twentieth of its life left, for which no suggestion of the authority counts.
    clock.set(580);
    pair.configure(&json!({"profile": "default"}), &json!("example.com"));
    wait_until("failures add up", || {
        pair.status()["failures"]
            .as_u64()
            .is_some_and(|failures| failures >= 3)
    });
    let error = pair.status()["last_error"]["message"].to_string();
    assert!(error.contains("check the clock"), "{error}");
    assert_eq!(pair.curl("example.com"), "201");
}

/// Issue 28, 5.6.
#[test]
fn a_person_has_it_renewed_at_once_but_not_within_a_pause() {
    let pair = Pair::start(LONG_PAUSE, |_| {});
    pair.configure(&json!({}), &json!("example.com"));
    pair.wait_for_certificate();
    let renew = |name: &str| {
        let path = format!("/control/certificates/{name}/renew");
        pair.server.call("POST", &path, &Value::Null)
    };
    let name = "acme:test:example.com";
    let (first, count) = (shown(&pair), pair.pebble.issued());
    let reply = renew(name);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(pair.pebble.issued(), count + 1);
    wait_until("the new one is shown", || shown(&pair) != first);
    assert_eq!(pair.status()["state"], "valid");
    assert_eq!(renew("nothing").status, 404);

    // An authority that is gone is asked once, and again after the pause.
    let closed = ClosedPort::new();
    let nowhere = format!("https://{}/dir", closed.address());
    pair.configure(&json!({"directory": nowhere}), &json!("example.com"));
    let failed = renew(name);
    assert_eq!(failed.status, 500, "{}", failed.text());
    let refused = renew(name);
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(
        refused.text().contains("the next order is in"),
        "{}",
        refused.text()
    );
    wait_until("the failure is shown", || pair.status()["failures"] == 1);
}

#[test]
fn an_account_may_be_bound_to_another() {
    let pair = Pair::start("1", |wanted| {
        wanted.more = json!({
            "externalAccountBindingRequired": true,
            "externalAccountMACKeys": {"mine": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"}
        });
    });
    pair.configure(
        &json!({"eab": {"kid": "mine", "hmac_key": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"}}),
        &json!("example.com"),
    );
    pair.wait_for_certificate();
    assert_eq!(pair.pebble.accounts(), 1);
}

#[test]
fn what_the_authority_refuses_is_reported_in_its_words() {
    let pair = Pair::start(LONG_PAUSE, |_| {});
    pair.configure(&json!({}), &json!("www.refused.example"));
    let told = pair.wait_for_failure();
    assert!(
        told.contains("www.refused.example") && told.contains("rejectedIdentifier"),
        "{told}"
    );
    pair.server.wait_for_log("the next attempt is in 3");
}

#[test]
fn an_authority_that_is_not_there_or_another_is_no_trouble_for_others() {
    let pair = Pair::start(LONG_PAUSE, |_| {});
    let closed = ClosedPort::new();
    let mut configuration = pair.configuration(&json!({}), &json!("example.com"));
    configuration["settings"]["acme"]["test"]["directory"] =
        json!(format!("https://{}/dir", closed.address()));
    pair.server.put("/config", &configuration);
    assert!(
        pair.wait_for_failure().contains("cannot be reached"),
        "{}",
        pair.status()
    );
    // No trusted root has signed it.
    configuration["settings"]["acme"]["test"] = json!({"directory": pair.pebble.directory(), "roots": pair.server.folder().join("state/none")});
    pair.server.put("/config", &configuration);
    wait_until("a failure", || {
        pair.status()["last_error"]["message"]
            .to_string()
            .contains("`roots`")
    });
    // A mended configuration is another directory: it need not wait.
    configuration["settings"]["acme"]["test"] = pair.pebble.account(&json!({}));
    configuration["settings"]["acme"]["test"]["directory"] =
        json!(pair.pebble.directory().replace("/dir", "/root"));
    pair.server.put("/config", &configuration);
    wait_until("a failure", || {
        let told = pair.status()["last_error"]["message"].to_string();
        told.contains("the authority")
    });
}

/// An authority that answers each path below `/dir` with another lie.
const LIAR: &str = r#"
import http.server, json, os, ssl, sys, threading

port, chain, key = int(sys.argv[1]), sys.argv[2], sys.argv[3]
base = f"https://127.0.0.1:{port}"

class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, fields=()):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def directory(self, nonce):
        return json.dumps({"newNonce": nonce, "newAccount": base + "/account", "newOrder": base + "/order"}).encode()

    def late(self):
        lie, _, what = self.path.removeprefix("/late/").partition("/")
        here = f"{base}/late/{lie}"
        count = 5000 if lie == "many" else 0 if lie == "long-pause" else 1
        order = {
            "status": "valid" if lie.endswith("certificate") else "pending",
            "identifiers": [{"type": "dns", "value": "example.com"}],
            "authorizations": [f"{here}/names/{number}" for number in range(count)],
            "finalize": here + "/finalize",
            "certificate": here + "/certificate",
        }
        name = "other.example" if lie == "other-name" else "example.com"
        token = "<script>alert(1)</script>" if lie == "token" else "abc"
        kinds = ["http-01", "tls-alpn-01", "dns-01"]
        challenges = [{"type": kind, "url": here + "/look", "token": token, "status": "pending"} for kind in kinds]
        state = "valid" if lie == "many" else "pending"
        name = {"identifier": {"type": "dns", "value": name}, "status": state, "challenges": challenges}
        fields = [("Replay-Nonce", "again")]
        if what == "account":
            return self.answer(201, b'{"status": "valid"}', fields + [("Location", here + "/me")])
        if what == "order":
            return self.answer(201, json.dumps(order).encode(), fields + [("Location", here + "/mine")])
        if what == "mine":
            return self.answer(200, json.dumps(order).encode(), fields + [("Retry-After", str(2**64 - 1))])
        if what.startswith("names/"):
            return self.answer(200, json.dumps(name).encode(), fields)
        if what == "certificate":
            content = open(chain, "rb").read() if lie == "other-certificate" else b"\xff no certificate"
            return self.answer(200, content, fields)
        self.answer(200, b"{}", fields)

    def do_GET(self):
        if self.path.startswith("/dir/late/"):
            here = base + self.path.removeprefix("/dir")
            names = {"newNonce": base + "/nonce", "newAccount": here + "/account", "newOrder": here + "/order"}
            return self.answer(200, json.dumps(names).encode())
        lies = {
            "/dir/junk": lambda: self.answer(200, b"\0\1\2 not JSON"),
            "/dir/empty": lambda: self.answer(200, b""),
            "/dir/deep": lambda: self.answer(200, b"[" * 500000),
            "/dir/teapot": lambda: self.answer(418, b"<html>no</html>"),
            "/dir/away": lambda: self.answer(301, b"", [("Location", "http://127.0.0.1:1/")]),
            "/dir/plain": lambda: self.answer(200, self.directory("http://127.0.0.1:1/nonce")),
            "/dir/no-nonce": lambda: self.answer(200, self.directory(base + "/no-nonce")),
            "/dir/bad-nonce": lambda: self.answer(200, self.directory(base + "/bad-nonce")),
            "/dir/endless": self.endless,
        }
        lies.get(self.path, lambda: self.answer(404, b"{}"))()

    def do_HEAD(self):
        self.answer(200, b"", [("Replay-Nonce", "\xff\xfe" if "no-nonce" in self.path else "again" if self.path == "/nonce" else "x" * 4000)])

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/late/"):
            return self.late()
        problem = {"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too\nmany \u001b[31m", "status": 429}
        self.answer(429, json.dumps(problem).encode(), [("Retry-After", "77777")])

    def endless(self):
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 40))
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"[" * 65536)
        except OSError:
            self.close_connection = True

server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Liar)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(chain, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
# It ends with its test, however that ends.
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
server.serve_forever()
"#;

#[test]
fn an_authority_that_lies_does_no_harm() {
    let server = Server::start(&options(LONG_PAUSE));
    let authority = Authority::new(server.folder());
    authority.issue("liar", EC, "ca", "subjectAltName=IP:127.0.0.1");
    let port = free_port();
    let program = server.write("liar.py", LIAR);
    let mut liar = Command::new("/usr/bin/python3")
        .arg(program)
        .arg(port.to_string())
        .args([authority.path("liar.pem"), authority.path("liar.key")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the authority", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let first = {
        let configure = |lie: &str| {
            let directory = format!("https://127.0.0.1:{port}/dir/{lie}");
            let configuration = json!({
                "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes", "tls": {"certificate": {"acme": "liar", "names": "example.com"}}}},
                "settings": {"acme": {"liar": {"directory": directory, "roots": authority.path("ca.pem")}}},
                "routes": []
            });
            server.put("/config", &configuration);
        };
        let status = || server.status("/certificates/acme:liar:example.com");
        for (lie, told) in [
            ("junk", "cannot be understood"),
            ("empty", "the authority"),
            ("deep", "cannot be understood"),
            ("teapot", "418"),
            ("away", "301"),
            ("plain", "cannot be reached"),
            ("no-nonce", "nonce"),
            ("endless", "cannot be reached"),
            // It keeps to the protocol at first.
            ("late/other-name", "a name that was not ordered"),
            ("late/token", "an invalid token"),
            ("late/many", "more names than were ordered"),
            ("late/long-pause", "not reach a result in time"),
            ("late/no-certificate", "unable to decode certificate"),
            ("late/other-certificate", "cannot be applied"),
            ("bad-nonce", "too many"),
        ] {
            configure(lie);
            wait_until(lie, || {
                status()["last_error"]["message"].to_string().contains(told)
                    && status()["failures"] == 1
            });
            let message = status()["last_error"]["message"].to_string();
            assert!(
                !message.contains('\u{1b}') && !message.contains("\\u001b"),
                "{message}"
            );
        }
        // It asks for a pause of nearly a day.
        status()["next_order"].clone()
    };
    // The same process has lived through all of that.
    assert!(
        !server.log().contains("for automatic certificates exited"),
        "{}",
        server.log()
    );
    assert!(first.is_string());
    let _ = liar.kill();
    let _ = liar.wait();
    server.wait_for_log("the next attempt is in 7777");
}

#[test]
fn what_cannot_be_kept_is_not_ordered() {
    let pair = Pair::start("1", |_| {});
    let state = pair.server.folder().join("state/acme");
    fs::write(&state, "in the way").unwrap();
    pair.configure(&json!({}), &json!("example.com"));
    let told = pair.wait_for_failure();
    assert!(told.contains("cannot be stored"), "{told}");
    assert_eq!((pair.pebble.accounts(), pair.pebble.orders()), (0, 0));
    fs::remove_file(&state).unwrap();
    pair.wait_for_certificate();
    assert_eq!(pair.pebble.issued(), 1);
}

/// A hook for the authority's DNS server.
fn hook(pair: &Pair) -> PathBuf {
    let hook = pair.server.folder().join("hook");
    files::script(
        &hook,
        &format!(
            "#!/bin/sh\ncase $1 in\npresent) set=set-txt; more=\", \\\"value\\\": \\\"$3\\\"\";;\ncleanup) set=clear-txt; more=;;\nesac\n\
             exec curl --silent --fail --max-time 30 --data \"{{\\\"host\\\": \\\"$2.\\\"$more}}\" {}/$set\n",
            pair.pebble.records()
        ),
    );
    hook
}

/// The guide's hook, with an `nsupdate` that speaks with the authority's DNS server.
fn guide_hook(page: &str, pair: &Pair) -> PathBuf {
    let script = examples(page, "sh").remove(0);
    let folder = pair.server.folder().join("bin");
    let script = script.replace(
        "#!/bin/sh\n",
        &format!("#!/bin/sh\nPATH={}:$PATH\n", folder.display()),
    );
    let fake = r#"#!/bin/sh
while read -r update order name ttl rest; do
    [ "$update" = update ] || continue
    case $order in
        add) set="set-txt"; data="{\"host\": \"$name\", \"value\": ${rest#TXT }}" ;;
        delete) set="clear-txt"; data="{\"host\": \"$name\"}" ;;
    esac
    curl --silent --fail --max-time 30 --data "$data" RECORDS/$set || exit 1
done
"#;
    let fake = fake.replace("RECORDS", &pair.pebble.records());
    fs::create_dir_all(&folder).unwrap();
    for (name, script) in [("bin/nsupdate", fake), ("guide-hook", script)] {
        files::script(&pair.server.folder().join(name), &script);
    }
    pair.server.folder().join("guide-hook")
}

#[test]
fn the_guide_s_examples_work() {
    let page = fs::read_to_string(source("docs/http/acme.md")).unwrap();
    let pair = Pair::start("1", |_| {});
    let hook = guide_hook(&page, &pair).display().to_string();
    let session = guide::commands(&page);
    let [file, site_json, .., ask] = &session[..] else {
        panic!("a session of files, and a request");
    };
    assert_eq!(file.line, "cat /srv/site/index.html");
    let www = pair.server.write("www/index.html", file.prints.join("\n"));
    let site = www.parent().unwrap().display().to_string();
    let ports = [("*:80", pair.http), ("*:443", pair.tls)];
    let ports = ports.map(|(from, port)| (from, format!("127.0.0.1:{port}")));
    let mut places: Vec<(&str, &str)> = ports
        .iter()
        .map(|(from, to)| (*from, to.as_str()))
        .collect();
    places.push(("/usr/local/lib/tutti-dns", &hook));
    places.push(("/srv/site", &site));
    let first = format!("```json\n{}\n```\n", site_json.prints.join("\n"));
    let mut seen = 0;
    for mut example in json_examples(&(first + &page), &places) {
        let text = example.to_string();
        if ["rfc2136", "on_demand", "\"internal\""]
            .iter()
            .any(|word| text.contains(word))
        {
            // Those are run where there is a name server, where names are asked about, and without an authority.
            continue;
        }
        if example.get("listeners").is_none() {
            // An answer of `/status`: it has the members of the real one.
            let (_, told) = example.as_object().unwrap().iter().next().unwrap();
            let real = pair.status();
            for name in told
                .as_object()
                .unwrap()
                .keys()
                .filter(|name| *name != "last_error")
            {
                assert!(real.get(name).is_some(), "{name}: {real}");
            }
            continue;
        }
        for account in example["settings"]["acme"]
            .as_object_mut()
            .unwrap()
            .values_mut()
        {
            *account = pair.pebble.account(account);
        }
        let reply = pair.server.call("PUT", "/config", &example);
        assert_eq!(reply.status, 200, "{}", reply.text());
        pair.wait_for_certificate();
        if seen == 0 {
            assert_eq!(pair.curl_with("example.com", &[]), ask.prints.join("\n"));
        } else {
            assert_eq!(pair.curl("example.com"), "204");
        }
        seen += 1;
    }
    assert_eq!(seen, 2);
}

#[test]
fn mistakes_are_reported_with_their_place() {
    let server = Server::start(&ServerOptions::default());
    let port = free_port();
    let faults = |acme: Value, certificate: Value| {
        let configuration = json!({
            "listeners": {format!("127.0.0.1:{port}"): {"pass": "routes", "tls": {"certificate": certificate}}},
            "settings": {"acme": acme},
            "routes": []
        });
        let reply = server.call("PUT", "/config", &configuration);
        assert_eq!(reply.status, 400, "{}", reply.text());
        reply.text()
    };
    let wanted = |names: &[&str]| json!({"acme": "le", "names": names});
    let le = json!({"le": {}});
    for (acme, certificate, told) in [
        (
            json!({"el": {}}),
            wanted(&["a.example.com"]),
            "no account `le`",
        ),
        (le.clone(), wanted(&["*.example.com"]), "only `dns-01`"),
        (le.clone(), wanted(&["localhost"]), "no period"),
        (le.clone(), wanted(&[]), "1 to 100 names"),
        (le.clone(), json!({"acme": "le"}), "needs `names`"),
        (
            le.clone(),
            json!({"acme": "le", "names": "a.example.com", "file": "/a"}),
            "not from both",
        ),
        (le.clone(), json!({}), "neither `file` nor `acme`"),
        (
            json!({"le": {"directory": "http://a.example.com"}}),
            wanted(&["a.example.com"]),
            "over HTTPS",
        ),
        (
            json!({"le": {"contact": "anyone"}}),
            wanted(&["a.example.com"]),
            "not a mail address",
        ),
        (
            json!({"le": {"challenge": "dns-01"}}),
            wanted(&["a.example.com"]),
            "needs a `hook`",
        ),
        (
            json!({"le": {"hook": "/bin/true"}}),
            wanted(&["a.example.com"]),
            "no effect without",
        ),
        (
            json!({"le": {"eab": {"kid": "a", "hmac_key": "="}}}),
            wanted(&["a.example.com"]),
            "hmac_key",
        ),
    ] {
        let text = faults(acme.clone(), certificate.clone());
        assert!(text.contains(told), "{acme} {certificate}: {text}");
    }
}
