//! The things that a virtual machine is given: its memory, virtual threads, another Java than the first.

use std::path::PathBuf;

use serde_json::json;
use tutti_e2e::java::{JavaSite, homes};
use tutti_e2e::read_until;
use tutti_testkit::wait_until;
use tutti_websocket_cases::{Frame, Heard, WebSocketClient, build};

/// The first Java with virtual threads (JEP 444).
const VIRTUAL_THREADS: u32 = 21;

/// A Java with virtual threads, if there is one.
fn with_virtual_threads() -> Option<(u32, PathBuf)> {
    homes()
        .into_iter()
        .find(|(version, _)| *version >= VIRTUAL_THREADS)
}

#[test]
fn half_of_the_memory_limit_is_the_heaps_and_a_request_beyond_it_is_500() {
    let site = JavaSite::start("jakarta", &json!({"limits": {"memory": "400M"}}));
    let heap: u64 = site.text("/q/heap").parse().unwrap();
    assert!((150 << 20..=200 << 20).contains(&heap), "{heap}");
    let reply = site.get("/q/memory");
    assert_eq!(reply.status, 500, "{}", reply.text());
    site.wait_for_log("OutOfMemoryError");
    site.wait_for_log("Questions.memory(Questions.java:");
    assert_eq!(site.text("/q/hello"), "hello");
    // The application's own options win.
    site.configure(&json!({"limits": {"memory": "400M"}, "options": ["-Xmx64m"]}));
    let heap: u64 = site.text("/q/heap").parse().unwrap();
    assert!(heap <= 64 << 20, "{heap}");
}

#[test]
fn a_process_beyond_its_limit_is_replaced_after_its_request() {
    // A virtual machine alone is larger than that.
    let site = JavaSite::start("jakarta", &json!({}));
    let workers = site.workers();
    site.configure(&json!({"limits": {"memory": "24M", "memory_max": 0}, "options": ["-Xmx100m"]}));
    assert_ne!(site.workers(), workers);
    site.wait_for_log("`limits.memory`");
    assert_eq!(site.text("/q/hello"), "hello", "it serves all the same");
}

#[test]
fn virtual_threads_run_requests_and_websockets() {
    let Some((version, home)) = with_virtual_threads() else {
        tutti_testkit::skip!(
            "virtual threads need Java {VIRTUAL_THREADS}: apt-get install openjdk-21-jre-headless, or later"
        );
    };
    // One thread takes the requests; many are served at once.
    let site = JavaSite::start(
        "jakarta",
        &json!({"java_home": home, "virtual_threads": true, "request_buffering": false}),
    );
    let told = site.text("/q/thread");
    assert!(
        told.starts_with("VirtualThread") && told.ends_with(&format!(" of Java {version}")),
        "{told}"
    );
    // Nothing ended a handshake that was refused before Jetty had it.
    for _ in 0..2 {
        let Err(refused) = WebSocketClient::open(site.server.address(), "/talk;a=b", "") else {
            panic!("accepted with parameters of the path");
        };
        assert!(refused.contains("400"), "{refused}");
    }
    let worker = site.workers()[0];
    let mut one = site.open("/q/meet");
    let mut other = site.open("/q/meet");
    for stream in [&mut one, &mut other] {
        read_until(stream, &format!("true {worker}"));
    }
    let body = vec![b'x'; 2_000_000];
    assert!(site.post("/q/listener", &body).body == body);
    let reply = site.get("/q/large?size=3000000");
    assert_eq!(reply.body.len(), 3_000_000);
    let mut waits = site.open("/q/async");
    site.wait_for_note("async", "begun");
    let mut clients: Vec<_> = (0..50)
        .map(|_| {
            WebSocketClient::open(site.server.address(), "/talk", "")
                .unwrap()
                .0
        })
        .collect();
    let say = |client: &mut WebSocketClient, text: &str| {
        client.send(&build(&[Frame::new(1, text)])).unwrap();
    };
    for client in &mut clients {
        say(client, "push 20 100000");
    }
    assert_eq!(site.text("/q/hello"), "hello");
    for client in &mut clients {
        for number in 0..20_u8 {
            let expected = Heard::Message(2, vec![number; 100_000]);
            assert!(client.hear().unwrap() == expected, "message {number}");
        }
        say(client, "heard");
        assert_eq!(client.hear().unwrap(), Heard::Message(1, b"heard".to_vec()));
    }
    std::fs::write(site.work().join("go"), "").unwrap();
    read_until(&mut waits, "from another thread");
    drop(clients);
    wait_until("all are reported", || {
        let notes = std::fs::read_to_string(site.work().join("closed")).unwrap_or_default();
        notes.lines().count() == 50
    });
}

#[test]
fn virtual_threads_are_refused_where_there_are_none() {
    let Some((version, home)) = homes()
        .into_iter()
        .find(|(version, _)| *version < VIRTUAL_THREADS)
    else {
        tutti_testkit::skip!("there is no Java below {VIRTUAL_THREADS}");
    };
    let site = JavaSite::start("jakarta", &json!({}));
    let refused = site.refused(&json!({"java_home": home, "virtual_threads": true}));
    let text = refused.to_string();
    assert!(
        text.contains(&format!("is Java {version}")) && text.contains("virtual threads"),
        "{text}"
    );
    let pointer = &refused["errors"][0]["pointer"];
    assert_eq!(*pointer, json!("/applications/java/virtual_threads"));
}

#[test]
fn every_java_of_this_machine_runs_both_kinds_of_applications() {
    for (version, home) in homes() {
        for name in ["javax", "jakarta"] {
            let site = JavaSite::start(name, &json!({"java_home": home}));
            let told = site.text("/q/thread");
            assert!(told.ends_with(&format!(" of Java {version}")), "{told}");
            assert_eq!(site.get("/page.jsp?word=said").text().trim(), "1 2 3 said");
            let (mut client, _) =
                WebSocketClient::open(site.server.address(), "/jetty", "").unwrap();
            client.send(&build(&[Frame::new(1, "echo")])).unwrap();
            assert_eq!(client.hear().unwrap(), Heard::Message(1, b"echo".to_vec()));
        }
    }
}
