//! Finds the script of a FastCGI application for a path.
//!
//! If its folder is visible here, the file is checked, and the result is kept briefly, so that a frequent request costs no system call. A
//! folder that is not visible belongs to another machine or user: then the name alone decides.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use tutti_config::model::Scripts;
use tutti_conn::clock::{Millis, now_millis};
use tutti_gateway::cgi::{FileKind, Script, ScriptRules, find_script};

/// Time for which a result is used: as long as PHP uses its own (`opcache.revalidate_freq`).
const KEPT_FOR: Millis = 2_000;

/// Most results kept; more distinct paths empty the table.
const KEPT_MAX: usize = 4096;

/// A script, and its name in the request.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptTarget {
    /// `SCRIPT_NAME`.
    pub name: Box<[u8]>,
    /// Where `PATH_INFO` begins in the path of the request, if it has one.
    pub path_info_at: Option<usize>,
}

/// Why there is no script for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoScript {
    /// It is a folder, without a slash at its end.
    Folder,
    /// The status to answer with.
    Status(u16),
}

/// Scripts found recently by one thread.
#[derive(Default)]
pub struct ScriptCache(RefCell<Vec<Kept>>);

struct Kept {
    scripts: Scripts,
    found: FxHashMap<Box<[u8]>, (Millis, Rc<ScriptTarget>)>,
}

impl ScriptCache {
    fn get(&self, scripts: &Scripts, path: &[u8], now: Millis) -> Option<Rc<ScriptTarget>> {
        let kept = self.0.borrow();
        let kept = kept.iter().find(|kept| kept.scripts == *scripts)?;
        let (since, target) = kept.found.get(path)?;
        (now.saturating_sub(*since) < KEPT_FOR).then(|| Rc::clone(target))
    }

    fn put(&self, scripts: &Scripts, path: &[u8], now: Millis, target: &Rc<ScriptTarget>) {
        let mut all = self.0.borrow_mut();
        if all.iter().map(|kept| kept.found.len()).sum::<usize>() >= KEPT_MAX {
            all.clear();
        }
        let position = all.iter().position(|kept| kept.scripts == *scripts);
        let index = position.unwrap_or_else(|| {
            all.push(Kept {
                scripts: scripts.clone(),
                found: FxHashMap::default(),
            });
            all.len() - 1
        });
        if let Some(kept) = all.get_mut(index) {
            kept.found.insert(path.into(), (now, Rc::clone(target)));
        }
    }
}

/// Finds the script for `path`.
///
/// # Errors
/// There is none.
pub fn find(
    scripts: &Scripts,
    path: &[u8],
    cache: &ScriptCache,
) -> Result<Rc<ScriptTarget>, NoScript> {
    let now = now_millis();
    // If one script handles everything, only the part of the path after its name matters.
    let key = match &scripts.script {
        Some(name) if info_at(name, path).is_none() => b"",
        _ => path,
    };
    if let Some(target) = cache.get(scripts, key, now) {
        return Ok(target);
    }
    let mut file = Vec::new();
    let probe = |name: &[u8]| {
        file.clear();
        file.extend_from_slice(&scripts.root);
        file.extend_from_slice(name);
        if scripts.check_files {
            kind(&file, &scripts.root)
        } else {
            FileKind::Unknown
        }
    };
    let found = match &scripts.script {
        Some(name) => single(name, path, probe),
        None => {
            let rules = ScriptRules {
                suffixes: &scripts.suffixes,
                index: &scripts.index,
            };
            find_script(path, &rules, probe)
        }
    };
    match found {
        Script::Found { name, path_info_at } => {
            let target = Rc::new(ScriptTarget {
                name: name.into(),
                path_info_at,
            });
            cache.put(scripts, key, now, &target);
            Ok(target)
        }
        Script::Folder => Err(NoScript::Folder),
        Script::NotFound => Err(NoScript::Status(404)),
        Script::Forbidden => Err(NoScript::Status(403)),
    }
}

