//! The terminal sessions that guides begin with, and those of the cookbook: each command is run as it stands, and prints what the page shows.
//!
//! `cat FILE` with lines below it shows a file that the reader writes. `…` stands for what differs from run to run. Paths below `/srv` and those of
//! logs are in the server's own folder, ports are free ones, and what `make build` makes is the tests' own.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tutti_e2e::c;
use tutti_e2e::documents::{chapter, examples};
use tutti_e2e::external::source;
use tutti_e2e::fleet::Fleet;
use tutti_e2e::fpm::Fpm;
use tutti_testkit::server::built;
use tutti_testkit::{Server, ServerOptions, free_port, guide};

const COOKBOOK: &str = include_str!("../../../docs/start/cookbook.md");
const FIRST_SITE: &str = include_str!("../../../docs/start/first-site.md");
const UPGRADE: &str = include_str!("../../../docs/operate/upgrade.md");

/// The store of a fleet, and the name of the node that follows it.
const STORE: &str = "etcd://127.0.0.1:2379/shop";
const NODE: &str = "web-01";

/// Where PHP-FPM listens.
const FPM: &str = "/run/php/fpm.sock";

/// The path of a guide, and its text.
macro_rules! page {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../docs/", $path)))
    };
}

/// Guides that begin with a session.
const GUIDES: &[(&str, &str)] = &[
    page!("languages/php.md"),
    page!("languages/python.md"),
    page!("languages/perl.md"),
    page!("languages/ruby.md"),
    page!("languages/java.md"),
    page!("languages/node.md"),
    page!("languages/external.md"),
    page!("languages/cgi.md"),
    page!("languages/go.md"),
    page!("languages/sdk.md"),
    page!("http/http2-and-http3.md"),
    page!("http/tls.md"),
    page!("http/cache.md"),
    page!("http/delivery.md"),
    page!("http/access.md"),
    page!("http/rewriting.md"),
    page!("http/websocket.md"),
    page!("proxy/upstreams.md"),
    page!("proxy/fastcgi.md"),
    page!("proxy/streams.md"),
    page!("operate/fleet.md"),
    page!("operate/isolation.md"),
    page!("operate/logs.md"),
    page!("operate/processes.md"),
    page!("operate/metrics.md"),
    page!("operate/troubleshooting.md"),
];

/// Pairs of a text on a page, such as a port, and the text that takes its place in the test.
struct Places(Vec<(String, String)>);

impl Places {
    /// The ports of `session`, the control socket, and the folder of sites.
    fn new(session: &str, server: &Server) -> Self {
        let digits = |text: &str| -> Option<String> {
            let end = text.find(|letter: char| !letter.is_ascii_digit());
            let number = text.get(..end.unwrap_or(text.len()))?;
            (number.len() == 4).then(|| number.to_owned())
        };
        let ports: BTreeMap<String, u16> = ["*:", "localhost:", "127.0.0.1:"]
            .iter()
            .flat_map(|host| session.split(host).skip(1).filter_map(digits))
            .map(|number| (number, 0))
            .collect();
        let mut places: Vec<(String, String)> = ports
            .into_keys()
            .map(|number| (format!(":{number}"), format!(":{}", free_port())))
            .collect();
        places.push((
            "/run/tutti/control.sock".to_owned(),
            server.control().display().to_string(),
        ));
        let mut add = |shown: &str, here: &Path| {
            places.push((shown.to_owned(), here.display().to_string()));
        };
        add("/srv/", &server.folder().join("srv/"));
        add("/var/log/tutti/", &server.folder().join("logs/"));
        add("/usr/share/tutti/go", &source("sdk/go"));
        add("sdk/c/samples/", &source("sdk/c/samples/"));
        add("dist/include", &source("sdk/c/include"));
        add("dist/lib/libtutti_worker.a", &c::library());
        Self(places)
    }

    fn fill(&self, text: &str) -> String {
        let each = self.0.iter();
        each.fold(text.to_owned(), |text, (shown, here)| {
            text.replace(shown, here)
        })
    }

    /// Output as the page would show it.
    fn restore(&self, text: &str) -> String {
        let each = self.0.iter();
        each.fold(text.to_owned(), |text, (shown, here)| {
            text.replace(here, shown)
        })
    }
}

