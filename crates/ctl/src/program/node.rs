//! Applications of Node.js, started according to `package.json`.
//!
//! A command that runs a script with `node` is run as that script, whichever port it listens on. Any other is run by a
//! shell, and gets its port in the environment.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::found_application::{PUBLIC_FOLDERS, Program, external, refusal};
use crate::report::CommandError;

/// A simple command: it can run without a shell.
struct Command<'a> {
    /// `NAME=VALUE` before the program.
    environment: Map<String, Value>,
    program: &'a str,
    arguments: Vec<&'a str>,
}

/// Returns the application of a folder with a `package.json`: its `start` script, or else `server.js`, like npm, or
/// else its `main`. `None` if a subfolder contains built pages.
pub(super) fn find(folder: &Path) -> Result<Option<Program>, CommandError> {
    let text = fs::read(folder.join("package.json")).unwrap_or_default();
    let package: Value = serde_json::from_slice(&text).unwrap_or_default();
    let member = |pointer: &str| package.pointer(pointer).and_then(Value::as_str);
    let main = member("/main").filter(|main| folder.join(main).is_file());
    let script = match (member("/scripts/start"), main) {
        (Some(start), _) => start.trim().to_owned(),
        (None, _) if folder.join("server.js").is_file() => "node server.js".to_owned(),
        (None, main) => {
            let has_page = |name: &&str| folder.join(name).join("index.html").is_file();
            if PUBLIC_FOLDERS.iter().any(has_page) {
                return Ok(None);
            }
            match main {
                Some(main) => format!("node {main}"),
                None => return Err(unknown(folder)),
            }
        }
    };
    let own = folder.join("node_modules/.bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", own.display());
    let program = script.split_whitespace().next().unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if is_plain(&script) && !is_there && !program.contains('/') {
        return Err(missing(folder, &script, program));
    }
    let options = single(&script)
        .and_then(|command| as_node(folder, &own, &path, command))
        .unwrap_or_else(|| as_shell(folder, &path, &script));
    Ok(Some(Program {
        what: format!("Node.js application (`{script}`)"),
        options,
        is_concurrent: true,
        ..Program::default()
    }))
}

fn unknown(folder: &Path) -> CommandError {
    let how = "name its script";
    let options = json!({"type": "node", "working_directory": folder, "script": "server.js"});
    let what = "a JavaScript project without a `start` script";
    refusal(folder, "package.json", what, how, options)
}

fn missing(folder: &Path, script: &str, program: &str) -> CommandError {
    CommandError::new(format!(
        "`{}` is started by `{script}` (package.json), and there is no `{program}` in PATH",
        folder.display()
    ))
    .hint(format!(
        "install `{program}`, or run `npm install` in the folder first"
    ))
}

/// True if the script is a single command, which may contain quotes.
fn is_plain(script: &str) -> bool {
    !script.contains(['&', '|', ';', '<', '>', '$', '`', '(', '='])
}

/// Returns the command, if it is a single one that means the same without a shell.
fn single(script: &str) -> Option<Command<'_>> {
    if script.contains([
        '&', '|', ';', '<', '>', '$', '`', '(', ')', '\'', '"', '\\', '*', '?', '~', '#', '\n',
    ]) {
        return None;
    }
    let mut words = script.split_whitespace().peekable();
    let mut environment = Map::new();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        environment.insert(name.to_owned(), json!(value));
        words.next();
    }
    Some(Command {
        environment,
        program: words.next()?,
        arguments: words.collect(),
    })
}

/// Returns an application of type `node`: `node SCRIPT`, or a command installed by a package of the folder.
fn as_node(folder: &Path, own: &Path, path: &str, command: Command<'_>) -> Option<Value> {
    let (script, arguments) = match command.arguments.split_first() {
        // Options of `node` itself come before the script.
        Some((script, rest)) if command.program == "node" && !script.starts_with('-') => {
            (PathBuf::from(script), rest.to_vec())
        }
        _ => {
            let installed = own.join(command.program).canonicalize().ok()?;
            if !is_for_node(&installed) {
                return None;
            }
            (installed, command.arguments)
        }
    };
    let mut environment = command.environment;
    environment.insert("PATH".to_owned(), json!(path));
    Some(json!({
        "type": "node",
        "working_directory": folder,
        "script": script,
        "arguments": arguments,
        "environment": environment
    }))
}

