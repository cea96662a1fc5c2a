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
    /// The style of the log.
    pub log: LogStyle,
    /// Folder of spool files.
    pub tmpdir: PathBuf,
    /// The configuration to begin with; `None` is an empty one.
    pub configuration: Option<String>,
    /// Certificate bundles, by name.
    pub certificates: BTreeMap<String, String>,
    /// Script modules, by name.
    pub js_modules: BTreeMap<String, String>,
    /// Answers to authorities that check names.
    #[serde(default)]
    pub challenges: Vec<Challenge>,
    /// A source is followed that the configuration does not name (`--source`): purges of caches may have been missed.
    #[serde(default)]
    pub follows_source: bool,
    /// The last known number of nodes of the fleet.
    #[serde(default)]
    pub nodes: Option<u32>,
    /// Another router serves until this one does: a failure to apply the configuration is reported, and nothing else is done.
    pub is_upgrade: bool,
    /// Where to read the status, for clients of a `proxy` that points to the control socket.
    #[serde(default)]
    pub status: StatusPlace,
    /// The parameters of QUIC.
    #[serde(default)]
    pub quic: QuicHello,
    /// Seconds after which a process of an application that is stopped by a signal is killed; `None`: never.
    #[serde(default)]
    pub watchdog: Option<u64>,
}

/// The socket where a router may read `/status`, instead of the control socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusPlace {
    /// Its abstract name.
    pub name: String,
    /// The address of the control socket: `unix:/path`, `unix:@name`, or a TCP port, which is not replaced.
    pub control: String,
    /// Device and inode of its file.
    pub file: Option<(u64, u64)>,
}

/// The QUIC parameters that all generations of routers share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuicHello {
    /// The bank of its UDP sockets, which its connection ids contain.
    pub bank: u8,
    /// The secret from which the keys of address tokens and resets are derived.
    pub secret: Vec<u8>,
}

/// From main to a router.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToRouter {
    /// Comes first. Descriptor: the log.
    Hello(Box<RouterHello>),
    /// A request succeeded. Descriptors: the requested ones.
    Done {
        id: u64,
        /// The id of the started process. `None` for a command: a former process of this place and number has not ended yet.
        pid: Option<i32>,
    },
    /// A request failed.
    Failed {
        id: u64,
        /// The failure, in one sentence.
        message: String,
        /// The hint.
        hint: Option<String>,
        /// The option of the application at fault: `isolation/rootfs`.
        #[serde(default)]
        option: Option<String>,
    },
    /// Prepare a change; answered by [`FromRouter::Prepared`] or [`FromRouter::Unprepared`].
    Prepare { number: u64, change: Change },
    /// The change is stored: put it in force.
    Commit { number: u64 },
    /// The change is abandoned: undo its preparation.
    Abandon { number: u64 },
    /// Answer a question by [`FromRouter::Told`].
    Ask {
        /// Number of the question.
        number: u64,
        question: RouterQuery,
    },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Another log was reopened. Descriptor: the file.
    FileReopened {
        /// As requested.
        path: PathBuf,
    },
    /// A process of an application has ended.
    Exited {
        /// Its process id.
        pid: i32,
        /// Its exit status.
        status: ExitReport,
    },
    /// Do not retry listeners for now; then send [`FromRouter::Frozen`].
    Freeze,
    /// Continue after `Freeze`.
    Thaw,
    /// Another router serves: accept nothing more, answer requests in progress, end.
    Retire,
    /// Store a job that a former router passes on. Descriptor: as with [`FromRouter::PassJob`].
    TakeJob,
    /// The counts of other routers.
    Totals {
        /// The sum of all of them.
        totals: RouterCounts,
    },
    /// The previous router has delivered a job after it released the store of jobs.
    JobDelivered {
        spooler: String,
        /// Its number.
        job: u64,
        /// Why the run of a schedule failed; empty if it did not.
        #[serde(default)]
        error: String,
    },
    /// All known nodes of the fleet, after [`FromRouter::FollowNodes`] and at each change.
    Nodes { known: LiveNodes },
    /// Answer with [`FromRouter::Alive`], once all listen threads have answered.
    Probe { number: u64 },
    /// End.
    Stop {
        /// Answer requests in progress first.
        is_graceful: bool,
    },
}

/// A router's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum RouterReply {
    /// The result is in the descriptor, or there is none.
    Done,
    /// There is no such application.
    Unknown,
    /// It failed.
    Failed {
        /// The reasons.
        faults: Vec<ChangeError>,
    },
}

