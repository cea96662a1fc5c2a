//! The application's own output files (`stdout`, `stderr`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens the configured files for appending, and replaces the descriptors 1 and 2 by them. A file that cannot be opened does not stop the
/// application: `warn` gets the reason, and the descriptor stays, which is the server's log until a file is opened.
pub(crate) fn redirect(stdout: Option<&Path>, stderr: Option<&Path>, mut warn: impl FnMut(String)) {
    let mut replace = |option: &str, path: Option<&Path>, replace: fn(&File) -> io::Result<()>| {
        let Some(path) = path else { return };
        if let Err(error) = open(path).and_then(|file| replace(&file)) {
            warn(format!(
                "cannot open the `{option}` file `{}`: {error}; the output stays where it was, at first in the server's log; \
                 hint: the folder must exist and be writable by the application's user",
                path.display()
            ));
        }
    };
    // Standard error last: a warning about the other file must still reach the log.
    replace("stdout", stdout, |file| {
        Ok(rustix::stdio::dup2_stdout(file)?)
    });
    replace("stderr", stderr, |file| {
        Ok(rustix::stdio::dup2_stderr(file)?)
    });
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)
}