/// True for a line that is as the page shows it, where `…` stands for any text.
fn is_alike(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (shown.trim(), printed.trim());
    let Some((begin, rest)) = shown.split_once('…') else {
        return shown == printed;
    };
    let Some(mut left) = printed.strip_prefix(begin) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('…').unwrap_or(("", rest));
    for part in middle.split('…') {
        let Some((_, after)) = left.split_once(part) else {
            return false;
        };
        left = after;
    }
    left.ends_with(end)
}

/// The first line that the page shows and the command does not print, in the page's order.
fn missing<'page>(shown: &'page [String], printed: &str) -> Option<&'page str> {
    let mut rest = printed.lines();
    shown
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty() && *line != "…")
        .find(|line| !rest.by_ref().any(|other| is_alike(line, other)))
}

/// Runs a session in a folder of its own beside a server, and beside PHP-FPM or an etcd where the session asks for it.
fn run(name: &str, session: &str) {
    let fleet = session.contains(STORE).then(|| Fleet::start(1, &[NODE]));
    let own = fleet
        .is_none()
        .then(|| Server::start(&ServerOptions::default()));
    let server = own
        .as_ref()
        .or(fleet.as_ref().map(|fleet| &fleet.nodes[0]))
        .unwrap();
    let mut places = Places::new(session, server);
    if let Some(fleet) = &fleet {
        let source = fleet.source.display().to_string();
        places.0.insert(0, (STORE.to_owned(), source));
    }
    let fpm = session
        .contains(FPM)
        .then(|| Fpm::start(&server.write("php.ini", ""), 2));
    if let Some(fpm) = &fpm {
        let socket = fpm.socket().display().to_string();
        places.0.push((FPM.to_owned(), socket));
    }
    let work = server.folder().join("work");
    let programs = server.folder().join("bin");
    for folder in [
        &work,
        &programs,
        &server.folder().join("srv"),
        &server.folder().join("logs"),
    ] {
        fs::create_dir_all(folder).unwrap();
    }
    symlink(built("tutti"), programs.join("tutti")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let commands = guide::commands(&format!("```console\n{session}```\n"));
    assert!(!commands.is_empty(), "{name} has no commands");
    for guide::Command { line, prints } in &commands {
        if line.starts_with("tuttid --source") {
            continue;
        }
        if let (Some(file), false) = (line.strip_prefix("cat "), prints.is_empty())
            && !file.contains(' ')
        {
            let text = places.fill(&prints.join("\n")) + "\n";
            let file = work.join(places.fill(file));
            fs::create_dir_all(file.parent().unwrap_or(Path::new("/"))).unwrap();
            fs::write(file, text).unwrap();
            continue;
        }
        let done = Command::new("bash")
            .args(["-c", &places.fill(line)])
            .current_dir(&work)
            // Debian's Python has the libraries.
            .env("PATH", format!("{}:/usr/bin:{path}", programs.display()))
            .env(
                "TUTTI_CONTROL",
                format!("unix:{}", server.control().display()),
            )
            .output()
            .unwrap();
        let printed = [done.stdout, done.stderr].concat();
        let printed = places.restore(&String::from_utf8_lossy(&printed));
        let missing = missing(prints, &printed);
        assert_eq!(
            missing,
            None,
            "{name}: `{line}` printed:\n{printed}\nlog:\n{}",
            server.log()
        );
    }
}

#[test]
fn every_recipe_of_the_cookbook_works() {
    let recipes: Vec<&str> = COOKBOOK
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    assert_eq!(recipes.len(), 20);
    for recipe in recipes {
        run(
            recipe,
            &examples(chapter(COOKBOOK, recipe), "console").concat(),
        );
    }
}

#[test]
fn the_first_site_is_served_and_changed() {
    run("first-site.md", &examples(FIRST_SITE, "console").concat());
}

#[test]
fn a_node_is_taken_out_of_a_load_balancer() {
    let title = "Taking a node out of a load balancer";
    run(
        title,
        &examples(chapter(UPGRADE, title), "console").concat(),
    );
}

#[test]
fn guides_begin_with_an_example_that_works() {
    for (name, page) in GUIDES {
        run(name, &examples(page, "console")[0]);
    }
}

#[test]
fn a_line_is_alike_where_only_the_left_out_differs() {
    for (shown, printed, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a…", "ab", true),
        ("a…c", "abc", true),
        ("a…c", "abd", false),
        ("…", "anything", true),
        ("id …, x", "id 7, x", true),
    ] {
        assert_eq!(is_alike(shown, printed), expected, "{shown} {printed}");
    }
}
