//! `isolation` of an application.

use super::{Builder, Reader};
use crate::diagnostic::Diagnostic;
use crate::model::{Automount, IdMap, Isolation, Namespaces};
use crate::table::{AUTOMOUNT, CGROUP, ID_MAP, ISOLATION, NAMESPACES, Object};

fn is_cgroup(path: &str) -> bool {
    let mut names = path
        .split('/')
        .filter(|name| !matches!(*name, "" | "."))
        .peekable();
    names.peek().is_some() && names.all(|name| name != "..")
}

/// Why a path cannot be the new root.
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
    (depth == 0).then_some("this is the root there is, which would separate nothing")
}

impl<'d> Builder<'d> {
    pub(super) fn isolation(&mut self, reader: &Reader<'d>) -> Option<Isolation> {
        let inner = reader.inner("isolation", &ISOLATION)?;
        // Where the object is missing all its options have their defaults, as in one that has no such member.
        let part = |name: &str, table: &'static Object| {
            let reader = Reader {
                table,
                ..inner.clone()
            };
            inner.inner(name, table).unwrap_or(reader)
        };
        let namespaces = part("namespaces", &NAMESPACES);
        let automount = part("automount", &AUTOMOUNT);
        if let Some((node, pointer)) = inner.get("rootfs")
            && let Some(path) = node.as_str()
            && let Some(message) = root_fault(path)
            && !self.faults.has(node)
        {
            self.faults.value(Diagnostic::new(pointer, message), node);
        }
        let cgroup = inner.inner("cgroup", &CGROUP);
        if let Some((node, pointer)) = cgroup.as_ref().and_then(|cgroup| cgroup.get("path"))
            && node.as_str().is_some_and(|path| !is_cgroup(path))
        {
            let message = "the path of a cgroup names a group and has no `..`";
            self.faults.value(Diagnostic::new(pointer, message), node);
        }
        Some(Isolation {
            namespaces: Namespaces {
                cgroup: namespaces.boolean("cgroup"),
                credential: namespaces.boolean("credential"),
                ipc: namespaces.boolean("ipc"),
                mount: namespaces.boolean("mount"),
                network: namespaces.boolean("network"),
                pid: namespaces.boolean("pid"),
                time: namespaces.boolean("time"),
                uname: namespaces.boolean("uname"),
            },
            rootfs: inner.path("rootfs"),
            automount: Automount {
                language_deps: automount.boolean("language_deps"),
                procfs: automount.boolean("procfs"),
                tmpfs: automount.boolean("tmpfs"),
            },
            cgroup: cgroup.and_then(|cgroup| cgroup.path("path")),
            uidmap: self.id_maps(&inner, "uidmap"),
            gidmap: self.id_maps(&inner, "gidmap"),
            new_privs: inner.boolean("new_privs"),
        })
    }

    /// The kernel takes no ranges that overlap, and says of them only that something is invalid.
    fn id_maps(&mut self, isolation: &Reader<'d>, name: &str) -> Vec<IdMap> {
        let Some((node, pointer)) = isolation.get(name) else {
            return Vec::new();
        };
        let mut maps: Vec<IdMap> = Vec::new();
        for (place, element) in node.elements().iter().enumerate() {
            let pointer = pointer.child(&place.to_string());
            let reader = Reader {
                node: element,
                table: &ID_MAP,
                pointer,
            };
            let map = IdMap {
                container: reader.count("container"),
                host: reader.count("host"),
                size: reader.count("size"),
            };
            let overlaps = |a: u32, b: u32, other: &IdMap| {
                let (a, b) = (u64::from(a), u64::from(b));
                a < b + u64::from(other.size) && b < a + u64::from(map.size)
            };
            if maps.iter().any(|other| {
                overlaps(map.container, other.container, other)
                    || overlaps(map.host, other.host, other)
            }) && !self.faults.has(element)
            {
                let message = "this range of ids overlaps with one before it";
                self.faults
                    .value(Diagnostic::new(reader.pointer, message), element);
            }
            maps.push(map);
        }
        maps
    }
}
