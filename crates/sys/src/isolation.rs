//! Isolates a process from its first instruction on: namespaces, id maps, cgroup, root of the file system.
//!
//! Filled in by main, carried out by [`crate::spawn`]: the child is born into its namespaces and its cgroup (clone3(2)),
//! the parent writes its id maps, the child arranges its mounts and changes its root before it gives up its privileges.
//! All mounts are made in the child's own mount namespace, so they end with its last process, however that ends. What
//! must never happen: a mount that the rest of the system sees, or a path resolved outside of the new root once the
//! process is in it.
//!
//! The child's part runs between clone and exec, so it uses system calls only, on memory made before.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use crate::error::context;

pub(crate) fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "NUL byte in a program's argument",
        )
    })
}

/// Which namespaces are new; the others are the parent's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// cgroup_namespaces(7)
    pub cgroup: bool,
    /// user_namespaces(7)
    pub user: bool,
    /// ipc_namespaces(7)
    pub ipc: bool,
    /// mount_namespaces(7)
    pub mount: bool,
    /// network_namespaces(7); its loopback interface is brought up.
    pub network: bool,
    /// pid_namespaces(7); the process is number 1 in it.
    pub pid: bool,
    /// time_namespaces(7)
    pub time: bool,
    /// uts_namespaces(7)
    pub uts: bool,
}

impl Namespaces {
    /// Those that the process is born into. That of cgroups it enters afterwards, when it is in its cgroup.
    pub(crate) fn clone_flags(self) -> u64 {
        // Not in libc as an integer of the right type; linux/sched.h.
        const CLONE_NEWTIME: u64 = 0x80;
        [
            (self.user, libc::CLONE_NEWUSER as u64),
            (self.ipc, libc::CLONE_NEWIPC as u64),
            (self.mount, libc::CLONE_NEWNS as u64),
            (self.network, libc::CLONE_NEWNET as u64),
            (self.pid, libc::CLONE_NEWPID as u64),
            (self.time, CLONE_NEWTIME),
            (self.uts, libc::CLONE_NEWUTS as u64),
        ]
        .into_iter()
        .filter(|(wanted, _)| *wanted)
        .fold(0, |flags, (_, flag)| flags | flag)
    }

    /// True if any is new.
    pub fn any(self) -> bool {
        self.cgroup || self.clone_flags() != 0
    }
}

/// A range of ids outside and what they are inside of a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdRange {
    /// First id inside.
    pub inside: u32,
    /// First id outside.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

impl IdRange {
    /// The id inside for one outside.
    pub fn inward(&self, outside: u32) -> Option<u32> {
        let place = outside
            .checked_sub(self.outside)
            .filter(|p| *p < self.count)?;
        self.inside.checked_add(place)
    }

    /// True if an id inside is of this range.
    pub fn has_inside(&self, inside: u32) -> bool {
        inside
            .checked_sub(self.inside)
            .is_some_and(|place| place < self.count)
    }
}

/// The maps of a user namespace, written by the parent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdMaps {
    /// Users.
    pub users: Vec<IdRange>,
    /// Groups.
    pub groups: Vec<IdRange>,
    /// Nothing inside may change its supplementary groups: what the kernel asks of a parent without privileges.
    pub deny_setgroups: bool,
}

impl IdMaps {
    /// Writes the maps of a child that waits for them.
    pub(crate) fn write(&self, pid: i32) -> Result<(), (&'static str, io::Error)> {
        let put = |name: &str, text: String| std::fs::write(format!("/proc/{pid}/{name}"), text);
        let text = |ranges: &[IdRange]| -> String {
            ranges
                .iter()
                .map(|r| format!("{} {} {}\n", r.inside, r.outside, r.count))
                .collect()
        };
        if self.deny_setgroups {
            put("setgroups", "deny".into()).map_err(|e| ("forbidding setgroups", e))?;
        }
        put("gid_map", text(&self.groups)).map_err(|e| ("mapping group ids", e))?;
        put("uid_map", text(&self.users)).map_err(|e| ("mapping user ids", e))
    }
}

