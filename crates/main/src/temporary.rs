//! The folder of temporary files, in which main creates the spool files of routers.
//!
//! Cleaners remove such folders. Main creates it again if it is missing at a start of the router or when a spool is
//! requested: files are opened by main and passed on, so it does not matter that the router's sandbox knows only the
//! former folder.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tutti_sys::credentials::Credentials;
use tutti_sys::error::context;
use tutti_sys::guarded;

/// Returns the folder at the start: the configured one or, if the router's user cannot write there, a new one inside.
/// An existing folder keeps its owner and mode.
pub(super) fn prepare(asked: &Path, router: Option<&Credentials>) -> io::Result<PathBuf> {
    let named = |e| in_preparation(asked, e);
    guarded::folder(asked, Some(0o755)).map_err(named)?;
    let Some(router) = router else {
        return Ok(asked.to_path_buf());
    };
    if may_write(&fs::metadata(asked).map_err(named)?, router) {
        return Ok(asked.to_path_buf());
    }
    let own = asked.join("tutti");
    make_own(&own, router).map_err(named)?;
    Ok(own)
}

/// Creates it again if it has been removed; returns whether it was.
pub(super) fn ensure(folder: &Path, router: Option<&Credentials>) -> io::Result<bool> {
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        _ => return Ok(false),
    }
    let made = match (folder.parent(), router) {
        (Some(parent), Some(router)) => {
            guarded::folder(parent, Some(0o755)).and_then(|_| make_own(folder, router))
        }
        _ => guarded::folder(folder, Some(0o755)).map(drop),
    };
    made.map_err(|e| in_preparation(folder, e))?;
    Ok(true)
}

fn make_own(folder: &Path, router: &Credentials) -> io::Result<()> {
    guarded::folder(folder, Some(0o700))?.give_to(router.uid, router.gid)
}

fn in_preparation(folder: &Path, error: io::Error) -> io::Error {
    let text = format!(
        "preparing the folder of temporary files `{}`",
        folder.display()
    );
    context(text, error)
}

/// True if the mode of a folder lets this user create files in it (path_resolution(7): owner, else group, else others).
fn may_write(folder: &fs::Metadata, user: &Credentials) -> bool {
    const WRITE_AND_SEARCH: u32 = 0o3;
    let shift = if user.uid == folder.uid() {
        6
    } else if user.gid == folder.gid() || user.groups.contains(&folder.gid()) {
        3
    } else {
        0
    };
    user.uid == 0 || (folder.mode() >> shift) & WRITE_AND_SEARCH == WRITE_AND_SEARCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_removed_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let asked = folder.path().join("var/tmp");
        assert_eq!(prepare(&asked, None).unwrap(), asked);
        assert!(!ensure(&asked, None).unwrap());
        fs::remove_dir_all(folder.path().join("var")).unwrap();
        assert!(ensure(&asked, None).unwrap());
        assert!(asked.is_dir());
    }
}
