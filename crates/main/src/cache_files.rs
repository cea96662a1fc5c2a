//! The files of caches, opened for routers, which cannot write in any of their folders.
//!
//! A router gets one file for each store that the configuration has on disk, and neither creates nor removes any
//! itself. Must never happen: that it gets a file that another user can access, because its content is sent to all
//! clients.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tutti_protocol::CacheGrant;
use tutti_sys::error::context;
use tutti_sys::{credentials, guarded};

/// The folder in the state folder.
const FOLDER: &str = "cache";

/// The longest file name: most file systems allow 255 bytes.
const LONGEST_NAME: usize = 200;

/// Opens or creates the file of a store. Each descriptor has its own lock: of two routers only one has the file.
pub(super) fn open(state: &Path, cache: &CacheGrant) -> io::Result<OwnedFd> {
    let folder = match &cache.folder {
        Some(folder) if !folder.is_absolute() => {
            let text = "the path of the folder must begin with `/`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Some(folder) => folder.clone(),
        None => state.join(FOLDER),
    };
    let opening = |error| context(format!("opening the folder `{}`", folder.display()), error);
    let reached = guarded::folder(&folder, Some(0o700)).map_err(opening)?;
    let path = reached.path().join(file_name(&cache.name)?);
    let opening = |error| context(format!("opening `{}`", path.display()), error);
    let file = guarded::named(&path).and_then(|named| named.open_file(0o600));
    let file = File::from(file.map_err(opening)?);
    let about = file.metadata()?;
    let is_ours = about.uid() == 0 || about.uid() == credentials::current_user();
    if !is_ours || about.mode() & 0o077 != 0 || about.nlink() != 1 {
        let text = format!(
            "`{}` is not private to the server: it has another owner or another hard link, or others may read or write it; remove it",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(file.into())
}

/// Encodes the name of a store: other characters than letters and digits are replaced by their number.
fn file_name(store: &str) -> io::Result<String> {
    let mut name = String::new();
    for byte in store.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02X}")),
        }
    }
    if name.len() > LONGEST_NAME {
        let text = "the name of the cache is too long for a file: choose a shorter one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    assert!(
        !name.contains('/'),
        "a store's file is in the folder of stores"
    );
    name.push_str(".cache");
    Ok(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn cache(name: &str, folder: Option<&Path>) -> CacheGrant {
        CacheGrant {
            name: name.to_owned(),
            folder: folder.map(Path::to_path_buf),
        }
    }

    #[test]
    fn files_are_the_servers_alone() {
        let state = tempfile::tempdir().unwrap();
        let file = state.path().join("cache/a%2F%2E%2E%2Fb.cache");
        drop(open(state.path(), &cache("a/../b", None)).unwrap());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o660)).unwrap();
        assert!(open(state.path(), &cache("a/../b", None)).is_err());
        let other = state.path().join("other");
        std::fs::write(&other, "x").unwrap();
        let folder = state.path().join("made/here");
        drop(open(state.path(), &cache("pages", Some(&folder))).unwrap());
        std::fs::hard_link(folder.join("pages.cache"), state.path().join("second")).unwrap();
        assert!(open(state.path(), &cache("pages", Some(&folder))).is_err());
        symlink(&other, folder.join("linked.cache")).unwrap();
        assert!(open(state.path(), &cache("linked", Some(&folder))).is_err());
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "x");
        let relative = cache("pages", Some(Path::new("here")));
        assert!(open(state.path(), &relative).is_err());
        assert!(open(state.path(), &cache(&"x".repeat(300), None)).is_err());
    }
}
