//! Detects changes of an application's files (`watch`): inotify, in the prototype, which sees them as the application does.
//!
//! Owned by the prototype's loop, which polls [`Watch::descriptor`], calls [`Watch::look`] and reports [`Watch::due`] to the router. What
//! must never happen: a restart because of a file that the application writes itself. So only files of program code count, and folders
//! where applications keep their data are excluded.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Quiet time required after the last change: an editor writes a file in several steps, a deployment many files.
const SETTLE: Duration = Duration::from_millis(200);

/// Longest wait while changes continue.
const LONGEST_SETTLE: Duration = Duration::from_secs(2);

/// Shortest time between two restarts: an application that writes its own code at each start must not spin.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// Most folders of one application: half of `fs.inotify.max_user_watches` of a small machine (8192, inotify(7)).
const MOST_FOLDERS: usize = 4096;

/// Folders without code, or with code that is not edited in place.
const LEFT_OUT: [&str; 16] = [
    "node_modules",
    "__pycache__",
    "site-packages",
    "venv",
    "cache",
    "caches",
    "tmp",
    "temp",
    "log",
    "logs",
    "sessions",
    "uploads",
    "storage",
    "var",
    "media",
    "data",
];

/// The extensions of program code.
const CODE: [&str; 50] = [
    "php", "php5", "php7", "php8", "phtml", "inc", "module", "theme", "py", "pyi", "pyx", "pl",
    "pm", "psgi", "t", "cgi", "rb", "ru", "erb", "rake", "js", "mjs", "cjs", "ts", "jsx", "tsx",
    "go", "java", "jar", "war", "class", "wasm", "so", "html", "htm", "twig", "tt", "tt2", "tx",
    "ep", "tmpl", "tpl", "j2", "jinja", "jinja2", "toml", "yaml", "yml", "ini", "conf",
];

/// See the module.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: OwnedFd,
    folders: HashMap<i32, PathBuf>,
    /// Files named in the configuration, which count with any extension.
    named: HashSet<PathBuf>,
    changed: Option<Changed>,
    not_before: Option<Instant>,
    /// Why not everything is watched.
    warning: Option<String>,
}

#[derive(Debug)]
struct Changed {
    path: PathBuf,
    first: Instant,
    last: Instant,
}

impl Watch {
    /// Watches these files and folders, and what is below the folders.
    pub(crate) fn new(paths: &[String]) -> std::io::Result<Watch> {
        let mut watch = Watch {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            folders: HashMap::new(),
            named: HashSet::new(),
            changed: None,
            not_before: None,
            warning: None,
        };
        for path in paths.iter().map(Path::new) {
            let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
            let Ok(real) = path.canonicalize() else {
                continue;
            };
            // A link that is changed to another target is a deployment.
            if is_link || real.is_file() {
                watch.name(path);
            }
            if real.is_file() {
                watch.name(&real);
            } else {
                watch.tree(&real);
            }
        }
        Ok(watch)
    }

    /// Watches this file, through its folder: a file that is replaced has another inode.
    fn name(&mut self, path: &Path) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return;
        };
        if let Ok(folder) = folder.canonicalize() {
            self.named.insert(folder.join(name));
            self.folder(&folder);
        }
    }

    fn tree(&mut self, root: &Path) {
        let mut waiting = vec![root.to_path_buf()];
        while let Some(folder) = waiting.pop() {
            if !self.folder(&folder) {
                return;
            }
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            let inner = entries.flatten().filter(|entry| {
                // Links are not followed: they may lead out of the application, or form a cycle.
                entry.file_type().is_ok_and(|kind| kind.is_dir())
                    && !is_left_out(&entry.file_name())
            });
            waiting.extend(inner.map(|entry| entry.path()));
        }
    }

    /// Watches a folder; false when no more can be watched.
    fn folder(&mut self, folder: &Path) -> bool {
        if self.folders.len() >= MOST_FOLDERS {
            self.warning = Some(format!(
                "`watch`: more than {MOST_FOLDERS} folders; changes below `{}` and others are not noticed",
                folder.display()
            ));
            return false;
        }
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        match inotify::add_watch(&self.inotify, folder, flags) {
            Ok(number) => {
                self.folders.insert(number, folder.to_path_buf());
                true
            }
            Err(rustix::io::Errno::NOSPC) => {
                self.warning = Some(
                    "`watch`: the system allows no more watches (fs.inotify.max_user_watches); not all changes are noticed"
                        .to_owned(),
                );
                false
            }
            // Unreadable, or removed already.
            Err(_) => true,
        }
    }

    /// The descriptor to poll for reading.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Takes the warning to be logged, once.
    pub(crate) fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// Reads the events.
    pub(crate) fn look(&mut self, now: Instant) {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut events = Vec::new();
        // The duplicate is needed because the reader borrows what `note` changes; this is rare enough.
        let Ok(inotify) = self.inotify.try_clone() else {
            return;
        };
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event
                .file_name()
                .map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
            events.push((event.wd(), event.events(), name));
        }
        for (number, what, name) in events {
            self.note(number, what, name.as_deref(), now);
        }
    }

    fn note(&mut self, number: i32, what: ReadFlags, name: Option<&OsStr>, now: Instant) {
        if what.contains(ReadFlags::IGNORED) {
            self.folders.remove(&number);
            return;
        }
        let (Some(folder), Some(name)) = (self.folders.get(&number), name) else {
            return;
        };
        let path = folder.join(name);
        let is_counted = if what.contains(ReadFlags::ISDIR) {
            let is_new = what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            let is_wanted = !is_left_out(name);
            if is_new && is_wanted {
                self.tree(&path);
            }
            // A folder that is moved in or removed takes code with it. An empty one does not matter.
            is_wanted
                && (what.intersects(ReadFlags::MOVED_TO | ReadFlags::MOVED_FROM) || has_code(&path))
        } else {
            // A new file counts when it has been written; a new link at once.
            let is_link = || std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
            let is_complete = !what.contains(ReadFlags::CREATE) || is_link();
            is_complete && (self.named.contains(&path) || is_code(name))
        };
        if is_counted {
            match &mut self.changed {
                Some(changed) => changed.last = now,
                None => {
                    self.changed = Some(Changed {
                        path,
                        first: now,
                        last: now,
                    });
                }
            }
        }
    }

    /// When to call [`due`](Self::due) next.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let changed = self.changed.as_ref()?;
        let settled = (changed.last + SETTLE).min(changed.first + LONGEST_SETTLE);
        Some(self.not_before.map_or(settled, |at| at.max(settled)))
    }

    /// Returns the first file that changed, once the changes have settled.
    pub(crate) fn due(&mut self, now: Instant) -> Option<PathBuf> {
        if self.due_at()? > now {
            return None;
        }
        self.not_before = Some(now + SHORTEST_PAUSE);
        self.changed.take().map(|changed| changed.path)
    }
}

