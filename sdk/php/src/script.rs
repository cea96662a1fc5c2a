//! Which script answers a path: `script` mode, or a file below the root.
//!
//! Called once a request by `serve`. What was found is kept for as long as opcache keeps its own look at a file
//! (`opcache.revalidate_freq`), so that a warm request costs no system call. Nothing outside the root is ever named.

use std::{
    cell::Cell,
    collections::HashMap,
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
};

use tutti_gateway::cgi::{FileKind, Script as Found, ScriptRules, find_script};
use tutti_options::prefix::under;

use crate::options::Target;

/// The suffix of a script's name.
const SUFFIX: &[u8] = b".php";

/// Answers kept at most; more distinct paths than that empty the table.
const KEPT_MAX: usize = 4096;

/// Bytes that may stand in the path of a `Location` (RFC 3986 section 3.3), all others are encoded.
const PATH_ENCODE: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'\\');

/// A number for a folder, or for a look at one; 0 is none.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A folder that scripts run in.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Its path.
    pub path: CString,
    /// Never used twice in a process.
    pub number: u64,
    /// Another number of that kind from each look for a script in it on: that is how `request.c` knows that it stands there already. The path
    /// may lead to another folder by then, as after a deployment by `mv`.
    pub look: Cell<u64>,
    /// The part of the path that is the root of the target, where `.user.ini` files begin.
    pub root_len: usize,
}

/// A script and how it was named.
#[derive(Debug)]
pub(crate) struct Script {
    /// `SCRIPT_FILENAME`.
    pub file: CString,
    /// Folder of the file, where the script runs.
    pub directory: Rc<Directory>,
    /// `SCRIPT_NAME`.
    pub name: Vec<u8>,
    /// Where `PATH_INFO` begins in the path of the request, if it has one.
    pub path_info_at: Option<usize>,
}

impl Script {
    /// The script that answers everything, as `path` names it: `/index.php/info` has path information.
    #[must_use]
    pub(crate) fn for_path(single: &Rc<Self>, path: &[u8]) -> Rc<Self> {
        let has_info = path
            .strip_prefix(single.name.as_slice())
            .is_some_and(|rest| rest.first() == Some(&b'/'));
        if !has_info {
            return Rc::clone(single);
        }
        Rc::new(Self {
            file: single.file.clone(),
            directory: Rc::clone(&single.directory),
            name: single.name.clone(),
            path_info_at: Some(single.name.len()),
        })
    }
}

/// The outcome of the look for a script.
#[derive(Debug, Clone)]
pub(crate) enum Resolved {
    /// Run this.
    Script(Rc<Script>),
    /// 301 to the same with a slash at the end; the encoded path, without the query.
    Redirect(Vec<u8>),
    /// 404.
    NotFound,
    /// 403.
    Forbidden,
}

/// The scripts of one target.
#[derive(Debug)]
pub(crate) struct Scripts {
    target: Target,
    /// The suffix of a script's name.
    suffixes: [Box<[u8]>; 1],
    single: Option<[Rc<Script>; 1]>,
    kept: HashMap<Vec<u8>, (i64, Rc<Script>)>,
    directories: HashMap<Vec<u8>, Rc<Directory>>,
}

impl Scripts {
    /// Prepares a target.
    #[must_use]
    pub(crate) fn new(target: Target) -> Self {
        let mut scripts = Self {
            target,
            suffixes: [SUFFIX.into()],
            single: None,
            kept: HashMap::new(),
            directories: HashMap::new(),
        };
        if let Some(name) = scripts.target.script.clone() {
            scripts.single = scripts.script(&name, None).map(|script| [script]);
        }
        scripts
    }

    #[must_use]
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Finds what answers `path`. `now` is in seconds; `keep_for` says for how long an earlier answer is good.
    pub(crate) fn resolve(&mut self, path: &[u8], now: i64, keep_for: i64) -> Resolved {
        let below = match self.target.prefix.as_slice() {
            b"" => path,
            prefix => match under(prefix, path) {
                Some(below) => below,
                None => return Resolved::NotFound,
            },
        };
        if let Some([single]) = &self.single {
            let single = Rc::clone(single);
            return self.resolve_single(&single, path, now, keep_for);
        }
        if let Some((checked, script)) = self.kept.get(path)
            && now.saturating_sub(*checked) < keep_for
        {
            return Resolved::Script(Rc::clone(script));
        }
        let found = self.find(path, below);
        if let Resolved::Script(script) = &found {
            script.directory.look.set(next_number());
            self.keep(path, now, script);
        }
        found
    }

