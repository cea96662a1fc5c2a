//! What main does for the router, and what it refuses.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use tutti_pool::{Level, SpoolFile};
use tutti_sys::credentials::{self, Credentials};
use tutti_sys::{memfd, signal};

use super::Instance;
use super::children::{Children, Prototype};
use super::isolation::{Cgroups, Preparation, Refusal, Surroundings};
use super::sockets::Sockets;
use super::stored;
use super::{history, state};
use crate::log;
use crate::protocol::{Cause, ToMain, ToRouter};

/// What the router has had main do, and what outlives a router.
#[derive(Default)]
pub(super) struct Holdings {
    pub(super) sockets: Sockets,
    pub(super) children: Children,
    /// Logs to be reopened on request.
    pub(super) files: HashSet<PathBuf>,
    /// The configuration in force, for the next router.
    pub(super) configuration: Option<String>,
    /// Those made for applications.
    pub(super) cgroups: Cgroups,
}

/// An answer to the router with its descriptors.
pub(super) type Answer = Option<(ToRouter, Vec<OwnedFd>)>;

fn failed(id: u64, refusal: impl Into<Refusal>) -> Answer {
    let Refusal {
        message,
        hint,
        option,
    } = refusal.into();
    let answer = ToRouter::Failed {
        id,
        message,
        hint,
        option,
    };
    Some((answer, Vec::new()))
}

fn done(id: u64, descriptors: Vec<OwnedFd>) -> Answer {
    Some((ToRouter::Done { id, pid: None }, descriptors))
}

impl Holdings {
    /// Carries out one request of the router with this process number. What concerns the router itself is the supervisor's.
    pub(super) fn carry_out(
        &mut self,
        instance: &Instance,
        router: i32,
        message: ToMain,
        descriptors: Vec<OwnedFd>,
    ) -> Answer {
        match message {
            ToMain::Listen { id, place, backlog } => match self.sockets.get(&place, backlog) {
                Ok(socket) => done(id, vec![socket]),
                Err(refusal) => failed(
                    id,
                    Refusal {
                        message: refusal.message,
                        hint: refusal.hint,
                        option: None,
                    },
                ),
            },
            ToMain::Unlisten { place } => {
                self.sockets.release(&place);
                None
            }
            ToMain::OpenFile { id, path } => {
                match may_log_to(&path).and_then(|()| log::open(&path)) {
                    Ok(file) => {
                        self.files.insert(path);
                        done(id, vec![file])
                    }
                    Err(error) => failed(id, error),
                }
            }
            ToMain::OpenSpool { id, folder } => match open_spool(&folder) {
                Ok(SpoolFile { file, reader }) => done(id, vec![file, reader]),
                Err(error) => failed(id, error),
            },
            ToMain::CloseFile { path } => {
                self.files.remove(&path);
                None
            }
            start @ ToMain::Start { id, .. } => {
                match self.start(instance, router, start, descriptors) {
                    Ok(pid) => Some((ToRouter::Done { id, pid: Some(pid) }, Vec::new())),
                    Err(refusal) => failed(id, refusal),
                }
            }
            ToMain::Settle { id, pid } => {
                if let Err(error) = self.children.settle(pid) {
                    let text = format!("process {pid} keeps a low priority: {error}");
                    instance.log.line(Level::Warn, &text);
                }
                done(id, Vec::new())
            }
            ToMain::Kill { pid, signal } => {
                self.kill(instance, pid, signal);
                None
            }
            ToMain::Store {
                id,
                configuration,
                cause,
            } => match state::store(&instance.places.state, &configuration) {
                Ok(()) => {
                    let before = self.configuration.replace(configuration);
                    self.note(instance, before.as_deref(), &cause);
                    done(id, Vec::new())
                }
                Err(error) => failed(id, error),
            },
            ToMain::ReadFiles { id } => match read_files(instance) {
                Ok(file) => done(id, vec![file]),
                Err(error) => failed(id, error),
            },
            ToMain::History { id } => {
                let entries = history::list(&instance.places.state)
                    .and_then(|entries| Ok(serde_json::to_vec(&entries)?));
                match entries.and_then(|text| memfd::document("tutti-history", &text)) {
                    Ok(file) => done(id, vec![file]),
                    Err(error) => failed(id, error),
                }
            }
            ToMain::Keep {
                id,
                store,
                name,
                text,
            } => match stored::keep(&instance.places.state, store, &name, &text) {
                Ok(()) => done(id, Vec::new()),
                Err(error) => failed(id, error),
            },
            ToMain::Discard { id, store, name } => {
                match stored::discard(&instance.places.state, store, &name) {
                    Ok(()) => done(id, Vec::new()),
                    Err(error) => failed(id, error),
                }
            }
            ToMain::Past { id, number } => match history::past(&instance.places.state, number) {
                None => done(id, Vec::new()),
                Some(text) => match memfd::document("tutti-past", text.as_bytes()) {
                    Ok(file) => done(id, vec![file]),
                    Err(error) => failed(id, error),
                },
            },
            ToMain::SetAside => {
                set_aside(instance);
                // Nothing listens for it: better a closed port than one that never answers.
                self.sockets.release_all();
                self.files.clear();
                None
            }
            ToMain::Ready
            | ToMain::Upgrade { .. }
            | ToMain::Frozen
            | ToMain::Unfit { .. }
            | ToMain::Totals { .. } => None,
        }
    }

