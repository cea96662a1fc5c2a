//! Certificates of a fleet, in an etcd that other people wrote: sealed there, and in force on all nodes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::etcd::Etcd;
use tutti_e2e::fleet::{Fleet, document, options};
use tutti_testkit::server::built;
use tutti_testkit::{Server, wait_until};

/// A new key, as `tutti fleet secret` prints it.
fn key() -> String {
    let run = Command::new(built("tutti"))
        .args(["fleet", "secret"])
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    String::from_utf8(run.stdout).unwrap().trim_end().to_owned()
}

/// A fleet, each node of which has a label with its name, and who issues certificates for it.
struct Site {
    fleet: Fleet,
    names: Vec<String>,
    authority: Authority,
    /// Where the authority is.
    _folder: tempfile::TempDir,
}

impl Site {
    /// `secrets`: the file with keys of each node, if it has one. The first node's is that of the administrator.
    fn start(etcd: Etcd, secrets: &[Option<&Path>]) -> Site {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..secrets.len())
            .map(|number| format!("n{number}"))
            .collect();
        let sources: Vec<PathBuf> = names
            .iter()
            .zip(secrets)
            .map(|(name, secret)| etcd.source(name, &more(name, *secret)))
            .collect();
        let administrator = more("administrator", secrets[0]);
        let mut fleet = Fleet::on(etcd, &[], &administrator);
        for source in &sources {
            fleet.nodes.push(Server::start(&options(source)));
        }
        wait_until("all nodes answer", || fleet.answers().len() == names.len());
        Site {
            fleet,
            names,
            authority: Authority::new(folder.path()),
            _folder: folder,
        }
    }

    /// A file with a certificate, its chain and its key.
    fn bundle(&self, name: &str) -> String {
        let text = self.authority.bundle(name, EC, "DNS:site.example");
        let path = self.authority.path(&format!("{name}.bundle"));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A document for a node in which its listener uses a certificate.
    fn serving(&self, number: usize, certificate: &str) -> String {
        let listener = self.fleet.nodes[number].address().to_string();
        json!({
            "listeners": {listener: {"pass": "routes", "tls": {"certificate": certificate}}},
            "routes": [{"action": {"return": 204}}]
        })
        .to_string()
    }

    fn roll_out(&self, number: usize, text: &str) {
        let label = format!("n={}", self.names[number]);
        let file = self.fleet.file(text);
        self.fleet
            .succeed(&["put", &file, "--wait", "0", "--label", &label]);
    }

    /// The name that the certificate of a node's listener is made out for, if clients can trust it.
    fn shown(&self, number: usize) -> String {
        let address = self.fleet.nodes[number].address();
        let command = format!(
            "openssl s_client -connect {address} -servername site.example -verify_return_error -CAfile {} </dev/null 2>/dev/null | openssl x509 -noout -subject",
            self.authority.path("ca.pem").display()
        );
        let run = Command::new("sh").args(["-c", &command]).output().unwrap();
        let text = String::from_utf8(run.stdout).unwrap();
        let name = text.trim().rsplit(['=', ' ']).next().unwrap_or_default();
        name.to_owned()
    }

    fn certificates(&self, number: usize) -> Value {
        self.fleet.source_of(number)["certificates"].clone()
    }

    fn wait_for_taken(&self, number: usize, names: &[&str]) {
        wait_until("a node takes certificates up", || {
            self.certificates(number)["taken"] == json!(names)
        });
    }

    /// The reason why a node refuses a certificate.
    fn refusal(&self, number: usize, name: &str) -> String {
        let mut reason = String::new();
        wait_until("a node refuses a certificate", || {
            let told = self.certificates(number);
            told["refused"][name]["reason"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut reason);
            !reason.is_empty()
        });
        reason
    }

    /// Kills the source process, which reads the files anew once it is started again.
    fn read_files_anew(&self, number: usize) {
        let node = &self.fleet.nodes[number];
        let before = node.pids("tutti: fleet");
        for pid in &before {
            let _ = tutti_sys::signal::send(*pid, libc::SIGKILL);
        }
        wait_until("the next process", || {
            let now = node.pids("tutti: fleet");
            !now.is_empty() && now != before
        });
    }
}

