//! Purges of caches in a fleet: they come to all nodes, once, in their order, and also to those that were away.

#[path = "cache/origin.rs"]
#[allow(dead_code, reason = "several tests share it")]
mod origin;

use origin::{Origin, answer};
use serde_json::{Value, json};
use tutti_e2e::etcd::Etcd;
use tutti_e2e::fleet::{Fleet, options};
use tutti_testkit::client::{self, Reply};
use tutti_testkit::{Server, ServerOptions, wait_until};

/// Targets that each node has in its cache.
const TARGETS: [&str; 4] = ["/news/1", "/news/2", "/page", "/other"];

/// An origin whose answers last, with a tag that is the last part of the target.
fn lasting() -> Origin {
    Origin::start(|head| {
        let target = head.split(' ').nth(1).unwrap();
        let tag = target.rsplit('/').next().unwrap();
        let fields = format!("Cache-Control: max-age=6000\r\nSurrogate-Key: tag-{tag}\r\n");
        answer(200, &fields, target)
    })
}

fn configuration(server: &Server, origin: &Origin) -> Value {
    json!({
        "listeners": {server.address().to_string(): {"pass": "routes"}},
        "routes": [{"action": {"proxy": origin.url(), "cache": "pages"}}],
        "settings": {"cache": {
            "pages": {"disk": {"size": "8M"}},
            "unused": {},
        }},
    })
}

fn get(server: &Server, target: &str) -> Reply {
    let text = format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    let reply = client::request(server.address(), text.as_bytes()).unwrap();
    assert_eq!(reply.text(), target);
    reply
}

fn is_hit(server: &Server, target: &str) -> bool {
    let reply = get(server, target);
    let told = reply.field("cache-status").unwrap_or_default();
    told.starts_with("Tutti; hit")
}

/// Returns for each target if it was in the cache; it is then.
fn hits(server: &Server) -> [bool; 4] {
    TARGETS.map(|target| is_hit(server, target))
}

fn is_open(server: &Server) -> bool {
    server.status("/cache/pages/disk/open") == json!(true)
}

/// Nodes that have everything in their caches.
fn filled(names: &[&str]) -> (Fleet, Origin) {
    let origin = lasting();
    let fleet = Fleet::on(Etcd::start(1), names, &json!({}));
    for node in &fleet.nodes {
        node.put("/config", &configuration(node, &origin));
        wait_until("the file is open", || is_open(node));
        hits(node);
        assert_eq!(hits(node), [true; 4]);
    }
    (fleet, origin)
}

/// Options of a node that follows this source; it waits for the fleet for so many seconds before it uses what is on disk.
fn holding(fleet: &Fleet, name: &str, seconds: u32) -> ServerOptions {
    let mut options = options(&fleet.etcd.source(name, &json!({})));
    options.wrapper.push(format!("TUTTI_FLEET_HOLD={seconds}"));
    options
}

/// Waits until a node is where the fleet is, and uses what is on disk.
fn wait_until_purged(server: &Server, number: u64) {
    wait_until("the purges are made", || {
        server.status("/source/purge") == json!(number)
            && server.status("/cache/pages/disk/held") == json!(false)
            && is_open(server)
    });
}

