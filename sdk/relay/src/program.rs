//! The program: told where to listen, started, awaited, ended.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tutti_sys::process::{Ended, pidfd, reap_one};
use tutti_sys::signal;
use tutti_sys::spawn::Spawn;
use tutti_sys::tcp::refuse_itself;
use tutti_worker::{Handover, Process, Program, StartError};

use crate::address::{Address, Chosen, Reserved, choose};
use crate::line::{Heard, Line};
use crate::options::{Listen, RelayOptions};
use crate::owner::{Taking, is_taken};
use crate::preload::{InheritedDescriptors, ListenError, Preload, PreloadFiles};

/// First and longest pause between two looks, and what part of the time so far one is: a start is noticed a thirtieth too late at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const PAUSE_PART: u32 = 32;
/// The longest wait for a connection and a response, bounded by what is left of the time for the start.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
/// `HTTP/1.1 200`.
const ANSWER_START: usize = 12;
/// The longest time that it may take to leave.
const GRACE: Duration = Duration::from_secs(5);

/// So many other ports are tried where another process has taken the one that was chosen.
const OTHER_PORTS: u32 = 3;

/// The hint about a program that ends with success instead of serving.
const STAYS: &str = "a program that serves must stay in the foreground: turn off its daemon mode, and start it without `&`";

/// The reason why it does not listen.
enum NotListening {
    /// Another process has its port. An ended program has an error, which may have another cause.
    Taken(Option<StartError>),
    Failed(StartError),
}

/// A program to be started, and how.
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Program,
    pub(crate) options: &'a RelayOptions,
    /// The number of its worker.
    pub(crate) worker: u32,
    /// The process whose place it may take.
    pub(crate) process: &'a Process,
}

/// A running program.
#[derive(Debug)]
pub(crate) struct Child {
    pid: i32,
    pidfd: OwnedFd,
    address: Address,
    /// No other program gets it for as long as it may be connected to.
    reserved: Option<Reserved>,
    /// The files of its preloaded module.
    places: Option<PreloadFiles>,
    /// The way to a program that may take its requests itself.
    line: Option<Line>,
    has_ended: bool,
}

impl Child {
    /// Starts the program and waits until it takes connections, and answers if it is to be asked. The caller's thread must live as long as
    /// the program is to.
    pub(crate) fn start(
        launch: &Launch<'_>,
        must_stop: impl Fn() -> bool,
    ) -> Result<(Child, Address), StartError> {
        let options = launch.options;
        let mut tries = 0;
        loop {
            let mut child = Child::launch(launch)?;
            match child.wait_until_it_listens(options, &must_stop) {
                Ok(address) => return Ok((child, address)),
                Err(NotListening::Taken(_)) if tries < OTHER_PORTS => tries += 1,
                Err(NotListening::Taken(Some(error)) | NotListening::Failed(error)) => {
                    return Err(error);
                }
                Err(NotListening::Taken(None)) => {
                    let step = format!("waiting until the program listens on {}", child.address);
                    let message = "another program listens there";
                    return Err(StartError::new(step, message)
                        .hint("free ports, or use `\"listen\": \"unix\"`"));
                }
            }
        }
    }

    fn launch(launch: &Launch<'_>) -> Result<Child, StartError> {
        let (program, options) = (launch.program, launch.options);
        let failed = |error: io::Error| StartError::new("making the program's socket", error);
        let listen = match options.preload {
            Some(_) => Listen::Unix,
            None => options.listen,
        };
        let Chosen {
            address,
            reserved,
            inherited,
        } = choose(listen).map_err(failed)?;
        let places = match (&options.preload, &address) {
            (Some(preload), Address::Unix(path)) => {
                let places = PreloadFiles::beside(path, preload, launch.worker);
                places.write(preload).map_err(failed)?;
                Some(places)
            }
            _ => None,
        };
        let library = options.preload.as_ref().and_then(|all| all.library.clone());
        let (line, handover) = match library.as_ref().map(|_| Line::lay(launch.process)) {
            Some(Ok(Some((line, handover)))) => (Some(line), Some(handover)),
            Some(Err(error)) => return Err(failed(error)),
            Some(Ok(None)) | None => (None, None),
        };
        let places = places.map(|places| PreloadFiles {
            library: library.zip(handover.as_ref().map(|handover| InheritedDescriptors {
                descriptors: handover.numbers(),
                variables: handover.variables.clone(),
            })),
            ..places
        });
        let told = match (&options.preload, &places, &address) {
            (Some(preload), Some(places), _) => {
                ListenHandover::Variables((preload.variables)(places))
            }
            (_, _, Address::Tcp(address)) => {
                ListenHandover::Place(address.port().to_string().into())
            }
            (_, _, Address::Unix(path)) => ListenHandover::Place(path.clone().into_os_string()),
        };
        let blamed = blamed_for_the_program(options.preload.as_ref());
        let prepared = spawn(program, options.listen, &told, inherited)
            .map(|spawn| with_place(spawn, handover));
        let pid = prepared
            .map_err(|error| StartError::new("preparing the program", error))?
            .start()
            .map_err(|error| {
                StartError::new(
                    format!("starting `{}`", program.path.display()),
                    error.to_string(),
                )
                .member(blamed)
            })?;
        // Not reaped yet, so the number is still this child's.
        let pidfd = pidfd(pid).map_err(|error| StartError::new("watching the program", error))?;
        Ok(Child {
            pid,
            pidfd,
            address,
            reserved,
            places,
            line,
            has_ended: false,
        })
    }

