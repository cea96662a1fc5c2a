//! Servers that are found: Services of Kubernetes by their EndpointSlices, services of the DNS by their SRV records. Through the whole server:
//! main reads the files, and the router is as confined as ever.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_e2e::authority::{Authority, EC};
use tutti_e2e::kubernetes::{ApiServer, TOKEN, endpoint, ready};
use tutti_e2e::named::{Named, answers, at_one_port, servers, set, wait_for};
use tutti_testkit::names::{DnsAnswer, NameServer, Record};
use tutti_testkit::{Load, LoadOptions, PATIENCE, Server, ServerOptions, wait_until};

/// A cluster with the Service `web` of the namespace `shop`, whose pods listen at 127.0.0.1 and the addresses behind it.
struct Cluster {
    api: ApiServer,
    pods: Vec<Named>,
    authority: Authority,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn new(pods: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path());
        authority.issue("api", EC, "ca", "subjectAltName=IP:127.0.0.1,DNS:localhost");
        let api = ApiServer::start(&authority.path("api.pem"), &authority.path("api.key"));
        let cluster = Cluster {
            api,
            pods: at_one_port(pods),
            authority,
            folder,
        };
        cluster.write_token(TOKEN);
        cluster
    }

    fn port(&self) -> u16 {
        self.pods[0].address.port()
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("token")
    }

    /// As the kubelet does it: another file takes the place of the first. Only its owner may read it.
    fn write_token(&self, token: &str) {
        let new = self.folder.path().join("new-token");
        fs::write(&new, format!("{token}\n")).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&new, self.token_file()).unwrap();
    }

    fn settings(&self) -> Value {
        json!({"server": format!("https://{}", self.api.address),
               "ca": self.authority.path("ca.pem"), "token_file": self.token_file()})
    }

    fn configure(&self, server: &Server, settings: &Value) {
        configure(
            server,
            &json!({"web.shop": {"kubernetes": {"port": "http"}}}),
            settings,
        );
    }

    fn serve(&self) -> Server {
        let server = Server::start(&ServerOptions::default());
        self.configure(&server, &self.settings());
        server
    }

    fn put(&self, endpoints: &[Value]) {
        self.api.put("web-1", self.port(), endpoints);
    }

    /// The lists so far, and the watches.
    fn counts(&self) -> (u64, usize) {
        let seen = self.api.seen();
        (seen.lists, seen.watches.len())
    }
}

fn configure(server: &Server, servers: &Value, kubernetes: &Value) {
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "upstreams/u"}},
            "upstreams": {"u": {"servers": servers}},
            "settings": {"kubernetes": kubernetes},
        }),
    );
}

#[test]
fn endpoints_that_are_ready_are_servers() {
    let cluster = Cluster::new(5);
    // With pages of one slice each, and a token in the address of the next that has to be encoded.
    cluster.api.page(1);
    cluster.put(&[
        ready(1),
        endpoint(3, false, false, false),
        endpoint(4, false, true, true),
    ]);
    cluster.api.put("web-2", cluster.port(), &[ready(2)]);
    let other = json!([{"name": "admin", "protocol": "TCP", "port": 9}]);
    cluster.api.put_with("web-3", &other, &[ready(5)]);
    let server = cluster.serve();
    // The first request waits for them.
    assert_eq!(answers(&server, 4), set(&[1, 2]));
    assert_eq!(cluster.counts().0, 3);
    let name = format!("web.shop (127.0.0.1:{})", cluster.port());
    let status = server.status("/upstreams/u/servers");
    assert_eq!(status[&name]["target"]["host"], "web-1", "{status}");
    assert_eq!(status[&name]["state"], "up");

    // One comes, one begins to end, a slice goes.
    cluster.put(&[ready(1), ready(3), endpoint(4, false, true, true)]);
    wait_for(&server, &[1, 2, 3]);
    assert_eq!(answers(&server, 6), set(&[1, 2, 3]));
    cluster.put(&[endpoint(1, false, true, true), ready(3)]);
    wait_for(&server, &[2, 3]);
    cluster.api.delete("web-2");
    wait_for(&server, &[3]);
    assert_eq!(answers(&server, 3), set(&[3]));
    assert_eq!(cluster.counts().0, 3, "events tell it all");
}

