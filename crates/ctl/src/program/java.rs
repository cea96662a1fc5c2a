//! A Java web application: a .war file, or a folder that one is unpacked or built in.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::found::{Program, refusal};
use crate::report::Failure;

/// Folders in which one is built: Maven's and Gradle's.
const BUILT: [&str; 3] = [".", "target", "build/libs"];

/// Requests at once: its process has this many threads.
const THREADS: u32 = 10;

/// The application in a .war file; `None`: it is no such file.
pub(crate) fn in_file(path: &Path) -> Option<Program> {
    let is_war = path.extension().is_some_and(|ending| ending == "war");
    (is_war && path.is_file()).then(|| program(path))
}

/// The application in a folder; `None`: there is none.
pub(super) fn find(folder: &Path) -> Result<Option<Program>, Failure> {
    if folder.join("WEB-INF").is_dir() {
        return Ok(Some(program(folder)));
    }
    for built in BUILT {
        let place = match built {
            "." => folder.to_path_buf(),
            built => folder.join(built),
        };
        let archives = archives(&place);
        match archives.as_slice() {
            [] => {}
            [only] => return Ok(Some(program(only))),
            [first, ..] => {
                let options = json!({"type": "java", "webapp": first, "threads": THREADS});
                let what = "a folder with several Java applications";
                let how = "name the one that is meant";
                return Err(refusal(folder, "*.war", what, how, options));
            }
        }
    }
    Ok(None)
}

fn archives(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| in_file(path).is_some());
    paths.sort();
    paths
}

fn program(webapp: &Path) -> Program {
    Program {
        what: format!("Java application {}", webapp.display()),
        options: json!({"type": "java", "webapp": webapp, "threads": THREADS}),
        is_concurrent: true,
    }
}
