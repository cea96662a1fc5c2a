//! The operator and the visitors of a PHP site may rely on this, through the whole server.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use tutti_e2e::{Site, read_until};
use tutti_sys::{credentials::is_root, signal};
use tutti_testkit::{PATIENCE, client, skip, wait_until};

/// Sends `GET target` and leaves the answer to be read.
fn open(site: &Site, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(site.server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn touch(path: &Path) {
    fs::write(path, "").unwrap();
}

fn active(site: &Site) -> Value {
    site.server.status("/applications/php/requests/active")
}

// The request.

#[test]
fn an_absolute_target_is_the_host_that_a_script_sees() {
    let site = Site::start(&json!({}));
    let target = "http://shop.example:8080/server.php?a=b";
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n");
    let reply = client::request(site.server.address(), request.as_bytes()).unwrap();
    let seen = &reply.json()["server"];
    // RFC 9112 §3.2.2: `Host` is replaced by what the target says.
    assert_eq!(seen["HTTP_HOST"], "shop.example:8080");
    assert_eq!(seen["SERVER_NAME"], "shop.example");
    assert_eq!(seen["REQUEST_URI"], "/server.php?a=b");
}

// Output.

#[test]
fn a_finished_request_is_answered_while_its_script_goes_on() {
    let site = Site::start(&json!({"processes": 1}));
    let reply = site.get(&format!("/finished.php?folder={}", site.work().display()));
    assert_eq!((reply.status, reply.text().as_str()), (200, "answer"));
    assert!(!site.work().join("after.json").exists());
    // The only worker is still with that script: the next request waits for it, and is not lost.
    let mut next = open(&site, "/pid.php");
    touch(&site.work().join("go"));
    let pid = site.written("after.json")["pid"].clone();
    read_until(&mut next, &pid.to_string());
}

#[test]
fn a_script_whose_client_has_gone_ends_unless_it_objects() {
    let site = Site::start(&json!({}));
    for (name, option) in [("ends", ""), ("goes-on", "&ignore")] {
        let file = site.work().join(name);
        let stream = open(&site, &format!("/gone.php?file={}{option}", file.display()));
        let started = site.work().join(format!("{name}.started"));
        wait_until("the script to start", || started.exists());
        drop(stream);
        let seen = site.written(name);
        assert_eq!(seen["aborted"], json!(1), "{seen}");
        assert_eq!(seen["went_on"], json!(option == "&ignore"), "{seen}");
    }
    assert_eq!(site.get("/hello.php").status, 200);
}

/// Issue 28, 2.2: WordPress starts its cron by a POST and waits for 0.01 s; while all workers were busy, or none had been started, the
/// request was lost.
#[test]
fn a_request_whose_client_does_not_wait_is_run() {
    let site = Site::start(&json!({"processes": {"max": 1, "spare": 0, "idle_timeout": 60}}));
    let work = site.work();
    let port = site.server.port();
    fs::write(
        site.root().join("cron.php"),
        "<?php file_put_contents($_GET['file'], $_SERVER['REQUEST_METHOD'] . file_get_contents('php://input')); echo str_repeat('x', 3000000);",
    )
    .unwrap();
    let post = |name: &str| {
        let url = format!(
            "http://127.0.0.1:{port}/cron.php?file={}",
            work.join(name).display()
        );
        std::process::Command::new("curl")
            .args(["--silent", "--max-time", "0.01", "--data", "doing=1", &url])
            .output()
            .unwrap();
    };
    // The first process is started for it. On a slow machine curl may give up before it has sent anything.
    wait_until("the first one is run", || {
        post("first");
        fs::read_to_string(work.join("first")).is_ok_and(|text| text == "POSTdoing=1")
    });
    wait_until("all of them to have ended", || active(&site) == json!(0));
    let held = open(&site, &format!("/held.php?path={}", work.display()));
    wait_until("the worker to be busy", || work.join("holding").exists());
    let mut second = TcpStream::connect(site.server.address()).unwrap();
    let target = format!("/cron.php?file={}", work.join("second").display());
    let request =
        format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: 7\r\n\r\ndoing=1");
    second.write_all(request.as_bytes()).unwrap();
    drop(second);
    wait_until("the second one waits", || active(&site) == json!(2));
    let mut third = open(&site, "/hello.php");
    third.shutdown(std::net::Shutdown::Write).unwrap();
    wait_until("the third one waits", || active(&site) == json!(3));
    touch(&work.join("go"));
    let mut answer = String::new();
    third.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(
        fs::read_to_string(work.join("second")).unwrap(),
        "POSTdoing=1"
    );
    drop(held);
}

// Sessions.

#[test]
fn a_session_is_one_request_at_a_time() {
    let site = Site::start(&json!({"processes": 2}));
    let work = site.work();
    let cookie = "Cookie: PHPSESSID=0123456789abcdef0123456789\r\n";
    std::thread::scope(|scope| {
        let held =
            scope.spawn(|| site.get_with(&format!("/held.php?path={}", work.display()), cookie));
        wait_until("the session to be held", || work.join("holding").exists());
        let next =
            scope.spawn(|| site.get_with(&format!("/session.php?path={}", work.display()), cookie));
        wait_until("both workers to be busy", || active(&site) == json!(2));
        touch(&work.join("go"));
        assert_eq!(held.join().unwrap().text(), "10");
        // It has seen what the first one left.
        assert_eq!(next.join().unwrap().text(), "11");
    });
}

// Limits and faults.

/// Issue 12: what a bailout leaves behind in PHP is not for the next request; an exception leaves nothing.
#[test]
fn time_and_memory_limits_cost_the_request_and_the_worker_is_replaced() {
    let site = Site::start(&json!({"processes": 1}));
    for (how, message, is_replaced) in [
        ("memory", "Allowed memory size of", true),
        ("time", "Maximum execution time of 1 second exceeded", true),
        ("exception", "no handler catches me", false),
    ] {
        let pid = site.get("/pid.php").text();
        assert_eq!(site.get(&format!("/ends.php?how={how}")).status, 500);
        site.wait_for_log(message);
        assert_eq!(site.get("/pid.php").text() != pid, is_replaced, "{how}");
    }
}

#[test]
fn a_worker_that_dies_costs_its_own_request() {
    let site = Site::start(&json!({"processes": 2}));
    for fault in ["/kill.php?signal=9", "/kill.php"] {
        let file = site.work().join("release");
        let _ = fs::remove_file(&file);
        let waiting = site.work().join("release.waiting");
        let _ = fs::remove_file(&waiting);
        let mut other = open(&site, &format!("/wait.php?file={}", file.display()));
        wait_until("another request to be under way", || waiting.exists());
        let reply = site.get(fault);
        assert_eq!(reply.status, 502, "{fault}");
        touch(&file);
        assert!(
            read_until(&mut other, "released").starts_with("HTTP/1.1 200"),
            "{fault}"
        );
        wait_until("another worker in its place", || {
            site.server.workers("php").len() == 2
        });
        for _ in 0..10 {
            assert_eq!(site.get("/hello.php").status, 200, "after {fault}");
        }
    }
    site.wait_for_log(
        "was killed by signal 9 while serving `GET /kill.php?signal=9`; answered 502",
    );
    site.wait_for_log("was killed by signal 11 while serving");
}

#[test]
fn a_killed_prototype_costs_nothing() {
    let site = Site::start(&json!({"processes": 2}));
    let mut old = Vec::new();
    wait_until("a prototype", || {
        old = site.server.prototypes("php");
        old.len() == 1
    });
    signal::send(old[0], libc::SIGKILL).unwrap();
    wait_until("another prototype", || {
        let now = site.server.prototypes("php");
        now.len() == 1 && now != old
    });
    for _ in 0..20 {
        assert_eq!(site.get("/hello.php").status, 200);
    }
}

// Log, streams, environment.

#[test]
fn a_scripts_messages_are_in_the_log() {
    let site = Site::start(&json!({}));
    assert_eq!(site.get("/log.php").text(), "logged");
    site.wait_for_log("straight to stderr\n");
    site.wait_for_log("a line of the script's own\n");
    let log = site.server.log();
    let line = log
        .lines()
        .find(|line| line.ends_with("a line of the script's own"))
        .unwrap();
    assert!(line.contains(" [notice] "), "{line}");
}

#[test]
fn streams_environment_and_folder_are_as_configured() {
    let site = Site::start(&json!({}));
    let (out, err) = (site.work().join("out.log"), site.work().join("err.log"));
    site.configure(&json!({
        "processes": 1, "stdout": out, "stderr": err, "working_directory": site.work(),
        "environment": {"COLOUR": "bl\u{fc}e = x"}
    }));
    // PHP goes into a script's own folder while it runs; where workers come from is seen before that.
    wait_until("the old prototype to be gone", || {
        site.server.prototypes("php").len() == 1
    });
    for pid in site.server.prototypes("php") {
        let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
        assert_eq!(folder, site.work());
    }
    let answer = site.get("/identity.php").json();
    assert_eq!(answer["cwd"], json!(site.root()));
    assert_eq!(
        (&answer["server"], &answer["getenv"]),
        (&json!("bl\u{fc}e = x"), &json!("bl\u{fc}e = x"))
    );
    for (path, text) in [(&out, "to stdout"), (&err, "to stderr")] {
        wait_until("the stream's file", || {
            fs::read_to_string(path).is_ok_and(|found| found.contains(text))
        });
    }
    assert!(!site.server.log().contains("to stderr"));
}

#[test]
fn workers_run_as_the_configured_user() {
    if !is_root() {
        skip!("becoming the configured user needs root");
    }
    let site = Site::start(&json!({}));
    let name = |uid: &Value, file: &str| {
        fs::read_to_string(file)
            .unwrap()
            .lines()
            .find_map(|line| {
                let fields: Vec<_> = line.split(':').collect();
                (fields[2].parse().ok() == uid.as_i64()).then(|| fields[0].to_owned())
            })
            .unwrap()
    };
    let user = |answer: &Value| name(&answer["uid"], "/etc/passwd");
    let group = |answer: &Value| name(&answer["gid"], "/etc/group");
    let default = site.get("/identity.php").json();
    assert_eq!(
        (user(&default), group(&default)),
        ("nobody".into(), "nogroup".into())
    );
    assert!(
        !default["groups"].as_array().unwrap().contains(&json!(0)),
        "{default}"
    );
    site.configure(&json!({"user": "www-data"}));
    let other = site.get("/identity.php").json();
    assert_eq!(
        (user(&other), group(&other)),
        ("www-data".into(), "www-data".into())
    );
    assert_eq!(
        (&other["home"], &other["user"], &other["logname"]),
        (&json!("/var/www"), &json!("www-data"), &json!("www-data"))
    );
    site.configure(&json!({"user": "www-data", "group": "daemon"}));
    let both = site.get("/identity.php").json();
    assert_eq!(
        (user(&both), group(&both)),
        ("www-data".into(), "daemon".into())
    );
    assert!(
        !both["groups"].as_array().unwrap().contains(&json!(0)),
        "{both}"
    );
}

// Options.

#[test]
fn what_a_script_says_of_its_answer_is_sent_or_refused() {
    let site = Site::start(&json!({}));
    let mut count = 0;
    let mut answer = |text: &str| {
        // PHP keeps a script for a moment.
        count += 1;
        let name = format!("answer{count}.php");
        fs::write(site.root().join(&name), format!("<?php\n{text}\n")).unwrap();
        site.get(&format!("/{name}"))
    };
    let reply = answer("header('Location: other.php?a=1', true, 303);");
    assert_eq!(
        (reply.status, reply.field("Location")),
        (303, Some("other.php?a=1"))
    );
    let reply = answer("header('Content-type: text/x'); echo 'x';");
    assert!(
        reply.head.contains("Content-Type: text/x"),
        "{}",
        reply.head
    );
    // Issue 28: the last one was sent.
    let mut twice = |second: u32| {
        answer(&format!(
            "header('Content-Length: 4'); header('Content-Length: {second}', false); echo 'body';"
        ))
    };
    assert_eq!(twice(4).text(), "body");
    assert_eq!(twice(5).status, 500);
    site.wait_for_log("contradict each other about Content-Length");
}

#[test]
fn a_directive_that_php_does_not_know_is_a_warning() {
    for processes in [json!(1), json!({"max": 1, "spare": 0})] {
        let site = Site::start(&json!({}));
        let misspelt = json!({
            "processes": processes,
            "options": {"user": {"memory_limmit": "1M"}, "admin": {
                "opcach.enable": "1", "precision": "5", "zend_extension": "opcache.so", "extension": "none.so",
            }},
        });
        let reply = site.try_configure(&misspelt);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let warnings = reply.json()["warnings"].to_string();
        for (name, pointer) in [
            (
                "memory_limmit",
                "/applications/php/options/user/memory_limmit",
            ),
            (
                "opcach.enable",
                "/applications/php/options/admin/opcach.enable",
            ),
        ] {
            let told = format!("PHP does not know the directive `{name}`");
            assert!(warnings.contains(&told), "{warnings}");
            assert!(warnings.contains(pointer), "{warnings}");
        }
        for known in ["precision", "zend_extension", "`extension`"] {
            assert!(!warnings.contains(known), "{warnings}");
        }
        site.wait_for_log("none.so");
    }
}

#[test]
fn user_ini_files_count_for_their_folders_and_for_no_other_request() {
    let options = json!({
        "admin": {"user_ini.cache_ttl": "0", "memory_limit": "99M", "display_errors": "0"},
        "user": {"precision": "7"}
    });
    let site = Site::start(&json!({"processes": 1, "options": options}));
    let write = |name: &str, text: &str| {
        let file = site.root().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    let script = "<?php echo implode(' ', array_map('ini_get', ['precision', 'post_max_size', 'memory_limit', 'disable_functions', 'user_agent'])), ' ', defined('PREPENDED') ? 'prepended' : '';";
    write("u/a/b/s.php", script);
    write("u/other/s.php", script);
    write("u/a/prepended.php", "<?php define('PREPENDED', 1);");
    write(".user.ini", "user_agent = root\n");
    write(
        "u/a/.user.ini",
        &format!(
            "precision = 11\npost_max_size = 3M\nmemory_limit = 1G\ndisable_functions = phpversion\nauto_prepend_file = {}\n",
            site.root().join("u/a/prepended.php").display()
        ),
    );
    write("u/a/b/.user.ini", "precision = 12\n");
    let at = |path: &str| site.get(path).text();
    for _ in 0..2 {
        // `memory_limit` is locked, `disable_functions` is for php.ini alone.
        assert_eq!(at("/u/a/b/s.php"), "12 3M 99M  root prepended");
        assert_eq!(at("/u/other/s.php"), "7 8M 99M  root ");
    }
    for name in ["u/a/.user.ini", "u/a/b/.user.ini"] {
        fs::remove_file(site.root().join(name)).unwrap();
    }
    assert_eq!(at("/u/a/b/s.php"), "7 8M 99M  root ");
    let off = json!({"admin": {"user_ini.filename": ""}, "user": {"precision": "7"}});
    let site = Site::start(&json!({"processes": 1, "options": off}));
    let file = site.root().join(".user.ini");
    fs::write(file, "precision = 11\n").unwrap();
    fs::write(site.root().join("s.php"), script).unwrap();
    assert!(site.get("/s.php").text().starts_with("7 "));
}

#[test]
fn directives_come_from_file_admin_and_user() {
    let site = Site::start(&json!({}));
    let file = site.server.folder().join("php.ini");
    site.configure(&json!({"options": {
        "file": file, "admin": {"memory_limit": "99M"}, "user": {"precision": "7"}
    }}));
    let admin = site.get("/ini.php?name=memory_limit&value=1G").json();
    assert_eq!(
        (&admin["before"], &admin["after"], &admin["file"]),
        (&json!("99M"), &json!("99M"), &json!(file))
    );
    let user = site.get("/ini.php?name=precision&value=9").json();
    assert_eq!(
        (&user["before"], &user["after"]),
        (&json!("7"), &json!("9"))
    );
    let limit = site.get("/ini.php?name=upload_max_filesize").json();
    assert_eq!(limit["before"], "100K");
}

/// Issue 28: a configuration that works under Unit was refused as a whole.
#[test]
fn a_php_ini_or_an_output_file_that_cannot_be_opened_is_a_warning() {
    let site = Site::start(&json!({}));
    site.configure(&json!({
        "stdout": "/no/such/folder/out.log", "stderr": "/no/such/folder/err.log",
        "options": {"file": "/no/such/php.ini", "admin": {"memory_limit": "99M"}}
    }));
    let limit = site.get("/ini.php?name=memory_limit").json();
    assert_eq!(limit["before"], "99M");
    // Without a php.ini, PHP shows its warnings too.
    assert!(site.get("/log.php").text().ends_with("logged"));
    for text in [
        "cannot open the `stdout` file `/no/such/folder/out.log`",
        "cannot open the `stderr` file `/no/such/folder/err.log`",
        "cannot read `/no/such/php.ini`",
        "straight to stderr\n",
    ] {
        site.wait_for_log(text);
    }
    let log = site.server.log();
    let line = log.lines().find(|line| line.contains("err.log")).unwrap();
    assert!(line.contains(" [warn] "), "{line}");
}

#[test]
fn targets_script_and_index_choose_the_script() {
    let site = Site::start(&json!({}));
    let root = site.root();
    let listener = format!("127.0.0.1:{}", site.server.port());
    site.server.put(
        "/config",
        &json!({
            "listeners": {listener: {"pass": "routes"}},
            "routes": [
                {"match": {"uri": "/front/*"}, "action": {"pass": "applications/php/front"}},
                {"match": {"uri": "/script/*"}, "action": {"pass": "applications/one"}},
                {"action": {"pass": "applications/php/all"}}
            ],
            "applications": {
                "php": {"type": "php", "targets": {
                    "front": {"root": root.join("targets"), "script": "front.php"},
                    "all": {"root": root, "index": "home.php"}
                }},
                "one": {"type": "php", "root": root, "script": "method.php"}
            }
        }),
    );
    let front = site.get("/front/any/thing");
    assert_eq!(
        front.text(),
        format!("front /front.php {}", root.join("targets").display())
    );
    assert_eq!(site.get("/script/x?y").text(), "GET - /method.php");
    assert_eq!(site.get("/folder/").text(), "home");
    for (target, status) in [
        ("/folder/note.txt", 403),
        ("/none.php", 404),
        ("/targets/", 404),
    ] {
        assert_eq!(site.get(target).status, status, "{target}");
    }
    let redirect = site.get("/folder/sub?a=b");
    assert_eq!(
        (redirect.status, redirect.field("Location")),
        (301, Some("/folder/sub/?a=b"))
    );
}

#[test]
fn an_application_that_cannot_start_is_refused_and_says_why() {
    let site = Site::start(&json!({}));
    let before = site.server.call("GET", "/config", &Value::Null).text();
    let user = if is_root() {
        "no-such-user"
    } else {
        "started by root"
    };
    for (path, value, expected) in [
        ("root", json!("/no/such/root"), "/no/such/root"),
        ("script", json!("none.php"), "none.php"),
        (
            "options",
            json!({"admin": {"opcache.preload": "/no/such/preload.php"}}),
            "/no/such/preload.php",
        ),
        ("user", json!("no-such-user"), user),
        (
            "working_directory",
            json!("/no/such/folder"),
            "/no/such/folder",
        ),
    ] {
        let reply = site
            .server
            .call("PUT", &format!("/config/applications/php/{path}"), &value);
        assert!(reply.status >= 400, "{path}: {}", reply.text());
        assert!(reply.text().contains(expected), "{path}: {}", reply.text());
        assert_eq!(site.get("/hello.php").status, 200, "after {path}");
    }
    assert_eq!(
        site.server.call("GET", "/config", &Value::Null).text(),
        before
    );
}
