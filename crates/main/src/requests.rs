//! The requests of routers: main carries them out or rejects them.
//!
//! Every request of a router is checked against its [`Rights`]; without them it is rejected with an alert in the log,
//! because a correct router requests nothing else.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use tutti_log as log;
use tutti_log::Level;
use tutti_protocol::{
    ApplicationGrant, BindAddress, CacheGrant, Challenge, CommandGrant, FromRouter, Grants,
    ToRouter,
};
use tutti_sys::anonymous_file::UnnamedFile;
use tutti_sys::credentials::{self, Credentials};
use tutti_sys::error::context;
use tutti_sys::{guarded, memfd, signal};
use tutti_wire::control::{Start, encode};

use super::cache_files;
use super::children::{Children, Prototype, Runner};
use super::dynamic_users::{self, AUTO};
use super::handover::DatagramUse;
use super::instance::Instance;
use super::isolation::{Cgroups, IsolationError, Preparation, PrototypeEnvironment};
use super::jobs;
use super::rights::Rights;
use super::sockets::Sockets;

/// Everything that main has opened or started for routers, and that outlives a router.
#[derive(Default)]
pub(super) struct RouterResources {
    pub(super) sockets: Sockets,
    /// The keys of QUIC are derived from it; the same for all routers.
    pub(super) quic_secret: Vec<u8>,
    pub(super) children: Children,
    /// Logs to be reopened on request.
    pub(super) files: HashSet<PathBuf>,
    /// The configuration in force, for the next router.
    pub(super) configuration: Option<String>,
    /// Its grants for a router.
    pub(super) grants: Grants,
    /// The rights of each router, by its process id.
    pub(super) rights: HashMap<i32, Rights>,
    /// Challenge responses, for the next router.
    pub(super) challenges: Vec<Challenge>,
    /// Cgroups created for applications.
    pub(super) cgroups: Cgroups,
}

const QUIC_SECRET_BYTES: usize = 32;

/// An answer to the router with its descriptors.
pub(super) type ReplyWithDescriptors = Option<(ToRouter, Vec<OwnedFd>)>;

fn failed(id: u64, refusal: impl Into<IsolationError>) -> ReplyWithDescriptors {
    let IsolationError {
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

fn done(id: u64, descriptors: Vec<OwnedFd>) -> ReplyWithDescriptors {
    Some((ToRouter::Done { id, pid: None }, descriptors))
}

/// Opens a file for a router to read. Its content is not read here.
fn open_file(path: &Path) -> io::Result<OwnedFd> {
    let opened = tutti_sys::file::open_ordinary(path);
    let (file, _) = opened.map_err(|e| context(format!("reading `{}`", path.display()), e))?;
    Ok(file.into())
}

/// Returns the answer to a request to open something.
fn opened(
    id: u64,
    result: Result<Vec<OwnedFd>, impl Into<IsolationError>>,
) -> ReplyWithDescriptors {
    match result {
        Ok(descriptors) => done(id, descriptors),
        Err(refusal) => failed(id, refusal),
    }
}

/// Rejects a request that no configuration grants.
fn not_granted(what: &str) -> IsolationError {
    IsolationError::from(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{what} is not in the configuration"),
    ))
}

fn too_many(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::QuotaExceeded,
        format!("there are too many {what} already"),
    )
}

impl RouterResources {
    /// Returns the secret of QUIC, which is created when it is first requested.
    pub(super) fn quic_secret(&mut self) -> io::Result<Vec<u8>> {
        if self.quic_secret.is_empty() {
            let mut secret = vec![0; QUIC_SECRET_BYTES];
            File::open("/dev/urandom")?.read_exact(&mut secret)?;
            self.quic_secret = secret;
        }
        Ok(self.quic_secret.clone())
    }

    fn settle(&mut self, instance: &Instance, router: i32, pid: i32) {
        if let Err(error) = self.children.settle(router, pid) {
            let text = format!("process {pid} keeps a low priority: {error}");
            instance.log.line(Level::Warn, &text);
        }
    }

