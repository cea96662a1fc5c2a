//! The part of a cache that is on disk: what outlasts memory, processes and versions, and what no other user may put into it.

#[path = "cache/origin.rs"]
#[allow(dead_code, reason = "two tests share it")]
mod origin;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use origin::{Origin, answer, field};
use serde_json::{Value, json};
use tutti_e2e::documents::json_examples;
use tutti_testkit::client::{self, Reply};
use tutti_testkit::{Server, ServerOptions, is_root, skipped, wait_until};

/// Bytes of a usual body: memory holds less than twenty.
const BODY: usize = 50_000;
/// Responses of which most are not in memory any more.
const MANY: usize = 40;

/// A store with little memory.
fn small() -> Value {
    json!({"memory": "1M", "max_object": "100K", "disk": {"size": "8M"}})
}

fn configuration(server: &Server, origin: &Origin, store: &Value) -> Value {
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "routes"}},
        "routes": [{"action": {"proxy": origin.url(), "cache": "pages"}}],
        "settings": {"cache": {"pages": store}},
    })
}

fn started(origin: &Origin, options: &ServerOptions) -> Server {
    let server = Server::start(options);
    server.put("/config", &configuration(&server, origin, &small()));
    server
}

fn send(server: &Server, method: &str, target: &str, fields: &str) -> Reply {
    let text = format!(
        "{method} {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{fields}\r\n"
    );
    client::request(server.address(), text.as_bytes()).unwrap()
}

fn get(server: &Server, target: &str) -> Reply {
    send(server, "GET", target, "")
}

fn cache_status(reply: &Reply) -> &str {
    reply.field("cache-status").unwrap_or_default()
}

fn is_hit(reply: &Reply) -> bool {
    cache_status(reply).starts_with("Tutti; hit")
}

fn is_from_disk(reply: &Reply) -> bool {
    is_hit(reply) && cache_status(reply).ends_with("detail=disk")
}

/// A body that says what it is the answer to.
fn body(target: &str, length: usize) -> String {
    let line = format!("{target} ");
    line.repeat(length / line.len() + 1)[..length].to_owned()
}

/// An origin whose bodies have this length, with these fields and a tag that is the target.
fn origin_of(length: usize, fields: &'static str) -> Origin {
    Origin::start(move |head| {
        let target = head.split(' ').nth(1).unwrap();
        let fields = format!(
            "{fields}Surrogate-Key: page{}\r\n",
            target.replace('/', "-")
        );
        answer(200, &fields, &body(target, length))
    })
}

fn lasting() -> Origin {
    origin_of(BODY, "Cache-Control: max-age=600\r\n")
}

fn disk(server: &Server, number: &str) -> u64 {
    let status = server.status("/cache/pages/disk");
    status.pointer(number).and_then(Value::as_u64).unwrap_or(0)
}

/// Waits until the file is the server's, and has been read.
fn wait_until_open(server: &Server) {
    wait_until("the file is open", || {
        server.status("/cache/pages/disk/open") == json!(true)
    });
}

/// Asks for `/0` to `/MANY`, after which the first ones are on disk.
fn fill(server: &Server) {
    wait_until_open(server);
    for number in 0..MANY {
        get(server, &format!("/{number}"));
    }
    wait_until("the first are written", || {
        disk(server, "/entries") >= MANY as u64 - 20
    });
}

/// Gets what was filled in, which must be right whether it is a hit or not; the number of hits.
fn hits(server: &Server) -> usize {
    let each = (0..MANY).map(|number| {
        let target = format!("/{number}");
        let reply = get(server, &target);
        assert!(reply.text() == body(&target, BODY), "{target}");
        is_hit(&reply)
    });
    each.filter(|is_hit| *is_hit).count()
}

fn file(server: &Server) -> PathBuf {
    server.folder().join("state/cache/pages.cache")
}

