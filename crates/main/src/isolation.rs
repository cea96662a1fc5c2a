//! Translates the `isolation` of an application into the environment of its prototype; and remembers the part of it
//! that outlives a process.
//!
//! Used when a router starts an application. Mounts and namespaces end with the last process in them, so only cgroups
//! must be recorded: in the state folder, before a process is in them, so that the next start finds those of a killed
//! main.
//! Must never happen: a mount point created outside the new root, or a cgroup removed that was not created here.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tutti_options::isolation::{IdMap, Isolation};
use tutti_sys::cgroup;
use tutti_sys::credentials::{self, Credentials};
use tutti_sys::file::replace_durably;
use tutti_sys::isolation::{self as sys, Binding, IdMaps, IdRange, Procfs, Root};
use tutti_sys::spawn::{Spawn, SpawnError};

use super::sockets;

/// Why something was rejected, and the remedy.
#[derive(Debug)]
pub(super) struct IsolationError {
    pub(super) message: String,
    pub(super) hint: Option<String>,
    /// The option of the application that it concerns.
    pub(super) option: Option<String>,
}

impl From<sockets::BindError> for IsolationError {
    fn from(refusal: sockets::BindError) -> IsolationError {
        IsolationError {
            message: refusal.message,
            hint: refusal.hint,
            option: None,
        }
    }
}

impl From<io::Error> for IsolationError {
    fn from(error: io::Error) -> IsolationError {
        IsolationError {
            message: error.to_string(),
            hint: None,
            option: None,
        }
    }
}

impl IsolationError {
    pub(super) fn at(
        option: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> IsolationError {
        IsolationError {
            message: message.into(),
            hint: Some(hint.into()),
            option: Some(option.to_owned()),
        }
    }
}

/// The user and environment of a prototype.
#[derive(Default)]
pub(super) struct PrototypeEnvironment {
    credentials: Option<Credentials>,
    isolation: Option<sys::IsolationPlan>,
    may_not_gain_privileges: bool,
}

/// Explains a failed start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surrounded {
    has_user: bool,
    is_isolated: bool,
}

/// Devices that programs rely on; they are harmless.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// The program loaders: a root that contains one has its own libraries.
const LOADERS: [&str; 2] = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];

impl PrototypeEnvironment {
    /// Without isolation.
    pub(super) fn plain(credentials: Option<Credentials>) -> PrototypeEnvironment {
        PrototypeEnvironment {
            credentials,
            ..PrototypeEnvironment::default()
        }
    }

    /// Sets the `HOME`, `USER` and `LOGNAME` of the user, as service managers do; those of the server's own user do not
    /// apply to others.
    pub(super) fn put_around(self, mut spawn: Spawn) -> io::Result<Spawn> {
        if let Some(credentials) = self.credentials {
            let name = credentials::user_name(credentials.uid);
            spawn = spawn
                .replaced_variable("HOME", credentials::user_folder(credentials.uid))?
                .replaced_variable("USER", name.as_ref())?
                .replaced_variable("LOGNAME", name.as_ref())?
                .credentials(credentials);
        }
        if let Some(isolation) = self.isolation {
            spawn = spawn.isolation(isolation);
        }
        if self.may_not_gain_privileges {
            spawn = spawn.no_new_privileges();
        }
        Ok(spawn)
    }

    pub(super) fn kind(&self) -> Surrounded {
        let isolation = self.isolation.as_ref();
        Surrounded {
            has_user: isolation.is_some_and(|i| i.namespaces.user),
            is_isolated: isolation.is_some(),
        }
    }
}

