//! A full disk, no descriptors left, and a state file that was cut short.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tutti_faults::{Site, print_outcome};
use tutti_testkit::{PATIENCE, Server, ServerOptions, client, processes, skipped, wait_until};

/// A small file system of its own; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not mount: then there is nothing to test with.
    fn mount(folder: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let options = format!("size={size},mode=0777");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder)
            .status();
        match done {
            Ok(status) if status.success() => Some(Self(folder.to_path_buf())),
            _ => {
                skipped("this user cannot mount a tmpfs");
                None
            }
        }
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        let block = [0; 4096];
        while file.write_all(&block).is_ok() {}
    }
}

impl SmallDisk {
    /// Makes it read-only (`ro`), as the kernel does after an error of a disk, or writable (`rw`).
    fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        let done = Command::new("mount")
            .args(["-o", &options])
            .arg(&self.0)
            .status();
        assert!(done.unwrap().success(), "remounting {how}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn post(server: &Server, length: usize) -> client::Reply {
    let mut request =
        format!("POST /page?n=1 HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
            .into_bytes();
    request.resize(request.len() + length, b'x');
    client::request(server.address(), &request).unwrap()
}

#[test]
fn a_full_disk_for_bodies_refuses_large_ones_and_serves_the_rest() {
    let parent = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&parent.path().join("tmp"), "1m") else {
        return;
    };
    let options = ServerOptions {
        temporary: Some(disk.0.clone()),
        ..ServerOptions::default()
    };
    let site = Site::start(&json!(2), &options);
    let load = site.load(4, 1);
    for _ in 0..5 {
        let reply = post(&site.server, 4 << 20);
        assert_eq!(reply.status, 503, "{}", reply.text());
    }
    // A body that fits is served, before and after: the space of a refused one is given back.
    assert_eq!(
        post(&site.server, 300 << 10).text(),
        format!("ok:1:{}", 300 << 10)
    );
    let outcome = load.stop();
    print_outcome("disk full for bodies", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    // The log names the folder.
    site.server.wait_for_log(disk.0.to_str().unwrap());
}

#[test]
fn a_full_disk_for_the_state_refuses_the_change_and_keeps_the_old_one() {
    let parent = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&parent.path().join("state"), "64k") else {
        return;
    };
    let options = ServerOptions {
        state: Some(disk.0.clone()),
        ..ServerOptions::default()
    };
    let mut site = Site::start(&json!(2), &options);
    let before = site.server.call("GET", "/config", &Value::Null).text();
    disk.fill();
    let padding: Vec<Value> = (0..500)
        .map(|turn| json!({"match": {"uri": format!("/{turn}")}, "action": {"return": 404}}))
        .collect();
    let reply = site.server.call("PUT", "/config/routes", &json!(padding));
    assert_eq!(reply.status, 500, "{}", reply.text());
    assert!(reply.text().contains("space"), "{}", reply.text());
    assert_eq!(
        site.server.call("GET", "/config", &Value::Null).text(),
        before
    );
    assert_eq!(site.server.get("/page?n=3").text(), "ok:3:0");
    site.server.start_again(&options);
    assert_eq!(
        site.server.call("GET", "/config", &Value::Null).text(),
        before,
        "the old file is whole"
    );
}

/// Issue 28: a file system that became read-only (EROFS) had not been tried.
#[test]
fn a_read_only_state_refuses_changes_and_serves_on() {
    let parent = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&parent.path().join("state"), "8m") else {
        return;
    };
    let options = ServerOptions {
        state: Some(disk.0.clone()),
        ..ServerOptions::default()
    };
    let mut site = Site::start(&json!(2), &options);
    let load = site.load(4, 1);
    let before = site.server.call("GET", "/config", &Value::Null).text();
    disk.remount("ro");
    let change = |site: &Site| {
        let action = json!({"action": {"return": 204}});
        site.server.call("POST", "/config/routes", &action)
    };
    let refused = change(&site);
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(refused.text().contains("Read-only"), "{}", refused.text());
    assert_eq!(
        site.server.call("GET", "/config", &Value::Null).text(),
        before
    );
    let outcome = load.stop();
    print_outcome("state that is read-only", &outcome);
    assert_eq!((outcome.failures(), outcome.refused), (0, 0), "{outcome}");
    // Processes that die are replaced.
    site.server.kill_router();
    wait_until("the next router serves", || {
        client::request(
            site.server.address(),
            b"GET /page?n=3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .is_ok_and(|reply| reply.text() == "ok:3:0")
    });
    // A server that starts with it serves the configuration that is stored.
    site.server.start_again(&options);
    wait_until("it serves again", || {
        client::request(
            site.server.address(),
            b"GET /page?n=4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .is_ok_and(|reply| reply.text() == "ok:4:0")
    });
    assert_eq!(
        site.server.call("GET", "/config", &Value::Null).text(),
        before
    );
    assert_eq!(change(&site).status, 500);
    disk.remount("rw");
    let changed = change(&site);
    assert_eq!(changed.status, 200, "{}", changed.text());
}

/// Issue 28: the same of a folder of logs.
#[test]
fn a_read_only_folder_of_logs_refuses_new_ones_and_keeps_what_is_open() {
    let parent = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(&parent.path().join("logs"), "8m") else {
        return;
    };
    let site = Site::start(&json!(2), &ServerOptions::default());
    let log = |name: &str| disk.0.join(name);
    fs::write(log("old.log"), "").unwrap();
    disk.remount("ro");
    let put = |path: &Path| site.server.call("PUT", "/config/access_log", &json!(path));
    for name in ["old.log", "new.log"] {
        let refused = put(&log(name));
        assert_ne!(refused.status, 200, "{name}");
        let text = refused.text();
        assert!(text.contains("Read-only") && text.contains(name), "{text}");
    }
    assert_eq!(site.server.get("/page?n=5").text(), "ok:5:0");
    disk.remount("rw");
    assert_eq!(put(&log("new.log")).status, 200);
    site.server.get("/page?n=6");
    let written = || fs::read_to_string(log("new.log")).unwrap_or_default();
    wait_until("a line", || written().contains("/page?n=6"));
    // Its name leads to the folder that became read-only, when logs are opened again.
    fs::rename(log("new.log"), log("kept.log")).unwrap();
    let over = SmallDisk::mount(&disk.0, "1m").unwrap();
    over.remount("ro");
    site.server.signal(libc::SIGUSR1);
    site.server.wait_for_log("logs reopened");
    assert!(site.server.log().contains("Read-only file system"));
    assert_eq!(site.server.get("/page?n=7").text(), "ok:7:0");
    drop(over);
    wait_until("the line is in the file that was open", || {
        fs::read_to_string(log("kept.log"))
            .unwrap_or_default()
            .contains("/page?n=7")
    });
}

#[test]
fn without_descriptors_the_server_waits_and_recovers() {
    let wrapper = ["prlimit", "--nofile=160:160"].map(str::to_owned).to_vec();
    let site = Site::start(
        &json!(2),
        &ServerOptions {
            wrapper,
            ..ServerOptions::default()
        },
    );
    let passwords = site.server.write(
        "passwords",
        "anna:$2y$04$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy\n",
    );
    let log = site.server.folder().join("access.log");
    let mut configuration = site.configuration(&json!(2));
    configuration["access_log"] = json!(log);
    let guarded = json!({"match": {"uri": "/private"}, "action": {"return": 204, "authenticate": {"basic": {"file": passwords}}}});
    configuration["routes"]
        .as_array_mut()
        .unwrap()
        .insert(0, guarded);
    site.server.put("/config", &configuration);
    let router = site.server.router();
    let mut held: Vec<TcpStream> = (0..400)
        .map(|_| TcpStream::connect(site.server.address()).unwrap())
        .collect();
    wait_until("the log tells it", || {
        site.server.log().to_lowercase().contains("open files")
    });
    // The messages of main need descriptors, too: those with a reopened log, and every three seconds those with the file of passwords.
    fs::write(
        &passwords,
        "bob:$2y$04$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy\n",
    )
    .unwrap();
    fs::rename(&log, site.server.folder().join("old.log")).unwrap();
    site.server.signal(libc::SIGUSR1);
    wait_until("the log is reopened", || log.exists());
    // Waiting must not burn the processor: for as long as another server gives a head that has begun.
    let ticks = processes::cpu_ticks(router);
    let other = Server::start(&ServerOptions::default());
    let listeners = json!({format!("127.0.0.1:{}", other.port()): {"pass": "routes"}});
    let settings = json!({"http": {"header_read_timeout": 1}});
    other.put(
        "/config",
        &json!({"listeners": listeners, "routes": [], "settings": settings}),
    );
    let mut late = client::Client::to(other.address());
    late.send("GET /");
    assert_eq!(late.response("GET").status, 408);
    assert!(
        processes::cpu_ticks(router) - ticks < 50,
        "the router spins"
    );
    // A connection that was accepted is served.
    let first = held.first_mut().unwrap();
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    first
        .write_all(b"GET /page?n=2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    first.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("ok:2:0"), "{answer}");
    drop(held);
    assert_eq!(site.server.get("/page?n=4").text(), "ok:4:0");
    assert_eq!(site.server.router(), router, "the router has not ended");
    let said = site
        .server
        .log()
        .to_lowercase()
        .matches("open files")
        .count();
    assert!(said < 20, "said {said} times");
}

#[test]
fn a_state_file_cut_short_at_any_byte_never_keeps_the_server_from_starting() {
    let state = tempfile::tempdir().unwrap();
    let options = ServerOptions {
        state: Some(state.path().to_path_buf()),
        ..ServerOptions::default()
    };
    let mut server = Server::start(&options);
    let address = format!("127.0.0.1:{}", server.port());
    server.put("/config", &json!({"listeners": {address: {"pass": "routes"}}, "routes": [{"action": {"return": 204}}]}));
    let file = state.path().join("conf.json");
    let whole = fs::read(&file).unwrap();
    let whole_answer = server.call("GET", "/config", &Value::Null).text();
    // Each start takes a moment: in the small run every seventh byte, and both ends.
    let step = tutti_faults::scaled(7, 1);
    for length in (0..=whole.len()).filter(|length| length % step == 0 || whole.len() - length < 3)
    {
        server.signal(libc::SIGTERM);
        server.wait_for_end();
        fs::write(&file, &whole[..length]).unwrap();
        server.start_again(&options);
        let config = server.call("GET", "/config", &Value::Null);
        assert_eq!(config.status, 200);
        if config.text() == whole_answer {
            assert_eq!(server.get("/").status, 204, "cut at {length}");
        } else {
            assert_eq!(config.json(), json!({}), "cut at {length}");
            // An empty file holds nothing worth keeping.
            if length > 0 {
                server.wait_for_log("[alert]");
                // The control socket answers before the old file has been put aside.
                wait_until(&format!("cut at {length}: it is kept"), || {
                    fs::read_dir(state.path()).unwrap().flatten().any(|entry| {
                        entry.file_name() != "conf.json"
                            && fs::read(entry.path()).is_ok_and(|bytes| bytes == whole[..length])
                    })
                });
            }
        }
    }
}
