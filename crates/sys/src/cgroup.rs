//! Control groups, version 2: finding the hierarchy, making folders in it and removing them.
//!
//! Called by main. What must never happen: a path that leads out of the hierarchy, or the removal of a group that was
//! there before us.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use crate::error::context;

/// Where the hierarchy is mounted, if it is.
pub fn hierarchy() -> io::Result<Option<PathBuf>> {
    let text = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|e| context("reading /proc/self/mountinfo", e))?;
    Ok(find_mount(&text))
}

/// Fields of a line: number, parent, device, root, mount point, options, optional fields, `-`, type (proc(5)).
fn find_mount(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?;
        (kind.split(' ').next()? == "cgroup2").then(|| PathBuf::from(point))
    })
}

/// The group of this process, as a path from the top of the hierarchy.
pub fn own() -> io::Result<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup")
        .map_err(|e| context("reading /proc/self/cgroup", e))?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"));
    Ok(PathBuf::from(path.unwrap_or("/")))
}

/// Returns the folder of a group: absolute from the top of the hierarchy, else below `own`. `None` for a path that
/// leads out of the hierarchy.
pub fn folder(hierarchy: &Path, own: &Path, path: &Path) -> Option<PathBuf> {
    let mut folder = hierarchy.to_path_buf();
    let below = if path.is_absolute() { None } else { Some(own) };
    for part in below.into_iter().chain([path]) {
        for component in part.components() {
            match component {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => folder.push(name),
                Component::ParentDir | Component::Prefix(_) => return None,
            }
        }
    }
    (folder != hierarchy).then_some(folder)
}

/// Makes the group where it is missing. Returns the opened group, and the folders that were made, outermost first.
pub fn make(hierarchy: &Path, folder: &Path) -> io::Result<(OwnedFd, Vec<PathBuf>)> {
    let mut made = Vec::new();
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|at| *at != hierarchy && !at.exists())
        .collect();
    for path in missing.into_iter().rev() {
        match fs::create_dir(path) {
            Ok(()) => made.push(path.to_path_buf()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                remove(&made);
                return Err(context(
                    format!("making the cgroup `{}`", path.display()),
                    error,
                ));
            }
        }
    }
    match File::open(folder) {
        Ok(file) => Ok((file.into(), made)),
        Err(error) => {
            remove(&made);
            Err(context(
                format!("opening the cgroup `{}`", folder.display()),
                error,
            ))
        }
    }
}

/// Removes groups that are empty, innermost first. Returns those that are left.
pub fn remove(made: &[PathBuf]) -> Vec<PathBuf> {
    let mut left: Vec<PathBuf> = made
        .iter()
        .rev()
        .filter(|path| match fs::remove_dir(path) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        })
        .cloned()
        .collect();
    left.reverse();
    left
}

/// Kills every process in a group and the groups below it (Linux 5.14).
pub fn kill_all(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.kill"), "1")
}

/// True if nothing lives in a group or below it.
pub fn is_empty(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cgroup.events")).map_or(true, |events| {
        events.lines().any(|line| line == "populated 0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_also_in_a_mixed_hierarchy() {
        let text = "25 1 0:22 / /proc rw - proc proc rw\n\
                    30 25 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                    31 25 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            find_mount(text),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(find_mount("25 1 0:22 / /proc rw - proc proc rw\n"), None);
    }

    #[test]
    fn no_path_leads_out() {
        let at = |path: &str| folder(Path::new("/cg"), Path::new("/own"), Path::new(path));
        assert_eq!(at("/a/b"), Some("/cg/a/b".into()));
        assert_eq!(at("a/b"), Some("/cg/own/a/b".into()));
        assert_eq!(at("./a"), Some("/cg/own/a".into()));
        assert_eq!(at("/"), None);
        assert_eq!(at("../a"), None);
        assert_eq!(at("/a/../../b"), None);
    }
}
