//! The content of a folder, and a configuration that serves it: the detection behind `tutti run`.
//!
//! Does no I/O except reading the folder. The resulting configuration is an ordinary one, shown by `tutti config get`,
//! so that users can start their own from it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::program::{self, Program};
use super::report::CommandError;

/// Depth to which folders with their own `index.php` are searched (`/wp-admin/network/` has two levels).
const DEPTH: usize = 2;

/// Enough for a site; a folder with more is rather a collection of sites, and each would be a pattern to match.
const MOST_FOLDERS: usize = 200;

/// The site in a folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The folder to serve.
    pub(crate) root: PathBuf,
    pub(crate) kind: Kind,
}

/// The kinds of sites that need no configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// PHP with an `index.php` at the root; with the URIs of other folders that have their own.
    Php { folders: Vec<String> },
    /// An application in another language.
    Program(Program),
    /// Files only.
    Static,
}

/// Files that are never shared: hidden files (version control, `.env`, `.htpasswd`; except ACME's folder, RFC 8615),
/// sources that a server runs, archives, databases, keys, logs, and backup files of editors. Scripts of shells are
/// shared: sites offer them for download.
pub(super) const NEVER_SHARED: &[&str] = &[
    "*/.*",
    "!/.well-known/*",
    "*.php*",
    "*.phtml",
    "*.phar",
    "*.inc",
    "*.py",
    "*.pyc",
    "*.psgi",
    "*.pl",
    "*.rb",
    "*.jsp",
    "*.sql",
    "*.sql.*",
    "*.sqlite*",
    "*.db",
    "*.mdb",
    "*.dump",
    "*.jar",
    "*.war",
    "*.ear",
    "*.zip",
    "*.7z",
    "*.rar",
    "*.tar",
    "*.tar.*",
    "*.tgz",
    "*.key",
    "*.pem",
    "*.bak",
    "*.log",
    "*~",
];

impl Site {
    /// Examines `folder`.
    pub(crate) fn find(folder: &Path) -> Result<Self, CommandError> {
        let folder = fs::canonicalize(folder).map_err(|error| {
            CommandError::new(format!(
                "cannot open the folder `{}`: {error}",
                folder.display()
            ))
        })?;
        if let Some(program) = program::in_file(&folder) {
            let root = folder.parent().unwrap_or(&folder).to_path_buf();
            return Ok(Self {
                root,
                kind: Kind::Program(program),
            });
        }
        if !folder.is_dir() {
            return Err(
                CommandError::new(format!("`{}` is not a folder", folder.display())).hint(
                    "name the folder of the site, or a file: a WebAssembly component, a .war or .jar file, `server.mjs`, `app.pl`",
                ),
            );
        }
        let has = |name: &str| folder.join(name).is_file();
        if has("index.php") {
            return Ok(Self::php(folder));
        }
        for name in program::PUBLIC_FOLDERS {
            let public = folder.join(name);
            if public.join("index.php").is_file() {
                return Ok(Self::php(public));
            }
        }
        if let Some(program) = program::find(&folder)? {
            return Ok(Self {
                root: folder,
                kind: Kind::Program(program),
            });
        }
        // The page in a project's root is a source; published pages are in a separate folder.
        if has("index.html") && !has("package.json") {
            return Ok(Self {
                root: folder,
                kind: Kind::Static,
            });
        }
        for name in program::PUBLIC_FOLDERS {
            let public = folder.join(name);
            if public.join("index.html").is_file() {
                return Ok(Self {
                    root: public,
                    kind: Kind::Static,
                });
            }
        }
        let mut entries = fs::read_dir(&folder).map_err(|error| {
            CommandError::new(format!(
                "cannot list the folder `{}`: {error}",
                folder.display()
            ))
        })?;
        if entries.next().is_none() {
            return Err(CommandError::new(format!("the folder `{}` is empty", folder.display()))
                .hint("put an index.php or an index.html there, or name another folder: `tutti run DIR`"));
        }
        Ok(Self {
            root: folder,
            kind: Kind::Static,
        })
    }

    fn php(root: PathBuf) -> Self {
        let mut folders = Vec::new();
        collect_folders(&root, "/", DEPTH, &mut folders);
        folders.sort();
        Self {
            root,
            kind: Kind::Php { folders },
        }
    }

