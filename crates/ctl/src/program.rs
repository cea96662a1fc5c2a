//! Applications in languages other than PHP, detected by their developers' files: what `tutti run` does in a folder
//! that must not be served as files, because it contains sources.
//!
//! An application is run if the folder contains enough information; otherwise it is rejected with a configuration to
//! start from. Must never happen: that a folder with a mark of such an application is served as files.

mod found_application;
mod java;
mod node;
mod scripts;
mod wasm;

use std::fs;
use std::path::{Path, PathBuf};

pub(super) use found_application::{PUBLIC_FOLDERS, Program};
use found_application::{external, refusal};
use serde_json::{Value, json};

use super::report::CommandError;

/// Names of application objects in modules, the most common first.
const CALLABLES: &[&str] = &["application", "app", "api", "asgi_app", "wsgi_app"];

/// Modules made for serving, then those in which tutorials put an application.
const MODULES: &[&str] = &["wsgi", "asgi", "app", "main", "application", "server"];

/// A kind of program in a folder, and how to start it once it is built.
struct Kind {
    /// Files that identify it.
    marks: &'static [&'static str],
    what: &'static str,
    command: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        marks: &["go.mod"],
        what: "a Go program: build it with `go build -o app .`",
        command: &["app"],
    },
    Kind {
        marks: &["Gemfile"],
        what: "a Ruby program",
        command: &["/usr/bin/bundle", "exec", "puma"],
    },
    Kind {
        marks: &["Cargo.toml"],
        what: "a Rust program: build it with `cargo build --release`",
        command: &["target/release/app"],
    },
    Kind {
        marks: &["pom.xml"],
        what: "a Java program: build it with `mvn package`",
        command: &["/usr/bin/java", "-jar", "target/app.jar"],
    },
    Kind {
        marks: &["build.gradle", "build.gradle.kts"],
        what: "a Java program: build it with `gradle build`",
        command: &["/usr/bin/java", "-jar", "build/libs/app.jar"],
    },
    Kind {
        marks: &["mix.exs"],
        what: "an Elixir program: build it with `mix release`",
        command: &["bin/server"],
    },
    Kind {
        marks: &["deno.json", "deno.jsonc"],
        what: "a Deno program",
        command: &[
            "/usr/bin/deno",
            "run",
            "--allow-net",
            "--allow-env",
            "main.ts",
        ],
    },
];

/// Files of Python projects whose application cannot be determined.
const PYTHON_MARKS: &[&str] = &[
    "manage.py",
    "wsgi.py",
    "asgi.py",
    "pyproject.toml",
    "requirements.txt",
    "Pipfile",
    "setup.py",
    "setup.cfg",
    "uv.lock",
    "poetry.lock",
];

/// Returns the application in a single file; `None` if there is none.
pub(super) fn in_file(path: &Path) -> Option<Program> {
    let found = java::in_file(path).or_else(|| wasm::in_file(path));
    found.or_else(|| scripts::in_file(path))
}

/// Looks for an application in `folder`; `None` if it has no mark of one.
pub(super) fn find(folder: &Path) -> Result<Option<Program>, CommandError> {
    let has = |name: &str| folder.join(name).is_file();
    if let Some(found) = python(folder) {
        return Ok(Some(found));
    }
    if let Some(mark) = PYTHON_MARKS.iter().find(|name| has(name)) {
        let mut options =
            json!({"type": "python", "path": folder, "module": "MODULE", "callable": "app"});
        add_home(&mut options, folder);
        let how = "name the module and the application in it";
        return Err(refusal(folder, mark, "a Python project", how, options));
    }
    if let Some(found) = perl(folder)? {
        return Ok(Some(found));
    }
    if let Some(found) = java::find(folder)? {
        return Ok(Some(found));
    }
    // Before `package.json` and `Cargo.toml`, which the sources of a component contain too.
    if let Some(found) = wasm::find(folder)? {
        return Ok(Some(found));
    }
    // Before `package.json`: Rails has one for its assets.
    if has("config.ru") {
        return Ok(Some(ruby(folder)));
    }
    if has("package.json") {
        return node::find(folder);
    }
    if has("go.mod")
        && let Some(found) = scripts::of_go(folder)
    {
        return Ok(Some(found));
    }
    if !has("index.html")
        && let Some(found) = scripts::of_node(folder).or_else(|| scripts::of_perl(folder))
    {
        return Ok(Some(found));
    }
    for kind in KINDS {
        if let Some(mark) = kind.marks.iter().find(|name| has(name)) {
            let how = "complete its command; it gets the port to serve as PORT";
            let options = external(folder, kind.command);
            return Err(refusal(folder, mark, kind.what, how, options));
        }
    }
    if has("composer.json") {
        let options = json!({"type": "php", "root": folder.join("public"), "script": "index.php"});
        return Err(refusal(
            folder,
            "composer.json",
            "a PHP project without an `index.php`",
            "name its front controller",
            options,
        ));
    }
    Ok(None)
}

/// Folders in which `collectstatic` puts files, the most common first.
const COLLECTED: &[&str] = &[
    "staticfiles",
    "static_root",
    "static",
    "public/static",
    "assets",
];

