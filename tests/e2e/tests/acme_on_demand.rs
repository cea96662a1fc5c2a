//! Certificates on demand, with an authority that other people wrote: pebble.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tutti_e2e::documents::json_examples;
use tutti_e2e::external::source;
use tutti_e2e::pebble::{Pebble, PebbleOptions};
use tutti_testkit::{ClosedPort, Server, ServerOptions, free_port, is_root, skipped, wait_until};

/// A server that gets certificates on demand, and its authority. Names below `ok.example.com` and `ok.example.org` may have one.
struct Site {
    server: Server,
    pebble: Pebble,
    http: u16,
    tls: u16,
}

fn options() -> ServerOptions {
    ServerOptions {
        wrapper: vec!["env".to_owned(), "TUTTI_ACME_PAUSE=300".to_owned()],
        ..ServerOptions::default()
    }
}

impl Site {
    fn start(on_demand: &Value) -> Site {
        Site::start_with(on_demand, &options())
    }

    fn start_with(on_demand: &Value, options: &ServerOptions) -> Site {
        let wanted = PebbleOptions::default();
        let site = Site {
            pebble: Pebble::start(&wanted),
            server: Server::start(options),
            http: wanted.http,
            tls: wanted.tls,
        };
        site.server.put("/config", &site.configuration(on_demand));
        site
    }

    fn configuration(&self, on_demand: &Value) -> Value {
        // As long as curl waits, on a busy machine.
        let mut demand =
            json!({"ask": format!("http://127.0.0.1:{}/may", self.http), "timeout": 60});
        tutti_testkit::set_members(&mut demand, on_demand);
        json!({
            "listeners": {
                format!("127.0.0.1:{}", self.http): {"pass": "routes"},
                format!("127.0.0.1:{}", self.tls): {"pass": "routes", "tls": {"certificate": {"acme": "test", "on_demand": true}}}
            },
            "settings": {"acme": {"test": self.pebble.account(&json!({"on_demand": demand}))}},
            "routes": [
                {"match": {"uri": "/may", "arguments": {"name": ["*.ok.example.com", "*.ok.example.org"], "client": "127.0.0.1"}}, "action": {"return": 200}},
                {"match": {"uri": "/away"}, "action": {"return": 302, "location": "/may?name=a.ok.example.com&client=127.0.0.1"}},
                {"match": {"scheme": "https"}, "action": {"return": 201}},
                {"action": {"return": 403}}
            ],
            "access_log": {"path": self.log_file(), "format": "$request_line"}
        })
    }

    fn log_file(&self) -> PathBuf {
        self.server.folder().join("access.log")
    }

    /// Questions whether a name may have a certificate.
    fn questions(&self, name: &str) -> usize {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        log.matches(&format!("?name={name}&client=")).count()
    }

    /// Waits until so many are in the log, which is written after the response.
    fn wait_for_questions(&self, name: &str, count: usize) {
        wait_until("the questions", || self.questions(name) == count);
    }

