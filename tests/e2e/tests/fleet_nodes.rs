//! Upstreams whose servers are the nodes of the fleet itself: they come and go with the nodes, and no request is lost by it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_e2e::etcd::Etcd;
use tutti_e2e::named::{servers, set, wait_for};
use tutti_testkit::{Load, LoadOptions, PATIENCE, Server, ServerOptions, free_port, wait_until};

/// Nodes on one machine: each has an address of its own, 127.0.0.1 and those behind it, and takes requests of others at one port.
struct Fleet {
    etcd: Etcd,
    port: u16,
}

impl Fleet {
    fn new(most: u8) -> Fleet {
        let is_free = |port: u16| {
            let at = |last| TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port)).is_ok();
            (1..=most).all(at)
        };
        let mut ports = std::iter::repeat_with(free_port);
        Fleet {
            etcd: Etcd::start(1),
            port: ports.find(|port| is_free(*port)).unwrap(),
        }
    }

    fn source(&self, last: u8, role: &str) -> PathBuf {
        let address = format!("127.0.0.{last}");
        let more = json!({"address": address, "labels": {"role": role}});
        self.etcd.source(&format!("node-{last}"), &more)
    }

    /// A node that tells its number, and sends what comes to its other listener to these servers.
    fn node(&self, last: u8, role: &str, servers: &Value) -> Server {
        let server = Server::start(&options(&self.source(last, role)));
        server.put("/config", &self.configuration(&server, last, servers));
        server
    }

    fn configuration(&self, server: &Server, last: u8, servers: &Value) -> Value {
        json!({
            "listeners": {
                format!("127.0.0.{last}:{}", self.port): {"pass": "routes"},
                server.address().to_string(): {"pass": "upstreams/u"},
            },
            "routes": [{"action": {"return": 200, "response_headers": {"X-Node": last.to_string()}}}],
            // Nothing is sent a second time that has been sent.
            "upstreams": {"u": {"servers": servers, "retry_methods": []}},
        })
    }

    fn all(&self) -> Value {
        json!({"all": {"fleet": {"port": self.port}}})
    }
}

/// Options of a node. A lease outlives what a busy machine keeps a node from saying that it is there.
fn options(source: &Path) -> ServerOptions {
    ServerOptions {
        flags: vec!["--source".to_owned(), source.display().to_string()],
        wrapper: ["env", "TUTTI_FLEET_PATIENCE=3", "TUTTI_FLEET_LIFE=12"]
            .map(str::to_owned)
            .to_vec(),
        ..ServerOptions::default()
    }
}

/// The number of the node that answers.
fn answer(server: &Server) -> u8 {
    let reply = server.get("/");
    assert_eq!(reply.status, 200, "{}", server.log());
    reply.field("X-Node").unwrap().parse().unwrap()
}

