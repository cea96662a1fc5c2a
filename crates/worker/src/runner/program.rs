//! Finds the program of a command before it is started: most mistakes show here, with a hint.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::error::StartError;

/// Where programs are searched if the environment has no `PATH`: execvp(3) of the C library, and `/usr/local/bin`.
const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";

/// The option at fault.
const MEMBER: &str = "command/0";

/// Finds the program called `name`, as an absolute path. The working directory has been entered; `path` is the environment's `PATH`.
pub(super) fn find(name: &str, path: Option<OsString>) -> Result<PathBuf, StartError> {
    let step = format!("looking for the program `{name}`");
    if name.contains('/') {
        let full = std::path::absolute(name)
            .map_err(|error| StartError::new(&step, error).member(MEMBER))?;
        let absent = match Path::new(name).is_absolute() {
            true => "install it, or name another".to_owned(),
            false => format!(
                "a relative path starts at `working_directory`: there is no `{}`",
                full.display()
            ),
        };
        return check(&full, &step, &absent).map(|()| full);
    }
    let path = path.unwrap_or_else(|| USUAL.into());
    // A program is searched where the administrator configured, never relative to the current directory.
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut refused = None;
    for folder in folders {
        let full = folder.join(OsStr::from_bytes(name.as_bytes()));
        match check(&full, &step, "") {
            Ok(()) => return Ok(full),
            // As in a shell: one that may not be executed is reported only if there is no other.
            Err(error) if full.exists() => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| {
        let message = format!("there is no `{name}` in PATH ({})", path.to_string_lossy());
        StartError::new(step, message)
            .hint("install it, write its whole path, or set `PATH` in `environment`")
            .member(MEMBER)
    }))
}

/// Succeeds if the file can be executed. `absent` is the hint if there is no such file.
fn check(path: &Path, step: &str, absent: &str) -> Result<(), StartError> {
    let shown = path.display();
    let failed =
        |message: String, hint: &str| Err(StartError::new(step, message).hint(hint).member(MEMBER));
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return failed(error.to_string(), absent);
        }
        Err(error) => {
            let hint = format!("the application's user must be allowed to reach `{shown}`");
            return failed(error.to_string(), &hint);
        }
        Ok(found) if found.is_dir() => {
            return failed(format!("`{shown}` is a folder"), "name the program in it");
        }
        Ok(_) => {}
    }
    match accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(()),
        Err(error) => {
            let hint = format!(
                "`chmod +x {shown}`, and let the application's user reach it; or name its interpreter first: `[\"php\", …]`"
            );
            failed(error.to_string(), &hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know `faccessat`")]
    fn a_name_is_looked_for_in_path_and_a_path_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("consume");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        let path = || Some(format!("relative:{}:/bin", folder.path().display()).into());
        let refused = find("consume", path()).unwrap_err();
        assert!(refused.message.contains("denied"), "{refused}");
        assert!(refused.hint.unwrap().contains("chmod +x"));
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find("consume", path()).unwrap(), program);
        assert_eq!(find("sh", path()).unwrap(), Path::new("/bin/sh"));
        assert!(find("sh", None).unwrap().is_absolute());
        let absent = find("no-such-program", path()).unwrap_err();
        assert!(absent.message.contains("in PATH (relative:"), "{absent}");
        let absent = find("./no-such-program", path()).unwrap_err();
        assert!(absent.hint.unwrap().contains("working_directory"));
        assert!(find("/bin", None).unwrap_err().message.contains("folder"));
        // A relative folder in PATH finds nothing.
        assert!(find("consume", Some(".".into())).is_err());
    }
}