/// The only script; `path` determines only `PATH_INFO`.
fn single(name: &[u8], path: &[u8], mut probe: impl FnMut(&[u8]) -> FileKind) -> Script {
    match probe(name) {
        FileKind::File | FileKind::Unknown => Script::Found {
            name: name.to_vec(),
            path_info_at: info_at(name, path),
        },
        FileKind::Missing => Script::NotFound,
        FileKind::Unreadable | FileKind::Other | FileKind::Directory => Script::Forbidden,
    }
}

/// Returns where the path continues after the name of the only script.
fn info_at(name: &[u8], path: &[u8]) -> Option<usize> {
    let rest = path.strip_prefix(name)?;
    (rest.first() == Some(&b'/')).then_some(name.len())
}

fn kind(file: &[u8], root: &[u8]) -> FileKind {
    let look = |path: &[u8]| std::fs::metadata(Path::new(OsStr::from_bytes(path)));
    match look(file) {
        Ok(found) if found.is_dir() => FileKind::Directory,
        // Only the server itself knows whether it may read the file.
        Ok(found) if found.is_file() => FileKind::File,
        Ok(_) => FileKind::Other,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => FileKind::Unknown,
        Err(_) if look(root).is_ok_and(|root| root.is_dir()) => FileKind::Missing,
        Err(_) => FileKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(root: &Path) -> Scripts {
        Scripts {
            root: root.as_os_str().as_bytes().into(),
            index: b"index.php"[..].into(),
            script: None,
            suffixes: vec![b".php"[..].into()],
            check_files: true,
        }
    }

    fn show(scripts: &Scripts, path: &str) -> String {
        match find(scripts, path.as_bytes(), &ScriptCache::default()) {
            Ok(target) => {
                let info = target.path_info_at.and_then(|at| path.get(at..));
                format!("{} {info:?}", String::from_utf8_lossy(&target.name))
            }
            Err(NoScript::Folder) => "folder".to_owned(),
            Err(NoScript::Status(status)) => status.to_string(),
        }
    }

    #[test]
    fn visible_files_are_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.php"), "").expect("a file");
        std::fs::write(folder.path().join("upload.jpg"), "").expect("a file");
        let mut scripts = scripts(folder.path());
        assert_eq!(show(&scripts, "/a.php/b"), "/a.php Some(\"/b\")");
        assert_eq!(show(&scripts, "/upload.jpg/x.php"), "404");
        assert_eq!(show(&scripts, "/none.php"), "404");
        scripts.check_files = false;
        assert_eq!(show(&scripts, "/none.php"), "/none.php None");
        scripts.check_files = true;
        scripts.script = Some(b"/a.php"[..].into());
        assert_eq!(show(&scripts, "/whatever/b.php"), "/a.php None");
        assert_eq!(show(&scripts, "/a.php/b"), "/a.php Some(\"/b\")");
        scripts.script = Some(b"/none.php"[..].into());
        assert_eq!(show(&scripts, "/"), "404");
    }

    #[test]
    fn invisible_files_are_assumed_to_exist() {
        let scripts = scripts(Path::new("/there/is/no/such/folder"));
        assert_eq!(show(&scripts, "/a.php/b"), "/a.php Some(\"/b\")");
        assert_eq!(show(&scripts, "/"), "/index.php None");
        assert_eq!(show(&scripts, "/style.css"), "404");
    }

    #[test]
    fn results_are_cached_for_their_own_rules() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.php"), "").expect("a file");
        let cache = ScriptCache::default();
        let mut scripts = scripts(folder.path());
        assert!(find(&scripts, b"/a.php", &cache).is_ok());
        std::fs::remove_file(folder.path().join("a.php")).expect("removed");
        assert!(find(&scripts, b"/a.php", &cache).is_ok());
        scripts.index = b"other.php"[..].into();
        let found = find(&scripts, b"/a.php", &cache);
        assert_eq!(found, Err(NoScript::Status(404)));
    }
}