impl Surrounded {
    /// Returns the remedy for the kernel's error.
    pub(super) fn explain(self, error: &SpawnError) -> IsolationError {
        let plain = IsolationError::from(io::Error::new(error.source.kind(), error.to_string()));
        let code = error.source.raw_os_error();
        let at = |option: &str, hint: &str| IsolationError {
            message: plain.message.clone(),
            hint: Some(hint.to_owned()),
            option: Some(option.to_owned()),
        };
        match (error.step, code) {
            ("forking", Some(libc::EPERM | libc::ENOSPC | libc::EUSERS)) if self.has_user => at(
                "isolation/namespaces/credential",
                "user namespaces are disabled or used up on this system: see `sysctl user.max_user_namespaces`, \
                 `kernel.unprivileged_userns_clone` and `kernel.apparmor_restrict_unprivileged_userns`",
            ),
            ("forking", Some(libc::EPERM)) if self.is_isolated => at(
                "isolation/namespaces",
                "new namespaces need CAP_SYS_ADMIN: in a container, start it with this capability, or leave `isolation` out",
            ),
            ("forking", Some(libc::EINVAL | libc::ENOSYS)) if self.is_isolated => at(
                "isolation/namespaces",
                "this kernel does not have one of these namespaces; `ls /proc/self/ns` lists those it has",
            ),
            ("forking", Some(libc::EBUSY | libc::EOPNOTSUPP)) if self.is_isolated => at(
                "isolation/cgroup/path",
                "a group with controlled children (`cgroup.subtree_control`), or a threaded one, cannot contain processes: \
                 name one below it",
            ),
            ("forking", Some(libc::EACCES)) if self.is_isolated => at(
                "isolation/cgroup/path",
                "moving a process there needs write access to `cgroup.procs` of both groups and of the one above them: \
                 start as root, or delegate the hierarchy (systemd: `Delegate=yes`)",
            ),
            ("mapping user ids", _) => at(
                "isolation/uidmap",
                "users other than root may only map their own id, once; the host's range must exist",
            ),
            ("mapping group ids" | "forbidding setgroups", _) => at(
                "isolation/gidmap",
                "users other than root may only map their own id, once; the host's range must exist",
            ),
            ("binding" | "mounting at", _) => at(
                "isolation/rootfs",
                "`automount.language_deps` mounts the language's dependencies into the new root",
            ),
            ("making /proc" | "mounting /proc in the new root", _) => at(
                "isolation/automount/procfs",
                "set `procfs` to false, or `namespaces.pid` to true",
            ),
            ("entering the new root", _) => at(
                "isolation/rootfs",
                "the folder must exist and, in a user namespace, be reachable by the application's user",
            ),
            (
                "executing the program",
                Some(libc::ENOENT | libc::ENOEXEC | libc::ELIBBAD | libc::EACCES),
            ) if self.is_isolated => at(
                "isolation/automount/language_deps",
                "the libraries in the new root do not match the language host: leave `language_deps` on, or copy those of this system there",
            ),
            _ => plain,
        }
    }
}

/// Translates the configuration into the steps to carry out.
pub(super) struct Preparation<'a> {
    pub(super) isolation: &'a Isolation,
    pub(super) credentials: Option<Credentials>,
    /// Files that the language needs in a new root.
    pub(super) dependencies: &'a [PathBuf],
    /// Files without which the language host cannot be started, in any root.
    pub(super) libraries: &'a [PathBuf],
    pub(super) cgroups: &'a mut Cgroups,
}

