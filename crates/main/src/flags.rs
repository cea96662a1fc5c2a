//! The daemon's flags, which include those of NGINX Unit, and the default paths.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Parser;
use serde::{Deserialize, Serialize};
use tutti_options::logging::{Level, LogForm, LogStyle};
use tutti_options::syslog::SyslogTarget;
use tutti_sys::credentials;
use tutti_sys::listen::SocketName;

const AFTER_HELP: &str = "\
For commands such as `tutti run`, `tutti config` and `tutti status`, see `tutti help`.
Signals: QUIT stops after the requests in progress are answered, TERM (see --sigterm) and INT stop immediately,
USR1 reopens all logs, USR2 upgrades to the program now installed at this one's path, HUP reloads the files of --config.";

/// Starts the server: the main process, the router, and everything in the stored configuration.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "tuttid", version, disable_version_flag = true, args_override_self = true, after_help = AFTER_HELP)]
pub struct Flags {
    /// Stay in the foreground and log to standard error
    #[arg(long)]
    pub no_daemon: bool,

    /// Address of the control socket: `unix:/path`, `unix:@name` or `127.0.0.1:8000`
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub control: Option<SocketName>,

    /// Mode of the control socket's file, in octal
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub control_mode: Option<u32>,

    /// Owner of the control socket's file; with `unix:@name`, a user who may connect
    #[arg(long, value_name = "USER")]
    pub control_user: Option<String>,

    /// Group of the control socket's file; with `unix:@name`, a group whose members may connect
    #[arg(long, value_name = "GROUP")]
    pub control_group: Option<String>,

    /// File with the token that each request to the control API must send (`Authorization: Bearer`). Required for a TCP
    /// port
    #[arg(long, value_name = "FILE")]
    pub control_token: Option<PathBuf>,

    /// File for the process id of the main process
    #[arg(long, value_name = "FILE")]
    pub pid: Option<PathBuf>,

    /// Log: a file, `stderr`, `stdout`, or a syslog server: `syslog:server=unix:/dev/log,facility=daemon,tag=tutti`
    #[arg(long, value_name = "FILE", value_parser = parse_log)]
    pub log: Option<LogTo>,

    /// Format of log lines: `text`, or `json` with one object per line
    #[arg(long, value_name = "FORM", value_parser = parse_log_form)]
    pub log_format: Option<LogForm>,

    /// Least severe level that is logged: `alert`, `error`, `warn`, `notice`, `info` (default) or `debug`
    #[arg(long, value_name = "LEVEL", value_parser = parse_log_level)]
    pub log_level: Option<Level>,

    /// Folder of the language hosts
    #[arg(long, alias = "modules", value_name = "FOLDER")]
    pub modulesdir: Option<PathBuf>,

    /// Folder of the stored configuration
    #[arg(long, alias = "state", value_name = "FOLDER")]
    pub statedir: Option<PathBuf>,

    /// Configuration to start with: a file, or a folder of files (JSON with comments, YAML, TOML). It replaces the
    /// stored configuration, which is used without this flag
    #[arg(long, value_name = "PATH")]
    pub config: Option<PathBuf>,

    /// Start with the stored configuration if that of --config is invalid; without this flag the start fails
    #[arg(long, requires = "config")]
    pub lenient: bool,

    /// Reload the files of --config whenever they change, without a signal
    #[arg(long, requires = "config")]
    pub watch: bool,

    /// Store from which this node of a fleet takes its configuration: `etcd://HOST:PORT,HOST:PORT/PREFIX` (`etcds://` with
    /// TLS), or a file with the contents of `settings.source`
    #[arg(long, value_name = "URL_OR_FILE")]
    pub source: Option<PathBuf>,

    /// Effect of the signal TERM: `quick` (default) stops immediately, `graceful` after the requests in progress are
    /// answered, as QUIT does
    #[arg(long, value_name = "PACE")]
    pub sigterm: Option<TermPace>,

    /// Folder of temporary files
    #[arg(long, alias = "tmp", value_name = "FOLDER")]
    pub tmpdir: Option<PathBuf>,

    /// User that applications run as
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,

    /// User that controller and router run as, which must be able to read the files to serve: by default `tutti` if it exists, otherwise `nobody`
    #[arg(long, value_name = "USER")]
    pub router_user: Option<String>,

