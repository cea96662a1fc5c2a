//! The messages between main and a router.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_options::logging::LogStyle;
use tutti_options::source::LiveNodes;

use super::{
    BindAddress, CacheGrant, Challenge, Change, ChangeError, ExitReport, LanguageModule,
    RouterCounts, RouterQuery,
};

/// The first message a router gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RouterHello {
    pub modules: Vec<LanguageModule>,
    /// How the log is written.
    pub log: LogStyle,
    /// Folder of spool files.
    pub tmpdir: PathBuf,
    /// The configuration to begin with; `None` is an empty one.
    pub configuration: Option<String>,
    /// Certificate bundles, by name.
    pub certificates: BTreeMap<String, String>,
    /// Script modules, by name.
    pub js_modules: BTreeMap<String, String>,
    /// Answers to those who ask whether names are ours.
    #[serde(default)]
    pub challenges: Vec<Challenge>,
    /// A source is followed that the configuration does not name (`--source`): purges of caches may have been missed.
    #[serde(default)]
    pub follows_source: bool,
    /// The number of nodes of the fleet when it was known last.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Another router serves until this one does: failing to apply the configuration is told, and nothing else done.
    pub is_upgrade: bool,
    /// Where it reads the status, for clients of a `proxy` that leads to the control socket.
    #[serde(default)]
    pub status: StatusPlace,
    /// The beginning of QUIC.
    #[serde(default)]
    pub quic: QuicHello,
    /// Seconds after which a process of an application that is stopped by a signal is killed; `None`: it is not.
    #[serde(default)]
    pub watchdog: Option<u64>,
}

/// The socket at which a router may read `/status`, in place of the control socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusPlace {
    /// Its name, that of an abstract socket.
    pub name: String,
    /// The address of the control socket: `unix:/path`, `unix:@name`, or that of a TCP port, for which nothing takes its place.
    pub control: String,
    /// Device and inode of its file.
    pub file: Option<(u64, u64)>,
}

/// A router's part of what all generations of routers share of QUIC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuicHello {
    /// The bank of its UDP sockets, which its connection ids name.
    pub bank: u8,
    /// The keys of address tokens and resets are made of it.
    pub secret: Vec<u8>,
}

/// From main to a router.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToRouter {
    /// Comes first. Descriptor: the log.
    Hello(Box<RouterHello>),
    /// A request succeeded. Descriptors: what was asked for.
    Done {
        id: u64,
        /// Number of the process started. `None` for a command: a former process of this place and number has not ended yet.
        pid: Option<i32>,
    },
    /// A request failed.
    Failed {
        id: u64,
        /// The failure, in one sentence.
        message: String,
        /// The cure.
        hint: Option<String>,
        /// Which option of the application it is about: `isolation/rootfs`.
        #[serde(default)]
        option: Option<String>,
    },
    /// Make a change ready; answered with [`FromRouter::Prepared`] or [`FromRouter::Unprepared`].
    Prepare { number: u64, change: Change },
    /// The change is stored: put it in force.
    Commit { number: u64 },
    /// The change will not be: leave no trace of it.
    Abandon { number: u64 },
    /// Answer a question, with [`FromRouter::Told`].
    Ask {
        /// Number of the question.
        number: u64,
        question: RouterQuery,
    },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Another log was reopened. Descriptor: the file.
    FileReopened {
        /// As it was asked for.
        path: PathBuf,
    },
    /// A process that belonged to an application has ended.
    Exited {
        /// Its number.
        pid: i32,
        /// How.
        status: ExitReport,
    },
    /// Try no listener again for now; then say [`FromRouter::Frozen`].
    Freeze,
    /// Go on.
    Thaw,
    /// Another router serves: accept nothing more, answer what has begun, end.
    Retire,
    /// Tells the counts of other routers.
    Totals {
        /// All of them together.
        totals: RouterCounts,
    },
    /// The router before this one has delivered a job after it gave the store of jobs away.
    JobDelivered {
        spooler: String,
        /// Its number.
        job: u64,
    },
    /// Everything that is known of the nodes of the fleet, after [`FromRouter::FollowNodes`] and with each change.
    Nodes { known: LiveNodes },
    /// Give a sign of life, once all listen threads have: [`FromRouter::Alive`].
    Probe { number: u64 },
    /// End.
    Stop {
        /// Answer what has begun first.
        is_graceful: bool,
    },
}

