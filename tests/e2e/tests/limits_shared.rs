//! Limits of several servers: a share for each node of a fleet, and exact ones in a Valkey that other people wrote.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tutti_e2e::etcd::Etcd;
use tutti_e2e::fleet::{Fleet, options};
use tutti_e2e::valkey::Valkey;
use tutti_testkit::client::{self, Reply};
use tutti_testkit::{Load, LoadOptions, Server, ServerOptions, wait_until};

/// `GET /` with this key.
fn ask(server: &Server, key: &str) -> Reply {
    let text =
        format!("GET / HTTP/1.1\r\nHost: a.example\r\nX-Key: {key}\r\nConnection: close\r\n\r\n");
    client::request(server.address(), text.as_bytes()).unwrap()
}

/// The number of so many requests of a key that are admitted.
fn admitted(server: &Server, key: &str, count: usize) -> usize {
    let replies = (0..count).map(|_| ask(server, key).status);
    replies
        .filter(|status| match status {
            200 => true,
            429 => false,
            other => panic!("{other}"),
        })
        .count()
}

/// A route with a limit of ten requests at once, and hardly one after that; `more` is added to it.
fn limited(server: &Server, more: &Value) -> Value {
    let mut limit = json!({"key": "$header_x_key", "rate": "10r/d", "burst": 9});
    for (name, value) in more.as_object().unwrap() {
        limit[name] = value.clone();
    }
    json!({
        "listeners": {server.address().to_string(): {"pass": "routes"}},
        "limits": {"api": limit},
        "routes": [
            {"match": {"uri": "/free"}, "action": {"return": 200}},
            {"action": {"limit": "api", "return": 200}}
        ],
    })
}

fn nodes_of(server: &Server) -> Value {
    server.status("/limits/api/nodes")
}

