//! Finds the script of a path: the one of `script`, or a file below the root.
//!
//! What must never happen: a path that leads out of the root, other than by a symbolic link in it, or a script in a hidden file or folder
//! (`.git/hooks/post-update`).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use tutti_gateway::cgi::{FileKind, Script as Found, ScriptRules, find_script};
use tutti_http::folder_location;
use tutti_options::cgi::CgiTarget;
use tutti_options::prefix::under;
use tutti_worker::StartError;

/// An entry point.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its name in `applications/NAME/TARGET`; empty for the application itself.
    pub(crate) name: String,
    /// The real path of its folder, without a slash at the end.
    pub(crate) root: Vec<u8>,
    /// The script that serves every request, as a path below the root that begins with a slash.
    script: Option<Vec<u8>>,
    index: Vec<u8>,
    /// The endings of scripts' names; one empty ending for all names.
    endings: Vec<Box<[u8]>>,
    /// The URL path of the root, without a slash at its end; empty for none.
    prefix: Vec<u8>,
}

/// The script of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// Its file.
    pub(crate) file: PathBuf,
    /// `SCRIPT_NAME`.
    pub(crate) name: Vec<u8>,
    /// The place in the request's path where `PATH_INFO` begins, if there is one.
    pub(crate) path_info_at: Option<usize>,
}

/// The result of the search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// Run this script.
    Script(Script),
    /// 301 to this path: it is encoded, and has a slash at its end.
    Redirect(Vec<u8>),
    /// Answer with this status.
    Status(u16),
}

impl Target {
    /// Checks the folder and the script of an entry point.
    ///
    /// # Errors
    /// They cannot be used.
    pub(crate) fn new(name: &str, given: &CgiTarget) -> Result<Target, StartError> {
        let member = |option: &str| match name {
            "" => option.to_owned(),
            name => {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                format!("targets/{escaped}/{option}")
            }
        };
        let shown = given.root.display();
        let step = format!("looking for the folder `{shown}`");
        let failed = |error: io::Error| {
            let error = StartError::new(&step, error).member(member("root"));
            error.hint("create the folder, or correct `root`; the application's user must be allowed to enter it")
        };
        let real = fs::canonicalize(&given.root).map_err(failed)?;
        if !real.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        let script = given.script.as_ref().map(|script| {
            let relative = script.trim_start_matches('/');
            [b"/", relative.as_bytes()].concat()
        });
        let mut root = real.into_os_string().into_encoded_bytes();
        if root == b"/" {
            root.clear();
        }
        if let Some(script) = &script {
            let file = path_of([&*root, script].concat());
            let refused = |message: &str, hint: String| {
                let step = format!("looking for the script `{}`", file.display());
                let error = StartError::new(step, message).member(member("script"));
                Err(error.hint(hint))
            };
            match kind(&file) {
                FileKind::File => {}
                FileKind::Unreadable => {
                    let hint = format!("`chmod +x {}`", file.display());
                    return refused("the application's user may not execute it", hint);
                }
                _ => {
                    let hint = "the path of `script` is relative to `root`";
                    return refused("there is no such file", hint.to_owned());
                }
            }
        }
        let mut endings: Vec<Box<[u8]>> = given
            .extensions
            .iter()
            .map(|ending| ending.as_bytes().into())
            .collect();
        if endings.is_empty() {
            endings.push(Box::default());
        }
        Ok(Target {
            name: name.to_owned(),
            root,
            script,
            index: given.index.as_bytes().to_vec(),
            endings,
            prefix: given.path_prefix().into(),
        })
    }

