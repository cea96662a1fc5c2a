//! The resources that main opens for a configuration: listening sockets and logs, opened before it is in force, returned afterwards.
//!
//! Called by the service while it prepares a configuration and when that is in force. What must never happen: that main keeps a socket or a
//! log open that is not used any more.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;
use tutti_config::model;
use tutti_config::{Config, Diagnostic, Diagnostics, Pointer};
use tutti_pool::{AppSpec, ApplicationPool, Manager};
use tutti_protocol::{BindAddress, FromRouter, QuicHello};
use tutti_server::{Datagrams, LeavingDatagrams, SnapshotEnvironment, SpoolsNeeded};
use tutti_spool::{Spool, SpoolPlace};
use tutti_sys::anonymous_file::UnnamedFile;
use tutti_telemetry::{Exporters, Tracer};
use tutti_tls::{Bundle, CertificateRequest, Demands};
use tutti_unprivileged::certificates::Certificates;
use tutti_unprivileged::fault;
use tutti_unprivileged::grants::{datagrams_of, place_of, stream_datagrams_of};
use tutti_unprivileged::link::Refused;

use super::cache_files::{self, CacheFiles};
use super::certificate_requests;
use super::guard_files::{self, GuardFiles};
use super::line::Link;
use super::missing::{Leniency, Need, Unopened};

/// Main's sockets and logs in use by the configuration in force.
#[derive(Default)]
struct Held {
    places: HashSet<BindAddress>,
    datagrams: HashSet<SocketAddr>,
    logs: HashSet<PathBuf>,
}

/// Has main open resources, and records which are open.
pub(super) struct Openings {
    link: Arc<Link>,
    wishes: Sender<CertificateRequest>,
    /// The part of QUIC that is common to all routers.
    quic: QuicHello,
    /// Main's folder of temporary files.
    tmpdir: PathBuf,
    held: Mutex<Held>,
    returns: Arc<Returns>,
}

/// Returns UDP sockets to main when the last sessions and connections of a removed listener have ended.
struct Returns {
    link: Arc<Link>,
    waiting: Mutex<HashMap<SocketAddr, Returning>>,
}

/// Sockets that a removed listener still uses.
struct Returning {
    users: Arc<[LeavingDatagrams]>,
    task: AbortHandle,
}

/// Interval between checks for the end of those sessions and connections.
const LAST_SESSIONS: Duration = Duration::from_millis(50);

impl Returns {
    /// Returns the sockets at this address: at once, or when nothing uses them any more. Until then, a listener that is added again gets the
    /// same sockets.
    fn begin(&self, address: SocketAddr, users: Arc<[LeavingDatagrams]>) {
        let link = Arc::clone(&self.link);
        let gone = FromRouter::UnlistenDatagrams { address };
        let are_open = |users: &[LeavingDatagrams]| users.iter().any(LeavingDatagrams::are_open);
        if !are_open(&users) {
            link.send(&gone);
            return;
        }
        let last = Arc::clone(&users);
        let returning = tokio::spawn(async move {
            while are_open(&last) {
                tokio::time::sleep(LAST_SESSIONS).await;
            }
            link.send(&gone);
        });
        let task = returning.abort_handle();
        self.waiting().insert(address, Returning { users, task });
    }

