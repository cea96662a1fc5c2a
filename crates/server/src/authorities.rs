//! Files of certificates that vouch for clients.
//!
//! Must never: wait for what is no file, or read without a limit; and never show what is in a file that holds no certificates.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};
use tutti_tls::Bundle;

/// Longest file: all authorities that a system trusts are a quarter of a megabyte.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Reads a file, or says why not.
pub(crate) fn read(path: &Path) -> Result<Bundle, String> {
    let shown = path.display();
    let unreadable =
        |error: std::io::Error| format!("the router's user cannot read `{shown}`: {error}");
    // Whatever is no file does not make the server wait.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|errno| unreadable(errno.into()))?);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(format!("`{shown}` is no file of at most {MAX_BYTES} bytes"));
    }
    let mut pem = Vec::new();
    let read = file.take(MAX_BYTES).read_to_end(&mut pem);
    read.map_err(unreadable)?;
    Bundle::parse(&pem, SystemTime::now()).map_err(|error| format!("`{shown}`: {error}"))
}
