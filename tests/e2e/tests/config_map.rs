//! A configuration in a folder that the kubelet writes: read again by itself, whole, and only if it can be used; and certificates in such a
//! folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::projected::Projected;
use tutti_testkit::{Load, LoadOptions, Server, ServerOptions, client, free_port, wait_until};

/// A server that watches a folder.
struct Site {
    map: Projected,
    port: u16,
    server: Server,
    // Removed last.
    _folder: tempfile::TempDir,
}

/// Two files that belong together: a listener, and the routes of this number that it needs.
fn files(port: u16, number: u16) -> BTreeMap<&'static str, String> {
    let routes = format!("numbered-{number}");
    let listener =
        json!({"listeners": {format!("127.0.0.1:{port}"): {"pass": format!("routes/{routes}")}}});
    let routes = json!({"routes": {routes: [{"action": {"return": number}}]}});
    BTreeMap::from([
        ("listener.json", listener.to_string()),
        ("routes.json", routes.to_string()),
    ])
}

impl Site {
    fn start() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let map = Projected::new(&folder.path().join("conf.d"), 0o644);
        let port = free_port();
        map.write(&files(port, 201));
        let server = Server::start(&ServerOptions {
            flags: vec![
                "--config".to_owned(),
                map.path().display().to_string(),
                "--watch".to_owned(),
            ],
            ..ServerOptions::default()
        });
        let site = Site {
            map,
            port,
            server,
            _folder: folder,
        };
        assert_eq!(site.status(), 201);
        site
    }

    fn status(&self) -> u16 {
        let address = ([127, 0, 0, 1], self.port).into();
        client::get(address, "/").map_or(0, |reply| reply.status)
    }

    fn wait_for(&self, status: u16) {
        wait_until(&format!("the answer {status}"), || self.status() == status);
    }
}

#[test]
fn a_config_map_is_in_force_when_the_kubelet_has_written_it() {
    let site = Site::start();
    site.map.write(&files(site.port, 202));
    site.wait_for(202);
    // One more file, and one that goes.
    let mut more = files(site.port, 203);
    let setting = json!({"settings": {"http": {"max_body_size": 1000}}});
    more.insert("settings.json", setting.to_string());
    site.map.write(&more);
    site.wait_for(203);
    let size = || {
        let path = "/config/settings/http/max_body_size";
        site.server.call("GET", path, &json!(null)).status
    };
    wait_until("a file that has come counts", || size() == 200);
    more.remove("settings.json");
    site.map.write(&more);
    wait_until("a file that is gone counts no more", || size() == 404);
    assert_eq!(site.status(), 203);
    let history = site.server.call("GET", "/history", &json!(null)).json();
    assert_eq!(history[0]["by"], "--watch", "{history}");
}

#[test]
fn a_broken_config_map_changes_nothing_and_is_reported() {
    let site = Site::start();
    let mut broken = files(site.port, 202);
    broken.insert("routes.json", "{\"routes\": [".to_owned());
    site.map.write(&broken);
    site.server
        .wait_for_log("the configuration files cannot be used; nothing has changed");
    site.server.wait_for_log("routes.json");
    assert_eq!(site.status(), 201);
    // A file without the other.
    broken.remove("routes.json");
    site.map.write(&broken);
    site.server.wait_for_log("numbered-202");
    assert_eq!(site.status(), 201);
    // No file at all.
    site.map.write(&BTreeMap::new());
    site.server
        .wait_for_log("has no file that ends with one of");
    assert_eq!(site.status(), 201);
    site.map.write(&files(site.port, 203));
    site.wait_for(203);
    let told = site.server.log();
    let times = told.matches("cannot be used; nothing has changed").count();
    assert_eq!(times, 3, "each is reported once: {told}");
}

#[test]
fn swaps_in_quick_succession_end_with_the_last_one() {
    let site = Site::start();
    let address = ([127, 0, 0, 1], site.port).into();
    let load = Load::start(&LoadOptions::get(address, "/", 2));
    for round in 0..3_u16 {
        for number in 0..90 {
            site.map.write(&files(site.port, 500 + number));
        }
        let last = 410 + round;
        site.map.write(&files(site.port, last));
        site.wait_for(last);
    }
    let outcome = load.stop();
    let lost = outcome.lost + outcome.closed_on_reuse + outcome.broken + outcome.hung;
    assert_eq!(lost + outcome.refused, 0, "{outcome}");
    // A listener of one moment with the routes of another would have been a fault.
    let told = site.server.log();
    assert!(!told.contains("cannot be used"), "{told}");
}

#[test]
fn a_restart_begins_with_the_folder_as_it_is() {
    let mut site = Site::start();
    let options = ServerOptions {
        flags: vec![
            "--config".to_owned(),
            site.map.path().display().to_string(),
            "--watch".to_owned(),
        ],
        ..ServerOptions::default()
    };
    site.server.stop(libc::SIGTERM);
    site.map.write(&files(site.port, 202));
    site.server.start_again(&options);
    assert_eq!(site.status(), 202);
    site.map.write(&files(site.port, 203));
    site.wait_for(203);
}

#[test]
fn changes_and_signals_just_before_or_in_an_upgrade_count_after_it() {
    let site = Site::start();
    // The watch has not seen this yet, or not twice.
    site.map.write(&files(site.port, 202));
    site.server.upgrade();
    site.wait_for(202);
    let history = || site.server.call("GET", "/history", &json!(null)).json();
    assert_eq!(history()[0]["by"], "--watch");
    // The files do not change, but the configuration in force does.
    let changed = files(site.port, 203)["routes.json"].parse::<serde_json::Value>();
    let changed = changed.unwrap()["routes"]["numbered-203"].take();
    let reply = site
        .server
        .call("PUT", "/config/routes/numbered-202", &changed);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(site.status(), 203);
    site.server.signal(libc::SIGUSR2);
    wait_until("the second upgrade", || {
        site.server.log().matches("upgrade: trying").count() == 2
    });
    site.server.signal(libc::SIGHUP);
    site.wait_for(202);
    assert_eq!(history()[0]["by"], "SIGHUP");
}

#[test]
fn certificates_in_a_projected_secret_are_renewed_together_with_their_keys() {
    let server = Server::start(&ServerOptions::default());
    let authority = Authority::new(server.folder());
    let issued = |name: &str| {
        authority.bundle(name, EC, "DNS:example.com");
        let chain = authority.read(&format!("{name}.pem")) + &authority.read("sub.pem");
        let key = authority.read(&format!("{name}.key"));
        BTreeMap::from([("tls.crt", chain), ("tls.key", key)])
    };
    let secret = Projected::new(&server.folder().join("secret"), 0o600);
    secret.write(&issued("first"));
    let path = |name: &str| -> PathBuf { secret.path().join(name) };
    server.put(
        "/config",
        &json!({
            "listeners": {server.address().to_string(): {"pass": "routes", "tls": {
                "certificate": {"file": path("tls.crt"), "key": path("tls.key")}}}},
            "routes": [{"action": {"return": 201}}]
        }),
    );
    let (status, before) = authority.shown_by(&server);
    assert_eq!(status, "201");
    secret.write(&issued("second"));
    wait_until("the new certificate is shown", || {
        let (status, serial) = authority.shown_by(&server);
        status == "201" && serial != before
    });
    assert!(
        !server.log().contains("cannot be renewed from its file"),
        "{}",
        server.log()
    );
}
