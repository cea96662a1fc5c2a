//! Files as they are at one moment, although links on the way to them change meanwhile.
//!
//! A folder with a certificate and its key, or with a configuration, may be replaced as a whole by a link: the kubelet does so. A [`PathSnapshot`]
//! reads each link once and opens each folder once, and opens all files through those. Called by main for files that belong together.
//! Must never happen: that one link leads two files of a moment to different folders.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::Errno;

/// Links followed on the way; the kernel follows as many (path_resolution(7)).
const MOST_LINKS: u32 = 40;

/// The links and folders that have been met on the way to files, each by its path without links.
#[derive(Debug, Default)]
pub struct PathSnapshot {
    met: HashMap<PathBuf, Met>,
}

#[derive(Debug)]
enum Met {
    Folder(OwnedFd),
    Link(PathBuf),
}

/// The kind of a name in a folder.
enum Kind {
    Folder,
    Link(PathBuf),
    File,
}

impl PathSnapshot {
    /// Opens a file for reading, with these flags beside.
    pub fn open(&mut self, path: &Path, flags: OFlags) -> io::Result<File> {
        let mut left = Vec::new();
        push_names(&mut left, &std::path::absolute(path)?);
        let root = PathBuf::from("/");
        let mut at = root.clone();
        self.enter(&root, CWD, OsStr::new("/"))?;
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            match self.kind(&at, &name)? {
                Kind::Link(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    if target.is_absolute() {
                        at.clone_from(&root);
                    }
                    push_names(&mut left, &target);
                }
                Kind::Folder if !left.is_empty() => at.push(name),
                Kind::File if !left.is_empty() => return Err(Errno::NOTDIR.into()),
                Kind::Folder | Kind::File => return open(self.folder(&at)?, &name, flags),
            }
        }
        open(self.folder(&at)?, OsStr::new("."), flags)
    }

    /// Looks at a name once: later calls return what it was then.
    fn kind(&mut self, at: &Path, name: &OsStr) -> io::Result<Kind> {
        let path = at.join(name);
        match self.met.get(&path) {
            Some(Met::Folder(_)) => return Ok(Kind::Folder),
            Some(Met::Link(target)) => return Ok(Kind::Link(target.clone())),
            None => {}
        }
        let folder = self.folder(at)?.try_clone_to_owned()?;
        match self.enter(&path, folder.as_fd(), name) {
            Ok(()) => Ok(Kind::Folder),
            Err(Errno::LOOP) => {
                let target = rustix::fs::readlinkat(&folder, name, Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                self.met.insert(path, Met::Link(target.clone()));
                Ok(Kind::Link(target))
            }
            Err(Errno::NOTDIR) => Ok(Kind::File),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a folder below another, unless it has been opened before.
    fn enter(&mut self, path: &Path, parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        if self.met.contains_key(path) {
            return Ok(());
        }
        // With a name behind it a folder is mounted that an automounter mounts when it is entered.
        let inside = Path::new(name).join(".");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = match has_magic_links(parent) {
            true => ResolveFlags::empty(),
            false => ResolveFlags::NO_SYMLINKS,
        };
        let opened = rustix::fs::openat2(parent, inside, flags, Mode::empty(), resolve)?;
        self.met.insert(path.to_owned(), Met::Folder(opened));
        Ok(())
    }

    fn folder(&self, path: &Path) -> io::Result<BorrowedFd<'_>> {
        match self.met.get(path) {
            Some(Met::Folder(folder)) => Ok(folder.as_fd()),
            Some(Met::Link(_)) | None => Err(io::ErrorKind::NotADirectory.into()),
        }
    }
}

/// Links of `/proc` lead where their text does not say (`/dev/fd/3`): the kernel follows them.
fn has_magic_links(folder: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC)
}

fn open(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let mut flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    // It was none when it was looked at.
    flags.set(OFlags::NOFOLLOW, !has_magic_links(folder));
    let opened = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    Ok(File::from(opened))
}

/// Puts the names of a path on top of those that are left, the first on top.
fn push_names(left: &mut Vec<OsString>, path: &Path) {
    let names = path
        .components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
    left.extend(names);
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    use super::*;

    fn text(moment: &mut PathSnapshot, path: &Path) -> io::Result<String> {
        let mut text = String::new();
        let mut file = moment.open(path, OFlags::empty())?;
        file.read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn a_link_and_a_folder_stay_what_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for number in ["one", "two"] {
            std::fs::create_dir(path(number)).unwrap();
            for name in ["a", "b"] {
                std::fs::write(path(number).join(name), format!("{name} of {number}")).unwrap();
            }
        }
        symlink("one", path("data")).unwrap();
        symlink("data/a", path("a")).unwrap();
        symlink(path("data/../data/b"), path("b")).unwrap();
        let mut moment = PathSnapshot::default();
        assert_eq!(text(&mut moment, &path("a")).unwrap(), "a of one");
        // Another folder in its place, by another link and by another name.
        symlink("two", path("new")).unwrap();
        std::fs::rename(path("new"), path("data")).unwrap();
        assert_eq!(text(&mut moment, &path("b")).unwrap(), "b of one");
        std::fs::rename(path("one"), path("gone")).unwrap();
        std::fs::rename(path("two"), path("one")).unwrap();
        assert_eq!(text(&mut moment, &path("one/b")).unwrap(), "b of one");
        assert_eq!(
            text(&mut PathSnapshot::default(), &path("b"))
                .unwrap_err()
                .kind(),
            io::ErrorKind::NotFound
        );
        symlink("one", path("new")).unwrap();
        std::fs::rename(path("new"), path("data")).unwrap();
        assert_eq!(
            text(&mut PathSnapshot::default(), &path("b")).unwrap(),
            "b of two"
        );
    }

    #[test]
    fn paths_mean_what_they_mean_to_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("deep/er")).unwrap();
        std::fs::write(path("deep/file"), "here").unwrap();
        symlink("deep/er", path("link")).unwrap();
        symlink("round", path("round")).unwrap();
        let error = |name: &str| text(&mut PathSnapshot::default(), &path(name)).unwrap_err();
        for (name, wanted) in [
            ("none", Errno::NOENT),
            ("round", Errno::LOOP),
            ("deep/file/more", Errno::NOTDIR),
            ("deep", Errno::ISDIR),
            ("deep/..", Errno::ISDIR),
        ] {
            assert_eq!(
                error(name).raw_os_error(),
                Some(wanted.raw_os_error()),
                "{name}"
            );
        }
        // Up from where the link leads.
        assert_eq!(
            text(&mut PathSnapshot::default(), &path("link/../file")).unwrap(),
            "here"
        );
        let (read, write) = io::pipe().unwrap();
        io::Write::write_all(&mut &write, b"of a pipe").unwrap();
        drop(write);
        for folder in ["/dev/fd", "/proc/self/fd"] {
            let named = Path::new(folder).join(read.as_raw_fd().to_string());
            let expected = if folder == "/dev/fd" { "of a pipe" } else { "" };
            assert_eq!(
                text(&mut PathSnapshot::default(), &named).unwrap(),
                expected
            );
        }
    }
}