    /// Its number, which no other process has until it is [reaped](Self::ended).
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The socket that answers as long as its event loop turns, if it has one.
    pub(crate) fn alive(&self) -> Option<PathBuf> {
        self.places.as_ref().map(|places| places.alive.clone())
    }

    /// The way to a program that takes its requests itself. `None`: they are relayed to it.
    pub(crate) fn line(&self) -> Option<&Line> {
        self.line.as_ref()
    }

    /// Readable once the program has ended.
    pub(crate) fn pidfd(&self) -> io::Result<OwnedFd> {
        self.pidfd.try_clone()
    }

    fn wait_until_it_listens(
        &mut self,
        options: &RelayOptions,
        must_stop: impl Fn() -> bool,
    ) -> Result<Address, NotListening> {
        let step = match &options.preload {
            Some(_) => "waiting until the script listens".to_owned(),
            None => format!("waiting until the program listens on {}", self.address),
        };
        let from = Instant::now();
        loop {
            let left = options.start_limit.saturating_sub(from.elapsed());
            let limit = left.clamp(FIRST_PAUSE, LONGEST_LOOK);
            let looked = look(&self.address, options.probe.as_deref(), limit);
            let ended = self.ended();
            if looked.is_ok() && ended.is_none() && self.is_taken(Taking::Listening) {
                return Err(NotListening::Taken(None));
            }
            if let Some(how) = ended {
                let mut error = self.failed(options, step, format!("it {how} before it listened"));
                if matches!(how, Ended::Code(0)) && options.preload.is_none() {
                    error = error.hint(STAYS);
                }
                return Err(match self.is_taken(Taking::Any) {
                    true => NotListening::Taken(Some(error)),
                    false => NotListening::Failed(error),
                });
            }
            let reason = match looked {
                Ok(()) if self.has_chosen() => return Ok(self.address.clone()),
                Ok(()) => "its event loop did not turn".to_owned(),
                Err(reason) => reason,
            };
            if must_stop() {
                return Err(NotListening::Failed(StartError::new(step, "told to leave")));
            }
            if from.elapsed() > options.start_limit {
                let limit = options.start_limit.as_secs();
                let message = format!("{reason}, for {limit} s (`limits.start_timeout`)");
                let error = self.failed(options, step, message);
                return Err(NotListening::Failed(error));
            }
            // Its end cuts the pause short.
            let pause = (from.elapsed() / PAUSE_PART).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(pause.subsec_nanos()),
            };
            let _ = poll(
                &mut [PollFd::new(&self.pidfd, PollFlags::IN)],
                Some(&timeout),
            );
        }
    }

    /// True if it is known who takes the requests. A program that does so itself is one whose `line` stays.
    fn has_chosen(&mut self) -> bool {
        let Some(line) = &self.line else {
            return true;
        };
        match line.heard() {
            Heard::Nothing => false,
            Heard::Serves => true,
            Heard::Left | Heard::Relay | Heard::Closed => {
                self.line = None;
                true
            }
        }
    }

    /// The error of a program that does not listen: as its module tells it, else as it is seen from here.
    fn failed(&self, options: &RelayOptions, step: String, message: String) -> StartError {
        let Some(preload) = &options.preload else {
            let error = StartError::new(step, message).member("executable");
            return error.hint(hint(options.listen));
        };
        let path = self.places.as_ref().map(|places| &places.failure);
        let Some(failure) = path.and_then(|path| ListenError::read(path)) else {
            let error = StartError::new(step, message).member(preload.script_member);
            return error.hint(preload.hint);
        };
        let message = format!("{}; {message}", failure.message);
        let member = match failure.member.as_str() {
            "runtime" => preload.runtime_member,
            _ => preload.script_member,
        };
        let error = StartError::new(step, message).member(member);
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// True if another process has the port that it should listen on.
    fn is_taken(&self, by: Taking) -> bool {
        match &self.address {
            Address::Tcp(address) => is_taken(address.port(), self.pid, by),
            Address::Unix(_) => false,
        }
    }

    /// Returns how it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let ended = reap_one(self.pid)?;
        self.has_ended = true;
        Some(ended)
    }

    /// Returns how it ended, if it has; the system is not asked again.
    pub(crate) fn how_it_ended(mut self) -> Option<Ended> {
        self.ended()
    }

    /// Tells it to leave, and makes it when it does not.
    fn end(&mut self) {
        if self.has_ended || self.ended().is_some() {
            return;
        }
        let _ = signal::send(self.pid, libc::SIGTERM);
        let deadline = Instant::now() + GRACE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let _ = signal::send(self.pid, libc::SIGKILL);
            }
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let wait = (!left.is_zero()).then_some(&timeout);
            let _ = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], wait);
            if self.ended().is_some() {
                return;
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
        self.reserved = None;
    }
}

