//! `stream` of nginx: what is carried over, and what is left out because it would be open otherwise.

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

struct One(String);

impl Sources for One {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path == Path::new("/etc/nginx/nginx.conf") {
            true => Ok(self.0.clone().into_bytes()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn names_in(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }
}

/// The configuration for the content of a `stream`, and the names of directives that are lost.
fn stream(content: &str) -> (Value, Vec<String>) {
    whole(&format!("stream {{ {content} }}"))
}

fn whole(text: &str) -> (Value, Vec<String>) {
    let one = One(text.to_owned());
    let files = [PathBuf::from("/etc/nginx/nginx.conf")];
    let done = import(ForeignServer::Nginx, &files, &one).expect("it can be read");
    let lost = done.findings.iter();
    let lost = lost.filter(|finding| finding.importance == Importance::Lost);
    let names = lost.map(|finding| finding.directive.clone()).collect();
    (done.configuration, names)
}

fn carried(content: &str) -> Value {
    let (configuration, lost) = stream(content);
    assert_eq!(lost, [""; 0], "{content}");
    configuration
}

#[test]
fn a_server_is_a_listener_with_an_upstream() {
    let configuration = carried(
        "proxy_timeout 1h; server { listen 5432 so_keepalive=on; proxy_pass db.internal:5432; proxy_connect_timeout 1s;
         proxy_protocol on; proxy_next_upstream_tries 3; }",
    );
    assert_eq!(
        configuration,
        json!({
            "listeners": {"*:5432": {"stream": "upstreams/db.internal-5432", "access_log": false}},
            "upstreams": {"db.internal-5432": {
                "servers": {"db.internal:5432": {}}, "connect_timeout": 1.0, "tunnel_timeout": 3600.0, "retries": 2,
                "proxy_protocol": "v1"}}
        })
    );
}

#[test]
fn groups_of_streams_and_of_http_are_apart() {
    let (configuration, lost) = whole(
        "stream { upstream a { hash $remote_addr consistent; server 10.0.0.1:1 weight=2; server 10.0.0.2:1 backup; }
           server { listen 127.0.0.1:1; listen 127.0.0.1:2; proxy_pass a; } }
         http { upstream a { server 10.0.0.3:80; } server { listen 80; location / { proxy_pass http://a; } } }",
    );
    assert_eq!(lost, [""; 0]);
    let of_stream = configuration["listeners"]["127.0.0.1:1"]["stream"]
        .as_str()
        .unwrap();
    assert_eq!(
        configuration["listeners"]["127.0.0.1:2"]["stream"],
        of_stream
    );
    let name = of_stream.strip_prefix("upstreams/").unwrap();
    let servers = &configuration["upstreams"][name]["servers"];
    assert_eq!(
        *servers,
        json!({"10.0.0.1:1": {"weight": 2}, "10.0.0.2:1": {"backup": true}})
    );
    assert!(configuration["listeners"]["*:80"]["pass"].is_string());
}

#[test]
fn the_rules_of_addresses_are_conditions_in_their_order() {
    let of = |rules: &str| {
        let content = format!("server {{ listen 127.0.0.1:1; {rules} proxy_pass 10.0.0.1:1; }}");
        carried(&content)["streams"]["listen-127.0.0.1-1"].clone()
    };
    let pass = json!({"pass": "upstreams/10.0.0.1-1"});
    assert_eq!(
        of("allow 10.0.0.0/8; deny 192.0.2.1; allow 192.0.2.0/24; deny all;"),
        json!([
            {"match": {"source": "10.0.0.0/8"}, "action": pass},
            {"match": {"source": ["192.0.2.0/24", "!192.0.2.1"]}, "action": pass}
        ])
    );
    assert_eq!(
        of("deny 192.0.2.1;"),
        json!([{"match": {"source": "!192.0.2.1"}, "action": pass}])
    );
    assert_eq!(of("deny all;"), json!([{"action": {"close": true}}]));
}

#[test]
fn a_map_of_names_chooses_the_server() {
    let configuration = carried(
        "map $ssl_preread_server_name $to { hostnames; a.example a; *.b.example 10.0.0.2:443; default a; }
         upstream a { server 10.0.0.1:443; }
         server { listen 443; ssl_preread on; allow 10.0.0.0/8; deny all; proxy_pass $to; }",
    );
    assert_eq!(
        configuration["streams"]["listen-443"],
        json!([
            {"match": {"server_name": "a.example", "source": "10.0.0.0/8"}, "action": {"pass": "upstreams/a"}},
            {"match": {"server_name": "*.b.example", "source": "10.0.0.0/8"}, "action": {"pass": "upstreams/10.0.0.2-443"}},
            {"match": {"source": "10.0.0.0/8"}, "action": {"pass": "upstreams/a"}}
        ])
    );
}

#[test]
fn proxies_are_believed_that_the_source_names() {
    let configuration = carried(
        "server { listen 127.0.0.1:1 proxy_protocol; set_real_ip_from 10.0.0.1; proxy_pass 10.0.0.2:1; }",
    );
    assert_eq!(
        configuration["listeners"]["127.0.0.1:1"]["proxy_protocol"],
        json!({"source": "10.0.0.1"})
    );
}

/// Must never: listen where a restriction or the encryption is not carried over.
#[test]
fn a_server_that_cannot_be_carried_over_is_left_out() {
    for server in [
        "listen 127.0.0.1:1 udp ssl; ssl_certificate a; ssl_certificate_key b; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1 udp proxy_protocol; set_real_ip_from 10.0.0.1; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1 udp; proxy_protocol on; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1 udp; proxy_ssl on; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1 udp; ssl_preread on; proxy_pass $to;",
        "listen 127.0.0.1:1 udp unknown; proxy_pass 10.0.0.1:1;",
        "listen unix:/run/a udp; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1 ssl; ssl_certificate a; ssl_certificate_key b; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1 proxy_protocol; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1 unknown; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1; return text;",
        "listen 127.0.0.1:1; pass 127.0.0.1:2;",
        "listen 127.0.0.1:1; proxy_pass $ssl_preread_server_name:443; ssl_preread on;",
        "listen 127.0.0.1:1; proxy_pass $to;",
        "listen 127.0.0.1:1; proxy_pass missing;",
        "listen 127.0.0.1:1; js_access a.b; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1; limit_conn a 1; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1; an_unknown_check on; proxy_pass 10.0.0.1:1;",
        "listen 127.0.0.1:1; ssl_verify_client on; proxy_pass 10.0.0.1:1;",
    ] {
        let (configuration, lost) = stream(&format!(
            "map $ssl_preread_server_name $to {{ default 10.0.0.1:1; }} server {{ {server} }}"
        ));
        assert!(
            configuration.get("listeners").is_none(),
            "{server}: {configuration}"
        );
        assert!(!lost.is_empty(), "{server}");
    }
    let (configuration, lost) =
        stream("js_access a.b; server { listen 127.0.0.1:1; proxy_pass 10.0.0.1:1; }");
    assert!(configuration.get("listeners").is_none(), "{configuration}");
    assert!(lost.contains(&"js_access".to_owned()), "{lost:?}");
    let twice = "server { listen 127.0.0.1:1; proxy_pass 10.0.0.1:1; } server { listen 127.0.0.1:1; proxy_pass 10.0.0.2:1; }";
    let (configuration, lost) = stream(twice);
    assert!(configuration.get("listeners").is_none(), "{configuration}");
    assert!(lost.contains(&"listen".to_owned()), "{lost:?}");
}

#[test]
fn the_log_of_a_stream_has_its_variables() {
    let configuration = carried(
        "log_format short '$remote_addr $protocol $status $bytes_sent $session_time'; access_log /var/log/stream.log short;
         server { listen 127.0.0.1:1; proxy_pass 10.0.0.1:1; }",
    );
    assert_eq!(
        configuration["listeners"]["127.0.0.1:1"]["access_log"],
        json!({"path": "/var/log/stream.log", "format": "$remote_addr TCP $status $bytes_sent $request_time"})
    );
}

/// A name server listens on TCP and on UDP.
#[test]
fn a_server_for_datagrams_is_a_listener_with_udp() {
    let configuration = carried(
        "log_format short '$protocol $status'; access_log /var/log/dns.log short; proxy_timeout 5s; proxy_responses 1;
         upstream resolvers { server 10.0.0.1:53; server 10.0.0.2:53; }
         server { listen 53; listen 53 udp reuseport; proxy_pass resolvers; }",
    );
    let log = |protocol: &str| json!({"path": "/var/log/dns.log", "format": format!("{protocol} $status")});
    assert_eq!(
        configuration["listeners"],
        json!({
            "*:53": {"stream": "upstreams/resolvers", "access_log": log("TCP")},
            "udp:*:53": {"stream": "upstreams/resolvers", "access_log": log("UDP"), "udp": {"responses": 1}}
        })
    );
    assert_eq!(
        configuration["upstreams"]["resolvers"]["tunnel_timeout"],
        json!(5.0)
    );
}

#[test]
fn the_numbers_of_datagrams_are_carried_over() {
    let of = |directives: &str| {
        let server = "listen 127.0.0.1:514 udp; proxy_pass 10.0.0.1:514;";
        let configuration = carried(&format!("{directives} server {{ {server} }}"));
        configuration["listeners"]["udp:127.0.0.1:514"]["udp"].clone()
    };
    assert_eq!(of(""), Value::Null);
    assert_eq!(of("proxy_responses 0;"), json!({"responses": 0}));
    assert_eq!(
        of("proxy_requests 1; proxy_responses 2;"),
        json!({"requests": 1, "responses": 2})
    );
    assert_eq!(of("proxy_requests 0;"), Value::Null);
}

/// The same address and port of TCP and of UDP do not exclude each other, and two of UDP do.
#[test]
fn an_address_has_one_server_for_each_protocol() {
    let server = |options: &str, to: u8| {
        format!("server {{ listen 127.0.0.1:1 {options}; proxy_pass 10.0.0.{to}:1; }}")
    };
    let configuration = carried(&format!("{}{}", server("", 1), server("udp", 2)));
    assert_eq!(configuration["listeners"].as_object().unwrap().len(), 2);
    let (configuration, lost) = stream(&format!("{}{}", server("udp", 1), server("udp", 2)));
    assert!(configuration.get("listeners").is_none(), "{configuration}");
    assert!(lost.contains(&"listen".to_owned()), "{lost:?}");
}