/// A router's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum RouterReply {
    /// It is in the descriptor, or there is nothing more to say.
    Done,
    /// There is no such application.
    Unknown,
    /// It was tried.
    Failed {
        /// The reasons against it.
        faults: Vec<ChangeError>,
    },
}

/// From a router to main, which does nothing that the router's grants do not allow.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromRouter {
    /// Give a listening socket; answered with one descriptor.
    Listen {
        id: u64,
        /// Where.
        place: BindAddress,
    },
    /// Close main's copy of a listening socket.
    Unlisten {
        /// Where.
        place: BindAddress,
    },
    /// Give the UDP sockets of an address; answered with one descriptor or more, in the order that the kernel has them.
    ListenDatagrams {
        id: u64,
        /// Where.
        address: SocketAddr,
    },
    /// Close main's copies of them.
    UnlistenDatagrams {
        /// Where.
        address: SocketAddr,
    },
    /// Open a log for append, and again whenever logs are reopened; answered with one descriptor.
    OpenFile {
        id: u64,
        /// Which.
        path: PathBuf,
    },
    /// Do not reopen this log any more.
    CloseFile {
        /// Which.
        path: PathBuf,
    },
    /// Open a file for reading; answered with one descriptor.
    ReadFile {
        id: u64,
        /// Which.
        path: PathBuf,
    },
    /// Make a file without a name for request bodies; answered with two descriptors, for writing and for reading only.
    OpenSpool {
        id: u64,
        /// Where.
        folder: PathBuf,
    },
    /// Open the file of jobs; answered with one descriptor, which has its own lock.
    OpenJobs { id: u64 },
    /// Open the file of a cache; answered with one descriptor, which has its own lock.
    OpenCache {
        id: u64,
        /// Which.
        cache: CacheGrant,
    },
    /// Tell of the nodes of the fleet from now on; answered, and then by [`ToRouter::Nodes`].
    FollowNodes { id: u64 },
    /// Start a prototype; answered with its process number. Descriptors: control, segment, spool, output, one event per
    /// thread. What it is and as whom it runs is in the grant.
    Start {
        id: u64,
        /// The application's name.
        name: String,
        /// Its start document, as it is in the grant, which says of several with one name which is meant.
        start: String,
        /// Router threads.
        threads: u32,
        /// Worker numbers of the segment.
        workers: u32,
    },
    /// Run a command; answered with the process number of its runner. Descriptors: control, output. What it is and as whom it runs is
    /// in the grant.
    RunCommand {
        id: u64,
        /// Its place in the configuration.
        place: String,
        /// The start document of the runner, as it is in the grant.
        start: String,
        /// Which of its processes, from 0; `None`: only look whether it can be run.
        process: Option<u32>,
    },
    /// Have a certificate got that a client asks for. Answered when it is in force.
    WantCertificate {
        id: u64,
        /// The account that gets it.
        account: String,
        name: String,
        /// Who asks.
        client: Option<IpAddr>,
    },
    /// A certificate that was got on demand has been used.
    CertificateUsed {
        /// The account that has got it.
        account: String,
        name: String,
    },
    /// This prototype is ready and need not give way any more.
    Settle {
        id: u64,
        /// Its number.
        pid: i32,
    },
    /// Send a signal to a process of an application.
    Kill {
        /// Its number.
        pid: i32,
        /// Which signal.
        signal: i32,
    },
    /// The configuration is in force, as far as it can be served.
    Ready,
    /// The configuration cannot be applied, while another router serves it.
    Unfit { message: String },
    /// The change can be put in force, which cannot fail.
    Prepared { number: u64 },
    /// The change is in force.
    Committed {
        number: u64,
        /// Faults that do not stand against it: of applications that nothing is started of before their first request.
        #[serde(default)]
        warnings: Vec<ChangeError>,
    },
    /// The change cannot be made ready.
    Unprepared {
        number: u64,
        /// The reasons against it.
        faults: Vec<ChangeError>,
    },
    /// The answer to a question. Descriptor: the content of `/status` or the metrics, where those were asked for.
    Told {
        /// Number of the question.
        number: u64,
        /// The answer.
        told: RouterReply,
    },
    /// All threads answer.
    Alive { number: u64 },
    /// No listener will be tried again.
    Frozen,
    /// It has delivered a job after it gave the store of jobs away, as it retires.
    JobDelivered {
        spooler: String,
        /// Its number.
        job: u64,
    },
    /// The counts of this router, as it retires.
    Totals {
        /// Its own.
        totals: RouterCounts,
    },
}