    /// Returns the configuration that serves it at `listen`, with `workers` processes for PHP, and `access_log` if
    /// requests are shown.
    pub(crate) fn configuration(
        &self,
        listen: &str,
        workers: usize,
        access_log: Option<&str>,
    ) -> Value {
        let root = self.root.display().to_string();
        // `$` starts a variable in a share.
        let share = format!("{}$uri", root.replace('$', "${dollar}"));
        // Not passed to the application either, which would run `/.git/hook.php`.
        let hidden =
            json!({"match": {"uri": ["*/.*", "!/.well-known/*"]}, "action": {"return": 404}});
        let mut configuration = Map::new();
        let mut pass = "routes";
        match &self.kind {
            Kind::Static => {
                configuration.insert(
                    "routes".into(),
                    json!([{"action": {"share": share, "deny": NEVER_SHARED}}]),
                );
            }
            Kind::Program(program) => {
                pass = "applications/site";
                let mut options = program.options.clone();
                if let Some(options) = options.as_object_mut() {
                    let processes = if program.is_concurrent { 1 } else { workers };
                    options.insert("processes".into(), processes.into());
                }
                configuration.insert("applications".into(), json!({"site": options}));
                if let Some((uri, folder)) = &program.files {
                    pass = "routes";
                    let folder = folder.display().to_string().replace('$', "${dollar}");
                    configuration.insert(
                        "routes".into(),
                        json!([
                            {"match": {"uri": format!("{uri}/*")},
                             "action": {"share": format!("{folder}$uri"), "prefix": uri, "deny": NEVER_SHARED,
                                        "fallback": {"pass": "applications/site"}}},
                            {"action": {"pass": "applications/site"}}
                        ]),
                    );
                }
            }
            Kind::Php { folders } => {
                let mut direct = vec!["*.php".to_owned(), "*.php/*".to_owned()];
                direct.extend(folders.iter().map(|folder| escape_pattern(folder)));
                configuration.insert(
                    "routes".into(),
                    json!([
                        hidden,
                        {"match": {"uri": direct}, "action": {"pass": "applications/site/direct"}},
                        {"action": {"share": share, "deny": NEVER_SHARED, "fallback": {"pass": "applications/site/index"}}}
                    ]),
                );
                configuration.insert(
                    "applications".into(),
                    json!({"site": {
                        "type": "php",
                        "processes": workers,
                        "targets": {
                            "direct": {"root": root},
                            "index": {"root": root, "script": "index.php"}
                        }
                    }}),
                );
            }
        }
        configuration.insert("listeners".into(), json!({listen: {"pass": pass}}));
        if let Some(path) = access_log {
            configuration.insert("access_log".into(), json!({"path": path}));
        }
        Value::Object(configuration)
    }
}

/// Collects the URIs of folders below `root` that have their own `index.php`.
fn collect_folders(root: &Path, uri: &str, depth: usize, folders: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = entry.path();
        if name.starts_with('.') || !path.is_dir() || folders.len() >= MOST_FOLDERS {
            continue;
        }
        let uri = format!("{uri}{name}/");
        if path.join("index.php").is_file() && !path.join("index.html").is_file() {
            folders.push(uri.clone());
        }
        if depth > 1 {
            collect_folders(&path, &uri, depth - 1, folders);
        }
    }
}