/// A file or folder of the system that is seen in the new root, read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    source: CString,
    target: CString,
    is_writable: bool,
}

impl Binding {
    /// `path`, links followed, at the same place in the new root.
    pub fn read_only(path: &Path) -> io::Result<Binding> {
        Ok(Binding {
            source: c_string(path.as_os_str().as_bytes())?,
            target: c_string(path.as_os_str().as_bytes())?,
            is_writable: false,
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
}

/// How `/proc` of the new root comes about.
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

/// A new root of the file system. Its mount points must exist: see [`make_mount_point`].
#[derive(Debug)]
pub struct Root {
    /// The folder.
    pub path: CString,
    /// The folders that are bound into it, outer ones first.
    pub bindings: Vec<Binding>,
    /// `/proc`.
    pub procfs: Procfs,
    /// A `/tmp` of its own.
    pub tmpfs: bool,
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
}

/// Everything about the surroundings of a process.
#[derive(Debug, Default)]
pub struct Isolation {
    /// New namespaces.
    pub namespaces: Namespaces,
    /// For a new user namespace.
    pub maps: IdMaps,
    /// A folder of the cgroup hierarchy (version 2) to be born into.
    pub cgroup: Option<OwnedFd>,
    /// Another root; needs a new mount namespace.
    pub root: Option<Root>,
}

/// A step of the child that failed: its number in `spawn`'s table, and which binding.
pub(crate) struct Failed(pub(crate) u8, pub(crate) u16);

/// Numbers of the child's steps, continued from those of `spawn`.
pub(crate) mod step {
    pub(crate) const PROPAGATION: u8 = 20;
    pub(crate) const OPEN_BINDING: u8 = 21;
    pub(crate) const MAKE_PROC: u8 = 22;
    pub(crate) const ENTER_ROOT: u8 = 23;
    pub(crate) const PLACE_BINDING: u8 = 24;
    pub(crate) const PLACE_PROC: u8 = 25;
    pub(crate) const PLACE_TMP: u8 = 26;
    pub(crate) const CGROUP_NAMESPACE: u8 = 27;
    pub(crate) const WAIT_FOR_MAPS: u8 = 28;
}

/// The words for them.
pub(crate) const STEPS: [&str; 9] = [
    "separating the mounts",
    "binding",
    "making /proc",
    "entering the new root",
    "mounting at",
    "mounting /proc in the new root",
    "mounting /tmp in the new root",
    "entering the cgroup namespace",
    "waiting for the id maps",
];

/// Most bindings: the child keeps their descriptors on its stack.
const MAX_BINDINGS: usize = 64;

impl Isolation {
    /// In the child, with all capabilities over its namespaces: everything but giving them up. `owner` is whom `/tmp`
    /// belongs to.
    pub(crate) fn carry_out(&self, owner: (&CStr, &CStr)) -> Result<(), Failed> {
        if self.namespaces.mount {
            // Mounts made outside are still seen where there is no new root, and can be undone outside.
            rustix::mount::mount_change(
                c"/",
                MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
            )
            .map_err(|e| failed(e, step::PROPAGATION))?;
        }
        if let Some(root) = &self.root {
            root.enter(owner)?;
        }
        if self.namespaces.network {
            bring_up_loopback();
        }
        if self.namespaces.cgroup {
            // SAFETY: integer argument only; affects this single-threaded process alone.
            if unsafe { libc::unshare(libc::CLONE_NEWCGROUP) } < 0 {
                return Err(Failed(step::CGROUP_NAMESPACE, 0));
            }
        }
        Ok(())
    }
}

/// Remembers the error where `spawn` looks for it.
fn failed(error: rustix::io::Errno, step: u8) -> Failed {
    numbered(error, step, 0)
}

fn numbered(error: rustix::io::Errno, step: u8, place: usize) -> Failed {
    // SAFETY: errno is a thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer just given is valid for this thread.
    unsafe { *errno = error.raw_os_error() };
    Failed(step, u16::try_from(place).unwrap_or(0))
}

impl Root {
    fn enter(&self, owner: (&CStr, &CStr)) -> Result<(), Failed> {
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
        }
        for (number, (binding, tree)) in self.bindings.iter().zip(&trees).enumerate() {
            if let Some(tree) = tree {
                place(tree.as_fd(), &binding.target)
                    .map_err(|e| numbered(e, step::PLACE_BINDING, number))?;
            }
        }
        Ok(())
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
        // Of each mount since Linux 5.8; older kernels refuse the word, and show all.
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

fn mount_tmp((user, group): (&CStr, &CStr)) -> rustix::io::Result<()> {
    let system = rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&system, c"mode", c"1777")?;
    // The ids this process has are not those of its namespace.
    rustix::mount::fsconfig_set_string(&system, c"uid", user)?;
    rustix::mount::fsconfig_set_string(&system, c"gid", group)?;
    rustix::mount::fsconfig_create(&system)?;
    let mount = rustix::mount::fsmount(
        &system,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    place(mount.as_fd(), c"/tmp")
}

/// A new network namespace has its loopback down; programs take it for granted. Without it the application still runs.
fn bring_up_loopback() {
    // SAFETY: integer arguments only.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq with name and flags set, which lives until the call returns.
    unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request) };
    // SAFETY: closes the descriptor made above, or does nothing for -1.
    unsafe { libc::close(socket) };
}

/// Makes `target` below `root`, a folder or a file as `source` is, unless it is there. Links are followed as a process with
/// that root would follow them: never out of it.
pub fn make_mount_point(root: &Path, target: &Path, is_folder: bool) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials;
    use crate::process::{Ended, pidfd, reap_one};
    use crate::spawn::Spawn;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::io::Read;
    use tutti_testkit::{is_root, skip, wait_until};

    fn shell(script: &str) -> Spawn {
        Spawn::new("/bin/sh")
            .unwrap()
            .argument("-c")
            .unwrap()
            .argument(script)
            .unwrap()
            .variable("PATH", "/bin:/usr/bin")
            .unwrap()
            .new_session()
            .death_signal(libc::SIGKILL)
    }

    /// Returns the bytes that a script prints to descriptor 3, and how it ended.
    fn output(script: &str, prepare: impl FnOnce(Spawn) -> Spawn) -> String {
        let (mut read, write) = io::pipe().unwrap();
        let pid = prepare(shell(script))
            .descriptor(write.into(), 3)
            .start()
            .unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        poll(
            &mut [PollFd::new(&pidfd(pid).unwrap(), PollFlags::IN)],
            None,
        )
        .unwrap();
        assert_eq!(reap_one(pid), Some(Ended::Code(0)), "{text}");
        text
    }

    fn namespaces(isolation: Namespaces) -> Isolation {
        Isolation {
            namespaces: isolation,
            ..Isolation::default()
        }
    }

    #[test]
    fn every_namespace_is_new_and_only_where_asked_for() {
        if !is_root() {
            skip!("making namespaces needs root");
        }
        let names = ["cgroup", "ipc", "mnt", "net", "pid", "time", "uts"];
        let outside: Vec<String> = names
            .iter()
            .map(|name| {
                let link = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
                link.to_string_lossy().into_owned()
            })
            .collect();
        for (place, name) in names.iter().enumerate() {
            let one = Namespaces {
                cgroup: *name == "cgroup",
                ipc: *name == "ipc",
                mount: *name == "mnt",
                network: *name == "net",
                pid: *name == "pid",
                time: *name == "time",
                uts: *name == "uts",
                user: false,
            };
            let script = format!(
                "for n in {}; do readlink /proc/self/ns/$n >&3; done",
                names.join(" ")
            );
            if *name == "pid" {
                assert_eq!(
                    output("echo $$ >&3", |s| s.isolation(namespaces(one))),
                    "1\n"
                );
                continue;
            }
            let inside = output(&script, |s| s.isolation(namespaces(one)));
            let inside: Vec<&str> = inside.lines().collect();
            for (other, link) in inside.iter().enumerate() {
                assert_eq!(
                    *link == outside[other],
                    other != place,
                    "{name}: {inside:?}"
                );
            }
        }
    }

    #[test]
    fn loopback_is_up_in_a_new_network() {
        if !is_root() {
            skip!("a network namespace needs root");
        }
        let isolation = namespaces(Namespaces {
            network: true,
            ..Namespaces::default()
        });
        let text = output("cat /proc/net/fib_trie >&3", |s| s.isolation(isolation));
        assert!(text.contains("127.0.0.0/8"), "{text}");
    }

    /// A user namespace in which this test's user is root.
    fn own_user_namespace() -> Isolation {
        let one = |outside| {
            vec![IdRange {
                inside: 0,
                outside,
                count: 1,
            }]
        };
        Isolation {
            namespaces: Namespaces {
                user: true,
                mount: true,
                ..Namespaces::default()
            },
            maps: IdMaps {
                users: one(credentials::current_user()),
                groups: one(credentials::current_group()),
                deny_setgroups: true,
            },
            ..Isolation::default()
        }
    }

    #[test]
    fn a_user_namespace_is_mapped_and_powerless_outside() {
        let text = output("id -u >&3; cat /proc/self/uid_map >&3", |s| {
            s.isolation(own_user_namespace())
        });
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(
            words,
            ["0", "0", &credentials::current_user().to_string(), "1"]
        );
    }

    /// Each child holds copies of the others' pipes.
    #[test]
    fn children_made_at_the_same_time_do_not_wait_for_each_other() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let text = output("id -u >&3", |s| s.isolation(own_user_namespace()));
                        assert_eq!(text, "0\n");
                    }
                });
            }
        });
    }

    fn system_root(folder: &Path) -> Root {
        let mut root = Root::new(folder).unwrap();
        for path in ["/usr", "/bin", "/lib", "/lib64", "/dev/null"] {
            let path = Path::new(path);
            if path.exists() {
                make_mount_point(folder, path, path.is_dir()).unwrap();
                root.bindings.push(match path.is_dir() {
                    true => Binding::read_only(path).unwrap(),
                    false => Binding::device(path).unwrap(),
                });
            }
        }
        for path in ["/proc", "/tmp"] {
            make_mount_point(folder, Path::new(path), true).unwrap();
        }
        root.procfs = Procfs::Own;
        root.tmpfs = true;
        root
    }

    #[test]
    fn a_new_root_has_what_is_bound_and_nothing_of_the_old() {
        if !is_root() {
            skip!("a new root needs root");
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine"), "").unwrap();
        let mounts = || {
            std::fs::read_to_string("/proc/self/mountinfo")
                .unwrap()
                .lines()
                .count()
        };
        let before = mounts();
        let isolation = Isolation {
            namespaces: Namespaces {
                mount: true,
                pid: true,
                ..Namespaces::default()
            },
            root: Some(system_root(folder.path())),
            ..Isolation::default()
        };
        let nobody = credentials::lookup("nobody", None).unwrap();
        let text = output(
            "id -u >&3; ls / >&3; : > /tmp/new; : > /dev/null; ls /tmp >&3; touch /usr/new 2>&3; ls -d /proc/[0-9]* >&3; exit 0",
            |s| s.isolation(isolation).credentials(nobody.clone()),
        );
        assert!(text.starts_with(&nobody.uid.to_string()), "{text}");
        assert!(text.contains("mine\n") && text.contains("new\n"), "{text}");
        assert!(!text.contains("home") && !text.contains("etc"), "{text}");
        assert!(text.contains("/proc/1\n"), "{text}");
        assert!(text.contains("Read-only file system"), "{text}");
        assert_eq!(mounts(), before);
        assert!(
            std::fs::read_dir(folder.path().join("tmp"))
                .unwrap()
                .next()
                .is_none()
        );
    }

    #[test]
    fn threads_that_are_being_made_hold_up_no_child() {
        if !is_root() {
            skip!("another user needs root");
        }
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let nobody = credentials::lookup("nobody", None).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        std::thread::spawn(|| {}).join().unwrap();
                    }
                });
            }
            for _ in 0..300 {
                let isolation = Isolation {
                    namespaces: Namespaces {
                        mount: true,
                        ..Namespaces::default()
                    },
                    ..Isolation::default()
                };
                let text = output("id -u >&3", |s| {
                    s.isolation(isolation).credentials(nobody.clone())
                });
                assert_eq!(text, format!("{}\n", nobody.uid));
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn a_root_that_does_not_exist_is_told_by_its_path() {
        if !is_root() {
            skip!("a new root needs root");
        }
        let isolation = Isolation {
            namespaces: Namespaces {
                mount: true,
                ..Namespaces::default()
            },
            root: Some(Root::new(Path::new("/no/such/root")).unwrap()),
            ..Isolation::default()
        };
        let error = shell("exit 0").isolation(isolation).start().unwrap_err();
        assert_eq!(error.step, "entering the new root");
        assert_eq!(error.subject.as_deref(), Some("/no/such/root"));
    }

    #[test]
    fn mount_points_are_made_inside_whatever_links_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        // Out of the root by an absolute link and by one that climbs.
        std::os::unix::fs::symlink(outside.path(), root.join("usr")).unwrap();
        std::os::unix::fs::symlink("../../../..", root.join("up")).unwrap();
        assert!(make_mount_point(&root, Path::new("/usr/lib"), true).is_err());
        make_mount_point(&root, Path::new("/up/made"), true).unwrap();
        make_mount_point(&root, Path::new("/a/b/file"), false).unwrap();
        assert!(std::fs::read_dir(outside.path()).unwrap().next().is_none());
        assert!(root.join("made").is_dir() && root.join("a/b/file").is_file());
    }

    #[test]
    fn a_process_is_born_into_its_cgroup() {
        let hierarchy = crate::cgroup::hierarchy().unwrap();
        let Some(hierarchy) = hierarchy.filter(|_| is_root()) else {
            skip!("a cgroup needs root and a hierarchy of version 2");
        };
        let name = format!("tutti-test-{}", crate::process::id());
        let folder = hierarchy.join(&name);
        let (handle, made) = crate::cgroup::make(&hierarchy, &folder).unwrap();
        let isolation = Isolation {
            namespaces: Namespaces {
                cgroup: true,
                ..Namespaces::default()
            },
            cgroup: Some(handle),
            ..Isolation::default()
        };
        let (mut read, write) = io::pipe().unwrap();
        let pid = shell("grep ^0:: /proc/self/cgroup >&3; exec 3>&-; sleep 1000")
            .isolation(isolation)
            .descriptor(write.into(), 3)
            .start()
            .unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        // Its namespace begins where it is.
        assert_eq!(text, "0::/\n");
        let seen = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        assert!(seen.contains(&format!("0::/{name}\n")), "{seen}");
        assert!(!crate::cgroup::is_empty(&folder));
        crate::cgroup::kill_all(&folder).unwrap();
        poll(
            &mut [PollFd::new(&pidfd(pid).unwrap(), PollFlags::IN)],
            None,
        )
        .unwrap();
        reap_one(pid).unwrap();
        wait_until("the cgroup is empty", || crate::cgroup::is_empty(&folder));
        assert!(crate::cgroup::remove(&made).is_empty());
        assert!(!folder.exists());
    }
}
