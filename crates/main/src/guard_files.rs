//! Opening the files that say who is let in, which only their owner and root may read.
//!
//! Called for a router whose grants name the file. It reads what is in it: nothing of that is looked at here.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tutti_sys::error::context;

/// Opens one for reading.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    let named = |error| context(format!("reading `{}`", path.display()), error);
    // A FIFO that nobody writes to would hold main.
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(named)?;
    if !opened.metadata().map_err(named)?.is_file() {
        let message = format!("`{}` is no file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(opened.into())
}
