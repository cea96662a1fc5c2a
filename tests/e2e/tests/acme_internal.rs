//! Certificates from the server's own authority.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::documents;
use tutti_testkit::server::built;
use tutti_testkit::{Server, ServerOptions, wait_until};

const BUNDLE: &str = "acme:local:*.home.test+";

fn configuration(server: &Server) -> Value {
    let page = include_str!("../../../docs/http/acme.md");
    let chapter = documents::chapter(page, "Its own authority");
    let [example] = documents::examples(chapter, "json").try_into().unwrap();
    let folder = server.folder().join("www");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("index.html"), "home").unwrap();
    let text = example
        .replace("*:443", &server.address().to_string())
        .replace("/srv/www", folder.to_str().unwrap())
        .replace("192.168.1.2", "127.0.0.1");
    serde_json::from_str(&text).unwrap()
}

/// The status of the only certificate.
fn status(server: &Server) -> Value {
    let all = server.status("/certificates");
    let all = all.as_object().cloned().unwrap_or_default();
    let mut found = all.into_iter().filter(|(name, _)| name.starts_with(BUNDLE));
    found.next().map(|(_, status)| status).unwrap_or_default()
}

fn wait_for_certificate(server: &Server) {
    wait_until("a certificate", || status(server)["state"] == "valid");
}

/// The body that curl gets, if it trusts only this root; and the serial number of the certificate.
fn ask(server: &Server, root: &Path, name: &str) -> (String, String) {
    let run = Command::new("curl")
        .args(["--silent", "--max-time", "60", "--cacert"])
        .arg(root)
        .args(["--resolve", &format!("{name}:{}:127.0.0.1", server.port())])
        .args(["--write-out", "%{stderr}%{certs}"])
        .arg(format!("https://{name}:{}/", server.port()))
        .output()
        .unwrap();
    let certificates = String::from_utf8_lossy(&run.stderr).into_owned();
    let serial = certificates.lines().find(|line| line.starts_with("Serial"));
    let body = String::from_utf8_lossy(&run.stdout).into_owned();
    (body, serial.unwrap_or_default().to_owned())
}

fn tutti(server: &Server, arguments: &[&str]) -> (String, String) {
    let run = Command::new(built("tutti"))
        .args(arguments)
        .arg("--control")
        .arg(format!("unix:{}", server.control().display()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(run.status.success(), "{}", text(&run.stderr));
    (text(&run.stdout), text(&run.stderr))
}

#[test]
fn the_server_issues_certificates_that_its_root_vouches_for() {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &configuration(&server));
    wait_for_certificate(&server);
    let (pem, how) = tutti(&server, &["cert", "root"]);
    assert!(how.contains("update-ca-certificates"), "{how}");
    assert_eq!(status(&server)["authority"], pem.as_str());
    let root = server.write("root.pem", &pem);
    for name in ["nas", "music.home.test", "127.0.0.1"] {
        assert_eq!(ask(&server, &root, name).0, "home", "{name}");
    }
    for name in ["other.test", "a.b.home.test"] {
        assert_eq!(ask(&server, &root, name).0, "", "{name}");
    }
    // Only root can read the key of the authority.
    let kept = server.folder().join("state/acme");
    for entry in fs::read_dir(&kept).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
    // Another certificate by the same root, in force at once.
    let (_, serial) = ask(&server, &root, "nas");
    let all = server.status("/certificates");
    let bundle = all.as_object().unwrap().keys().next().unwrap().clone();
    tutti(&server, &["cert", "renew", &bundle]);
    let (body, renewed) = ask(&server, &root, "nas");
    assert_eq!(body, "home");
    assert_ne!(serial, renewed);
    // And by the next process for certificates.
    let killed = server.pids("tutti: acme");
    for pid in &killed {
        tutti_sys::signal::send(*pid, libc::SIGKILL).unwrap();
    }
    wait_until("another process", || {
        let now = server.pids("tutti: acme");
        !now.is_empty() && now.iter().all(|pid| !killed.contains(pid))
    });
    tutti(&server, &["cert", "renew", &bundle]);
    assert_eq!(ask(&server, &root, "nas").0, "home");
    assert_eq!(tutti(&server, &["cert", "root", &bundle]).0, pem);
}

#[test]
fn options_of_other_authorities_are_refused() {
    let server = Server::start(&ServerOptions::default());
    let mut wanted = configuration(&server);
    wanted["settings"]["acme"]["local"]["contact"] = json!("admin@example.com");
    let refused = server.call("PUT", "/config", &wanted);
    let said = "`contact` has no effect with";
    assert!(refused.text().contains(said), "{}", refused.text());
}
