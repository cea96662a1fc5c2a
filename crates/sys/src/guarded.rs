//! Opening files by paths that other users may change.
//!
//! Called by main, which is root and opens files that a configuration names, in folders that other users may own. A path is walked name by
//! name, each opened below the folder before it, so that nothing can be exchanged between check and use. A link is followed only in a
//! folder whose names only root and this process's own user can change; in any other folder a link, a FIFO, a device or a file with a
//! second name is refused. That is what `openat2` with `RESOLVE_NO_SYMLINKS` does for the names that matter, on every kernel, and it leaves
//! the links that an administrator has made (`/var/log` on another disk, `access.log` to `/dev/stdout` in a container). What must never
//! happen: that a call blocks (a FIFO without a reader), or touches a file that the path's owner could not have touched.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::credentials;
use crate::error::context;

/// Links followed on the way; the kernel follows as many (path_resolution(7)).
const MOST_LINKS: u32 = 40;

/// Tries to open a name that others make and remove meanwhile.
const TRIES: u32 = 8;

/// The users that can change what the names in a folder mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hands {
    /// Root and this process's user.
    Ours,
    /// Its owner, or a group.
    Theirs,
    /// All users, as in `/tmp`.
    All,
}

impl Hands {
    /// POSIX access lists show in the bits of the group (acl(5)).
    fn of(folder: &Stat) -> Hands {
        const WRITE: u32 = 0o2;
        let user = credentials::current_user();
        let is_own_group =
            folder.st_gid == 0 || (user != 0 && folder.st_gid == credentials::current_group());
        if folder.st_mode & WRITE != 0 {
            Hands::All
        } else if (folder.st_uid != 0 && folder.st_uid != user)
            || (folder.st_mode & (WRITE << 3) != 0 && !is_own_group)
        {
            Hands::Theirs
        } else {
            Hands::Ours
        }
    }
}

/// An open folder, and where it really is.
#[derive(Debug)]
pub struct OpenFolder {
    handle: OwnedFd,
    path: PathBuf,
    hands: Hands,
}

impl AsFd for OpenFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl OpenFolder {
    fn open(parent: BorrowedFd<'_>, name: &OsStr, path: PathBuf) -> io::Result<OpenFolder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        let hands = Hands::of(&rustix::fs::fstat(&handle)?);
        Ok(OpenFolder {
            handle,
            path,
            hands,
        })
    }

    fn start(path: &Path) -> io::Result<OpenFolder> {
        match path.is_absolute() {
            true => OpenFolder::open(CWD, OsStr::new("/"), PathBuf::from("/")),
            false => OpenFolder::open(CWD, OsStr::new("."), std::env::current_dir()?),
        }
    }

    /// Where it really is: no part of this path is a link.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes its owner.
    pub fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        own(self.handle.as_fd(), Some(user), Some(group)).map_err(|e| {
            context(
                format!("changing the owner of `{}`", self.path.display()),
                e,
            )
        })
    }

    /// A path that means this very folder for as long as it is open, for calls that take no descriptor.
    pub fn handle_path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd()).into()
    }
}

fn own(file: BorrowedFd<'_>, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
    let user = user.map(rustix::fs::Uid::from_raw);
    let group = group.map(rustix::fs::Gid::from_raw);
    Ok(rustix::fs::chownat(
        file,
        "",
        user,
        group,
        AtFlags::EMPTY_PATH,
    )?)
}

/// A name in a folder that has been reached; the file may not be there.
#[derive(Debug)]
pub struct NameInFolder {
    folder: OpenFolder,
    name: OsString,
}

/// One step of a path that has yet to be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathComponent {
    Root,
    Up,
    Down(OsString),
}

