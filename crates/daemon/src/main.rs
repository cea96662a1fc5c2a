//! The `tutti` binary: the daemon's roles and the command line, composed in one place.
//!
//! The program's name and arguments select the role. `tutti: router`, `tutti: controller`, `tutti: acme` and `tutti:
//! fleet` (argument zero, set by main) are the roles of these names; called `tuttid` or `unitd`, or with a flag of the
//! server first, it is the daemon; everything else is the command line.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tutti_main::flags::{self, Flags};
use tutti_protocol::{ACME_TITLE, CHECK_TITLE, CONTROLLER_TITLE, FLEET_TITLE, ROUTER_TITLE};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let program = arguments
        .first()
        .map(|a| a.to_string_lossy().into_owned())
        .unwrap_or_default();
    match program.as_str() {
        ROUTER_TITLE => return tutti_router::run(),
        CONTROLLER_TITLE => return tutti_controller::run(),
        ACME_TITLE => return tutti_acme::run(),
        FLEET_TITLE => return tutti_fleet::run(),
        CHECK_TITLE => return tutti_controller::check(),
        _ => {}
    }
    if is_command(&program, arguments.get(1)) {
        return tutti_ctl::main(arguments);
    }
    run_daemon(&program, arguments)
}

/// The daemon's own names accept no commands; `tutti` with flags is the daemon too, so that a service file written for
/// NGINX Unit needs only the name changed. Flags that every program has belong to the command line.
fn is_command(program: &str, first: Option<&OsString>) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default();
    if name == "tuttid" || name == "unitd" {
        return false;
    }
    first.is_none_or(|first| {
        let first = first.to_string_lossy();
        !first.starts_with('-') || matches!(&*first, "-h" | "--help")
    })
}

fn run_daemon(program: &str, arguments: Vec<OsString>) -> ExitCode {
    let mut flags = match Flags::try_parse_from(&arguments) {
        Ok(flags) => flags,
        Err(error) => return tutti_ctl::usage::refuse(&error, 1, &[]),
    };
    flags.as_unit = flags::is_unit_name(program);
    if flags.version {
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), "{}", version(&flags));
        return ExitCode::SUCCESS;
    }
    if flags.takeover_trial {
        return tutti_main::try_takeover();
    }
    tutti_main::run(&flags, &arguments)
}

/// The version of NGINX Unit whose configurations work unchanged (docs/reference/compat.md).
const UNIT_VERSION: &str = "1.35.0";

/// Returns the output of `--version`. Under Unit's name it has the two lines that scripts for Unit parse, and one more.
fn version(flags: &Flags) -> String {
    let own = format!("tutti version: {}", env!("CARGO_PKG_VERSION"));
    if !flags.as_unit {
        return own;
    }
    let places = flags.places();
    format!(
        "unit version: {UNIT_VERSION}\nconfigured as ./configure --modulesdir={} --statedir={} --tmpdir={} --control={} --pid={}\n{own}",
        places.modules.display(),
        places.state.display(),
        places.temporary.display(),
        places.control,
        places.pid.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_units_form_under_its_name() {
        let mut flags = Flags::default();
        assert!(version(&flags).starts_with("tutti version: "));
        flags.as_unit = true;
        let version = version(&flags);
        let lines: Vec<&str> = version.lines().collect();
        assert_eq!(lines[0], "unit version: 1.35.0");
        assert!(lines[1].starts_with("configured as ./configure --modulesdir=/"));
        assert!(lines[2].starts_with("tutti version: "));
    }

    #[test]
    fn only_tutti_has_commands() {
        let word = |text: &str| Some(OsString::from(text));
        assert!(is_command("tutti", word("run").as_ref()));
        assert!(is_command("/opt/bin/tutti", word("help").as_ref()));
        assert!(!is_command("/usr/sbin/unitd", word("run").as_ref()));
        assert!(!is_command("tuttid", word("--help").as_ref()));
        assert!(!is_command("tutti", word("--no-daemon").as_ref()));
        assert!(is_command("tutti", None));
        assert!(is_command("tutti", word("confg").as_ref()));
        assert!(is_command("tutti", word("--help").as_ref()));
        assert!(!is_command("tutti", word("--version").as_ref()));
        assert!(!is_command("tuttid", None));
    }
}