fn is_left_out(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.') || LEFT_OUT.iter().any(|left| name == OsStr::new(left))
}

fn is_code(name: &OsStr) -> bool {
    // Many applications are configured by `.env`; other hidden files belong to editors.
    if name.as_bytes().starts_with(b".") {
        return name == ".env";
    }
    Path::new(name)
        .extension()
        .is_some_and(|extension| CODE.iter().any(|code| extension.eq_ignore_ascii_case(code)))
}

fn has_code(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| is_code(&entry.file_name())))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::fs;

    use super::*;

    struct Site {
        folder: tempfile::TempDir,
        watch: Watch,
    }

    fn site() -> Site {
        let folder = tempfile::tempdir().unwrap();
        for inner in ["lib/deep", "cache", ".git", "node_modules/x"] {
            fs::create_dir_all(folder.path().join(inner)).unwrap();
        }
        let watch = Watch::new(&[folder.path().to_str().unwrap().to_owned()]).unwrap();
        Site { folder, watch }
    }

    impl Site {
        fn write(&self, path: &str) {
            fs::write(self.folder.path().join(path), "x").unwrap();
        }

        /// The reported change once all has settled.
        fn reported(&mut self) -> Option<String> {
            let now = Instant::now();
            self.watch.look(now);
            let path = self.watch.due(now + LONGEST_SETTLE + SHORTEST_PAUSE * 2)?;
            self.watch.not_before = None;
            let root = self.folder.path().canonicalize().unwrap();
            Some(path.strip_prefix(root).unwrap().display().to_string())
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know `inotify_init1`")]
    fn code_counts_and_data_does_not() {
        let mut site = site();
        for data in [
            "app.sqlite",
            "app.sqlite-journal",
            "error.log",
            "photo.jpg",
            "lib/x.pyc",
            ".index.php.swp",
            "index.php~",
            "cache/page.php",
            ".git/x.py",
            "node_modules/x/index.js",
        ] {
            site.write(data);
            assert_eq!(site.reported(), None, "{data}");
        }
        for code in ["index.php", "lib/deep/a.PY", ".env", "lib/settings.toml"] {
            site.write(code);
            assert_eq!(site.reported().as_deref(), Some(code));
        }
        fs::remove_file(site.folder.path().join("index.php")).unwrap();
        assert_eq!(site.reported().as_deref(), Some("index.php"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know `inotify_init1`")]
    fn new_folders_are_watched_too() {
        let mut site = site();
        fs::create_dir(site.folder.path().join("new")).unwrap();
        assert_eq!(site.reported(), None, "an empty folder is no change");
        site.write("new/module.pm");
        assert_eq!(site.reported().as_deref(), Some("new/module.pm"));
        fs::rename(
            site.folder.path().join("new"),
            site.folder.path().join("old"),
        )
        .unwrap();
        assert_eq!(site.reported().as_deref(), Some("new"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know `inotify_init1`")]
    fn changes_are_reported_when_they_have_settled_and_not_too_often() {
        let mut site = site();
        let now = Instant::now();
        assert_eq!(site.watch.due_at(), None);
        site.write("index.php");
        site.watch.look(now);
        assert_eq!(site.watch.due_at(), Some(now + SETTLE));
        site.write("lib/a.php");
        site.watch.look(now + SETTLE / 2);
        assert_eq!(site.watch.due_at(), Some(now + SETTLE / 2 + SETTLE));
        assert_eq!(site.watch.due(now + SETTLE), None);
        let at = now + LONGEST_SETTLE;
        assert!(site.watch.due(at).is_some());
        site.write("index.php");
        site.watch.look(at);
        assert_eq!(site.watch.due_at(), Some(at + SHORTEST_PAUSE));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not know `inotify_init1`")]
    fn named_files_and_links_count_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for release in ["one", "two"] {
            fs::create_dir(path(release)).unwrap();
        }
        fs::write(path("server"), "x").unwrap();
        std::os::unix::fs::symlink(path("one"), path("current")).unwrap();
        let paths = ["server", "current"].map(|name| path(name).to_str().unwrap().to_owned());
        let mut site = Site {
            watch: Watch::new(&paths).unwrap(),
            folder,
        };
        site.write("other");
        assert_eq!(site.reported(), None);
        site.write("server");
        assert_eq!(site.reported().as_deref(), Some("server"));
        let new = site.folder.path().join("new");
        std::os::unix::fs::symlink(site.folder.path().join("two"), &new).unwrap();
        fs::rename(&new, site.folder.path().join("current")).unwrap();
        assert_eq!(site.reported().as_deref(), Some("current"));
    }
}
