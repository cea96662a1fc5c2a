//! Options that separate an application from others.

use std::path::{Path, PathBuf};

use crate::table::ValueKind;
use crate::{Complaints, options};

options! {
    /// Namespaces, file system root and cgroup of the processes
    #[derive(Eq)]
    pub struct Isolation: ISOLATION = "isolation" {
        /// New namespaces
        namespaces: Namespaces [],
        /// New root of the file system; paths in the other options are inside it
        rootfs: Option<PathBuf> [],
        /// The file systems that are mounted in the new root
        automount: Automount [],
        /// Control group
        cgroup: Option<Cgroup> [],
        /// Mapping of user ids; with a new `credential` namespace
        uidmap: Vec<IdMap> [],
        /// Mapping of group ids; with a new `credential` namespace
        gidmap: Vec<IdMap> [],
        /// Let programs that the application runs gain privileges, for example by set-uid bits
        new_privs: bool [default("true")],
    }
}

options! {
    /// New namespaces for the processes
    #[derive(Copy, Eq)]
    pub struct Namespaces: NAMESPACES = "namespaces" {
        /// cgroup namespace
        cgroup: bool [default("false")],
        /// User namespace
        credential: bool [default("false")],
        /// System V IPC and POSIX message queues
        ipc: bool [beyond(), default("false")],
        /// Mount namespace
        mount: bool [default("false")],
        /// Network namespace
        network: bool [default("false")],
        /// Process namespace
        pid: bool [default("false")],
        /// Clock offsets
        time: bool [beyond(), default("false")],
        /// UTS namespace
        uname: bool [default("false")],
    }
}

options! {
    /// The file systems that are mounted in the new root
    #[derive(Copy, Eq)]
    pub struct Automount: AUTOMOUNT = "automount" {
        /// The folders that the language needs
        language_deps: bool [default("true")],
        /// `/proc`
        procfs: bool [default("true")],
        /// `/tmp`
        tmpfs: bool [default("true")],
    }
}

options! {
    /// Control group
    #[derive(Eq)]
    pub struct Cgroup: CGROUP = "cgroup" {
        /// Path in the cgroup v2 hierarchy: absolute, or relative to the server's own group
        path: PathBuf [required()],
    }
}

options! {
    /// A range of ids
    #[derive(Copy, Eq)]
    pub struct IdMap: ID_MAP = "id map" {
        /// First id inside
        container: u32 [required()],
        /// First id outside
        host: u32 [required()],
        /// Number of ids
        size: u32 [kind(ValueKind::Integer(1, u32::MAX as i64)), required()],
    }
}

impl Isolation {
    /// Path of the control group.
    pub fn cgroup_path(&self) -> Option<&Path> {
        self.cgroup.as_ref().map(|cgroup| cgroup.path.as_path())
    }

    pub(crate) fn check(&self, complaints: &mut Complaints<'_>) {
        if let Some(root) = &self.rootfs
            && let Some(message) = root_fault(&root.to_string_lossy())
        {
            complaints.value("rootfs", message);
        }
        if let Some(cgroup) = self.cgroup_path()
            && !is_cgroup(&cgroup.to_string_lossy())
        {
            let message = "the path of a cgroup names a group and has no `..`";
            complaints.value("cgroup/path", message);
        }
        for (name, maps) in [("uidmap", &self.uidmap), ("gidmap", &self.gidmap)] {
            check_maps(name, maps, complaints);
        }
    }
}

fn is_cgroup(path: &str) -> bool {
    let mut names = path
        .split('/')
        .filter(|name| !matches!(*name, "" | "."))
        .peekable();
    names.peek().is_some() && names.all(|name| name != "..")
}

/// Returns why a path cannot be the new root.
fn root_fault(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("the new root must be an absolute path");
    }
    let mut depth = 0_usize;
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    (depth == 0).then_some("this is the current root, which would isolate nothing")
}

/// The kernel rejects overlapping ranges with only `EINVAL`.
fn check_maps(name: &str, maps: &[IdMap], complaints: &mut Complaints<'_>) {
    for (place, map) in maps.iter().enumerate() {
        let overlaps = |a: u32, b: u32, other: &IdMap| {
            let (a, b) = (u64::from(a), u64::from(b));
            a < b + u64::from(other.size) && b < a + u64::from(map.size)
        };
        let before = maps.iter().take(place);
        if before.into_iter().any(|other| {
            overlaps(map.container, other.container, other) || overlaps(map.host, other.host, other)
        }) {
            let message = "this range of ids overlaps with one before it";
            complaints.value(&format!("{name}/{place}"), message);
        }
    }
}
