//! `tutti run [DIR]`: serves a folder, a WebAssembly component or a .war file without any configuration.
//!
//! Starts the server as a child process with its own state folder, sends it the configuration over its control socket
//! like any client, prints the address, and forwards signals until it ends. Leaves no files behind.

use std::ffi::OsStr;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::event::{PollFd, PollFlags};
use tutti_sys::process::Ended;
use tutti_sys::signal::Signals;
use tutti_sys::spawn::Spawn;

use super::client::ControlClient;
use super::program::Program;
use super::report::{CommandError, say};
use super::site::{Kind, Site};
use super::style;

/// Ports to try if none is given: people leave servers running.
const PORTS: std::ops::RangeInclusive<u16> = 8080..=8099;

/// The control socket appears within milliseconds; this is for overloaded machines.
const START_WITHIN: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct RunArguments {
    /// The folder to serve, or a file: a WebAssembly component, a .war or .jar file, or a script such as `server.mjs` or `app.pl`
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Port, or address and port, to listen on; `*:8080` for all addresses [default: 127.0.0.1:8080, or the next free port]
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    listen: Option<String>,
    /// Processes of the application [default: two for each core, at least four]
    #[arg(long, value_name = "N")]
    processes: Option<usize>,
    /// User that runs the application, when started by root [default: the owner of the folder]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Folder of the language modules [default: beside the program]
    #[arg(long, value_name = "DIR")]
    modulesdir: Option<PathBuf>,
    /// Do not show requests
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, CommandError> {
    let site = Site::find(&arguments.folder)?;
    let listen = match &arguments.listen {
        Some(listen) => listen_address(listen)?,
        None => free_address()?,
    };
    let workers = arguments
        .processes
        .unwrap_or_else(|| (2 * tutti_sys::proc::cpu_count()).max(4));
    let access_log = if arguments.quiet {
        None
    } else {
        visible_stdout()
    };
    let configuration = site.configuration(&listen, workers, access_log);
    let folder = tempfile::Builder::new()
        .prefix("tutti-run-")
        .tempdir()
        .map_err(|error| {
            CommandError::new(format!(
                "cannot create a folder for the server's state: {error}"
            ))
        })?;
    let control = format!("unix:{}", folder.path().join("control.sock").display());

    // Signals are blocked before the server starts, so that none is missed.
    let signals = Signals::take(&[libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP])
        .map_err(|error| CommandError::new(format!("cannot take signals: {error}")))?;
    // A large application takes time to start, and should not look as if nothing happened.
    say(&style::quiet(&format!(
        "starting: {}",
        described(&site, workers)
    )));
    let mut server = Server::start(arguments, &site, folder.path(), &control)?;
    let client = ControlClient::at(&control);
    server.wait_until_up(&folder.path().join("control.sock"))?;
    let text = format!("{configuration:#}");
    client
        .call("PUT", "/config", Some(text.as_bytes()), None)?
        .succeeded(None)?;
    announce(&site, &listen, workers, &control);
    server.wait(&signals)
}

/// Describes the site.
fn described(site: &Site, workers: usize) -> String {
    let root = site.root.display().to_string();
    let root = style::strong(&root);
    match &site.kind {
        Kind::Php { .. } => format!("PHP site {root} with {workers} processes"),
        Kind::Program(program) => format!("{} in {root}", program.what),
        Kind::Static => format!("files in {root}"),
    }
}

fn announce(site: &Site, listen: &str, workers: usize, control: &str) {
    let what = described(site, workers);
    let shown = listen
        .strip_prefix('*')
        .map_or_else(|| listen.to_owned(), |port| format!("127.0.0.1{port}"));
    say(&format!("{} {what}", style::good("Serving")));
    say(&format!(
        "  {} {}",
        style::place("look at"),
        style::strong(&format!("http://{shown}/"))
    ));
    say(&format!(
        "  {} tutti config get --control {control}",
        style::place("configured by")
    ));
    say(&format!("  {} Ctrl-C", style::place("stop with")));
    if let Kind::Program(Program {
        hint: Some(hint), ..
    }) = &site.kind
    {
        say(&format!("  {} {hint}", style::place("hint:")));
    }
}

/// Returns the address for an argument: a port alone, or `localhost`, means only this machine.
fn listen_address(given: &str) -> Result<String, CommandError> {
    let port = |text: &str| text.parse::<u16>().is_ok();
    let local = given
        .strip_prefix("localhost:")
        .or_else(|| given.strip_prefix(':'))
        .unwrap_or(given);
    if port(local) {
        return Ok(format!("127.0.0.1:{local}"));
    }
    let is_address = given.starts_with("unix:")
        || given.strip_prefix("*:").is_some_and(port)
        || given.parse::<SocketAddr>().is_ok();
    if is_address {
        return Ok(given.to_owned());
    }
    Err(CommandError::new(format!(
        "`--listen {given}`: this is not an address to listen on"
    ))
    .hint("write a port (`8081`), or `ADDRESS:PORT`, `*:PORT`, `[IPV6]:PORT`, `unix:PATH`"))
}

/// Returns 127.0.0.1 with the first free port.
fn free_address() -> Result<String, CommandError> {
    for port in PORTS {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address.to_string());
        }
    }
    Err(CommandError::new(format!(
        "all ports from {} to {} are in use",
        PORTS.start(),
        PORTS.end()
    ))
    .hint("choose one with `--listen 127.0.0.1:PORT`"))
}

