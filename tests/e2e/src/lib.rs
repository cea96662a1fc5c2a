//! The base of the end-to-end tests: the PHP scripts under Tutti, the same under nginx and PHP-FPM, and answers in a form
//! that can be compared. A function that cannot do what it says panics, which fails the test.
//!
//! The scripts are those of `tests/conformance/php`, which the host's own tests use too.

/// Makes a type of a site for one language: it has what [`tutti_testkit::Site`] has, and functions of its own.
macro_rules! site {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name(tutti_testkit::Site);

        impl std::ops::Deref for $name {
            type Target = tutti_testkit::Site;

            fn deref(&self) -> &tutti_testkit::Site {
                &self.0
            }
        }

        impl std::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut tutti_testkit::Site {
                &mut self.0
            }
        }
    };
}
pub(crate) use site;

pub mod answer;
pub mod authority;
pub mod backends;
pub mod c;
pub mod clocks;
pub mod collector;
pub mod commands;
pub mod documents;
pub mod echo;
pub mod etcd;
pub mod external;
pub mod fleet;
pub mod fpm;
pub mod hints_and_trailers;
pub mod hosts;
pub mod hosts_of_a_fleet;
pub mod http2;
pub mod http3;
pub mod http3_raw;
pub mod http3_site;
pub mod hundred_files;
pub mod java;
pub mod kubernetes;
pub mod lossy;
pub mod named;
pub mod node;
pub mod pebble;
pub mod peer;
pub mod perl;
pub mod projected;
pub mod python;
pub mod ruby;
pub mod scrape;
pub mod script_site;
pub mod slow_ways;
pub mod spooling;
pub mod suite;
pub mod tls;
pub mod tls_server;
pub mod valkey;
pub mod wasm;
pub mod way;

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tutti_testkit::{Reply, Server, wait_until};

/// Reads until `text` has come, and returns everything so far.
pub fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut got = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&got).contains(text) {
        let count = stream.read(&mut buffer).unwrap();
        let so_far = String::from_utf8_lossy(&got);
        assert_ne!(count, 0, "no `{text}` in: {so_far}");
        got.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&got).into_owned()
}

/// Waits until the health checks of each server of an upstream say `state`, and `why` the last of them failed; empty: none has.
pub fn wait_for_health(server: &Server, upstream: &str, state: &str, why: &str) {
    let is_as_wanted = |one: &Value| {
        let check = &one["health_check"];
        let told = check["last_failure"].as_str().unwrap_or_default();
        check["state"] == state && told == why
    };
    wait_until(&format!("{upstream}: {state} {why}"), || {
        let status = server.status(&format!("/upstreams/{upstream}/servers"));
        let servers = status.as_object().expect("servers");
        !servers.is_empty() && servers.values().all(is_as_wanted)
    });
}

/// php.ini of both servers: Debian's for production, with limits small enough to be reached.
pub const PHP_INI: &str = "\
display_errors = 0
log_errors = 1
error_reporting = 22527
output_buffering = 4096
variables_order = GPCS
request_order = GP
memory_limit = 128M
post_max_size = 300K
upload_max_filesize = 100K
max_file_uploads = 3
opcache.revalidate_freq = 0
";

crate::site! {
    /// Tutti with one PHP application, `php`, on the scripts.
    Site
}

impl Site {
    /// Starts it; `extra` replaces members of the application.
    pub fn start(extra: &Value) -> Self {
        let mut site = tutti_testkit::Site::on("php", &scripts());
        let ini = site.server.write("php.ini", PHP_INI);
        site.application = json!({
            "type": "php", "root": site.root(), "processes": 2, "options": {"file": ini}
        });
        site.configure(extra);
        Self(site)
    }

    /// `GET target` with more header lines, each with its line end.
    pub fn get_with(&self, target: &str, fields: &str) -> Reply {
        self.send("GET", target, fields, b"")
    }

    /// Waits until a script has written `name` into the work folder whole, and reads it as JSON.
    pub fn written(&self, name: &str) -> Value {
        let path = self.work().join(name);
        let mut found = Value::Null;
        wait_until(name, || {
            found = fs::read(&path)
                .ok()
                .and_then(|bytes| serde_json::from_slice(&bytes).ok())
                .unwrap_or_default();
            !found.is_null()
        });
        found
    }
}

/// Asks a worker where it is until the log has the three lines of a place, of which the first ends so; these lines.
pub fn wait_for_place(site: &tutti_testkit::Site, worker: i32, end: &str) -> Vec<String> {
    let mut place = Vec::new();
    wait_until("its place", || {
        // SIGURG is `tutti_worker::WHERE_SIGNAL`.
        tutti_sys::signal::send(worker, libc::SIGURG).unwrap();
        let log = site.server.log();
        // The last line may not be whole yet.
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let lines: Vec<&str> = whole.lines().collect();
        let start = format!("process {worker} is at ");
        let mut found = lines.windows(3);
        let found = found.find(|lines| lines[0].contains(&start) && lines[0].ends_with(end));
        place = found
            .unwrap_or_default()
            .iter()
            .map(|line| line.to_string())
            .collect();
        !place.is_empty()
    });
    place
}

/// Waits until a process has this many threads whose stacks have this size: they come one after the other.
pub fn wait_for_stacks(pid: i32, size: usize, count: usize) {
    wait_until(&format!("{count} stacks of {size} bytes"), || {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        mappings_of(&maps, size) == count
    });
}

/// The number of mappings in the text of `/proc/PID/maps` that are the stack of a thread of this size.
fn mappings_of(maps: &str, size: usize) -> usize {
    let is_one = |line: &&str| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let Some((start, end)) = range else {
            return false;
        };
        let [start, end] =
            [start, end].map(|text| usize::from_str_radix(text, 16).expect("an address"));
        // A page or two for the guard and for rounding.
        (size..size + 0x4000).contains(&(end - start))
    };
    maps.lines().filter(is_one).count()
}

/// The folder of the scripts in the source tree.
pub fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/php")
}