#[test]
fn a_purge_reaches_all_nodes_and_is_waited_for() {
    let (fleet, _origin) = filled(&["a", "b", "c"]);
    let expect = |expected: [bool; 4]| {
        for node in &fleet.nodes {
            assert_eq!(hits(node), expected);
            assert_eq!(hits(node), [true; 4]);
        }
    };
    let words = fleet.succeed(&["purge", "pages", "--tag", "tag-1"]);
    assert_eq!(words, "done: purge 1 was made on 3 nodes: a b c\n");
    expect([false, true, true, true]);
    fleet.succeed(&["purge", "--under", "http://a.example/news/"]);
    expect([false, false, true, true]);
    fleet.succeed(&["purge", "pages", "--url", "http://a.example/page"]);
    expect([true, true, false, true]);
    fleet.succeed(&["purge", "pages", "--all"]);
    expect([false; 4]);
    // Another cache, and one that is nowhere.
    fleet.succeed(&["purge", "unused", "--all"]);
    let words = fleet.succeed(&["purge", "nowhere", "--all", "--json"]);
    let told: Value = serde_json::from_str(&words).unwrap();
    assert_eq!(told["purge"], 6, "{told}");
    assert_eq!(told["cache"], "nowhere");
    assert_eq!(told["purged"], json!(["a", "b", "c"]));
    assert_eq!((&told["waiting"], &told["gone"]), (&json!([]), &json!([])));
    expect([true; 4]);
    wait_until_purged(&fleet.nodes[1], 6);
    // It has to be said what goes.
    assert!(fleet.fail(&["purge", "pages"]).contains("--all"));
    // Many at the same time are all made.
    let commands = (0..6).map(|_| {
        let mut command = fleet.command(&["purge", "pages", "--tag", "tag-other", "--json"]);
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    });
    let commands: Vec<_> = commands.collect();
    for mut command in commands {
        assert!(command.wait().unwrap().success());
    }
    wait_until_purged(&fleet.nodes[2], 12);
    expect([true, true, true, false]);
}

#[test]
fn a_purge_of_a_cache_that_is_not_in_force_counts_when_it_is_back() {
    let (fleet, origin) = filled(&["a"]);
    let node = &fleet.nodes[0];
    let with_cache = configuration(node, &origin);
    let mut without = with_cache.clone();
    let action = without["routes"][0]["action"].as_object_mut().unwrap();
    action.remove("cache");
    without["settings"] = json!({});
    node.put("/config", &without);
    fleet.succeed(&["purge", "pages", "--all"]);
    node.put("/config", &with_cache);
    wait_until("the file is open", || is_open(node));
    assert_eq!(hits(node), [false; 4]);
}

#[test]
fn a_router_or_a_follower_that_ends_makes_no_purge_twice_and_misses_none() {
    let (fleet, _origin) = filled(&["a"]);
    let node = &fleet.nodes[0];
    fleet.succeed(&["purge", "pages", "--tag", "tag-1"]);
    assert_eq!(hits(node), [false, true, true, true]);
    // Another process for the source: what was made is not made again.
    let kept = node.folder().join("state/fleet/purged");
    wait_until("main keeps what was made", || {
        std::fs::read_to_string(&kept).is_ok_and(|text| text.contains("\"number\":1,"))
    });
    let before = node.pids("tutti: fleet");
    for pid in &before {
        let _ = tutti_sys::signal::send(*pid, libc::SIGKILL);
    }
    wait_until("another follows", || {
        let now = node.pids("tutti: fleet");
        !now.is_empty() && now != before && fleet.source_of(0)["connected"] == true
    });
    fleet.succeed(&["purge", "pages", "--tag", "tag-page"]);
    assert_eq!(hits(node), [true, true, false, true]);
    node.kill_router();
    fleet.succeed(&["purge", "pages", "--tag", "tag-2"]);
    wait_until_purged(node, 3);
    assert!(!is_hit(node, "/news/2"));
}

#[test]
fn a_node_that_was_away_purges_before_it_serves_from_disk() {
    let (mut fleet, _origin) = filled(&["a", "b"]);
    fleet.nodes[1].stop(libc::SIGTERM);
    let words = fleet.succeed(&["purge", "pages", "--tag", "tag-1"]);
    assert!(words.contains("purge 1 was made on 1 node: a\n"), "{words}");
    fleet.succeed(&["purge", "pages", "--url", "http://a.example/page"]);
    // It has longer to wait than the test lasts.
    let again = holding(&fleet, "b", 3600);
    fleet.nodes[1].start_again(&again);
    let node = &fleet.nodes[1];
    assert!(
        !is_hit(node, "/news/1"),
        "it was purged while the node was away"
    );
    wait_until_purged(node, 2);
    // The rest is still there.
    assert!(is_hit(node, "/news/2") && is_hit(node, "/other"));
    assert!(!is_hit(node, "/page"));
    assert!(
        !node.log().contains("caches were emptied"),
        "{}",
        node.log()
    );
    // A restart alone purges nothing.
    hits(node);
    fleet.nodes[1].stop(libc::SIGTERM);
    fleet.nodes[1].start_again(&again);
    wait_until_purged(&fleet.nodes[1], 2);
    assert_eq!(hits(&fleet.nodes[1]), [true; 4]);
}

