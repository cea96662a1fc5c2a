//! Configurations of Caddy and uWSGI, in memory, and their translations.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_import::{ForeignServer, Importance, Sources, import};

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

fn imported(kind: ForeignServer, text: &str) -> (Value, Vec<String>) {
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
    let (whole, lost) = imported(ForeignServer::Caddy, &text);
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
        let (whole, lost) = imported(ForeignServer::Caddy, closed);
        assert_eq!(lost.len(), 1, "{closed}: {lost:?}");
        let text = whole.to_string();
        assert!(text.contains("403") && !text.contains("/srv"), "{text}");
    }
}

#[test]
fn caddy_asks_another_server() {
    let text = ":80 {\n forward_auth 127.0.0.1:9091 {\n uri /verify\n copy_headers Remote-User Remote-Groups\n }\n reverse_proxy 127.0.0.1:1\n}\n";
    let (whole, lost) = imported(ForeignServer::Caddy, text);
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
    let (whole, lost) = imported(ForeignServer::Caddy, text);
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
    let (whole, lost) = imported(
        ForeignServer::Caddy,
        "shop.com {\n tls internal\n respond 204\n}\n",
    );
    assert_eq!(lost, ["shop.com", "tls"]);
    assert!(whole["settings"]["acme"].is_null());
    assert!(whole["listeners"].is_null(), "{whole}");
}

