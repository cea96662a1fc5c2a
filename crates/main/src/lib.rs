//! The main role: privileged, small, single-threaded, never reads network data.
//!
//! Owns the state folder, pid file, control socket, logs, listening sockets and every child process. Called by the
//! program's entry point once the flags are parsed. Must never happen: that it stops while a child lives, that it does
//! anything for a router that the controller has not granted, or that it crashes with one of them.

#![forbid(unsafe_code)]

mod acme;
mod cache_files;
mod certificate_files;
mod certificate_requests;
mod certificates;
mod changes;
mod children;
pub mod config_files;
mod config_watch;
mod control_access;
mod controller;
mod dynamic_users;
pub mod flags;
mod fleet;
mod handover;
mod heartbeat;
mod history;
mod hosts;
mod instance;
mod isolation;
mod jobs;
mod lifecycle;
pub mod modules;
mod nodes;
mod own_process;
mod pending;
mod pid_file;
mod processes;
mod requests;
mod restarts;
mod rights;
mod rotation;
mod routers;
mod service_manager;
mod shared;
mod sockets;
mod source;
mod state;
mod status_socket;
pub mod stored;
mod successors;
mod supervisor;
mod takeover;
mod temporary;
mod trial;
mod users;
mod watchdog;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use control_access::read_token;
pub use fleet::{read_password, read_secret_file};
pub use trial::try_takeover;
use tutti_log::Level;
use tutti_log::{self, Log};
use tutti_protocol::ControlAccess;
use tutti_sys::credentials::{self, Credentials};
use tutti_sys::daemon::{self, DaemonSide, Starter};
use tutti_sys::error::context;
use tutti_sys::listen::{ListenOptions, SocketName, listen};
use tutti_sys::signal::{self, Signals};
use tutti_sys::spawn::inherited;
use tutti_sys::{guarded, oom, process, title};

use crate::flags::{Flags, ServerPaths};
use crate::handover::Handover;
use crate::instance::Instance;
use crate::pid_file::PidFile;
use crate::status_socket::StatusSocket;
use crate::supervisor::Supervisor;
use crate::users::{default_credentials, own_credentials};

/// Signals that main reads from a descriptor.
const SIGNALS: [i32; 7] = [
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGHUP,
    libc::SIGCHLD,
];

/// Runs the server until it is stopped.
pub fn run(flags: &Flags, arguments: &[OsString]) -> ExitCode {
    if let Some(number) = flags.takeover {
        return take_over(flags, number, arguments);
    }
    let (arguments, program) = takeover::call(arguments);
    let places = flags.places();
    let starter = if flags.no_daemon {
        daemon::foreground()
    } else {
        match daemon::go() {
            Ok(DaemonSide::Background(starter)) => starter,
            Ok(DaemonSide::Terminal(Ok(()))) => return ExitCode::SUCCESS,
            Ok(DaemonSide::Terminal(Err(message))) => return complain(&message),
            Err(error) => return complain(&error.to_string()),
        }
    };
    serve(flags, places, starter, (arguments, program))
}

