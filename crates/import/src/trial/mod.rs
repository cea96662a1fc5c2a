//! `tutti import --try`: the imported configuration beside the old server, the same requests to both, and the differences of the answers.
//!
//! The server on trial listens on this machine alone, and its state is in a temporary folder. Must never: send a request to an address
//! other than the old server's and that of the server on trial; send a method that was not asked for; or leave the server on trial
//! behind, however the command ends. What the imported site asks servers behind it is its own: those get the requests, too.

mod ask;
mod compare;
mod report;
mod requests;
mod sites;

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use ask::{Answer, Client};
use compare::Difference;
use report::{Compared, Outcome};
use requests::{Queue, Request};
use serde_json::Value;
use sites::{Plan, Site};
use tutti_ctl::child::{ChildOptions, ChildServer, configure};
use tutti_ctl::import::{Findings, TrialArguments, UNREADABLE, server_program};
use tutti_ctl::report::CommandError;
use tutti_http::{is_field_name, is_field_value};
use tutti_sys::signal::Signals;

/// The exit code if answers differ.
const DIFFERENT: u8 = 1;

/// Bytes of a source of requests; a larger log is cut before sending a million requests would take days.
const LARGEST_LOG: u64 = 256 << 20;

/// The user of the server on trial where root starts it and no user is named.
const USER: &str = "nobody";

/// The signals that end a trial.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP];

/// The last lines of a log that are shown if the server does not start.
const LINES_OF_LOG: usize = 12;

/// Tries a configuration. The exit code is 0 if no answers differ, 1 if some do, 2 if the servers could not be compared.
pub(crate) fn run(
    configuration: &Value,
    arguments: &TrialArguments,
    format: Findings,
) -> Result<ExitCode, CommandError> {
    for field in &arguments.field {
        check_field(field)?;
    }
    let signals =
        Signals::take(&ENDING).map_err(|error| unable(format!("cannot take signals: {error}")))?;
    let folder = tempfile::Builder::new()
        .prefix("tutti-try-")
        .tempdir()
        .map_err(|error| {
            unable(format!(
                "cannot create a folder for the server's state: {error}"
            ))
        })?;
    let certificate = folder.path().join("trial.pem");
    let mut plan = sites::plan(configuration, arguments.old, &certificate, free_port())
        .map_err(|error| unable(format!("there is no free port: {error}")))?;
    reachable(&mut plan, arguments.old.is_some())?;
    if !plan.names.is_empty() {
        own_certificate(&certificate, &plan)?;
    }
    let own = std::env::current_exe()
        .and_then(std::fs::canonicalize)
        .map_err(|error| unable(format!("cannot find this program's own file: {error}")))?;
    let program = server_program(&own).ok_or_else(|| {
        unable(format!(
            "the program `tutti` is not beside `{}`",
            own.display()
        ))
        .hint("install the package `tutti`, or run `tutti import` from the folder of the build")
    })?;
    let user = tutti_sys::credentials::is_root().then(|| arguments.user.as_deref().unwrap_or(USER));
    let log = folder.path().join("log");
    // On this thread, since the server ends with the thread that starts it.
    let mut server = ChildServer::start(&ChildOptions {
        program: &program,
        state: folder.path(),
        log: &log,
        modules: arguments.modulesdir.as_deref(),
        user,
    })?;
    let is_up = server.wait_until_up();
    is_up.map_err(|failure| failure.code(UNREADABLE).hint(tail(&log)))?;
    let control = server.control();
    let (send, receive) = mpsc::channel();
    let text = format!("{:#}", plan.configuration);
    let trial = Trial::new(plan, arguments);
    std::thread::spawn(move || {
        let done = configure(&control, &text)
            .map_err(|failure| {
                failure.code(UNREADABLE).hint(
                    "the server reports this about the imported configuration on this machine: use root for files that it may not read, `--modulesdir` for missing language modules",
                )
            })
            .and_then(|()| trial.run());
        // The receiver is gone if the trial was ended.
        let _ = send.send(done);
    });
    let outcome = loop {
        match receive.recv_timeout(Duration::from_millis(20)) {
            Ok(done) => break done?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(unable("the trial ended without a result".to_owned()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if let Some(signal) = signals.next() {
            drop(server);
            return Ok(ExitCode::from(
                u8::try_from(128 + signal).unwrap_or(UNREADABLE),
            ));
        }
        if let Some(ended) = server.has_ended() {
            return Err(unable(format!("the server on trial {ended}")).hint(tail(&log)));
        }
    };
    drop(server);
    report::show(&outcome, format)?;
    Ok(ExitCode::from(match outcome.differing() {
        0 => 0,
        _ => DIFFERENT,
    }))
}

fn unable(message: String) -> CommandError {
    CommandError::new(message).code(UNREADABLE)
}

fn check_field(field: &str) -> Result<(), CommandError> {
    let (name, value) = field.split_once(':').unwrap_or_default();
    if is_field_name(name.as_bytes()) && is_field_value(value.trim().as_bytes()) {
        return Ok(());
    }
    Err(
        unable(format!("`--field {field}`: this is not a header field"))
            .hint("write `--field 'NAME: VALUE'`"),
    )
}

/// Ports that are free, and stay so until the last of them is chosen.
fn free_port() -> impl FnMut() -> io::Result<u16> {
    let mut held = Vec::new();
    move || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        held.push(listener);
        Ok(port)
    }
}

/// Leaves out listeners for which no old server answers on this machine, or at the address that was named; an error if none is left.
fn reachable(plan: &mut Plan, is_named: bool) -> Result<(), CommandError> {
    let mut gone = Vec::new();
    plan.sites.retain(|site| {
        let why = if !is_named && is_elsewhere(site.old.ip()) {
            Some("is not an address of this machine".to_owned())
        } else {
            let tried = TcpStream::connect_timeout(&site.old, Duration::from_secs(5));
            tried.err().map(|error| format!("does not answer: {error}"))
        };
        if let Some(why) = why {
            gone.push(format!("`{}` of the old server {why}", site.old));
            return false;
        }
        true
    });
    if !plan.sites.is_empty() {
        plan.left_out.append(&mut gone);
        return Ok(());
    }
    gone.extend_from_slice(&plan.left_out);
    let why = match gone.as_slice() {
        [] => "the imported configuration has no listener".to_owned(),
        all => all.join("; "),
    };
    Err(
        unable(format!("there is no old server to compare with: {why}"))
            .hint("start it, or name its address: `--old ADDRESS`"),
    )
}

/// True for an address that no interface of this machine has.
fn is_elsewhere(address: IpAddr) -> bool {
    TcpListener::bind(SocketAddr::from((address, 0))).is_err()
}

/// Writes a certificate for the names for which the server would get one.
fn own_certificate(path: &Path, plan: &Plan) -> Result<(), CommandError> {
    let names: Vec<String> = plan.names.iter().cloned().collect();
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| unable(format!("cannot make a certificate for the trial: {error}")))?;
    let text = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
    std::fs::write(path, text)
        .map_err(|error| unable(format!("cannot write `{}`: {error}", path.display())))
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LINES_OF_LOG);
    let last = lines.get(from..).unwrap_or_default().join("\n");
    format!("its log ends with:\n{last}")
}