    /// Keeps what was stored in the history. The change stands, whether that works or not.
    fn note(&self, instance: &Instance, before: Option<&str>, cause: &Cause) {
        let configuration = self.configuration.as_deref().unwrap_or_default();
        let state = &instance.places.state;
        if let Err(error) = history::record(state, before, configuration, cause) {
            let text = format!("the change is stored, but not in the history: {error}");
            instance.log.line(Level::Warn, &text);
        }
    }

    fn start(
        &mut self,
        instance: &Instance,
        router: i32,
        message: ToMain,
        descriptors: Vec<OwnedFd>,
    ) -> Result<i32, Refusal> {
        let ToMain::Start {
            name,
            kind,
            version,
            user,
            group,
            isolation,
            may_give_way,
            ..
        } = message
        else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
        };
        let module = instance
            .modules
            .iter()
            .find(|m| m.kind == kind && m.version == version)
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("no module for `{kind} {version}`"),
                )
            })?;
        let credentials = credentials_for(instance, user.as_deref(), group.as_deref())?;
        let surroundings = match &isolation {
            None => Surroundings::plain(credentials),
            Some(isolation) => Preparation {
                isolation,
                credentials,
                dependencies: &module.dependencies,
                cgroups: &mut self.cgroups,
            }
            .carry_out()?,
        };
        self.children.start(Prototype {
            router,
            host: &module.path,
            name: &name,
            surroundings,
            may_give_way,
            descriptors,
        })
    }

    fn kill(&self, instance: &Instance, pid: i32, signal: i32) {
        if !self.children.owns(pid) {
            // It may have ended a moment ago: then there is nothing to say.
            if signal::exists(pid) {
                let text = format!(
                    "the router asked to signal process {pid}, which is not of an application; refused"
                );
                instance.log.line(Level::Alert, &text);
            }
            return;
        }
        let _ = signal::send(pid, signal);
    }
}

/// Folders that hold no logs. Main may write anywhere; a router in wrong hands must not use it to get there.
const NO_LOGS: [&str; 12] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/root",
    "/run/systemd",
    "/sbin",
    "/sys",
    "/usr",
];

/// What may be opened besides.
const STREAMS: [&str; 7] = [
    "/dev/stdout",
    "/dev/stderr",
    "/dev/null",
    "/dev/tty",
    "/dev/console",
    "/proc/self/fd/1",
    "/proc/self/fd/2",
];

/// Whether a log may be opened there, for the path as it is and for where it leads.
fn open_spool(folder: &Path) -> io::Result<SpoolFile> {
    if !folder.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path of the folder has to begin with `/`",
        ));
    }
    SpoolFile::create(folder)
}

fn may_log_to(path: &Path) -> io::Result<()> {
    let is_stream = |path: &Path| STREAMS.iter().any(|stream| path == Path::new(stream));
    let is_forbidden = |path: &Path| NO_LOGS.iter().any(|folder| path.starts_with(folder));
    if is_stream(path) {
        return Ok(());
    }
    // A link to a stream is what containers use; `canonicalize` would follow it into /proc.
    if std::fs::read_link(path).is_ok_and(|target| is_stream(&target)) {
        return Ok(());
    }
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let real = path.canonicalize().ok();
    if [Some(path), folder.as_deref(), real.as_deref()]
        .into_iter()
        .flatten()
        .any(is_forbidden)
    {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "no log can be written to `{}`: choose a folder for logs, such as `/var/log`",
                path.display()
            ),
        ));
    }
    if std::fs::metadata(path).is_ok_and(|file| file.is_dir() || file.file_type().is_block_device())
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is no file for a log", path.display()),
        ));
    }
    Ok(())
}

/// Whom an application runs as. Only root can become others; anyone may name themselves.
fn credentials_for(
    instance: &Instance,
    user: Option<&str>,
    group: Option<&str>,
) -> io::Result<Option<Credentials>> {
    if let Some(default) = &instance.default_credentials {
        if user.is_none() && group.is_none() {
            return Ok(Some(default.clone()));
        }
        let user = user
            .or(instance.default_user.as_deref())
            .unwrap_or("nobody");
        return credentials::lookup(user, group).map(Some);
    }
    let is_own_user = user.is_none_or(|name| {
        credentials::user_number(name).ok() == Some(credentials::current_user())
    });
    let is_own_group = group.is_none_or(|name| {
        credentials::group_number(name).ok() == Some(credentials::current_group())
    });
    if is_own_user && is_own_group {
        return Ok(None);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "`user` and `group` need a server started by root: leave them out, or start it as root",
    ))
}

