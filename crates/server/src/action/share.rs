//! `share`: from a path in the configuration's terms to a file, a redirect or a refusal.

use std::rc::Rc;

use tutti_pool::Level;

use crate::request::Request;
use tutti_conn::clock::now_millis;
use tutti_files::cache::{CachedFile, Lookup};
use tutti_files::place::{Bounds, Place};

/// The result of looking up a path of a `share`.
pub(crate) enum Found {
    File(Rc<CachedFile>),
    /// A directory, asked for without the slash at its end.
    Directory,
    /// It cannot be served: 403, 404 or 500.
    Refused(u16),
}

/// Looks a path up. One that ends in a slash stands for the `index` file in that directory.
///
/// `has_parent_segments`: the configuration itself wrote `..` into the path. Otherwise such a segment can only come from a
/// variable (the request's path is normalised), and would lead out of the share.
pub(crate) fn find(
    request: &Request<'_>,
    path: &mut Vec<u8>,
    index: &str,
    bounds: Option<Bounds<'_>>,
    has_parent_segments: bool,
) -> Found {
    // A path would end there, and another file be served than the one that was looked at.
    let has_nul = |path: &[u8]| memchr::memchr(0, path).is_some();
    if has_nul(path) || bounds.and_then(|bounds| bounds.chroot).is_some_and(has_nul) {
        return Found::Refused(404);
    }
    if !has_parent_segments
        && path
            .split(|byte| *byte == b'/')
            .any(|segment| segment == b"..")
    {
        return Found::Refused(403);
    }
    if path.ends_with(b"/") {
        if index.is_empty() {
            return Found::Refused(404);
        }
        path.extend_from_slice(index.as_bytes());
    }
    let local = &request.connection.local;
    match local
        .files
        .lookup(Place { path, bounds }, &request.snapshot.mime, now_millis())
    {
        Lookup::File(file) => Found::File(file),
        Lookup::Directory => Found::Directory,
        Lookup::Missing => Found::Refused(404),
        Lookup::Forbidden => Found::Refused(403),
        Lookup::Failed(errno) => {
            let path = String::from_utf8_lossy(path);
            local.log(
                Level::Error,
                &format!("cannot open \"{path}\": {}", std::io::Error::from(errno)),
            );
            Found::Refused(500)
        }
    }
}
