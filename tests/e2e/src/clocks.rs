//! Wall clocks that a test moves, one for each server. The kernel has time namespaces for other clocks only, so that a library between a
//! program and its libc adds what the test says. Programs that ask the kernel by themselves, as those in Go, keep the machine's clock.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, and the clocks that are made with it.
pub struct Clocks {
    folder: tempfile::TempDir,
    library: PathBuf,
}

/// The wall clock of a server.
pub struct Clock {
    file: File,
    path: PathBuf,
    library: PathBuf,
}

impl Clocks {
    /// Compiles the library.
    pub fn new() -> Clocks {
        let folder = tempfile::tempdir().expect("a folder");
        // Processes without rights read from it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let library = folder.path().join("clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock.c");
        let run = Command::new("cc")
            .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .output()
            .expect("cc runs");
        assert!(run.status.success(), "{run:?}");
        Clocks { folder, library }
    }

    /// A clock that is right.
    pub fn make(&self, name: &str) -> Clock {
        let path = self.folder.path().join(name);
        fs::write(&path, 0_i64.to_ne_bytes()).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
        Clock {
            file: File::options().write(true).open(&path).expect("a file"),
            path,
            library: self.library.clone(),
        }
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// The environment of a server that goes by it.
    pub fn environment(&self) -> [String; 2] {
        [
            format!("LD_PRELOAD={}", self.library.display()),
            format!("CLOCK_OFFSET={}", self.path.display()),
        ]
    }

    /// It is wrong by so many seconds from now on.
    pub fn set(&mut self, seconds: i64) {
        // In one write, and at the same place: the server has it mapped.
        self.file.seek(SeekFrom::Start(0)).expect("a file");
        let written = self.file.write_all(&seconds.to_ne_bytes());
        written.expect("the file is written");
    }
}
