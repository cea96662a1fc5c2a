//! `tutti import`: starts `tutti-import`, the program that reads configurations of other servers.
//!
//! The server does not need the readers, so they are not part of this program. Their arguments are declared here, for
//! help, completions and manual pages.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::report::CommandError;

/// The exit code for a source that cannot be read, and for a missing `tutti-import`; 1 means that something was not
/// carried over.
pub const UNREADABLE: u8 = 2;

/// The program's name.
const PROGRAM: &str = "tutti-import";

/// The folder in which packages install it.
const PACKAGED: &str = "/usr/lib/tutti";

/// The arguments of `tutti import`.
#[derive(Args)]
pub struct ImportArguments {
    /// The server whose configuration it is
    #[arg(value_enum)]
    pub kind: ForeignServer,
    /// Its files: nginx.conf, apache2.conf or a site's file, with the pools of PHP-FPM for these two; included files are found
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// File to write the configuration to, which must not exist yet [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not write a configuration; only report the parts that could not be converted
    #[arg(long, conflicts_with = "output")]
    pub check: bool,
    /// Format of the report on standard error, and of the differences that `--try` finds
    #[arg(long, value_enum, default_value = "text")]
    pub format: Findings,
    /// Start the result on other ports beside the running old server, send both the same requests, and show how their responses differ; exit code 1 if any do
    #[arg(long = "try", conflicts_with = "check")]
    pub is_tried: bool,
    /// With `--try`: how the servers are tried
    #[command(flatten)]
    pub trial: TrialArguments,
}

/// The arguments of `tutti import --try`.
#[derive(Args)]
pub struct TrialArguments {
    /// Requests to send: an access log of the old server, or a file with an address or a path on each line
    #[arg(long, value_name = "FILE", requires = "is_tried")]
    pub requests: Vec<PathBuf>,
    /// Addresses from which links are followed [default, without `--requests`: the start page of each site]
    #[arg(long, value_name = "URL", requires = "is_tried")]
    pub crawl: Vec<String>,
    /// IP address of the old server [default: the addresses that its configuration listens on]
    #[arg(long, value_name = "ADDRESS", requires = "is_tried")]
    pub old: Option<std::net::IpAddr>,
    /// Host names to request [default: those of the configuration]
    #[arg(long, value_name = "NAME", requires = "is_tried")]
    pub host: Vec<String>,
    /// Header fields of every request, for example `Cookie: a=b`
    #[arg(long, value_name = "NAME: VALUE", requires = "is_tried")]
    pub field: Vec<String>,
    /// Response fields that are not compared, besides those that always differ
    #[arg(long, value_name = "FIELD", requires = "is_tried")]
    pub ignore: Vec<String>,
    /// Methods that are sent; requests of the log with others are left out
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "GET,HEAD",
        value_name = "LIST"
    )]
    pub methods: Vec<String>,
    /// Largest number of requests to each server
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub most: usize,
    /// Folder of the language modules [default: beside the program]
    #[arg(long, value_name = "DIR", requires = "is_tried")]
    pub modulesdir: Option<PathBuf>,
    /// User of the server that is started, when root starts it [default: `nobody`]
    #[arg(long, value_name = "NAME", requires = "is_tried")]
    pub user: Option<String>,
}

/// The server whose configuration is read.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[allow(missing_docs, reason = "help would show them")]
pub enum ForeignServer {
    Nginx,
    Apache,
    Fpm,
    Uwsgi,
    Caddy,
    Gunicorn,
    Puma,
}

/// The format of the findings.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
#[allow(missing_docs, reason = "help would show them")]
pub enum Findings {
    Text,
    Json,
}

/// Replaces this process with `tutti-import`, which gets these arguments. Returns only if it cannot be started.
pub(crate) fn start(arguments: &[OsString]) -> CommandError {
    let places = places(std::env::current_exe().ok().as_deref());
    let Some(program) = places.iter().find(|place| place.is_file()) else {
        let places: Vec<String> = places
            .iter()
            .map(|place| format!("`{}`", place.display()))
            .collect();
        let message = format!(
            "the program `{PROGRAM}` is not installed: it is not at {}",
            places.join(", nor at ")
        );
        return CommandError::new(message).code(UNREADABLE).hint(
            "it is part of the package `tutti`; a build puts it next to `tutti`: copy both, or run `tutti` from there",
        );
    };
    let error = Command::new(program).arg0(PROGRAM).args(arguments).exec();
    CommandError::new(format!("cannot start `{}`: {error}", program.display())).code(UNREADABLE)
}

/// Returns the program `tutti` that belongs to the `tutti-import` at `own`: beside it, or above the folder of packages.
pub fn server_program(own: &Path) -> Option<PathBuf> {
    let folder = own.parent()?;
    let beside = folder.join("tutti");
    let packaged = folder.parent()?.parent()?.join("bin/tutti");
    [beside, packaged].into_iter().find(|place| place.is_file())
}

/// Returns the places where it may be, for a `tutti` at `own`: next to that, regardless of links, or where packages
/// install it.
fn places(own: Option<&Path>) -> Vec<PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_path_buf);
    let mut places: Vec<PathBuf> = [beside, Some(PACKAGED.into())]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(PROGRAM))
        .collect();
    places.dedup();
    places
}
