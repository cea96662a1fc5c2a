//! Workers that come and go, in each language: what the server holds is the same after many as after a few. `make test` replaces some dozens,
//! `make test-long` 10,000 (virtual machines 1,000, since each takes a second).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tutti_faults::language::{Language, LanguageSite, is_release, temporary};
use tutti_faults::scaled;
use tutti_sys::{cgroup, signal};
use tutti_testkit::{Load, LoadOptions, PATIENCE, is_root, processes, skipped, wait_until};

/// Requests that a worker serves before another takes its place.
const REQUESTS: usize = 2;

/// Bytes that each of these processes may hold more: allocators keep some of what they once had.
const SLACK: u64 = 4 << 20;

/// And for each worker that has been replaced: less than any list of workers would take for one.
const FOR_EACH: u64 = 100;

/// Time between two looks at what is held.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks in a row that have to see the same before it counts as rest: a busy machine may keep one that leaves from going on for a while.
const LOOKS: usize = 10;

/// The things that a server holds, but for memory.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// Open descriptors of main, the controller, the router and the prototype.
    descriptors: BTreeMap<String, usize>,
    /// Mappings of segments and of other memory without a name, in the same.
    segments: BTreeMap<String, usize>,
    /// All processes by their titles, those that wait to be reaped too.
    processes: BTreeMap<String, usize>,
    /// Files and folders of server and application.
    files: Vec<PathBuf>,
    /// Folders of its cgroups.
    cgroups: usize,
}

/// A server whose application has a cgroup, where that is possible.
struct Watched {
    site: LanguageSite,
    cgroup: Option<PathBuf>,
}

impl Watched {
    fn start(language: Language) -> Self {
        let last = language.name.rsplit(' ').next().unwrap_or_default();
        let name = format!("tutti-leaks-{}-{last}", std::process::id());
        let mut extra = json!({"limits": {"requests": REQUESTS}});
        let hierarchy = cgroup::hierarchy().unwrap().filter(|_| is_root());
        let mut cgroup = None;
        match hierarchy {
            Some(hierarchy) => {
                extra["isolation"] = json!({"cgroup": {"path": format!("/{name}/app")}});
                cgroup = Some(hierarchy.join(name));
            }
            None => skipped("cgroups need root and the hierarchy of version 2"),
        }
        Self {
            site: LanguageSite::start(language, &extra),
            cgroup,
        }
    }

