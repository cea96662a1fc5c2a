//! Automatic certificates of a fleet: one order for all nodes, in an etcd and from an authority that other people wrote.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tutti_e2e::clocks::Clocks;
use tutti_e2e::etcd::Etcd;
use tutti_e2e::fleet::Fleet;
use tutti_e2e::pebble::{Pebble, PebbleOptions};
use tutti_e2e::way::watched_way;
use tutti_testkit::server::built;
use tutti_testkit::{Server, ServerOptions, wait_until};

/// The bundle that all nodes want.
const BUNDLE: &str = "acme:test:example.com";

/// The seconds that a lock, and the answer of a node, outlive their owner: more than a busy machine keeps it from prolonging them.
const LIFE: &str = "10";

/// Nodes that want the same certificate, and the last one, which wants none and answers the authority.
struct Site {
    fleet: Fleet,
    pebble: Pebble,
    http: u16,
    tls: u16,
    sources: Vec<PathBuf>,
    /// The account as the documents have it.
    account: Value,
}

fn node_options(source: &Path) -> ServerOptions {
    ServerOptions {
        flags: vec!["--source".to_owned(), source.display().to_string()],
        wrapper: [
            "env",
            "TUTTI_ACME_PAUSE=1",
            &format!("TUTTI_FLEET_LIFE={LIFE}"),
        ]
        .map(str::to_owned)
        .to_vec(),
        ..ServerOptions::default()
    }
}

fn key() -> String {
    let run = Command::new(built("tutti"))
        .args(["fleet", "secret"])
        .output()
        .unwrap();
    String::from_utf8(run.stdout).unwrap().trim_end().to_owned()
}

fn name(number: usize) -> String {
    format!("n{number}")
}

impl Site {
    /// So many nodes that want a certificate, and one that answers.
    fn start(count: usize, change: impl FnOnce(&mut PebbleOptions)) -> Site {
        let mut wanted = PebbleOptions::default();
        change(&mut wanted);
        let etcd = Etcd::start(1);
        let secret = etcd.secret("secret", &[&key()]);
        let more = |name: &str| json!({"labels": {"n": name}, "secret_file": secret});
        let sources: Vec<PathBuf> = (0..=count)
            .map(|number| etcd.source(&name(number), &more(&name(number))))
            .collect();
        let mut fleet = Fleet::on(etcd, &[], &more("administrator"));
        for source in &sources {
            fleet.nodes.push(Server::start(&node_options(source)));
        }
        wait_until("all nodes answer", || fleet.answers().len() == count + 1);
        let pebble = Pebble::start(&wanted);
        Site {
            // Without a name the authority takes any of its profiles.
            account: pebble.account(&json!({"profile": "default"})),
            fleet,
            pebble,
            http: wanted.http,
            tls: wanted.tls,
            sources,
        }
    }

    /// The nodes that want a certificate.
    fn count(&self) -> usize {
        self.sources.len() - 1
    }

    fn roll_out(&self, number: usize, document: &Value) {
        let file = self.fleet.file(&document.to_string());
        let label = format!("n={}", name(number));
        self.fleet
            .succeed(&["put", &file, "--wait", "0", "--label", &label]);
    }

    /// A document whose listener has a certificate.
    fn wanting(&self, number: usize, certificate: &Value) -> Value {
        let listener = self.fleet.nodes[number].address().to_string();
        json!({
            "listeners": {listener: {"pass": "routes", "tls": {"certificate": certificate}}},
            "settings": {"acme": {"test": self.account}},
            "routes": [{"action": {"return": 201}}]
        })
    }

    /// Has the last node listen where the authority asks by HTTP, and all others want the certificate.
    fn begin(&self) {
        let listener = format!("127.0.0.1:{}", self.http);
        let answering = json!({"listeners": {listener: {"pass": "routes"}}, "routes": [{"action": {"return": 403}}]});
        self.roll_out(self.count(), &answering);
        for number in 0..self.count() {
            let certificate = json!({"acme": "test", "names": ["example.com"]});
            self.roll_out(number, &self.wanting(number, &certificate));
        }
    }

    fn certificate(&self, number: usize) -> Value {
        self.fleet.nodes[number].status("/certificates")[BUNDLE].clone()
    }

    fn is_valid(&self, number: usize) -> bool {
        self.certificate(number)["state"] == "valid"
    }

    /// The serial number of the certificate that a node shows; empty: none.
    fn serial(&self, number: usize) -> String {
        self.serial_for(number, "example.com")
    }