/// Returns the file to which the server can write its access log so that the user sees it. A socket cannot be opened by
/// name.
fn visible_stdout() -> Option<&'static str> {
    let path = "/dev/stdout";
    std::fs::OpenOptions::new()
        .append(true)
        .open(path)
        .is_ok()
        .then_some(path)
}

/// The server, as a child process.
struct Server {
    pid: i32,
    ended: Option<Ended>,
}

impl Server {
    fn start(
        arguments: &RunArguments,
        site: &Site,
        state: &Path,
        control: &str,
    ) -> Result<Self, CommandError> {
        let program = std::env::current_exe().map_err(|error| {
            CommandError::new(format!("cannot find this program's own file: {error}"))
        })?;
        let name = program.display().to_string();
        let pid_file = state.join("tutti.pid");
        let state: &OsStr = state.as_ref();
        let mut words: Vec<&OsStr> = ["--no-daemon", "--log", "/dev/stderr", "--control", control]
            .map(OsStr::new)
            .to_vec();
        words.extend([
            OsStr::new("--statedir"),
            state,
            OsStr::new("--tmpdir"),
            state,
        ]);
        words.extend([OsStr::new("--pid"), pid_file.as_ref()]);
        if let Some(folder) = &arguments.modulesdir {
            words.extend([OsStr::new("--modulesdir"), folder.as_ref()]);
        }
        let user = if tutti_sys::credentials::is_root() {
            Some(user_for(arguments, &site.root)?)
        } else {
            None
        };
        if let Some(user) = &user {
            words.extend([OsStr::new("--user"), OsStr::new(user)]);
        }
        let prepare = || -> io::Result<Spawn> {
            let mut spawn = Spawn::new(&program)?.death_signal(libc::SIGTERM);
            for word in words {
                spawn = spawn.argument(word)?;
            }
            for (variable, value) in std::env::vars_os() {
                spawn = spawn.variable(variable, value)?;
            }
            Ok(spawn)
        };
        let spawn = prepare()
            .map_err(|error| CommandError::new(format!("cannot start `{name}`: {error}")))?;
        let pid = spawn
            .start()
            .map_err(|error| CommandError::new(format!("cannot start `{name}`: {error}")))?;
        Ok(Self { pid, ended: None })
    }

    fn wait_until_up(&mut self, socket: &Path) -> Result<(), CommandError> {
        let end = Instant::now() + START_WITHIN;
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            if let Some(ended) = self.has_ended() {
                return Err(
                    CommandError::new(format!("the server did not start: it {ended}"))
                        .hint("its messages are above"),
                );
            }
            if Instant::now() > end {
                return Err(CommandError::new(format!(
                    "the server did not respond within {} s",
                    START_WITHIN.as_secs()
                )));
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(())
    }

    fn has_ended(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            self.ended = tutti_sys::process::reap_one(self.pid);
        }
        self.ended
    }

    fn signal(&self, signal: i32) {
        // It may just have ended by itself.
        let _ = tutti_sys::signal::send(self.pid, signal);
    }

    /// Forwards signals until the server ends.
    fn wait(&mut self, signals: &Signals) -> Result<ExitCode, CommandError> {
        let pidfd = tutti_sys::process::pidfd(self.pid)
            .map_err(|error| CommandError::new(format!("cannot watch the server: {error}")))?;
        loop {
            if let Some(ended) = self.has_ended() {
                return match ended {
                    Ended::Code(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
                    Ended::Signal(..) => Err(CommandError::new(format!("the server {ended}"))),
                };
            }
            let mut watched = [
                PollFd::new(&pidfd, PollFlags::IN),
                PollFd::new(signals, PollFlags::IN),
            ];
            // An interrupted wait is followed by a check, like any other.
            let _ = rustix::event::poll(&mut watched, None);
            while let Some(signal) = signals.next() {
                self.signal(if signal == libc::SIGHUP {
                    libc::SIGTERM
                } else {
                    signal
                });
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.has_ended().is_some() {
            return;
        }
        self.signal(libc::SIGTERM);
        while self.has_ended().is_none() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// Started by root, PHP runs as the owner of the site, as on shared hosting; a site owned by root runs as `nobody`,
/// unless a user is given.
fn user_for(arguments: &RunArguments, root: &Path) -> Result<String, CommandError> {
    if let Some(user) = &arguments.user {
        return Ok(user.clone());
    }
    let owner = std::fs::metadata(root)
        .map_err(|error| {
            CommandError::new(format!("cannot look at `{}`: {error}", root.display()))
        })?
        .uid();
    if owner == 0 {
        return Ok("nobody".to_owned());
    }
    tutti_sys::credentials::user_name(owner).ok_or_else(|| {
        CommandError::new(format!(
            "the owner of `{}`, number {owner}, has no name",
            root.display()
        ))
        .hint("choose a user with `--user NAME`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 10, 1.26.
    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        let meant = |given| listen_address(given).map_err(|failure| failure.text());
        for given in ["8081", ":8081", "localhost:8081", "127.0.0.1:8081"] {
            assert_eq!(meant(given).as_deref(), Ok("127.0.0.1:8081"), "{given}");
        }
        for given in [
            "*:80",
            "[::1]:80",
            "10.0.0.1:80",
            "unix:/run/x.sock",
            "unix:@x",
        ] {
            assert_eq!(meant(given).as_deref(), Ok(given));
        }
        for given in [
            "",
            ":",
            "http://localhost:80",
            "80801",
            "example.com:80",
            "127.0.0.1",
        ] {
            assert!(meant(given).unwrap_err().contains("hint:"), "{given}");
        }
    }
}