fn steps(path: &Path) -> Vec<PathComponent> {
    path.components()
        .filter_map(|component| match component {
            Component::RootDir => Some(PathComponent::Root),
            Component::ParentDir => Some(PathComponent::Up),
            Component::Normal(name) => Some(PathComponent::Down(name.to_owned())),
            Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// The way along a path.
struct Walk {
    folder: OpenFolder,
    left: VecDeque<PathComponent>,
    links: u32,
    /// Mode of folders that are made where they are missing.
    make: Option<u32>,
}

impl Walk {
    fn begin(path: &Path, make: Option<u32>) -> io::Result<Walk> {
        Ok(Walk {
            folder: OpenFolder::start(path)?,
            left: steps(path).into(),
            links: 0,
            make,
        })
    }

    /// Walks to the folder that holds the last name, and returns that name.
    fn find_last_name(&mut self) -> io::Result<OsString> {
        loop {
            match self.left.pop_front() {
                Some(PathComponent::Down(name)) if self.left.is_empty() => return Ok(name),
                Some(step) => self.go(step)?,
                None => return Err(io::ErrorKind::IsADirectory.into()),
            }
        }
    }

    fn go(&mut self, step: PathComponent) -> io::Result<()> {
        self.folder = match step {
            PathComponent::Root => OpenFolder::open(CWD, OsStr::new("/"), PathBuf::from("/"))?,
            PathComponent::Up => {
                let mut path = self.folder.path.clone();
                path.pop();
                OpenFolder::open(self.folder.as_fd(), OsStr::new(".."), path)?
            }
            PathComponent::Down(name) => return self.go_down(name),
        };
        Ok(())
    }

    fn go_down(&mut self, name: OsString) -> io::Result<()> {
        let path = self.folder.path.join(&name);
        for _ in 0..TRIES {
            match OpenFolder::open(self.folder.as_fd(), &name, path.clone()) {
                Ok(folder) => {
                    self.folder = folder;
                    return Ok(());
                }
                // A link, or no folder at all (open(2), O_NOFOLLOW with O_DIRECTORY).
                Err(error) if is_any(&error, &[Errno::LOOP, Errno::NOTDIR]) => {
                    return match self.kind(&name)? {
                        Some(FileType::Symlink) => self.follow(&name),
                        _ => Err(error),
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let mode = self.make.ok_or(error)?;
                    match rustix::fs::mkdirat(&self.folder, &name, Mode::from_raw_mode(mode)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn kind(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        match rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts where the link leads in front of what is left.
    fn follow(&mut self, name: &OsStr) -> io::Result<()> {
        let path = self.folder.path.join(name);
        if self.folder.hands != Hands::Ours {
            return Err(refused(format!(
                "`{}` is a link in a folder that other users can change; links are followed only in folders that only root \
                 (or the server's own user) can change: write the real path, or change the folder's owner and mode",
                path.display()
            )));
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&self.folder, name, Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        for step in steps(&target).into_iter().rev() {
            self.left.push_front(step);
        }
        Ok(())
    }

    /// The rest, if it is a path from the root.
    fn absolute_rest(&self) -> Option<PathBuf> {
        let mut left = self.left.iter();
        if left.next() != Some(&PathComponent::Root) {
            return None;
        }
        let mut path = PathBuf::from("/");
        for step in left {
            path.push(match step {
                PathComponent::Down(name) => name.as_os_str(),
                PathComponent::Up => OsStr::new(".."),
                PathComponent::Root => OsStr::new("/"),
            });
        }
        Some(path)
    }
}

fn is_any(error: &io::Error, numbers: &[Errno]) -> bool {
    numbers
        .iter()
        .any(|number| error.raw_os_error() == Some(number.raw_os_error()))
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

/// Opens a folder; with `make`, those that are missing are made with this mode.
pub fn folder(path: &Path, make: Option<u32>) -> io::Result<OpenFolder> {
    let mut walk = Walk::begin(path, make)?;
    while let Some(step) = walk.left.pop_front() {
        walk.go(step)?;
    }
    Ok(walk.folder)
}

/// The folder of a path, reached, and the last name of it. A link that the name is itself is not followed.
pub fn named(path: &Path) -> io::Result<NameInFolder> {
    let mut walk = Walk::begin(path, None)?;
    let name = walk.find_last_name()?;
    Ok(NameInFolder {
        folder: walk.folder,
        name,
    })
}

/// Where a log goes.
#[derive(Debug)]
pub enum LogPlace {
    /// To a descriptor that this process was started with.
    Stream(OwnedFd),
    /// To a file.
    File(NameInFolder),
}

/// The stream that a path means by its name. Opening `/dev/stdout` fails where it is a socket (systemd's journal), and
/// where it is a file it would be written from two places at once.
fn stream(path: &Path) -> Option<io::Result<OwnedFd>> {
    let stream = match path.as_os_str().as_bytes() {
        b"/dev/stdout" | b"/proc/self/fd/1" | b"/dev/fd/1" => rustix::stdio::stdout(),
        b"/dev/stderr" | b"/proc/self/fd/2" | b"/dev/fd/2" => rustix::stdio::stderr(),
        _ => return None,
    };
    Some(rustix::io::fcntl_dupfd_cloexec(stream, 3).map_err(io::Error::from))
}

/// Finds where the log of this path is to be; nothing is opened or made yet.
pub fn log_place(path: &Path) -> io::Result<LogPlace> {
    let mut walk = Walk::begin(path, None)?;
    loop {
        if let Some(stream) = walk.absolute_rest().as_deref().and_then(stream) {
            return stream.map(LogPlace::Stream);
        }
        let name = walk.find_last_name()?;
        if walk.kind(&name)? != Some(FileType::Symlink) {
            return Ok(LogPlace::File(NameInFolder {
                folder: walk.folder,
                name,
            }));
        }
        walk.follow(&name)?;
    }
}

impl NameInFolder {
    /// Where it really is.
    pub fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    fn stat(&self) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a log to append, and makes it where it is missing. Never waits.
    pub fn open_log(&self, mode: u32) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::APPEND;
        let file = self.open(flags, mode, is_log_device)?;
        // It is a file or a terminal: what follows may wait for the disk as always.
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        Ok(file)
    }

    /// Opens a regular file to read and write, and makes it where it is missing; what it holds stays.
    pub fn open_file(&self, mode: u32) -> io::Result<OwnedFd> {
        self.open(OFlags::RDWR, mode, |_| false)
    }

    fn open(
        &self,
        flags: OFlags,
        mode: u32,
        is_device_allowed: fn(&Stat) -> bool,
    ) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let allows = |stat: &Stat| self.check(stat, is_device_allowed);
        for _ in 0..TRIES {
            // Looked at before it is opened: opening a device may do something.
            let make = match self.stat()? {
                Some(stat) => allows(&stat).map(|()| OFlags::empty())?,
                None => OFlags::CREATE | OFlags::EXCL,
            };
            let mode = Mode::from_raw_mode(mode);
            match rustix::fs::openat(&self.folder, &self.name, flags | make, mode) {
                Ok(file) => {
                    allows(&rustix::fs::fstat(&file)?)?;
                    return Ok(file);
                }
                Err(Errno::EXIST | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(refused(format!(
            "`{}` keeps appearing and disappearing",
            self.path().display()
        )))
    }

    fn check(&self, stat: &Stat, is_device_allowed: fn(&Stat) -> bool) -> io::Result<()> {
        let wrong = |what: &str| {
            let path = self.path();
            Err(refused(format!("`{}` {what}", path.display())))
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::CharacterDevice if is_device_allowed(stat) => return Ok(()),
            FileType::Symlink => return wrong("is a link that was just made; not followed"),
            FileType::Fifo => {
                return wrong(
                    "is a FIFO; a regular file is expected: to pipe a log, write to `/dev/stdout` or `/dev/stderr`",
                );
            }
            FileType::Directory => return wrong("is a folder; a regular file is expected"),
            FileType::Socket => return wrong("is a socket; a regular file is expected"),
            _ => return wrong("is a device; a regular file is expected"),
        }
        if self.folder.hands != Hands::Ours && stat.st_nlink > 1 {
            return wrong(
                "has a second hard link elsewhere, and other users can change its folder; it is not written to: remove it, or move \
                 the log to a folder that only root can change",
            );
        }
        let is_foreign = stat.st_uid != 0 && stat.st_uid != credentials::current_user();
        if self.folder.hands == Hands::All && is_foreign {
            return wrong(
                "belongs to another user, in a world-writable folder; it is not written to: remove it, or \
                 choose another folder",
            );
        }
        Ok(())
    }

    /// True if it is the name of this open file.
    pub fn is(&self, file: BorrowedFd<'_>) -> io::Result<bool> {
        let own = rustix::fs::fstat(file)?;
        let found = self.stat()?;
        Ok(found.is_some_and(|found| (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)))
    }

    /// Removes it if it is still the name of this open file.
    pub fn remove_if(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        if self.is(file)? {
            rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Removes it if it is a socket.
    pub fn remove_socket(&self) -> io::Result<()> {
        self.expect_socket()?;
        Ok(rustix::fs::unlinkat(
            &self.folder,
            &self.name,
            AtFlags::empty(),
        )?)
    }

    fn expect_socket(&self) -> io::Result<()> {
        let stat = self.stat()?.ok_or(io::ErrorKind::NotFound)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => Ok(()),
            _ => Err(refused(format!(
                "`{}` is not a socket",
                self.path().display()
            ))),
        }
    }

    /// Changes the owner of a socket that this process has made.
    pub fn give_socket_to(&self, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let is_ours = FileType::from_raw_mode(stat.st_mode) == FileType::Socket
            && stat.st_uid == credentials::current_user();
        if !is_ours {
            return Err(refused(format!(
                "`{}` is not the socket that was just made",
                self.path().display()
            )));
        }
        own(file.as_fd(), user, group)
    }
}

/// Character devices that a log may be written to, by their numbers (devices.txt of the kernel): null, full, tty, console.
fn is_log_device(stat: &Stat) -> bool {
    const ALLOWED: [(u32, u32); 4] = [(1, 3), (1, 7), (5, 0), (5, 1)];
    let device = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    ALLOWED.contains(&device)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tutti_testkit::skip;

    use super::*;

    /// A folder that others can change as if it were theirs.
    fn shared_folder(mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
        folder
    }

    fn append(path: &Path, text: &str) -> io::Result<()> {
        match log_place(path)? {
            LogPlace::File(named) => {
                let mut file = fs::File::from(named.open_log(0o644)?);
                file.write_all(text.as_bytes())
            }
            LogPlace::Stream(_) => Err(io::Error::other("a stream")),
        }
    }

    /// Issue 10, 1.4: root followed links at a log's rotation.
    #[test]
    fn links_are_followed_only_where_no_other_user_could_have_made_them() {
        let (own, shared) = (tempfile::tempdir().unwrap(), shared_folder(0o777));
        let target = own.path().join("target");
        fs::write(&target, "").unwrap();
        symlink(&target, own.path().join("log")).unwrap();
        symlink(own.path(), own.path().join("folder")).unwrap();
        append(&own.path().join("log"), "a").unwrap();
        append(&own.path().join("folder/log"), "b").unwrap();
        append(&own.path().join("folder/./new"), "c").unwrap();
        symlink(&target, shared.path().join("log")).unwrap();
        symlink(own.path(), shared.path().join("folder")).unwrap();
        for path in ["log", "folder/target", "folder/other"] {
            let error = append(&shared.path().join(path), "x").unwrap_err();
            assert!(error.to_string().contains("is a link"), "{error}");
        }
        symlink("loop", own.path().join("loop")).unwrap();
        assert!(append(&own.path().join("loop"), "x").is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "ab");
        assert_eq!(fs::read_to_string(own.path().join("new")).unwrap(), "c");
        assert!(!own.path().join("other").exists());
    }

    /// Issue 10, 1.4: a FIFO as log stopped main for ever.
    #[test]
    fn only_regular_files_are_opened_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let error = append(&fifo, "x").unwrap_err();
        assert!(error.to_string().contains("is a FIFO"), "{error}");
        assert!(append(folder.path(), "x").is_err());
        assert!(append(Path::new("/dev/zero"), "x").is_err());
        assert!(append(Path::new("/dev/null"), "x").is_ok());
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(append(&folder.path().join("socket"), "x").is_err());
        for name in ["/dev/stdout", "/proc/self/fd/2"] {
            assert!(matches!(
                log_place(Path::new(name)),
                Ok(LogPlace::Stream(_))
            ));
        }
        symlink("/dev/stderr", folder.path().join("error.log")).unwrap();
        let place = log_place(&folder.path().join("error.log"));
        assert!(matches!(place, Ok(LogPlace::Stream(_))), "{place:?}");
    }

    #[test]
    fn a_second_name_is_a_way_to_another_file() {
        let shared = shared_folder(0o777);
        let (victim, log) = (shared.path().join("victim"), shared.path().join("log"));
        fs::write(&victim, "").unwrap();
        fs::hard_link(&victim, &log).unwrap();
        assert!(append(&log, "x").is_err());
        fs::remove_file(&log).unwrap();
        append(&log, "x").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "");
    }

    #[test]
    fn a_file_of_another_user_is_not_written_to_where_everybody_can_make_one() {
        if !credentials::is_root() {
            skip!("files of another user need root");
        }
        let (all, theirs) = (shared_folder(0o1777), shared_folder(0o755));
        std::os::unix::fs::chown(theirs.path(), Some(65534), None).unwrap();
        for folder in [&all, &theirs] {
            fs::write(folder.path().join("log"), "").unwrap();
            std::os::unix::fs::chown(folder.path().join("log"), Some(65534), None).unwrap();
        }
        assert!(append(&all.path().join("log"), "x").is_err());
        // A folder for logs that belongs to their reader is usual.
        append(&theirs.path().join("log"), "x").unwrap();
        symlink("log", theirs.path().join("link")).unwrap();
        assert!(append(&theirs.path().join("link"), "x").is_err());
    }

    #[test]
    fn missing_folders_are_made_and_not_through_foreign_links() {
        let (own, shared) = (tempfile::tempdir().unwrap(), shared_folder(0o777));
        folder(&own.path().join("a/b/c"), Some(0o700)).unwrap();
        let mode = own
            .path()
            .join("a/b")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(folder(&own.path().join("a/d"), None).is_err());
        symlink(own.path(), shared.path().join("link")).unwrap();
        assert!(folder(&shared.path().join("link/e"), Some(0o700)).is_err());
        assert!(!own.path().join("e").exists());
        let made = folder(&own.path().join("a"), None).unwrap();
        assert_eq!(made.path(), own.path().join("a"));
        fs::write(made.handle_path().join("file"), "").unwrap();
        assert!(own.path().join("a/file").exists());
    }
}
