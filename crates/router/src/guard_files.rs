//! The files that say who is let in: read through main, and again when they have changed.
//!
//! Must never: let anybody in by a file that has gone wrong, or forget who may because one is being written.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use tutti_log::Level;

use super::service::RouterService;

/// How often they are looked at. Who is to be kept out waits no longer.
const PAUSE: Duration = Duration::from_secs(3);

/// The largest file: a hundred thousand users.
const MOST_BYTES: u64 = 16 << 20;

/// Content of files, or why they cannot be read.
pub(super) type GuardFiles = HashMap<PathBuf, Result<Vec<u8>, String>>;

/// The state of a file that changes with its content.
type Mark = (u64, u64, u64, i64, i64, i64, i64);

/// Reads all of a file.
pub(super) fn content(mut file: &File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.by_ref().take(MOST_BYTES + 1).read_to_end(&mut bytes);
    match read {
        Ok(_) if bytes.len() as u64 > MOST_BYTES => Err("is larger than 16 MB".to_owned()),
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

fn mark(metadata: &Metadata) -> Mark {
    (
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    )
}

/// What is known of each file: its mark when it was read, or why it was not.
type Seen = HashMap<PathBuf, Result<Mark, String>>;

/// Looks at the files of the configuration in force, as long as the router runs.
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

async fn look(service: &RouterService, path: PathBuf, seen: &mut Seen) {
    let before = seen.get(&path);
    let outcome = match service.0.openings.guard_file(&path).await {
        Err(why) => Err(why),
        Ok(file) => match file.metadata().map(|metadata| mark(&metadata)) {
            Err(error) => Err(error.to_string()),
            Ok(mark) if before == Some(&Ok(mark)) => return,
            Ok(mark) => match content(&file) {
                Err(why) => Err(why),
                Ok(content) => {
                    // The same mistake is told once.
                    for why in service.0.replace_guard_file(&path, &content) {
                        tell(service, &path, &why);
                    }
                    Ok(mark)
                }
            },
        },
    };
    if let Err(why) = &outcome
        && before != Some(&outcome)
    {
        tell(service, &path, why);
    }
    seen.insert(path, outcome);
}

fn tell(service: &RouterService, path: &std::path::Path, why: &str) {
    let text = format!(
        "`{}` cannot be used: {why}; who is let in stays as it was",
        path.display()
    );
    service.0.log.line(Level::Error, &text);
}