impl Preparation<'_> {
    pub(super) fn carry_out(mut self) -> Result<PrototypeEnvironment, IsolationError> {
        self.check_rights()?;
        let wanted = self.isolation.namespaces;
        let namespaces = sys::NamespaceSet {
            cgroup: wanted.cgroup,
            user: wanted.credential,
            ipc: wanted.ipc,
            // A new root without a mount namespace would leave its mounts in the system's.
            mount: wanted.mount || self.isolation.rootfs.is_some(),
            network: wanted.network,
            pid: wanted.pid,
            time: wanted.time,
            uts: wanted.uname,
        };
        let maps = if wanted.credential {
            self.map_ids()?
        } else {
            IdMaps::default()
        };
        let root = match &self.isolation.rootfs {
            Some(path) => Some(self.root(path)?),
            None => None,
        };
        let cgroup = match self.isolation.cgroup_path() {
            Some(path) => Some(self.cgroups.enter(path)?),
            None => None,
        };
        Ok(PrototypeEnvironment {
            credentials: self.credentials,
            isolation: Some(sys::IsolationPlan {
                namespaces,
                maps,
                cgroup,
                root,
            }),
            may_not_gain_privileges: !self.isolation.new_privs,
        })
    }

    /// Users other than root have privileges only in their own user namespace.
    fn check_rights(&self) -> Result<(), IsolationError> {
        let namespaces = self.isolation.namespaces;
        if credentials::is_root() || namespaces.credential {
            return Ok(());
        }
        let hint = "start the server as root, or set `namespaces.credential` to true as well";
        if self.isolation.rootfs.is_some() {
            return Err(IsolationError::at(
                "isolation/rootfs",
                "a new root needs a server started by root",
                hint,
            ));
        }
        let powerful = [
            ("cgroup", namespaces.cgroup),
            ("ipc", namespaces.ipc),
            ("mount", namespaces.mount),
            ("network", namespaces.network),
            ("pid", namespaces.pid),
            ("time", namespaces.time),
            ("uname", namespaces.uname),
        ];
        match powerful.iter().find(|(_, is_wanted)| *is_wanted) {
            Some((name, _)) => Err(IsolationError::at(
                &format!("isolation/namespaces/{name}"),
                format!("a new `{name}` namespace needs a server started by root"),
                hint,
            )),
            None => Ok(()),
        }
    }

    /// Returns the maps, and the credentials inside the namespace.
    fn map_ids(&mut self) -> Result<IdMaps, IsolationError> {
        let (uid, gid) = match &self.credentials {
            Some(credentials) => (credentials.uid, credentials.gid),
            None => (credentials::current_user(), credentials::current_group()),
        };
        let maps = IdMaps {
            users: ranges(&self.isolation.uidmap, uid),
            groups: ranges(&self.isolation.gidmap, gid),
            deny_setgroups: !credentials::is_root(),
        };
        if !credentials::is_root() {
            check_own(&maps.users, uid, "isolation/uidmap", "user")?;
            check_own(&maps.groups, gid, "isolation/gidmap", "group")?;
        }
        let name = credentials::user_name(uid).unwrap_or_else(|| uid.to_string());
        let inside_uid =
            inside(&maps.users, uid).ok_or_else(|| unmapped("uidmap", "user", &name, uid))?;
        let inside_gid = inside(&maps.groups, gid)
            .ok_or_else(|| unmapped("gidmap", "group of user", &name, gid))?;
        let groups = self.credentials.as_ref().map_or(&[][..], |c| &c.groups);
        let groups = groups
            .iter()
            .filter_map(|group| maps.groups.iter().find_map(|range| range.inward(*group)))
            .collect();
        self.credentials = Some(Credentials {
            uid: inside_uid,
            gid: inside_gid,
            groups,
        });
        Ok(maps)
    }

    fn root(&self, path: &Path) -> Result<Root, IsolationError> {
        let at_root =
            |message: String, hint: &str| IsolationError::at("isolation/rootfs", message, hint);
        if !path.is_absolute() || !path.is_dir() {
            return Err(at_root(
                format!("`{}` is not a folder", path.display()),
                "the new root must exist: an absolute path",
            ));
        }
        let mut root = Root::new(path)?;
        let automount = self.isolation.automount;
        let refused = |error: io::Error| {
            at_root(
                error.to_string(),
                "create it, let the server's user write there, or turn the mount off in `automount`",
            )
        };
        if automount.procfs {
            let procfs = match (
                self.isolation.namespaces.pid,
                self.isolation.namespaces.credential,
            ) {
                (true, _) => Procfs::Own,
                (false, false) => Procfs::Shared,
                (false, true) => Procfs::Bound,
            };
            root.mount_proc(procfs).map_err(refused)?;
        }
        if automount.tmpfs {
            root.mount_tmp().map_err(refused)?;
        }
        let needed = match automount.language_deps {
            true => self.needed(self.dependencies, &DEVICES),
            // NGINX Unit has loaded its libraries before it changes the root. Here the host is loaded in the new one,
            // which need not have the system's libraries for that; if it has its own, they are used.
            false if !sys::has_any(path, &LOADERS) => self.needed(self.libraries, &[]),
            false => Vec::new(),
        };
        for (target, is_device) in needed {
            let binding = match is_device {
                true => Binding::device(&target)?,
                false => Binding::read_only(&target)?,
            };
            root.bind(binding).map_err(refused)?;
        }
        Ok(root)
    }

    /// Returns the files and folders to bind, outer folders before inner ones, each once.
    fn needed(&self, files: &[PathBuf], devices: &[&str]) -> Vec<(PathBuf, bool)> {
        let mut needed: Vec<(PathBuf, bool)> = files
            .iter()
            .filter(|path| path.is_absolute() && path.exists())
            .map(|path| (path.clone(), false))
            .collect();
        needed.sort();
        let mut kept: Vec<(PathBuf, bool)> = Vec::new();
        for (path, is_device) in needed {
            if !kept.iter().any(|(outer, _)| path.starts_with(outer)) {
                kept.push((path, is_device));
            }
        }
        let devices = devices
            .iter()
            .map(PathBuf::from)
            .filter(|path| path.exists());
        kept.extend(devices.map(|path| (path, true)));
        kept
    }
}

