//! The location that a share serves from: a path, and the limits of its resolution (`chroot`, `follow_symlinks`, `traverse_mounts`).
//!
//! The kernel resolves and refuses in one step (openat2(2), Linux 5.6), so a directory cannot be replaced by a link in between. `chroot`
//! itself is opened without limits; the path after it is resolved as if it were `/`: links cannot lead out of it, and the other two options
//! apply to that part only.
//!
//! Must never: fall back to an unlimited resolution when the limited one fails.

use std::borrow::Cow;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

const WANTED: StatxFlags = StatxFlags::BASIC_STATS;

/// Attempts at a resolution that is disturbed by a concurrent rename (openat2(2), EAGAIN).
const ATTEMPTS: usize = 8;

/// A path and its limits.
#[derive(Clone, Copy, Debug)]
pub struct SharePath<'a> {
    /// The path, as configuration and request make it.
    pub path: &'a [u8],
    /// The limits of its resolution, if any.
    pub bounds: Option<ResolutionLimits<'a>>,
}

/// Limits for the resolution of a path.
#[derive(Clone, Copy, Debug)]
pub struct ResolutionLimits<'a> {
    /// A directory that it may not leave.
    pub chroot: Option<&'a [u8]>,
    /// Symbolic links are followed.
    pub follow_symlinks: bool,
    /// Mount points may be crossed.
    pub traverse_mounts: bool,
}

impl<'a> From<&'a [u8]> for SharePath<'a> {
    fn from(path: &'a [u8]) -> Self {
        Self { path, bounds: None }
    }
}

impl<'a> SharePath<'a> {
    /// A key that differs from that of the same path with other limits, which may lead elsewhere.
    pub fn key(&self) -> Cow<'a, [u8]> {
        let Some(bounds) = &self.bounds else {
            return Cow::Borrowed(self.path);
        };
        let chroot = bounds.chroot.unwrap_or_default();
        let flags = u8::from(bounds.follow_symlinks)
            | u8::from(bounds.traverse_mounts) << 1
            | u8::from(bounds.chroot.is_some()) << 2;
        // No path begins with a NUL.
        let mut key = vec![0, flags];
        key.extend_from_slice(&(chroot.len() as u32).to_ne_bytes());
        key.extend_from_slice(chroot);
        key.extend_from_slice(self.path);
        Cow::Owned(key)
    }

    /// Returns the metadata of the file, following symbolic links as far as permitted.
    pub fn stat(&self) -> Result<Statx, Errno> {
        match &self.bounds {
            None => rustix::fs::statx(CWD, self.path, AtFlags::empty(), WANTED),
            Some(bounds) => stat_open(&bounds.open(self.path, OFlags::PATH | OFlags::CLOEXEC)?),
        }
    }

    /// Opens it for reading.
    pub fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        match &self.bounds {
            None => rustix::fs::open(self.path, flags, Mode::empty()),
            Some(bounds) => bounds.open(self.path, flags),
        }
    }
}

/// Returns the metadata of an open file.
pub fn stat_open(descriptor: &OwnedFd) -> Result<Statx, Errno> {
    rustix::fs::statx(descriptor, c"", AtFlags::EMPTY_PATH, WANTED)
}

impl ResolutionLimits<'_> {
    fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::NO_SYMLINKS, !self.follow_symlinks);
        resolve.set(ResolveFlags::NO_XDEV, !self.traverse_mounts);
        let (start, rest) = match self.chroot {
            Some(chroot) => {
                let Some(rest) = below(path, chroot) else {
                    return Err(Errno::XDEV); // 403, as for every other way out of the share
                };
                resolve |= ResolveFlags::IN_ROOT;
                (chroot, rest)
            }
            // From `/`: relative to the current directory, its own mount would count as a mount point.
            None => (&b"/"[..], path),
        };
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let start = rustix::fs::open(start, directory, Mode::empty())?;
        let relative = trim_slashes(rest);
        let relative = if relative.is_empty() { b"." } else { relative };
        let mut outcome = Err(Errno::AGAIN);
        for _ in 0..ATTEMPTS {
            outcome = rustix::fs::openat2(&start, relative, flags, Mode::empty(), resolve);
            if !matches!(outcome, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        outcome
    }
}

/// Returns the part of `path` below `directory`, compared as text; empty segments do not count.
fn below<'p>(path: &'p [u8], directory: &[u8]) -> Option<&'p [u8]> {
    let mut rest = path;
    for segment in directory.split(|byte| *byte == b'/') {
        if segment.is_empty() {
            continue;
        }
        rest = trim_slashes(rest).strip_prefix(segment)?;
        if !rest.is_empty() && !rest.starts_with(b"/") {
            return None;
        }
    }
    Some(rest)
}

fn trim_slashes(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"/") {
        path = rest;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_a_directory_by_whole_segments() {
        for (path, directory, rest) in [
            ("/www/data/a", "/www/data/", Some("/a")),
            ("/www//data///a", "//www/data", Some("///a")),
            ("/www/data", "/www/data/", Some("")),
            ("/www/database/a", "/www/data", None),
            ("/www/index.xml", "/www/data/", None),
            ("/a", "/", Some("/a")),
            ("/www", "/www/data", None),
        ] {
            let found = below(path.as_bytes(), directory.as_bytes());
            assert_eq!(found, rest.map(str::as_bytes), "{path} {directory}");
        }
    }
}