/// The option that names the program.
fn blamed_for_the_program(preload: Option<&Preload>) -> &'static str {
    preload.map_or("executable", |preload| preload.runtime_member)
}

fn hint(listen: Listen) -> &'static str {
    match listen {
        Listen::Port => {
            "it must listen on 127.0.0.1 at the port in the environment variable PORT; `$PORT` in `arguments` is replaced by it"
        }
        Listen::Unix => {
            "it must listen at the path in the environment variable SOCKET; `$SOCKET` in `arguments` is replaced by it"
        }
        Listen::Inherit => {
            "it must accept on descriptor 3, as programs that systemd starts by socket activation do"
        }
    }
}

/// The way in which the program learns where to listen.
enum ListenHandover {
    /// By this, in the variables and arguments of `listen`.
    Place(OsString),
    /// By variables for its preloaded module.
    Variables(Vec<(&'static str, OsString)>),
}

/// Variables that tell a program where to listen, and those that are only about itself.
const OURS: [&str; 6] = [
    "PORT",
    "HOST",
    "SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
];

fn spawn(
    program: &Program,
    listen: Listen,
    told: &ListenHandover,
    inherited: Option<OwnedFd>,
) -> io::Result<Spawn> {
    let null = || -> io::Result<OwnedFd> { Ok(std::fs::File::open("/dev/null")?.into()) };
    let mut spawn = match inherited {
        // The announcement has the process's own number in it, which only the process itself knows.
        Some(_) => Spawn::new("/bin/sh")?
            .argument("-c")?
            .argument("LISTEN_PID=$$ exec \"$@\"")?
            .argument("sh")?
            .argument(&program.path)?,
        _ => Spawn::new(&program.path)?,
    };
    for argument in &program.arguments {
        spawn = match told {
            ListenHandover::Place(shown) => spawn.argument(filled_in(argument, listen, shown))?,
            ListenHandover::Variables(_) => spawn.argument(argument)?,
        };
    }
    for (name, value) in std::env::vars_os() {
        let is_ours = match told {
            ListenHandover::Place(_) => OURS.iter().any(|own| name == *own),
            ListenHandover::Variables(own) => own.iter().any(|(own, _)| name == *own),
        };
        if !is_ours {
            spawn = spawn.variable(name, value)?;
        }
    }
    spawn = match (told, listen) {
        (ListenHandover::Place(port), Listen::Port) => spawn
            .variable("HOST", "127.0.0.1")?
            .variable("PORT", port)?,
        // `PORT` is a number or nothing: many programs read it as one whatever else they are given.
        (ListenHandover::Place(path), Listen::Unix) => spawn.variable("SOCKET", path)?,
        (ListenHandover::Place(_), Listen::Inherit) => spawn
            .variable("LISTEN_FDS", "1")?
            .variable("LISTEN_FDNAMES", "http")?,
        (ListenHandover::Variables(variables), _) => {
            for (name, value) in variables {
                spawn = spawn.variable(name, value)?;
            }
            spawn
        }
    };
    spawn = spawn
        .descriptor(null()?, 0)
        .descriptor(io::stdout().as_fd().try_clone_to_owned()?, 1)
        .descriptor(io::stderr().as_fd().try_clone_to_owned()?, 2);
    if let Some(socket) = inherited {
        spawn = spawn.descriptor(socket, 3);
    }
    Ok(spawn.death_signal(libc::SIGKILL))
}

/// Gives the program the descriptors of a place in the server.
fn with_place(spawn: Spawn, handover: Option<Handover>) -> Spawn {
    let descriptors = handover
        .into_iter()
        .flat_map(|handover| handover.descriptors);
    descriptors.fold(spawn, |spawn, (descriptor, number)| {
        spawn.descriptor(descriptor, number)
    })
}

/// An argument with the place filled in: `$PORT` and `${PORT}`, or `$SOCKET` and `${SOCKET}`.
fn filled_in(argument: &OsStr, listen: Listen, shown: &OsStr) -> OsString {
    let names: &[&str] = match listen {
        Listen::Port => &["${PORT}", "$PORT"],
        Listen::Unix => &["${SOCKET}", "$SOCKET"],
        Listen::Inherit => &[],
    };
    let mut bytes = argument.as_bytes().to_vec();
    for name in names {
        let mut from = 0;
        while let Some(at) =
            memchr::memmem::find(bytes.get(from..).unwrap_or_default(), name.as_bytes())
        {
            let at = from + at;
            bytes.splice(at..at + name.len(), shown.as_bytes().iter().copied());
            from = at + shown.len();
        }
    }
    OsString::from_vec(bytes)
}

/// Succeeds if the program takes a connection, and answers `probe`, both within `limit`; else tells what it does instead.
fn look(address: &Address, probe: Option<&str>, limit: Duration) -> Result<(), String> {
    let end = Instant::now() + limit;
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, limit)
                .and_then(|stream| refuse_itself(&stream).map(|()| stream))
                .map_err(|_| "it took no connection".to_owned())?;
            probe.map_or(Ok(()), |path| {
                ask(&stream, path, end, |left| {
                    stream.set_read_timeout(Some(left))
                })
            })
        }
        Address::Unix(path) => {
            let stream = connect(path).map_err(|_| "it took no connection".to_owned())?;
            probe.map_or(Ok(()), |path| {
                ask(&stream, path, end, |left| {
                    stream.set_read_timeout(Some(left))
                })
            })
        }
    }
}