    /// Finds the script for `path`, which is decoded and normalised.
    pub(crate) fn resolve(&self, path: &[u8]) -> Resolved {
        let below = match self.prefix.as_slice() {
            b"" => Some(path),
            prefix => under(prefix, path),
        };
        // A variable of the environment cannot contain NUL.
        let Some(below) = below.filter(|below| !below.contains(&0)) else {
            return Resolved::Status(404);
        };
        let skipped = path.len() - below.len();
        if let Some(script) = &self.script {
            return self.single(script, below, skipped);
        }
        if below.is_empty() {
            return Resolved::Redirect(folder_location(path));
        }
        let rules = ScriptRules {
            suffixes: &self.endings,
            index: &self.index,
        };
        let probe = |name: &[u8]| match is_hidden(name) {
            true => FileKind::Missing,
            false => kind(&self.file(name)),
        };
        match find_script(below, &rules, probe) {
            Found::Found { name, path_info_at } => Resolved::Script(Script {
                file: self.file(&name),
                name: [&*self.prefix, &name].concat(),
                path_info_at: path_info_at.map(|at| at + skipped),
            }),
            Found::Folder => Resolved::Redirect(folder_location(path)),
            Found::NotFound => Resolved::Status(404),
            Found::Forbidden => Resolved::Status(403),
        }
    }

    /// The script that serves every request. As with `ScriptAlias`, the prefix is its name, and the rest of the path is `PATH_INFO`; a path
    /// may have the file's name, too.
    fn single(&self, script: &[u8], below: &[u8], skipped: usize) -> Resolved {
        let file = self.file(script);
        match kind(&file) {
            FileKind::File => {}
            FileKind::Missing => return Resolved::Status(404),
            _ => return Resolved::Status(403),
        }
        let named = match under(script, below) {
            Some(_) => script,
            None => b"",
        };
        let rest = below.len() - named.len();
        Resolved::Script(Script {
            file,
            name: [&*self.prefix, named].concat(),
            path_info_at: (rest > 0).then_some(skipped + named.len()),
        })
    }

    fn file(&self, name: &[u8]) -> PathBuf {
        path_of([&*self.root, name].concat())
    }
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&bytes))
}

/// True if a part of the name begins with a dot.
fn is_hidden(name: &[u8]) -> bool {
    name.split(|byte| *byte == b'/')
        .any(|part| part.starts_with(b"."))
}