#[test]
fn a_watch_goes_on_where_it_ended_and_a_forgotten_version_is_listed_anew() {
    let cluster = Cluster::new(3);
    cluster.put(&[ready(1)]);
    let server = cluster.serve();
    assert_eq!(answers(&server, 1), set(&[1]));
    wait_until("the watch", || cluster.counts() == (1, 1));
    let marked = cluster.api.bookmark();
    // The bookmark has come when what is sent behind it has.
    cluster.put(&[ready(1), ready(2)]);
    wait_for(&server, &[1, 2]);
    let marked_again = cluster.api.bookmark();
    assert_ne!(marked, marked_again);
    // An end of the watch is behind what was sent before it.
    cluster.api.end_watches();
    wait_until("the second watch", || cluster.counts().1 == 2);
    assert_eq!(cluster.counts().0, 1);
    assert_eq!(cluster.api.seen().watches[1], marked_again);
    cluster.put(&[ready(2)]);
    wait_for(&server, &[2]);

    // The list has the change that no watch reported.
    cluster.api.put_unheard("web-1", &[ready(3)]);
    wait_for(&server, &[3]);
    assert_eq!(cluster.counts().0, 2);
    cluster.put(&[ready(1)]);
    wait_for(&server, &[1]);
    assert!(
        !server.log().contains("cannot be followed"),
        "410 is no fault: {}",
        server.log()
    );
}

#[test]
fn an_api_server_that_fails_takes_nothing_away() {
    let cluster = Cluster::new(3);
    cluster.put(&[ready(1), ready(2)]);
    let server = cluster.serve();
    assert_eq!(answers(&server, 4), set(&[1, 2]));
    let mut next = [set(&[2, 3]), set(&[1, 3]), set(&[1, 2])]
        .into_iter()
        .cycle();
    for (status, message, words) in [
        (
            500,
            "etcd is away",
            "the API server answers 500: etcd is away",
        ),
        (429, "too many", "the API server answers 429: too many"),
        (503, "no room", "the API server answers 503: no room"),
        (
            401,
            "Unauthorized",
            "the API server does not accept the token (401): Unauthorized",
        ),
        (
            403,
            "endpointslices is forbidden",
            "hint: a Role in the namespace `shop` has to allow `list` and `watch`",
        ),
    ] {
        let lists = cluster.api.seen().lists;
        cluster.api.refuse(Some((status, message)));
        cluster.api.end_watches();
        server.wait_for_log(words);
        let line = server.log();
        let line = line.lines().rfind(|line| line.contains(words)).unwrap();
        assert!(
            line.contains("the endpoints of the Service `web.shop` cannot be followed"),
            "{line}"
        );
        assert!(line.ends_with("; its last addresses are kept"), "{line}");
        let before = servers(&server);
        assert_eq!(answers(&server, 4), before);
        let now = next.next().unwrap();
        let endpoints: Vec<Value> = now.iter().map(|last| ready(*last)).collect();
        cluster.put(&endpoints);
        cluster.api.refuse(None);
        wait_until("what has changed meanwhile", || servers(&server) == now);
        server.wait_for_log("are followed again");
        // An overloaded API server need not list everything anew for everyone.
        let listed = cluster.api.seen().lists - lists;
        assert_eq!(listed, u64::from(status == 403), "after {status}");
    }
    // A change after the last list comes by the watch after it, which is there.
    cluster.put(&[ready(1)]);
    wait_for(&server, &[1]);
    // An event that is none: the list says what is so.
    for event in [
        r#"{"type": "MODIFIED", "object": {"endpoints": 7}}"#,
        "\0\u{1}garbage",
    ] {
        let (lists, watches) = cluster.counts();
        cluster.api.say(event);
        wait_until("another list and watch", || {
            cluster.counts() == (lists + 1, watches + 1)
        });
    }
    assert_eq!(
        server.log().matches("an event of the API server: ").count(),
        2
    );
    cluster.put(&[ready(3)]);
    wait_for(&server, &[3]);
}

