//! The messages between main and the controller.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_options::logging::LogStyle;

use super::{
    AcmePlan, BindAddress, Cause, Change, ChangeError, ConfigFile, FleetAnswer, FleetRequest,
    ForController, Grants, LanguageModule, RouterQuery, SourcePlan,
};

/// The first message a controller gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ControllerHello {
    pub modules: Vec<LanguageModule>,
    /// The style of the log.
    pub log: LogStyle,
    /// The path of the log; `None`: standard error, or a syslog server.
    pub log_file: Option<PathBuf>,
    /// The stored configuration, or the one in force; `None` for a first start.
    pub configuration: Option<String>,
    /// Certificate bundles, by name.
    pub certificates: BTreeMap<String, String>,
    /// Script modules, by name.
    pub js_modules: BTreeMap<String, String>,
    /// The configuration files, or why they cannot be read: at a first start they take precedence over what is stored.
    pub files: Option<Result<Vec<ConfigFile>, String>>,
    /// The URL of `--source`, or the file that it names.
    pub source: Option<GivenSource>,
    /// If the files have faults, the stored configuration is used; otherwise such a start fails.
    pub is_lenient: bool,
    /// The access rules of the control API.
    pub access: super::ControlAccess,
    /// A controller before this one has begun: its configuration stays in force, and nothing is decided again.
    pub has_begun: bool,
    /// Another version serves until this one does: faults of the configuration are reported, and nothing else is done.
    pub is_upgrade: bool,
}

/// A source that the flag `--source` names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum GivenSource {
    Url {
        url: String,
    },
    File {
        /// The file, or why it cannot be read.
        file: Result<ConfigFile, String>,
    },
}

/// Why main refused a request of the controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It is not permitted or possible.
    #[default]
    Refused,
    /// There is no such application.
    Unknown,
    /// It cannot be done now: the process that would do it is not running, or the server is stopping.
    Unavailable,
}

/// From main to the controller.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ToController {
    /// Comes first. Descriptors: the control socket, the log.
    Hello(Box<ControllerHello>),
    /// The router serves: answer the control socket. Answered by [`FromController::Serving`].
    Serve,
    /// A request succeeded. Descriptors: the requested ones.
    Done {
        id: u64,
        /// Faults that did not prevent a change.
        #[serde(default)]
        warnings: Vec<ChangeError>,
    },
    /// A request failed.
    Failed {
        id: u64,
        /// In one sentence; empty if the faults say it.
        message: String,
        reason: Reason,
        /// Each with its place in the configuration.
        faults: Vec<ChangeError>,
    },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Answer with [`FromController::Alive`].
    Probe { number: u64 },
    /// Finish the change in progress, accept no other, answer no new control connection; then send [`FromController::Frozen`].
    Freeze,
    /// Accept changes again.
    Thaw,
    /// Read the configuration files again.
    Reload {
        /// The origin, for the history.
        by: String,
    },
    /// A request of the process for automatic certificates; answered by [`FromController::AcmeDone`].
    Acme {
        id: u64,
        /// The request.
        message: ForController,
    },
    /// A request of the source; answered by [`FromController::FleetDone`].
    Fleet { id: u64, request: FleetRequest },
    /// The server stops: accept no more changes.
    Stopping,
    /// Send the pending answers, and end.
    End,
}

/// From the controller to main.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromController {
    /// The answer to a probe.
    Alive { number: u64 },
    /// The configuration that the server begins with.
    Begin {
        /// The configuration; `None` is an empty one.
        configuration: Option<String>,
        /// Store it, with this in its history: it comes from the configuration files.
        cause: Option<Cause>,
        /// The stored one cannot be read: rename its file.
        set_aside: bool,
        /// The rights that it grants to a router.
        grants: Box<Grants>,
        /// Certificate bundles from files, to be stored first, by name.
        certificates: BTreeMap<String, String>,
    },
    /// There is no configuration to begin with, or the one in force is not valid for this version.
    Unfit { message: String },
    /// The control socket is being answered.
    Serving,
    /// No change is in progress, and none will begin.
    Frozen,
    /// Make a change: have the router prepare it, store it, have the router put it in force.
    Apply {
        id: u64,
        change: Change,
        /// The rights that the configuration grants to a router after it.
        grants: Box<Grants>,
        /// The entry of the history.
        cause: Cause,
    },
    /// Abandon this change unless it is stored already. It is answered either way.
    Abandon { id: u64 },
    /// Ask the router.
    Ask { id: u64, question: RouterQuery },
    /// The answer to this question is not needed any more.
    Forget { id: u64 },
    /// Read the configuration files; answered with a memory file of [`ConfigFile`]s.
    ReadFiles { id: u64 },
    /// Read the files of a certificate; answered with a memory file of their content.
    ReadCertificate {
        id: u64,
        /// Certificate and chain.
        file: PathBuf,
        /// The key, if it has its own file.
        key: Option<PathBuf>,
    },
    /// Listen at this address for the dashboard; answered with the socket.
    Listen { id: u64, place: BindAddress },
    /// The dashboard does not listen at this address any more.
    Unlisten { place: BindAddress },
    /// Read the token of the dashboard; answered with a memory file.
    ReadToken { id: u64, file: PathBuf },
    /// The automatic certificates to get; `None`: there are none.
    Acme { plan: Option<Box<AcmePlan>> },
    /// Order this certificate now, although it is not due; answered when it is in force.
    Renew { id: u64, bundle: String },
    /// The result of a request of the process for automatic certificates.
    AcmeDone { id: u64, error: Option<String> },
    /// The source to follow; `None`: there is none.
    Source { plan: Option<Box<SourcePlan>> },
    /// The answer to a request of the source process.
    FleetDone { id: u64, answer: FleetAnswer },
    /// Send the last changes; answered with a memory file of JSON.
    History { id: u64 },
    /// Send the configuration after a change; answered with a file, or none if it is not kept.
    Past { id: u64, number: u64 },
    /// Replace the server by the program that is now at its path; answered when that serves.
    Upgrade { id: u64 },
    /// Stop the server, as SIGQUIT or SIGTERM does; answered before it begins.
    Stop {
        id: u64,
        /// Requests in progress are answered first.
        is_graceful: bool,
    },
}