/// From a router to main, which does only what the router's grants permit.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromRouter {
    /// Open a listening socket; answered with one descriptor.
    Listen {
        id: u64,
        /// The address.
        place: BindAddress,
    },
    /// Close main's copy of a listening socket.
    Unlisten {
        /// The address.
        place: BindAddress,
    },
    /// Open the UDP sockets of an address; answered with one or more descriptors, in the kernel's order.
    ListenDatagrams {
        id: u64,
        /// The address.
        address: SocketAddr,
    },
    /// Close main's copies of them.
    UnlistenDatagrams {
        /// The address.
        address: SocketAddr,
    },
    /// Open a log for append, and again whenever logs are reopened; answered with one descriptor.
    OpenFile {
        id: u64,
        /// Its path.
        path: PathBuf,
    },
    /// Do not reopen this log any more.
    CloseFile {
        /// Its path.
        path: PathBuf,
    },
    /// Open a file for reading; answered with one descriptor.
    ReadFile {
        id: u64,
        /// Its path.
        path: PathBuf,
    },
    /// Make an unnamed file for request bodies; answered with two descriptors, one for writing and one for reading only.
    OpenSpool {
        id: u64,
        /// The folder.
        folder: PathBuf,
    },
    /// Open the file of jobs; answered with one descriptor, which has its own lock.
    OpenJobs { id: u64 },
    /// Open the file of a cache; answered with one descriptor, which has its own lock.
    OpenCache {
        id: u64,
        /// The cache.
        cache: CacheGrant,
    },
    /// Report the nodes of the fleet from now on; answered, and then by [`ToRouter::Nodes`].
    FollowNodes { id: u64 },
    /// Start a prototype; answered with its process id. Descriptors: control, segment, spool, output, one event per thread. The program and
    /// its user are in the grant.
    Start {
        id: u64,
        /// The application's name.
        name: String,
        /// Its start document, equal to that in the grant: it selects one of several grants with the same name.
        start: String,
        /// Router threads.
        threads: u32,
        /// Worker numbers of the segment.
        workers: u32,
    },
    /// Run a command; answered with the process id of its runner. Descriptors: control, output. The program and its user are in the grant.
    RunCommand {
        id: u64,
        /// Its place in the configuration.
        place: String,
        /// The start document of the runner, equal to that in the grant.
        start: String,
        /// The index of its process, from 0; `None`: only check whether the command can be run.
        process: Option<u32>,
    },
    /// Get a certificate that a client needs. Answered when it is in force.
    WantCertificate {
        id: u64,
        /// The account that gets it.
        account: String,
        name: String,
        /// The address of the client.
        client: Option<IpAddr>,
    },
    /// A certificate obtained on demand has been used.
    CertificateUsed {
        /// The account that obtained it.
        account: String,
        name: String,
    },
    /// This prototype is ready and need not yield the processor any more.
    Settle {
        id: u64,
        /// Its process id.
        pid: i32,
    },
    /// Send a signal to a process of an application.
    Kill {
        /// The prototype or runner whose process it is. Former versions do not send it: then any of the router's own.
        #[serde(default)]
        leader: Option<i32>,
        /// Its process id.
        pid: i32,
        /// The signal.
        signal: i32,
    },
    /// The configuration is in force, as far as it can be served.
    Ready,
    /// The configuration cannot be applied, while another router serves it.
    Unfit { message: String },
    /// The change is prepared: putting it in force cannot fail.
    Prepared { number: u64 },
    /// The change is in force.
    Committed {
        number: u64,
        /// Faults that do not prevent it: of applications without initial processes.
        #[serde(default)]
        warnings: Vec<ChangeError>,
    },
    /// The change cannot be prepared.
    Unprepared {
        number: u64,
        /// The reasons.
        faults: Vec<ChangeError>,
    },
    /// The answer to a question. Descriptor: `/status` or the metrics, if requested.
    Told {
        /// Number of the question.
        number: u64,
        /// The answer.
        told: RouterReply,
    },
    /// All threads answer.
    Alive { number: u64 },
    /// Listeners are not retried any more.
    Frozen,
    /// This router has delivered a job after it released the store of jobs, while it retires.
    JobDelivered {
        spooler: String,
        /// Its number.
        job: u64,
        /// Why the run of a schedule failed; empty if it did not.
        #[serde(default)]
        error: String,
    },
    /// A client has submitted a job after this router released the store of jobs, while it retires: the router in force must store it.
    /// Descriptor: a stream on which this router writes a [`PassedJob`] and its body, and reads a [`PassedJobAnswer`].
    PassJob,
    /// The counts of this router, while it retires.
    Totals {
        /// Its own counts.
        totals: RouterCounts,
    },
}

/// The head of a job that one router passes on to another, as one line of JSON. The body follows, to the end of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedJob {
    /// The name of the spooler.
    pub spooler: String,
    /// The method of its request.
    pub method: String,
    /// Path and query.
    pub target: Vec<u8>,
    /// Its fields without those of the connection.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// It is not delivered before so many milliseconds have passed.
    pub delay: u64,
    /// Bytes of the body. With fewer, the other router has broken it off, and the job must not be stored.
    pub length: usize,
}

/// The answer to a [`PassedJob`], as JSON. Without one, it is not known to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PassedJobAnswer {
    /// It is on disk.
    Stored {
        /// Its number.
        id: String,
    },
    /// It is not stored.
    NotStored {
        /// The status for the client.
        status: u16,
        /// `Retry-After`, in seconds.
        retry_after: u32,
        /// The reason for the log.
        reason: Option<String>,
    },
}