    /// Group that applications run as
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// Descriptor of what the former program hands over
    #[arg(long, hide = true)]
    pub takeover: Option<i32>,

    /// Say whether this program could take over what is handed over as descriptor 3
    #[arg(long, hide = true)]
    pub takeover_trial: bool,

    /// Print the version and exit
    #[arg(short = 'V', long)]
    pub version: bool,

    /// The program was called by the name of NGINX Unit: its paths and users are the defaults
    #[arg(skip)]
    pub as_unit: bool,
}

/// The effect of the signal TERM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TermPace {
    /// The server stops immediately, as NGINX Unit does.
    #[default]
    Quick,
    /// The server stops after the requests in progress are answered.
    Graceful,
}

/// The destination of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTo {
    /// Standard error.
    Stderr,
    /// A file, or a stream by its path.
    File(PathBuf),
    /// A syslog server.
    Syslog(SyslogTarget),
}

/// All paths and what else holds for the whole run, with defaults applied.
#[derive(Debug, Clone)]
pub struct ServerPaths {
    /// The control socket.
    pub control: SocketName,
    /// The pid file.
    pub pid: PathBuf,
    /// `None`: standard error, or a syslog server.
    pub log: Option<PathBuf>,
    /// Folder of the language hosts.
    pub modules: PathBuf,
    /// Folder of stored data.
    pub state: PathBuf,
    /// Folder of temporary files.
    pub temporary: PathBuf,
    /// A file or folder that takes precedence over the stored configuration.
    pub config: Option<PathBuf>,
    /// If it has faults, the stored configuration is used.
    pub is_lenient: bool,
    /// Files of `config` are reloaded when they change.
    pub is_watching: bool,
    /// The store of the configuration: a URL, or a file.
    pub source: Option<PathBuf>,
    /// The effect of the signal TERM.
    pub sigterm: TermPace,
}

/// Parses `unix:/path`, `unix:@name`, `ADDRESS:PORT`, `[IPV6]:PORT` or `*:PORT`.
pub fn parse_address(text: &str) -> Result<SocketName, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.strip_prefix('@') {
            Some("") => Err("the name after `unix:@` is empty".to_owned()),
            Some(name) => Ok(SocketName::Abstract(name.as_bytes().to_vec())),
            None if path.is_empty() => Err("the path after `unix:` is empty".to_owned()),
            None => Ok(SocketName::Path(PathBuf::from(path))),
        };
    }
    if let Some(port) = text.strip_prefix("*:") {
        let port = port
            .parse()
            .map_err(|_| format!("`{port}` is not a port number"))?;
        return Ok(SocketName::Inet(SocketAddr::from((
            Ipv4Addr::UNSPECIFIED,
            port,
        ))));
    }
    if let Ok(address) = text.parse() {
        return Ok(SocketName::Inet(address));
    }
    if let Some(name) = text.strip_prefix("localhost:") {
        return parse_address(&format!("127.0.0.1:{name}"));
    }
    let hint = if text.starts_with('/') {
        format!("; did you mean `unix:{text}`?")
    } else {
        String::new()
    };
    Err(format!(
        "expected `unix:/path`, `unix:@name` or `ADDRESS:PORT`{hint}"
    ))
}

fn parse_log(text: &str) -> Result<LogTo, String> {
    if let Some(target) = SyslogTarget::parse(text) {
        return target.map(LogTo::Syslog).map_err(|error| error.to_string());
    }
    match text {
        "" => Err("the path is empty".to_owned()),
        "stderr" => Ok(LogTo::Stderr),
        "stdout" => Ok(LogTo::File("/dev/stdout".into())),
        path => Ok(LogTo::File(path.into())),
    }
}

fn parse_log_form(text: &str) -> Result<LogForm, String> {
    match text {
        "text" => Ok(LogForm::Text),
        "json" => Ok(LogForm::Json),
        _ => Err("expected `text` or `json`".to_owned()),
    }
}

fn parse_log_level(text: &str) -> Result<Level, String> {
    Level::from_word(text).ok_or_else(|| {
        let words: Vec<&str> = Level::ALL.into_iter().map(Level::word).collect();
        format!("expected one of {}", words.join(", "))
    })
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text.trim_start_matches("0o"), 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("expected an octal mode such as 0600".to_owned()),
    }
}