/// A file that this process may execute is a script.
fn kind(file: &Path) -> FileKind {
    match fs::metadata(file) {
        Ok(found) if found.is_dir() => FileKind::Directory,
        Ok(found) if found.is_file() => {
            match accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS) {
                Ok(()) => FileKind::File,
                Err(_) => FileKind::Unreadable,
            }
        }
        Ok(_) => FileKind::Other,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => FileKind::Unreadable,
        Err(_) => FileKind::Missing,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tutti_options::Options;

    use super::*;

    fn site() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cgi-bin");
        fs::create_dir_all(root.join("dir/x.pl")).unwrap();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        for (file, mode) in [
            ("awstats.pl", 0o755),
            ("graph", 0o755),
            ("index.cgi", 0o755),
            ("dir/index.cgi", 0o755),
            ("dir/x.pl/in", 0o755),
            ("dir/.secret", 0o755),
            (".git/hooks/post-update", 0o755),
            ("notes.txt", 0o644),
            ("../outside", 0o755),
        ] {
            fs::write(root.join(file), "#!/bin/sh\n").unwrap();
            fs::set_permissions(root.join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("../outside", root.join("link")).unwrap();
        symlink("/dev/null", root.join("device")).unwrap();
        folder
    }

    fn target(folder: &tempfile::TempDir, mut options: serde_json::Value) -> Target {
        options["root"] = folder.path().join("cgi-bin").to_str().unwrap().into();
        Target::new("", &CgiTarget::from_json(&options).unwrap()).unwrap()
    }

    fn show(target: &Target, path: &str) -> String {
        match target.resolve(path.as_bytes()) {
            Resolved::Script(script) => {
                let name = String::from_utf8_lossy(&script.name).into_owned();
                let info = script.path_info_at.map_or("-", |at| &path[at..]);
                format!("{name} {info}")
            }
            Resolved::Redirect(to) => format!("301 {}", String::from_utf8_lossy(&to)),
            Resolved::Status(status) => status.to_string(),
        }
    }

    fn check(target: &Target, expected: &[(&str, &str)]) {
        for (path, expected) in expected {
            assert_eq!(show(target, path), *expected, "{path}");
        }
    }

    #[test]
    fn every_executable_file_is_a_script() {
        let folder = site();
        let target = target(&folder, serde_json::json!({}));
        check(
            &target,
            &[
                ("/", "/index.cgi -"),
                ("/awstats.pl", "/awstats.pl -"),
                ("/awstats.pl/", "/awstats.pl /"),
                ("/graph/a/b.png", "/graph /a/b.png"),
                ("/graph/../../etc/passwd", "404"),
                ("/dir", "301 /dir/"),
                ("//dir", "301 /dir/"),
                ("/dir/", "/dir/index.cgi -"),
                ("/dir/x.pl/in/more", "/dir/x.pl/in /more"),
                ("/link", "/link -"),
                ("/notes.txt", "403"),
                ("/notes.txt/a", "403"),
                ("/device", "403"),
                ("/none", "404"),
                ("/none/a", "404"),
                ("/dir/none", "404"),
                ("/graph\0", "404"),
                ("graph", "404"),
                ("*", "404"),
            ],
        );
    }

    #[test]
    fn hidden_files_are_no_scripts() {
        let folder = site();
        let target = target(&folder, serde_json::json!({}));
        check(
            &target,
            &[
                ("/.git/hooks/post-update", "404"),
                ("/.git", "404"),
                ("/dir/.secret", "404"),
                ("/dir/.secret/a", "404"),
                ("/./graph", "404"),
                ("/graph/.git/config", "/graph /.git/config"),
            ],
        );
    }

    #[test]
    fn extensions_say_which_files_are_scripts() {
        let folder = site();
        let options = serde_json::json!({"extensions": [".pl"], "prefix": "/stats/"});
        let target = target(&folder, options);
        check(
            &target,
            &[
                ("/stats", "301 /stats/"),
                ("/stats/", "/stats/index.cgi -"),
                ("/stats/awstats.pl", "/stats/awstats.pl -"),
                ("/stats/awstats.pl/x", "/stats/awstats.pl /x"),
                ("/stats/graph", "403"),
                ("/stats/graph/x", "404"),
                ("/stats/dir", "301 /stats/dir/"),
                ("/awstats.pl", "404"),
                ("/statsx/awstats.pl", "404"),
            ],
        );
    }

    #[test]
    fn one_script_serves_every_path() {
        let folder = site();
        let options = serde_json::json!({"script": "graph", "prefix": "/git"});
        let with_prefix = target(&folder, options);
        check(
            &with_prefix,
            &[
                ("/git", "/git -"),
                ("/git/", "/git /"),
                ("/git/a.git/info", "/git /a.git/info"),
                ("/git/graph/a", "/git/graph /a"),
                ("/git/graph", "/git/graph -"),
                ("/gitx", "404"),
                ("/git/\0", "404"),
            ],
        );
        let without = target(&folder, serde_json::json!({"script": "/graph"}));
        check(
            &without,
            &[("/", " /"), ("/a", " /a"), ("/graph/a", "/graph /a")],
        );
        fs::remove_file(folder.path().join("cgi-bin/graph")).unwrap();
        check(&without, &[("/a", "404")]);
    }

    #[test]
    fn folders_and_scripts_are_checked_at_the_start() {
        let folder = site();
        let root = folder.path().join("cgi-bin");
        let root = root.to_str().unwrap();
        for (name, root, script, member, hint) in [
            ("", "/no/such/folder", "graph", "root", "create the folder"),
            (
                "a/b",
                root,
                "none",
                "targets/a~1b/script",
                "relative to `root`",
            ),
            ("", root, "notes.txt", "script", "chmod +x"),
            ("", root, "dir", "script", "relative to `root`"),
        ] {
            let options = serde_json::json!({"root": root, "script": script});
            let given = CgiTarget::from_json(&options).unwrap();
            let error = Target::new(name, &given).unwrap_err();
            assert_eq!(error.member.as_deref(), Some(member), "{error}");
            let told = error.hint.unwrap_or_default();
            assert!(told.contains(hint), "{told}");
        }
    }
}
