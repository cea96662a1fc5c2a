//! The promises of `isolation`, seen from inside an application and from outside: docs/operate/isolation.md, by example.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_e2e::documents::json_examples;
use tutti_sys::credentials::is_root;
use tutti_sys::{cgroup, signal};
use tutti_testkit::{ServerOptions, processes, skip, wait_until};

/// Tells what it sees as JSON; `?do=` has it do something first.
const SCRIPT: &str = r#"<?php
$status = @file_get_contents('/proc/self/status') ?: '';
preg_match('/^Uid:\s+(\d+)/m', $status, $uid);
preg_match('/^NoNewPrivs:\s+(\d+)/m', $status, $nnp);
$names = [];
foreach (['cgroup', 'ipc', 'mnt', 'net', 'pid', 'time', 'user', 'uts'] as $name) {
    $names[$name] = @readlink("/proc/self/ns/$name");
}
if (($_GET['do'] ?? '') === 'orphan') {
    // A child that outlives its parent falls to the first process of the namespace.
    exec('(sleep 0.01 &) >/dev/null 2>&1');
}
if (($_GET['do'] ?? '') === 'stray') {
    exec('setsid sleep 1000 >/dev/null 2>&1 &');
}
if (($_GET['do'] ?? '') === 'die') {
    posix_kill(getmypid(), SIGKILL);
}
echo json_encode([
    'pid' => getmypid(),
    'uid' => (int) ($uid[1] ?? posix_getuid()),
    'no_new_privs' => (int) ($nnp[1] ?? -1),
    'namespaces' => $names,
    'processes' => count(glob('/proc/[0-9]*')),
    'root' => array_values(array_diff(scandir('/'), ['.', '..'])),
    'urandom' => strlen((string) @file_get_contents('/dev/urandom', false, null, 0, 8)),
    'null' => @file_put_contents('/dev/null', 'x'),
    'tmp' => @file_put_contents('/tmp/isolation-test', 'x'),
    'lib' => @file_put_contents('/usr/lib/isolation-test', 'x'),
    'zone' => (new DateTime('2024-07-01', new DateTimeZone('Europe/Berlin')))->format('P'),
    'letters' => mb_strlen('äöü'),
    'opcache' => function_exists('opcache_get_status') && is_array(opcache_get_status(false)),
    'loopback' => (bool) @stream_socket_server('tcp://127.0.0.1:0'),
    'outside' => @file_exists(getenv('OUTSIDE')),
    'cgroup' => trim(implode(',', preg_grep('/^0::/', @file('/proc/self/cgroup') ?: []))),
]);
"#;

/// A PHP application whose folder `jail` can be its root.
struct Site(tutti_testkit::Site);