    fn begin_curl(&self, name: &str) -> Child {
        let root = self.server.folder().join("root.pem");
        if !root.exists() {
            self.pebble.root(&root);
        }
        Command::new("curl")
            .args(["--silent", "--max-time", "60", "--output", "/dev/null"])
            .args(["--write-out", "%{http_code}"])
            .arg("--cacert")
            .arg(&root)
            .args(["--resolve", &format!("{name}:{}:127.0.0.1", self.tls)])
            .arg(format!("https://{name}:{}/", self.tls))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The status of an answer; empty where there is no TLS.
    fn curl(&self, name: &str) -> String {
        status(self.begin_curl(name))
    }
}

fn status(curl: Child) -> String {
    let run = curl.wait_with_output().unwrap();
    match run.status.success() {
        true => String::from_utf8_lossy(&run.stdout).into_owned(),
        false => String::new(),
    }
}

#[test]
fn many_handshakes_for_a_name_that_may_are_one_question_and_one_order() {
    let mut site = Site::start(&json!({}));
    let all: Vec<Child> = (0..12)
        .map(|_| site.begin_curl("shop.ok.example.com"))
        .collect();
    for curl in all {
        assert_eq!(status(curl), "201", "{}", site.server.log());
    }
    site.wait_for_questions("shop.ok.example.com", 1);
    assert_eq!((site.pebble.orders(), site.pebble.issued()), (1, 1));
    // In whatever case of letters.
    assert_eq!(site.curl("SHOP.ok.example.com"), "201");
    assert_eq!(site.curl("other.ok.example.com"), "201");
    assert_eq!(site.pebble.orders(), 2);
    let told = site
        .server
        .status("/certificates/acme:test:shop.ok.example.com");
    assert_eq!(
        (&told["state"], &told["account"]),
        (&json!("valid"), &json!("test")),
        "{told}"
    );
    assert!(told["next_order"].is_string(), "{told}");
    // It is kept like others: over the end of a router, of everything, and over another configuration.
    site.server.kill_router();
    wait_until("another router", || {
        site.curl("shop.ok.example.com") == "201"
    });
    site.server.start_again(&options());
    assert_eq!(site.curl("other.ok.example.com"), "201");
    site.server
        .put("/config/settings/acme/test/on_demand/most", &json!(50));
    assert_eq!(site.curl("shop.ok.example.com"), "201");
    assert_eq!(
        (site.pebble.orders(), site.questions("shop.ok.example.com")),
        (2, 1)
    );
    // One that somebody deletes is got anew.
    let reply = site.server.call(
        "DELETE",
        "/certificates/acme:test:shop.ok.example.com",
        &Value::Null,
    );
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(site.curl("shop.ok.example.com"), "201");
    assert_eq!(site.pebble.orders(), 3);
    site.wait_for_questions("shop.ok.example.com", 2);
}

#[test]
fn a_name_that_may_not_is_refused_and_not_asked_about_again() {
    let site = Site::start(&json!({}));
    for _ in 0..2 {
        assert_eq!(site.curl("evil.example.com"), "");
    }
    site.server.wait_for_log("no certificate for `evil.example.com`: `ask` of the account `test` does not allow it: it responds 403");
    site.server.wait_for_log("it was refused recently");
    site.wait_for_questions("evil.example.com", 1);
    // Nor is one asked about that no authority takes, or a client that asks for none.
    for name in ["under_score.ok.example.com", "localhost"] {
        assert_eq!(site.curl(name), "");
        assert_eq!(site.questions(name), 0);
    }
    let nameless = Command::new("curl")
        .args([
            "--silent",
            "--insecure",
            "--max-time",
            "60",
            &format!("https://127.0.0.1:{}/", site.tls),
        ])
        .status();
    assert!(!nameless.unwrap().success());
    // A redirect is no yes, and is not followed; nor is somebody who is not there.
    let account = "/config/settings/acme/test/on_demand/ask";
    site.server.put(
        account,
        &json!(format!("http://127.0.0.1:{}/away", site.http)),
    );
    assert_eq!(site.curl("a.ok.example.com"), "");
    site.server.wait_for_log("it responds 302");
    let closed = ClosedPort::new();
    site.server
        .put(account, &json!(format!("http://{}/", closed.address())));
    assert_eq!(site.curl("b.ok.example.com"), "");
    site.server.wait_for_log("cannot be reached");
    assert_eq!(site.pebble.orders(), 0);
    // A client that speaks no TLS gets the usual 400.
    let plain = Command::new("curl")
        .args([
            "--silent",
            "--max-time",
            "60",
            &format!("http://127.0.0.1:{}/", site.tls),
        ])
        .output();
    assert!(String::from_utf8_lossy(&plain.unwrap().stdout).contains("HTTPS"));
}

#[test]
fn the_guide_s_example_works() {
    let site = Site::start(&json!({}));
    let page = fs::read_to_string(source("docs/http/acme.md")).unwrap();
    let ports = [site.http, site.tls].map(|port| format!("127.0.0.1:{port}"));
    let ask = format!("http://127.0.0.1:{}/may", site.http);
    let places = [
        ("*:80", ports[0].as_str()),
        ("*:443", &ports[1]),
        ("http://127.0.0.1:9000/may-have-a-certificate", &ask),
    ];
    let examples = json_examples(&page, &places).into_iter();
    let mut examples = examples.filter(|example| example.to_string().contains("on_demand"));
    let mut example = examples.next().unwrap();
    let own = site.configuration(&json!({}));
    example["settings"]["acme"]["letsencrypt"] = site
        .pebble
        .account(&example["settings"]["acme"]["letsencrypt"]);
    // The guide's customers are asked for by an application, here it is a route; and the site is one.
    let routes = example["routes"].as_object_mut().unwrap();
    for name in ["plain", "customers"] {
        assert!(routes.contains_key(name));
        routes.insert(name.to_owned(), own["routes"].clone());
    }
    site.server.put("/config", &example);
    assert_eq!(site.curl("shop.ok.example.com"), "201");
    assert_eq!(site.curl("shop.example.com"), "");
    assert_eq!(site.pebble.orders(), 1);
}

#[test]
fn orders_are_bounded() {
    let site = Site::start(&json!({"hourly_per_client": 3, "hourly_per_domain": 2, "most": 4}));
    for name in ["a.ok.example.com", "b.ok.example.com"] {
        assert_eq!(site.curl(name), "201");
    }
    assert_eq!(site.curl("c.ok.example.com"), "");
    site.server
        .wait_for_log("`hourly_per_domain` of `on_demand`");
    assert_eq!(site.curl("a.ok.example.org"), "201");
    assert_eq!(site.curl("b.ok.example.org"), "");
    site.server
        .wait_for_log("`hourly_per_client` of `on_demand`");
    assert_eq!(site.pebble.orders(), 3);
    // The limits are not begun anew with the process.
    for pid in site.server.pids("tutti: acme") {
        let _ = tutti_sys::signal::send(pid, libc::SIGKILL);
    }
    site.server
        .wait_for_log("for automatic certificates exited on signal 9");
    wait_until("the next", || !site.server.pids("tutti: acme").is_empty());
    assert_eq!(site.curl("d.ok.example.com"), "");
    assert_eq!(site.curl("a.ok.example.com"), "201");
    assert_eq!(site.pebble.orders(), 3);
}

#[test]
fn a_name_that_fails_waits_for_its_pause_and_the_order_of_a_killed_process_goes_on() {
    let site = Site::start(&json!({}));
    // The authority does not reach it.
    let listener = format!("127.0.0.1:{}", site.http);
    let mut configuration = site.configuration(&json!({}));
    let other = format!("127.0.0.1:{}", free_port());
    let listeners = configuration["listeners"].as_object_mut().unwrap();
    let plain = listeners.remove(&listener).unwrap();
    listeners.insert(other.clone(), plain);
    configuration["settings"]["acme"]["test"]["on_demand"]["ask"] =
        json!(format!("http://{other}/may"));
    site.server.put("/config", &configuration);
    assert_eq!(site.curl("a.ok.example.com"), "");
    assert_eq!(site.curl("a.ok.example.com"), "");
    site.server.wait_for_log("the next order is in");
    assert_eq!(site.pebble.orders(), 1);
    site.wait_for_questions("a.ok.example.com", 1);
    site.server.put("/config", &site.configuration(&json!({})));
    // A handshake whose process ends is refused; its order goes on by itself.
    let waiting = site.begin_curl("b.ok.example.com");
    let document = site
        .server
        .folder()
        .join("state/acme/certificate-acme%3Atest%3Ab.ok.example.com");
    wait_until("an order", || {
        fs::read_to_string(&document)
            .is_ok_and(|text| text.contains("http") && text.contains("/my-order/"))
    });
    for pid in site.server.pids("tutti: acme") {
        let _ = tutti_sys::signal::send(pid, libc::SIGKILL);
    }
    let _ = status(waiting);
    wait_until("the certificate", || site.curl("b.ok.example.com") == "201");
    assert_eq!((site.pebble.orders(), site.pebble.issued()), (2, 1));
}

/// Begins a handshake for each of many names, and goes away when it is answered.
const STORM: &str = r#"
import socket, ssl, sys, threading

port, count, threads = int(sys.argv[1]), int(sys.argv[2]), 8

def hello(name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    session = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()

failed = []

def run(first):
    for number in range(first, count, threads):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(hello(f"name-{number}.storm.example"))
                answer = client.recv(100)
                # An alert (RFC 8446 §6), and nothing else.
                if answer and answer[0] != 21:
                    failed.append(answer)
        except ConnectionResetError:
            pass

all = [threading.Thread(target=run, args=(first,)) for first in range(threads)]
for one in all:
    one.start()
for one in all:
    one.join()
sys.exit(f"{failed[:3]}" if failed else 0)
"#;

/// Kilobytes of memory that a process has.
fn resident(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_storm_of_names_has_nothing_ordered_and_fills_no_memory() {
    let site = Site::start(&json!({}));
    assert_eq!(site.curl("a.ok.example.com"), "201");
    let storm = site.server.write("storm.py", STORM);
    let run = |count: &str| {
        let run = Command::new("/usr/bin/python3")
            .arg(&storm)
            .arg(site.tls.to_string())
            .arg(count)
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
    };
    let processes = || {
        let acme = site.server.pids("tutti: acme");
        [acme[0], site.server.router(), site.server.pid()]
    };
    run("500");
    let before = processes();
    let memory = before.map(resident);
    run("10000");
    assert_eq!(processes(), before, "{}", site.server.log());
    for (pid, before) in before.into_iter().zip(memory) {
        let now = resident(pid);
        assert!(
            now < before + 20_000,
            "process {pid}: {before} kB, then {now} kB"
        );
    }
    assert_eq!(site.pebble.orders(), 1);
    assert_eq!(site.curl("a.ok.example.com"), "201");
    assert_eq!(site.curl("b.ok.example.com"), "201");
}

/// A small file system over a folder, in the server's own mount namespace.
fn on_a_small_disk() -> ServerOptions {
    let script = "for last; do :; done; state=; previous=; for word; do [ \"$previous\" = --statedir ] && state=$word; previous=$word; done; \
        mkdir -p \"$state\" && mount -t tmpfs -o size=256k,mode=700 tmpfs \"$state\" && exec \"$@\"";
    let wrapper = [
        "env",
        "TUTTI_ACME_PAUSE=0",
        "unshare",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
    ];
    ServerOptions {
        wrapper: wrapper.map(str::to_owned).to_vec(),
        ..ServerOptions::default()
    }
}

#[test]
fn on_a_full_disk_nothing_is_ordered_twice_and_it_goes_on_when_there_is_room() {
    if !is_root() {
        return skipped("only root can mount a small file system");
    }
    let site = Site::start_with(&json!({}), &on_a_small_disk());
    // As the server sees it.
    let state = PathBuf::from(format!(
        "/proc/{}/root{}",
        site.server.pid(),
        site.server.folder().join("state").display()
    ));
    let fill = state.join("fill");
    let block = vec![0; 4096];
    let mut file = fs::File::create(&fill).unwrap();
    while std::io::Write::write_all(&mut file, &block).is_ok() {}
    let full = fs::metadata(&fill).unwrap().len();
    assert_eq!(site.curl("a.ok.example.com"), "");
    site.server.wait_for_log("No space left on device");
    assert_eq!((site.pebble.accounts(), site.pebble.orders()), (0, 0));
    // With each page of room it comes a step further: the account, the order, the certificate, which does not fit at first.
    let mut steps = BTreeSet::new();
    for pages in 1..32 {
        file.set_len(full - pages * 4096).unwrap();
        let status = site.curl("a.ok.example.com");
        steps.insert((site.pebble.accounts(), site.pebble.orders(), status.clone()));
        if status == "201" {
            break;
        }
    }
    let orders = (
        site.pebble.accounts(),
        site.pebble.orders(),
        site.pebble.issued(),
    );
    assert_eq!(orders, (1, 1, 1), "{steps:?} {}", site.server.log());
    assert!(steps.contains(&(1, 1, String::new())), "{steps:?}");
    assert_eq!(site.curl("a.ok.example.com"), "201");
    file.set_len(0).unwrap();
    assert_eq!(site.curl("b.ok.example.com"), "201");
}

#[test]
fn an_unused_certificate_is_deleted() {
    let mut site = Site::start(&json!({}));
    for name in ["used.ok.example.com", "unused.ok.example.com"] {
        assert_eq!(site.curl(name), "201");
    }
    site.server.stop(libc::SIGTERM);
    let document = site
        .server
        .folder()
        .join("state/acme/certificate-acme%3Atest%3Aunused.ok.example.com");
    let mut kept: Value = serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    kept["demand"]["used"] = json!(kept["demand"]["used"].as_i64().unwrap() - 31 * 86_400);
    fs::write(&document, kept.to_string()).unwrap();
    site.server.start_again(&options());
    site.server
        .wait_for_log("the certificate `acme:test:unused.ok.example.com` is no longer used");
    wait_until("its document to go", || !document.exists());
    wait_until("it to go", || {
        site.server
            .status("/certificates")
            .as_object()
            .unwrap()
            .len()
            == 1
    });
    assert_eq!(site.curl("used.ok.example.com"), "201");
    assert_eq!(site.pebble.orders(), 2);
}

#[test]
fn mistakes_are_reported_with_their_place() {
    let server = Server::start(&ServerOptions::default());
    let port = free_port();
    for (account, certificate, told) in [
        (
            json!({}),
            json!({"acme": "le", "on_demand": true}),
            "has no `on_demand` with an `ask`",
        ),
        (
            json!({"on_demand": {}}),
            json!({"acme": "le", "on_demand": true}),
            "`ask`",
        ),
        (
            json!({"on_demand": {"ask": "ftp://a"}}),
            json!({"acme": "le", "on_demand": true}),
            "this is not a usable URL",
        ),
        (
            json!({"on_demand": {"ask": "http://a", "timeout": 0}}),
            json!({"acme": "le", "on_demand": true}),
            "timeout",
        ),
        (
            json!({"on_demand": {"ask": "http://a"}}),
            json!({"acme": "le", "on_demand": true, "names": "a.example.com"}),
            "not for both",
        ),
        (
            json!({"on_demand": {"ask": "http://a"}}),
            json!([{"acme": "le", "on_demand": true}, {"acme": "le", "on_demand": true}]),
            "only one account",
        ),
        (json!({}), json!({"on_demand": true}), "acme"),
    ] {
        let configuration = json!({
            "listeners": {format!("127.0.0.1:{port}"): {"pass": "routes", "tls": {"certificate": certificate}}},
            "settings": {"acme": {"le": account}},
            "routes": []
        });
        let reply = server.call("PUT", "/config", &configuration);
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert!(reply.text().contains(told), "{told}: {}", reply.text());
    }
}