fn more(name: &str, secret: Option<&Path>) -> Value {
    let mut more = json!({"labels": {"n": name}});
    if let Some(secret) = secret {
        more["secret_file"] = secret.display().to_string().into();
    }
    more
}

#[test]
fn a_certificate_comes_to_all_nodes_before_the_document_that_needs_it() {
    let etcd = Etcd::start(1);
    let secret = etcd.secret("secret", &[&key()]);
    let mut site = Site::start(etcd, &[Some(&secret), Some(&secret)]);
    let told = site
        .fleet
        .succeed(&["cert", "put", "site", &site.bundle("first")]);
    assert!(
        told.contains("site is stored, encrypted with the key"),
        "{told}"
    );
    for number in 0..2 {
        site.roll_out(number, &site.serving(number, "site"));
        assert_eq!(site.shown(number), "first");
    }
    // The store itself does not have the key.
    let stored = site.fleet.etcd.text("/tutti/certificates/site");
    assert!(
        stored.starts_with("tutti1:") && !stored.contains("PRIVATE"),
        "{stored}"
    );
    let list = site.fleet.succeed(&["cert", "list"]);
    assert!(
        list.contains("site  until ") && list.contains("site.example"),
        "{list}"
    );
    // A new one in its place is in force without a roll-out.
    site.fleet
        .succeed(&["cert", "put", "site", &site.bundle("second")]);
    for number in 0..2 {
        wait_until("the new certificate", || site.shown(number) == "second");
    }
    // It is there without the store, too.
    site.fleet.etcd.kill(0);
    let source = site.fleet.etcd.source("n0", &more("n0", Some(&secret)));
    site.fleet.nodes[0].start_again(&options(&source));
    assert_eq!(site.shown(0), "second");
    site.fleet.etcd.start_again(0);
    // One that is used stays, and that is reported; it goes once nothing uses it.
    site.fleet.succeed(&["cert", "delete", "site"]);
    for number in 0..2 {
        assert!(site.refusal(number, "site").contains("uses it at"));
        assert_eq!(site.shown(number), "second");
    }
    let page = site.fleet.succeed(&["status"]);
    assert!(page.contains("rejects the certificate `site`"), "{page}");
    site.roll_out(0, &document(204));
    // The process looks again when it is started, at the latest.
    site.read_files_anew(0);
    wait_until("it is deleted", || {
        let all = site.fleet.nodes[0]
            .call("GET", "/certificates", &Value::Null)
            .json();
        all["site"].is_null() && site.certificates(0)["refused"]["site"].is_null()
    });
    assert!(
        site.fleet
            .fail(&["cert", "delete", "site"])
            .contains("no certificate `site`")
    );
}