impl Deref for Site {
    type Target = tutti_testkit::Site;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Site {
    fn new(options: &ServerOptions) -> Site {
        let mut site = tutti_testkit::Site::new("php", options);
        site.server.write("jail/site/index.php", SCRIPT);
        site.application = json!({
            "type": "php", "root": site.server.folder().join("jail/site"), "processes": 2,
            "environment": {"OUTSIDE": site.server.folder()},
            "options": {"admin": {"opcache.enable": "1"}}
        });
        Site(site)
    }

    /// The answer to putting an application with this isolation and, where it is new, its other members.
    fn put(&self, isolation: &Value, extra: &Value) -> tutti_testkit::Reply {
        let mut members = json!({"isolation": isolation});
        if isolation.get("rootfs").is_some() {
            members["root"] = json!("/site");
        }
        tutti_testkit::set_members(&mut members, extra);
        self.try_configure(&members)
    }

    fn start(isolation: &Value, extra: &Value) -> Site {
        let site = Site::new(&ServerOptions::default());
        let reply = site.put(isolation, extra);
        assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
        site
    }

    fn jail(&self) -> PathBuf {
        self.server.folder().join("jail")
    }

    fn look(&self, query: &str) -> Value {
        let reply = self.server.get(&format!("/{query}"));
        assert_eq!(reply.status, 200, "{}; {}", reply.text(), self.server.log());
        reply.json()
    }

    /// The first error of a configuration that is refused: pointer, message with its hint.
    fn refusal(&self, isolation: &Value, extra: &Value) -> (String, String) {
        let reply = self.put(isolation, extra);
        assert_ne!(reply.status, 200, "{}", reply.text());
        let error = reply.json()["errors"][0].clone();
        (
            error["pointer"].as_str().unwrap_or_default().to_owned(),
            error.to_string(),
        )
    }
}

/// Those of the guide, with this site's folder.
fn examples(site: &Site) -> [Value; 5] {
    let page = include_str!("../../../docs/operate/isolation.md");
    let jail = site.jail();
    let jail = jail.to_str().unwrap();
    let all = json_examples(page, &[("/srv/jail", jail), ("/home/me/jail", jail)]);
    all.try_into().unwrap()
}

fn own_namespace(name: &str) -> String {
    let link = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
    link.to_string_lossy().into_owned()
}

/// Mounts that this process sees below a folder.
fn mounts_below(folder: &Path) -> usize {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let folder = folder.display().to_string();
    text.lines().filter(|line| line.contains(&folder)).count()
}

#[test]
fn each_namespace_is_separate_and_the_rest_is_shared() {
    if !is_root() {
        skip!("a new namespace needs root");
    }
    let all = [
        ("cgroup", "cgroup"),
        ("ipc", "ipc"),
        ("mount", "mnt"),
        ("network", "net"),
        ("time", "time"),
        ("uname", "uts"),
        ("credential", "user"),
    ];
    let site = Site::new(&ServerOptions::default());
    for (option, name) in all {
        let reply = site.put(&json!({"namespaces": {option: true}}), &json!({}));
        assert_eq!(reply.status, 200, "{option}: {}", reply.text());
        let seen = site.look("");
        for (_, other) in all {
            let is_same = seen["namespaces"][other] == json!(own_namespace(other));
            assert_eq!(is_same, other != name, "{option}, {other}: {seen}");
        }
        assert_eq!(seen["loopback"], json!(true), "{option}: {seen}");
    }
}

#[test]
fn all_namespaces_a_root_and_a_pid_namespace_leave_nothing_of_the_system_to_see() {
    if !is_root() {
        skip!("a new root needs root");
    }
    let site = Site::new(&ServerOptions::default());
    let namespaces = json!({"cgroup": true, "credential": true, "ipc": true, "mount": true, "network": true, "pid": true,
        "time": true, "uname": true});
    let isolation = json!({"namespaces": namespaces, "rootfs": site.jail()});
    site.server.write("jail/mine", "");
    let reply = site.put(&isolation, &json!({}));
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    let seen = site.look("");
    assert_eq!(seen["outside"], json!(false), "{seen}");
    assert_eq!(seen["urandom"], json!(8), "{seen}");
    assert_eq!(seen["null"], json!(1), "{seen}");
    assert_eq!(seen["tmp"], json!(1), "{seen}");
    assert_eq!(seen["lib"], json!(false), "{seen}");
    assert_eq!(seen["zone"], json!("+02:00"), "{seen}");
    assert_eq!(seen["letters"], json!(3), "{seen}");
    assert_eq!(seen["opcache"], json!(true), "{seen}");
    // Prototype and two workers; nothing else has a number here.
    assert_eq!(seen["processes"], json!(3), "{seen}");
    let root = seen["root"].as_array().unwrap();
    assert!(
        root.contains(&json!("mine")) && !root.contains(&json!("home")),
        "{seen}"
    );
    // Mounts are the application's own: none is seen from outside, and `/tmp` of the jail is empty.
    assert_eq!(mounts_below(&site.jail()), 0);
    assert_eq!(fs::read_dir(site.jail().join("tmp")).unwrap().count(), 0);
}

#[test]
fn the_examples_of_the_guide_do_what_it_says() {
    if !is_root() {
        skip!("another root needs root");
    }
    let site = Site::new(&ServerOptions::default());
    let [whole, _own_user, maps, group, _as_ordinary_user] = examples(&site);
    let reply = site.put(&whole["isolation"], &whole);
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    let seen = site.look("");
    // Its own processes only, nothing of the system, a user that is `nobody` outside.
    assert_eq!(
        (&seen["outside"], &seen["processes"], &seen["loopback"]),
        (&json!(false), &json!(3), &json!(true)),
        "{seen}"
    );
    let reply = site.put(&maps, &json!({"user": "nobody"}));
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    assert_eq!(site.look("")["uid"], json!(65534));
    let is_outside = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("Uid:\t165534\t")
    };
    // Those of the first example may still be leaving.
    wait_until("its user is another one outside", || {
        let workers = site.server.workers("php");
        workers.len() == 2 && workers.iter().all(is_outside)
    });
    if cgroup::hierarchy().unwrap().is_none() {
        skip!("no cgroup hierarchy of version 2");
    }
    let reply = site.put(&group, &json!({}));
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    assert_eq!(site.look("")["cgroup"], json!("0::/web/blog"));
}