    fn held(&self) -> Held {
        let server = &self.site.server;
        let mut held = Held {
            descriptors: BTreeMap::new(),
            segments: BTreeMap::new(),
            processes: BTreeMap::new(),
            files: files(server.folder(), &temporary(server)),
            cgroups: self.cgroup.as_deref().map_or(0, folders),
        };
        for process in tutti_sys::proc::children(server.pid())
            .into_iter()
            .chain([server.pid()])
        {
            *held.processes.entry(processes::title(process)).or_default() += 1;
        }
        for process in server.processes() {
            if process.title.ends_with("application") || !process.title.starts_with("tutti") {
                continue;
            }
            let files = fs::read_dir(format!("/proc/{}/fd", process.pid));
            let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid));
            let segments = maps.unwrap_or_default().matches("memfd:").count();
            let descriptors = files.map_or(0, Iterator::count);
            *held.descriptors.entry(process.title.clone()).or_default() += descriptors;
            *held.segments.entry(process.title).or_default() += segments;
        }
        held
    }

    /// The same once nothing comes and goes any more.
    fn held_at_rest(&self) -> Held {
        let end = Instant::now() + PATIENCE;
        let mut held = self.held();
        let mut same = 0;
        while same < LOOKS {
            assert!(Instant::now() < end, "no rest: {held:?}");
            std::thread::park_timeout(PAUSE);
            let now = self.held();
            // One that waits to be reaped has no title.
            let is_same = now == held && !now.processes.contains_key("");
            same = if is_same { same + 1 } else { 0 };
            held = now;
        }
        held
    }

    /// Waits until it holds what it held before, and no more.
    fn wait_until_held(&self, before: &Held) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self.held();
            if now == *before {
                return;
            }
            // A failure shows the difference.
            if Instant::now() > end {
                assert_eq!(now, *before, "{}", self.site.language.name);
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Bytes of their own that main, the router and the prototype hold.
    fn memory(&self) -> [(&'static str, u64); 3] {
        let server = &self.site.server;
        let prototype = server.prototypes("site")[0];
        [
            ("main", anonymous(server.pid())),
            ("the router", anonymous(server.router())),
            ("the prototype", anonymous(prototype)),
        ]
    }

    /// Fails if one of these holds more than before, by more than the replacement of `count` workers may leave.
    fn has_not_grown(&self, before: [(&'static str, u64); 3], count: usize) {
        let most = SLACK + FOR_EACH * count as u64;
        for ((who, before), (_, now)) in before.into_iter().zip(self.memory()) {
            let grown = now.saturating_sub(before);
            let language = self.site.language.name;
            println!("{count} workers of {language}: {grown} bytes more in {who}");
            assert!(
                grown <= most,
                "{language}: {grown} bytes more in {who}, and {most} may be"
            );
        }
    }

    /// Replaces at least `count` workers by their limit, some by `kill -9`, and some with their prototype.
    fn replace(&self, count: usize) {
        let rounds = (count / 6).clamp(1, 200);
        self.replace_in(rounds, count, || {
            let reply = self.site.restart();
            assert_eq!(reply.status, 200, "{}", reply.text());
            if let Some(worker) = self.site.workers().first() {
                let _ = signal::send(*worker, libc::SIGKILL);
            }
        });
    }

    /// Replaces at least `count` workers, all by forks of the same prototype.
    fn replace_by_one_prototype(&self, count: usize) {
        let before = self.site.server.prototypes("site");
        self.replace_in(1, count, || {});
        assert_eq!(self.site.server.prototypes("site"), before);
    }

    /// Replaces at least `count` workers by their limit. At the end of each round comes `breaks`.
    fn replace_in(&self, rounds: usize, count: usize, breaks: impl Fn()) {
        let mut options = LoadOptions::get(self.site.server.address(), "/", 4);
        options.expect = is_release;
        options.keep_alive = false;
        options.request =
            b"GET / HTTP/1.1\r\nHost: load.test\r\nConnection: close\r\n\r\n".to_vec();
        let load = Load::start(&options);
        for _ in 0..rounds {
            let answers = (count * REQUESTS).div_ceil(rounds) as u64;
            // Each step of a long run is waited for.
            for _ in 0..answers.div_ceil(20) {
                assert!(load.wait_for_answers(20.min(answers), PATIENCE));
            }
            breaks();
        }
        let outcome = load.stop();
        println!("{count} workers of {}: {outcome}", self.site.language.name);
        // A kill costs what that worker had begun, and nothing else is lost.
        let lost = outcome.failures() + outcome.refused;
        assert!(lost <= 4 * rounds as u64, "{outcome}");
        let now = || {
            let status = self.site.server.status("/applications/site");
            status["requests"]["active"] == 0
                && status["processes"]["running"] == self.site.language.processes
                && status["processes"]["starting"] == 0
                && self.site.workers().len() == self.site.language.processes
                && self.site.server.prototypes("site").len() == 1
        };
        wait_until("all has come to rest", now);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The server takes its cgroups away when it ends.
        self.site.server.call("DELETE", "/config", &Value::Null);
    }
}

/// Bytes that only this process has (proc_pid_status(5)).
fn anonymous(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let number = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() << 10
}

/// Everything below the folder; what processes of the application have by their own number, in `own`, has one name for all.
fn files(folder: &Path, own: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && path.starts_with(own) {
                // Folders of single processes have their number.
                found.push(folder.join("one"));
            } else {
                found.push(path.clone());
            }
            if is_folder && !path.starts_with(own) || path == own {
                waiting.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Folders below this one, and itself.
fn folders(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    usize::from(folder.exists()) + inner.map(|entry| folders(&entry.path())).sum::<usize>()
}

fn replaced_workers_leave_nothing(language: Language) {
    let (few, many) = language.replaced;
    let watched = Watched::start(language);
    // Allocators and caches have what they need after these.
    watched.replace(few / 2);
    watched.replace(few / 2);
    let held = watched.held_at_rest();
    let memory = watched.memory();
    let count = scaled(few, many);
    // A prototype that is replaced takes with it what it has lost.
    let of_one = count / 4;
    watched.replace(count - of_one);
    watched.wait_until_held(&held);
    watched.has_not_grown(memory, count);
    let memory = watched.memory();
    watched.replace_by_one_prototype(of_one);
    watched.wait_until_held(&held);
    watched.has_not_grown(memory, of_one);
}

macro_rules! in_each_language {
    ($($language:ident),+ $(,)?) => {$(
        #[test]
        fn $language() {
            replaced_workers_leave_nothing(Language::$language());
        }
    )+};
}

in_each_language!(
    php, python, perl, ruby, node, external, java, component, module
);
