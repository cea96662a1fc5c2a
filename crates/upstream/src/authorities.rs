//! Certificates in files that are trusted for clients and servers.
//!
//! Must never: block on something that is not a regular file, read without a limit, or show the content of a file that contains no
//! certificates.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};
use rustls::pki_types::CertificateDer;
use tutti_tls::Bundle;

/// The longest permitted file: all authorities that a system trusts are a quarter of a megabyte.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Reads a file, or returns why it cannot be read.
pub fn read(path: &Path) -> Result<Bundle, String> {
    let shown = path.display();
    let unreadable =
        |error: std::io::Error| format!("the router's user cannot read `{shown}`: {error}");
    // `NONBLOCK`, so that opening a FIFO or device does not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|errno| unreadable(errno.into()))?);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(format!(
            "`{shown}` is not a regular file of at most {MAX_BYTES} bytes"
        ));
    }
    let mut pem = Vec::new();
    let read = file.take(MAX_BYTES).read_to_end(&mut pem);
    read.map_err(unreadable)?;
    Bundle::parse(&pem, SystemTime::now()).map_err(|error| format!("`{shown}`: {error}"))
}

/// The authorities that the system trusts, read at the first use.
#[derive(Default)]
pub struct System(Option<Vec<CertificateDer<'static>>>);

impl System {
    /// Returns the authorities.
    ///
    /// # Errors
    /// The system trusts no authority.
    pub fn read(&mut self) -> Result<Vec<CertificateDer<'static>>, String> {
        if let Some(known) = &self.0 {
            return Ok(known.clone());
        }
        let found = tutti_dialer::system_roots()?;
        Ok(self.0.insert(found).clone())
    }
}