/// The requests of a trial, and how they are asked.
struct Trial {
    plan: Plan,
    files: Vec<std::path::PathBuf>,
    starts: Vec<String>,
    hosts: Vec<String>,
    fields: Vec<String>,
    ignored: Vec<String>,
    methods: Vec<String>,
    most: usize,
}

impl Trial {
    fn new(plan: Plan, arguments: &TrialArguments) -> Self {
        Self {
            plan,
            files: arguments.requests.clone(),
            starts: arguments.crawl.clone(),
            hosts: arguments.host.clone(),
            fields: arguments.field.clone(),
            ignored: arguments.ignore.clone(),
            methods: arguments.methods.clone(),
            most: arguments.most,
        }
    }

    fn run(&self) -> Result<Outcome, CommandError> {
        let tls =
            tutti_tls::unverified_client().map_err(|error| unable(format!("TLS: {error}")))?;
        let client = Client {
            fields: &self.fields,
            tls,
        };
        let mut queue = Queue::new(&self.plan.sites, &self.methods, &self.hosts, self.most);
        let mut unread_lines = 0;
        for path in &self.files {
            unread_lines += read_requests(path, &mut queue)?;
        }
        let is_crawled = !self.starts.is_empty() || self.files.is_empty();
        let mut roots: HashSet<(usize, String)> = HashSet::new();
        if is_crawled {
            self.begin(&mut queue, &mut roots)?;
        }
        let mut outcome = Outcome {
            left_out: self.plan.left_out.clone(),
            unread_lines,
            ..Outcome::default()
        };
        let mut next = 0;
        while let Some(request) = queue.list.get(next).cloned() {
            next += 1;
            let Some(site) = self.plan.sites.get(request.site) else {
                continue;
            };
            let answer = self.compare(&client, site, &request, &mut outcome);
            let is_followed = is_crawled
                && request.method == "GET"
                && roots.contains(&(request.site, request.host.clone()));
            if let Some(answer) = answer.filter(|_| is_followed) {
                for link in links_of(site, &request, &answer) {
                    if let Some(line) = requests::of_url(&link)
                        && self.is_of_root(&line, &roots)
                    {
                        queue.add(&line);
                    }
                }
            }
        }
        outcome.unsafe_count = queue.unsafe_count;
        outcome.foreign_count = queue.foreign_count;
        outcome.excess_count = queue.excess_count;
        Ok(outcome)
    }

