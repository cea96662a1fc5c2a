//! Node.js: which `node` runs which script, and how it comes to listen at the worker's socket.
//!
//! A worker executes `node` with a module that is loaded before the script (`preload.js`). Used by the host for `node`, and by that for
//! `external`, whose configuration for Unit names `node` as its executable. Must never happen: a script does not start, and no
//! message says why.

mod preload;
mod runtime;

use std::io;
use std::path::{Path, PathBuf};

pub use preload::preload;
pub use runtime::{dependencies, runs_node};
use tutti_options::Options as _;
use tutti_options::node::Node;
use tutti_relay::{Listen, Plan, RelayOptions};
use tutti_worker::{Common, Program, Start, StartError};

/// Endings that Node.js adds to the name of a script (`require()` does).
const ENDINGS: [&str; 3] = [".js", ".json", ".node"];

/// The plan of an application of type `node`. Its environment is set and its working directory entered, so that a relative path
/// is relative to that.
///
/// # Errors
/// Tells what of `runtime` and `script` cannot be used.
pub fn plan(start: &Start, common: &Common) -> Result<Plan, StartError> {
    let options = Node::from_json(&start.config)?;
    let path = runtime::find(&options.runtime)?;
    let script = script(&options.script)?;
    let arguments = std::iter::once(script.into_os_string())
        .chain(options.arguments.into_iter().map(Into::into))
        .collect();
    let options = RelayOptions {
        listen: Listen::Unix,
        probe: None,
        start_limit: common.limits.start_timeout,
        preload: Some(preload("runtime", "script")),
    };
    Ok(Plan::new(Program { path, arguments }, options))
}

/// The script's absolute path: never taken for an option of `node`.
fn script(given: &Path) -> Result<PathBuf, StartError> {
    let step = format!("looking for the script `{}`", given.display());
    let failed = |error: io::Error| StartError::new(step.as_str(), error).member("script");
    let path = std::path::absolute(given).map_err(failed)?;
    let is_there = |ending: &str| {
        let mut name = path.clone().into_os_string();
        name.push(ending);
        Path::new(&name).is_file()
    };
    // A folder is a package, whose package.json names the script.
    match std::fs::metadata(&path) {
        Ok(_) => Ok(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if ENDINGS.iter().copied().any(is_there) {
                return Ok(path);
            }
            let hint = format!(
                "there is no `{}`; a relative `script` starts at `working_directory`",
                path.display()
            );
            Err(failed(error).hint(hint))
        }
        Err(error) => {
            let hint = format!(
                "the application's user must be allowed to reach `{}`",
                path.display()
            );
            Err(failed(error).hint(hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(config: &serde_json::Value) -> StartError {
        let start = Start {
            config: config.clone(),
            ..serde_json::from_str(
                r#"{"name":"test","kind":"node","config":null,"threads":1,"workers":1}"#,
            )
            .unwrap()
        };
        plan(&start, &Common::default()).map(drop).unwrap_err()
    }

    #[test]
    fn a_script_may_be_named_as_node_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.js"), "").unwrap();
        for name in ["server.js", "server", ""] {
            let path = folder.path().join(name);
            assert_eq!(script(&path).unwrap(), std::path::absolute(&path).unwrap());
        }
    }

    #[test]
    fn what_is_missing_is_reported_with_its_cure() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("app.js");
        let error = failure(&serde_json::json!({"script": script, "runtime": "/bin/sh"}));
        assert_eq!(error.member.as_deref(), Some("script"));
        assert!(error.hint.unwrap().contains("working_directory"));
        std::fs::write(&script, "").unwrap();
        let error = failure(&serde_json::json!({"script": script, "runtime": "/no/node"}));
        assert_eq!(error.member.as_deref(), Some("runtime"));
        assert!(error.message.contains("No such file"), "{error}");
        let error = failure(&serde_json::json!({"script": script, "runtime": "no-such-node"}));
        assert_eq!(error.member.as_deref(), Some("runtime"));
        assert!(error.message.contains("`no-such-node`"), "{error}");
        assert!(error.hint.unwrap().contains("\"runtime\": \"/"));
    }
}