/// Continues with the handover of the former program of this process. Until everything is parsed, it can still return
/// to it.
fn take_over(flags: &Flags, number: i32, arguments: &[OsString]) -> ExitCode {
    let handover = match Handover::read(number) {
        Ok(handover) => handover,
        // The trial has parsed the same document: this happens only if the program was replaced in between.
        Err(error) => return complain(&format!("cannot take over: {error}")),
    };
    let prepared = std::panic::catch_unwind(|| prepare_takeover(flags, &handover));
    let error = match prepared {
        Ok(Ok((prepared, signals))) => {
            match adopt(flags, &handover, prepared, takeover::call(arguments).0) {
                Ok(instance) => {
                    let mut supervisor = Supervisor::new(instance, signals, daemon::foreground());
                    return match supervisor.resume(&handover) {
                        Ok(()) => supervisor.run(),
                        Err(error) => complain(&format!("cannot take over: {error}")),
                    };
                }
                Err(error) => error.to_string(),
            }
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked".to_owned(),
    };
    let failure = takeover::give_back(handover, &takeover::call(arguments).0, &error);
    complain(&format!(
        "{error}; cannot return to the former program: {failure}"
    ))
}

/// The parts of an instance that do not come from the former program.
struct Prepared {
    default_credentials: Option<Credentials>,
    own_credentials: Option<Credentials>,
    access: ControlAccess,
    modules: Vec<tutti_protocol::LanguageModule>,
    status: StatusSocket,
}

/// Does everything that can fail, before anything is taken over: a descriptor that this program has taken and closed cannot
/// be given back.
fn prepare_takeover(flags: &Flags, handover: &Handover) -> io::Result<(Prepared, Signals)> {
    let signals = Signals::take(&SIGNALS)?;
    signal::ignore(libc::SIGPIPE)?;
    process::become_subreaper()?;
    let log = Log::to_stderr(&flags.log_style())?;
    let prepared = Prepared {
        default_credentials: default_credentials(flags, &log)?,
        own_credentials: own_credentials(flags, &log)?,
        access: control_access::wanted(flags, &handover.places().control)?,
        modules: crate::modules::discover(&handover.places().modules, &log, &signals)?,
        status: StatusSocket::open()?,
    };
    Ok((prepared, signals))
}

/// Takes over what the former program hands over. It fails only if that is not there.
fn adopt(
    flags: &Flags,
    handover: &Handover,
    prepared: Prepared,
    arguments: Vec<OsString>,
) -> io::Result<Instance> {
    let log = Log::of_main(inherited(handover.log)?, &flags.log_style());
    oom::go_late();
    let default_user = prepared
        .default_credentials
        .as_ref()
        .and_then(|c| credentials::user_name(c.uid));
    if let Err(error) = title::set("tutti: main") {
        log.line(
            Level::Warn,
            &format!("cannot set the process title: {error}"),
        );
    }
    let pid_file = PidFile::adopt(&handover.pid, handover.pid_file)
        .inspect_err(|error| log.line(Level::Warn, &error.to_string()))
        .ok();
    Ok(Instance {
        access: prepared.access,
        places: handover.places(),
        own_credentials: prepared.own_credentials,
        log,
        default_credentials: prepared.default_credentials,
        default_user,
        modules: prepared.modules,
        control: inherited(handover.control)?,
        status: prepared.status,
        has_own_temporary_folder: handover.has_own_temporary_folder,
        is_daemon: handover.is_daemon,
        state_lock: inherited(handover.state_lock)?.into(),
        pid_file,
        program: handover.program.clone(),
        arguments,
    })
}

fn complain(message: &str) -> ExitCode {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "tutti: {message}");
    ExitCode::FAILURE
}

fn serve(
    flags: &Flags,
    places: ServerPaths,
    mut starter: Starter,
    call: (Vec<OsString>, PathBuf),
) -> ExitCode {
    let log = match open_log(flags, &places) {
        Ok(log) => log,
        Err(error) => {
            starter.fail(&error.to_string());
            return if flags.no_daemon {
                complain(&error.to_string())
            } else {
                ExitCode::FAILURE
            };
        }
    };
    oom::go_late();
    // Before any other descriptor is opened that could be mistaken for one of them.
    let given = service_manager::sockets(&log);
    match start(flags, places, log.clone(), call) {
        Ok((instance, signals)) => {
            let mut supervisor = Supervisor::new(instance, signals, starter);
            supervisor.begin(given);
            supervisor.run()
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            log.line(Level::Notice, &error.to_string());
            starter.fail(&error.to_string());
            ExitCode::SUCCESS
        }
        Err(error) => {
            log.line(Level::Alert, &error.to_string());
            starter.fail(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn open_log(flags: &Flags, places: &ServerPaths) -> io::Result<Log> {
    let style = flags.log_style();
    if let Some(target) = &style.syslog {
        return Ok(Log::of_main(tutti_log::syslog::socket(target)?, &style));
    }
    let Some(path) = &places.log else {
        if !flags.no_daemon {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "in the background, `--log stderr` has no standard error to write to; hint: add `--no-daemon`, or name a file",
            ));
        }
        return Log::to_stderr(&style);
    };
    make_folder_of(path, 0o755)?;
    let file = tutti_log::open(path)?;
    Ok(Log::of_main(file, &style))
}

/// Does everything up to the start of the router. Nothing created here is left behind if a later step fails: pid file
/// and socket are removed again.
fn start(
    flags: &Flags,
    mut places: ServerPaths,
    log: Log,
    (arguments, program): (Vec<OsString>, PathBuf),
) -> io::Result<(Instance, Signals)> {
    let signals = Signals::take(&SIGNALS)?;
    signal::ignore(libc::SIGPIPE)?;
    process::become_subreaper()?;
    let default_credentials = default_credentials(flags, &log)?;
    let own_credentials = own_credentials(flags, &log)?;
    let access = control_access::wanted(flags, &places.control)?;
    control_access::warn(flags, &places.control, &log);
    if let Err(error) = process::raise_descriptor_limit() {
        log.line(Level::Warn, &error.to_string());
    }
    if let Some(config) = &places.config
        && !places.is_lenient
    {
        // The controller parses their content; that they exist is checked before anything is started.
        crate::config_files::read(config)?;
    }
    make_folder(&places.state, 0o700)?;
    let state_lock = lock_state(&places.state)?;
    let temporary = temporary::prepare(&places.temporary, own_credentials.as_ref())?;
    let has_own_temporary_folder = temporary != places.temporary;
    places.temporary = temporary;
    let modules = crate::modules::discover(&places.modules, &log, &signals)?;
    check_control_is_free(&places.control)?;
    let pid_file = PidFile::take(&places.pid)?;
    let control = bind_control(flags, &places.control).inspect_err(|_| pid_file.remove())?;
    if let Err(error) = title::set("tutti: main") {
        log.line(
            Level::Warn,
            &format!("cannot set the process title: {error}"),
        );
    }
    match flags.no_daemon {
        true => {}
        false if places.log.is_some() => daemon::redirect_stderr(log.descriptor()?)?,
        false => daemon::forget_stderr()?,
    }
    let default_user = default_credentials
        .as_ref()
        .and_then(|c| credentials::user_name(c.uid));
    let instance = Instance {
        places,
        log,
        default_credentials,
        own_credentials,
        default_user,
        modules,
        control,
        status: StatusSocket::open()?,
        access,
        has_own_temporary_folder,
        is_daemon: !flags.no_daemon,
        state_lock,
        pid_file: Some(pid_file),
        program,
        arguments,
    };
    Ok((instance, signals))
}

fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    guarded::folder(path, Some(mode))
        .map(drop)
        .map_err(|e| context(format!("making the folder `{}`", path.display()), e))
}

fn make_folder_of(file: &Path, mode: u32) -> io::Result<()> {
    file.parent()
        .map_or(Ok(()), |folder| make_folder(folder, mode))
}

/// Two instances with the same state folder would overwrite each other's configuration.
fn lock_state(folder: &Path) -> io::Result<File> {
    let named = |e| {
        context(
            format!("opening the state folder `{}`", folder.display()),
            e,
        )
    };
    let handle = File::open(folder).map_err(named)?;
    match handle.try_lock() {
        Ok(()) => Ok(handle),
        Err(fs::TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "another instance is running with the state folder `{}`; stop it, or choose another folder with --statedir",
                folder.display()
            ),
        )),
        Err(fs::TryLockError::Error(error)) => Err(named(error)),
    }
}

