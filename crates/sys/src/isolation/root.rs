//! Another root of the file system: prepared by the parent, entered by the child.
//!
//! Called by [`super::IsolationPlan`]. Must never happen: a path resolved outside of the new root once the process is in it, or a mount that the rest of the
//! system sees.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use super::step::{self, Failed, failed, numbered};
use crate::error::context;

pub(crate) fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "NUL byte in a program's argument",
        )
    })
}

/// A file or folder of the system that is seen in the new root, read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    source: CString,
    target: CString,
    is_writable: bool,
    /// The folders and files that the child makes in the new `/tmp` to mount this on, outer ones first.
    made: Vec<MountPoint>,
}

/// An empty folder or file that something is mounted on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MountPoint {
    path: CString,
    is_folder: bool,
}

/// Where a new root has a file system of its own in memory, which hides what the folder has below.
const TMP: &str = "/tmp";

impl Binding {
    /// `path`, links followed, at the same place in the new root.
    pub fn read_only(path: &Path) -> io::Result<Binding> {
        Ok(Binding {
            source: c_string(path.as_os_str().as_bytes())?,
            target: c_string(path.as_os_str().as_bytes())?,
            is_writable: false,
            made: Vec::new(),
        })
    }

    /// A device: the same, but one can write to it.
    pub fn device(path: &Path) -> io::Result<Binding> {
        Ok(Binding {
            is_writable: true,
            ..Binding::read_only(path)?
        })
    }

    /// Where it will be, for messages.
    pub fn target(&self) -> &CStr {
        &self.target
    }

    /// The mount points of a path below `/tmp`, of which the last is a folder if `is_folder`.
    fn in_tmp(path: &Path, is_folder: bool) -> io::Result<Vec<MountPoint>> {
        let mut below: Vec<&Path> = path
            .ancestors()
            .take_while(|outer| *outer != Path::new(TMP))
            .collect();
        below.reverse();
        let places = below.iter().map(|outer| {
            Ok(MountPoint {
                path: c_string(outer.as_os_str().as_bytes())?,
                is_folder: is_folder || *outer != path,
            })
        });
        places.collect()
    }
}

/// The origin of `/proc` in the new root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Procfs {
    /// There is none.
    None,
    /// That of the process's own pid namespace.
    Own,
    /// That of the parent's pid namespace, with other users' processes hidden.
    Shared,
    /// The parent's own mount: all that an unprivileged user namespace may have.
    Bound,
}

/// A new root of the file system.
#[derive(Debug)]
pub struct Root {
    /// The folder.
    pub path: CString,
    bindings: Vec<Binding>,
    procfs: Procfs,
    tmpfs: bool,
}

impl Root {
    /// A root with nothing mounted.
    pub fn new(path: &Path) -> io::Result<Root> {
        Ok(Root {
            path: c_string(path.as_os_str().as_bytes())?,
            bindings: Vec::new(),
            procfs: Procfs::None,
            tmpfs: false,
        })
    }

    /// Gives it a `/proc`.
    pub fn mount_proc(&mut self, procfs: Procfs) -> io::Result<()> {
        self.procfs = procfs;
        make_mount_point(self.folder(), Path::new("/proc"), true)
    }

    /// Gives it a `/tmp` of its own. Called before anything is [bound](Self::bind).
    pub fn mount_tmp(&mut self) -> io::Result<()> {
        debug_assert!(self.bindings.is_empty());
        self.tmpfs = true;
        make_mount_point(self.folder(), Path::new(TMP), true)
    }