#[test]
fn each_node_has_its_share_and_all_of_it_when_it_is_alone() {
    let mut fleet = Fleet::on(Etcd::start(1), &["a", "b"], &json!({}));
    for node in &fleet.nodes {
        node.put("/config", &limited(node, &json!({"scope": "fleet"})));
        wait_until("both are counted", || nodes_of(node) == json!(2));
    }
    assert_eq!(fleet.source_of(0)["nodes"], 2);
    for node in &fleet.nodes {
        assert_eq!(admitted(node, "both", 12), 5);
    }
    let told = ask(&fleet.nodes[0], "both");
    assert_eq!(
        told.field("RateLimit-Policy"),
        Some("\"api\";q=5;w=86400"),
        "{told:?}"
    );
    let status = fleet.nodes[0].status("/limits/api");
    assert_eq!(status["burst"], 9, "{status}");
    assert_eq!(status["share"]["burst"], 4);
    assert_eq!(status["exceeded"], 8);
    let page = fleet.nodes[0].command(&["status"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(
        page.contains("burst 4 of 9, shared by 2 nodes, 8 exceeded"),
        "{page}"
    );
    assert!(page.contains("as node a of 2"), "{page}");
    // The store is away: the number stays, through a restart as well.
    fleet.etcd.kill(0);
    let source = fleet.etcd.source("a", &json!({}));
    fleet.nodes[0].start_again(&options(&source));
    assert_eq!(admitted(&fleet.nodes[0], "restarted", 12), 5);
    wait_until("the node has noticed", || {
        fleet.source_of(0)["connected"] == false
    });
    assert_eq!(nodes_of(&fleet.nodes[0]), json!(2));
    assert_eq!(admitted(&fleet.nodes[0], "away", 12), 5);
    // It is back, and the other node is not.
    fleet.nodes[1].signal(libc::SIGKILL);
    fleet.nodes.remove(1);
    fleet.etcd.start_again(0);
    wait_until("one is left", || nodes_of(&fleet.nodes[0]) == json!(1));
    assert_eq!(admitted(&fleet.nodes[0], "alone", 12), 10);
    // One more comes.
    let source = fleet.etcd.source("c", &json!({}));
    fleet.nodes.push(Server::start(&options(&source)));
    wait_until("two are there", || nodes_of(&fleet.nodes[0]) == json!(2));
    assert_eq!(admitted(&fleet.nodes[0], "two", 12), 5);
}

#[test]
fn a_node_that_leaves_its_fleet_has_the_whole_limit() {
    let fleet = Fleet::on(Etcd::start(1), &["a"], &json!({}));
    let source: Value =
        serde_json::from_slice(&std::fs::read(fleet.etcd.source("b", &json!({}))).unwrap())
            .unwrap();
    let node = Server::start(&ServerOptions {
        flags: Vec::new(),
        ..options(std::path::Path::new("/"))
    });
    let mut config = limited(&node, &json!({"scope": "fleet"}));
    node.put("/config", &config);
    assert_eq!(nodes_of(&node), json!(1));
    config["settings"] = json!({"source": source});
    node.put("/config", &config);
    wait_until("both are counted", || nodes_of(&node) == json!(2));
    let reply = node.call("DELETE", "/config/settings/source", &Value::Null);
    assert_eq!(reply.status, 200, "{}", reply.text());
    wait_until("it is alone", || nodes_of(&node) == json!(1));
    assert_eq!(admitted(&node, "a", 12), 10);
}

/// A limit that is counted in this store.
fn counted(server: &Server, valkey: &Valkey, more: &Value) -> Value {
    let mut limit = json!({"store": "shared"});
    for (name, value) in more.as_object().unwrap() {
        limit[name] = value.clone();
    }
    let mut config = limited(server, &limit);
    // A machine with much to do is slow, too.
    config["settings"] =
        json!({"limit_stores": {"shared": {"valkey": valkey.options(), "timeout": 10}}});
    config
}

fn started(valkey: &Valkey, more: &Value) -> Server {
    let server = Server::start(&ServerOptions::default());
    server.put("/config", &counted(&server, valkey, more));
    wait_until_connected(&server, true);
    server
}

fn store_of(server: &Server) -> Value {
    server.status("/limit_stores/shared")
}

fn wait_until_connected(server: &Server, is_connected: bool) {
    wait_until("the store of limits is there, or not", || {
        store_of(server)["connected"] == is_connected
    });
}

#[test]
fn a_store_counts_exactly_for_all_servers() {
    let valkey = Valkey::start();
    let servers = [(); 2].map(|()| started(&valkey, &json!({"announce": true})));
    // At the same time.
    let total: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let server = &servers[number % 2];
                scope.spawn(move || admitted(server, "all", 5))
            })
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(total, 10);
    let first = ask(&servers[0], "told");
    assert_eq!(
        first.field("RateLimit-Policy"),
        Some("\"api\";q=10;w=86400")
    );
    assert_eq!(first.field("RateLimit"), Some("\"api\";r=9;t=8640"));
    let second = ask(&servers[1], "told");
    assert!(
        second
            .field("RateLimit")
            .unwrap()
            .starts_with("\"api\";r=8;t=")
    );
    let refused = ask(&servers[1], "all");
    assert_eq!(refused.status, 429);
    let retry: u64 = refused.field("Retry-After").unwrap().parse().unwrap();
    assert!((8000..=8640).contains(&retry), "{retry}");
    for server in &servers {
        let store = store_of(server);
        assert_eq!(store["requests"]["failed"], 0, "{store}");
        assert!(
            store["requests"]["counted"].as_u64().unwrap() > 20,
            "{store}"
        );
        let page = server.command(&["status"]);
        let page = String::from_utf8_lossy(&page.stdout).into_owned();
        assert!(page.contains("burst 9, counted in shared"), "{page}");
        assert!(page.contains("shared: answers"), "{page}");
    }
    // A request without a key is not counted.
    assert_eq!(ask(&servers[0], "").status, 200);
}