    /// Carries out a request of the router with this process id. Requests that concern the router itself are handled by
    /// the supervisor.
    pub(super) fn carry_out(
        &mut self,
        instance: &Instance,
        router: i32,
        message: FromRouter,
        descriptors: Vec<OwnedFd>,
    ) -> ReplyWithDescriptors {
        let rights = self.rights.get(&router);
        match message {
            FromRouter::Listen { id, ref place } => {
                let Some(backlog) = rights.and_then(|rights| rights.backlog(place)) else {
                    return self.refuse(instance, router, id, &message);
                };
                if self.sockets.is_of_dashboard(place) {
                    let message =
                        "the dashboard listens there; move it first, in a separate change";
                    return failed(id, io::Error::new(io::ErrorKind::AddrInUse, message));
                }
                let socket = self.sockets.get(place, backlog);
                opened(id, socket.map(|socket| vec![socket]))
            }
            FromRouter::Unlisten { place } => {
                if !self.sockets.is_of_dashboard(&place) {
                    self.sockets.release(&place);
                }
                None
            }
            FromRouter::ListenDatagrams { id, address } => {
                self.open_datagrams(instance, router, id, address)
            }
            FromRouter::UnlistenDatagrams { address } => {
                self.sockets.release_datagrams(&address);
                if let Some(rights) = self.rights.get_mut(&router) {
                    rights.note_returned(&address);
                }
                None
            }
            FromRouter::OpenFile { id, ref path } => {
                if !rights.is_some_and(|rights| rights.has_log(path)) {
                    return self.refuse(instance, router, id, &message);
                }
                match log::open_configured(path) {
                    Ok(file) => {
                        self.files.insert(path.clone());
                        done(id, vec![file])
                    }
                    Err(error) => failed(id, error),
                }
            }
            FromRouter::ReadFile { id, ref path } => {
                if !rights.is_some_and(|rights| rights.has_file(path)) {
                    return self.refuse(instance, router, id, &message);
                }
                opened(id, open_file(path).map(|file| vec![file]))
            }
            FromRouter::OpenSpool { id, ref folder } => {
                // The server's own folder is available to every router.
                let is_own = *folder == instance.places.temporary;
                if !is_own && !rights.is_some_and(|rights| rights.has_spool(folder)) {
                    return self.refuse(instance, router, id, &message);
                }
                let spool = open_spool(instance, folder);
                opened(
                    id,
                    spool.map(|UnnamedFile { file, reader }| vec![file, reader]),
                )
            }
            FromRouter::OpenJobs { id } if rights.is_some_and(Rights::has_jobs) => {
                let file = jobs::open(&instance.places.state);
                opened(id, file.map(|file| vec![file]))
            }
            // The supervisor sends it the nodes then.
            FromRouter::FollowNodes { id } if rights.is_some_and(Rights::has_nodes) => {
                done(id, Vec::new())
            }
            FromRouter::OpenJobs { id } | FromRouter::FollowNodes { id } => {
                self.refuse(instance, router, id, &message)
            }
            FromRouter::OpenCache { id, ref cache } => self.open_cache(instance, router, id, cache),
            FromRouter::CloseFile { path } => {
                self.files.remove(&path);
                None
            }
            FromRouter::Start { .. } => self.start(instance, router, message, descriptors),
            FromRouter::RunCommand { .. } => {
                self.run_command(instance, router, &message, descriptors)
            }
            FromRouter::Settle { id, pid } => {
                self.settle(instance, router, pid);
                done(id, Vec::new())
            }
            FromRouter::Kill { .. } => {
                self.kill(instance, router, &message);
                None
            }
            FromRouter::Ready
            | FromRouter::WantCertificate { .. }
            | FromRouter::CertificateUsed { .. }
            | FromRouter::Alive { .. }
            | FromRouter::Frozen
            | FromRouter::Unfit { .. }
            | FromRouter::Prepared { .. }
            | FromRouter::Committed { .. }
            | FromRouter::Unprepared { .. }
            | FromRouter::Told { .. }
            | FromRouter::JobDelivered { .. }
            | FromRouter::PassJob
            | FromRouter::Totals { .. } => None,
        }
    }

    fn open_datagrams(
        &mut self,
        instance: &Instance,
        router: i32,
        id: u64,
        address: SocketAddr,
    ) -> ReplyWithDescriptors {
        let rights = self.rights.get_mut(&router);
        let granted = rights.and_then(|rights| Some((rights.datagrams(&address)?, rights)));
        let Some(((purpose, bank), rights)) = granted else {
            let wanted = FromRouter::ListenDatagrams { id, address };
            return self.refuse(instance, router, id, &wanted);
        };
        if !self.sockets.has_datagrams(&address) {
            rights.note_bound(address);
        }
        opened(id, self.sockets.get_datagrams(address, purpose, bank))
    }

    fn open_cache(
        &mut self,
        instance: &Instance,
        router: i32,
        id: u64,
        cache: &CacheGrant,
    ) -> ReplyWithDescriptors {
        let rights = self.rights.get(&router);
        if !rights.is_some_and(|rights| rights.has_cache(cache)) {
            let cache = cache.clone();
            return self.refuse(instance, router, id, &FromRouter::OpenCache { id, cache });
        }
        let file = cache_files::open(&instance.places.state, cache);
        opened(id, file.map(|file| vec![file]))
    }

