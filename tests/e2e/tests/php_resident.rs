//! Resident PHP through the whole server: starts that fail, new code, many workers.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tutti_e2e::Site;
use tutti_testkit::wait_until;

fn resident(script: &str) -> Value {
    json!({"root": "", "script": script, "mode": "resident", "processes": 2})
}

/// A site with the resident scripts; `script` is the one that runs.
fn start(script: &str) -> Site {
    let site = Site::start(&json!({}));
    configure(&site, script);
    site
}

fn configure(site: &Site, script: &str) {
    let mut application = resident(script);
    application["root"] = json!(site.root().join("resident"));
    site.configure(&application);
}

fn restart(site: &Site) -> (u16, String) {
    let reply = site
        .server
        .call("GET", "/control/applications/php/restart", &json!(null));
    (reply.status, reply.text())
}

/// Waits until none of `before` is left: until then old and new processes answer, as in any rolling restart.
fn wait_for_others(site: &Site, before: &[i32]) {
    wait_until("the old workers have left", || {
        let now = site.server.workers("php");
        now.len() == 2 && now.iter().all(|pid| !before.contains(pid))
    });
}

#[test]
fn a_resident_application_answers() {
    let site = start("worker.php");
    let mut counts = Vec::new();
    for _ in 0..20 {
        let reply = site.get("/any/path?case=");
        assert_eq!(reply.status, 200);
        counts.push(reply.text());
    }
    // Two workers at most have counted to twenty.
    assert!(
        counts.iter().any(|count| {
            count
                .strip_prefix("hello ")
                .and_then(|number| number.parse::<u32>().ok())
                .is_some_and(|number| number >= 10)
        }),
        "{counts:?}"
    );
    let seen = site
        .get_with("/?case=seen", "X-Custom: 1\r\nCookie: a=b\r\n")
        .json();
    assert_eq!(
        (&seen["custom"], &seen["cookie"]),
        (&json!("1"), &json!({"a": "b"}))
    );
    let seen = site.get("/?case=seen").json();
    assert_eq!(
        (&seen["custom"], &seen["cookie"]),
        (&Value::Null, &json!([]))
    );
    assert_eq!(site.get("/?case=large").body.len(), 64 * 16384);
}

#[test]
fn a_boot_that_fails_is_an_error_of_the_change() {
    let site = start("worker.php");
    let mut application = resident("failing.php");
    application["type"] = json!("php");
    application["root"] = json!(site.root().join("resident"));
    for (how, expected) in [
        ("throw", "the database is away"),
        (
            "return",
            "ended without having called `tutti_handle_request()`",
        ),
        ("parse", "syntax error"),
    ] {
        application["environment"] = json!({"HOW": how});
        let reply = site
            .server
            .call("PUT", "/config/applications/php", &application);
        assert!(reply.status >= 400, "{how}: {}", reply.text());
        assert!(reply.text().contains(expected), "{how}: {}", reply.text());
        assert!(
            reply.text().contains("/applications/php/script"),
            "{how}: {}",
            reply.text()
        );
        assert!(site.get("/").text().starts_with("hello"), "{how}");
    }
}

#[test]
fn a_restart_takes_new_code_and_keeps_the_old_when_that_does_not_boot() {
    let site = start("hello.php");
    let file = site.root().join("resident/hello.php");
    let write = |text: &str| {
        let script =
            format!("<?php while (tutti_handle_request(function () {{ echo '{text}'; }}));");
        fs::write(&file, script).unwrap();
    };
    assert_eq!(site.get("/").text(), "Hello, world!\n");
    write("new");
    assert_eq!(site.get("/").text(), "Hello, world!\n");
    let before = site.server.workers("php");
    assert_eq!(restart(&site).0, 200);
    wait_for_others(&site, &before);
    assert_eq!(site.get("/").text(), "new");
    fs::write(&file, "<?php throw new Exception('not today');").unwrap();
    let (status, text) = restart(&site);
    assert!(
        status >= 400 && text.contains("not today"),
        "{status} {text}"
    );
    assert_eq!(site.get("/").text(), "new");
}

#[test]
fn resetting_opcache_boots_every_worker_anew() {
    let site = start("worker.php");
    let boots = || {
        let mut seen = BTreeSet::new();
        for _ in 0..40 {
            seen.insert(site.get("/?case=boot").json()["at"].to_string());
        }
        seen
    };
    let before = boots();
    assert_eq!(site.get("/?case=reset").text(), "true");
    assert!(before.is_disjoint(&boots()));
}

/// Issue 12: what a bailout leaves behind in PHP is not for the next request.
#[test]
fn a_fatal_error_costs_one_request_and_its_process() {
    let site = start("worker.php");
    for case in ["fatal", "memory", "time"] {
        let workers = || BTreeSet::from_iter(site.server.workers("php"));
        // Those of the configuration before may still be leaving.
        wait_until("two processes", || workers().len() == 2);
        let before = workers();
        assert_eq!(site.get(&format!("/?case={case}")).status, 500, "{case}");
        wait_until("another process instead", || {
            let now = workers();
            now.len() == 2 && now != before
        });
        assert_eq!(site.get("/").status, 200, "after {case}");
    }
    // The log comes by another way than the answer.
    site.server.wait_for_log("its process is replaced");
}

