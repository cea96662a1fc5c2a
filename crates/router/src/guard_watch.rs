//! Looks again and again at the files that say who is let in.
//!
//! Must never: let anybody in by a file that has gone wrong, or forget who may because one is being written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_log::Level;
use tutti_sys::mark::Mark;

use super::guard_files::content;
use super::service::RouterService;

/// How often they are looked at. Who is to be kept out waits no longer.
const PAUSE: Duration = Duration::from_secs(3);

/// Each file with its mark when it was read, or why it was not.
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
        Ok(file) => match file.metadata().map(|metadata| Mark::of(&metadata)) {
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

fn tell(service: &RouterService, path: &Path, why: &str) {
    let text = format!(
        "`{}` cannot be used: {why}; who is let in stays as it was",
        path.display()
    );
    service.0.log.line(Level::Error, &text);
}