    /// Answers a request without grant, and logs an alert unless it was granted a moment ago.
    fn refuse(
        &mut self,
        instance: &Instance,
        router: i32,
        id: u64,
        wanted: &FromRouter,
    ) -> ReplyWithDescriptors {
        let what = match wanted {
            FromRouter::Listen { place, .. } => format!("to listen at {place:?}"),
            FromRouter::ListenDatagrams { address, .. } => {
                format!("to take datagrams at {address}")
            }
            FromRouter::OpenFile { path, .. } => format!("the log {path:?}"),
            FromRouter::ReadFile { path, .. } => format!("the file {path:?}"),
            FromRouter::OpenSpool { folder, .. } => format!("the folder {folder:?}"),
            FromRouter::OpenJobs { .. } => "the file of jobs".to_owned(),
            FromRouter::FollowNodes { .. } => "the nodes of the fleet".to_owned(),
            FromRouter::OpenCache { cache, .. } => format!("the file of the cache {cache:?}"),
            FromRouter::Start { name, start, .. } => {
                format!("to start application {name:?} as {start}")
            }
            FromRouter::RunCommand { place, start, .. } => {
                format!("to run the command at {place:?} as {start}")
            }
            other => format!("{other:?}"),
        };
        let rights = self.rights.get(&router);
        if !rights.is_some_and(|rights| rights.had(wanted, Instant::now())) {
            self.report_refusal(instance, router, &what);
        }
        failed(id, not_granted(&what))
    }

    fn report_refusal(&mut self, instance: &Instance, router: i32, what: &str) {
        if self.rights.get_mut(&router).is_none_or(Rights::refuse) {
            // Names may be a megabyte long.
            let what: String = what.chars().take(300).collect();
            let text = format!(
                "router process {router} made a request that the configuration does not allow, {what}: refused; the process may be compromised"
            );
            instance.log.line(Level::Alert, &text);
        }
    }

    fn start(
        &mut self,
        instance: &Instance,
        router: i32,
        message: FromRouter,
        descriptors: Vec<OwnedFd>,
    ) -> ReplyWithDescriptors {
        let FromRouter::Start {
            id,
            ref name,
            ref start,
            threads,
            workers,
        } = message
        else {
            return None;
        };
        if let Some(rights) = self.rights.get_mut(&router) {
            rights.forget_ended(router, &self.children, Instant::now());
        }
        let rights = self.rights.get(&router);
        let Some(grant) = rights.and_then(|rights| rights.application(name, start)) else {
            return self.refuse(instance, router, id, &message);
        };
        if self.children.has_most_of(router, &grant) {
            return failed(id, too_many("prototypes of this application"));
        }
        let started = self.start_granted(instance, router, grant, (threads, workers), descriptors);
        match started {
            Ok(pid) => Some((ToRouter::Done { id, pid: Some(pid) }, Vec::new())),
            Err(refusal) => failed(id, refusal),
        }
    }

    /// Returns the socket of the dashboard. A router's listener and the dashboard never share a socket.
    pub(super) fn listen_for_dashboard(&mut self, place: &BindAddress) -> io::Result<OwnedFd> {
        if self.grants.places.iter().any(|grant| grant.place == *place) {
            let message = "a listener has this address; move it first, in a separate change";
            return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
        }
        self.sockets.get_for_dashboard(place).map_err(|refusal| {
            let hint = refusal
                .hint
                .map_or_else(String::new, |hint| format!("; {hint}"));
            io::Error::other(format!("{}{hint}", refusal.message))
        })
    }

    fn run_command(
        &mut self,
        instance: &Instance,
        router: i32,
        message: &FromRouter,
        descriptors: Vec<OwnedFd>,
    ) -> ReplyWithDescriptors {
        let FromRouter::RunCommand {
            id,
            ref place,
            ref start,
            process,
        } = *message
        else {
            return None;
        };
        let rights = self.rights.get(&router);
        let grant = rights.and_then(|rights| rights.command(place, start));
        let grant = grant.filter(|grant| process.is_none_or(|process| process < grant.processes));
        let Some(grant) = grant else {
            return self.refuse(instance, router, id, message);
        };
        if process.is_none() && self.children.has_most_looks(router) {
            return failed(id, too_many("runners that check commands"));
        }
        match self.run_granted(instance, router, grant, process, descriptors) {
            Ok(pid) => Some((ToRouter::Done { id, pid }, Vec::new())),
            Err(refusal) => failed(id, refusal),
        }
    }