/// Issue 12: one process cannot have two of one name; from the first failure on no process is asked to. The same for aliases, where PHP would only
/// warn, and for files in an archive, whose code is not kept.
#[test]
fn two_that_declare_one_name_cost_one_request_and_are_then_served_each_by_a_boot() {
    let site = start("worker.php");
    let folder = site.root().join("declared");
    let archive = folder.join("app.phar");
    let pack = format!(
        "$all = new Phar('{}'); $all->addFile('{}', 'tenant-a.php');",
        archive.display(),
        folder.join("tenant-a.php").display()
    );
    let packed = Command::new("php")
        .args(["-d", "phar.readonly=0", "-r", &pack])
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let in_archive = format!("file&file=phar://{}/tenant-a.php", archive.display());
    for (number, (name, cases)) in [
        (
            // A class and a function, as PHP comes to them.
            "tenant",
            [
                ("tenant&tenant=a", "tenant a a"),
                ("tenant&tenant=b", "tenant b b"),
            ],
        ),
        (
            "chosen",
            [("alias&of=a", "first"), ("alias&of=b", "second")],
        ),
        (
            "tenant",
            [(in_archive.as_str(), " 1"), (in_archive.as_str(), " 1")],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut application = resident("resident.php");
        application["root"] = json!(folder);
        application["processes"] = json!(1);
        application["environment"] = json!({"ROUND": number.to_string()});
        site.configure(&application);
        let ask = |case: &str| site.get(&format!("/?case={case}"));
        let [first, second] = cases;
        assert!(ask(first.0).text().ends_with(first.1), "{first:?}");
        assert_eq!(ask(second.0).status, 500, "{second:?}");
        let told = || {
            site.server
                .log()
                .matches("From here on the script boots anew for each request (hint:")
                .count()
        };
        wait_until("the log says so", || told() == number + 1);
        let log = site.server.log().to_lowercase();
        assert!(
            log.contains(&format!("declares `{name}`, which `")),
            "{log}"
        );
        for _ in 0..10 {
            for (case, expected) in [first, second, second, first] {
                let reply = ask(case);
                assert_eq!(reply.status, 200, "{case}: {}", reply.text());
                assert!(reply.text().ends_with(expected), "{}", reply.text());
            }
        }
    }
}

/// A script whose worker says of itself how it was preloaded.
const PRELOADED: &str = r#"<?php
$boot = ['opcache' => opcache_is_script_cached(__FILE__), 'class' => class_exists('Preloaded', false), 'boot' => getmypid()];
while (tutti_handle_request(function () use ($boot) {
    usleep(20000);
    echo json_encode($boot + ['pid' => getmypid()]);
}));
"#;

#[test]
fn preload_compiles_and_links_in_the_prototype_and_each_worker_boots() {
    let site = start("worker.php");
    let folder = site.root().join("resident");
    fs::write(folder.join("preloaded.php"), PRELOADED).unwrap();
    fs::write(folder.join("classes.php"), "<?php class Preloaded {}").unwrap();
    let mut application = resident("preloaded.php");
    application["root"] = json!(folder);
    application["preload"] = json!(true);
    application["options"]["admin"] = json!({
        "opcache.enable": "1", "opcache.preload": folder.join("classes.php"),
        // Else files younger than two seconds are not cached.
        "opcache.file_update_protection": "0",
    });
    site.configure(&application);
    let mut booted = BTreeSet::new();
    // Two at once, so that both workers get their turn.
    wait_until("both workers have answered", || {
        std::thread::scope(|scope| {
            let asked = [0, 1].map(|_| scope.spawn(|| site.get("/").json()));
            for answer in asked.map(|asked| asked.join().unwrap()) {
                assert_eq!(
                    (&answer["opcache"], &answer["class"]),
                    (&json!(true), &json!(true)),
                    "{answer}"
                );
                assert_eq!(answer["boot"], answer["pid"], "{answer}");
                booted.insert(answer["pid"].to_string());
            }
        });
        booted.len() == 2
    });
    // A script that does not compile is an error of the change, from the prototype.
    fs::write(folder.join("preloaded.php"), "<?php while (").unwrap();
    let (status, text) = restart(&site);
    assert!(
        status >= 400 && text.contains("does not compile"),
        "{status} {text}"
    );
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn watch_boots_new_code_and_keeps_the_old_where_that_does_not_boot() {
    let site = start("worker.php");
    let folder = site.root().join("resident");
    let put = |name: &str, text: &str| {
        // As an editor does: at no moment is there half a file.
        let new = folder.join("new.tmp");
        fs::write(&new, text).unwrap();
        fs::rename(new, folder.join(name)).unwrap();
    };
    let script = |text: &str| {
        format!(
            "<?php $text = require __DIR__ . '/part.php'; while (tutti_handle_request(function () use ($text) {{ echo '{text}', $text; }}));"
        )
    };
    put("part.php", "<?php return ' one';");
    put("watched.php", &script("first"));
    let mut application = resident("watched.php");
    application["root"] = json!(folder);
    application["watch"] = json!(true);
    site.configure(&application);
    assert_eq!(site.get("/").text(), "first one");
    let before = site.server.workers("php");
    put("part.php", "<?php return ' two';");
    wait_for_others(&site, &before);
    assert_eq!(site.get("/").text(), "first two");
    put("watched.php", "<?php throw new Exception('not today');");
    site.server.wait_for_log("not today");
    assert_eq!(site.get("/").text(), "first two");
    put("watched.php", &script("second"));
    wait_until("the script's change", || {
        site.get("/").text() == "second two"
    });
}
