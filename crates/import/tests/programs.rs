//! Configurations of uWSGI, gunicorn and Puma, in memory, and their translations: none lets clients in that the source refuses.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod memory;

use std::path::PathBuf;

use memory::{Memory, lost};
use serde_json::{Value, json};
use tutti_import::{ForeignServer, Importance, import};

fn with_files(kind: ForeignServer, files: &[(&str, &str)]) -> (Value, Vec<String>, Vec<String>) {
    let paths = [PathBuf::from(files[0].0)];
    let imported = import(kind, &paths, &Memory::of(files)).unwrap();
    let lost = lost(&imported).into_iter();
    let lost = lost.map(|(_, name)| name.to_owned()).collect();
    let findings = imported.findings.iter();
    let notes = findings.filter(|finding| finding.importance == Importance::Note);
    let notes = notes.map(|finding| finding.directive.clone()).collect();
    (imported.configuration, lost, notes)
}

fn imported(kind: ForeignServer, text: &str) -> (Value, Vec<String>) {
    let (whole, lost, _) = with_files(kind, &[("/srv/config.ini", text)]);
    (whole, lost)
}

fn puma(text: &str) -> (Value, Vec<String>) {
    imported(ForeignServer::Puma, text)
}

fn gunicorn(text: &str) -> (Value, Vec<String>) {
    imported(
        ForeignServer::Gunicorn,
        &format!("wsgi_app = \"a:b\"\n{text}"),
    )
}

fn uwsgi(text: &str) -> (Value, Vec<String>) {
    let text = format!("[uwsgi]\nhttp = :80\nmodule = site\n{text}");
    imported(ForeignServer::Uwsgi, &text)
}

/// The addresses of the listeners.
fn addresses(whole: &Value) -> Vec<&str> {
    let listeners = whole["listeners"].as_object();
    let names = listeners.into_iter().flat_map(|listeners| listeners.keys());
    names.map(String::as_str).collect()
}

const CHECKED: &str = "ssl_bind \"0.0.0.0\", 9293, cert: \"/c.pem\", key: \"/k.pem\", ca: \"/ca.pem\", verify_mode: \"force_peer\"\n";

#[test]
fn each_address_of_puma_has_its_own_tls() {
    let second = "ssl_bind \"0.0.0.0\", 9294, cert: \"/d.pem\", key: \"/l.pem\"\n";
    let plain = "bind \"tcp://127.0.0.1:9292\"\n";
    for text in [
        format!("{CHECKED}{second}{plain}"),
        format!("{plain}{second}{CHECKED}"),
    ] {
        let (whole, lost) = puma(&text);
        assert_eq!(lost, [""; 0]);
        let listeners = &whole["listeners"];
        assert_eq!(
            listeners["*:9293"]["tls"],
            json!({"certificate": {"file": "/c.pem", "key": "/k.pem"}, "client_ca": "/ca.pem", "client_verify": "required"})
        );
        assert_eq!(
            listeners["*:9294"]["tls"],
            json!({"certificate": {"file": "/d.pem", "key": "/l.pem"}})
        );
        assert_eq!(listeners["127.0.0.1:9292"]["tls"], Value::Null);
    }
}

#[test]
fn an_address_of_puma_whose_check_is_lost_is_the_only_one_closed() {
    let text = "ssl_bind \"0.0.0.0\", 9293, cert: \"/c.pem\", key: \"/k.pem\", verify_mode: \"peer\"\nbind \"tcp://127.0.0.1:9292\"\nport 9293\n";
    let (whole, lost) = puma(text);
    assert_eq!(lost, ["ssl_bind", "port"]);
    assert_eq!(addresses(&whole), ["127.0.0.1:9292"]);
}

#[test]
fn an_address_of_puma_that_cannot_be_read_opens_no_other() {
    for text in [
        "bind \"unix://#{shared_dir}/puma.sock\"\n",
        "ssl_bind '0.0.0.0', '9292', {\n  cert: path_to_cert, # a file\n  key: path_to_key,\n}\n",
        "if ENV[\"X\"]\n  bind \"tcp://127.0.0.1:80\"\nend\n",
        "port ENV[\"PORT\"] || 3000\n",
        "bind(\"tcp://0.0.0.0:80\") if ENV[\"X\"]\n",
        "load \"config/other.rb\"\n",
        "clear_binds!\n",
        "set_default_host ENV[\"HOST\"]\nport 3000\n",
        "host = \"0.0.0.0\"\nhost = ENV[\"HOST\"]\nport 3000, host\n",
        "host = \"0.0.0.0\"\nif true\n  host = \"127.0.0.1\"\nend\nport 3000, host\n",
        "bind \"tcp://0.0.0.0:80\"\nclear_binds!\n",
    ] {
        let (whole, lost) = puma(text);
        assert!(!lost.is_empty(), "{text}");
        assert_eq!(addresses(&whole), [""; 0], "{text}");
    }
    for text in ["", "threads 1, 2\n", "=begin\nport 80\n=end\n# bind x\n"] {
        assert_eq!(addresses(&puma(text).0), ["*:9292"], "{text}");
    }
}

