//! `tutti run [DIR]`: serves a folder, a WebAssembly component or a .war file without any configuration.
//!
//! Starts the server as a child process with its own state folder, sends it the configuration over its control socket
//! like any client, prints the address, and forwards signals until it ends. Leaves no files behind.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use clap::Args;
use tutti_sys::signal::Signals;

use super::child::{self, ChildOptions, ChildServer};
use super::program::Program;
use super::report::{CommandError, say};
use super::site::{Kind, Site};
use super::style;

/// Ports to try if none is given: people leave servers running.
const PORTS: std::ops::RangeInclusive<u16> = 8080..=8099;

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
    // Signals are blocked before the server starts, so that none is missed.
    let signals = Signals::take(&[libc::SIGINT, libc::SIGTERM, libc::SIGQUIT, libc::SIGHUP])
        .map_err(|error| CommandError::new(format!("cannot take signals: {error}")))?;
    // A large application takes time to start, and should not look as if nothing happened.
    say(&style::quiet(&format!(
        "starting: {}",
        described(&site, workers)
    )));
    let mut server = start(arguments, &site, folder.path())?;
    let is_signalled = server.forward(signals);
    let control = server.control();
    let started = server
        .wait_until_up()
        .map_err(|failure| failure.hint("its messages are above"))
        .and_then(|()| child::configure(&control, &format!("{configuration:#}")));
    match started {
        Ok(()) => announce(&site, &listen, workers, &control),
        // It was stopped before it was ready.
        Err(_) if is_signalled.load(Ordering::Acquire) => {}
        Err(failure) => return Err(failure),
    }
    server.wait()
}

fn start(arguments: &RunArguments, site: &Site, state: &Path) -> Result<ChildServer, CommandError> {
    let program = std::env::current_exe().map_err(|error| {
        CommandError::new(format!("cannot find this program's own file: {error}"))
    })?;
    let user = if tutti_sys::credentials::is_root() {
        Some(user_for(arguments, &site.root)?)
    } else {
        None
    };
    ChildServer::start(&ChildOptions {
        program: &program,
        state,
        log: Path::new("/dev/stderr"),
        modules: arguments.modulesdir.as_deref(),
        user: user.as_deref(),
    })
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
            "user ID {owner}, the owner of `{}`, has no user name",
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
