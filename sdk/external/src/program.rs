//! Finding the program, before anything is forked: most mistakes show here, with their cure.

use std::path::{Path, PathBuf};

use tutti_options::external::External;
use tutti_relay::executable;
use tutti_worker::{Program, StartError};

/// The configured program. The working directory has been entered, so that a relative path is relative to it.
pub(crate) fn find(options: &External) -> Result<Program, StartError> {
    let executable = options.executable.display();
    let step = format!("looking for the executable `{executable}`");
    let path = absolute(&options.executable).map_err(|error| StartError::new(&step, error))?;
    let absent = format!(
        "there is no `{}`; a relative `executable` starts at `working_directory`, PATH is not searched",
        path.display()
    );
    executable::check(&path, &step, absent).map_err(|error| error.member("executable"))?;
    Ok(Program {
        path,
        arguments: options.arguments.iter().map(Into::into).collect(),
    })
}

/// As the programs themselves may change their working directory and execute themselves anew, they get an absolute path.
fn absolute(executable: &Path) -> std::io::Result<PathBuf> {
    std::path::absolute(executable)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn start(config: serde_json::Value) -> External {
        tutti_options::Options::from_json(&config).unwrap()
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
    fn what_is_no_program_is_reported_with_its_cure() {
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