    fn serial_for(&self, number: usize, name: &str) -> String {
        let shown = self.shown_for(number, name, "-noout -serial");
        shown.trim().to_owned()
    }

    /// The certificate that a node shows, as `openssl x509` prints it with these options; empty: none.
    fn shown_for(&self, number: usize, name: &str, options: &str) -> String {
        let address = self.fleet.nodes[number].address();
        let command = format!(
            "openssl s_client -connect {address} -servername {name} </dev/null 2>/dev/null | openssl x509 {options} 2>/dev/null"
        );
        let run = Command::new("sh").args(["-c", &command]).output().unwrap();
        String::from_utf8(run.stdout).unwrap()
    }

    /// Waits until these nodes show one and the same certificate; its serial number.
    fn wait_for_same(&self, numbers: &[usize]) -> String {
        let mut serial = String::new();
        wait_until("the same certificate on all nodes", || {
            let all: BTreeSet<String> = numbers.iter().map(|number| self.serial(*number)).collect();
            serial = all.first().cloned().unwrap_or_default();
            all.len() == 1 && !serial.is_empty()
        });
        serial
    }

    /// Waits until a node has the lock of the certificate's document; the node, and the text of the lock.
    fn wait_for_owner(&self) -> (usize, String) {
        let mut found = None;
        wait_until("somebody works at it", || {
            found = self.lock();
            found.is_some()
        });
        let lock = found.unwrap();
        let owner: Value = serde_json::from_str(&lock).unwrap();
        let node = owner["node"].as_str().unwrap();
        let number = (0..self.count()).find(|number| name(*number) == node);
        (number.unwrap(), lock)
    }

    /// The text of that lock: another one each time that somebody takes it.
    fn lock(&self) -> Option<String> {
        let locks = self.fleet.etcd.range("/tutti/acme/state/locks/");
        let lock = locks.into_iter().find(|lock| lock.key.ends_with(BUNDLE))?;
        Some(lock.text)
    }

    /// The number of times that the document of the certificate was written, and the certificate itself as it is stored.
    fn stored(&self) -> (u64, String) {
        let (mut version, mut chain) = (0, String::new());
        for entry in self.fleet.etcd.range("/tutti/acme/") {
            if !entry.key.ends_with(BUNDLE) {
                continue;
            }
            if entry.key.starts_with("/tutti/acme/state/documents/") {
                version = entry.version;
            } else if entry.key.starts_with("/tutti/acme/chains/") {
                chain = entry.text;
            }
        }
        (version, chain)
    }

    /// Has all that comes from the authority pass only while somebody looks.
    fn watch(&mut self) -> watch::Sender<u64> {
        let (looks, looked) = watch::channel(0);
        let way = watched_way(self.pebble.directory_address(), looked);
        self.account["directory"] = json!(format!("https://{way}/dir"));
        looks
    }

    /// Looks until a certificate is stored. Nothing passes after that: no node can ask for advice, or renew it.
    fn look_until_stored(&self, looks: &watch::Sender<u64>) {
        wait_until("a certificate", || {
            looks.send_modify(|looks| *looks += 1);
            !self.stored().1.is_empty()
        });
    }

    /// The last step of the order that has been done, as the store and the authority have it.
    fn step(&self) -> Option<AcmeFault> {
        if self.pebble.orders() == 0 {
            return None;
        }
        let (version, chain) = self.stored();
        let log = self.pebble.log();
        match () {
            () if !chain.is_empty() || version < 2 => None,
            () if log.contains("Issued certificate serial") => Some(AcmeFault::Issued),
            () if log.contains("set VALID by completed challenge") => Some(AcmeFault::Shown),
            () => Some(AcmeFault::Order),
        }
    }