fn bind_control(flags: &Flags, endpoint: &SocketName) -> io::Result<OwnedFd> {
    let bound = match endpoint {
        SocketName::Path(path) => bind_control_file(flags, endpoint, path),
        _ => listen(endpoint, ListenOptions::default()),
    };
    bound.map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            control_in_use(endpoint)
        } else {
            error
        }
    })
}

fn control_in_use(endpoint: &SocketName) -> io::Error {
    io::Error::new(
        io::ErrorKind::AddrInUse,
        format!(
            "the control address `{endpoint}` is in use: another instance is running there; choose another with --control"
        ),
    )
}

/// Another instance's pid file must not be overwritten, so this is checked before ours is written.
fn check_control_is_free(endpoint: &SocketName) -> io::Result<()> {
    use std::os::linux::net::SocketAddrExt;
    let is_answered = match endpoint {
        SocketName::Path(path) => UnixStream::connect(path).is_ok(),
        SocketName::Abstract(name) => std::os::unix::net::SocketAddr::from_abstract_name(name)
            .is_ok_and(|address| UnixStream::connect_addr(&address).is_ok()),
        SocketName::Inet(address) => std::net::TcpListener::bind(address)
            .is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse),
    };
    if is_answered {
        Err(control_in_use(endpoint))
    } else {
        Ok(())
    }
}

fn bind_control_file(flags: &Flags, endpoint: &SocketName, path: &Path) -> io::Result<OwnedFd> {
    make_folder_of(path, 0o755)?;
    let socket = listen(
        endpoint,
        ListenOptions {
            // The socket is bound with this mode, so it never has wider permissions.
            mode: Some(flags.control_mode.unwrap_or(0o600)),
            ..ListenOptions::default()
        },
    )?;
    own_control(flags, path).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })?;
    Ok(socket)
}

fn own_control(flags: &Flags, path: &Path) -> io::Result<()> {
    let user = flags
        .control_user
        .as_deref()
        .map(credentials::user_number)
        .transpose()?;
    let group = flags
        .control_group
        .as_deref()
        .map(credentials::group_number)
        .transpose()?;
    if user.is_none() && group.is_none() {
        return Ok(());
    }
    guarded::named(path)
        .and_then(|name| name.give_socket_to(user, group))
        .map_err(|e| context(format!("changing the owner of `{}`", path.display()), e))
}