/// Escapes a name as a pattern that matches only itself: `*` is a wildcard, `!` and `~` at the start have meanings (a
/// path starts with `/`), `%` starts an escape.
fn escape_pattern(uri: &str) -> String {
    uri.replace('%', "%25").replace('*', "%2A")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        folder
    }

    #[test]
    fn an_index_php_makes_a_php_site_with_its_folders() {
        let folder = folder(&[
            "index.php",
            "wp-admin/index.php",
            "wp-admin/network/index.php",
            "css/a.css",
        ]);
        let site = Site::find(folder.path()).unwrap();
        assert_eq!(
            site.kind,
            Kind::Php {
                folders: vec!["/wp-admin/".into(), "/wp-admin/network/".into()]
            }
        );
    }

    #[test]
    fn a_framework_serves_its_public_folder() {
        let folder = folder(&["public/index.php", "artisan", "src/index.php"]);
        let site = Site::find(folder.path()).unwrap();
        assert!(site.root.ends_with("public"));
    }

    #[test]
    fn files_alone_are_a_static_site() {
        let folder = folder(&["readme.txt"]);
        assert_eq!(Site::find(folder.path()).unwrap().kind, Kind::Static);
    }

    /// Issue 10, 1.11: `GET /mysite/settings.py` gave the secret key.
    #[test]
    fn applications_are_run_and_never_served_as_files() {
        let options = |files: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let site = Site::find(folder.path());
            let here = fs::canonicalize(folder.path())
                .unwrap()
                .display()
                .to_string();
            match site.map(|site| site.kind) {
                Ok(Kind::Program(program)) => program.options.to_string().replace(&here, "DIR"),
                Ok(other) => format!("{other:?}"),
                Err(failure) => failure.text().replace(&here, "DIR"),
            }
        };
        let wsgi = "application = get_wsgi_application()\n";
        let django = options(&[
            ("manage.py", "x"),
            ("shop/settings.py", "x"),
            ("shop/wsgi.py", wsgi),
            ("index.html", "x"),
        ]);
        assert_eq!(
            django,
            r#"{"type":"python","path":"DIR","module":"shop.wsgi","callable":"application"}"#
        );
        let flask = options(&[
            ("app.py", "from flask import Flask\napp = Flask('x')\n"),
            (".venv/pyvenv.cfg", ""),
        ]);
        assert_eq!(
            flask,
            r#"{"type":"python","path":"DIR","module":"app","callable":"app","home":"DIR/.venv"}"#
        );
        let psgi = options(&[("other.psgi", "x"), ("app.psgi", "x")]);
        assert!(
            psgi.starts_with(r#"{"type":"perl","script":"DIR/app.psgi""#),
            "{psgi}"
        );
        let rack = options(&[("config.ru", "x"), ("package.json", "{}"), ("Gemfile", "x")]);
        assert_eq!(
            rack,
            r#"{"type":"ruby","script":"DIR/config.ru","working_directory":"DIR"}"#
        );
        let java = r#"{"type":"java","webapp":"DIR","threads":10}"#;
        assert_eq!(
            options(&[("WEB-INF/web.xml", "x"), ("index.html", "x")]),
            java
        );
        let built = options(&[("pom.xml", "x"), ("target/shop.war", "x")]);
        assert_eq!(built, java.replace("DIR", "DIR/target/shop.war"));
        let two = options(&[("a.war", "x"), ("b.war", "x")]);
        assert!(two.contains("name one of them"), "{two}");
        let node = options(&[("package.json", r#"{"scripts": {"start": "sh server.sh"}}"#)]);
        assert!(
            node.contains(r#""arguments":["-c","exec sh server.sh"]"#),
            "{node}"
        );
        for (mark, ready) in [
            ("manage.py", "\"type\": \"python\""),
            ("requirements.txt", "\"type\": \"python\""),
            ("package.json", "\"type\": \"node\""),
            ("go.mod", "go build"),
            ("Gemfile", "puma"),
            ("Cargo.toml", "cargo build"),
            ("composer.json", "\"type\": \"php\""),
        ] {
            let refused = options(&[(mark, "{}"), ("index.html", "x")]);
            assert!(
                refused.contains("error:")
                    && refused.contains(ready)
                    && refused.contains("--config site.json"),
                "{mark}: {refused}"
            );
        }
        // A built file is not a source.
        assert_eq!(
            options(&[("package.json", "{}"), ("dist/index.html", "x")]),
            "Static"
        );
    }

    #[test]
    fn nothing_to_serve_is_an_error_that_says_so() {
        let empty = tempfile::tempdir().unwrap();
        assert!(Site::find(empty.path()).is_err());
        assert!(Site::find(&empty.path().join("missing")).is_err());
    }

    #[test]
    fn each_configuration_made_is_a_valid_one() {
        for files in [&["index.php", "a*b%/index.php"][..], &["a.txt"][..]] {
            let folder = folder(files);
            let site = Site::find(folder.path()).unwrap();
            let text = site
                .configuration("127.0.0.1:8080", 2, Some("/tmp/a.log"))
                .to_string();
            let document = tutti_config::parse(text.as_bytes()).unwrap();
            let context = crate::check::with_what_it_asks_for(&document);
            tutti_config::validate(&document, &context).unwrap();
        }
    }
}