fn read_files(instance: &Instance) -> io::Result<OwnedFd> {
    let files = match &instance.places.config {
        Some(path) => crate::config_files::read(path)?,
        None => Vec::new(),
    };
    memfd::document("tutti-files", &serde_json::to_vec(&files)?)
}

fn set_aside(instance: &Instance) {
    match state::set_aside(&instance.places.state) {
        Ok(path) => {
            let text = format!("the stored configuration is kept as `{}`", path.display());
            instance.log.line(Level::Notice, &text);
        }
        Err(error) => instance.log.line(Level::Alert, &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;
    use crate::log::Log;
    use crate::protocol::{Module, Place};

    fn instance(folder: &Path) -> Instance {
        let flags = Flags {
            statedir: Some(folder.to_path_buf()),
            ..Flags::default()
        };
        Instance {
            places: flags.places(false),
            log: Log::to(log::open(&folder.join("log")).unwrap()),
            default_credentials: None,
            default_user: None,
            modules: vec![Module {
                kind: "php".into(),
                version: "8.2.0".into(),
                path: "/bin/false".into(),
                dependencies: Vec::new(),
            }],
            control: std::fs::File::open("/dev/null").unwrap().into(),
            has_own_temporary_folder: false,
            is_daemon: false,
            state_lock: std::fs::File::open(folder).unwrap(),
            program: "/bin/false".into(),
            arguments: Vec::new(),
        }
    }

    fn descriptors(count: usize) -> Vec<OwnedFd> {
        (0..count)
            .map(|_| std::fs::File::open("/dev/null").unwrap().into())
            .collect()
    }

    fn start(kind: &str, version: &str, user: Option<&str>) -> ToMain {
        ToMain::Start {
            id: 1,
            name: "x".into(),
            kind: kind.into(),
            version: version.into(),
            user: user.map(str::to_owned),
            group: None,
            isolation: None,
            may_give_way: true,
        }
    }

    fn refusal(answer: Answer) -> String {
        match answer {
            Some((ToRouter::Failed { message, .. }, _)) => message,
            other => format!("not refused: {other:?}"),
        }
    }

    #[test]
    fn only_known_modules_with_all_their_descriptors_are_started() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let mut holdings = Holdings::default();
        let mut ask =
            |message, count| refusal(holdings.carry_out(&instance, 1, message, descriptors(count)));
        assert!(ask(start("sh", "1", None), 6).contains("no module"));
        assert!(ask(start("php", "8.3.0", None), 6).contains("no module"));
        assert!(ask(start("php", "8.2.0", None), 5).contains("too few descriptors"));
        assert!(holdings.children.is_empty());
    }

    #[test]
    fn users_are_only_for_a_server_started_by_root() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let mut holdings = Holdings::default();
        let answer = holdings.carry_out(
            &instance,
            1,
            start("php", "8.2.0", Some("daemon")),
            descriptors(6),
        );
        assert!(refusal(answer).contains("started by root"));
    }

    #[test]
    fn foreign_processes_are_not_signalled() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        for target in [pid, 0, -1, -pid] {
            let signal = ToMain::Kill {
                pid: target,
                signal: libc::SIGKILL,
            };
            assert!(
                Holdings::default()
                    .carry_out(&instance, 1, signal, Vec::new())
                    .is_none()
            );
        }
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            std::fs::read_to_string(folder.path().join("log"))
                .unwrap()
                .contains("refused")
        );
    }

    #[test]
    fn logs_are_not_opened_where_none_belong() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        let stream = folder.path().join("stream");
        std::os::unix::fs::symlink("/dev/stdout", &stream).unwrap();
        let dotted = folder.path().join("../../etc/cron.d/x");
        for path in [
            Path::new("/etc/passwd"),
            Path::new("/usr/lib/x"),
            &link,
            &dotted,
            folder.path(),
        ] {
            assert!(may_log_to(path).is_err(), "{}", path.display());
        }
        for path in [
            &folder.path().join("access.log"),
            &stream,
            Path::new("/dev/null"),
        ] {
            assert!(may_log_to(path).is_ok(), "{}", path.display());
        }
    }

    #[test]
    fn an_address_in_use_and_a_folder_that_is_missing_are_refused_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let message = ToMain::Listen {
            id: 9,
            place: Place::Path(folder.path().join("none/socket")),
            backlog: 5,
        };
        let answer = Holdings::default().carry_out(&instance, 1, message, Vec::new());
        assert!(matches!(
            answer,
            Some((
                ToRouter::Failed {
                    id: 9,
                    hint: Some(_),
                    ..
                },
                _
            ))
        ));
    }
}