/// True if the program was called by the name of NGINX Unit.
pub fn is_unit_name(program: &str) -> bool {
    Path::new(program)
        .file_name()
        .is_some_and(|name| name == "unitd")
}

/// Returns the control socket of a server that was started without `--control`.
pub fn default_control() -> SocketName {
    SocketName::Path(Defaults::own().control)
}

/// The default paths.
struct Defaults {
    control: PathBuf,
    pid: PathBuf,
    state: PathBuf,
    log: PathBuf,
}

impl Defaults {
    /// For root below `/var`, for other users in their own folders.
    fn own() -> Defaults {
        if credentials::is_root() {
            return Defaults {
                control: "/var/run/tutti/control.sock".into(),
                pid: "/var/run/tutti/tutti.pid".into(),
                state: "/var/lib/tutti".into(),
                log: "/var/log/tutti.log".into(),
            };
        }
        let (run, state) = (user_run_folder(), user_state_folder());
        Defaults {
            control: run.join("control.sock"),
            pid: run.join("tutti.pid"),
            log: state.join("tutti.log"),
            state,
        }
    }

    /// Returns the paths of Debian's packages of NGINX Unit below `root`, which is `/`; or Tutti's own where the user
    /// may not write to them.
    fn of_unit(root: &Path) -> Defaults {
        let own = Defaults::own();
        let choose = |path: &str, own: PathBuf, may_use: fn(&Path) -> bool| {
            let path = root.join(path);
            if may_use(&path) { path } else { own }
        };
        Defaults {
            // It is bound again at each start.
            control: choose("var/run/control.unit.sock", own.control, may_make),
            pid: choose("var/run/unit.pid", own.pid, may_write_or_make),
            state: choose("var/lib/unit", own.state, may_write_or_make),
            log: choose("var/log/unit.log", own.log, may_write_or_make),
        }
    }
}

/// True if this user may create a file with this name.
fn may_make(path: &Path) -> bool {
    path.parent().is_some_and(credentials::may_write)
}

/// True if this user may write to an existing file, or may create it.
fn may_write_or_make(path: &Path) -> bool {
    match path.exists() {
        true => credentials::may_write(path),
        false => may_make(path),
    }
}

fn user_run_folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder).join("tutti"),
        _ => std::env::temp_dir().join(format!("tutti-{}", credentials::current_user())),
    }
}

fn user_state_folder() -> PathBuf {
    let from = |name: &str| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    // The home of a service user may not exist.
    let home = || from("HOME").filter(|home| home.is_dir());
    from("XDG_STATE_HOME")
        .or_else(|| home().map(|home| home.join(".local/state")))
        .map_or_else(
            || user_run_folder().join("state"),
            |folder| folder.join("tutti"),
        )
}

/// Returns `modules` next to the folder of the program (a build, `/opt/tutti`), or else the folder of packages.
pub fn default_modules() -> PathBuf {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|program| Some(program.parent()?.parent()?.join("modules")));
    match beside {
        Some(folder) if folder.is_dir() => folder,
        _ => PathBuf::from("/usr/lib/tutti/modules"),
    }
}

impl Flags {
    /// Returns how the log is written.
    pub fn log_style(&self) -> LogStyle {
        let syslog = match &self.log {
            Some(LogTo::Syslog(target)) => Some(target.clone()),
            _ => None,
        };
        LogStyle {
            format: self.log_format.unwrap_or_default(),
            level: self.log_level.unwrap_or_default(),
            syslog,
        }
    }

    /// Returns the TCP address of `--control` that is not served: NGINX Unit serves it without a token, and images for
    /// Unit use it.
    pub(crate) fn unserved_control(&self) -> Option<SocketAddr> {
        match &self.control {
            Some(SocketName::Inet(address)) if self.as_unit && self.control_token.is_none() => {
                Some(*address)
            }
            _ => None,
        }
    }