#[test]
fn status_log_and_kills_use_the_numbers_of_the_system() {
    if !is_root() {
        skip!("a pid namespace needs root");
    }
    let site = Site::start(&json!({"namespaces": {"pid": true}}), &json!({}));
    let seen = site.look("");
    assert!(seen["pid"].as_i64().unwrap() < 10, "{seen}");
    let workers = site.server.wait_for_workers("php", 2);
    for worker in &workers {
        site.server.wait_for_log(&format!("(process {worker})"));
    }
    // One that dies is logged with its number outside, and replaced.
    assert_eq!(site.server.get("/?do=die").status, 502);
    wait_until("its death is in the log", || {
        let log = site.server.log();
        workers
            .iter()
            .any(|pid| log.contains(&format!("process {pid} was killed by signal 9")))
    });
    wait_until("it is replaced", || site.server.workers("php").len() == 2);
    // One that hangs is killed by the number outside.
    site.server
        .write("jail/site/hang.php", "<?php while (true) { usleep(100); }");
    let limits = "/config/applications/php/limits";
    site.server.put(limits, &json!({"timeout": 1}));
    let before = site.server.wait_for_workers("php", 2);
    assert_eq!(site.server.get("/hang.php").status, 504);
    wait_until("the one that hung is gone", || {
        let now = site.server.workers("php");
        now.len() == 2 && now != before
    });
}

#[test]
fn the_router_has_given_up_what_it_does_not_need() {
    let site = Site::start(&json!({}), &json!({}));
    let status = fs::read_to_string(format!("/proc/{}/status", site.server.router())).unwrap();
    for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    assert_eq!(site.server.get("/").status, 200);
    assert!(
        !site.server.log().contains("cannot drop"),
        "{}",
        site.server.log()
    );
}

#[test]
fn orphans_in_a_pid_namespace_are_reaped() {
    if !is_root() {
        skip!("a pid namespace needs root");
    }
    let site = Site::start(&json!({"namespaces": {"pid": true}}), &json!({}));
    for _ in 0..5 {
        site.look("?do=orphan");
    }
    let mut prototype = 0;
    wait_until("a prototype", || {
        prototype = site.server.prototypes("php").pop().unwrap_or_default();
        prototype > 0
    });
    wait_until("no zombie is left", || {
        let children = tutti_sys::proc::children(prototype);
        !children.is_empty()
            && children.iter().all(|pid| {
                let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                !status.contains("State:\tZ")
            })
    });
    assert_eq!(site.server.prototypes("php"), [prototype]);
}

#[test]
fn a_killed_prototype_of_a_pid_namespace_is_replaced_with_its_workers() {
    if !is_root() {
        skip!("a pid namespace needs root");
    }
    let site = Site::start(&json!({"namespaces": {"pid": true}}), &json!({}));
    let workers = site.server.wait_for_workers("php", 2);
    let before = (site.server.prototypes("php"), workers);
    signal::send(before.0[0], libc::SIGKILL).unwrap();
    // A worker has its title before it is ready; while none is, requests are refused with the reason.
    wait_until("others serve", || {
        let now = (site.server.prototypes("php"), site.server.workers("php"));
        let are_there = now.0.len() == 1 && now.0 != before.0 && now.1.len() == 2;
        are_there && site.server.get("/").status == 200
    });
}