    /// Does not return the sockets at this address, where main still has them; what uses them.
    fn cancel(&self, address: &SocketAddr) -> Option<Arc<[LeavingDatagrams]>> {
        let returning = self.waiting().remove(address)?;
        returning.task.abort();
        Some(returning.users)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<SocketAddr, Returning>> {
        // Each change is one call.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sockets and logs opened for a configuration that is not in force yet. Dropping it returns them.
pub(super) struct Opened {
    link: Arc<Link>,
    sockets: HashMap<BindAddress, OwnedFd>,
    datagrams: HashMap<SocketAddr, Vec<OwnedFd>>,
    quic: QuicHello,
    logs: HashMap<PathBuf, OwnedFd>,
    new_places: Vec<BindAddress>,
    new_datagrams: Vec<SocketAddr>,
    /// UDP sockets of removed listeners that are needed again, and what still uses them.
    resumed: Vec<(SocketAddr, Arc<[LeavingDatagrams]>)>,
    returns: Arc<Returns>,
    new_logs: Vec<PathBuf>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        for place in self.new_places.drain(..) {
            self.link.send(&FromRouter::Unlisten { place });
        }
        for address in self.new_datagrams.drain(..) {
            self.link.send(&FromRouter::UnlistenDatagrams { address });
        }
        for (address, users) in self.resumed.drain(..) {
            self.returns.begin(address, users);
        }
        for path in self.new_logs.drain(..) {
            self.link.send(&FromRouter::CloseFile { path });
        }
    }
}

/// New spools of the server, where it needs them.
pub(super) struct Spools {
    /// For request bodies.
    requests: Option<Spool>,
    /// For responses, or why there is none.
    responses: Option<io::Result<Spool>>,
}

/// Gives the server what it requests while it prepares; everything has been opened before.
pub(super) struct Fetched<'a> {
    pub(super) spools: Spools,
    pub(super) cache_files: CacheFiles,
    pub(super) opened: &'a mut Opened,
    pub(super) applications: &'a tutti_pool::PreparedApplications,
    pub(super) certificates: &'a Certificates,
    pub(super) wishes: &'a Sender<CertificateRequest>,
    pub(super) guard_files: GuardFiles,
    pub(super) exporters: &'a Exporters,
}

impl SnapshotEnvironment for Fetched<'_> {
    fn bind(&mut self, listener: &model::Listener) -> io::Result<OwnedFd> {
        let place = place_of(&listener.address);
        let socket = place.and_then(|place| self.opened.sockets.remove(&place));
        socket.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "main gave no socket for it"))
    }

    fn bind_datagrams(&mut self, listener: &model::Listener) -> io::Result<Datagrams> {
        let sockets = datagrams_of(listener)
            .and_then(|address| self.opened.datagrams.remove(&address))
            .filter(|sockets| !sockets.is_empty());
        let none = || io::Error::new(io::ErrorKind::NotFound, "main gave no UDP socket");
        Ok(Datagrams {
            sockets: sockets.ok_or_else(none)?,
            bank: self.opened.quic.bank,
            secret: self.opened.quic.secret.clone(),
        })
    }

    fn open_log(&mut self, path: &Path) -> io::Result<OwnedFd> {
        // Logs of several kinds may share a file.
        match self.opened.logs.get(path) {
            Some(file) => file.try_clone(),
            None => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "main gave no descriptor for it",
            )),
        }
    }

    fn application(&mut self, name: &str) -> Option<Arc<ApplicationPool>> {
        self.applications.get(name).cloned()
    }

    fn body_spool(&mut self, max_body: u64) -> io::Result<Spool> {
        match self.spools.requests.take() {
            Some(spool) => Ok(spool),
            None => Spool::in_memory(max_body),
        }
    }

    fn response_spool(&mut self, most: u64) -> io::Result<Spool> {
        match self.spools.responses.take() {
            Some(spool) => spool,
            None => Spool::in_memory(most),
        }
    }

    fn cache_file(&mut self, store: &str) -> Option<OwnedFd> {
        self.cache_files.take(store)
    }

    fn guard_file(&mut self, path: &Path) -> Option<Result<Vec<u8>, String>> {
        self.guard_files.get(path).cloned()
    }

    fn certificate(&mut self, name: &str) -> Option<Arc<Bundle>> {
        self.certificates.get(name)
    }

    fn demands(&mut self, account: &str) -> Option<Demands> {
        Some(demands(self.certificates, self.wishes, account))
    }

    fn tracer(&mut self, telemetry: &model::Telemetry) -> Result<Arc<Tracer>, String> {
        self.exporters.start(telemetry)
    }
}

/// The resources of a configuration that opens nothing new.
pub(super) struct Running<'a> {
    pub(super) manager: &'a Manager,
    pub(super) certificates: &'a Certificates,
    pub(super) wishes: &'a Sender<CertificateRequest>,
}

impl SnapshotEnvironment for Running<'_> {
    fn bind(&mut self, _listener: &model::Listener) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn application(&mut self, name: &str) -> Option<Arc<ApplicationPool>> {
        self.manager.application(name)
    }

    fn body_spool(&mut self, max_body: u64) -> io::Result<Spool> {
        // Used only when nothing is served any more: otherwise the existing spool is kept.
        Spool::in_memory(max_body)
    }

    fn response_spool(&mut self, most: u64) -> io::Result<Spool> {
        Spool::in_memory(most)
    }

    fn certificate(&mut self, name: &str) -> Option<Arc<Bundle>> {
        self.certificates.get(name)
    }

    fn demands(&mut self, account: &str) -> Option<Demands> {
        Some(demands(self.certificates, self.wishes, account))
    }
}