#[test]
fn a_node_with_another_key_or_none_says_so_and_keeps_what_it_has() {
    let etcd = Etcd::start(1);
    let ours = etcd.secret("secret", &[&key()]);
    let other = etcd.secret("other", &[&key()]);
    let open = etcd.write("open", &key());
    let secrets = [Some(&*ours), Some(&*other), None, Some(&*open)];
    let site = Site::start(etcd, &secrets);
    // The certificate of before stays in force.
    let before = std::fs::read(site.bundle("before")).unwrap();
    let node = &site.fleet.nodes[1];
    let reply =
        tutti_testkit::client::control(node.control(), "PUT", "/certificates/site", &before);
    assert_eq!(reply.unwrap().status, 200);
    node.put(
        "/config",
        &serde_json::from_str(&site.serving(1, "site")).unwrap(),
    );
    assert_eq!(site.shown(1), "before");
    site.fleet
        .succeed(&["cert", "put", "site", &site.bundle("first")]);
    site.wait_for_taken(0, &["site"]);
    let reason = site.refusal(1, "site");
    assert!(reason.contains("encrypted with the key `"), "{reason}");
    assert_eq!(site.shown(1), "before");
    site.fleet.nodes[1].wait_for_log("the certificate `site` of the fleet cannot be used");
    let error = |number: usize| {
        let mut error = String::new();
        wait_until("a node without a key says so", || {
            let told = site.certificates(number);
            told["error"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut error);
            !error.is_empty()
        });
        error
    };
    assert!(error(2).contains("has no key of the fleet"));
    assert!(error(3).contains("is not secret"));
    // Such a node follows the source all the same.
    assert_eq!(site.fleet.source_of(3)["connected"], true);
    let page = site.fleet.succeed(&["status"]);
    assert!(
        page.contains("node `n2` cannot apply certificates"),
        "{page}"
    );
    let page = site.fleet.nodes[1].command(&["status"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("certificate `site`"), "{page}");
    // Nor does it help to write one's own text, or another's, under a name.
    let stored = site.fleet.etcd.text("/tutti/certificates/site");
    site.fleet
        .etcd
        .ctl(&["put", "/tutti/certificates/moved", &stored]);
    site.fleet
        .etcd
        .ctl(&["put", "/tutti/certificates/plain", "plain text"]);
    assert!(
        site.refusal(0, "moved")
            .contains("not encrypted under this name")
    );
    assert!(site.refusal(0, "plain").contains("not an encrypted text"));
    let list = site.fleet.succeed(&["cert", "list"]);
    assert!(list.contains("not encrypted under this name"), "{list}");
    // A file that others can read is no secret for commands either.
    let told = site
        .fleet
        .fail(&["cert", "list", "--secret-file", &open.display().to_string()]);
    assert!(told.contains("is not secret"), "{told}");
    let told = site
        .fleet
        .fail(&["cert", "put", "acme:x", &site.bundle("x")]);
    assert!(told.contains("is not a valid name"), "{told}");
}

#[test]
fn keys_are_changed_one_after_the_other() {
    let etcd = Etcd::start(1);
    let (old, new) = (key(), key());
    let secret = etcd.secret("secret", &[&old]);
    let site = Site::start(etcd, &[Some(&secret)]);
    site.fleet
        .succeed(&["cert", "put", "site", &site.bundle("first")]);
    site.roll_out(0, &site.serving(0, "site"));
    let before = site.certificates(0)["key"].clone();
    // The new one first: it seals, both open.
    site.fleet.etcd.secret("secret", &[&new, &old]);
    site.read_files_anew(0);
    wait_until("the new key", || {
        let key = site.certificates(0)["key"].clone();
        key.is_string() && key != before
    });
    let told = site.fleet.succeed(&["cert", "rekey"]);
    assert!(told.contains("1 encrypted again"), "{told}");
    let told = site.fleet.succeed(&["cert", "rekey"]);
    assert!(told.contains("0 encrypted again"), "{told}");
    // The old one is not needed any more.
    site.fleet.etcd.secret("secret", &[&new]);
    site.read_files_anew(0);
    site.fleet
        .succeed(&["cert", "put", "other", &site.bundle("second")]);
    site.wait_for_taken(0, &["other", "site"]);
    assert_eq!(site.certificates(0)["refused"], json!({}));
    assert_eq!(site.shown(0), "first");
    let list = site.fleet.succeed(&["cert", "list"]);
    assert!(!list.contains("sealed"), "{list}");
}

#[test]
fn a_certificate_that_was_changed_on_a_node_by_hand_comes_back_with_the_next_document() {
    let etcd = Etcd::start(1);
    let secret = etcd.secret("secret", &[&key()]);
    let site = Site::start(etcd, &[Some(&secret)]);
    site.fleet
        .succeed(&["cert", "put", "site", &site.bundle("first")]);
    site.wait_for_taken(0, &["site"]);
    let node = &site.fleet.nodes[0];
    let gone = node.call("DELETE", "/certificates/site", &Value::Null);
    assert_eq!(gone.status, 200);
    site.roll_out(0, &site.serving(0, "site"));
    assert_eq!(site.shown(0), "first");
    let own = std::fs::read(site.bundle("own")).unwrap();
    let put = tutti_testkit::client::control(node.control(), "PUT", "/certificates/site", &own);
    assert_eq!(put.unwrap().status, 200);
    assert_eq!(site.shown(0), "own");
    site.roll_out(0, &site.serving(0, "site").replace("204", "205"));
    assert_eq!(site.shown(0), "first");
}
