//! The program's file, looked at before anything is started: most mistakes show here, with their cure.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use tutti_worker::StartError;

/// Succeeds if the file can be executed. `step` is what is being done, `absent` the cure where there is no such file.
pub fn check(path: &Path, step: &str, absent: String) -> Result<(), StartError> {
    let shown = path.display();
    let failed = |message: String, hint: Option<String>| {
        let error = StartError::new(step, message);
        Err(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        })
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            let hint = match error.kind() {
                std::io::ErrorKind::NotFound => absent,
                _ => format!("the application's user must be allowed to reach `{shown}`"),
            };
            return failed(error.to_string(), Some(hint));
        }
    };
    if metadata.is_dir() {
        return failed(format!("`{shown}` is a folder"), None);
    }
    match accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) => Ok(()),
        Err(error) => {
            let hint = format!("`chmod +x {shown}`, and let the application's user reach it");
            failed(error.to_string(), Some(hint))
        }
    }
}
