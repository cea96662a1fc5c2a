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
use tutti_import::{Finding, ForeignServer, Importance, Sources, import};

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

fn findings(kind: ForeignServer, text: &str) -> Vec<Finding> {
    let sources = Memory(&[], text.to_owned());
    let imported = import(kind, &[PathBuf::from("/srv/config.ini")], &sources).unwrap();
    imported.findings
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
}

#[test]
fn caddys_own_authority_becomes_that_of_tutti() {
    let site = format!(
        "shop.com, localhost {{\n tls internal\n basic_auth {{\n anna {HASH}\n }}\n respond \"hello\"\n}}\n"
    );
    let (whole, lost) = imported(ForeignServer::Caddy, &site);
    assert_eq!(lost, [""; 0]);
    let listener = &whole["listeners"]["*:443"];
    assert_eq!(
        listener["tls"]["certificate"],
        json!([{"acme": "internal", "names": ["shop.com"]}, {"acme": "internal", "names": ["localhost"]}])
    );
    assert_eq!(listener["http3"], true);
    assert_eq!(
        whole["settings"]["acme"],
        json!({"internal": {"directory": "internal"}})
    );
    let text = whole["routes"].to_string();
    assert!(
        text.contains("authenticate") && text.contains("hello"),
        "{text}"
    );
    // Names for which no authority vouches, and all names where the options say so.
    for site in [
        "app.localhost {\n respond 204\n}\n",
        "{\n local_certs\n}\nshop.com {\n respond 204\n}\n",
    ] {
        let (whole, lost) = imported(ForeignServer::Caddy, site);
        assert_eq!(lost, [""; 0], "{site}");
        assert_eq!(
            whole["listeners"]["*:443"]["tls"]["certificate"]["acme"], "internal",
            "{site}"
        );
    }
    // Without a name there is no certificate, and nothing is served in the open.
    let site = ":8443 {\n tls internal\n respond 204\n}\n";
    let (whole, lost) = imported(ForeignServer::Caddy, site);
    assert_eq!(lost, [":8443"]);
    assert!(whole["listeners"].is_null(), "{whole}");
    let hint = findings(ForeignServer::Caddy, site)[0].hint.clone();
    assert!(hint.contains("write the name or the address"), "{hint}");
}

#[test]
fn caddys_sites_with_addresses_have_certificates_for_them() {
    let site = "192.0.2.1, [2001:db8::1] {\n respond 204\n}\n";
    let (whole, lost) = imported(ForeignServer::Caddy, site);
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        whole["listeners"]["*:443"]["tls"]["certificate"],
        json!([{"acme": "internal", "names": ["192.0.2.1"]}, {"acme": "internal", "names": ["2001:db8::1"]}])
    );
    // Clients of port 80 are led to them, as they are to names.
    let hosts: Vec<&Value> = whole["routes"]["listen-80"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["match"]["host"])
        .collect();
    assert_eq!(hosts, ["[2001:db8::1]", "192.0.2.1"]);
}

#[test]
fn caddys_relative_paths_begin_in_the_folder_of_its_file() {
    let site = "shop.com {\n root * public\n tls certs/shop.pem ./shop.key {\n client_auth {\n trusted_ca_cert_file ca.pem\n }\n }\n file_server\n}\n";
    let (whole, lost) = imported(ForeignServer::Caddy, site);
    assert_eq!(lost, [""; 0]);
    let tls = &whole["listeners"]["*:443"]["tls"];
    assert_eq!(
        tls["certificate"],
        json!({"file": "/srv/certs/shop.pem", "key": "/srv/shop.key"})
    );
    assert_eq!(tls["client_ca"], "/srv/ca.pem");
    assert!(
        whole["routes"].to_string().contains("\"/srv/public"),
        "{whole}"
    );
    let findings = findings(ForeignServer::Caddy, site);
    let about = findings
        .iter()
        .filter(|one| one.problem.contains("where it is not found"));
    assert_eq!(about.count(), 4, "{findings:?}");
}

