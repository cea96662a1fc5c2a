//! The objects stored beside the configuration, each a file with the text as it was uploaded, readable only by root:
//! certificate bundles in `certs/NAME` of the state folder, script modules in `scripts/NAME`, documents of the acme
//! process in `acme/NAME`, those of the source process in `fleet/NAME`.
//!
//! Main stores them unchanged and does not parse them: the controller and the router do. Characters of a name with a
//! meaning in the file system are written `%XX`.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tutti_protocol::StoreKind;
use tutti_sys::error::context;
use tutti_sys::file;

/// Suffix of the name of a file that is being written.
const HALF: &str = ".tmp";

/// Longest file name, of the 255 bytes that Linux allows; [`HALF`] is appended temporarily.
const MAX_NAME_BYTES: usize = 240;

/// A folder in the state folder in which each object is a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shelf {
    /// Objects stored by the control API.
    Of(StoreKind),
    /// Documents of the acme process.
    Acme,
    /// Texts of the source process.
    Fleet,
}

/// Uses the folder names of Unit's state folder, so that either server can take over the other's.
fn folder(state: &Path, shelf: Shelf) -> PathBuf {
    state.join(match shelf {
        Shelf::Of(StoreKind::Certificates) => "certs",
        Shelf::Of(StoreKind::JsModules) => "scripts",
        Shelf::Acme => "acme",
        Shelf::Fleet => "fleet",
    })
}

/// The bytes of a name that are encoded in the file name: all except letters, digits, `-` and `_`.
const WITHOUT_PERIODS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// The bytes that are encoded where periods are allowed, which is everywhere except at the beginning.
const PLAIN: &AsciiSet = &WITHOUT_PERIODS.remove(b'.');

/// Returns the file of the object with this name.
fn path(state: &Path, shelf: Shelf, name: &str) -> io::Result<PathBuf> {
    let file = match name.strip_prefix('.') {
        // A file with this suffix is incomplete.
        _ if name.ends_with(HALF) => utf8_percent_encode(name, WITHOUT_PERIODS).to_string(),
        Some(rest) => format!("%2E{}", utf8_percent_encode(rest, PLAIN)),
        None => utf8_percent_encode(name, PLAIN).to_string(),
    };
    if file.is_empty() || file.len() > MAX_NAME_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a name has from 1 to 80 characters",
        ));
    }
    Ok(folder(state, shelf).join(file))
}

/// Returns the name of the object in a file with this name; `None` if it is not one.
fn name_of(file: &str) -> Option<String> {
    let is_code = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !file.split('%').skip(1).all(is_code) {
        return None;
    }
    let name = percent_decode_str(file).decode_utf8().ok()?.into_owned();
    (!file.ends_with(HALF) && !file.starts_with('.')).then_some(name)
}

/// Returns all stored objects by name, and the errors.
pub fn load(state: &Path, store: StoreKind) -> (BTreeMap<String, String>, Vec<io::Error>) {
    load_shelf(state, Shelf::Of(store))
}

/// Returns all objects on a shelf by name, and the errors.
pub(super) fn load_shelf(state: &Path, shelf: Shelf) -> (BTreeMap<String, String>, Vec<io::Error>) {
    let mut found = BTreeMap::new();
    let mut errors = Vec::new();
    let folder = folder(state, shelf);
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                errors.push(context(format!("reading `{}`", folder.display()), error));
            }
            return (found, errors);
        }
    };
    for entry in entries.flatten() {
        let Some(name) = entry.file_name().to_str().and_then(name_of) else {
            continue;
        };
        match std::fs::read_to_string(entry.path()) {
            Ok(text) => {
                found.insert(name, text);
            }
            Err(error) => {
                let place = entry.path();
                errors.push(context(format!("reading `{}`", place.display()), error));
            }
        }
    }
    (found, errors)
}

/// Stores an object so that a crash leaves either the old or the new one, complete. Returns what
/// [`file::replace_durably`] returns.
pub(super) fn keep(
    state: &Path,
    store: StoreKind,
    name: &str,
    text: &str,
) -> io::Result<Option<io::Error>> {
    keep_on(state, Shelf::Of(store), name, text)
}

/// Stores an object on a shelf.
pub(super) fn keep_on(
    state: &Path,
    shelf: Shelf,
    name: &str,
    text: &str,
) -> io::Result<Option<io::Error>> {
    let path = path(state, shelf, name)?;
    let folder = folder(state, shelf);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let doing = format!("making the folder `{}`", folder.display());
            return Err(context(doing, error));
        }
        _ => {}
    }
    file::replace_durably(&path, text.as_bytes(), 0o600)
}

/// Deletes an object; a missing one counts as deleted.
pub(super) fn discard(state: &Path, store: StoreKind, name: &str) -> io::Result<()> {
    discard_from(state, Shelf::Of(store), name)
}

/// Deletes an object from a shelf.
pub(super) fn discard_from(state: &Path, shelf: Shelf, name: &str) -> io::Result<()> {
    let path = path(state, shelf, name)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(context(format!("deleting `{}`", path.display()), error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const CERTIFICATES: StoreKind = StoreKind::Certificates;

    #[test]
    fn what_is_stored_is_found_whatever_its_name() {
        let state = tempfile::tempdir().unwrap();
        let names = [
            "bundle",
            "example.com",
            "../../etc/x",
            ".hidden",
            "ж",
            "a%2Fb",
            "x.tmp",
        ];
        for name in names {
            keep(state.path(), CERTIFICATES, name, &format!("pem of {name}")).unwrap();
        }
        std::fs::write(state.path().join("certs/left.tmp"), "half").unwrap();
        let (found, errors) = load(state.path(), CERTIFICATES);
        assert!(errors.is_empty());
        assert_eq!(found.len(), names.len());
        for name in names {
            assert_eq!(found.get(name).unwrap(), &format!("pem of {name}"));
        }
        let folder = state.path().join("certs");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&folder), mode(&folder.join("bundle"))),
            (0o700, 0o600)
        );
        keep(state.path(), StoreKind::JsModules, "bundle", "export").unwrap();
        discard(state.path(), CERTIFICATES, "bundle").unwrap();
        discard(state.path(), CERTIFICATES, "bundle").unwrap();
        assert!(!load(state.path(), CERTIFICATES).0.contains_key("bundle"));
        // Each store has its own namespace.
        let (modules, _) = load(state.path(), StoreKind::JsModules);
        assert_eq!(modules.get("bundle").unwrap(), "export");
    }

    #[test]
    fn names_that_are_too_long_or_empty_are_refused() {
        let state = tempfile::tempdir().unwrap();
        assert!(keep(state.path(), CERTIFICATES, "", "x").is_err());
        assert!(keep(state.path(), CERTIFICATES, &"x".repeat(241), "x").is_err());
    }
}