#[test]
fn without_the_store_what_is_on_disk_is_used_and_purged_when_it_is_back() {
    let (mut fleet, _origin) = filled(&["a", "b"]);
    fleet.nodes[1].stop(libc::SIGTERM);
    fleet.succeed(&["purge", "pages", "--tag", "tag-1"]);
    fleet.etcd.kill(0);
    let again = holding(&fleet, "b", 1);
    fleet.nodes[1].start_again(&again);
    let node = &fleet.nodes[1];
    node.wait_for_log("the fleet has not reported missed purges of caches yet");
    wait_until("the file is open", || is_open(node));
    assert_eq!(hits(node), [true; 4]);
    fleet.etcd.start_again(0);
    wait_until_purged(&fleet.nodes[1], 1);
    assert_eq!(hits(&fleet.nodes[1]), [false, true, true, true]);
}

#[test]
fn a_node_that_was_away_for_too_long_purges_everything_and_says_so() {
    let (mut fleet, _origin) = filled(&["a", "b"]);
    fleet.succeed(&["purge", "pages", "--tag", "tag-1"]);
    for node in &fleet.nodes {
        hits(node);
    }
    fleet.nodes[1].stop(libc::SIGTERM);
    for _ in 0..2 {
        fleet.succeed(&["purge", "pages", "--tag", "tag-2"]);
    }
    // As after a day, or a thousand more of them.
    for number in [1, 2] {
        let key = format!("/tutti/purges/{number:012}");
        fleet.etcd.ctl(&["del", &key]);
    }
    let again = holding(&fleet, "b", 3600);
    fleet.nodes[1].start_again(&again);
    wait_until_purged(&fleet.nodes[1], 3);
    assert_eq!(hits(&fleet.nodes[1]), [false; 4]);
    fleet.nodes[1].wait_for_log("the store no longer has all cache purges since number 1");
    // The other one has missed nothing.
    assert_eq!(hits(&fleet.nodes[0]), [true, false, true, true]);
    // A store that was restored from a copy says other purges by the same numbers.
    fleet.etcd.copy("old");
    for _ in 0..2 {
        fleet.succeed(&["purge", "pages", "--tag", "nothing"]);
    }
    for node in &fleet.nodes {
        wait_until_purged(node, 5);
        hits(node);
        assert_eq!(hits(node), [true; 4]);
    }
    fleet.etcd.restore("old", false);
    for node in &fleet.nodes {
        wait_until_purged(node, 3);
        assert_eq!(hits(node), [false; 4]);
    }
}

#[test]
fn a_node_that_cannot_purge_is_named_and_does_it_later() {
    let (fleet, _origin) = filled(&["a", "b"]);
    let follower = fleet.nodes[1].pids("tutti: fleet");
    let router = fleet.nodes[1].router();
    // Its answer stays, for who follows the store goes on.
    let _ = tutti_sys::signal::send(router, libc::SIGSTOP);
    let words = fleet.fail(&["purge", "pages", "--tag", "tag-1", "--timeout", "5"]);
    assert!(
        words.contains("purge 1 was not made within 5 seconds by: b\n  purged: a"),
        "{words}"
    );
    let run = fleet.run(&[
        "purge",
        "pages",
        "--tag",
        "tag-2",
        "--timeout",
        "1",
        "--json",
    ]);
    let told: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(!run.status.success());
    let waiting = told["waiting"].as_array().unwrap();
    assert!(waiting.contains(&json!("b")), "{told}");
    let _ = tutti_sys::signal::send(router, libc::SIGCONT);
    wait_until_purged(&fleet.nodes[1], 2);
    assert_eq!(hits(&fleet.nodes[1]), [false, false, true, true]);
    assert_eq!(fleet.nodes[1].pids("tutti: fleet"), follower);
    assert_eq!(fleet.nodes[1].router(), router);
}
