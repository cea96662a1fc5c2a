//! Certificates of the file system that vouch for clients and servers.
//!
//! Must never: wait for what is no file, or read without a limit; and never show what is in a file that holds no certificates.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};
use rustls::pki_types::CertificateDer;
use tutti_tls::Bundle;

/// Longest file: all authorities that a system trusts are a quarter of a megabyte.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Reads a file, or says why not.
pub fn read(path: &Path) -> Result<Bundle, String> {
    let shown = path.display();
    let unreadable =
        |error: std::io::Error| format!("the router's user cannot read `{shown}`: {error}");
    // Whatever is no file does not make the server wait.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|errno| unreadable(errno.into()))?);
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(format!(
            "`{shown}` is not a file of at most {MAX_BYTES} bytes"
        ));
    }
    let mut pem = Vec::new();
    let read = file.take(MAX_BYTES).read_to_end(&mut pem);
    read.map_err(unreadable)?;
    Bundle::parse(&pem, SystemTime::now()).map_err(|error| format!("`{shown}`: {error}"))
}

/// Those that the system trusts, read once, when they are first wanted.
#[derive(Default)]
pub struct System(Option<Vec<CertificateDer<'static>>>);

impl System {
    /// Reads them, or says why not.
    ///
    /// # Errors
    /// The system trusts nobody.
    pub fn read(&mut self) -> Result<Vec<CertificateDer<'static>>, String> {
        if let Some(known) = &self.0 {
            return Ok(known.clone());
        }
        let found = tutti_dialer::system_roots()?;
        Ok(self.0.insert(found).clone())
    }
}