fn ranges(maps: &[IdMap], own: u32) -> Vec<IdRange> {
    if maps.is_empty() {
        return vec![IdRange {
            inside: own,
            outside: own,
            count: 1,
        }];
    }
    let range = |map: &IdMap| IdRange {
        inside: map.container,
        outside: map.host,
        count: map.size,
    };
    maps.iter().map(range).collect()
}

/// Returns the id inside the namespace: a matching inner id, as in NGINX Unit, or else the mapping of a system id.
fn inside(ranges: &[IdRange], id: u32) -> Option<u32> {
    if ranges.iter().any(|range| range.has_inside(id)) {
        return Some(id);
    }
    ranges.iter().find_map(|range| range.inward(id))
}

fn unmapped(option: &str, what: &str, name: &str, id: u32) -> IsolationError {
    IsolationError::at(
        &format!("isolation/{option}"),
        format!("{what} `{name}` ({id}) is in no range of `{option}`"),
        format!(
            "add a range with {id} as `container` or `host`, or set `user` to one that is in a range"
        ),
    )
}

fn check_own(ranges: &[IdRange], own: u32, option: &str, what: &str) -> Result<(), IsolationError> {
    match ranges {
        [range] if range.outside == own && range.count == 1 => Ok(()),
        _ => Err(IsolationError::at(
            option,
            format!("a server not started by root may map its own {what} {own} only"),
            format!(
                "write one range with `host`: {own} and `size`: 1, or start the server as root"
            ),
        )),
    }
}

/// The file in the state folder that records the cgroups created by this server: the boot of the system, then each
/// group with its inode.
const RECORD: &str = "cgroups";

/// The system makes another one each time it boots.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The cgroups that this server has created.
#[derive(Default)]
pub(super) struct Cgroups {
    record: PathBuf,
    made: Vec<PathBuf>,
}

impl Cgroups {
    /// Takes over those of a former main. A group of another boot, or with another inode, has been made by others since.
    pub(super) fn recorded(state: &Path) -> Cgroups {
        let record = state.join(RECORD);
        let text = fs::read_to_string(&record).unwrap_or_default();
        let mut lines = text.lines();
        let is_of_this_boot = lines.next().is_some_and(|boot| boot == boot_id());
        let is_same = |line: &str| {
            let (inode, path) = line.split_once(' ')?;
            (inode == inode_of(Path::new(path))).then(|| PathBuf::from(path))
        };
        let made = match is_of_this_boot {
            true => lines.filter_map(is_same).collect(),
            false => Vec::new(),
        };
        Cgroups { record, made }
    }

    /// Removes those that a killed main has left, with all processes in them.
    pub(super) fn end_all(&mut self) {
        for folder in &self.made {
            // Processes that left their process group when main was killed are still in their cgroup.
            let _ = cgroup::kill_all(folder);
        }
        self.remove();
    }

    /// Creates the group if it is missing, and opens it.
    fn enter(&mut self, path: &Path) -> Result<std::os::fd::OwnedFd, IsolationError> {
        let at = |message: String, hint: &str| {
            IsolationError::at("isolation/cgroup/path", message, hint)
        };
        let Some(hierarchy) = cgroup::hierarchy()? else {
            return Err(at(
                "there is no cgroup hierarchy of version 2 on this system".to_owned(),
                "mount it (`mount -t cgroup2 none /sys/fs/cgroup`), or leave `cgroup` out",
            ));
        };
        let own = cgroup::own()?;
        let Some(folder) = cgroup::folder(&hierarchy, &own, path) else {
            return Err(at(
                format!("`{}` is not the path of a cgroup", path.display()),
                "write an absolute path from the top of the hierarchy, or one relative to the server's own group, without `..`",
            ));
        };
        let (handle, made) = cgroup::make(&hierarchy, &folder).map_err(|error| {
            at(
                error.to_string(),
                "start as root, or delegate the hierarchy to this user (systemd: `Delegate=yes`)",
            )
        })?;
        if !made.is_empty() {
            self.made.extend(made.iter().cloned());
            self.write().inspect_err(|_| {
                // A group that is not recorded would be left behind by a crash.
                self.made.retain(|path| !made.contains(path));
                cgroup::remove(&made);
            })?;
        }
        Ok(handle)
    }

