//! `tutti self-update`: a newer version of the archive that install.sh has installed, by that script itself.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use super::report::CommandError;

#[derive(Args)]
pub(super) struct SelfUpdateArguments {
    /// Options of install.sh: `--version VERSION`, `--dry-run`, `--from ADDRESS`, `--key KEY`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

/// Becomes the script. A return is a failure.
pub(super) fn run(arguments: &SelfUpdateArguments) -> Result<ExitCode, CommandError> {
    let program = std::env::current_exe().map_err(|error| {
        CommandError::new(format!("the path of this program is unknown: {error}"))
    })?;
    let Some((script, prefix)) = installation(&program) else {
        return Err(CommandError::new(format!(
            "`{}` was not installed by install.sh, and updates only such an installation itself",
            program.display()
        ))
        .hint(remedy(&program)));
    };
    let error = Command::new("sh")
        .arg(&script)
        .args(["--update", "--prefix"])
        .arg(prefix)
        .args(&arguments.options)
        .exec();
    Err(CommandError::new(format!(
        "`{}` cannot be run: {error}",
        script.display()
    )))
}

/// The script beside the program PREFIX/lib/tutti/VERSION/bin/tutti, and PREFIX.
fn installation(program: &Path) -> Option<(PathBuf, &Path)> {
    let version = program.parent()?.parent()?;
    let place = version.parent()?;
    let script = version.join("share/tutti/install.sh");
    let is_installed = place.ends_with("lib/tutti") && place.join("current").is_symlink();
    (is_installed && script.is_file()).then_some((script, place.parent()?.parent()?))
}

/// The command that upgrades this program, by what this system has to install packages.
fn remedy(program: &Path) -> &'static str {
    let has = |manager: &str| Path::new(manager).exists();
    match program.starts_with("/usr/bin") || program.starts_with("/usr/sbin") {
        true if has("/usr/bin/apt-get") => "apt-get update && apt-get install --only-upgrade tutti",
        true if has("/usr/bin/dnf") => "dnf upgrade tutti",
        true if has("/sbin/apk") => "apk upgrade tutti",
        _ => "install the new version as this one was installed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_script_has_installed_updates_itself() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let place = folder.join("lib/tutti");
        let program = place.join("0.2.0/bin/tutti");
        let script = place.join("0.2.0/share/tutti/install.sh");
        std::fs::create_dir_all(script.parent().unwrap()).unwrap();
        assert_eq!(installation(&program), None, "no script");
        std::fs::write(&script, "").unwrap();
        assert_eq!(installation(&program), None, "unpacked by hand");
        std::os::unix::fs::symlink("0.2.0", place.join("current")).unwrap();
        assert_eq!(installation(&program), Some((script, folder)));
        assert_eq!(installation(Path::new("/usr/bin/tutti")), None);
    }
}