/// Unlike the standard library's, it does not wait while the program's queue of connections is full.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// `allow` sets how long a read may take.
fn ask(
    mut stream: impl Read + Write,
    path: &str,
    end: Instant,
    allow: impl Fn(Duration) -> io::Result<()>,
) -> Result<(), String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .map_err(|error| format!("it does not take GET {path}: {error}"))?;
    let mut start = Vec::with_capacity(ANSWER_START);
    let mut piece = [0; ANSWER_START];
    while start.len() < ANSWER_START {
        let left = end.saturating_duration_since(Instant::now());
        // No time at all would be no limit.
        let count = allow(left.max(Duration::from_millis(1)))
            .and_then(|()| match left.is_zero() {
                true => Err(io::ErrorKind::TimedOut.into()),
                false => stream.read(&mut piece),
            })
            .and_then(|count| match count {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                count => Ok(count),
            })
            .map_err(|error| format!("it does not answer GET {path}: {error}"))?;
        start.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
    let status = start
        .get(9..12)
        .and_then(|digits| std::str::from_utf8(digits).ok());
    match status.and_then(|digits| digits.parse::<u16>().ok()) {
        Some(status) if status < 500 => Ok(()),
        Some(status) => Err(format!("it answers GET {path} with {status}")),
        None => Err(format!("its answer to GET {path} is not HTTP/1")),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::{Ipv4Addr, TcpListener};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn arguments_are_filled_in() {
        let fill = |text: &str| filled_in(OsStr::new(text), Listen::Port, OsStr::new("80"));
        assert_eq!(fill("$PORT"), "80");
        assert_eq!(
            fill("--bind=127.0.0.1:${PORT}/$PORT"),
            "--bind=127.0.0.1:80/80"
        );
        let fill = |text: &str| filled_in(OsStr::new(text), Listen::Unix, OsStr::new("/s"));
        assert_eq!(fill("-s$SOCKET -p$PORT"), "-s/s -p$PORT");
        assert_eq!(fill("port"), "port");
    }

    /// The part of the time for the start that a look may take; no program is as slow as the longest look.
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn a_look_ends_with_the_time_that_is_left() {
        let deaf = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address::Tcp(deaf.local_addr().unwrap());
        let reason = look(&address, Some("/health"), SHORT).unwrap_err();
        assert!(reason.contains("does not answer GET /health"), "{reason}");
        let stream = TcpStream::connect(deaf.local_addr().unwrap()).unwrap();
        let reads = RefCell::new(Vec::new());
        let end = Instant::now() + SHORT;
        let reason = ask(&stream, "/health", end, |left| {
            reads.borrow_mut().push(left);
            stream.set_read_timeout(Some(left))
        });
        assert!(reason.is_err_and(|reason| reason.contains("does not answer GET /health")));
        let reads = reads.take();
        assert!(!reads.is_empty() && reads.iter().all(|left| *left <= SHORT));
        assert_eq!(look(&address, None, SHORT), Ok(()));
    }

    #[test]
    fn a_full_queue_of_connections_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("http.sock");
        let deaf = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&deaf, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = connect(&path) {
            waiting.push(stream);
        }
        assert!(!waiting.is_empty());
        let reason = look(&Address::Unix(path), None, SHORT).unwrap_err();
        assert_eq!(reason, "it took no connection");
    }
}