    fn folder(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.path.as_bytes()))
    }

    /// Binds a file or folder of the system, outer ones first. Its mount point is made in the folder of the new root, or by the child in the new
    /// `/tmp`, which hides what that folder has there.
    ///
    /// # Errors
    /// The mount point cannot be made, or there are more bindings than a child can hold.
    pub fn bind(&mut self, mut binding: Binding) -> io::Result<()> {
        if self.bindings.len() == MAX_BINDINGS {
            let message = format!("a new root takes {MAX_BINDINGS} files and folders at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let target = PathBuf::from(OsStr::from_bytes(binding.target.as_bytes()));
        let is_folder = target.is_dir();
        if self.tmpfs && target.starts_with(TMP) {
            binding.made = Binding::in_tmp(&target, is_folder)?;
        } else {
            make_mount_point(self.folder(), &target, is_folder)?;
        }
        self.bindings.push(binding);
        Ok(())
    }

    /// The binding of a place, for messages.
    pub(crate) fn binding(&self, place: usize) -> Option<&Binding> {
        self.bindings.get(place)
    }
}

/// Most bindings: the child keeps their descriptors on its stack.
const MAX_BINDINGS: usize = 64;

/// The user and group that `/tmp` of a new root belongs to, as numbers inside of the namespace and as the text of them.
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
    uid_text: CString,
    gid_text: CString,
}

impl Owner {
    pub(crate) fn new(uid: u32, gid: u32) -> io::Result<Owner> {
        Ok(Owner {
            uid,
            gid,
            uid_text: c_string(uid.to_string().as_bytes())?,
            gid_text: c_string(gid.to_string().as_bytes())?,
        })
    }

    /// Has this process make files as the owner. Returns its own ids, for the way back.
    fn make_files_as(uid: u32, gid: u32) -> (u32, u32) {
        // SAFETY: integer arguments only; each returns the id before, and changes that of this thread alone.
        let gid = unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
        // SAFETY: as above.
        let uid = unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
        (uid as u32, gid as u32)
    }
}

impl Root {
    pub(super) fn enter(&self, owner: &Owner) -> Result<(), Failed> {
        // Everything of the old root is taken hold of first; inside, every path is one of the new root.
        let mut trees: [Option<OwnedFd>; MAX_BINDINGS] = [const { None }; MAX_BINDINGS];
        for (place, (binding, tree)) in self.bindings.iter().zip(&mut trees).enumerate() {
            *tree = Some(
                binding
                    .open()
                    .map_err(|e| numbered(e, step::OPEN_BINDING, place))?,
            );
        }
        let proc = self.open_proc().map_err(|e| failed(e, step::MAKE_PROC))?;
        self.pivot().map_err(|e| failed(e, step::ENTER_ROOT))?;
        if let Some(proc) = proc {
            place(proc.as_fd(), c"/proc").map_err(|e| failed(e, step::PLACE_PROC))?;
        }
        if self.tmpfs {
            mount_tmp(owner).map_err(|e| failed(e, step::PLACE_TMP))?;
            self.make_mount_points(owner)?;
        }
        for (number, (binding, tree)) in self.bindings.iter().zip(&trees).enumerate() {
            if let Some(tree) = tree {
                place(tree.as_fd(), &binding.target)
                    .map_err(|e| numbered(e, step::PLACE_BINDING, number))?;
            }
        }
        Ok(())
    }

    /// Makes the mount points in the new `/tmp`. They are the owner's: in a user namespace this process has ids that no file can have.
    fn make_mount_points(&self, owner: &Owner) -> Result<(), Failed> {
        let own = Owner::make_files_as(owner.uid, owner.gid);
        let made = (0..).zip(&self.bindings).try_for_each(|(number, binding)| {
            let mut points = binding.made.iter();
            points
                .try_for_each(MountPoint::make)
                .map_err(|e| numbered(e, step::PLACE_BINDING, number))
        });
        let (uid, gid) = own;
        Owner::make_files_as(uid, gid);
        made
    }

    fn pivot(&self) -> rustix::io::Result<()> {
        // The new root has to be a mount of its own.
        rustix::mount::mount_bind_recursive(&*self.path, &*self.path)?;
        rustix::process::chdir(&*self.path)?;
        // Over itself: no folder for the old root is needed (pivot_root(2), NOTES).
        rustix::process::pivot_root(c".", c".")?;
        rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
        rustix::process::chdir(c"/")
    }

    /// Before the old root is left: a user namespace may only mount a `/proc` while it sees a whole one.
    fn open_proc(&self) -> rustix::io::Result<Option<OwnedFd>> {
        match self.procfs {
            Procfs::None => Ok(None),
            Procfs::Own => mount_proc(None).map(Some),
            Procfs::Shared => mount_proc(Some(c"invisible")).map(Some),
            Procfs::Bound => clone_tree(c"/proc").map(Some),
        }
    }
}

