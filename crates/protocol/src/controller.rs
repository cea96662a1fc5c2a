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
    /// How the log is written.
    pub log: LogStyle,
    /// Where it is; `None`: standard error, or a syslog server.
    pub log_file: Option<PathBuf>,
    /// The configuration that is stored, or in force; `None` for a first start.
    pub configuration: Option<String>,
    /// Certificate bundles, by name.
    pub certificates: BTreeMap<String, String>,
    /// Script modules, by name.
    pub js_modules: BTreeMap<String, String>,
    /// The configuration files or why they cannot be read: at a first start they come before what is stored.
    pub files: Option<Result<Vec<ConfigFile>, String>>,
    /// The URL of `--source`, or the file that it names.
    pub source: Option<GivenSource>,
    /// Where the files have faults, the stored one is used; else such a start fails.
    pub is_lenient: bool,
    /// Who may use the control API.
    pub access: super::ControlAccess,
    /// A controller before this one has begun: what is in force stays so, and nothing is decided anew.
    pub has_begun: bool,
    /// Another version serves until this one does: a configuration with faults is told, and nothing else done.
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

/// Why main did not do what the controller asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It cannot be done.
    #[default]
    Refused,
    /// There is no such application.
    Unknown,
    /// Nobody is there to do it now.
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
    /// A request succeeded. Descriptors: what was asked for.
    Done {
        id: u64,
        /// Faults that did not stand against a change.
        #[serde(default)]
        warnings: Vec<ChangeError>,
    },
    /// A request failed.
    Failed {
        id: u64,
        /// In one sentence; empty where the faults say it.
        message: String,
        reason: Reason,
        /// Each with its place in the configuration.
        faults: Vec<ChangeError>,
    },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Give a sign of life: [`FromController::Alive`].
    Probe { number: u64 },
    /// Finish the change under way, take no other, answer no new control connection; then say [`FromController::Frozen`].
    Freeze,
    /// Take changes again.
    Thaw,
    /// Read the configuration files again.
    Reload {
        /// Who wants it, for the history.
        by: String,
    },
    /// The process for automatic certificates wants something; answered with [`FromController::AcmeDone`].
    Acme {
        id: u64,
        /// The request.
        message: ForController,
    },
    /// The source process wants something; answered with [`FromController::FleetDone`].
    Fleet { id: u64, request: FleetRequest },
    /// The server stops: take no changes any more.
    Stopping,
    /// Give the answers that are due, and end.
    End,
}

/// From the controller to main.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FromController {
    /// A sign of life.
    Alive { number: u64 },
    /// The configuration that the server begins with.
    Begin {
        /// The configuration; `None` is an empty one.
        configuration: Option<String>,
        /// Store it, with this in its history: it comes from the configuration files.
        cause: Option<Cause>,
        /// The stored one cannot be read: move it out of the way.
        set_aside: bool,
        /// The rights that it gives a router.
        grants: Box<Grants>,
        /// Certificate bundles to be stored first, by name: those of files.
        certificates: BTreeMap<String, String>,
    },
    /// There is nothing to begin with, or the configuration in force is not valid for this version.
    Unfit { message: String },
    /// The control socket is being answered.
    Serving,
    /// No change is under way, and none will be.
    Frozen,
    /// Make a change: have the router prepare it, store it, have the router put it in force.
    Apply {
        id: u64,
        change: Change,
        /// The rights that the configuration gives a router after it.
        grants: Box<Grants>,
        /// The words of the history about it.
        cause: Cause,
    },
    /// Give this change up unless it is stored already. It is answered either way.
    Abandon { id: u64 },
    /// Ask the router.
    Ask { id: u64, question: RouterQuery },
    /// Nobody waits for the answer to this question any more.
    Forget { id: u64 },
    /// Read the configuration files; answered with a memory file of [`ConfigFile`]s.
    ReadFiles { id: u64 },
    /// Read the files of a certificate; answered with a memory file of what is in them.
    ReadCertificate {
        id: u64,
        /// Certificate and chain.
        file: PathBuf,
        /// The key, if it has a file of its own.
        key: Option<PathBuf>,
    },
    /// Listen at this place for the dashboard; answered with the socket.
    Listen { id: u64, place: BindAddress },
    /// The dashboard does not listen at this place any more.
    Unlisten { place: BindAddress },
    /// Read the token of the dashboard; answered with a memory file of it.
    ReadToken { id: u64, file: PathBuf },
    /// The certificates to be got by themselves; `None`: there are none.
    Acme { plan: Option<Box<AcmePlan>> },
    /// Order this certificate now, although it is not due; answered when it is in force.
    Renew { id: u64, bundle: String },
    /// A request of the process for automatic certificates has been carried out, or not.
    AcmeDone { id: u64, error: Option<String> },
    /// The source to follow; `None`: there is none.
    Source { plan: Option<Box<SourcePlan>> },
    /// The answer to a request of the source process.
    FleetDone { id: u64, answer: FleetAnswer },
    /// Tell the last changes; answered with a memory file of JSON.
    History { id: u64 },
    /// Give the configuration after a change; answered with a file, or none if it is not kept.
    Past { id: u64, number: u64 },
    /// Put the program that is at this one's path now in its place; answered when it serves.
    Upgrade { id: u64 },
    /// Stop the server, as SIGQUIT or SIGTERM does; answered before it begins.
    Stop {
        id: u64,
        /// Requests under way are answered first.
        is_graceful: bool,
    },
}
