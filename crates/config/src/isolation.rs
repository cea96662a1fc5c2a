//! The part of the typed configuration that separates an application from the system; re-exported by `model`.

use std::path::PathBuf;

use serde_json::{Value, json};

/// What separates the processes of an application from the rest of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// New namespaces.
    pub namespaces: Namespaces,
    /// New root of the file system.
    pub rootfs: Option<PathBuf>,
    /// What is mounted in it.
    pub automount: Automount,
    /// Path of the control group.
    pub cgroup: Option<PathBuf>,
    /// User ids inside and outside.
    pub uidmap: Vec<IdMap>,
    /// Group ids inside and outside.
    pub gidmap: Vec<IdMap>,
    /// Programs they run may gain privileges.
    pub new_privs: bool,
}

/// `isolation.namespaces`: which are new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the options")]
pub struct Namespaces {
    pub cgroup: bool,
    pub credential: bool,
    pub ipc: bool,
    pub mount: bool,
    pub network: bool,
    pub pid: bool,
    pub time: bool,
    pub uname: bool,
}

/// `isolation.automount`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Automount {
    /// What the language needs.
    pub language_deps: bool,
    /// `/proc`.
    pub procfs: bool,
    /// `/tmp`.
    pub tmpfs: bool,
}

/// A range of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdMap {
    /// First id inside.
    pub container: u32,
    /// First id outside.
    pub host: u32,
    /// How many.
    pub size: u32,
}

impl Isolation {
    pub(crate) fn start_config(&self) -> Value {
        let maps = |maps: &[IdMap]| -> Vec<Value> {
            maps.iter()
                .map(|map| json!({"container": map.container, "host": map.host, "size": map.size}))
                .collect()
        };
        let path = |path: &Option<PathBuf>| -> Option<String> {
            path.as_ref()
                .map(|path| path.to_string_lossy().into_owned())
        };
        let (namespaces, automount) = (self.namespaces, self.automount);
        json!({
            "namespaces": {
                "cgroup": namespaces.cgroup,
                "credential": namespaces.credential,
                "ipc": namespaces.ipc,
                "mount": namespaces.mount,
                "network": namespaces.network,
                "pid": namespaces.pid,
                "time": namespaces.time,
                "uname": namespaces.uname,
            },
            "rootfs": path(&self.rootfs),
            "automount": {
                "language_deps": automount.language_deps,
                "procfs": automount.procfs,
                "tmpfs": automount.tmpfs,
            },
            "cgroup": path(&self.cgroup),
            "uidmap": maps(&self.uidmap),
            "gidmap": maps(&self.gidmap),
            "new_privs": self.new_privs,
        })
    }
}