/// Returns the files of Django's admin if they have been collected, or else a hint.
fn admin_files(folder: &Path) -> (Option<(&'static str, PathBuf)>, Option<String>) {
    let mut folders = COLLECTED.iter().map(|name| folder.join(name));
    match folders.find(|place| place.join("admin/css").is_dir()) {
        Some(place) => (Some(("/static", place)), None),
        None => {
            let hint = "the files of Django's admin are not served yet: set `STATIC_ROOT = BASE_DIR / \"staticfiles\"` and run `python manage.py collectstatic`, or use WhiteNoise";
            (None, Some(hint.to_owned()))
        }
    }
}

fn python(folder: &Path) -> Option<Program> {
    let (mut files, mut hint) = (None, None);
    let (what, module, callable) = if folder.join("manage.py").is_file() {
        (files, hint) = admin_files(folder);
        let (module, callable) = django(folder)?;
        ("Django application", module, callable)
    } else {
        let (module, callable) = MODULES.iter().find_map(|name| {
            let text = fs::read_to_string(folder.join(format!("{name}.py"))).ok()?;
            // Other modules have these names too: they must mention a framework or an interface.
            let is_served = matches!(*name, "wsgi" | "asgi") || is_of_the_web(&text);
            let callable = callable_in(&text).filter(|_| is_served)?;
            Some(((*name).to_owned(), callable))
        })?;
        ("Python application", module, callable)
    };
    let mut options =
        json!({"type": "python", "path": folder, "module": module, "callable": callable});
    add_home(&mut options, folder);
    Some(Program {
        what: format!("{what} `{module}:{callable}`"),
        options,
        is_concurrent: false,
        files,
        hint,
    })
}

/// Returns `mysite/wsgi.py` next to `manage.py`, or its equivalent.
fn django(folder: &Path) -> Option<(String, &'static str)> {
    let mut packages: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    packages.sort();
    for module in ["wsgi", "asgi"] {
        for package in &packages {
            let text = fs::read_to_string(package.join(format!("{module}.py")));
            let name = package.file_name().and_then(|name| name.to_str());
            if let (Ok(text), Some(name)) = (text, name)
                && let Some(callable) = callable_in(&text)
            {
                return Some((format!("{name}.{module}"), callable));
            }
        }
    }
    None
}

/// Returns the name of the application object at the top level of a module.
fn callable_in(text: &str) -> Option<&'static str> {
    let is_made = |name: &&&str| {
        text.lines().any(|line| {
            let defined = line
                .strip_prefix("async def ")
                .or_else(|| line.strip_prefix("def "));
            let rest = defined.unwrap_or(line).strip_prefix(**name);
            match rest.map(str::trim_start) {
                Some(rest) if defined.is_some() => rest.starts_with('('),
                Some(rest) => {
                    rest.starts_with(':') || rest.starts_with('=') && !rest.starts_with("==")
                }
                None => false,
            }
        })
    };
    CALLABLES.iter().find(is_made).copied()
}

fn is_of_the_web(text: &str) -> bool {
    let words = [
        "flask",
        "fastapi",
        "starlette",
        "quart",
        "django",
        "falcon",
        "bottle",
        "pyramid",
        "litestar",
        "start_response",
        "receive",
        "wsgi",
        "asgi",
    ];
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// Adds the virtual environment in the folder, if there is one.
fn add_home(options: &mut Value, folder: &Path) {
    let mut homes = [".venv", "venv", "env"]
        .iter()
        .map(|name| folder.join(name));
    if let (Some(home), Some(options)) = (
        homes.find(|home| home.join("pyvenv.cfg").is_file()),
        options.as_object_mut(),
    ) {
        options.insert("home".to_owned(), json!(home));
    }
}

fn perl(folder: &Path) -> Result<Option<Program>, CommandError> {
    let in_folder = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .filter(|path| path.extension().is_some_and(|ending| ending == "psgi"))
            .collect()
    };
    let mut scripts = in_folder(folder);
    if scripts.is_empty() {
        // The folder in which Dancer2 has it.
        scripts = in_folder(&folder.join("bin"));
    }
    scripts.sort();
    let usual = scripts.iter().find(|path| path.ends_with("app.psgi"));
    let script = match (scripts.as_slice(), usual) {
        ([], _) => return Ok(None),
        ([only], _) => only,
        (_, Some(usual)) => usual,
        ([first, ..], None) => {
            let options = json!({"type": "perl", "script": first, "working_directory": folder});
            let what = "a Perl application with several scripts";
            return Err(refusal(folder, "*.psgi", what, "name one of them", options));
        }
    };
    Ok(Some(Program {
        what: format!("PSGI application {}", script.display()),
        options: json!({"type": "perl", "script": script, "working_directory": folder}),
        is_concurrent: false,
        ..Program::default()
    }))
}

fn ruby(folder: &Path) -> Program {
    let script = folder.join("config.ru");
    let what = match folder.join("bin/rails").is_file() {
        true => "Rails",
        false => "Rack",
    };
    Program {
        what: format!("{what} application {}", script.display()),
        options: json!({"type": "ruby", "script": script, "working_directory": folder}),
        is_concurrent: false,
        ..Program::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_of_a_module_is_at_its_top_level() {
        for (text, name) in [
            ("from flask import Flask\napp = Flask(__name__)\n", "app"),
            ("application = get_wsgi_application()\n", "application"),
            ("async def app(scope, receive, send):\n    pass\n", "app"),
            ("def application(environ, start_response):\n", "application"),
            ("app: FastAPI = FastAPI()\n", "app"),
        ] {
            assert_eq!(callable_in(text), Some(name), "{text}");
        }
        for text in [
            "    app = 1\n",
            "apple = 1\n",
            "app == 1\n",
            "application.run()\n",
            "# app = 1\n",
        ] {
            assert_eq!(callable_in(text), None, "{text}");
        }
    }
}