/// True if the first line names `node`.
fn is_for_node(path: &Path) -> bool {
    let mut start = [0; 64];
    let count = fs::File::open(path).and_then(|mut file| file.read(&mut start));
    let start = start.get(..count.unwrap_or(0)).unwrap_or_default();
    let line = start
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    line.starts_with(b"#!") && line.trim_ascii_end().ends_with(b"node")
}

/// Returns a program that gets its port.
fn as_shell(folder: &Path, path: &str, script: &str) -> Value {
    // The shell replaces itself with a single command, so that stop signals reach the command.
    let script = match is_plain(script) {
        true => format!("exec {script}"),
        false => script.to_owned(),
    };
    let mut options = external(folder, &["/bin/sh", "-c", &script]);
    options["environment"] = json!({"PATH": path});
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(package: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files.iter().chain(&[("package.json", package)]) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn options(folder: &Path) -> Value {
        let mut options = find(folder).unwrap().unwrap().options;
        options["environment"]
            .as_object_mut()
            .unwrap()
            .remove("PATH");
        options.as_object_mut().unwrap().remove("working_directory");
        options
    }

    #[test]
    fn a_script_for_node_is_run_as_such() {
        for (package, expected) in [
            (
                r#"{"scripts": {"start": "node server.js --port 80"}}"#,
                json!({"type": "node", "script": "server.js", "arguments": ["--port", "80"], "environment": {}}),
            ),
            (
                r#"{"scripts": {"start": " NODE_ENV=production node bin/www "}}"#,
                json!({"type": "node", "script": "bin/www", "arguments": [], "environment": {"NODE_ENV": "production"}}),
            ),
            (
                r#"{"main": "lib/app.js"}"#,
                json!({"type": "node", "script": "lib/app.js", "arguments": [], "environment": {}}),
            ),
        ] {
            let folder = folder(package, &[("lib/app.js", "")]);
            assert_eq!(options(folder.path()), expected, "{package}");
        }
        let folder = folder(
            r#"{"main": "lib/app.js"}"#,
            &[("lib/app.js", ""), ("server.js", "")],
        );
        assert_eq!(options(folder.path())["script"], "server.js");
    }

    #[test]
    fn a_command_of_a_package_is_its_script() {
        let text = "#!/usr/bin/env node\n";
        let package = r#"{"scripts": {"start": "next start -p 80"}}"#;
        let folder = folder(
            package,
            &[
                ("node_modules/next/dist/bin/next", text),
                ("node_modules/.bin/other", ""),
            ],
        );
        let script = folder.path().join("node_modules/next/dist/bin/next");
        std::os::unix::fs::symlink(&script, folder.path().join("node_modules/.bin/next")).unwrap();
        let script = script.canonicalize().unwrap();
        assert_eq!(
            options(folder.path()),
            json!({"type": "node", "script": script, "arguments": ["start", "-p", "80"], "environment": {}})
        );
    }

    #[test]
    fn any_other_command_is_left_to_a_shell() {
        for (script, expected) in [
            (
                "node --no-warnings server.js",
                "exec node --no-warnings server.js",
            ),
            ("sh start.sh", "exec sh start.sh"),
            (
                "node build.js && node server.js",
                "node build.js && node server.js",
            ),
            (
                "node server.js --name 'a b'",
                "exec node server.js --name 'a b'",
            ),
            ("A=1 sh start.sh", "A=1 sh start.sh"),
        ] {
            let package = json!({"scripts": {"start": script}}).to_string();
            let folder = folder(&package, &[]);
            let options = options(folder.path());
            assert_eq!(options["type"], "external", "{script}");
            assert_eq!(options["arguments"], json!(["-c", expected]));
        }
    }

    #[test]
    fn missing_programs_are_reported() {
        let folder = folder(r#"{"scripts": {"start": "no-such-framework start"}}"#, &[]);
        let text = find(folder.path()).unwrap_err().text();
        assert!(
            text.contains("`no-such-framework`") && text.contains("npm install"),
            "{text}"
        );
    }
}