#[test]
fn a_variable_of_puma_keeps_its_value_after_a_condition() {
    let text = "name = ENV.fetch(\"RAILS_ENV\") { \"development\" }\nif name == \"production\"\n  count = 2\nend\nenvironment name\n";
    let (whole, lost) = puma(text);
    assert_eq!(lost, ["if name == \"production\""]);
    assert_eq!(
        whole["applications"]["app"]["environment"]["RAILS_ENV"],
        "development"
    );
}

#[test]
fn calls_of_puma_over_several_lines_are_read() {
    let text = "ssl_bind '0.0.0.0', '9292', {\n  cert: '/c.pem', # a file\n  key: '/k.pem',\n  ca: '/ca.pem',\n  verify_mode: 'force_peer',\n}\n";
    let (whole, lost) = puma(text);
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        whole["listeners"]["*:9292"]["tls"]["client_verify"],
        "required"
    );
}

#[test]
fn a_port_of_puma_is_bound_where_it_is_called() {
    let text = "port 3000, \"127.0.0.1\"\nset_default_host \"192.0.2.1\"\nport 3001\nport 3002, \"127.0.0.1\"\n";
    let (whole, lost) = puma(text);
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        addresses(&whole),
        ["127.0.0.1:3000", "192.0.2.1:3001", "127.0.0.1:3002"]
    );
}

#[test]
fn methods_that_puma_does_not_serve_are_refused() {
    let (whole, lost) = puma("supported_http_methods ['GET', 'HEAD']\n");
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        whole["routes"]["main"][0],
        json!({"match": {"method": ["!GET", "!HEAD"]}, "action": {"return": 501}})
    );
    let (whole, lost) = puma("supported_http_methods :any\n");
    assert_eq!((addresses(&whole), lost), (vec!["*:9292"], vec![]));
    let (whole, lost) = puma("supported_http_methods (METHODS - ['TRACE'])\n");
    assert!(lost.contains(&"supported_http_methods".to_owned()));
    assert_eq!(addresses(&whole), [""; 0]);
}

#[test]
fn users_of_the_machine_who_could_not_connect_are_reported() {
    let http = "http-socket = /run/s.sock\n";
    for (kind, text, expected) in [
        (
            ForeignServer::Puma,
            "bind \"unix:///s?umask=0117\"\n".to_owned(),
            Some("bind"),
        ),
        (
            ForeignServer::Puma,
            "bind \"unix:///s\"\n".to_owned(),
            Some("bind"),
        ),
        (
            ForeignServer::Puma,
            "bind \"unix:///s?umask=0\"\n".to_owned(),
            None,
        ),
        (
            ForeignServer::Uwsgi,
            format!("[uwsgi]\nmodule = a\n{http}chmod-socket = 660\n"),
            Some("chmod-socket"),
        ),
        (
            ForeignServer::Uwsgi,
            format!("[uwsgi]\nmodule = a\n{http}chown-socket = a:b\n"),
            Some("http-socket"),
        ),
        (
            ForeignServer::Uwsgi,
            format!("[uwsgi]\nmodule = a\n{http}chmod-socket = 666\n"),
            None,
        ),
        (
            ForeignServer::Uwsgi,
            "[uwsgi]\nmodule = a\nhttp = :80\nchmod-socket = 660\n".to_owned(),
            None,
        ),
        (
            ForeignServer::Gunicorn,
            "wsgi_app = \"a:b\"\nbind = \"unix:/s\"\numask = 0o117\n".to_owned(),
            Some("umask"),
        ),
    ] {
        let (_, lost) = imported(kind, &text);
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(lost, expected, "{text}");
    }
}

#[test]
fn a_body_is_as_large_as_it_may_be_in_the_source() {
    let size = |whole: &Value| whole["settings"]["http"]["max_body_size"].clone();
    for whole in [uwsgi("").0, gunicorn("").0, puma("").0] {
        assert_eq!(size(&whole), 1 << 30);
    }
    assert_eq!(size(&uwsgi("limit-post = 0\n").0), 1_u64 << 50);
    assert_eq!(size(&uwsgi("limit-post = 1000\n").0), 1000);
    assert_eq!(size(&puma("http_content_length_limit 1000\n").0), 1000);
    let (whole, lost) = uwsgi("limit-post = 10M\n");
    assert_eq!(
        (size(&whole), lost),
        ((1 << 30).into(), vec!["limit-post".to_owned()])
    );
}