    /// Applies the defaults.
    pub fn places(&self) -> ServerPaths {
        let defaults = match self.as_unit {
            true => Defaults::of_unit(Path::new("/")),
            false => Defaults::own(),
        };
        let log = match &self.log {
            Some(LogTo::File(path)) => Some(path.clone()),
            Some(LogTo::Stderr | LogTo::Syslog(_)) => None,
            None => Some(defaults.log).filter(|_| !self.no_daemon),
        };
        let control = match self.unserved_control() {
            Some(_) => None,
            None => self.control.clone(),
        };
        ServerPaths {
            control: absolute_endpoint(control.unwrap_or(SocketName::Path(defaults.control))),
            pid: absolute(self.pid.clone().unwrap_or(defaults.pid)),
            log: log.map(absolute),
            modules: absolute(self.modulesdir.clone().unwrap_or_else(default_modules)),
            state: absolute(self.statedir.clone().unwrap_or(defaults.state)),
            config: self.config.clone().map(absolute),
            is_lenient: self.lenient,
            is_watching: self.watch,
            sigterm: self.sigterm.unwrap_or_default(),
            source: self.source.clone().map(|source| {
                // A URL is not a path.
                match source.to_str().is_some_and(|text| text.contains("://")) {
                    true => source,
                    false => absolute(source),
                }
            }),
            temporary: absolute(self.tmpdir.clone().unwrap_or_else(std::env::temp_dir)),
        }
    }
}

/// A daemon changes its working directory: paths from the user must keep their meaning.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

fn absolute_endpoint(endpoint: SocketName) -> SocketName {
    match endpoint {
        SocketName::Path(path) => SocketName::Path(absolute(path)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_apart_or_after_an_equals_sign() {
        let apart = Flags::try_parse_from([
            "tuttid",
            "--control",
            "unix:/a",
            "--state",
            "/s",
            "--no-daemon",
        ])
        .unwrap();
        let joined = Flags::try_parse_from([
            "tuttid",
            "--control=unix:/a",
            "--statedir=/s",
            "--no-daemon",
        ])
        .unwrap();
        for flags in [apart, joined] {
            assert_eq!(flags.control, Some(SocketName::Path("/a".into())));
            assert_eq!(flags.statedir, Some("/s".into()));
            assert!(flags.no_daemon);
        }
    }

    #[test]
    fn a_mistyped_flag_gets_a_suggestion() {
        let error = Flags::try_parse_from(["tuttid", "--no-deamon"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("--no-daemon"), "{error}");
    }

    /// Issue 28: a server without root looked for its home, and none of Unit's places was used.
    #[test]
    fn units_places_are_used_where_they_can_be_written_to() {
        let root = tempfile::tempdir().unwrap();
        let place = |path: &str| root.path().join(path);
        let own = Defaults::own();
        let defaults = Defaults::of_unit(root.path());
        assert_eq!((&defaults.state, &defaults.pid), (&own.state, &own.pid));
        for folder in ["var/lib", "var/run"] {
            std::fs::create_dir_all(place(folder)).unwrap();
        }
        let defaults = Defaults::of_unit(root.path());
        assert_eq!(defaults.state, place("var/lib/unit"));
        assert_eq!(defaults.pid, place("var/run/unit.pid"));
        assert_eq!(defaults.control, place("var/run/control.unit.sock"));
        assert_eq!(defaults.log, own.log);
    }

    #[test]
    fn tcp_without_a_token_is_left_out_under_units_name_only() {
        let read = |as_unit: bool, more: &[&str]| {
            let words = ["unitd", "--control", "127.0.0.1:8000"];
            let mut flags = Flags::try_parse_from(words.iter().chain(more)).unwrap();
            flags.as_unit = as_unit;
            let is_tcp = matches!(flags.places().control, SocketName::Inet(_));
            (flags.unserved_control().is_some(), is_tcp)
        };
        assert_eq!(read(true, &[]), (true, false));
        assert_eq!(read(false, &[]), (false, true));
        assert_eq!(read(true, &["--control-token", "/token"]), (false, true));
    }

    #[test]
    fn addresses_of_all_kinds() {
        assert_eq!(parse_address("*:80").unwrap().to_string(), "0.0.0.0:80");
        assert_eq!(parse_address("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert_eq!(
            parse_address("unix:@x").unwrap(),
            SocketName::Abstract(b"x".to_vec())
        );
        assert!(
            parse_address("/run/x")
                .unwrap_err()
                .contains("did you mean `unix:/run/x`")
        );
        assert!(parse_address("*:http").is_err());
        assert_eq!(parse_mode("0660"), Ok(0o660));
        assert!(parse_mode("9").is_err());
    }
}
