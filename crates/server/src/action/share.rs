//! `share`: from a configured path to a file, a redirect or a refusal.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;

use rustix::io::Errno;
use tutti_config::model::Template;
use tutti_config::template::TemplatePart;
use tutti_conn::accept::remedy;
use tutti_conn::clock::now_millis;
use tutti_files::cache::{CachedFile, Lookup};
use tutti_files::share_path::{ResolutionLimits, SharePath};
use tutti_pool::Level;

use crate::exchange::request::Request;

/// The result of looking up a path of a `share`.
pub(crate) enum Found {
    File(Rc<CachedFile>),
    /// A directory, requested without the slash at its end.
    Directory,
    /// It cannot be served: 403 or 404.
    Refused(u16),
    /// This server cannot open it, which has been logged: 500, or 503 if that will pass.
    Failed(u16),
}

/// Looks a path up. If it ends in a slash, it means the `index` file in that directory.
///
/// `literal_climbs`: how many segments `..` the path has from literal text of the configuration. Another one can only come from a variable
/// (the request's path is normalised), and would lead out of the share.
pub(crate) fn find(
    request: &Request<'_>,
    path: &mut Vec<u8>,
    index: &str,
    bounds: Option<ResolutionLimits<'_>>,
    literal_climbs: impl FnOnce() -> usize,
) -> Found {
    // A path would end there, and another file be served than the one that was checked.
    let has_nul = |path: &[u8]| memchr::memchr(0, path).is_some();
    if has_nul(path) || bounds.and_then(|bounds| bounds.chroot).is_some_and(has_nul) {
        return Found::Refused(404);
    }
    let climbs = climbs(path);
    if climbs > 0 && climbs > literal_climbs() {
        return Found::Refused(403);
    }
    if path.ends_with(b"/") {
        if index.is_empty() {
            return Found::Refused(404);
        }
        path.extend_from_slice(index.as_bytes());
    }
    let local = &request.client.local;
    match local.files.lookup(
        SharePath { path, bounds },
        &request.snapshot.mime,
        now_millis(),
    ) {
        Lookup::File(file) => Found::File(match &request.settings().file_types {
            None => file,
            Some(types) => file.typed(types.of(path, &request.snapshot.mime)),
        }),
        Lookup::Directory => Found::Directory,
        Lookup::Missing => Found::Refused(404),
        Lookup::Forbidden => Found::Refused(403),
        Lookup::Failed(errno) => {
            let path = String::from_utf8_lossy(path);
            let error = io::Error::from(errno);
            let remedy = remedy(&error).map(|remedy| format!("; {remedy}"));
            let remedy = remedy.unwrap_or_default();
            let line = format!("cannot open \"{path}\": {error}{remedy}");
            local.log_failure(Level::Error, &line);
            Found::Failed(match errno {
                Errno::MFILE | Errno::NFILE | Errno::BUSY => 503,
                _ => 500,
            })
        }
    }
}

/// The number of segments `..` in a path.
pub(crate) fn climbs(path: &[u8]) -> usize {
    let places = memchr::memchr_iter(b'.', path).filter(|place| {
        let (before, rest) = path.split_at_checked(*place).unwrap_or_default();
        matches!(before, [] | [.., b'/']) && matches!(rest, [b'.', b'.'] | [b'.', b'.', b'/', ..])
    });
    places.count()
}

/// The number of segments `..` that are literal in the template of a path. A script has none: its parts cannot be distinguished.
pub(crate) fn literal_climbs(template: &Template) -> usize {
    let parts = template.parts().iter().map(|part| match part {
        TemplatePart::Literal(text) => text,
        // A segment with a variable is not literal.
        _ => "$",
    });
    let text: String = parts.collect();
    climbs(text.as_bytes())
}

/// Why a path is not served, for the log; with the user and the folder or file that denies access, if that is the cause.
pub(crate) fn explained(
    path: &[u8],
    bounds: Option<ResolutionLimits<'_>>,
    status: u16,
    why: &str,
) -> String {
    let reason = format!("{:?} {why}", String::from_utf8_lossy(path));
    // With bounds, the path may begin at another root, and its links may not resolve here.
    if status != 403 || bounds.is_some() {
        return reason;
    }
    match denial(Path::new(OsStr::from_bytes(path))) {
        Some(denial) => format!("{reason}: {denial}"),
        None => reason,
    }
}

/// The folder on the way to a file that this process may not enter, or the file that it may not read.
fn denial(path: &Path) -> Option<String> {
    let is_denied = |error: io::Error| error.kind() == ErrorKind::PermissionDenied;
    // Its name is not looked up: that may involve other machines, and requests would wait.
    let user = format!(
        "the router's user (uid {})",
        rustix::process::geteuid().as_raw()
    );
    let mut places: Vec<&Path> = path.ancestors().collect();
    places.reverse();
    for place in places {
        if fs::metadata(place).is_err_and(is_denied) {
            let folder = place.parent()?.display();
            return Some(format!("{user} may not enter `{folder}`"));
        }
    }
    // A FIFO is not opened: that would wait for its other end.
    let is_file = fs::metadata(path).is_ok_and(|about| about.is_file());
    let is_unreadable = is_file && File::open(path).is_err_and(is_denied);
    is_unreadable.then(|| format!("{user} may not read the file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_climbs_by_a_segment_of_two_periods() {
        for path in ["..", "../a", "/..", "/a/../b", "/a.b/..", "/...//../"] {
            assert_eq!(climbs(path.as_bytes()), 1, "{path}");
        }
        assert_eq!(climbs(b"../..//../a/.."), 4);
        for path in [
            "", ".", "/", "/a..", "/..a", "/a../b", "/.../b", "/./a", "/a.b.c",
        ] {
            assert_eq!(climbs(path.as_bytes()), 0, "{path}");
        }
    }
}