#[test]
fn uwsgis_work_without_a_request() {
    let text = "[uwsgi]\nhttp = :8080\nmodule = site\ncron = -5 -1 -1 -1 -1 /srv/clean --all\nunique-cron = 30 3 -1 -1 1 report\nattach-daemon = redis-server --port 1\nspooler = /tmp/s\nmule\n";
    let (whole, lost) = imported(ForeignServer::Uwsgi, text);
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

/// A site on port 80 whose last directive answers from a server.
fn closed(text: &str) -> (String, Vec<String>) {
    let text = format!(":80 {{\n{text}\n reverse_proxy 127.0.0.1:1\n}}\n");
    let (whole, lost) = imported(ForeignServer::Caddy, &text);
    (whole["routes"]["site"].to_string(), lost)
}

#[test]
fn what_caddy_refuses_is_refused() {
    for text in [
        " authorize with staff",
        " rate_limit {\n }",
        " abort",
        " @bad expression `{http.request.uri.query.a} == 'b'`\n redir @bad /login",
        " @bad client_ip 10.0.0.0/8\n handle @bad {\n respond 204\n }",
        " redir {http.auth.user.id}",
        " rewrite * {http.auth.user.id}",
        " uri replace /a /b",
        " templates",
        " invoke named",
        " basic_auth {\n anna {env.HASH}\n }",
    ] {
        let (steps, _) = closed(text);
        assert_eq!(steps, r#"[{"action":{"return":403}}]"#, "{text}");
    }
    let (steps, lost) = closed(" @bad path /x\n error @bad \"no\" 404\n abort /y");
    assert!(lost.is_empty(), "{lost:?}");
    assert!(
        steps.contains(r#""return":404"#) && steps.contains(r#""return":403"#),
        "{steps}"
    );
    // Two conditions about one thing, of which one is negative.
    let (steps, lost) = closed(
        " @bad {\n path /1*\n not path /12*\n header A b\n header C d\n }\n respond @bad 403",
    );
    assert!(lost.is_empty(), "{lost:?}");
    assert!(steps.contains(r#""uri":["/1*","!/12*"]"#), "{steps}");
    assert!(steps.contains(r#""headers":{"A":"b","C":"d"}"#), "{steps}");
    let text = ":80 {\n import no-such-snippet\n}\n".to_owned();
    let sources = Memory(&[], text);
    assert!(
        import(
            ForeignServer::Caddy,
            &[PathBuf::from("/srv/config.ini")],
            &sources
        )
        .is_err()
    );
}

#[test]
fn caddys_directives_act_in_the_order_that_the_source_gives() {
    let guard = format!("basic_auth /admin/* {{\n anna {HASH}\n }}");
    let inside = |order: &str, kind: &str| {
        let text = format!(
            "{order}:80 {{\n {kind} {{\n {guard}\n rewrite * /index.php\n reverse_proxy 127.0.0.1:1\n }}\n}}\n"
        );
        let (whole, lost) = imported(ForeignServer::Caddy, &text);
        assert_eq!(lost, [""; 0], "{text}");
        let pass = whole["routes"]["site"][0]["action"]["pass"]
            .as_str()
            .unwrap();
        let name = pass.strip_prefix("routes/").unwrap();
        assert!(whole["routes"][name].is_array(), "{whole:#}");
        whole["routes"][name][0]["action"].to_string()
    };
    // In `route`, the path that is asked for is guarded, not the one that a later directive makes of it.
    assert!(inside("", "route").contains("authenticate"));
    assert!(!inside("", "handle").contains("authenticate"));
    let order = "{\n order basic_auth before rewrite\n}\n";
    assert!(inside(order, "handle").contains("authenticate"));
}

#[test]
fn what_caddy_encrypts_is_encrypted_or_not_there() {
    for text in [
        format!(
            "a.example {{\n tls internal\n basic_auth {{\n anna {HASH}\n }}\n respond 204\n}}\n"
        ),
        "localhost {\n respond 204\n}\n".to_owned(),
        ":443 {\n respond 204\n}\n".to_owned(),
        "https://a.example:8443 {\n respond 204\n}\n".to_owned(),
        "{\n local_certs\n}\nshop.com {\n respond 204\n}\n".to_owned(),
        ":80 {\n bind {$NOWHERE}\n respond 204\n}\n".to_owned(),
    ] {
        let (whole, lost) = imported(ForeignServer::Caddy, &text);
        assert!(whole["listeners"].is_null(), "{text}: {whole}");
        assert!(!lost.is_empty(), "{text}");
    }
    let (whole, _) = imported(
        ForeignServer::Caddy,
        "{\n default_bind 127.0.0.1\n}\n:80 {\n respond 204\n}\n",
    );
    assert!(whole["listeners"]["127.0.0.1:80"].is_object(), "{whole}");
    let behind = |transport: &str| {
        let text =
            format!(":80 {{\n reverse_proxy 10.0.0.1:1 {{\n transport {transport}\n }}\n}}\n");
        imported(ForeignServer::Caddy, &text).0
    };
    assert_eq!(
        behind("http {\n tls\n }")["upstreams"]["site-servers"]["tls"],
        true
    );
    assert_eq!(
        behind("http {\n tls_trusted_ca_certs /ca.pem\n tls_server_name a\n }")["upstreams"]["site-servers"]
            ["tls"],
        json!({"ca": "/ca.pem", "server_name": "a"})
    );
    for unknown in ["http {\n tls_client_auth a b\n }", "fastcgi"] {
        assert_eq!(
            behind(unknown)["routes"]["site"],
            json!([{"action": {"return": 503}}]),
            "{unknown}"
        );
    }
}

#[test]
fn caddys_clients_show_certificates() {
    let site = |host: &str, client: &str| {
        format!(
            "{host} {{\n tls /c.pem /k.pem {{\n client_auth {{\n {client}\n }}\n }}\n respond 204\n}}\n"
        )
    };
    let required = "mode require_and_verify\n trusted_ca_cert_file /ca.pem";
    let (whole, lost) = imported(ForeignServer::Caddy, &site("a.example", required));
    assert_eq!(lost, [""; 0]);
    let tls = &whole["listeners"]["*:443"]["tls"];
    assert_eq!(tls["client_ca"], "/ca.pem");
    assert_eq!(
        whole["routes"]["with-certificate"][0],
        json!({"match": {"if": "`${vars.tls_client_verify === 'SUCCESS' ? '' : 1}`"}, "action": {"return": 403}})
    );
    for unknown in [
        "mode request",
        "trust_pool http https://ca",
        "leaf_cert_file /leaf.pem",
    ] {
        let (whole, lost) = imported(ForeignServer::Caddy, &site("a.example", unknown));
        assert_eq!(lost, ["client_auth"], "{unknown}");
        assert_eq!(
            whole["routes"]["listen-443"][0]["action"]["pass"], "routes/refused",
            "{unknown}"
        );
    }
    let other = site("b.example", "trusted_ca_cert_file /other.pem");
    let (whole, lost) = imported(
        ForeignServer::Caddy,
        &(site("a.example", required) + &other),
    );
    assert_eq!(lost, ["client_auth"]);
    assert!(
        whole["routes"]["listen-443"]
            .to_string()
            .contains("routes/refused")
    );
}

#[test]
fn caddys_files_stay_hidden() {
    let files = |inside: &str| {
        let text = format!(":80 {{\n root * /srv\n {inside}\n}}\n");
        imported(ForeignServer::Caddy, &text).0["routes"]["site"].to_string()
    };
    let text = files("file_server {\n hide .git /srv/private\n }");
    assert!(
        text.contains(r#""deny":["*/Caddyfile","*/.git","*/.git/*","/private","/private/*"]"#),
        "{text}"
    );
    for unknown in [
        "file_server {\n hide /elsewhere/x\n }",
        "file_server {\n hide [ab]\n }",
        "file_server {\n fs s3\n }",
    ] {
        assert_eq!(
            files(unknown),
            r#"[{"action":{"return":403}}]"#,
            "{unknown}"
        );
    }
    // A folder of some requests is not that of others.
    for inside in [
        "root /x* /srv/x\n file_server",
        "root * /srv/{host}\n file_server",
    ] {
        let text = files(inside);
        assert!(!text.contains("\"share\""), "{inside}: {text}");
    }
    let (whole, lost) = imported(
        ForeignServer::Caddy,
        "http://a.example/docs* {\n respond 204\n}\n",
    );
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        whole["routes"]["a.example-path"][1],
        json!({"action": {"return": 404}}),
        "{whole:#}"
    );
    let (text, lost) = closed(" request_header X-User {http.auth.user.id}");
    assert_eq!(lost, ["request_header"]);
    assert!(text.contains(r#""X-User":null"#), "{text}");
}