#[test]
fn tokens_are_read_anew_and_go_to_no_other_server() {
    let cluster = Cluster::new(2);
    cluster.put(&[ready(1)]);
    let server = cluster.serve();
    assert_eq!(answers(&server, 1), set(&[1]));
    wait_until("the watch", || cluster.counts() == (1, 1));
    cluster.write_token("second-token");
    cluster.api.take_token("second-token");
    cluster.api.end_watches();
    wait_until("the second watch", || cluster.counts().1 == 2);
    assert_eq!(cluster.api.seen().strangers, 0);

    // A server without a trusted certificate gets no request.
    let requests = cluster.api.seen().requests;
    let mut settings = cluster.settings();
    settings["ca"] = json!(Authority::new(&folder(cluster.folder.path(), "other")).path("ca.pem"));
    cluster.configure(&server, &settings);
    server.wait_for_log("cannot be followed: cannot connect to the API server");
    // The other authority has the same name and another key.
    let why = "TLS: the signature of its certificate is wrong; hint: ";
    assert!(server.log().contains(why), "{}", server.log());
    assert_eq!(cluster.api.seen().requests, requests);
    assert_eq!(
        answers(&server, 1),
        set(&[1]),
        "what was known is carried over"
    );

    // The certificate is for `localhost` too, a name that is looked up.
    settings["ca"] = json!(cluster.authority.path("ca.pem"));
    settings["server"] = json!(format!("https://localhost:{}", cluster.api.address.port()));
    cluster.put(&[ready(2)]);
    cluster.configure(&server, &settings);
    wait_for(&server, &[2]);

    // A file that is gone is missed when it is needed, and not before.
    fs::remove_file(cluster.token_file()).unwrap();
    cluster.api.end_watches();
    server.wait_for_log(&format!("reading `{}`", cluster.token_file().display()));
    assert_eq!(answers(&server, 2), set(&[2]));
    cluster.write_token("second-token");
    cluster.put(&[ready(1)]);
    wait_for(&server, &[1]);
}

