//! Isolates a process from its first instruction on: namespaces, id maps, cgroup, root of the file system.
//!
//! Filled in by main, carried out by [`crate::spawn`]: the child is born into its namespaces and its cgroup (clone3(2)),
//! the parent writes its id maps, the child arranges its mounts and changes its root before it gives up its privileges.
//! All mounts are made in the child's own mount namespace, so they end with its last process, however that ends. What
//! must never happen: a mount that the rest of the system sees, or a path resolved outside of the new root once the
//! process is in it.
//!
//! The child's part runs between clone and exec, so it uses system calls only, on memory made before.

pub(crate) mod root;
pub(crate) mod step;

use std::io;
use std::os::fd::OwnedFd;

pub use root::{Binding, Procfs, Root, has_any};
pub(crate) use root::{Owner, c_string};
use rustix::mount::MountPropagationFlags;
use step::{Failed, failed};

/// Which namespaces are new; the others are the parent's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamespaceSet {
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

impl NamespaceSet {
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
    /// The number of ids.
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

/// Everything about the surroundings of a process.
#[derive(Debug, Default)]
pub struct IsolationPlan {
    /// New namespaces.
    pub namespaces: NamespaceSet,
    /// For a new user namespace.
    pub maps: IdMaps,
    /// A folder of the cgroup hierarchy (version 2) to be born into.
    pub cgroup: Option<OwnedFd>,
    /// Another root; needs a new mount namespace.
    pub root: Option<Root>,
}

impl IsolationPlan {
    /// In the child, with all capabilities over its namespaces: everything but giving them up.
    pub(crate) fn carry_out(&self, owner: &Owner) -> Result<(), Failed> {
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
    unsafe { libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request) };
    // SAFETY: closes the descriptor made above, or does nothing for -1.
    unsafe { libc::close(socket) };
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rustix::event::{PollFd, PollFlags, poll};
    use tutti_testkit::{SetOnDrop, is_root, skip, wait_until};

    use super::root::make_mount_point;
    use super::*;
    use crate::credentials::{self, Credentials};
    use crate::process::{Ended, pidfd, reap_one};
    use crate::spawn::Spawn;

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