    fn run_granted(
        &mut self,
        instance: &Instance,
        router: i32,
        grant: Rc<CommandGrant>,
        process: Option<u32>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Option<i32>, IsolationError> {
        let own = instance.module_of(&grant.application)?;
        // The host for external programs is the smallest; any host can run a command.
        let small = instance
            .modules
            .iter()
            .find(|module| module.kind == "external");
        let host = small.unwrap_or(own);
        let needed: Vec<PathBuf> = host
            .dependencies
            .iter()
            .chain(&own.dependencies)
            .cloned()
            .collect();
        let surroundings =
            self.surroundings(instance, &grant.application, (&needed, &host.libraries))?;
        self.children.run_command(Runner {
            router,
            host: &host.path,
            surroundings,
            start_document: memfd::document("tutti-command", grant.start.as_bytes())?,
            grant,
            descriptors,
            process,
        })
    }

    /// Returns the user and environment of an application's processes. `dependencies` are files needed in a new root,
    /// `libraries` those without which they cannot be started.
    fn surroundings(
        &mut self,
        instance: &Instance,
        grant: &ApplicationGrant,
        (dependencies, libraries): (&[PathBuf], &[PathBuf]),
    ) -> Result<PrototypeEnvironment, IsolationError> {
        let (user, group) = (grant.user.as_deref(), grant.group.as_deref());
        let credentials = credentials_for(instance, &grant.name, user, group)
            .map_err(|error| unfit(&error, user, group))?;
        match &grant.isolation {
            None => Ok(PrototypeEnvironment::plain(credentials)),
            Some(isolation) => Preparation {
                isolation,
                credentials,
                dependencies,
                libraries,
                cgroups: &mut self.cgroups,
            }
            .carry_out(),
        }
    }

    /// The change that a router was preparing is abandoned: descriptors opened only for it are closed.
    pub(super) fn abandon_change(&mut self, router: i32) {
        let Some(rights) = self.rights.get_mut(&router) else {
            return;
        };
        let gone = rights.abandon(Instant::now());
        for place in gone.places {
            if !self.sockets.is_of_dashboard(&place) {
                self.sockets.release(&place);
            }
        }
        for address in gone.datagrams {
            self.sockets.release_datagrams(&address);
        }
        for path in gone.logs {
            self.files.remove(&path);
        }
    }

    /// Closes everything that a router that has ended did not release: the next one requests what the configuration
    /// needs.
    pub(super) fn release_what_is_not_granted(&mut self) {
        let grants = &self.grants;
        let is_granted =
            |place: &BindAddress| grants.places.iter().any(|grant| grant.place == *place);
        self.sockets.retain(is_granted);
        self.sockets.retain_datagrams(|address, purpose| {
            let is_stream = grants.stream_datagrams.contains(address);
            grants.datagrams.contains(address) && is_stream == (purpose == DatagramUse::Stream)
        });
        self.files.retain(|path| grants.logs.contains(path));
    }

    /// Closes the UDP sockets that only a former router had, which has ended: nothing releases them otherwise.
    pub(super) fn release_datagrams_of_no_router(&mut self) {
        let rights = &self.rights;
        let is_wanted = |address: &SocketAddr| {
            let mut rights = rights.values();
            rights.any(|rights| rights.may_have_datagrams(address))
        };
        self.sockets
            .retain_datagrams(|address, _| is_wanted(address));
    }

    fn start_granted(
        &mut self,
        instance: &Instance,
        router: i32,
        grant: Rc<ApplicationGrant>,
        (threads, workers): (u32, u32),
        descriptors: Vec<OwnedFd>,
    ) -> Result<i32, IsolationError> {
        let module = instance.module_of(&grant)?;
        let files = (module.dependencies.as_slice(), module.libraries.as_slice());
        let surroundings = self.surroundings(instance, &grant, files)?;
        let start: Start = serde_json::from_str(&grant.start).map_err(io::Error::from)?;
        // Wrong ones only affect the router's own application.
        let start = Start {
            threads: Some(threads),
            workers: Some(workers),
            ..start
        };
        self.children.start(Prototype {
            router,
            host: &module.path,
            grant,
            surroundings,
            start_document: memfd::document("tutti-start", &encode(&start))?,
            descriptors,
        })
    }

    fn kill(&mut self, instance: &Instance, router: i32, message: &FromRouter) {
        let &FromRouter::Kill {
            leader,
            pid,
            signal,
        } = message
        else {
            return;
        };
        if self.children.owns(router, leader, pid) {
            let _ = signal::send(pid, signal);
        } else if signal::exists(pid) {
            // A process that has just ended is not worth a message.
            let named = leader.map_or_else(String::new, |leader| format!(" as one of {leader}"));
            let what =
                format!("to signal process {pid}{named}, which is not of one of its applications");
            self.report_refusal(instance, router, &what);
        }
    }
}

fn open_spool(instance: &Instance, folder: &Path) -> io::Result<UnnamedFile> {
    if folder == instance.places.temporary {
        instance.ensure_temporary();
    }
    if !folder.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path of the folder must begin with `/`",
        ));
    }
    let folder = guarded::folder(folder, None)
        .map_err(|e| context(format!("opening the folder `{}`", folder.display()), e))?;
    UnnamedFile::create(&folder.handle_path())
}