fn folder(below: &Path, name: &str) -> PathBuf {
    let folder = below.join(name);
    fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn a_service_without_servers_says_why() {
    let cluster = Cluster::new(1);
    let server = cluster.serve();
    assert_eq!(server.get("/").status, 502);
    server.wait_for_log("the Service `web.shop` has no server: there is no such Service");
    let status = server.status("/upstreams/u/servers");
    assert_eq!(status["web.shop"]["state"], "unresolved", "{status}");
    cluster.put(&[endpoint(1, false, false, false)]);
    server.wait_for_log("the Service `web.shop` has no server: none of its endpoints is ready");
    let ports =
        json!([{"name": "web", "protocol": "TCP", "port": 80}, {"name": "admin", "port": 81}]);
    cluster.api.put_with("web-1", &ports, &[ready(1)]);
    server.wait_for_log("it has no port `http` for TCP; there are `admin` (81), `web` (80)");
    cluster.put(&[ready(1)]);
    server.wait_for_log("the Service `web.shop` has servers again");
    assert_eq!(answers(&server, 1), set(&[1]));

    // Without a port, where there is one; with its number; with several, of which none is said.
    let port = cluster.port();
    for kubernetes in [json!({}), json!({"port": port})] {
        configure(
            &server,
            &json!({"web.shop": {"kubernetes": kubernetes}}),
            &cluster.settings(),
        );
        assert_eq!(answers(&server, 1), set(&[1]));
    }
    cluster.api.put_with("web-1", &ports, &[ready(1)]);
    configure(
        &server,
        &json!({"web.shop": {"kubernetes": {}}}),
        &cluster.settings(),
    );
    server.wait_for_log(
        "it has several ports; hint: select one with `port`: `admin` (81), `web` (80)",
    );
}

#[test]
fn a_pod_needs_no_settings_but_files() {
    let cluster = Cluster::new(1);
    cluster.put(&[ready(1)]);
    let files = json!({"ca": cluster.authority.path("ca.pem"), "token_file": cluster.token_file()});
    let servers = json!({"web.shop": {"kubernetes": {"port": "http"}}});
    let pod = Server::start(&ServerOptions {
        wrapper: vec![
            "env".to_owned(),
            "KUBERNETES_SERVICE_HOST=127.0.0.1".to_owned(),
            format!("KUBERNETES_SERVICE_PORT={}", cluster.api.address.port()),
        ],
        ..ServerOptions::default()
    });
    configure(&pod, &servers, &files);
    assert_eq!(answers(&pod, 1), set(&[1]));
    let elsewhere = Server::start(&ServerOptions {
        wrapper: ["env", "-u", "KUBERNETES_SERVICE_HOST"]
            .map(str::to_owned)
            .to_vec(),
        ..ServerOptions::default()
    });
    configure(&elsewhere, &servers, &files);
    elsewhere.wait_for_log("the address of the API server is unknown; hint: outside a cluster");
    assert_eq!(elsewhere.get("/").status, 502);
}

#[test]
fn no_request_is_lost_while_endpoints_change() {
    let cluster = Cluster::new(4);
    cluster.put(&[ready(1)]);
    let server = cluster.serve();
    assert_eq!(answers(&server, 1), set(&[1]));
    let load = Load::start(&LoadOptions::get(server.address(), "/", 4));
    for round in 0..20_u8 {
        let (one, two) = (1 + round % 4, 1 + (round + 1) % 4);
        let out = 1 + (round + 2) % 4;
        cluster.put(&[ready(one), ready(two), endpoint(out, false, true, true)]);
        if round % 5 == 0 {
            cluster.api.end_watches();
        }
        if round % 7 == 0 {
            cluster.api.put_unheard("web-1", &[ready(one), ready(two)]);
        }
        wait_for(&server, &[one, two]);
        assert!(load.wait_for_answers(20, PATIENCE));
    }
    let outcome = load.stop();
    assert_eq!(outcome.failures() + outcome.refused, 0, "{outcome}");
}

#[test]
fn no_request_is_lost_while_records_of_a_service_change() {
    let pods = at_one_port(4);
    let names = NameServer::new(DnsAnswer::Nothing);
    for last in 1..=4_u8 {
        let address = [127, 0, 0, last].into();
        names.set_answer(
            &format!("web-{last}.internal"),
            DnsAnswer::addresses([address]),
        );
    }
    let records = |lasts: &[u8]| {
        let record = |last: &u8| {
            let target = format!("web-{last}.internal.");
            Record::service(0, 1, pods[0].address.port(), &target)
        };
        names.set_answer(
            "_http._tcp.web.internal",
            DnsAnswer::Records(lasts.iter().map(record).collect()),
        );
    };
    records(&[1]);
    let server = Server::start(&ServerOptions::default());
    server.put(
        "/config",
        &json!({
            "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "upstreams/u"}},
            "upstreams": {"u": {"servers": {"web.internal": {"service": "http"}}}},
            "settings": {"resolver": {"servers": names.address.to_string(), "min_ttl": 0.1, "timeout": 30}},
        }),
    );
    assert_eq!(answers(&server, 1), set(&[1]));
    let load = Load::start(&LoadOptions::get(server.address(), "/", 4));
    for round in 0..8_u8 {
        let (one, two) = (1 + round % 4, 1 + (round + 1) % 4);
        records(&[one, two]);
        wait_for(&server, &[one, two]);
        assert!(load.wait_for_answers(20, PATIENCE));
    }
    let outcome = load.stop();
    assert_eq!(outcome.failures() + outcome.refused, 0, "{outcome}");
    let status = server.status("/upstreams/u/servers");
    let one = status.as_object().unwrap().values().next().unwrap();
    assert_eq!(one["target"]["priority"], 0, "{status}");
}