    /// With `script` set, the path only tells whether there is a `PATH_INFO`.
    fn resolve_single(
        &mut self,
        single: &Rc<Script>,
        path: &[u8],
        now: i64,
        keep_for: i64,
    ) -> Resolved {
        let recent = self
            .kept
            .get(&b""[..])
            .is_some_and(|(checked, _)| now.saturating_sub(*checked) < keep_for);
        if !recent {
            match kind(&single.file) {
                FileKind::File => {
                    single.directory.look.set(next_number());
                    self.keep(b"", now, single);
                }
                FileKind::Unreadable => return Resolved::Forbidden,
                _ => return Resolved::NotFound,
            }
        }
        Resolved::Script(Script::for_path(single, path))
    }

    /// The one script of a target with `script`.
    #[must_use]
    pub(crate) fn single(&self) -> Option<Rc<Script>> {
        self.single.as_ref().map(|[single]| Rc::clone(single))
    }

    /// Looks for the file that `below`, the part of `path` behind the prefix, names.
    fn find(&mut self, path: &[u8], below: &[u8]) -> Resolved {
        if below.is_empty() {
            return Resolved::Redirect(redirect_path(path));
        }
        let rules = ScriptRules {
            suffixes: &self.suffixes,
            index: &self.target.index,
        };
        let root = &self.target.root;
        let probe = |name: &[u8]| match CString::new([root, name].concat()) {
            Ok(file) => kind(&file),
            Err(_) => FileKind::Missing,
        };
        let skipped = path.len() - below.len();
        match find_script(below, &rules, probe) {
            Found::Found { name, path_info_at } => self
                .script(&name, path_info_at.map(|at| at + skipped))
                .map_or(Resolved::NotFound, Resolved::Script),
            Found::Folder => Resolved::Redirect(redirect_path(path)),
            Found::NotFound => Resolved::NotFound,
            Found::Forbidden => Resolved::Forbidden,
        }
    }

    fn keep(&mut self, path: &[u8], now: i64, script: &Rc<Script>) {
        if self.kept.len() >= KEPT_MAX && !self.kept.contains_key(path) {
            self.kept.clear();
        }
        self.kept.insert(path.to_vec(), (now, Rc::clone(script)));
    }

    fn script(&mut self, name: &[u8], path_info_at: Option<usize>) -> Option<Rc<Script>> {
        let file = [&self.target.root, name].concat();
        let slash = memchr::memrchr(b'/', &file)?;
        let directory = file.get(..slash.max(1))?.to_vec();
        let directory = match self.directories.get(&directory) {
            Some(known) => Rc::clone(known),
            None => {
                if self.directories.len() >= KEPT_MAX {
                    self.directories.clear();
                }
                let path = CString::new(directory.clone()).ok()?;
                let made = Rc::new(Directory {
                    root_len: self.target.root.len().min(directory.len()),
                    path,
                    number: next_number(),
                    look: Cell::new(next_number()),
                });
                self.directories.insert(directory, Rc::clone(&made));
                made
            }
        };
        Some(Rc::new(Script {
            file: CString::new(file).ok()?,
            directory,
            name: [self.target.prefix.as_slice(), name].concat(),
            path_info_at,
        }))
    }
}

/// The encoded path with a slash at the end. Slashes at its front are one: `//host` would lead elsewhere.
fn redirect_path(path: &[u8]) -> Vec<u8> {
    let start = path
        .iter()
        .position(|byte| *byte != b'/')
        .unwrap_or(path.len());
    let rest = path.get(start..).unwrap_or_default();
    format!("/{}/", percent_encoding::percent_encode(rest, PATH_ENCODE)).into_bytes()
}

