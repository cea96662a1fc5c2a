//! The application's own output files (`stdout`, `stderr`).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::StartError;

/// Opens the configured files, to append, and puts them in the place of the descriptors 1 and 2.
pub(crate) fn redirect(stdout: Option<&str>, stderr: Option<&str>) -> Result<(), StartError> {
    if let Some(path) = stdout {
        let file = open("stdout", path)?;
        rustix::stdio::dup2_stdout(&file)
            .map_err(|error| StartError::new("redirecting stdout", error))?;
    }
    if let Some(path) = stderr {
        let file = open("stderr", path)?;
        rustix::stdio::dup2_stderr(&file)
            .map_err(|error| StartError::new("redirecting stderr", error))?;
    }
    Ok(())
}

fn open(option: &str, path: &str) -> Result<File, StartError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)
        .map_err(|error| {
            StartError::new(format!("opening `{option}` file `{path}`"), error)
                .hint("the folder must exist and be writable by the application's user")
                .member(option)
        })
}