    fn namespaces(isolation: NamespaceSet) -> IsolationPlan {
        IsolationPlan {
            namespaces: isolation,
            ..IsolationPlan::default()
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
            let one = NamespaceSet {
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
        let isolation = namespaces(NamespaceSet {
            network: true,
            ..NamespaceSet::default()
        });
        let text = output("cat /proc/net/fib_trie >&3", |s| s.isolation(isolation));
        assert!(text.contains("127.0.0.0/8"), "{text}");
    }

    /// A user namespace in which this test's user is root.
    fn own_user_namespace() -> IsolationPlan {
        let one = |outside| {
            vec![IdRange {
                inside: 0,
                outside,
                count: 1,
            }]
        };
        IsolationPlan {
            namespaces: NamespaceSet {
                user: true,
                mount: true,
                ..NamespaceSet::default()
            },
            maps: IdMaps {
                users: one(credentials::current_user()),
                groups: one(credentials::current_group()),
                deny_setgroups: true,
            },
            ..IsolationPlan::default()
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
        root.mount_proc(Procfs::Own).unwrap();
        root.mount_tmp().unwrap();
        for path in ["/usr", "/bin", "/lib", "/lib64", "/dev/null"] {
            let path = Path::new(path);
            if path.exists() {
                let binding = match path.is_dir() {
                    true => Binding::read_only(path),
                    false => Binding::device(path),
                };
                root.bind(binding.unwrap()).unwrap();
            }
        }
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
        let isolation = IsolationPlan {
            namespaces: NamespaceSet {
                mount: true,
                pid: true,
                ..NamespaceSet::default()
            },
            root: Some(system_root(folder.path())),
            ..IsolationPlan::default()
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

    /// Issue 28: the new `/tmp` hid the mount points of what is below the system's.
    #[test]
    fn what_is_bound_from_below_tmp_is_seen_in_the_new_tmp() {
        let bound = tempfile::Builder::new()
            .prefix("tutti-test-")
            .tempdir_in("/tmp")
            .unwrap();
        std::fs::set_permissions(bound.path(), Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(bound.path().join("deep/folder")).unwrap();
        std::fs::write(bound.path().join("deep/folder/mine"), "").unwrap();
        std::fs::write(bound.path().join("file"), "of the file").unwrap();
        let path = bound.path().display();
        let script = format!(
            "ls /tmp {path} {path}/deep/folder >&3; cat {path}/file >&3; : > /tmp/new && echo writable >&3; touch {path}/file || echo read-only >&3"
        );
        let isolation = |base: IsolationPlan, folder: &Path| {
            let mut root = system_root(folder);
            for name in ["deep/folder", "file"] {
                let path = bound.path().join(name);
                root.bind(Binding::read_only(&path).unwrap()).unwrap();
            }
            IsolationPlan {
                namespaces: NamespaceSet {
                    mount: true,
                    pid: true,
                    ..base.namespaces
                },
                root: Some(root),
                ..base
            }
        };
        let check = |isolation: IsolationPlan, credentials: Option<Credentials>| {
            let text = output(&script, |s| match credentials {
                Some(credentials) => s.isolation(isolation).credentials(credentials),
                None => s.isolation(isolation),
            });
            let name = bound.path().file_name().unwrap().to_string_lossy();
            assert!(text.starts_with(&format!("/tmp:\n{name}\n\n")), "{text}");
            let seen = [
                "deep\nfile\n",
                "mine\n",
                "of the file",
                "writable\nread-only\n",
            ];
            assert!(seen.iter().all(|seen| text.contains(seen)), "{text}");
            assert!(!bound.path().join("new").exists());
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        check(isolation(own_user_namespace(), folder.path()), None);
        if !is_root() {
            skip!("a new root without a user namespace needs root");
        }
        let nobody = credentials::lookup("nobody", None).unwrap();
        check(
            isolation(IsolationPlan::default(), folder.path()),
            Some(nobody.clone()),
        );
        // An id that only the namespace knows, as that of an application.
        let range = |outside| {
            vec![IdRange {
                inside: 7,
                outside,
                count: 1,
            }]
        };
        let mut mapped = own_user_namespace();
        mapped.maps.users = range(nobody.uid);
        mapped.maps.groups = range(nobody.gid);
        mapped.maps.deny_setgroups = false;
        let inside = Credentials {
            uid: 7,
            gid: 7,
            groups: Vec::new(),
        };
        check(isolation(mapped, folder.path()), Some(inside));
        // Nothing is left in the folder.
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
            let _over = SetOnDrop(&is_over);
            for _ in 0..300 {
                let isolation = IsolationPlan {
                    namespaces: NamespaceSet {
                        mount: true,
                        ..NamespaceSet::default()
                    },
                    ..IsolationPlan::default()
                };
                let text = output("id -u >&3", |s| {
                    s.isolation(isolation).credentials(nobody.clone())
                });
                assert_eq!(text, format!("{}\n", nobody.uid));
            }
        });
    }

    #[test]
    fn a_root_that_does_not_exist_is_reported_by_its_path() {
        if !is_root() {
            skip!("a new root needs root");
        }
        let isolation = IsolationPlan {
            namespaces: NamespaceSet {
                mount: true,
                ..NamespaceSet::default()
            },
            root: Some(Root::new(Path::new("/no/such/root")).unwrap()),
            ..IsolationPlan::default()
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
        let isolation = IsolationPlan {
            namespaces: NamespaceSet {
                cgroup: true,
                ..NamespaceSet::default()
            },
            cgroup: Some(handle),
            ..IsolationPlan::default()
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