#[test]
fn a_store_counts_a_request_once_when_another_is_answered_in_its_place() {
    let valkey = Valkey::start();
    let server = Server::start(&ServerOptions::default());
    let mut config = counted(&server, &valkey, &json!({}));
    config["routes"] = json!([{"action": {
        "limit": "api", "return": 410,
        "error_pages": {"410": {"return": 200, "limit": "api"}},
    }}]);
    server.put("/config", &config);
    wait_until_connected(&server, true);
    assert_eq!(admitted(&server, "once", 12), 10);
}

#[test]
fn names_of_keys_are_short_and_end_by_themselves_whatever_clients_send() {
    let valkey = Valkey::start();
    let server = started(&valkey, &json!({}));
    let long = "x".repeat(6000);
    let hostile = [
        "*3\\r\\n$3\\r\\nSET",
        "{a}",
        "'; redis.call('FLUSHALL')",
        "\"",
        "tutti:trial",
        "%00%0d%0a",
        "\u{fffd}\u{202e}",
        long.as_str(),
        "a b",
        "a\tb",
    ];
    for key in hostile {
        assert_eq!(admitted(&server, key, 11), 10, "{key:?}");
    }
    let keys: BTreeSet<String> = valkey.ask(&["KEYS", "*"]).into_iter().collect();
    assert_eq!(keys.len(), hostile.len(), "{keys:?}");
    for key in &keys {
        let digest = key.strip_prefix("tutti:").unwrap();
        assert!(
            digest.len() == 32 && digest.bytes().all(|b| b.is_ascii_hexdigit()),
            "{key}"
        );
    }
    let left = keys.iter().map(|key| valkey.ask(&["PTTL", key]));
    let left = left.map(|lines| lines[0].parse::<i64>().unwrap());
    let most = 24 * 3600 * 1000;
    assert_eq!(
        left.filter(|left| (1..=most).contains(left)).count(),
        hostile.len()
    );
}

#[test]
fn without_the_store_each_server_has_its_share_until_it_is_back() {
    let mut valkey = Valkey::start();
    let server = started(&valkey, &json!({}));
    let strict = started(&valkey, &json!({"on_error": "refuse"}));
    assert_eq!(admitted(&server, "before", 12), 10);
    let load = Load::start(&LoadOptions::get(server.address(), "/free", 2));
    valkey.kill();
    for server in [&server, &strict] {
        wait_until_connected(server, false);
    }
    // There is no fleet: the share is the whole.
    assert_eq!(admitted(&server, "after", 12), 10);
    let refused = ask(&strict, "after");
    assert_eq!(
        (refused.status, refused.field("Retry-After")),
        (503, Some("1"))
    );
    strict.wait_for_log("the store of `/limits/api` does not answer");
    let told = "the store of limits \"shared\" at 127.0.0.1:";
    wait_until("it is logged", || server.log().contains(told));
    let store = store_of(&server);
    assert!(store["error"].is_string(), "{store}");
    assert!(
        store["requests"]["failed"].as_u64().unwrap() >= 12,
        "{store}"
    );
    let metrics = client::control(server.control(), "GET", "/metrics", b"").unwrap();
    assert!(
        metrics
            .text()
            .contains("tutti_limit_store_up{store=\"shared\"} 0")
    );
    let page = server.command(&["status"]);
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains("does not answer"), "{page}");
    // It is back, and knows nothing of what was before.
    valkey.start_again();
    for server in [&server, &strict] {
        wait_until_connected(server, true);
    }
    let both = admitted(&server, "again", 8) + admitted(&strict, "again", 8);
    assert_eq!(both, 10);
    server.wait_for_log("answers again");
    assert_eq!(server.log().matches("does not answer").count(), 1);
    let outcome = load.stop();
    let lost = outcome.lost + outcome.broken + outcome.hung + outcome.refused;
    assert_eq!(lost, 0, "{outcome:?}");
}