/// Determines which of the two options is wrong.
fn unfit(error: &io::Error, user: Option<&str>, group: Option<&str>) -> IsolationError {
    let is_unknown = |found: io::Result<u32>| found.is_err();
    match (user, group) {
        (Some(user), _) if user != AUTO && is_unknown(credentials::user_number(user)) => {
            IsolationError::at(
                "user",
                error.to_string(),
                format!("name an existing user, or create this one: `useradd --system {user}`"),
            )
        }
        (_, Some(group)) if is_unknown(credentials::group_number(group)) => IsolationError::at(
            "group",
            error.to_string(),
            format!("name an existing group, or create this one: `groupadd --system {group}`"),
        ),
        (Some(_), _) => IsolationError::at("user", error.to_string(), "leave it out"),
        _ => IsolationError::at("group", error.to_string(), "leave it out"),
    }
}

/// Returns the user of an application. Only root can switch users; others may name themselves.
fn credentials_for(
    instance: &Instance,
    application: &str,
    user: Option<&str>,
    group: Option<&str>,
) -> io::Result<Option<Credentials>> {
    if let Some(default) = &instance.default_credentials {
        if user.is_none() && group.is_none() {
            return Ok(Some(default.clone()));
        }
        // An existing user with this name takes precedence, as in NGINX Unit.
        if user == Some(AUTO) && !credentials::is_user(AUTO) {
            return dynamic_users::of(&instance.places.state, application, group).map(Some);
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

#[cfg(test)]
mod tests {
    use tutti_log::Log;
    use tutti_protocol::{ApplicationGrant, LanguageModule, PlaceGrant};
    use tutti_testkit::{files, free_port, wait_until};

    use super::*;
    use crate::flags::Flags;

    /// Process id of the router in these tests.
    const ROUTER: i32 = 1;

    fn instance(folder: &Path) -> Instance {
        let flags = Flags {
            statedir: Some(folder.to_path_buf()),
            ..Flags::default()
        };
        Instance {
            places: flags.places(),
            log: Log::to(log::open(&folder.join("log")).unwrap()),
            default_credentials: None,
            own_credentials: None,
            default_user: None,
            modules: vec![LanguageModule {
                kind: "php".into(),
                version: "8.2.0".into(),
                path: "/bin/false".into(),
                dependencies: Vec::new(),
                libraries: Vec::new(),
            }],
            control: std::fs::File::open("/dev/null").unwrap().into(),
            status: crate::status_socket::StatusSocket::open().unwrap(),
            access: tutti_protocol::ControlAccess::default(),
            has_own_temporary_folder: false,
            is_daemon: false,
            state_lock: std::fs::File::open(folder).unwrap(),
            pid_file: None,
            program: "/bin/false".into(),
            arguments: Vec::new(),
        }
    }

    fn descriptors(count: usize) -> Vec<OwnedFd> {
        (0..count)
            .map(|_| std::fs::File::open("/dev/null").unwrap().into())
            .collect()
    }

    fn application(version: &str, user: Option<&str>) -> ApplicationGrant {
        let start = Start {
            name: "x".to_owned(),
            kind: "php".to_owned(),
            ..Start::default()
        };
        ApplicationGrant {
            name: "x".to_owned(),
            kind: "php".to_owned(),
            version: version.to_owned(),
            user: user.map(str::to_owned),
            group: None,
            isolation: None,
            start: String::from_utf8(encode(&start)).unwrap(),
        }
    }

    /// Returns holdings in which a router has the rights of a configuration with this one application.
    fn with(application: &ApplicationGrant) -> RouterResources {
        let grants = Grants {
            applications: vec![application.clone()],
            ..Grants::default()
        };
        with_grants(&grants)
    }

    fn with_grants(grants: &Grants) -> RouterResources {
        let mut holdings = RouterResources::default();
        holdings.rights.insert(ROUTER, Rights::new(grants));
        holdings
    }

    fn start(application: &ApplicationGrant) -> FromRouter {
        FromRouter::Start {
            id: 1,
            name: application.name.clone(),
            start: application.start.clone(),
            threads: 1,
            workers: 1,
        }
    }

    /// The start document of a command.
    const COMMAND: &str = "{\"words\":[\"php\"]}";

    fn command(application: &ApplicationGrant) -> CommandGrant {
        CommandGrant {
            application: application.clone(),
            place: "/applications/x/mules/q".to_owned(),
            processes: 2,
            start: COMMAND.to_owned(),
            stop_timeout: 1000,
        }
    }

    fn run(place: &str, start: &str, process: Option<u32>) -> FromRouter {
        FromRouter::RunCommand {
            id: 1,
            place: place.to_owned(),
            start: start.to_owned(),
            process,
        }
    }

    fn refusal(answer: ReplyWithDescriptors) -> String {
        match answer {
            Some((ToRouter::Failed { message, .. }, _)) => message,
            other => format!("not refused: {other:?}"),
        }
    }

    #[test]
    fn only_known_modules_with_all_their_descriptors_are_started() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let ask = |version: &str, count| {
            let application = application(version, None);
            let mut holdings = with(&application);
            let answer =
                holdings.carry_out(&instance, ROUTER, start(&application), descriptors(count));
            assert!(holdings.children.is_empty());
            refusal(answer)
        };
        assert!(ask("8.3.0", 5).contains("no module"));
        assert!(ask("8.2.0", 4).contains("too few descriptors"));
    }

    #[test]
    fn the_dashboards_socket_is_never_a_routers_nor_the_other_way_round() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let free = || BindAddress::Inet(([127, 0, 0, 1], free_port()).into());
        let (of_dashboard, of_router) = (free(), free());
        let grants = Grants {
            places: [&of_dashboard, &of_router]
                .map(|place| PlaceGrant {
                    place: place.clone(),
                    backlog: 1,
                })
                .to_vec(),
            ..Grants::default()
        };
        let mut holdings = with_grants(&grants);
        holdings.grants.places = vec![grants.places[1].clone()];
        let refused = holdings.listen_for_dashboard(&of_router).unwrap_err();
        assert!(refused.to_string().contains("a listener has this address"));
        let socket = holdings.listen_for_dashboard(&of_dashboard).unwrap();
        let listen = FromRouter::Listen {
            id: 1,
            place: of_dashboard.clone(),
        };
        let answer = holdings.carry_out(&instance, ROUTER, listen, Vec::new());
        assert!(refusal(answer).contains("the dashboard listens there"));
        // A compromised router can close its own sockets, and one that has ended takes nothing with it.
        let unlisten = FromRouter::Unlisten {
            place: of_dashboard.clone(),
        };
        holdings.carry_out(&instance, ROUTER, unlisten, Vec::new());
        holdings.release_what_is_not_granted();
        let BindAddress::Inet(address) = of_dashboard else {
            panic!("{of_dashboard:?}");
        };
        drop(socket);
        std::net::TcpStream::connect(address).unwrap();
        holdings.sockets.release_of_dashboard(&of_dashboard);
        // A program that another test starts has a copy until it is executed.
        wait_until("it is closed", || {
            std::net::TcpStream::connect(address).is_err()
        });
    }

    #[test]
    fn a_process_of_a_command_is_never_there_twice_whichever_router_asks() {
        const NEXT: i32 = ROUTER + 1;
        let folder = tempfile::tempdir().unwrap();
        let mut instance = instance(folder.path());
        let host = folder.path().join("host");
        files::script(&host, "#!/bin/sh\nexec sleep 1000\n");
        instance.modules[0].path = host;
        let grants = Grants {
            commands: vec![command(&application("8.2.0", None))],
            ..Grants::default()
        };
        let mut holdings = with_grants(&grants);
        holdings.rights.insert(NEXT, Rights::new(&grants));
        let mut ask = |router, process| {
            let message = run("/applications/x/mules/q", COMMAND, process);
            match holdings.carry_out(&instance, router, message, descriptors(2)) {
                Some((ToRouter::Done { pid, .. }, _)) => pid,
                other => panic!("{other:?}"),
            }
        };
        let first = ask(ROUTER, Some(0)).unwrap();
        assert_eq!((ask(ROUTER, Some(0)), ask(NEXT, Some(0))), (None, None));
        let second = ask(NEXT, Some(1)).unwrap();
        // A runner that only checks the command is not a process of it.
        let look = ask(NEXT, None).unwrap();
        holdings.children.kill_of(ROUTER);
        holdings.children.kill_of(NEXT);
        for pid in [first, second, look] {
            let pidfd = tutti_sys::process::pidfd(pid).unwrap();
            tutti_sys::process::await_end(&pidfd).unwrap();
            assert!(tutti_sys::process::reap_one(pid).is_some());
        }
    }

    /// Issue 28: a compromised router may start what is granted, and would fill the machine with it.
    #[test]
    fn a_router_starts_an_application_only_so_often() {
        let folder = tempfile::tempdir().unwrap();
        let mut instance = instance(folder.path());
        let host = folder.path().join("host");
        files::script(&host, "#!/bin/sh\nexec sleep 1000\n");
        instance.modules[0].path = host;
        let site = application("8.2.0", None);
        let mut holdings = with(&site);
        let mut pids = Vec::new();
        let refused = loop {
            match holdings.carry_out(&instance, ROUTER, start(&site), descriptors(5)) {
                Some((ToRouter::Done { pid: Some(pid), .. }, _)) => pids.push(pid),
                other => break refusal(other),
            }
            assert!(pids.len() < 1000);
        };
        assert!(refused.contains("too many prototypes"), "{refused}");
        // Signals and priority changes do not reach processes outside its applications.
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let stranger = i32::try_from(child.id()).unwrap();
        let settle = FromRouter::Settle {
            id: 1,
            pid: stranger,
        };
        holdings.carry_out(&instance, ROUTER, settle, Vec::new());
        holdings.children.kill_of(ROUTER);
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        for pid in pids {
            let pidfd = tutti_sys::process::pidfd(pid).unwrap();
            tutti_sys::process::await_end(&pidfd).unwrap();
            assert!(tutti_sys::process::reap_one(pid).is_some());
        }
    }

    #[test]
    fn users_are_only_for_a_server_started_by_root() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let application = application("8.2.0", Some("daemon"));
        let answer =
            with(&application).carry_out(&instance, ROUTER, start(&application), descriptors(5));
        assert!(refusal(answer).contains("started by root"));
    }

    /// Issue 10: a compromised router sends every message that it should not, and the only effect is a line in the log.
    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn a_router_gets_nothing_that_the_configuration_does_not_let_it_have() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let site = application("8.2.0", None);
        let grants = Grants {
            places: vec![PlaceGrant {
                place: BindAddress::Path(folder.path().join("granted")),
                backlog: 1,
            }],
            logs: vec![folder.path().join("granted.log")],
            files: vec![folder.path().join("granted.passwords")],
            spools: vec![folder.path().join("spool")],
            jobs: false,
            caches: vec![CacheGrant {
                name: "pages".into(),
                folder: None,
            }],
            applications: vec![site.clone()],
            commands: vec![command(&site)],
            ..Grants::default()
        };
        let mut holdings = with_grants(&grants);
        let mut as_root: Start = serde_json::from_str(&site.start).unwrap();
        as_root.config = serde_json::json!({
            "user": "root",
            "environment": {"LD_PRELOAD": "/tmp/evil.so"},
        });
        let as_root = String::from_utf8(encode(&as_root)).unwrap();
        let wanted = [
            FromRouter::OpenJobs { id: 1 },
            FromRouter::OpenCache {
                id: 1,
                cache: CacheGrant {
                    name: "other".into(),
                    folder: None,
                },
            },
            FromRouter::OpenCache {
                id: 1,
                cache: CacheGrant {
                    name: "pages".into(),
                    folder: Some(folder.path().join("elsewhere")),
                },
            },
            run("/applications/x/mules/q", "{\"words\":[\"sh\"]}", Some(0)),
            run("/applications/x/mules/other", COMMAND, Some(0)),
            run("/applications/x/mules/q", COMMAND, Some(2)),
            FromRouter::Listen {
                id: 1,
                place: BindAddress::Path(folder.path().join("other")),
            },
            FromRouter::Listen {
                id: 1,
                place: BindAddress::Abstract("other".into()),
            },
            FromRouter::Listen {
                id: 1,
                place: BindAddress::Inet("127.0.0.1:0".parse().unwrap()),
            },
            FromRouter::ListenDatagrams {
                id: 1,
                address: "127.0.0.1:0".parse().unwrap(),
            },
            FromRouter::OpenFile {
                id: 1,
                path: folder.path().join("other.log"),
            },
            FromRouter::OpenFile {
                id: 1,
                path: folder.path().join("x/../granted.log"),
            },
            FromRouter::FollowNodes { id: 1 },
            FromRouter::ReadFile {
                id: 1,
                path: "/etc/shadow".into(),
            },
            FromRouter::ReadFile {
                id: 1,
                path: folder.path().join("x/../granted.passwords"),
            },
            FromRouter::OpenSpool {
                id: 1,
                folder: folder.path().to_path_buf(),
            },
            FromRouter::Start {
                id: 1,
                name: "y".into(),
                start: site.start.clone(),
                threads: 1,
                workers: 1,
            },
            FromRouter::Start {
                id: 1,
                name: "x".into(),
                start: as_root,
                threads: 1,
                workers: 1,
            },
            FromRouter::Start {
                id: 1,
                name: "x".into(),
                start: "{}".into(),
                threads: 1,
                workers: 1,
            },
        ];
        let count = wanted.len();
        for message in wanted {
            let debug = format!("{message:?}");
            let answer = holdings.carry_out(&instance, ROUTER, message, descriptors(5));
            assert!(
                refusal(answer).contains("not in the configuration"),
                "{debug}"
            );
        }
        // Another router, without any grants, does not even get that.
        let answer = holdings.carry_out(&instance, 2, start(&site), descriptors(5));
        assert!(refusal(answer).contains("not in the configuration"));
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert_eq!(log.matches("[alert]").count(), count + 1, "{log}");
        assert!(!folder.path().join("other.log").exists() && !folder.path().join("other").exists());
        assert!(holdings.children.is_empty());
        // Sockets and logs that main opens for a change are closed with it.
        let mut more = grants.clone();
        let other = BindAddress::Path(folder.path().join("other"));
        more.places.push(PlaceGrant {
            place: other.clone(),
            backlog: 1,
        });
        holdings.rights.get_mut(&ROUTER).unwrap().prepare(&more);
        let listen = FromRouter::Listen {
            id: 1,
            place: other.clone(),
        };
        let answer = holdings.carry_out(&instance, ROUTER, listen, Vec::new());
        assert!(
            matches!(answer, Some((ToRouter::Done { .. }, _))),
            "{answer:?}"
        );
        assert!(folder.path().join("other").exists());
        holdings.abandon_change(ROUTER);
        assert!(!folder.path().join("other").exists());
        let file = FromRouter::OpenFile {
            id: 1,
            path: folder.path().join("granted.log"),
        };
        let answer = holdings.carry_out(&instance, ROUTER, file, Vec::new());
        assert!(
            matches!(answer, Some((ToRouter::Done { .. }, _))),
            "{answer:?}"
        );
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
        let mut holdings = with_grants(&Grants::default());
        let targets = [0, -1, -pid, 1].map(|target| (None, target));
        for (leader, target) in targets.into_iter().chain([(None, pid), (Some(pid), pid)]) {
            let signal = FromRouter::Kill {
                leader,
                pid: target,
                signal: libc::SIGKILL,
            };
            let answer = holdings.carry_out(&instance, ROUTER, signal, Vec::new());
            assert!(answer.is_none());
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
    fn an_address_in_use_and_a_folder_that_is_missing_are_refused_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let place = BindAddress::Path(folder.path().join("none/socket"));
        let grants = Grants {
            places: vec![PlaceGrant {
                place: place.clone(),
                backlog: 5,
            }],
            ..Grants::default()
        };
        let message = FromRouter::Listen { id: 9, place };
        let answer = with_grants(&grants).carry_out(&instance, ROUTER, message, Vec::new());
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

    /// The port stayed bound after an upgrade: the former router's messages are not carried out.
    #[test]
    fn udp_sockets_of_a_former_router_are_closed_when_it_has_ended() {
        const NEXT: i32 = ROUTER + 1;
        let folder = tempfile::tempdir().unwrap();
        let instance = instance(folder.path());
        let address = ([127, 0, 0, 1], free_port()).into();
        let grants = Grants {
            datagrams: vec![address],
            ..Grants::default()
        };
        let mut holdings = with_grants(&grants);
        let listen = FromRouter::ListenDatagrams { id: 1, address };
        let (_, sockets) = holdings
            .carry_out(&instance, ROUTER, listen, Vec::new())
            .unwrap();
        holdings
            .rights
            .insert(NEXT, Rights::new(&Grants::default()));
        holdings.release_datagrams_of_no_router();
        assert!(holdings.sockets.has_datagrams(&address));
        holdings.rights.remove(&ROUTER);
        drop(sockets);
        holdings.release_datagrams_of_no_router();
        assert!(!holdings.sockets.has_datagrams(&address));
    }
}