/// It was never ready, and was killed a minute later.
#[test]
fn a_process_of_a_pid_namespace_starts_without_a_free_descriptor() {
    if !is_root() {
        skip!("a pid namespace needs root");
    }
    let mut site = tutti_testkit::Site::new("python", &ServerOptions::default());
    let code = r#"import os, resource
def application(environ, start_response):
    start_response('200 OK', [])
    return [str(os.getpid()).encode()]
if os.getpid() != 1:
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
"#;
    site.server.write("crowded.py", code);
    site.application = json!({"type": "python", "path": site.server.folder(), "module": "crowded"});
    let reply = site.try_configure(&json!({"isolation": {"namespaces": {"pid": true}}}));
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    let pid: i32 = site.server.get("/").text().parse().unwrap();
    let outside = site.server.workers("python")[0];
    assert_ne!(pid, outside);
    signal::send(outside, libc::SIGKILL).unwrap();
    site.server.wait_for_log(&format!(
        "application process {outside} was killed by signal 9"
    ));
}

#[test]
fn nothing_is_left_after_a_stop_a_crash_or_a_kill() {
    if !is_root() {
        skip!("isolation of all kinds needs root");
    }
    let Some(hierarchy) = cgroup::hierarchy().unwrap() else {
        skip!("no cgroup hierarchy of version 2");
    };
    let name = format!("tutti-e2e-{}", std::process::id());
    let group = hierarchy.join(&name);
    let mut site = Site::new(&ServerOptions::default());
    let isolation = json!({
        "namespaces": {"mount": true, "cgroup": true},
        "rootfs": site.jail(), "cgroup": {"path": format!("/{name}/app")}
    });
    site.server.write("jail/bin/.keep", "");
    let reply = site.put(&isolation, &json!({}));
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    let worker = site.server.wait_for_workers("php", 2)[0];
    let seen = fs::read_to_string(format!("/proc/{worker}/cgroup")).unwrap();
    assert!(seen.contains(&format!("0::/{name}/app")), "{seen}");
    assert_eq!(site.look("")["cgroup"], json!("0::/"));
    // A killed main takes everything with it but the empty cgroup; the next start removes that and makes its own.
    site.server.kill();
    assert_eq!(mounts_below(site.server.folder()), 0);
    site.0.server.start_again(&ServerOptions::default());
    wait_until("it serves again", || {
        tutti_testkit::client::get(site.server.address(), "/")
            .is_ok_and(|reply| reply.status == 200)
    });
    assert!(group.join("app").exists());
    site.server.signal(libc::SIGQUIT);
    site.0.server.wait_for_end();
    assert!(!group.exists(), "the cgroup is gone");
    assert!(!site.server.folder().join("state/cgroups").exists());
    assert_eq!(mounts_below(site.server.folder()), 0);
}

