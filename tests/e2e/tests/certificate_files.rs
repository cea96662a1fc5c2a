//! Certificates that are named by their files: served, renewed without a word, kept when the files go, refused where they are wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_testkit::{Server, ServerOptions, wait_until};

/// A certificate for `example.com` in `fullchain.pem` and `privkey.pem`, in the place of the one before, as certbot does it.
fn issue(authority: &Authority) {
    authority.bundle("site", EC, "DNS:example.com");
    let chain = authority.read("site.pem") + &authority.read("sub.pem");
    install(&authority.path("fullchain.pem"), &chain);
    install(&authority.path("privkey.pem"), &authority.read("site.key"));
}

/// For its owner only.
fn install(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

fn configuration(server: &Server, certificate: &Value) -> Value {
    json!({
        "listeners": {server.address().to_string(): {"pass": "routes", "tls": {"certificate": certificate}}},
        "routes": [{"action": {"return": 201}}]
    })
}

fn files(authority: &Authority) -> Value {
    json!({"file": authority.path("fullchain.pem"), "key": authority.path("privkey.pem")})
}

#[test]
fn files_are_served_renewed_and_kept() {
    let mut server = Server::start(&ServerOptions::default());
    let authority = Authority::new(server.folder());
    issue(&authority);
    server.put("/config", &configuration(&server, &files(&authority)));
    let (status, first) = authority.shown_by(&server);
    assert_eq!(status, "201");
    assert!(!first.is_empty());
    let name = authority.path("fullchain.pem").display().to_string();
    let shown = server.call("GET", "/certificates", &Value::Null);
    assert!(shown.json().get(&name).is_some(), "{}", shown.text());
    assert!(!shown.text().contains("PRIVATE"), "{}", shown.text());

    // Issue 28, 5.5: only a key that every user can read is logged.
    let warning = format!("chmod o= {}", authority.path("privkey.pem").display());
    assert!(!server.log().contains("chmod"), "{}", server.log());
    let mode = fs::Permissions::from_mode(0o644);
    fs::set_permissions(authority.path("privkey.pem"), mode).unwrap();
    let reply = server.call("POST", "/control/reload", &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text());
    server.wait_for_log(&warning);

    // The one who renews them tells nobody.
    issue(&authority);
    wait_until("the new one is shown", || {
        let (status, serial) = authority.shown_by(&server);
        assert_eq!(status, "201");
        serial != first
    });
    server.wait_for_log("was renewed from its file");
    let (_, second) = authority.shown_by(&server);
    // Issue 28, 5.6: one that a person asks for is read at once.
    issue(&authority);
    let encoded = name.replace('/', "%2F");
    let path = format!("/control/certificates/{encoded}/renew");
    let reply = server.call("POST", &path, &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let (_, third) = authority.shown_by(&server);
    assert_ne!(second, third);
    let second = third;
    // Issue 28, 5.2: a server without `--config` reads them again when it is told to reload.
    let reply = server.call("POST", "/control/reload", &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(
        reply.text().contains("no configuration files"),
        "{}",
        reply.text()
    );

    // The key of another certificate.
    authority.bundle("other", EC, "DNS:example.com");
    install(&authority.path("privkey.pem"), &authority.read("other.key"));
    server.wait_for_log(
        "a certificate cannot be renewed from its file, and the former one stays in use",
    );
    assert_eq!(
        authority.shown_by(&server),
        ("201".to_owned(), second.clone())
    );

    // They are gone, and the server starts again.
    fs::remove_file(authority.path("privkey.pem")).unwrap();
    server.start_again(&ServerOptions::default());
    wait_until("it serves what it has read last", || {
        authority.shown_by(&server) == ("201".to_owned(), second.clone())
    });
    server.wait_for_log("privkey.pem");

    // Nothing names it any more: it is not kept.
    server.put("/config", &json!({}));
    let shown = server.call("GET", "/certificates", &Value::Null);
    assert_eq!(shown.json(), json!({}));
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_its_place() {
    let server = Server::start(&ServerOptions::default());
    let authority = Authority::new(server.folder());
    issue(&authority);
    let good = configuration(&server, &files(&authority));
    server.put("/config", &good);
    authority.bundle("other", EC, "DNS:example.com");
    let path = |name: &str| authority.path(name).display().to_string();
    let (file, key) = (path("fullchain.pem"), path("privkey.pem"));
    let secret = server.write("secret.txt", "root:secret");
    for (certificate, told) in [
        (json!(file), "has no private key"),
        (json!("/nowhere/site.pem"), "/nowhere/site.pem"),
        (json!(secret), "has no certificate or key in PEM"),
        (
            json!({"file": file, "key": "/nowhere/key.pem"}),
            "/nowhere/key.pem",
        ),
        (json!({"file": file, "key": path("other.key")}), "key"),
        (json!({"file": "site.pem"}), "does not begin with `/`"),
        (json!("./site.pem"), "started without"),
        (json!({"key": key}), "file"),
        (
            json!([{"file": file, "key": key}, {"file": file}]),
            "another key",
        ),
        (
            json!(["site", {"file": file, "key": key}]),
            "`site` does not exist",
        ),
        (json!({}), "certificate"),
    ] {
        let reply = server.call("PUT", "/config", &configuration(&server, &certificate));
        let text = reply.text();
        assert!((400..=500).contains(&reply.status), "{certificate}: {text}");
        assert!(text.contains(told), "{certificate}: {told} in {text}");
        assert!(text.contains("/tls/certificate"), "{certificate}: {text}");
        assert!(
            !text.contains("secret") || text.contains("secret.txt"),
            "{text}"
        );
        assert!(!text.contains("root:"), "{text}");
    }
    let config = server.call("GET", "/config", &Value::Null);
    assert_eq!(config.json(), good);
    assert_eq!(authority.shown_by(&server).0, "201");
}

#[test]
fn files_beside_those_of_the_configuration() {
    let other = Server::start(&ServerOptions::default());
    let authority = Authority::new(other.folder());
    let folder = tutti_testkit::files::public_folder();
    let bundle = || {
        install(
            &folder.path().join("site.pem"),
            &authority.bundle("site", EC, "DNS:example.com"),
        )
    };
    bundle();
    let options = ServerOptions {
        flags: vec!["--config".to_owned(), folder.path().display().to_string()],
        ..ServerOptions::default()
    };
    fs::write(folder.path().join("site.yaml"), "{}").unwrap();
    let mut server = Server::start(&options);
    let config = configuration(&server, &json!("./site.pem"));
    fs::write(folder.path().join("site.yaml"), config.to_string()).unwrap();
    let reload = || {
        let reply = server.call("POST", "/control/reload", &Value::Null);
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    reload();
    let (status, first) = authority.shown_by(&server);
    assert_eq!(status, "201");
    // A reload looks at once, also where nothing else has changed.
    bundle();
    reload();
    let (status, second) = authority.shown_by(&server);
    assert_eq!(status, "201");
    assert_ne!(first, second);
    // So does a start, before it serves.
    bundle();
    server.start_again(&options);
    wait_until("the third one is shown", || {
        let (status, serial) = authority.shown_by(&server);
        status == "201" && serial != second && serial != first
    });
}