    /// The addresses at which a crawl begins.
    fn begin(
        &self,
        queue: &mut Queue<'_>,
        roots: &mut HashSet<(usize, String)>,
    ) -> Result<(), CommandError> {
        if self.starts.is_empty() {
            for (number, site) in self.plan.sites.iter().enumerate() {
                for host in queue.hosts_of(site) {
                    roots.insert((number, host));
                }
            }
            if let Some(line) = requests::line("/") {
                queue.add(&line);
            }
            return Ok(());
        }
        for start in &self.starts {
            let line = requests::of_url(start).ok_or_else(|| {
                unable(format!("`--crawl {start}`: this is not an address")).hint(
                    "write `http://HOST/` or `https://HOST/`, with the port of the old server",
                )
            })?;
            for (number, site) in self.plan.sites.iter().enumerate() {
                if line.is_tls == Some(site.is_tls) && line.port == Some(site.old.port()) {
                    roots.insert((number, line.host.clone().unwrap_or_default()));
                }
            }
            queue.add(&line);
        }
        if roots.is_empty() {
            let all = self.plan.sites.iter();
            let known: Vec<String> = all
                .map(|site| format!("{}://HOST:{}/", site.scheme(), site.old.port()))
                .collect();
            return Err(unable(
                "the old server does not listen at the addresses to crawl".to_owned(),
            )
            .hint(format!("it listens at {}", known.join(", "))));
        }
        Ok(())
    }

    /// True for an address of a site that is crawled: links to others are not followed.
    fn is_of_root(&self, line: &requests::Line, roots: &HashSet<(usize, String)>) -> bool {
        let host = line.host.clone().unwrap_or_default();
        self.plan.sites.iter().enumerate().any(|(number, site)| {
            line.is_tls == Some(site.is_tls)
                && line.port == Some(site.old.port())
                && roots.contains(&(number, host.clone()))
        })
    }

    /// Asks both servers; returns the old one's answer.
    fn compare(
        &self,
        client: &Client<'_>,
        site: &Site,
        request: &Request,
        outcome: &mut Outcome,
    ) -> Option<Answer> {
        let old = client.ask(site, site.old, request);
        let new = client.ask(site, site.new, request);
        outcome.asked += 1;
        let found = match (&old, &new) {
            (Ok(old), Ok(new)) => self.differing(client, (site, request), (old, new), outcome),
            (Err(_), Err(_)) => Vec::new(),
            (old, new) => vec![Difference {
                aspect: "answer".to_owned(),
                old: shown(old),
                new: shown(new),
            }],
        };
        if let Ok(old) = &old {
            *outcome.statuses.entry(old.status).or_default() += 1;
        }
        if !found.is_empty() {
            outcome.compared.push(Compared {
                method: request.method.clone(),
                url: format!(
                    "{}://{}{}",
                    site.scheme(),
                    site.authority(&request.host),
                    request.target
                ),
                differences: found,
            });
        }
        old.ok()
    }

    /// The differences of two answers, without those that the old server's own answers have among each other.
    fn differing(
        &self,
        client: &Client<'_>,
        (site, request): (&Site, &Request),
        (old, new): (&Answer, &Answer),
        outcome: &mut Outcome,
    ) -> Vec<Difference> {
        let mut found = compare::differences((site, request), old, new, &self.ignored);
        if found.is_empty() {
            return found;
        }
        if let Ok(again) = client.ask(site, site.old, request) {
            let varying = compare::differences((site, request), old, &again, &self.ignored);
            let before = found.len();
            found.retain(|one| !varying.iter().any(|other| other.aspect == one.aspect));
            outcome.varying += before - found.len();
        }
        found
    }
}

fn shown(answer: &Result<Answer, String>) -> String {
    match answer {
        Ok(answer) => answer.status.to_string(),
        Err(why) => why.clone(),
    }
}

/// The addresses to which an answer leads.
fn links_of(site: &Site, request: &Request, answer: &Answer) -> Vec<String> {
    let base = format!(
        "{}://{}{}",
        site.scheme(),
        site.authority(&request.host),
        request.target
    );
    let mut links = Vec::new();
    if let Some(location) = answer.field("location") {
        links.extend(requests::resolved(&location, &base));
    }
    let is_page = answer
        .field("content-type")
        .is_some_and(|kind| kind.starts_with("text/html"));
    if is_page {
        links.extend(requests::links(
            &String::from_utf8_lossy(&answer.body),
            &base,
        ));
    }
    links
}

/// Reads a file of requests; returns the number of lines that are none.
fn read_requests(path: &Path, queue: &mut Queue<'_>) -> Result<usize, CommandError> {
    let name = path.display();
    let failed = |error: io::Error| {
        let failure = unable(format!("cannot read `{name}`: {error}"));
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                failure.hint("logs belong to root: run the command with sudo, or copy the log")
            }
            _ => failure,
        }
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, LARGEST_LOG), &mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    let (mut read, mut unread) = (0, 0);
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match requests::line(line) {
            Some(line) => {
                read += 1;
                queue.add(&line);
            }
            None => unread += 1,
        }
    }
    if read == 0 {
        return Err(unable(format!("`{name}` contains no request")).hint(
            "it must be an access log with the request line in quotes, or have an address or a path on each line",
        ));
    }
    Ok(unread)
}