impl Binding {
    fn open(&self) -> rustix::io::Result<OwnedFd> {
        let tree = clone_tree(&self.source)?;
        if !self.is_writable {
            make_read_only(tree.as_fd())?;
        }
        Ok(tree)
    }
}

impl MountPoint {
    fn make(&self) -> rustix::io::Result<()> {
        let made = if self.is_folder {
            rustix::fs::mkdirat(CWD, &*self.path, Mode::from_raw_mode(0o755))
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, &*self.path, flags, Mode::from_raw_mode(0o444)).map(drop)
        };
        match made {
            // A folder of another binding, too.
            Err(rustix::io::Errno::EXIST) => Ok(()),
            made => made,
        }
    }
}

fn clone_tree(path: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(CWD, path, flags)
}

fn make_read_only(tree: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: descriptor, an empty NUL-terminated path, and a live structure of the size given.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done < 0 {
        let code = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        return Err(rustix::io::Errno::from_raw_os_error(code));
    }
    Ok(())
}

fn place(tree: BorrowedFd<'_>, target: &CStr) -> rustix::io::Result<()> {
    rustix::mount::move_mount(
        tree,
        c"",
        CWD,
        target,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

fn mount_proc(hide: Option<&CStr>) -> rustix::io::Result<OwnedFd> {
    let system = rustix::mount::fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    if let Some(hide) = hide {
        // The option applies to this mount alone since Linux 5.8; older kernels refuse the word, and show all.
        let _ = rustix::mount::fsconfig_set_string(&system, c"hidepid", hide);
    }
    rustix::mount::fsconfig_create(&system)?;
    rustix::mount::fsmount(
        &system,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )
}

fn mount_tmp(owner: &Owner) -> rustix::io::Result<()> {
    let system = rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&system, c"mode", c"1777")?;
    // The ids this process has are not those of its namespace.
    rustix::mount::fsconfig_set_string(&system, c"uid", &*owner.uid_text)?;
    rustix::mount::fsconfig_set_string(&system, c"gid", &*owner.gid_text)?;
    rustix::mount::fsconfig_create(&system)?;
    let mount = rustix::mount::fsmount(
        &system,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    place(mount.as_fd(), c"/tmp")
}

/// Makes `target` below `root`, a folder or a file as `source` is, unless it is there. Links are followed as a process with
/// that root would follow them: never out of it.
pub(super) fn make_mount_point(root: &Path, target: &Path, is_folder: bool) -> io::Result<()> {
    let named = |e: io::Error| {
        context(
            format!(
                "making the mount point `{}` in `{}`",
                target.display(),
                root.display()
            ),
            e,
        )
    };
    let handle = rustix::fs::open(
        root,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|e| named(e.into()))?;
    let beneath = |path: &Path| {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat2(&handle, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
    };
    let mut so_far = PathBuf::from("/");
    let mut parent = beneath(&so_far).map_err(|e| named(e.into()))?;
    let mut names = target.iter().skip(1).peekable();
    while let Some(name) = names.next() {
        so_far.push(name);
        let found = match beneath(&so_far) {
            Err(rustix::io::Errno::NOENT) => {
                let is_file = names.peek().is_none() && !is_folder;
                let made = if is_file {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                    rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o444)).map(drop)
                } else {
                    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))
                };
                match made {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(named(error.into())),
                }
                beneath(&so_far)
            }
            other => other,
        };
        parent = found.map_err(|e| named(e.into()))?;
    }
    Ok(())
}

/// True if a root has one of these files, and not only an empty one to mount another on. Links are followed as a process with
/// that root would follow them.
pub fn has_any(root: &Path, files: &[&str]) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(handle) = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty()) else {
        return false;
    };
    files.iter().any(|file| {
        let found =
            rustix::fs::openat2(&handle, *file, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        found
            .and_then(|found| rustix::fs::fstat(&found))
            .is_ok_and(|stat| stat.st_size > 0)
    })
}