#[test]
fn a_response_that_memory_has_no_room_for_is_read_from_disk() {
    let origin = lasting();
    let server = started(&origin, &ServerOptions::default());
    fill(&server);
    let first = get(&server, "/0");
    assert!(is_from_disk(&first), "{}", cache_status(&first));
    assert!(first.text() == body("/0", BODY) && first.field("age").is_some());
    // It is in memory now.
    let again = get(&server, "/0");
    assert!(
        is_hit(&again) && !is_from_disk(&again),
        "{}",
        cache_status(&again)
    );
    let part = send(&server, "GET", "/1", "Range: bytes=0-2\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "/1 "));
    assert_eq!(origin.count(), MANY);
    let metrics = client::control(server.control(), "GET", "/metrics", b"").unwrap();
    let expected = "tutti_cache_disk_responses_total{cache=\"pages\",event=\"read\"} 2";
    assert!(metrics.text().contains(expected), "{}", metrics.text());
    // No other user reads what is there.
    let about = fs::metadata(file(&server)).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let folder = fs::metadata(file(&server).parent().unwrap()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_response_that_is_too_large_for_memory_is_on_disk_at_once() {
    let origin = origin_of(200_000, "Cache-Control: max-age=600\r\n");
    let server = started(&origin, &ServerOptions::default());
    wait_until_open(&server);
    assert!(cache_status(&get(&server, "/large")).ends_with("; stored"));
    for _ in 0..3 {
        let reply = get(&server, "/large");
        assert!(is_from_disk(&reply), "{}", cache_status(&reply));
        assert!(reply.text() == body("/large", 200_000));
    }
    assert_eq!(server.status("/cache/pages/entries"), json!(0));
    // Beyond the bound of the disk, too, it is not stored.
    let origin = origin_of(300_000, "Cache-Control: max-age=600\r\n");
    server.put("/config", &configuration(&server, &origin, &small()));
    let reply = get(&server, "/larger");
    assert!(
        cache_status(&reply).ends_with("detail=size"),
        "{}",
        cache_status(&reply)
    );
}

#[test]
fn everything_outlasts_a_restart() {
    let origin = lasting();
    let mut server = started(&origin, &ServerOptions::default());
    fill(&server);
    server.stop(libc::SIGTERM);
    server.start_again(&ServerOptions::default());
    wait_until_open(&server);
    assert_eq!(hits(&server), MANY, "{}", server.log());
    assert_eq!(origin.count(), MANY);
}

#[test]
fn what_is_on_disk_outlasts_a_killed_router() {
    let origin = lasting();
    let server = started(&origin, &ServerOptions::default());
    fill(&server);
    let written = disk(&server, "/entries");
    server.kill_router();
    wait_until_open(&server);
    assert!(disk(&server, "/entries") >= written);
    let first = get(&server, "/0");
    assert!(is_from_disk(&first), "{}", cache_status(&first));
    assert!(hits(&server) as u64 >= written);
}

#[test]
fn everything_outlasts_an_upgrade() {
    let origin = lasting();
    let server = started(&origin, &ServerOptions::default());
    fill(&server);
    server.upgrade();
    wait_until_open(&server);
    assert_eq!(hits(&server), MANY, "{}", server.log());
    assert_eq!(origin.count(), MANY);
    // The file is the next router's: what comes later is there, too.
    get(&server, "/later");
    server.upgrade();
    wait_until_open(&server);
    assert!(is_hit(&get(&server, "/later")));
}

#[test]
fn what_is_purged_does_not_come_back() {
    let origin = lasting();
    let server = started(&origin, &ServerOptions::default());
    fill(&server);
    let purge = |path: &str, expected: usize| {
        let reply = server.call(
            "DELETE",
            &format!("/control/cache/pages{path}"),
            &json!(null),
        );
        let expected = format!("{expected} responses purged.");
        assert_eq!(reply.json()["success"], json!(expected), "{path}");
    };
    purge("/keys/http%3A%2F%2Fa.example%2F0", 1);
    purge("/tags/page-1", 1);
    purge("/prefixes/http%3A%2F%2Fa.example%2F2", 11);
    assert_eq!(
        send(&server, "POST", "/5", "Content-Length: 0\r\n").status,
        200
    );
    // The purges have been answered; the method's is no slower than those.
    purge("/tags/none", 0);
    server.kill_router();
    wait_until_open(&server);
    for target in ["/0", "/1", "/2", "/20", "/5"] {
        let reply = get(&server, target);
        assert!(!is_hit(&reply), "{target}: {}", cache_status(&reply));
    }
    assert!(is_from_disk(&get(&server, "/3")));
    let everything = server.call("DELETE", "/control/cache/pages", &json!(null));
    assert_eq!(everything.status, 200);
    assert_eq!(disk(&server, "/entries"), 0);
    server.kill_router();
    wait_until_open(&server);
    assert_eq!(hits(&server), 0);
}

#[test]
fn the_file_is_no_larger_than_configured() {
    let origin = lasting();
    let server = Server::start(&ServerOptions::default());
    let store = json!({"memory": "1M", "max_object": "100K", "disk": {"size": "4M"}});
    server.put("/config", &configuration(&server, &origin, &store));
    wait_until_open(&server);
    for number in 0..200 {
        get(&server, &format!("/{number}"));
    }
    wait_until("some have gone", || {
        disk(&server, "/responses/evicted") > 50
    });
    assert!(fs::metadata(file(&server)).unwrap().len() <= 4 << 20);
    assert!(disk(&server, "/size") <= 4 << 20);
    // Those that went last from memory are there, the first are not.
    wait_until("the last ones are there", || is_hit(&get(&server, "/160")));
    let first = get(&server, "/0");
    assert!(!is_hit(&first) && first.text() == body("/0", BODY));
}

#[test]
fn a_renewed_response_is_renewed_on_disk() {
    let origin = Origin::start(|head| {
        let target = head.split(' ').nth(1).unwrap();
        match field(head, "if-none-match") {
            Some(_) => answer(
                304,
                "ETag: \"a\"\r\nCache-Control: max-age=600\r\nX-New: 1\r\n",
                "",
            ),
            None => {
                let fields = "ETag: \"a\"\r\nCache-Control: max-age=0\r\n";
                answer(200, fields, &body(target, BODY))
            }
        }
    });
    let server = started(&origin, &ServerOptions::default());
    fill(&server);
    let renewed = get(&server, "/0");
    assert!(
        cache_status(&renewed).starts_with("Tutti; fwd=stale; fwd-status=304"),
        "{}",
        cache_status(&renewed)
    );
    assert!(renewed.text() == body("/0", BODY));
    assert_eq!(origin.count(), MANY + 1);
    let written = disk(&server, "/responses/written");
    wait_until("it is written", || {
        // Others are pushed out by what is asked for.
        disk(&server, "/responses/written") >= written && is_hit(&get(&server, "/0"))
    });
    server.call("DELETE", "/control/cache/pages/tags/none", &json!(null));
    server.kill_router();
    wait_until_open(&server);
    let reply = get(&server, "/0");
    assert!(
        is_from_disk(&reply) && reply.field("x-new") == Some("1"),
        "{}",
        cache_status(&reply)
    );
    assert_eq!(origin.count(), MANY + 1);
}

#[test]
fn responses_on_disk_are_chosen_by_vary() {
    let origin = Origin::start(|head| {
        let language = field(head, "accept-language").unwrap_or_default();
        let fields = "Cache-Control: max-age=600\r\nVary: Accept-Language\r\n";
        answer(200, fields, &body(&language, BODY))
    });
    let server = started(&origin, &ServerOptions::default());
    let ask = |language: &str| {
        let fields = format!("Accept-Language: {language}\r\n");
        send(&server, "GET", "/x", &fields)
    };
    ask("de");
    ask("en");
    fill(&server);
    server.kill_router();
    wait_until_open(&server);
    for language in ["en", "de"] {
        let reply = ask(language);
        assert!(is_from_disk(&reply), "{language}: {}", cache_status(&reply));
        assert!(reply.text() == body(language, BODY));
    }
    assert!(!is_hit(&ask("fr")));
}

#[test]
fn a_stale_response_on_disk_stands_in_for_an_error() {
    let broken = Arc::new(AtomicUsize::new(0));
    let is_broken = Arc::clone(&broken);
    let origin = Origin::start(move |head| {
        let target = head.split(' ').nth(1).unwrap();
        let fields = "Cache-Control: max-age=0, stale-if-error=600\r\n";
        match is_broken.load(Ordering::Relaxed) {
            0 => answer(200, fields, &body(target, BODY)),
            _ => answer(503, "", "broken"),
        }
    });
    let server = started(&origin, &ServerOptions::default());
    fill(&server);
    server.kill_router();
    wait_until_open(&server);
    broken.store(1, Ordering::Relaxed);
    let reply = get(&server, "/0");
    assert_eq!(reply.status, 200, "{}", cache_status(&reply));
    assert!(cache_status(&reply).contains("detail=error") && reply.text() == body("/0", BODY));
}

#[test]
fn what_is_damaged_is_no_answer() {
    let origin = lasting();
    let mut server = started(&origin, &ServerOptions::default());
    let round = |server: &mut Server, damage: &dyn Fn(&fs::File)| {
        fill(server);
        server.stop(libc::SIGTERM);
        damage(&fs::File::options().write(true).open(file(server)).unwrap());
        server.start_again(&ServerOptions::default());
        wait_until_open(server);
        hits(server)
    };
    // A bit here and there in bodies, metadata and heads.
    let left = round(&mut server, &|file| {
        for place in (1 << 12..file.metadata().unwrap().len()).step_by(170_000) {
            file.write_all_at(b"\xff\xfe", place).unwrap();
        }
    });
    assert!(left < MANY);
    // Cut off.
    let left = round(&mut server, &|file| {
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    });
    assert!(left < MANY);
    // Another version, and no file of ours at all.
    let left = round(&mut server, &|file| file.write_all_at(&[2], 8).unwrap());
    assert_eq!(left, 0);
    let left = round(&mut server, &|file| {
        file.set_len(0).unwrap();
        file.write_all_at(&[b'x'; 100_000], 0).unwrap();
    });
    assert_eq!(left, 0);
    assert_eq!(round(&mut server, &|_| ()), MANY);
}

#[test]
fn a_file_of_somebody_else_is_not_used() {
    let origin = lasting();
    let mut server = started(&origin, &ServerOptions::default());
    fill(&server);
    server.stop(libc::SIGTERM);
    let victim = server.write("victim", "precious");
    let ours = file(&server);
    let link = || {
        fs::remove_file(&ours).unwrap();
        std::os::unix::fs::symlink(&victim, &ours).unwrap();
    };
    let second_name = || {
        fs::remove_file(&ours).unwrap();
        fs::hard_link(&victim, &ours).unwrap();
    };
    let opened_to_others = || {
        fs::remove_file(&ours).unwrap();
        fs::write(&ours, "x").unwrap();
        fs::set_permissions(&ours, PermissionsExt::from_mode(0o666)).unwrap();
    };
    let of_another_user = || {
        fs::remove_file(&ours).unwrap();
        fs::write(&ours, "x").unwrap();
        fs::set_permissions(&ours, PermissionsExt::from_mode(0o600)).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&ours, Some(65534), None).unwrap();
        } else {
            fs::set_permissions(&ours, PermissionsExt::from_mode(0o604)).unwrap();
        }
    };
    let plants: [&dyn Fn(); 4] = [&link, &second_name, &opened_to_others, &of_another_user];
    for plant in plants {
        plant();
        server.start_again(&ServerOptions::default());
        server.wait_for_log("are in memory only");
        // It serves, without a disk.
        get(&server, "/0");
        assert!(is_hit(&get(&server, "/0")));
        let status = server.status("/cache/pages");
        assert!(status["entries"].is_u64() && status["disk"].is_null());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        server.stop(libc::SIGTERM);
    }
    // The answer to a change of the configuration says so.
    server.start_again(&ServerOptions::default());
    let store = json!({"disk": {"size": "16M"}});
    let config = configuration(&server, &origin, &store);
    let reply = server.call("PUT", "/config", &config);
    assert_eq!(reply.status, 500);
    assert!(
        reply.text().contains("cannot keep responses on disk"),
        "{}",
        reply.text()
    );
}

#[test]
fn a_folder_that_is_removed_costs_no_request() {
    let origin = lasting();
    let mut server = started(&origin, &ServerOptions::default());
    fill(&server);
    fs::remove_dir_all(server.folder().join("state/cache")).unwrap();
    // Its responses are not wanted any more.
    assert!(!is_hit(&get(&server, "/0")));
    hits(&server);
    server.wait_for_log("has been removed");
    hits(&server);
    assert_eq!(server.log().matches("has been removed").count(), 1);
    assert_eq!(server.status("/cache/pages/disk/open"), json!(false));
    server.stop(libc::SIGTERM);
    server.start_again(&ServerOptions::default());
    fill(&server);
    assert!(is_from_disk(&get(&server, "/0")));
}

/// A small file system over the state folder, in the server's own mount namespace.
fn on_a_small_disk() -> ServerOptions {
    let script = "for last; do :; done; state=; previous=; for word; do [ \"$previous\" = --statedir ] && state=$word; previous=$word; done; \
        mkdir -p \"$state\" && mount -t tmpfs -o size=1m,mode=700 tmpfs \"$state\" && exec \"$@\"";
    let wrapper = ["unshare", "--mount", "sh", "-c", script, "sh"];
    ServerOptions {
        wrapper: wrapper.map(str::to_owned).to_vec(),
        ..ServerOptions::default()
    }
}

#[test]
fn a_full_disk_costs_no_request() {
    if !is_root() {
        return skipped("only root can mount a small file system");
    }
    let origin = lasting();
    let server = started(&origin, &on_a_small_disk());
    wait_until_open(&server);
    for number in 0..2 * MANY {
        let target = format!("/{number}");
        assert!(get(&server, &target).text() == body(&target, BODY));
    }
    server.wait_for_log("No space left on device");
    wait_until("it is counted", || disk(&server, "/responses/failed") > 0);
    let told = server.log().matches("No space left on device").count();
    for number in 0..2 * MANY {
        let target = format!("/{number}");
        assert!(get(&server, &target).text() == body(&target, BODY));
    }
    // Once for each time that the disk has become full, not for each response.
    assert!(told <= 2, "{}", server.log());
    // Memory goes on.
    assert!(is_hit(&get(&server, &format!("/{}", 2 * MANY - 1))));
}

#[test]
fn two_stores_in_one_folder_are_two() {
    let origin = lasting();
    let server = Server::start(&ServerOptions::default());
    let folder = server.folder().join("own");
    let store =
        json!({"memory": "1M", "max_object": "100K", "disk": {"size": "8M", "path": folder}});
    let mut config = configuration(&server, &origin, &store);
    config["settings"]["cache"]["o/ther"] = store;
    server.put("/config", &config);
    fill(&server);
    assert!(is_from_disk(&get(&server, "/0")));
    let names: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let owner = fs::metadata(folder.join("o%2Fther.cache")).unwrap().uid();
    assert_eq!(owner, fs::metadata(server.folder()).unwrap().uid());
    // Sizes that change empty a store, its name in the configuration is all that it goes by.
    config["settings"]["cache"]["pages"]["disk"]["size"] = json!("9M");
    server.put("/config", &config);
    wait_until_open(&server);
    assert_eq!(disk(&server, "/entries"), 0);
    fill(&server);
    assert!(is_from_disk(&get(&server, "/0")));
}

#[test]
fn the_guides_example_survives_a_restart() {
    let origin = lasting();
    let mut server = Server::start(&ServerOptions::default());
    let port = format!("127.0.0.1:{}", server.port());
    let places = [
        ("*:8080", port.as_str()),
        ("http://127.0.0.1:9000", &origin.url()),
    ];
    let examples = json_examples(include_str!("../../../docs/http/cache.md"), &places);
    let mut examples = examples.into_iter();
    let example = examples
        .find(|one| one.to_string().contains("\"disk\"") && !one.to_string().contains("\"slice\""))
        .unwrap();
    server.put("/config", &example);
    wait_until_open(&server);
    get(&server, "/");
    server.stop(libc::SIGTERM);
    server.start_again(&ServerOptions::default());
    wait_until_open(&server);
    let reply = get(&server, "/");
    assert!(is_from_disk(&reply), "{}", cache_status(&reply));
    assert_eq!(origin.count(), 1);
}
