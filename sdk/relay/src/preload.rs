//! A module of a language's host that the program's runtime loads before the application.
//!
//! It has the application listen at the worker's socket, whatever place that asks for, learns each request's client from a field that
//! only the relay writes ([`head`](crate::head)), and leaves the reason in a file when the application does not listen. Its files are in the worker's
//! own folder, which no other user may enter.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Longest file that tells a failure.
const LONGEST_FAILURE: u64 = 16 * 1024;

/// A module, and how the program gets it.
#[derive(Clone, Debug)]
pub struct Preload {
    /// The names of its files and their texts; the first is what the runtime loads.
    pub files: &'static [(&'static str, &'static str)],
    /// The library by which the program may take its requests itself, if there is one.
    pub library: Option<PathBuf>,
    /// The variables that make the runtime load it, in place of those of the same name.
    pub variables: fn(&PreloadFiles) -> Vec<(&'static str, OsString)>,
    /// The option that names the runtime.
    pub runtime_member: &'static str,
    /// The option that names the application.
    pub script_member: &'static str,
    /// The cure when the program does not listen, and the module does not know why.
    pub hint: &'static str,
}

/// The files of one program.
#[derive(Clone, Debug)]
pub struct PreloadFiles {
    /// The module.
    pub module: PathBuf,
    /// Where the application is to listen.
    pub socket: PathBuf,
    /// A socket that answers as long as the program's event loop turns.
    pub alive: PathBuf,
    /// The file that the module writes when the application fails before it listens.
    pub failure: PathBuf,
    /// The number of the worker.
    pub worker: u32,
    /// The library by which it may take its requests itself, and its place in the server.
    pub library: Option<(PathBuf, InheritedDescriptors)>,
}

/// A place in the server, as the program finds it.
#[derive(Clone, Debug)]
pub struct InheritedDescriptors {
    /// The numbers of the descriptors that it inherits.
    pub descriptors: Vec<RawFd>,
    /// The variables that tell what they are: by the module, since threads of the runtime copy the environment before it runs.
    pub variables: Vec<(&'static str, String)>,
}

impl PreloadFiles {
    /// Those in the folder that `socket` is in.
    pub(crate) fn beside(socket: &Path, preload: &Preload, worker: u32) -> Self {
        let module = preload.files.first().map_or("", |(name, _)| *name);
        Self {
            module: socket.with_file_name(module),
            socket: socket.to_path_buf(),
            alive: socket.with_file_name("alive.sock"),
            failure: socket.with_file_name("failure.json"),
            worker,
            library: None,
        }
    }

    /// Writes the module's files.
    pub(crate) fn write(&self, preload: &Preload) -> io::Result<()> {
        for (name, text) in preload.files {
            std::fs::write(self.module.with_file_name(name), text)?;
        }
        Ok(())
    }
}

/// The reason why an application does not listen.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListenError {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// `runtime` or `script`.
    pub(crate) member: String,
}

impl ListenError {
    /// The failure that the module has told; the application may have written anything there.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let mut text = String::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(LONGEST_FAILURE).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_read_and_nonsense_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("failure.json");
        assert!(ListenError::read(&path).is_none());
        std::fs::write(&path, r#"{"message":"no","member":"runtime","more":1}"#).unwrap();
        let failure = ListenError::read(&path).unwrap();
        assert_eq!((failure.message.as_str(), failure.hint), ("no", None));
        assert_eq!(failure.member, "runtime");
        for nonsense in ["", "[", "[1]", "{\"message\":1}"] {
            std::fs::write(&path, nonsense).unwrap();
            assert!(ListenError::read(&path).is_none(), "{nonsense}");
        }
    }
}