#[test]
fn nodes_are_servers_as_they_come_and_go() {
    let fleet = Fleet::new(4);
    let mut first = fleet.node(1, "web", &fleet.all());
    wait_for(&first, &[1]);
    assert_eq!(answer(&first), 1);
    let (mut second, third) = (
        fleet.node(2, "web", &fleet.all()),
        fleet.node(3, "web", &fleet.all()),
    );
    wait_for(&first, &[1, 2, 3]);
    wait_for(&third, &[1, 2, 3]);
    assert_eq!(
        (0..6)
            .map(|_| answer(&first))
            .collect::<std::collections::BTreeSet<_>>(),
        set(&[1, 2, 3])
    );
    let name = format!("all (127.0.0.2:{})", fleet.port);
    let status = first.status("/upstreams/u/servers");
    assert_eq!(status[&name]["target"]["host"], "node-2", "{status}");
    assert_eq!(first.status("/source")["address"], "127.0.0.1");

    // One stops in peace: others know before it takes no more.
    let load = Load::start(&LoadOptions::get(first.address(), "/", 4));
    assert!(load.wait_for_answers(50, PATIENCE));
    second.stop(libc::SIGQUIT);
    assert_eq!(servers(&first), set(&[1, 3]));
    assert!(
        second.log().contains("leaving the fleet"),
        "{}",
        second.log()
    );
    // One comes.
    let fourth = fleet.node(4, "web", &fleet.all());
    wait_for(&first, &[1, 3, 4]);
    assert!(load.wait_for_answers(50, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures() + outcome.refused, 0, "{outcome}");

    // One dies without a word: its lease ends.
    fourth.signal(libc::SIGKILL);
    wait_for(&first, &[1, 3]);
    wait_for(&third, &[1, 3]);
    // One that follows nodes leaves by itself as well.
    first.stop(libc::SIGTERM);
    wait_for(&third, &[3]);
}

#[test]
fn a_label_means_some_of_them() {
    let fleet = Fleet::new(3);
    let web = json!({"role=web": {"fleet": {"port": fleet.port}}});
    let front = fleet.node(1, "front", &web);
    // No node yet.
    front.wait_for_log("no live node of the fleet matches `role=web`");
    assert_eq!(front.get("/").status, 502);
    let _second = fleet.node(2, "web", &web);
    let _third = fleet.node(3, "mail", &web);
    wait_for(&front, &[2]);
    front.wait_for_log("nodes of the fleet match `role=web` again");
    assert_eq!(answer(&front), 2);
    // Another role, beside the others.
    let both = json!({"role=web": {"fleet": {"port": fleet.port}}, "role=mail": {"fleet": {"port": fleet.port}, "backup": true}});
    front.put("/config", &fleet.configuration(&front, 1, &both));
    wait_for(&front, &[2, 3]);
    assert_eq!(answer(&front), 2);
}

#[test]
fn a_store_that_is_away_takes_nothing_away() {
    let mut fleet = Fleet::new(3);
    let mut first = fleet.node(1, "web", &fleet.all());
    let second = fleet.node(2, "web", &fleet.all());
    let third = fleet.node(3, "web", &fleet.all());
    wait_for(&first, &[1, 2, 3]);
    // A node that starts may know of no other for a moment.
    let lonely = |node: &Server| {
        node.log()
            .matches("no live node of the fleet matches `all`")
            .count()
    };
    let before = lonely(&first);
    fleet.etcd.kill(0);
    first.wait_for_log("the nodes `all` of the fleet cannot be followed");
    first.wait_for_log("their last addresses are kept");
    assert_eq!(servers(&first), set(&[1, 2, 3]));
    // A router begins with what main knows, and a server with what is on its disk.
    first.kill_router();
    wait_until("another router", || first.get("/").status == 200);
    assert_eq!(servers(&first), set(&[1, 2, 3]));
    first.start_again(&options(&fleet.source(1, "web")));
    wait_for(&first, &[1, 2, 3]);
    // Meanwhile one dies. The others are there all the time when the store is.
    // Nothing that is sent while it dies is meant here.
    third.kill();
    let load = Load::start(&LoadOptions::get(first.address(), "/", 2));
    fleet.etcd.start_again(0);
    wait_for(&first, &[1, 2]);
    wait_for(&second, &[1, 2]);
    assert!(load.wait_for_answers(50, PATIENCE));
    let outcome = load.stop();
    assert_eq!(outcome.failures() + outcome.refused, 0, "{outcome}");
    assert_eq!(lonely(&first), before, "{}", first.log());
}

#[test]
fn without_a_source_there_are_no_nodes() {
    let server = Server::start(&ServerOptions::default());
    let upstream = json!({"upstreams": {"u": {"servers": {"all": {"fleet": {"port": 80}}}}}});
    let refused = server.call("PUT", "/config", &upstream);
    assert_eq!(refused.status, 400, "{}", refused.text());
    let told = refused.json();
    assert_eq!(told["path"], "/upstreams/u/servers/all/fleet", "{told}");
    assert!(refused.text().contains("settings.source"), "{told}");
    // With one it is taken, also while no server answers there.
    let mut with = upstream.clone();
    with["settings"] = json!({"source": {"etcd": {"endpoints": ["http://127.0.0.1:1"]}}});
    server.put("/config", &with);
    server.wait_for_log("the nodes `all` of the fleet cannot be followed");
    // And the source cannot be taken away from under it.
    let refused = server.call("DELETE", "/config/settings", &Value::Null);
    assert_eq!(refused.status, 400, "{}", refused.text());
    server.put("/config", &json!({}));
}
