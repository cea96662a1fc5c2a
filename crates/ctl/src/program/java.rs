//! A Java web application: a .war file, or a folder in which one is unpacked or built.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::found_application::{Program, refusal, shell, word};
use crate::report::CommandError;

/// Build folders of Maven and Gradle.
const BUILT: [&str; 3] = [".", "target", "build/libs"];

/// Concurrent requests: its process has this many threads.
const THREADS: u32 = 10;

/// Endings of archives that are not programs.
const NO_PROGRAMS: [&str; 4] = ["-sources.jar", "-javadoc.jar", "-plain.jar", "-tests.jar"];

/// Returns the application in a .war file; `None` if it is not one.
fn in_war(path: &Path) -> Option<Program> {
    let is_war = path.extension().is_some_and(|ending| ending == "war");
    (is_war && path.is_file()).then(|| program(path))
}

/// Returns the application in a .war or .jar file; `None` if it is neither.
pub(crate) fn in_file(path: &Path) -> Option<Program> {
    in_war(path).or_else(|| in_jar(path))
}

/// Returns a program with its own server: Spring Boot, Quarkus, Micronaut and Helidon accept their port like this.
fn in_jar(path: &Path) -> Option<Program> {
    let is_jar = path.extension().is_some_and(|ending| ending == "jar");
    if !(is_jar && path.is_file()) {
        return None;
    }
    let command = format!(
        "exec java -Dserver.port=$PORT -Dquarkus.http.port=$PORT -Dmicronaut.server.port=$PORT -jar {}",
        word(path)
    );
    Some(Program {
        what: format!("Java program {}", path.display()),
        options: shell(path.parent().unwrap_or(path), &command),
        is_concurrent: true,
        ..Program::default()
    })
}

/// Returns the only program of a folder that is a .jar file.
fn only_jar(folder: &Path) -> Option<Program> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut jars: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    jars.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let is_program = name.is_some_and(|name| {
            !name.starts_with("original-") && !NO_PROGRAMS.iter().any(|end| name.ends_with(end))
        });
        is_program && path.extension().is_some_and(|ending| ending == "jar")
    });
    match jars.as_slice() {
        [only] => in_jar(only),
        _ => None,
    }
}

/// Returns the application in a folder; `None` if there is none.
pub(super) fn find(folder: &Path) -> Result<Option<Program>, CommandError> {
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
                let how = "name one of them";
                return Err(refusal(folder, "*.war", what, how, options));
            }
        }
    }
    // A folder of web pages may offer a .jar for download.
    let mut places = BUILT.iter().map(|built| folder.join(built));
    let is_site = folder.join("index.html").is_file();
    Ok(places
        .find_map(|place| only_jar(&place))
        .filter(|_| !is_site))
}

fn archives(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| in_war(path).is_some());
    paths.sort();
    paths
}

fn program(webapp: &Path) -> Program {
    Program {
        what: format!("Java application {}", webapp.display()),
        options: json!({"type": "java", "webapp": webapp, "threads": THREADS}),
        is_concurrent: true,
        ..Program::default()
    }
}
