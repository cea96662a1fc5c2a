//! Finding the program, before anything is forked: most mistakes show here, with their cure.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use tutti_options::Options as _;
use tutti_options::external::External;
use tutti_worker::{Program, Start, StartError};

/// The configured program. The working directory has been entered, so that a relative path is relative to it.
pub(crate) fn find(start: &Start) -> Result<Program, StartError> {
    let options = External::from_json(&start.config)?;
    let executable = options.executable.display();
    let step = || format!("looking for the executable `{executable}`");
    let path = absolute(&options.executable).map_err(|error| StartError::new(step(), error))?;
    check(&path).map_err(|(message, hint)| {
        let error = StartError::new(step(), message).member("executable");
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    })?;
    Ok(Program {
        path,
        arguments: options.arguments.into_iter().map(Into::into).collect(),
    })
}

/// As the programs themselves may change their working directory and execute themselves anew, they get an absolute path.
fn absolute(executable: &Path) -> std::io::Result<PathBuf> {
    std::path::absolute(executable)
}

fn check(path: &Path) -> Result<(), (String, Option<String>)> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "there is no `{shown}`; a relative `executable` starts at `working_directory`, PATH is not searched"
            ),
            _ => format!("the application's user must be allowed to reach `{shown}`"),
        };
        (error.to_string(), Some(hint))
    })?;
    if metadata.is_dir() {
        return Err((format!("`{shown}` is a folder"), None));
    }
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).map_err(|error| {
        let hint = format!("`chmod +x {shown}`, and let the application's user reach it");
        (error.to_string(), Some(hint))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn start(config: serde_json::Value) -> Start {
        Start {
            name: "test".to_owned(),
            kind: "external".to_owned(),
            config,
            ..serde_json::from_str(r#"{"name":"","kind":"","config":null,"threads":1,"workers":1}"#)
                .unwrap()
        }
    }

    #[test]
    fn path_and_arguments_are_taken_as_they_are() {
        let program = find(&start(
            serde_json::json!({"executable": "/bin/sh", "arguments": ["-c", "exit 3", ""]}),
        ))
        .unwrap();
        assert_eq!(program.path, Path::new("/bin/sh"));
        assert_eq!(program.arguments, ["-c", "exit 3", ""]);
    }

    #[test]
    fn what_is_no_program_is_told_with_its_cure() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("app");
        let failure = |path: &Path| {
            let error = find(&start(serde_json::json!({"executable": path}))).unwrap_err();
            assert!(error.step.contains(path.to_str().unwrap()), "{error}");
            (error.message, error.hint.unwrap_or_default())
        };
        let (message, hint) = failure(&file);
        assert!(message.contains("No such file"), "{message}");
        assert!(hint.contains("working_directory"), "{hint}");
        assert!(failure(folder.path()).0.contains("is a folder"));
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        let (message, hint) = failure(&file);
        assert!(message.contains("Permission denied"), "{message}");
        assert!(hint.contains("chmod +x"), "{hint}");
    }
}
