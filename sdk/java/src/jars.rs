//! Our own jars: the class path of the virtual machine, and the archive of its classes.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use tutti_options::java::Servlet;
use tutti_worker::{StartError, module};

use crate::home::Home;

/// The folder of the jars, beside the host, without links: an archive of classes is for the class path as it was named.
pub(crate) fn folder() -> PathBuf {
    let beside = named_folder();
    beside.canonicalize().unwrap_or(beside)
}

/// The same as the host's place names it, which another root has it under.
pub(crate) fn named_folder() -> PathBuf {
    let module = module();
    module.parent().unwrap_or(&module).join("java")
}

/// The folder of what a servlet generation needs, in that of the jars.
fn generation(servlet: Servlet) -> &'static str {
    match servlet {
        Servlet::Javax4 => "ee8",
        Servlet::Jakarta5 => "ee9",
        Servlet::Jakarta6 => "ee10",
        Servlet::Jakarta61 => "ee11",
    }
}

/// The jars for a servlet generation, ours first, always in one order: an archive of classes is for one class path.
pub(crate) fn class_path(servlet: Servlet) -> Result<Vec<PathBuf>, StartError> {
    let folder = folder();
    let mut jars = Vec::new();
    for part in ["core", generation(servlet)] {
        let part = folder.join(part);
        let found = std::fs::read_dir(&part).map_err(|error| {
            let message = format!("`{}`: {error}", part.display());
            StartError::new("looking for the server's own .jar files", message).hint(
                "they come with the server: `make build` with a JDK and Maven installed (default-jdk-headless, maven) makes them",
            )
        })?;
        let mut paths: Vec<_> = found.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "jar"));
        paths.sort();
        jars.extend(paths);
    }
    Ok(jars)
}

/// The archive of this Java's classes and ours, if one was made (`packaging/java-archives`) for the jars where they are now. A virtual machine that
/// it was not made by passes it over.
pub(crate) fn archive(servlet: Servlet, home: &Home) -> Option<PathBuf> {
    let folder = folder();
    let made_for = std::fs::read(folder.join("archives")).ok()?;
    if made_for.trim_ascii_end() != folder.as_os_str().as_bytes() {
        return None;
    }
    let name = format!("{}-{}.jsa", generation(servlet), home.version);
    Some(folder.join(name)).filter(|path| path.is_file())
}