#[test]
fn what_escaped_a_killed_main_is_ended_by_its_cgroup_at_the_next_start() {
    if !is_root() {
        skip!("a cgroup needs root");
    }
    let Some(hierarchy) = cgroup::hierarchy().unwrap() else {
        skip!("no cgroup hierarchy of version 2");
    };
    let name = format!("tutti-e2e-stray-{}", std::process::id());
    let mut site = Site::start(&json!({"cgroup": {"path": format!("/{name}")}}), &json!({}));
    site.look("?do=stray");
    let members = || -> Vec<i32> {
        let text =
            fs::read_to_string(hierarchy.join(&name).join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let is_stray = |pid: &i32| processes::title(*pid).starts_with("sleep");
    let mut stray = 0;
    wait_until("the stray runs", || {
        stray = members().into_iter().find(is_stray).unwrap_or(0);
        stray != 0
    });
    site.server.signal(libc::SIGKILL);
    site.0.server.start_again(&ServerOptions::default());
    wait_until("the stray has ended", || !processes::is_running(stray));
    site.server.signal(libc::SIGQUIT);
    site.0.server.wait_for_end();
    assert!(!hierarchy.join(&name).exists());
}

#[test]
fn ids_are_mapped_and_nothing_may_gain_privileges_where_that_is_said() {
    if !is_root() {
        skip!("mapping ids needs root");
    }
    let map = json!([{"container": 0, "host": 100_000, "size": 70_000}]);
    let isolation = json!({"namespaces": {"credential": true}, "uidmap": map, "gidmap": map, "new_privs": false});
    let site = Site::start(&isolation, &json!({}));
    let seen = site.look("");
    // `nobody` is meant as the one inside, as in NGINX Unit.
    assert_eq!(
        (&seen["uid"], &seen["no_new_privs"]),
        (&json!(65534), &json!(1)),
        "{seen}"
    );
    let worker = site.server.wait_for_workers("php", 2)[0];
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
    assert!(status.contains("Uid:\t165534\t"), "{status}");
    // One that is only in the system's range is found there.
    let isolation = json!({"namespaces": {"credential": true},
        "uidmap": [{"container": 0, "host": 65534, "size": 1}], "gidmap": [{"container": 0, "host": 65534, "size": 1}]});
    assert_eq!(site.put(&isolation, &json!({})).status, 200);
    assert_eq!(site.look("")["uid"], json!(0));
    // The same without a map.
    assert_eq!(
        site.put(&json!({"namespaces": {"credential": true}}), &json!({}))
            .status,
        200
    );
    assert_eq!(site.look("")["uid"], json!(65534));
}

#[test]
fn errors_name_the_option_and_the_cure() {
    if !is_root() {
        skip!("isolation needs root");
    }
    let site = Site::new(&ServerOptions::default());
    let (pointer, error) = site.refusal(&json!({"rootfs": "/no/such/root"}), &json!({}));
    assert_eq!(pointer, "/applications/php/isolation/rootfs");
    assert!(
        error.contains("/no/such/root") && error.contains("must exist"),
        "{error}"
    );

    let isolation = json!({"namespaces": {"credential": true}, "uidmap": [{"container": 0, "host": 1000, "size": 10}]});
    let (pointer, error) = site.refusal(&isolation, &json!({}));
    assert_eq!(pointer, "/applications/php/isolation/uidmap");
    assert!(
        error.contains("nobody") && error.contains("65534"),
        "{error}"
    );

    // A root with a loader of its own is used as it is.
    site.server
        .write("jail/lib64/ld-linux-x86-64.so.2", "no loader");
    site.server
        .write("jail/lib/ld-linux-aarch64.so.1", "no loader");
    let isolation = json!({"rootfs": site.jail(), "automount": {"language_deps": false}});
    let (pointer, error) = site.refusal(&isolation, &json!({}));
    assert_eq!(
        pointer,
        "/applications/php/isolation/automount/language_deps"
    );
    assert!(error.contains("libraries in the new root"), "{error}");
    fs::remove_dir_all(site.jail().join("lib64")).unwrap();
    fs::remove_dir_all(site.jail().join("lib")).unwrap();

    let (pointer, _) = site.refusal(&json!({"cgroup": {"path": "/a/../../b"}}), &json!({}));
    assert_eq!(pointer, "/applications/php/isolation/cgroup/path");
    assert_eq!(site.server.status("/applications"), json!({}));
}

/// Issue 10, 2.12: a root without libraries needed `language_deps`, and could not do without the rest of it.
#[test]
fn without_language_dependencies_a_root_needs_no_libraries() {
    if !is_root() {
        skip!("a new root needs root");
    }
    let site = Site::new(&ServerOptions::default());
    let isolation = json!({"rootfs": site.jail(), "automount": {"language_deps": false}});
    // Twice: what the first start has left to mount on is no loader.
    for processes in [1, 2] {
        let reply = site.put(&isolation, &json!({"processes": processes}));
        assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
        site.server.restart("php");
        site.server.write(
            "jail/site/bare.php",
            "<?php echo json_encode([file_exists('/usr/share'), file_exists('/dev/null'), is_writable('/tmp')]);",
        );
        let reply = site.server.get("/bare.php");
        assert_eq!(reply.text(), "[false,false,true]", "{}", site.server.log());
    }
}

/// Issue 10, 2.12: as Unit documents it, a group may be that of several applications.
#[test]
fn two_applications_share_a_cgroup() {
    if !is_root() {
        skip!("a cgroup needs root");
    }
    let Some(hierarchy) = cgroup::hierarchy().unwrap() else {
        skip!("no cgroup hierarchy of version 2");
    };
    let name = format!("tutti-e2e-shared-{}", std::process::id());
    let mut site = Site::new(&ServerOptions::default());
    let root = site.jail().join("site");
    site.server.write("jail/site/index.php", SCRIPT);
    let application =
        |path: &str| json!({"type": "php", "root": root, "isolation": {"cgroup": {"path": path}}});
    let path = format!("/{name}/both");
    site.server.put(
        "/config",
        &json!({"applications": {"one": application(&path), "two": application(&path)}}),
    );
    // Workers that a restart has replaced may still be leaving.
    let wait_for_members = |application: &str| {
        wait_until(&format!("{application} is in the group"), || {
            let workers = site.server.workers(application);
            let is_member = |worker: &i32| {
                let seen = fs::read_to_string(format!("/proc/{worker}/cgroup")).unwrap_or_default();
                seen.contains(&format!("0::{path}"))
            };
            !workers.is_empty() && workers.iter().all(is_member)
        });
    };
    wait_for_members("one");
    wait_for_members("two");
    // One goes, is restarted, or comes again: the other stays, and so does the group.
    let gone = site
        .server
        .call("DELETE", "/config/applications/one", &Value::Null);
    assert_eq!(gone.status, 200, "{}", gone.text());
    wait_for_members("two");
    site.server
        .put("/config/applications/one", &application(&path));
    site.server.restart("two");
    wait_for_members("one");
    wait_for_members("two");
    site.server.signal(libc::SIGQUIT);
    site.0.server.wait_for_end();
    assert!(!hierarchy.join(&name).exists());
}

#[test]
fn without_procfs_and_tmpfs_the_root_has_neither() {
    if !is_root() {
        skip!("a new root needs root");
    }
    let site = Site::new(&ServerOptions::default());
    let isolation = json!({"rootfs": site.jail(), "automount": {"procfs": false, "tmpfs": false}});
    // PHP's opcache keeps a lock in /tmp.
    fs::create_dir_all(site.jail().join("tmp")).unwrap();
    fs::set_permissions(site.jail().join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    let reply = site.put(&isolation, &json!({}));
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    let seen = site.look("");
    assert_eq!(seen["processes"], json!(0), "{seen}");
    assert!(site.jail().join("tmp/isolation-test").exists());
}

#[test]
fn the_adapters_of_resident_php_are_there_in_another_root() {
    if !is_root() {
        skip!("rootfs needs root");
    }
    let mut site = Site::new(&ServerOptions::default());
    site.server.write(
        "jail/site/front.php",
        "<?php echo 'front ', $_SERVER['REQUEST_URI'];",
    );
    site.server.write(
        "jail/site/resident.php",
        "<?php require TUTTI_RESIDENT . '/resident.php'; Tutti\\Resident\\front_controller(__DIR__ . '/front.php');",
    );
    let isolation = json!({"rootfs": site.jail()});
    let extra = json!({"mode": "resident", "script": "resident.php"});
    let reply = site.put(&isolation, &extra);
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    assert_eq!(site.server.get("/some/where").text(), "front /some/where");
    // Issue 28: the `/tmp` of the new root hid the adapters of a server that is installed below the system's.
    let folder = site.server.folder().to_path_buf();
    if !folder.starts_with("/tmp") {
        skip!("the temporary folders of these tests are not below /tmp");
    }
    let adapters = tutti_e2e::external::source("sdk/php/resident");
    tutti_testkit::files::copy(&adapters, &folder.join("share/tutti/php"));
    site.0.server.start_again(&ServerOptions::default());
    site.server.write(
        "jail/site/front.php",
        "<?php echo TUTTI_RESIDENT, ' ', file_put_contents('/tmp/seen', 'x'), ' ', implode(' ', array_diff(scandir('/tmp'), ['.', '..']));",
    );
    for namespaces in [json!({}), json!({"credential": true, "pid": true})] {
        let isolation = json!({"rootfs": site.jail(), "namespaces": namespaces});
        let reply = site.put(&isolation, &extra);
        assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
        let text = site.server.get("/").text();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let expected = format!("{}/share/tutti/php 1 seen {name}", folder.display());
        assert_eq!(text, expected, "{}", site.server.log());
    }
    assert!(!folder.join("seen").exists() && !Path::new("/tmp/seen").exists());
    assert_eq!(fs::read_dir(site.jail().join("tmp")).unwrap().count(), 0);
}

/// Gives the server's folder to an ordinary user and becomes that user.
fn as_ordinary_user() -> ServerOptions {
    let script = "for word; do case $last in --pid) chown -R 65534:65534 \"$(dirname \"$word\")\";; esac; last=$word; done; \
                  exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all \"$@\"";
    ServerOptions {
        wrapper: ["sh", "-c", script, "sh"].map(str::to_owned).to_vec(),
        ..ServerOptions::default()
    }
}

#[test]
fn an_ordinary_user_isolates_by_a_user_namespace() {
    if !is_root() {
        skip!("becoming an ordinary user needs root");
    }
    let is_allowed = std::process::Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "unshare",
            "--user",
            "true",
        ])
        .status()
        .is_ok_and(|status| status.success());
    if !is_allowed {
        skip!("ordinary users may not make user namespaces here");
    }
    let site = Site::new(&as_ordinary_user());
    let (pointer, error) = site.refusal(&json!({"namespaces": {"pid": true}}), &json!({}));
    assert_eq!(pointer, "/applications/php/isolation/namespaces/pid");
    assert!(error.contains("credential"), "{error}");
    let isolation = json!({"namespaces": {"credential": true}, "uidmap": [{"container": 0, "host": 0, "size": 10}]});
    let (pointer, _) = site.refusal(&isolation, &json!({}));
    assert_eq!(pointer, "/applications/php/isolation/uidmap");

    for folder in ["jail", "jail/site"] {
        let path = site.server.folder().join(folder);
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    }
    let [_, _, _, _, isolation] = examples(&site);
    let reply = site.put(&isolation, &json!({}));
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    let seen = site.look("");
    assert_eq!(
        (&seen["uid"], &seen["outside"], &seen["processes"]),
        (&json!(65534), &json!(false), &json!(3)),
        "{seen}"
    );
}

/// Issue 10, 2.12: what a language loads later, and where it writes for a while.
#[test]
fn extensions_and_a_tmp_of_its_own_are_there_in_another_root() {
    if !is_root() {
        skip!("a new root needs root");
    }
    let site = Site::new(&ServerOptions::default());
    site.server.write(
        "jail/site/extensions.php",
        "<?php file_put_contents('/tmp/of-php', 'x'); \
         echo json_encode([ctype_digit('12'), (new DateTime)->format('e') !== '', file_exists('/tmp/of-php')]);",
    );
    site.server.write(
        "jail/site/extensions.py",
        "import ctypes, json, os, sqlite3, ssl\n\
         def application(environ, start_response):\n    \
             start_response('200 OK', [('Content-Type', 'application/json')])\n    \
             answer = sqlite3.connect('/tmp/of-python').execute('select 40 + 2').fetchone()[0]\n    \
             seen = [answer, ctypes.sizeof(ctypes.c_int), 'SSL' in ssl.OPENSSL_VERSION]\n    \
             return [json.dumps(seen).encode()]\n",
    );
    let isolation = json!({"rootfs": site.jail()});
    let reply = site.put(&isolation, &json!({"script": "extensions.php"}));
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    assert_eq!(site.look(""), json!([true, true, true]));
    let reply = site.server.call(
        "PUT",
        "/config/applications/php",
        &json!({"type": "python", "path": "/site", "module": "extensions", "isolation": isolation}),
    );
    assert_eq!(reply.status, 200, "{}; {}", reply.text(), site.server.log());
    assert_eq!(site.look(""), json!([42, 4, true]));
    // Each has its own, and nothing of it is left outside.
    for name in ["of-php", "of-python"] {
        assert!(!site.jail().join("tmp").join(name).exists(), "{name}");
        assert!(!Path::new("/tmp").join(name).exists(), "{name}");
    }
}