    /// Removes all empty ones; when the server's last process has ended, that is all of them.
    pub(super) fn remove(&mut self) {
        if self.made.is_empty() {
            return;
        }
        self.made.sort();
        self.made.dedup();
        // A group becomes empty a moment after its last process was reaped.
        for folder in &self.made {
            let mut patience = 200;
            while patience > 0 && !cgroup::is_empty(folder) {
                patience -= 1;
                let _ = rustix::event::poll(&mut [], Some(&PAUSE));
            }
        }
        self.made = cgroup::remove(&self.made);
        let _ = self.write();
    }

    fn write(&self) -> io::Result<()> {
        if self.made.is_empty() {
            return match fs::remove_file(&self.record) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            };
        }
        let mut text = boot_id() + "\n";
        for path in &self.made {
            text += &format!("{} {}\n", inode_of(path), path.display());
        }
        replace_durably(&self.record, text.as_bytes(), 0o600).map(drop)
    }
}

fn boot_id() -> String {
    fs::read_to_string(BOOT)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The inode of a folder; empty if there is none.
fn inode_of(path: &Path) -> String {
    let metadata = fs::metadata(path);
    metadata.map_or_else(|_| String::new(), |metadata| metadata.ino().to_string())
}

const PAUSE: rustix::event::Timespec = rustix::event::Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn map(container: u32, host: u32, size: u32) -> IdMap {
        IdMap {
            container,
            host,
            size,
        }
    }

    #[test]
    fn a_user_is_one_of_the_namespace_first_and_of_the_system_second() {
        let maps = ranges(&[map(0, 1000, 1000)], 1005);
        assert_eq!(inside(&maps, 999), Some(999));
        assert_eq!(inside(&maps, 1005), Some(5));
        assert_eq!(inside(&maps, 65534), None);
        assert_eq!(inside(&ranges(&[], 33), 33), Some(33));
    }

    #[test]
    fn what_is_inside_something_bound_is_not_bound_again() {
        let isolation = Isolation::default();
        let dependencies: Vec<PathBuf> = ["/usr/lib", "/usr", "/etc/hostname", "/no/such"]
            .into_iter()
            .map(PathBuf::from)
            .collect();
        let preparation = Preparation {
            isolation: &isolation,
            credentials: None,
            dependencies: &dependencies,
            libraries: &[],
            cgroups: &mut Cgroups::default(),
        };
        let needed = preparation.needed(&dependencies, &DEVICES);
        let paths: Vec<&Path> = needed.iter().map(|(path, _)| path.as_path()).collect();
        assert!(paths.contains(&Path::new("/usr")) && paths.contains(&Path::new("/dev/null")));
        assert!(!paths.contains(&Path::new("/usr/lib")) && !paths.contains(&Path::new("/no/such")));
    }

    #[test]
    fn groups_that_others_have_made_since_are_not_ours() {
        let state = tempfile::tempdir().unwrap();
        let made = ["kept", "made again", "removed"].map(|name| state.path().join(name));
        made.iter()
            .for_each(|folder| fs::create_dir(folder).unwrap());
        let mut cgroups = Cgroups::recorded(state.path());
        assert_eq!(cgroups.made, [] as [PathBuf; 0]);
        cgroups.made = made.to_vec();
        cgroups.write().unwrap();
        let recorded = || Cgroups::recorded(state.path()).made;
        assert_eq!(recorded(), made);
        // Its inode stays in use.
        fs::rename(&made[1], state.path().join("former")).unwrap();
        fs::create_dir(&made[1]).unwrap();
        fs::remove_dir(&made[2]).unwrap();
        assert_eq!(recorded(), made[..1]);
        let text = fs::read_to_string(&cgroups.record).unwrap();
        fs::write(
            &cgroups.record,
            text.replacen(&boot_id(), "another boot", 1),
        )
        .unwrap();
        assert_eq!(recorded(), [] as [PathBuf; 0]);
    }
}
