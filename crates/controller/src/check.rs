//! The check of a configuration in the trial of an upgrade: by a process without rights, which reports its findings and
//! exits.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use tutti_config::Diagnostic;
use tutti_log::Log;
use tutti_protocol::{CheckDocument, LONGEST, read_large};
use tutti_unprivileged::{context, start};

/// Checks the document that main passed in a memory file, and writes faults to standard error.
pub fn check() -> ExitCode {
    match start::enter().and_then(checked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn checked(document: OwnedFd) -> io::Result<()> {
    // The running controller and router report the rights that the kernel cannot drop.
    let nowhere = File::options().write(true).open("/dev/null")?;
    start::give_up_rights("check", None, &Log::to(nowhere.into()));
    let document: CheckDocument = serde_json::from_slice(&read_large(document, LONGEST)?)?;
    tutti_config::parse(document.configuration.as_bytes())
        .and_then(|parsed| tutti_config::validate(&parsed, &context(&document.modules)))
        .map(drop)
        .map_err(|faults| {
            let details: Vec<String> = faults.0.iter().map(Diagnostic::detail).collect();
            io::Error::new(io::ErrorKind::InvalidData, details.join("; "))
        })
}