#[test]
fn uwsgi_ends_a_large_process_after_its_request_unless_told_otherwise() {
    let limits = |text: &str| uwsgi(text).0["applications"]["config"]["limits"].clone();
    let mebibytes = |number: u64| number << 20;
    assert_eq!(
        limits("reload-on-rss = 256\n"),
        json!({"memory": mebibytes(256), "memory_max": 0})
    );
    assert_eq!(
        limits("evil-reload-on-rss = 512\n"),
        json!({"memory_max": mebibytes(512)})
    );
    for text in [
        "evil-reload-on-rss = 512\nreload-on-rss = 256\n",
        "reload-on-rss = 256\nevil-reload-on-rss = 512\n",
    ] {
        let both = json!({"memory": mebibytes(256), "memory_max": mebibytes(512)});
        assert_eq!(limits(text), both);
    }
    // A process is never replaced after it has been killed.
    let killed = json!({"memory": mebibytes(2), "memory_max": mebibytes(2)});
    assert_eq!(
        limits("evil-reload-on-rss = 2\nreload-on-rss = 3\n"),
        killed
    );
}

#[test]
fn no_link_leads_out_of_a_folder_that_uwsgi_serves() {
    let (whole, lost) = uwsgi("static-map = /static=/srv/static\nstatic-safe = /srv/shared\n");
    assert_eq!(lost, ["static-safe"]);
    let share = &whole["routes"]["main"][0]["action"];
    for share in [share, &share["found"]] {
        assert_eq!(share["chroot"], "/srv/static/");
    }
    assert_eq!(addresses(&whole), ["*:80"]);
}

#[test]
fn an_option_of_uwsgi_is_one_where_its_value_is_mentioned_too() {
    let (whole, lost) =
        uwsgi("limit-post = 1000\nroute = %(limit-post) deny\nbase = /srv\nenv = A=%(base)\n");
    assert_eq!(lost, ["route"]);
    assert_eq!(whole["settings"]["http"]["max_body_size"], 1000);
    assert_eq!(addresses(&whole), [""; 0]);
    // A rule whose value is mentioned is one.
    let (whole, lost) = uwsgi("route-uri = ^/x deny\nenv = A=%(route-uri)\n");
    assert_eq!(lost, ["route-uri"]);
    assert_eq!(addresses(&whole), [""; 0]);
}

#[test]
fn files_that_uwsgi_reads_are_read_or_close() {
    let text = "[uwsgi]\nhttp = :80\nmodule = site\nini = common.ini\n";
    let with = |more: &[(&str, &str)]| {
        let mut files = vec![("/srv/config.ini", text)];
        files.extend(more);
        with_files(ForeignServer::Uwsgi, &files)
    };
    let (whole, lost, notes) = with(&[("/srv/common.ini", "[uwsgi]\nprocesses = 3\nenv = A=%d\n")]);
    assert_eq!((lost, notes), (vec![], vec!["ini".to_owned()]));
    assert_eq!(whole["applications"]["config"]["processes"], 3);
    assert_eq!(whole["applications"]["config"]["environment"]["A"], "/srv/");
    let (whole, lost, _) = with(&[("/srv/common.ini", "[uwsgi]\nroute = ^/x deny\n")]);
    assert_eq!(
        (addresses(&whole), lost),
        (vec![], vec!["route".to_owned()])
    );
    // Without the file, or without an end.
    for more in [
        vec![],
        vec![("/srv/common.ini", "[uwsgi]\ninclude = config.ini\n")],
    ] {
        let (whole, lost, _) = with(&more);
        assert!(!lost.is_empty(), "{more:?}");
        assert_eq!(addresses(&whole), [""; 0], "{more:?}");
    }
    // A section of the same file.
    let sections = "[uwsgi]\nini = :base\nmodule = site\n[base]\nhttp = :81\n";
    let (whole, lost) = imported(ForeignServer::Uwsgi, sections);
    assert_eq!((addresses(&whole), lost), (vec!["*:81"], vec![]));
}

#[test]
fn a_time_of_gunicorn_is_a_limit_where_it_is_one_of_requests() {
    let with = |text: &str| {
        let text = format!("wsgi_app = \"a:b\"\ntimeout = 30\n{text}");
        let (whole, lost, notes) =
            with_files(ForeignServer::Gunicorn, &[("/srv/config.ini", &text)]);
        assert_eq!(lost, [""; 0], "{text}");
        (
            whole["applications"]["a"]["limits"]["timeout"].clone(),
            notes,
        )
    };
    assert_eq!(with("threads = 1\n"), (30.into(), vec![]));
    for text in [
        "threads = 2\n",
        "worker_class = \"gthread\"\n",
        "worker_class = \"uvicorn.workers.UvicornWorker\"\n",
    ] {
        assert_eq!(
            with(text),
            (Value::Null, vec!["timeout".to_owned()]),
            "{text}"
        );
    }
}