fn demands(
    certificates: &Certificates,
    wishes: &Sender<CertificateRequest>,
    account: &str,
) -> Demands {
    Demands {
        known: certificates.on_demand(account),
        desk: wishes.clone(),
    }
}

impl Openings {
    pub(super) fn new(link: Arc<Link>, tmpdir: PathBuf, quic: QuicHello) -> Openings {
        Openings {
            wishes: certificate_requests::take(&link),
            returns: Arc::new(Returns {
                link: Arc::clone(&link),
                waiting: Mutex::default(),
            }),
            link,
            quic,
            tmpdir,
            held: Mutex::default(),
        }
    }

    /// Takes requests for certificates on demand.
    pub(super) fn wishes(&self) -> &Sender<CertificateRequest> {
        &self.wishes
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the configuration in force listens there.
    pub(super) fn listens_at(&self, place: &BindAddress) -> bool {
        self.held().places.contains(place)
    }

    /// Has main open what the configuration needs in addition to the one in force.
    pub(super) async fn open(&self, config: &Config) -> Result<Opened, Unopened> {
        let mut opened = Opened {
            link: Arc::clone(&self.link),
            sockets: HashMap::new(),
            datagrams: HashMap::new(),
            quic: self.quic.clone(),
            logs: HashMap::new(),
            new_places: Vec::new(),
            new_datagrams: Vec::new(),
            resumed: Vec::new(),
            returns: Arc::clone(&self.returns),
            new_logs: Vec::new(),
        };
        let mut unopened = Unopened::default();
        for listener in &config.listeners {
            let place = place_of(&listener.address);
            let Some(place) = place.filter(|place| !self.listens_at(place)) else {
                continue;
            };
            let make = |id| FromRouter::Listen {
                id,
                place: place.clone(),
            };
            match self.one_descriptor(&make).await {
                Ok(socket) => {
                    opened.new_places.push(place.clone());
                    opened.sockets.insert(place, socket);
                }
                Err(refused) => {
                    let message =
                        format!("cannot listen on `{}`: {}", listener.name, refused.message);
                    let pointer = listener.pointer.clone();
                    unopened.add(pointer, Need::Place(place), message, refused.hint);
                }
            }
        }
        for listener in &config.listeners {
            if let Some(address) = datagrams_of(listener)
                && let Err(refused) = self.open_datagrams(address, &mut opened).await
            {
                let (what, pointer) = match stream_datagrams_of(listener) {
                    Some(_) => ("receive datagrams", listener.pointer.clone()),
                    None => ("take HTTP/3", listener.pointer.child("http3")),
                };
                let name = &listener.name;
                let message = format!("cannot {what} at `{name}`: {}", refused.message);
                unopened.add(pointer, Need::Datagrams(address), message, refused.hint);
            }
        }
        for (path, pointer) in config.log_files() {
            if let Err(refused) = self.open_log(path, &mut opened).await {
                let hint = "the folder must exist, and the server must be allowed to write there";
                let hint = refused.hint.or(Some(hint.to_owned()));
                let need = Need::Log(path.to_owned());
                unopened.add(pointer.clone(), need, refused.message, hint);
            }
        }
        match unopened.faults.is_empty() {
            true => Ok(opened),
            false => Err(unopened),
        }
    }

    /// Has main open UDP sockets at an address, unless they are open.
    async fn open_datagrams(
        &self,
        address: SocketAddr,
        opened: &mut Opened,
    ) -> Result<(), Refused> {
        if self.held().datagrams.contains(&address) {
            return Ok(());
        }
        let users = self.returns.cancel(&address);
        let is_resumed = users.is_some();
        opened.resumed.extend(users.map(|users| (address, users)));
        let make = |id| FromRouter::ListenDatagrams { id, address };
        let done = self.link.request(&make, Vec::new()).await?;
        if !is_resumed {
            opened.new_datagrams.push(address);
        }
        opened.datagrams.insert(address, done.descriptors);
        Ok(())
    }

    /// Has main open a log, unless it is open.
    async fn open_log(&self, path: &Path, opened: &mut Opened) -> Result<(), Refused> {
        if opened.logs.contains_key(path) || self.held().logs.contains(path) {
            return Ok(());
        }
        let make = |id| FromRouter::OpenFile {
            id,
            path: path.to_owned(),
        };
        let file = self.one_descriptor(&make).await?;
        opened.new_logs.push(path.to_owned());
        opened.logs.insert(path.to_owned(), file);
        Ok(())
    }

    fn spool_folder<'a>(&'a self, http: &'a model::Http) -> &'a PathBuf {
        http.body_temp_path.as_ref().unwrap_or(&self.tmpdir)
    }

    /// A spool in `body_temp_path` or else the folder of temporary files. Main opens it: the router may write in neither, once the latter
    /// has been removed and main has made it anew.
    async fn spool(&self, http: &model::Http, longest: u64) -> Result<Spool, Diagnostic> {
        let folder = self.spool_folder(http);
        let make = |id| FromRouter::OpenSpool {
            id,
            folder: folder.clone(),
        };
        let opened = self.link.request(&make, Vec::new()).await;
        let opened = opened.and_then(|done| {
            let mut descriptors = done.descriptors.into_iter();
            match (descriptors.next(), descriptors.next()) {
                (Some(file), Some(reader)) => Ok(UnnamedFile { file, reader }),
                _ => Err(Refused::new("main sent no descriptors")),
            }
        });
        match opened {
            Ok(file) => Ok(Spool::of(file, folder, longest)),
            Err(refused) => {
                let (pointer, cure) = match http.body_temp_path {
                    Some(_) => (
                        Pointer::from_segments(["settings", "http", "body_temp_path"]),
                        "the folder must exist",
                    ),
                    None => (Pointer::default(), "it is the folder of `--tmpdir`"),
                };
                let message = format!(
                    "cannot keep bodies in `{}`: {}",
                    folder.display(),
                    refused.message
                );
                let hint = refused.hint.or(Some(cure.to_owned()));
                Err(fault(pointer, message, hint))
            }
        }
    }

    /// The file of jobs.
    pub(super) async fn jobs(&self) -> Result<OwnedFd, Diagnostic> {
        let opened = self.one_descriptor(&|id| FromRouter::OpenJobs { id }).await;
        opened.map_err(|refused| {
            let message = format!("cannot open the file of jobs: {}", refused.message);
            let hint = "it is in the state folder (`--statedir`)".to_owned();
            let hint = refused.hint.or(Some(hint));
            fault(Pointer::from_segments(["spoolers"]), message, hint)
        })
    }

    /// The files of these caches.
    pub(super) async fn cache_files(&self, config: &Config, needed: &[String]) -> CacheFiles {
        cache_files::open(&self.link, config, needed).await
    }

    /// The spools that the server needs for a configuration in addition to those in force.
    pub(super) async fn spools(
        &self,
        config: &Config,
        needed: SpoolsNeeded,
        leniency: &mut Leniency,
    ) -> Result<Spools, Diagnostics> {
        let http = &config.settings.http;
        let requests = match needed.requests {
            true => {
                let most = config.largest_body();
                let spool = self.spool(http, most).await;
                Some(leniency.or_in_memory(spool, most)?)
            }
            false => None,
        };
        let responses = match needed.responses {
            true => match self.spool(http, config.largest_buffering()).await {
                Ok(spool) => Some(Ok(spool)),
                Err(fault) => {
                    let why = io::Error::other(fault.message.clone());
                    leniency.forgive(fault)?;
                    Some(Err(why))
                }
            },
            false => None,
        };
        Ok(Spools {
            requests,
            responses,
        })
    }

    /// Returns the applications to run, each with its own spool, unless it is live and has one.
    pub(super) async fn specs(
        &self,
        config: &Config,
        live: &Manager,
        leniency: &mut Leniency,
    ) -> Result<Vec<AppSpec>, Diagnostics> {
        let http = &config.settings.http;
        let folder = self.spool_folder(http);
        let most = config.largest_body();
        let mut specs = Vec::new();
        for application in config.applications.values() {
            let place = SpoolPlace::from(folder.clone());
            let mut spec = AppSpec::from_config(application, place, most);
            if !live.has_spool_for(&spec) {
                let spool = self.spool(http, most).await;
                let spool = leniency.or_in_memory(spool, most)?;
                spec.spool = SpoolPlace::opened(spool);
            }
            specs.push(spec);
        }
        Ok(specs)
    }

    /// True if main can open it now. Main keeps sockets and logs open until they are returned.
    pub(super) async fn can_have(&self, need: &Need) -> bool {
        let make = |id| match need.clone() {
            Need::Place(place) => FromRouter::Listen { id, place },
            Need::Datagrams(address) => FromRouter::ListenDatagrams { id, address },
            Need::Log(path) => FromRouter::OpenFile { id, path },
            Need::Cache(cache) => FromRouter::OpenCache { id, cache },
            Need::Jobs => FromRouter::OpenJobs { id },
        };
        self.link.request(&make, Vec::new()).await.is_ok()
    }

    /// Returns what was opened as a check, unless the configuration in force uses it.
    pub(super) fn give_back(&self, need: Need) {
        let held = self.held();
        let news = match need {
            Need::Place(place) if !held.places.contains(&place) => FromRouter::Unlisten { place },
            Need::Datagrams(address) if !held.datagrams.contains(&address) => {
                FromRouter::UnlistenDatagrams { address }
            }
            Need::Log(path) if !held.logs.contains(&path) => FromRouter::CloseFile { path },
            _ => return,
        };
        drop(held);
        self.link.send(&news);
    }

    /// The files for access control, each with its content or why it cannot be read.
    pub(super) async fn guard_files(&self, config: &Config) -> GuardFiles {
        let mut files = GuardFiles::new();
        for file in config.secret_files() {
            if !files.contains_key(&file.path) {
                let opened = self.guard_file(&file.path).await;
                let content = opened.and_then(|file| guard_files::content(&file));
                files.insert(file.path.clone(), content);
            }
        }
        files
    }

    /// Opens one of them.
    pub(super) async fn guard_file(&self, path: &Path) -> Result<File, String> {
        let make = |id| FromRouter::ReadFile {
            id,
            path: path.to_owned(),
        };
        let opened = self.one_descriptor(&make).await;
        opened.map(File::from).map_err(|refused| refused.message)
    }

    /// Has main report the nodes of the fleet from now on.
    pub(super) async fn follow_nodes(&self) {
        let make = |id| FromRouter::FollowNodes { id };
        // It is refused if the right was lost meanwhile: then its upstream does not exist any more.
        let _ = self.link.request(&make, Vec::new()).await;
    }

    async fn one_descriptor(
        &self,
        make: &(dyn Fn(u64) -> FromRouter + Sync),
    ) -> Result<OwnedFd, Refused> {
        let done = self.link.request(make, Vec::new()).await?;
        done.descriptors
            .into_iter()
            .next()
            .ok_or_else(|| Refused::new("main sent no descriptor"))
    }

    /// Called after the commit: returns to main what the configuration in force does not use. `leaving`: the UDP sockets of
    /// removed listeners.
    pub(super) fn release(
        &self,
        config: &Config,
        opened: &mut Opened,
        mut leaving: Vec<LeavingDatagrams>,
    ) {
        opened.new_places.clear();
        opened.new_datagrams.clear();
        opened.resumed.clear();
        opened.new_logs.clear();
        let places = config
            .listeners
            .iter()
            .filter_map(|l| place_of(&l.address))
            .collect();
        let logs = config
            .log_files()
            .map(|(path, _)| path.to_owned())
            .collect();
        let datagrams = config.listeners.iter().filter_map(datagrams_of).collect();
        let held = Held {
            places,
            datagrams,
            logs,
        };
        let before = std::mem::replace(&mut *self.held(), held);
        let now = self.held();
        for place in before.places.difference(&now.places) {
            self.link.send(&FromRouter::Unlisten {
                place: place.clone(),
            });
        }
        for address in before.datagrams.difference(&now.datagrams) {
            let users = leaving.extract_if(.., |one| one.address == *address);
            self.returns.begin(*address, users.collect());
        }
        for path in before.logs.difference(&now.logs) {
            self.link
                .send(&FromRouter::CloseFile { path: path.clone() });
        }
    }
}