    /// Sends a signal to all processes of a node.
    fn signal(&self, number: usize, signal: i32) {
        for process in self.fleet.nodes[number].processes() {
            let _ = tutti_sys::signal::send(process.pid, signal);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AcmeFault {
    /// The order is in the store.
    Order,
    /// The authority has seen that the name is ours.
    Shown,
    /// There is a certificate, which is not in the store.
    Issued,
}

#[test]
fn one_order_for_all_nodes_and_another_node_answers_the_authority() {
    let site = Site::start(2, |_| {});
    site.begin();
    site.wait_for_same(&[0, 1]);
    for number in 0..2 {
        wait_until("its status", || site.is_valid(number));
        assert_eq!(site.certificate(number)["failures"], 0);
    }
    assert_eq!(
        (
            site.pebble.orders(),
            site.pebble.issued(),
            site.pebble.accounts()
        ),
        (1, 1, 1),
        "{}{}",
        site.fleet.nodes[0].log(),
        site.fleet.nodes[1].log()
    );
    // It got no certificate, and has no process for them: it answered all the same.
    assert!(site.fleet.nodes[2].pids("tutti: acme").is_empty());
    assert_eq!(site.certificate(2), Value::Null);
    // The keys are nowhere to be read.
    let all = site.fleet.etcd.ctl(&["get", "--prefix", "/tutti/acme/"]);
    assert!(!all.contains("PRIVATE") && !all.contains("pebble"), "{all}");
    let list = site.fleet.succeed(&["cert", "list"]);
    assert!(
        list.contains(BUNDLE) && list.contains("example.com"),
        "{list}"
    );
}

#[test]
fn a_renewal_is_one_order_for_all_nodes_too() {
    let mut site = Site::start(2, |_| {});
    let looks = site.watch();
    site.begin();
    site.look_until_stored(&looks);
    let first = site.wait_for_same(&[0, 1]);
    // As when the authority is going to take certificates back: the window has been for days.
    let certificate = site.shown_for(0, "example.com", "");
    site.pebble
        .wish(&certificate, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let looking = Looking::on(looks);
    wait_until("the new one on all nodes", || {
        let (one, other) = (site.serial(0), site.serial(1));
        one == other && one != first && !one.is_empty()
    });
    let replacements = site.pebble.log().matches("is a replacement of").count();
    assert_eq!(
        (
            site.pebble.orders(),
            site.pebble.issued(),
            replacements,
            site.pebble.accounts()
        ),
        (2, 2, 1, 1),
        "{}",
        site.pebble.log()
    );
    drop(looking);
}

#[test]
fn the_owner_is_killed_at_each_step_and_another_goes_on_with_the_same_order() {
    let mut site = Site::start(2, |_| {});
    let looks = site.watch();
    site.begin();
    let steps = [AcmeFault::Order, AcmeFault::Shown, AcmeFault::Issued];
    for step in steps {
        wait_until("a step of the order", || {
            looks.send_modify(|looks| *looks += 1);
            site.step() >= Some(step)
        });
        // Each is seen: nothing has passed since the look.
        assert_eq!(site.step(), Some(step));
        let (owner, lock) = site.wait_for_owner();
        let source = site.sources[owner].clone();
        site.fleet.nodes[owner].start_again(&node_options(&source));
        wait_until("somebody goes on, with another lock", || {
            site.lock().is_some_and(|now| now != lock)
        });
    }
    site.look_until_stored(&looks);
    drop(looks);
    site.wait_for_same(&[0, 1]);
    assert_eq!(
        (
            site.pebble.orders(),
            site.pebble.issued(),
            site.pebble.accounts()
        ),
        (1, 1, 1)
    );
}

/// Looks on, as long as it is there.
struct Looking {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Looking {
    fn on(looks: watch::Sender<u64>) -> Looking {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    looks.send_modify(|looks| *looks += 1);
                    std::thread::park_timeout(Duration::from_millis(2));
                }
            }
        });
        Looking {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn an_owner_that_was_stopped_for_too_long_overwrites_nothing() {
    let mut site = Site::start(2, |_| {});
    let looks = site.watch();
    site.begin();
    wait_until("a certificate that is not stored yet", || {
        looks.send_modify(|looks| *looks += 1);
        site.step() == Some(AcmeFault::Issued)
    });
    let (stopped, _) = site.wait_for_owner();
    site.signal(stopped, libc::SIGSTOP);
    let looking = Looking::on(looks);
    let other = 1 - stopped;
    wait_until("the other node has got it", || {
        site.is_valid(other) && !site.serial(other).is_empty()
    });
    let first = site.serial(other);
    // A newer one comes meanwhile.
    site.fleet.succeed(&["cert", "delete", BUNDLE]);
    wait_until("a newer one", || {
        let now = site.serial(other);
        !now.is_empty() && now != first
    });
    let newer = site.stored().1;
    site.signal(stopped, libc::SIGCONT);
    let node = &site.fleet.nodes[stopped];
    wait_until("it leaves the order", || {
        let log = node.log();
        log.contains("the order of `example.com` is abandoned")
            || log.contains("no certificate for")
    });
    let serial = site.wait_for_same(&[0, 1]);
    assert_ne!(serial, first);
    assert_eq!(site.stored().1, newer);
    // One for each time that it was asked for.
    assert_eq!((site.pebble.orders(), site.pebble.issued()), (2, 2));
    drop(looking);
}

#[test]
fn without_the_store_certificates_stay_and_renewal_waits_and_is_reported() {
    let mut site = Site::start(1, |wanted| wanted.validity = 40);
    let looks = site.watch();
    site.begin();
    // The advice of this authority may be to renew it at once.
    site.look_until_stored(&looks);
    let first = site.wait_for_same(&[0]);
    // The store is lost while the authority is asked for advice, which does not come: that must not put off the renewal.
    wait_until("it asks for advice", || site.lock().is_some());
    site.fleet.etcd.kill(0);
    wait_until("it is reported", || {
        let told = site.certificate(0)["last_error"]["message"].clone();
        told.as_str().is_some_and(|told| {
            told.contains("no certificates are ordered or renewed at the moment")
        })
    });
    assert_eq!(site.serial(0), first);
    let node = &site.fleet.nodes[0];
    // Half its life is over, then nearly all of it.
    node.wait_for_log("is due for renewal, but no certificates are ordered at the moment");
    node.wait_for_log("which ends in 0 hours, is due for renewal");
    assert!(node.log().contains("alert"), "{}", node.log());
    assert_eq!(site.pebble.orders(), 1);
    site.fleet.etcd.start_again(0);
    let looking = Looking::on(looks);
    wait_until("it is renewed", || {
        let now = site.serial(0);
        !now.is_empty() && now != first
    });
    wait_until("that is over", || {
        site.certificate(0)["last_error"].is_null()
    });
    drop(looking);
}

#[test]
fn a_handshake_with_the_authority_is_answered_by_another_node() {
    let mut site = Site::start(1, |_| {});
    site.account = site.pebble.account(&json!({"challenge": "tls-alpn-01"}));
    // Any certificate makes the listener one that speaks TLS.
    let folder = tempfile::tempdir().unwrap();
    let authority = tutti_e2e::authority::Authority::new(folder.path());
    let bundle = authority.bundle("site", tutti_e2e::authority::EC, "DNS:site.example");
    let file = site
        .fleet
        .etcd
        .write("site.pem", &bundle)
        .display()
        .to_string();
    site.fleet.succeed(&["cert", "put", "site", &file]);
    let listener = format!("127.0.0.1:{}", site.tls);
    let answering = json!({"listeners": {listener: {"pass": "routes", "tls": {"certificate": "site"}}}, "routes": []});
    site.roll_out(1, &answering);
    let wanted = site.wanting(0, &json!({"acme": "test", "names": ["example.com"]}));
    site.roll_out(0, &wanted);
    site.wait_for_same(&[0]);
    assert_eq!((site.pebble.orders(), site.pebble.issued()), (1, 1));
}

#[test]
fn a_name_that_a_client_asks_one_node_for_is_had_by_all() {
    let mut site = Site::start(2, |_| {});
    let ask = format!("http://127.0.0.1:{}/may", site.http);
    site.account = site.pebble.account(&json!({"on_demand": {"ask": ask}}));
    let listener = format!("127.0.0.1:{}", site.http);
    let answering = json!({
        "listeners": {listener: {"pass": "routes"}},
        "routes": [{"match": {"uri": "/may"}, "action": {"return": 200}}, {"action": {"return": 403}}]
    });
    site.roll_out(2, &answering);
    for number in 0..2 {
        let document = site.wanting(number, &json!({"acme": "test", "on_demand": true}));
        site.roll_out(number, &document);
    }
    // The process has to have heard of the store.
    let mut serial = String::new();
    wait_until("a certificate for the first handshake", || {
        serial = site.serial_for(0, "a.example.com");
        !serial.is_empty()
    });
    wait_until("the other node has it, too", || {
        site.serial_for(1, "a.example.com") == serial
    });
    assert_eq!((site.pebble.orders(), site.pebble.issued()), (1, 1));
    // A node whose clock is ahead by more than the 30 days for which an unused certificate is kept.
    let clocks = Clocks::new();
    let mut clock = clocks.make("n1");
    clock.set(40 * 86_400);
    let mut wrong = node_options(&site.sources[1]);
    wrong.wrapper.extend(clock.environment());
    site.fleet.nodes[1].stop(libc::SIGTERM);
    site.fleet.nodes[1].start_again(&wrong);
    site.fleet.nodes[1].wait_for_log("is not deleted as unused: the clock of this node is");
    assert_eq!(site.serial_for(0, "a.example.com"), serial);
    assert!(!site.fleet.etcd.range("/tutti/acme/chains/").is_empty());
}