#[test]
fn the_proxies_that_gunicorn_believes_are_those_of_its_default() {
    let source = |text: &str| {
        let (whole, lost) = gunicorn(text);
        assert_eq!(lost, [""; 0], "{text}");
        let listeners = whole["listeners"].as_object().unwrap().values();
        let forwarded = listeners
            .map(|listener| listener["forwarded"].clone())
            .next()
            .unwrap();
        (forwarded["source"].clone(), forwarded["client_ip"].clone())
    };
    let none = Value::Null;
    for (text, expected) in [
        ("", json!(["127.0.0.1", "::1"])),
        ("bind = \"unix:/s\"\n", json!(["127.0.0.1", "::1", "unix"])),
        ("forwarded_allow_ips = \"\"\n", none.clone()),
        (
            "forwarded_allow_ips = [\"192.0.2.1\"]\n",
            json!(["192.0.2.1"]),
        ),
        (
            "forwarded_allow_ips = \"192.0.2.1, 192.0.2.2\"\n",
            json!(["192.0.2.1", "192.0.2.2"]),
        ),
        (
            "bind = \"unix:/s\"\nforwarded_allow_ips = \"\"\n",
            json!(["unix"]),
        ),
    ] {
        assert_eq!(source(text), (expected, none.clone()), "{text}");
    }
    // uvicorn takes the client's address, too, and believes no Unix socket by itself.
    let uvicorn = "worker_class = \"uvicorn.workers.UvicornWorker\"\nbind = \"unix:/s\"\n";
    assert_eq!(
        source(uvicorn),
        (json!(["127.0.0.1", "::1"]), "X-Forwarded-For".into())
    );
}

#[test]
fn an_address_of_gunicorn_that_cannot_be_read_opens_no_other() {
    for text in [
        "bind = \"0.0.0.0:\" + port\n",
        "bind: str = address()\n",
        "if True:\n    bind = \"192.0.2.1:80\"\n",
        "if True: bind = \"192.0.2.1:80\"\n",
        "bind = \"0.0.0.0:80\"\nif True:\n    bind = \"192.0.2.1:80\"\n",
        "bind = \"no address\"\n",
    ] {
        let (whole, lost) = gunicorn(text);
        assert!(lost.contains(&"bind".to_owned()), "{text}: {lost:?}");
        assert_eq!(addresses(&whole), [""; 0], "{text}");
    }
    let (whole, lost) = gunicorn("bind: str = \"192.0.2.1:80,192.0.2.1:81\"\n");
    assert_eq!(
        (addresses(&whole), lost),
        (vec!["192.0.2.1:80", "192.0.2.1:81"], vec![])
    );
}

#[test]
fn a_check_of_clients_that_gunicorn_computes_closes() {
    let tls = "bind = \"0.0.0.0:8443\"\ncertfile = \"/c.pem\"\nkeyfile = \"/k.pem\"\nca_certs = \"/ca.pem\"\n";
    let with = |text: &str| gunicorn(&format!("{tls}{text}"));
    let (whole, lost) = with("cert_reqs: int = 2  # required\n");
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        whole["listeners"]["*:8443"]["tls"]["client_verify"],
        "required"
    );
    for text in [
        "def ssl_context(conf, default):\n    return default()\n",
        "ssl_context = make\n",
        "cert_reqs: int = mode()\n",
        "if True:\n    cert_reqs = 2\n",
        "globals()[\"cert_reqs\"] = 2\n",
        "cert_reqs, x = 2, 1\n",
        "from shared import *\n",
        "cert_reqs = 0\nif True: cert_reqs = 2\n",
    ] {
        let (whole, lost) = with(text);
        assert!(!lost.is_empty(), "{text}");
        assert_eq!(addresses(&whole), [""; 0], "{text}");
    }
    let (whole, lost) = with("cert_reqs = mode()\ncert_reqs = 0\nssl_context = None\n");
    assert_eq!((addresses(&whole), lost), (vec!["*:8443"], vec![]));
}

#[test]
fn connections_of_gunicorn_are_not_kept_for_no_time() {
    // A response says that the connection stays open.
    let (whole, _) = gunicorn("keepalive = 0\n");
    assert_eq!(whole["settings"]["http"]["idle_timeout"], 1);
}

#[test]
fn all_addresses_of_ipv6_are_those_of_ipv4_too() {
    let (whole, _) = gunicorn("bind = \"[::]:80\"\n");
    assert_eq!(addresses(&whole), ["[::]:80", "*:80"]);
}