#[test]
fn a_store_that_hangs_holds_requests_up_for_no_longer_than_their_time() {
    let valkey = Valkey::start();
    let server = Server::start(&ServerOptions::default());
    let mut config = counted(&server, &valkey, &json!({}));
    config["settings"]["limit_stores"]["shared"]["timeout"] = json!(0.2);
    server.put("/config", &config);
    wait_until_connected(&server, true);
    // Requests that need no store go on, on the same threads.
    let load = Load::start(&LoadOptions::get(server.address(), "/free", 2));
    valkey.signal(libc::SIGSTOP);
    assert_eq!(admitted(&server, "hangs", 12), 10);
    wait_until("it is given up", || {
        ask(&server, "hangs");
        store_of(&server)["connected"] == false
    });
    let error = store_of(&server)["error"].to_string();
    assert!(error.contains("no answer within"), "{error}");
    let outcome = load.stop();
    let lost = outcome.lost + outcome.broken + outcome.hung + outcome.refused;
    assert_eq!(lost, 0, "{outcome:?}");
    assert!(outcome.answered > 0);
    valkey.signal(libc::SIGCONT);
    wait_until("it counts again", || {
        let counted = || store_of(&server)["requests"]["counted"].as_u64();
        let before = counted();
        ask(&server, "again");
        counted() > before
    });
}

#[test]
fn a_store_with_tls_certificates_and_a_user_that_may_do_little() {
    let valkey = Valkey::secure();
    let server = started(&valkey, &json!({}));
    assert_eq!(admitted(&server, "a", 12), 10);
    let store = store_of(&server);
    assert_eq!(store["requests"]["failed"], 0, "{store}");
    assert!(!server.status("").to_string().contains("horse"));
    assert!(!server.log().contains("horse"));
    // With another password the store admits no node, and no request is refused for it.
    std::fs::write(valkey.password_file(), "battery staple\n").unwrap();
    let other = Server::start(&ServerOptions::default());
    other.put("/config", &counted(&other, &valkey, &json!({})));
    wait_until("it says why", || store_of(&other)["error"].is_string());
    assert_eq!(admitted(&other, "b", 12), 10);
    assert!(!other.log().contains("battery"));
    // A certificate of somebody else is not trusted.
    let stranger = Server::start(&ServerOptions::default());
    let mut config = counted(&stranger, &valkey, &json!({}));
    let mut shared = valkey.options();
    shared["tls"] =
        json!({"certificate": valkey.path("client.pem"), "key": valkey.path("client.key")});
    config["settings"]["limit_stores"]["shared"]["valkey"] = shared;
    stranger.put("/config", &config);
    wait_until("it says why", || {
        let error = store_of(&stranger)["error"].to_string();
        error.contains("TLS: its certificate is not signed by a trusted authority")
            || error.contains("no root certificates")
    });
}

#[test]
fn limits_that_wait_are_counted_in_the_store_too() {
    let valkey = Valkey::start();
    let server = Server::start(&ServerOptions::default());
    let mut config = counted(&server, &valkey, &json!({"delay": true}));
    config["limits"]["api"]["rate"] = json!("20r/s");
    config["limits"]["api"]["burst"] = json!(3);
    server.put("/config", &config);
    wait_until_connected(&server, true);
    let begun = std::time::Instant::now();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| ask(&server, "slowly").status))
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200; 4]);
    // The last of four waits for three twentieths of a second, whenever it comes.
    assert!(begun.elapsed().as_millis() >= 149);
    // Dry runs refuse nothing.
    config["limits"]["api"]["rate"] = json!("1r/d");
    config["limits"]["api"]["burst"] = json!(0);
    config["limits"]["api"]["delay"] = json!(false);
    config["limits"]["api"]["dry_run"] = json!(true);
    server.put("/config", &config);
    for _ in 0..3 {
        assert_eq!(ask(&server, "dry").status, 200);
    }
    server.wait_for_log("logged only, because of `dry_run`");
}