fn kind(file: &CStr) -> FileKind {
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(file.to_bytes()));
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => FileKind::Directory,
        Ok(found) if found.is_file() => {
            // SAFETY: `file` is a NUL-terminated string that outlives the call.
            if unsafe { libc::access(file.as_ptr(), libc::R_OK) } == 0 {
                FileKind::File
            } else {
                FileKind::Unreadable
            }
        }
        Ok(_) => FileKind::Other,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => FileKind::Unreadable,
        Err(_) => FileKind::Missing,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn site() -> (tempfile::TempDir, Target) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let root = folder.path();
        fs::create_dir_all(root.join("dir/x.php")).expect("folders");
        for file in [
            "index.php",
            "a.php",
            "dir/index.php",
            "dir/x.php/in.php",
            "note.txt",
        ] {
            fs::write(root.join(file), "<?php").expect("file");
        }
        let root = fs::canonicalize(root)
            .expect("real path")
            .into_os_string()
            .into_encoded_bytes();
        (
            folder,
            Target {
                name: String::new(),
                root,
                script: None,
                index: b"index.php".to_vec(),
                prefix: Vec::new(),
            },
        )
    }

    fn show(scripts: &mut Scripts, path: &str) -> String {
        match scripts.resolve(path.as_bytes(), 0, 0) {
            Resolved::Script(script) => {
                let info = script.path_info_at.map(|at| &path[at..]).unwrap_or("-");
                format!("{} {info}", String::from_utf8_lossy(&script.name))
            }
            Resolved::Redirect(to) => format!("301 {}", String::from_utf8_lossy(&to)),
            Resolved::NotFound => "404".to_owned(),
            Resolved::Forbidden => "403".to_owned(),
        }
    }

    #[test]
    fn a_path_names_its_script() {
        let (_folder, target) = site();
        let mut scripts = Scripts::new(target);
        for (path, expected) in [
            ("/", "/index.php -"),
            ("/a.php", "/a.php -"),
            ("/a.php/", "/a.php /"),
            ("/a.php/x/y.php/z", "/a.php /x/y.php/z"),
            ("/dir", "301 /dir/"),
            ("//dir", "301 /dir/"),
            ("/dir/", "/dir/index.php -"),
            ("/dir/x.php/in.php", "/dir/x.php/in.php -"),
            ("/dir/x.php/in.php/more", "/dir/x.php/in.php /more"),
            ("/note.txt", "403"),
            ("/none.php", "404"),
            ("/none.php/x", "404"),
            ("/none", "404"),
            ("/dir/../a.php", "404"),
            ("/a.php\0.txt", "404"),
            ("a.php", "404"),
        ] {
            assert_eq!(show(&mut scripts, path), expected, "{path}");
        }
    }

    #[test]
    fn one_script_answers_all() {
        let (_folder, mut target) = site();
        target.script = Some(b"/index.php".to_vec());
        let mut scripts = Scripts::new(target);
        for (path, expected) in [
            ("/", "/index.php -"),
            ("/index.php", "/index.php -"),
            ("/index.php/Main_Page", "/index.php /Main_Page"),
            ("/index.phpx", "/index.php -"),
            ("/blog/a.php/b", "/index.php -"),
        ] {
            assert_eq!(show(&mut scripts, path), expected, "{path}");
        }
    }

    #[test]
    fn a_root_stands_at_its_prefix() {
        let (_folder, mut target) = site();
        target.prefix = b"/shop".to_vec();
        let mut scripts = Scripts::new(target.clone());
        for (path, expected) in [
            ("/shop", "301 /shop/"),
            ("/shop/", "/shop/index.php -"),
            ("/shop/a.php/info", "/shop/a.php /info"),
            ("/shop/dir", "301 /shop/dir/"),
            ("/shop/none.php", "404"),
            ("/a.php", "404"),
            ("/shopping/a.php", "404"),
            ("/", "404"),
        ] {
            assert_eq!(show(&mut scripts, path), expected, "{path}");
        }
        target.script = Some(b"/index.php".to_vec());
        let mut scripts = Scripts::new(target);
        for (path, expected) in [
            ("/shop", "/shop/index.php -"),
            ("/shop/cart", "/shop/index.php -"),
            ("/shop/index.php/cart", "/shop/index.php /cart"),
            ("/cart", "404"),
        ] {
            assert_eq!(show(&mut scripts, path), expected, "{path}");
        }
    }

    #[test]
    fn an_answer_is_kept_for_its_time_and_no_longer() {
        let (folder, target) = site();
        let mut scripts = Scripts::new(target);
        assert!(matches!(
            scripts.resolve(b"/a.php", 10, 2),
            Resolved::Script(_)
        ));
        fs::remove_file(folder.path().join("a.php")).expect("removed");
        assert!(matches!(
            scripts.resolve(b"/a.php", 11, 2),
            Resolved::Script(_)
        ));
        assert!(matches!(
            scripts.resolve(b"/a.php", 12, 2),
            Resolved::NotFound
        ));
    }

    #[test]
    fn the_folder_of_two_scripts_has_one_number() {
        let (_folder, target) = site();
        let mut scripts = Scripts::new(target);
        let (Resolved::Script(a), Resolved::Script(b)) = (
            scripts.resolve(b"/a.php", 0, 0),
            scripts.resolve(b"/", 0, 0),
        ) else {
            panic!("both are scripts");
        };
        assert_eq!(a.directory.number, b.directory.number);
    }
}
