//! Programs without a project: a script of Node.js or Perl, a built Go program.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::found_application::{Program, external, shell, word};

/// Names of scripts that start a server.
const NODE: &[&str] = &[
    "server.mjs",
    "server.js",
    "server.cjs",
    "app.mjs",
    "app.js",
    "index.mjs",
    "main.mjs",
];

/// The first bytes of a Linux executable.
const ELF: [u8; 4] = *b"\x7fELF";

/// Returns the program in a single file; `None` if it is not a script of these languages.
pub(super) fn in_file(path: &Path) -> Option<Program> {
    if !path.is_file() {
        return None;
    }
    match path.extension()?.to_str()? {
        "mjs" | "cjs" | "js" => Some(node(path)),
        "pl" => Some(perl(path)),
        "psgi" => Some(psgi(path)),
        _ => None,
    }
}

/// Returns the Node.js script in a folder without a `package.json`, if it starts a server.
pub(super) fn of_node(folder: &Path) -> Option<Program> {
    let serves = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        // A web page's own script may have such a name, too.
        ["listen", "serve(", "createServer"]
            .iter()
            .any(|word| text.contains(word))
            && !text.contains("document.")
    };
    let paths = NODE.iter().map(|name| folder.join(name));
    let mut scripts = paths.filter(|path| path.is_file());
    scripts.find(serves).map(|path| node(&path))
}

/// Returns `app.pl` of a folder.
pub(super) fn of_perl(folder: &Path) -> Option<Program> {
    let path = folder.join("app.pl");
    path.is_file().then(|| perl(&path))
}

/// Returns the program in the folder of a Go module; `None` if it is not built.
pub(super) fn of_go(folder: &Path) -> Option<Program> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut programs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    programs.retain(|path| is_program(path));
    let [only] = programs.as_slice() else {
        return None;
    };
    let command = only.to_str()?;
    Some(Program {
        what: format!("Go program {}", only.display()),
        options: external(folder, &[command]),
        is_concurrent: true,
        ..Program::default()
    })
}

fn is_program(path: &Path) -> bool {
    let mut start = [0; ELF.len()];
    let is_executable = fs::metadata(path)
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    is_executable
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut start))
            .is_ok()
        && start == ELF
}

fn node(script: &Path) -> Program {
    let folder = script.parent().unwrap_or(script);
    Program {
        what: format!("Node.js application {}", script.display()),
        options: json!({"type": "node", "working_directory": folder, "script": script}),
        is_concurrent: true,
        ..Program::default()
    }
}

fn psgi(script: &Path) -> Program {
    let folder = script.parent().unwrap_or(script);
    Program {
        what: format!("PSGI application {}", script.display()),
        options: json!({"type": "perl", "script": script, "working_directory": folder}),
        ..Program::default()
    }
}

/// A script of Mojolicious or Dancer starts its own server; any other returns a PSGI application.
fn perl(script: &Path) -> Program {
    let text = fs::read_to_string(script).unwrap_or_default();
    let folder = script.parent().unwrap_or(script);
    let (what, command) = if text.contains("Mojolicious") || text.contains("Mojo::") {
        let listen = r#"daemon -l "http://127.0.0.1:$PORT""#;
        (
            "Mojolicious",
            format!("exec perl {} {listen}", word(script)),
        )
    } else if text.contains("Dancer") {
        let command = format!("DANCER_PORT=$PORT exec perl {}", word(script));
        ("Dancer", command)
    } else {
        return psgi(script);
    };
    Program {
        what: format!("{what} application {}", script.display()),
        options: shell(folder, &command),
        is_concurrent: true,
        ..Program::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn a_script_that_serves_is_an_application() {
        let site = folder(&[(
            "server.mjs",
            "createServer(handle).listen(process.env.PORT)",
        )]);
        let found = of_node(site.path()).unwrap();
        assert_eq!(
            found.options["script"],
            json!(site.path().join("server.mjs"))
        );
        let page = folder(&[("app.js", "document.addEventListener('listen', f)")]);
        assert_eq!(of_node(page.path()), None);
    }

    #[test]
    fn scripts_of_perl_are_started_as_their_framework_has_it() {
        for (text, kind, said) in [
            ("use Mojolicious::Lite;\napp->start;", "external", "daemon"),
            ("use Dancer2;\ndance;", "external", "DANCER_PORT=$PORT"),
            ("sub { [200, [], ['a']] };", "perl", "app.pl"),
        ] {
            let folder = folder(&[("app.pl", text)]);
            let found = of_perl(folder.path()).unwrap();
            assert_eq!(found.options["type"], kind, "{text}");
            assert!(found.options.to_string().contains(said), "{text}");
        }
    }

    #[test]
    fn a_go_program_is_run_once_it_is_built() {
        let site = folder(&[("go.mod", "module shop"), ("notes.txt", "")]);
        assert_eq!(of_go(site.path()), None);
        let program = site.path().join("shop");
        fs::write(&program, b"\x7fELF....").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let found = of_go(site.path()).unwrap();
        assert_eq!(found.options["executable"], json!(program));
    }
}
