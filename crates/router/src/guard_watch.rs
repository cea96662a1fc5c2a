//! Checks the files for access control periodically.
//!
//! Must never: admit a client because of an invalid file, or forget users because a file is being written.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_log::Level;
use tutti_sys::exposed;
use tutti_sys::file_mark::FileMark;

use super::guard_files::content;
use super::service::RouterService;

/// The interval of the checks, and so the longest delay until a removed user is refused.
const PAUSE: Duration = Duration::from_secs(3);

/// The files, as they were when they were read last.
#[derive(Default)]
struct Seen {
    /// Each with its mark, or why it was not read.
    files: HashMap<PathBuf, Result<FileMark, String>>,
    /// The changes of the configuration until then.
    changes: u64,
}

/// The reason to read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// It has changed.
    File,
    /// It has not, but a change of the configuration may have put former content in place, which it had read before the file changed.
    Configuration,
}

impl Seen {
    /// Keeps the files that are still wanted. Returns true if all must be read because of a change of the configuration.
    fn turn(&mut self, wanted: &[PathBuf], changes: u64) -> bool {
        self.files.retain(|path, _| wanted.contains(path));
        std::mem::replace(&mut self.changes, changes) != changes
    }

    /// Returns why a file with this mark must be read.
    fn cause(&self, path: &Path, mark: FileMark, is_changed: bool) -> Option<Cause> {
        match self.files.get(path) {
            Some(Ok(before)) if *before == mark => is_changed.then_some(Cause::Configuration),
            _ => Some(Cause::File),
        }
    }
}

/// Checks the files of the configuration in force, as long as the router runs.
pub(super) async fn watch(service: RouterService) {
    let mut seen = Seen::default();
    loop {
        tokio::time::sleep(PAUSE).await;
        // Before anything is read: a change that comes meanwhile is noticed the next time.
        let changes = service.0.guard_changes();
        let wanted = service.0.guard_files();
        let is_changed = seen.turn(&wanted, changes);
        for path in wanted {
            look(&service, path, &mut seen, is_changed).await;
        }
    }
}

/// True if a file contains secrets: password hashes or a key of `HS…`, not only public keys in PEM or JSON.
fn is_secret(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    match text.trim_start().starts_with('{') {
        // Symmetric and private keys of a set (RFC 7518 §6).
        true => text.contains("\"k\"") || text.contains("\"d\""),
        false => !text.contains("PUBLIC KEY-----") && !text.contains("CERTIFICATE-----"),
    }
}

async fn look(service: &RouterService, path: PathBuf, seen: &mut Seen, is_changed: bool) {
    let outcome = match service.0.openings.guard_file(&path).await {
        Err(why) => Err(why),
        Ok(file) => match file.metadata().map(|found| (FileMark::of(&found), found)) {
            Err(error) => Err(error.to_string()),
            Ok((mark, metadata)) => match seen.cause(&path, mark, is_changed) {
                None => return,
                Some(cause) => read(service, &path, (&file, &metadata), cause).map(|()| mark),
            },
        },
    };
    if let Err(why) = &outcome
        && seen.files.get(&path) != Some(&outcome)
    {
        log_fault(service, &path, why);
    }
    seen.files.insert(path, outcome);
}

/// Replaces the content of a file in the configuration in force. Faults and warnings are logged once.
fn read(
    service: &RouterService,
    path: &Path,
    (file, metadata): (&File, &Metadata),
    cause: Cause,
) -> Result<(), String> {
    let content = content(file)?;
    let taken = service.0.replace_guard_file(path, &content);
    if cause == Cause::Configuration {
        return Ok(());
    }
    if let (true, Some(warning)) = (is_secret(&content), exposed::warning(path, metadata)) {
        service.0.log.line(Level::Warn, &warning);
    }
    let mut weak = Vec::new();
    for taken in taken {
        match taken {
            Ok(lines) => weak = lines,
            Err(why) => log_fault(service, path, &why),
        }
    }
    if let Some(warning) = weak_hashes(path, &weak) {
        service.0.log.line(Level::Warn, &warning);
    }
    Ok(())
}

/// Returns the warning about these lines of a file of passwords.
fn weak_hashes(path: &Path, lines: &[usize]) -> Option<String> {
    let (first, others) = lines.split_first()?;
    let lines = match others.len() {
        0 => format!("the hash in line {first} is"),
        1 => format!("the hashes in line {first} and another one are"),
        count => format!("the hashes in line {first} and {count} others are"),
    };
    let path = path.display();
    Some(format!(
        "`{path}`: {lines} weak (MD5, SHA-1 or traditional crypt): a thief of the file finds the passwords in minutes; replace each with `htpasswd -B {path} NAME`"
    ))
}

fn log_fault(service: &RouterService, path: &Path, why: &str) {
    let text = format!(
        "`{}` cannot be used: {why}; its last valid content stays in force",
        path.display()
    );
    service.0.log.line(Level::Error, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_after_it_or_the_configuration_has_changed() {
        // Two marks, of whatever files.
        let mark = |path: &str| FileMark::of(&std::fs::metadata(path).unwrap());
        let (first, second) = (mark("/"), mark("/proc"));
        let path = PathBuf::from("/etc/tutti/users");
        let mut seen = Seen::default();
        let wanted = [path.clone()];
        assert!(!seen.turn(&wanted, 0));
        assert_eq!(seen.cause(&path, first, false), Some(Cause::File));
        seen.files.insert(path.clone(), Ok(first));
        assert_eq!(seen.cause(&path, first, false), None);
        assert_eq!(seen.cause(&path, second, false), Some(Cause::File));
        // A change that has read the first content comes into force after the second one has been seen.
        seen.files.insert(path.clone(), Ok(second));
        let is_changed = seen.turn(&wanted, 1);
        let cause = seen.cause(&path, second, is_changed);
        assert_eq!(cause, Some(Cause::Configuration));
        assert!(!seen.turn(&wanted, 1), "once");
    }
}
