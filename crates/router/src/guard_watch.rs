//! Checks the files for access control periodically.
//!
//! Must never: admit a client because of an invalid file, or forget users because a file is being written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_log::Level;
use tutti_sys::exposed;
use tutti_sys::file_mark::FileMark;

use super::guard_files::content;
use super::service::RouterService;

/// The interval of the checks, and so the longest delay until a removed user is refused.
const PAUSE: Duration = Duration::from_secs(3);

/// Each file with its mark when it was read, or why it was not.
type Seen = HashMap<PathBuf, Result<FileMark, String>>;

/// Checks the files of the configuration in force, as long as the router runs.
pub(super) async fn watch(service: RouterService) {
    let mut seen = Seen::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        let wanted = service.0.guard_files();
        seen.retain(|path, _| wanted.contains(path));
        for path in wanted {
            look(&service, path, &mut seen).await;
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

async fn look(service: &RouterService, path: PathBuf, seen: &mut Seen) {
    let before = seen.get(&path);
    let outcome = match service.0.openings.guard_file(&path).await {
        Err(why) => Err(why),
        Ok(file) => match file.metadata().map(|found| (FileMark::of(&found), found)) {
            Err(error) => Err(error.to_string()),
            Ok((mark, _)) if before == Some(&Ok(mark)) => return,
            Ok((mark, metadata)) => match content(&file) {
                Err(why) => Err(why),
                Ok(content) => {
                    if let (true, Some(warning)) =
                        (is_secret(&content), exposed::warning(&path, &metadata))
                    {
                        service.0.log.line(Level::Warn, &warning);
                    }
                    // The same fault is logged once.
                    let mut weak = Vec::new();
                    for taken in service.0.replace_guard_file(&path, &content) {
                        match taken {
                            Ok(lines) => weak = lines,
                            Err(why) => log_fault(service, &path, &why),
                        }
                    }
                    if let Some(warning) = weak_hashes(&path, &weak) {
                        service.0.log.line(Level::Warn, &warning);
                    }
                    Ok(mark)
                }
            },
        },
    };
    if let Err(why) = &outcome
        && before != Some(&outcome)
    {
        log_fault(service, &path, why);
    }
    seen.insert(path, outcome);
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