#[test]
fn caddys_sites_have_options_of_their_own() {
    let (whole, lost) = imported(
        ForeignServer::Caddy,
        "http://a.example {\n request_body {\n max_size 10MB\n }\n encode gzip\n log {\n output file /log/a\n }\n error /x \"no\" 404\n handle_errors 404 {\n respond \"gone\"\n }\n header /p/* X-P 1\n respond `{\"a\":1}` 201\n}\nhttp://b.example {\n reverse_proxy 10.0.0.1:1 10.0.0.2:1 {\n lb_policy cookie id\n health_uri /h\n health_interval 3s\n header_down -X-Gone\n }\n}\n",
    );
    assert_eq!(lost, [""; 0]);
    let options = &whole["routes"]["a.example-options"][0]["action"];
    assert_eq!(options["http"]["max_body_size"], 10_000_000);
    assert_eq!(options["access_log"]["path"], "/log/a");
    assert!(whole["settings"]["http"]["max_body_size"].is_null());
    let page = &whole["routes"]["a.example-error"][0]["action"];
    assert_eq!(
        (&page["return"], &page["body"]),
        (&404.into(), &"gone".into())
    );
    let steps = whole["routes"]["a.example"].to_string();
    assert!(
        steps.contains(r#""return":201"#) && steps.contains("X-P"),
        "{steps}"
    );
    let upstream = &whole["upstreams"]["b.example-servers"];
    assert_eq!(upstream["sticky"]["cookie"], "id");
    assert_eq!(
        upstream["health_check"],
        json!({"uri": "/h", "interval": 3.0})
    );
    let (_, lost) = imported(
        ForeignServer::Caddy,
        ":80 {\n reverse_proxy a:1 {\n handle_response {\n }\n }\n}\n",
    );
    assert_eq!(lost, ["handle_response"]);
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
        " redir {http.vars.other}",
        " rewrite * {http.vars.other}",
        " uri path_regexp /a /b",
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
        ":443 {\n respond 204\n}\n".to_owned(),
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

#[test]
fn fields_that_caddy_removes_come_from_no_client() {
    let of = |text: &str| {
        let (text, lost) = closed(text);
        (text, lost.len())
    };
    for (text, lost) in [
        (" request_header -X-User", 0),
        (" request_header * -X-User", 0),
        (" request_header @some -X-User", 1),
        (" request_header /x X-User anna", 1),
        (" request_header +X-User anna", 1),
        (" request_header X-User a b", 1),
    ] {
        let (routes, reported) = of(text);
        assert!(routes.contains(r#""X-User":null"#), "{text}: {routes}");
        assert_eq!(reported, lost, "{text}");
    }
    let (routes, _) = of(" request_header * X-User anna");
    assert!(routes.contains(r#""X-User":"anna""#), "{routes}");
    for text in [
        " request_header -X-Internal-*",
        " request_header * -X-Internal-*",
        " request_header -{http.vars.field}",
    ] {
        assert_eq!(
            of(text),
            (r#"[{"action":{"return":503}}]"#.to_owned(), 1),
            "{text}"
        );
    }
    let up = |line: &str| {
        let text = format!(":80 {{\n reverse_proxy 127.0.0.1:1 {{\n {line}\n }}\n}}\n");
        let (whole, lost) = imported(ForeignServer::Caddy, &text);
        (whole["routes"]["site"].to_string(), lost.len())
    };
    assert!(up("header_up -X-User").0.contains(r#""X-User":null"#));
    for line in ["header_up +X-User anna", "header_up X-User a b"] {
        let (routes, lost) = up(line);
        assert!(
            routes.contains(r#""X-User":null"#) && lost == 1,
            "{line}: {routes}"
        );
    }
    let closed = (r#"[{"action":{"return":503}}]"#.to_owned(), 1);
    assert_eq!(up("header_up -X-Internal-*"), closed);
}

/// Issue 31, section 3.
#[test]
fn http_3_of_caddy_is_carried_over() {
    let site = "shop.com {\n respond 204\n}\n";
    let listener = |text: &str| {
        let (whole, lost) = imported(ForeignServer::Caddy, text);
        assert_eq!(lost, [""; 0], "{text}");
        whole["listeners"]["*:443"]["http3"].clone()
    };
    assert_eq!(listener(site), true);
    let without = format!("{{\n servers {{\n protocols h1 h2\n }}\n}}\n{site}");
    assert_eq!(listener(&without), Value::Null);
    let (plain, _) = imported(ForeignServer::Caddy, "http://shop.com {\n respond 204\n}\n");
    assert_eq!(plain["listeners"]["*:80"]["http3"], Value::Null);
}

/// Issue 31, section 3: `Server` is the server's own field, and made the whole import fail.
#[test]
fn a_field_that_is_the_servers_own_does_not_fail_the_import() {
    for fields in [
        "header -Server",
        "header {\n -Server\n X-A b\n }",
        "header Server x",
    ] {
        let text = format!(":80 {{\n {fields}\n respond 204\n}}\n");
        let (whole, lost) = imported(ForeignServer::Caddy, &text);
        assert_eq!(lost, [""; 0], "{text}");
        let action = &whole["routes"]["site"][0]["action"];
        assert_eq!(action["response_headers_always"]["Server"], Value::Null);
        assert!(action.to_string().contains(r#""Server":null"#), "{action}");
        assert_eq!(action["return"], 204);
    }
}

/// Issue 31, section 3: both were said to have no effect.
#[test]
fn what_uwsgi_does_with_files_is_reported_as_lost() {
    let text = "[uwsgi]\nhttp = :80\nmodule = site\ntouch-reload = /srv/reload\nstatic-expires = /* 3600\nlistening = 1\nbuffer-size = 1\n";
    let (_, lost) = imported(ForeignServer::Uwsgi, text);
    assert_eq!(lost, ["touch-reload", "static-expires", "listening"]);
    let (whole, lost) = imported(
        ForeignServer::Uwsgi,
        "[uwsgi]\nhttp = :80\nmodule = site\npy-autoreload = 1\n",
    );
    assert_eq!(lost, [""; 0]);
    assert_eq!(whole["applications"]["config"]["watch"], true);
}

/// The ports of Caddy's options were taken for those of the addresses.
#[test]
fn caddys_ports_are_those_of_its_options() {
    let text = "{\n http_port 8080\n https_port 8443\n}\nhttp://a.com {\n respond 204\n}\nb.com {\n respond 204\n}\n";
    let (whole, lost) = imported(ForeignServer::Caddy, text);
    assert_eq!(lost, [""; 0]);
    let listeners: Vec<&String> = whole["listeners"].as_object().unwrap().keys().collect();
    assert_eq!(listeners, ["*:8443", "*:8080"], "{whole:#}");
    assert!(whole["listeners"]["*:8443"]["tls"].is_object());
}

/// Files in folders, and the file that is imported.
struct Folders(&'static [(&'static str, &'static [&'static str])], String);

impl Sources for Folders {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path == Path::new("/etc/it") {
            true => Ok(self.1.clone().into_bytes()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn names_in(&self, folder: &Path) -> Vec<String> {
        let found = self.0.iter().find(|(name, _)| Path::new(name) == folder);
        let names = found.map(|(_, names)| *names).unwrap_or_default();
        names.iter().map(|name| (*name).to_owned()).collect()
    }
}

/// Issue 31, section 3: a share beside an application hands out none of its sources, nor scripts that the old server ran.
#[test]
fn no_share_hands_out_scripts_of_a_language_that_was_run() {
    let folders: &[(&str, &[&str])] = &[
        ("/srv/site", &["app.py", "logo.png", "sub", "index.php"]),
        ("/srv/site/sub", &["tool.py", "a.css"]),
    ];
    for (kind, text) in [
        (
            ForeignServer::Uwsgi,
            "[uwsgi]\nhttp = :80\nmodule = app\nchdir = /srv/site\ncheck-static = /srv/site\n",
        ),
        (
            ForeignServer::Nginx,
            "server { listen 80; root /srv/site; location ^~ /sub/ { } location / { } location ~ \\.php$ { fastcgi_pass 127.0.0.1:9; } }",
        ),
    ] {
        let sources = Folders(folders, text.to_owned());
        let imported = import(kind, &[PathBuf::from("/etc/it")], &sources).unwrap();
        let text = imported.configuration.to_string();
        assert!(text.contains("deny") && text.contains(".py"), "{text}");
        let notes = imported.findings.iter();
        let told = notes
            .filter(|finding| finding.problem.contains("served the source of a script"))
            .count();
        assert!(told > 0, "{:?}", imported.findings);
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let names_in = |folder: &Path| sources.names_in(folder);
        assert!(
            tutti_config::exposed_scripts(&document, &names_in).is_empty(),
            "{text}"
        );
    }
    // A mirror of sources runs nothing: they are what it is for.
    let text = "server { listen 80; root /srv/site; }";
    let sources = Folders(folders, text.to_owned());
    let imported = import(ForeignServer::Nginx, &[PathBuf::from("/etc/it")], &sources).unwrap();
    assert!(!imported.configuration.to_string().contains("deny"));
}

/// Issue 31, section 1: each of these made the whole import fail.
#[test]
fn whatever_is_lost_the_rest_is_written() {
    for (kind, text) in [
        (
            ForeignServer::Nginx,
            "server { listen 80; location /x/ { add_header Content-Length 5; root /srv; } location /kept { return 204; } }",
        ),
        (
            ForeignServer::Nginx,
            "server { listen 80; location /x/ { fastcgi_pass $backend; } location /kept { return 204; } }",
        ),
        (
            ForeignServer::Nginx,
            "server { listen 80; location /x/ { proxy_pass http://in_another_file; } location /kept { return 204; } }",
        ),
        (
            ForeignServer::Caddy,
            ":80 {\n header Content-Length 5\n respond /kept 204\n respond 404\n}\n",
        ),
        (
            ForeignServer::Caddy,
            ":80 {\n header {\n -Server\n Transfer-Encoding x\n }\n respond /kept 204\n respond 404\n}\n",
        ),
    ] {
        let sources = Memory(&[], text.to_owned());
        let imported = import(kind, &[PathBuf::from("/srv/config.ini")], &sources).unwrap();
        let whole = imported.configuration.to_string();
        let refused = tutti_ctl::accepted(&whole).err();
        assert!(refused.is_none(), "{text}: {refused:?}");
        assert!(whole.contains("*:80"), "{text}: {whole}");
    }
}

/// Issue 31: client certificates were said not to be carried over, and gunicorn's default address was open instead.
#[test]
fn gunicorns_clients_show_certificates() {
    let text = "wsgi_app = \"a:b\"\nbind = \"0.0.0.0:8443\"\ncertfile = \"/c.pem\"\nkeyfile = \"/k.pem\"\n";
    let with = |more: &str| imported(ForeignServer::Gunicorn, &format!("{text}{more}"));
    let (whole, lost) = with("ca_certs = \"/ca.pem\"\ncert_reqs = 2\n");
    assert_eq!(lost, [""; 0]);
    let tls = &whole["listeners"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap()["tls"];
    assert_eq!(
        (&tls["client_ca"], &tls["client_verify"]),
        (&"/ca.pem".into(), &"required".into())
    );
    let (whole, _) = with("ca_certs = \"/ca.pem\"\ncert_reqs = ssl.CERT_OPTIONAL\n");
    assert!(
        whole.to_string().contains(r#""client_verify":"optional""#),
        "{whole:#}"
    );
    for unknown in [
        "cert_reqs = 2\n",
        "cert_reqs = mode()\n",
        "ca_certs = \"ca.pem\"\ncert_reqs = 1\n",
    ] {
        let (whole, lost) = with(unknown);
        assert_eq!(lost, ["cert_reqs"]);
        assert_eq!(whole["listeners"], Value::Null, "{whole:#}");
    }
}

/// Issue 31: Puma's default address was open where the one with client certificates was left out.
#[test]
fn pumas_clients_show_certificates() {
    let with = |more: &str| {
        let text = format!("ssl_bind \"0.0.0.0\", 9293, cert: \"/c.pem\", key: \"/k.pem\"{more}\n");
        imported(ForeignServer::Puma, &text)
    };
    let (whole, lost) = with(", ca: \"/ca.pem\", verify_mode: \"force_peer\"");
    assert_eq!(lost, [""; 0]);
    assert!(
        whole
            .to_string()
            .contains(r#""client_ca":"/ca.pem","client_verify":"required""#),
        "{whole:#}"
    );
    for unknown in [
        ", verify_mode: \"peer\"",
        ", ca: \"/ca.pem\", verify_mode: \"other\"",
    ] {
        let (whole, lost) = with(unknown);
        assert_eq!(lost, ["ssl_bind"]);
        assert_eq!(whole["listeners"], Value::Null, "{whole:#}");
    }
    let bound = "bind \"ssl://0.0.0.0:9292?cert=/c.pem&key=/k.pem&verify_mode=peer\"\n";
    let (whole, lost) = imported(ForeignServer::Puma, bound);
    assert_eq!(lost, ["bind"]);
    assert_eq!(whole["listeners"], Value::Null, "{whole:#}");
}
