//! Configurations of Caddy and uWSGI, in memory, and what comes of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_import::{Importance, Kind, Sources, import};

struct Memory(&'static [(&'static str, String)], String);

impl Sources for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        if path == Path::new("/srv/config.ini") {
            return Ok(self.1.clone().into_bytes());
        }
        let mut files = self.0.iter();
        let file = files.find(|(name, _)| Path::new(name) == path);
        file.map(|(_, text)| text.clone().into_bytes())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn names_in(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}

fn imported(kind: Kind, text: &str) -> (Value, Vec<String>) {
    let sources = Memory(&[], text.to_owned());
    let imported = import(kind, &[PathBuf::from("/srv/config.ini")], &sources).unwrap();
    let lost = imported.findings.iter();
    let lost = lost.filter(|finding| finding.importance == Importance::Lost);
    let names = lost.map(|finding| finding.directive.clone()).collect();
    (imported.configuration, names)
}

const HASH: &str = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";

#[test]
fn caddys_passwords_are_asked_for() {
    let text = format!(
        ":8080 {{\n root * /srv\n basic_auth /staff/* {{\n anna {HASH}\n }}\n file_server\n}}\n"
    );
    let (whole, lost) = imported(Kind::Caddy, &text);
    assert_eq!(lost, [""; 0]);
    let text = whole.to_string();
    assert!(
        text.contains("authenticate") && text.contains(HASH),
        "{text}"
    );
    for closed in [
        ":80 {\n basic_auth scrypt {\n a b\n }\n root * /srv\n file_server\n}\n",
        ":80 {\n basic_auth {\n a plain\n }\n root * /srv\n file_server\n}\n",
        ":80 {\n forward_auth a:1 {\n uri /x\n copy_headers A>B\n }\n root * /srv\n file_server\n}\n",
    ] {
        let (whole, lost) = imported(Kind::Caddy, closed);
        assert_eq!(lost.len(), 1, "{closed}: {lost:?}");
        let text = whole.to_string();
        assert!(text.contains("403") && !text.contains("/srv"), "{text}");
    }
}

#[test]
fn caddy_asks_another_server() {
    let text = ":80 {\n forward_auth 127.0.0.1:9091 {\n uri /verify\n copy_headers Remote-User Remote-Groups\n }\n reverse_proxy 127.0.0.1:1\n}\n";
    let (whole, lost) = imported(Kind::Caddy, text);
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        whole["routes"]["site"][0]["action"]["authenticate"],
        json!({"forward": {"uri": "/verify", "pass": "upstreams/site-servers", "copy": ["Remote-User", "Remote-Groups"]}}),
        "{whole:#}"
    );
}

#[test]
fn caddys_certificates_come_by_themselves() {
    let text = "{\n email admin@shop.com\n}\nshop.com, www.shop.com {\n root * /srv\n file_server browse\n handle_errors {\n rewrite * /{err.status_code}.html\n file_server\n }\n}\n";
    let (whole, lost) = imported(Kind::Caddy, text);
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        whole["listeners"]["*:443"]["tls"]["certificate"],
        json!([{"acme": "automatic", "names": ["shop.com"]}, {"acme": "automatic", "names": ["www.shop.com"]}])
    );
    assert_eq!(
        whole["settings"]["acme"],
        json!({"automatic": {"contact": "admin@shop.com"}})
    );
    assert_eq!(whole["routes"]["to-https"][0]["action"]["return"], 308);
    assert!(whole["listeners"]["*:80"].is_object(), "{whole:#}");
    let text = whole.to_string();
    assert!(
        text.contains(r#""listing":"auto""#) && text.contains("error_status"),
        "{text}"
    );
    let (whole, lost) = imported(Kind::Caddy, "shop.com {\n tls internal\n respond 204\n}\n");
    assert_eq!(lost, ["shop.com", "tls"]);
    assert!(whole["settings"]["acme"].is_null());
}

#[test]
fn uwsgis_work_without_a_request() {
    let text = "[uwsgi]\nhttp = :8080\nmodule = site\ncron = -5 -1 -1 -1 -1 /srv/clean --all\nunique-cron = 30 3 -1 -1 1 report\nattach-daemon = redis-server --port 1\nspooler = /tmp/s\nmule\n";
    let (whole, lost) = imported(Kind::Uwsgi, text);
    assert_eq!(lost, ["spooler", "mule"]);
    assert_eq!(
        whole["schedules"]["srv-clean-all"],
        json!({"cron": "*/5 * * * *", "command": ["sh", "-c", "/srv/clean --all"], "timeout": 86400, "application": "config"})
    );
    assert_eq!(whole["schedules"]["report"]["cron"], "30 3 * * 1");
    assert_eq!(
        whole["applications"]["config"]["mules"]["redis-server-port-1"]["command"],
        json!(["sh", "-c", "exec redis-server --port 1"])
    );
}
