//! Jobs while processes are killed: what is accepted is delivered, and what is delivered twice is counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tutti_faults::scaled;
use tutti_testkit::{Server, ServerOptions, client, skipped, wait_until};

/// Notes the number of the job and what was posted, in one write.
const PAGE: &str = r#"<?php
$line = $_SERVER['HTTP_X_TUTTI_JOB_ID'] . ' ' . file_get_contents('php://input') . "\n";
file_put_contents(getenv('WORK') . '/jobs', $line, FILE_APPEND | LOCK_EX);
"#;

fn configuration(server: &Server) -> Value {
    json!({
        "listeners": {format!("127.0.0.1:{}", server.port()): {"pass": "spoolers/mail"}},
        "applications": {"app": {
            "type": "php", "root": server.folder().join("site"), "script": "index.php", "processes": 3,
            "environment": {"WORK": server.folder().join("work")}
        }},
        "spoolers": {"mail": {"pass": "applications/app", "backoff": 0.05, "max_backoff": 1, "concurrency": 8}}
    })
}

fn start(options: &ServerOptions) -> Server {
    let server = Server::start(options);
    server.write("site/index.php", PAGE);
    server.write("work/jobs", "");
    for name in ["work", "work/jobs"] {
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(server.folder().join(name), open).unwrap();
    }
    server.put("/config", &configuration(&server));
    server
}

/// The number of deliveries of each job.
fn delivered(server: &Server) -> BTreeMap<String, usize> {
    let text = fs::read_to_string(server.folder().join("work/jobs")).unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let (id, _) = line.split_once(' ').unwrap();
        *counts.entry(id.to_owned()).or_default() += 1;
    }
    counts
}

/// Posts one job; its number, if it was taken.
fn post(address: std::net::SocketAddr, body: &str) -> Option<String> {
    let length = body.len();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let reply = client::request(address, request.as_bytes()).ok()?;
    let id = reply.json()["id"].as_str().map(str::to_owned);
    id.filter(|_| reply.status == 202)
}

/// Threads that post jobs until so many have been taken.
struct Posting {
    accepted: Arc<Mutex<BTreeSet<String>>>,
    unclear: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Posting {
    fn start(server: &Server, jobs: usize) -> Posting {
        let accepted = Arc::new(Mutex::new(BTreeSet::new()));
        let unclear = Arc::new(AtomicUsize::new(0));
        let next = Arc::new(AtomicUsize::new(0));
        let address = server.address();
        let one = || {
            let (accepted, unclear) = (Arc::clone(&accepted), Arc::clone(&unclear));
            let next = Arc::clone(&next);
            std::thread::spawn(move || {
                while next.fetch_add(1, Ordering::Relaxed) < jobs {
                    loop {
                        if let Some(id) = post(address, "x") {
                            accepted.lock().unwrap().insert(id);
                            break;
                        }
                        // It may be stored or not.
                        unclear.fetch_add(1, Ordering::Relaxed);
                        #[allow(
                            clippy::disallowed_methods,
                            reason = "a client that was refused comes again a moment later"
                        )]
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            })
        };
        let threads = (0..8).map(|_| one()).collect();
        Posting {
            accepted,
            unclear,
            threads,
        }
    }

    fn is_done(&self) -> bool {
        self.threads
            .iter()
            .all(std::thread::JoinHandle::is_finished)
    }
}

/// A number that differs from run to run.
fn random() -> usize {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish() as usize
}

#[test]
fn no_job_is_lost_whichever_process_is_killed() {
    let jobs = scaled(1_000, 10_000);
    let options = ServerOptions::default();
    let mut server = start(&options);
    let posting = Posting::start(&server, jobs);
    let mut killed = BTreeMap::new();
    while !posting.is_done() {
        let before = posting.accepted.lock().unwrap().len();
        // Random, but all of them in turn: each run has some of each.
        wait_until("some more jobs", || {
            posting.accepted.lock().unwrap().len() >= before + 20 + random() % 60
                || posting.is_done()
        });
        let victim = ["router", "worker", "worker", "main"][random() % 4];
        match victim {
            "main" => server.start_again(&options),
            "router" => {
                server.kill_router();
            }
            _ => {
                let workers = server.workers("app");
                if let Some(pid) = workers.get(random() % workers.len().max(1)) {
                    let _ = tutti_sys::signal::send(*pid, libc::SIGKILL);
                }
            }
        }
        *killed.entry(victim).or_insert(0) += 1;
    }
    let accepted = posting.accepted.lock().unwrap().clone();
    assert_eq!(accepted.len(), jobs, "each has a number of its own");
    wait_until("all are delivered", || {
        server
            .call("GET", "/status/spoolers/mail/jobs", &Value::Null)
            .json()
            == json!({"waiting": 0, "delivering": 0, "failed": 0})
    });
    let delivered = delivered(&server);
    let lost: Vec<&String> = accepted
        .iter()
        .filter(|id| !delivered.contains_key(*id))
        .collect();
    let again: usize = delivered.values().map(|count| count - 1).sum();
    let unasked = delivered
        .keys()
        .filter(|id| !accepted.contains(*id))
        .count();
    println!(
        "{jobs} jobs, killed {killed:?}: {} lost, {again} deliveries too many; {} posts without an answer, {unasked} of them stored",
        lost.len(),
        posting.unclear.load(Ordering::Relaxed)
    );
    assert!(lost.is_empty(), "{lost:?}");
    assert!(unasked <= posting.unclear.load(Ordering::Relaxed));
}

/// A small file system of its own; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path, size: &str) -> Option<SmallDisk> {
        let options = format!("size={size},mode=0777");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder)
            .status();
        if done.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(folder.to_path_buf()));
        }
        skipped("this user cannot mount a tmpfs");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_refuses_jobs_and_loses_none() {
    let parent = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(parent.path(), "6m") else {
        return;
    };
    let options = ServerOptions {
        state: Some(disk.0.clone()),
        ..ServerOptions::default()
    };
    let server = start(&options);
    // Nothing is delivered until the disk is full.
    let mut far = configuration(&server);
    far["spoolers"]["mail"]["pass"] = json!("routes");
    far["spoolers"]["mail"]["backoff"] = json!(1);
    far["routes"] = json!([{"action": {"return": 503}}]);
    server.put("/config", &far);
    let mut accepted = BTreeSet::new();
    let body = "x".repeat(100_000);
    let is_full = AtomicBool::new(false);
    for _ in 0..200 {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let reply = client::request(server.address(), request.as_bytes()).unwrap();
        match reply.status {
            202 => drop(accepted.insert(reply.json()["id"].as_str().unwrap().to_owned())),
            507 => {
                assert_eq!(reply.field("retry-after"), Some("5"));
                is_full.store(true, Ordering::Relaxed);
                break;
            }
            status => panic!("{status}: {}", server.log()),
        }
    }
    assert!(
        is_full.load(Ordering::Relaxed) && accepted.len() > 5,
        "{}",
        accepted.len()
    );
    server.wait_for_log("jobs cannot be stored or read: the disk is full");
    // More room, and somebody who takes them.
    let done = Command::new("mount")
        .args(["-o", "remount,size=64m"])
        .arg(&disk.0)
        .status();
    assert!(done.unwrap().success());
    server.put("/config", &configuration(&server));
    wait_until("all are delivered", || {
        delivered(&server).len() >= accepted.len()
    });
    let delivered = delivered(&server);
    assert!(accepted.iter().all(|id| delivered.contains_key(id)));
    wait_until("jobs are taken again", || {
        post(server.address(), "y").is_some()
    });
}
