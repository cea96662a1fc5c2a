//! A gate that the sample host's `/wait?file=PATH` waits at: what a test wants to last until something else has happened lasts
//! exactly that long, on a slow machine too.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

/// A gate, closed at first. Open it before it is dropped.
#[derive(Debug)]
pub struct Gate {
    folder: Option<TempDir>,
    file: PathBuf,
    is_open: AtomicBool,
}

impl Gate {
    /// A gate that processes of other users find too.
    pub fn new() -> Gate {
        let folder = crate::files::public_folder();
        let file = folder.path().join("open");
        Gate {
            folder: Some(folder),
            file,
            is_open: AtomicBool::new(false),
        }
    }

    /// The target of a request that is answered once the gate is open.
    pub fn target(&self) -> String {
        format!("/wait?file={}", self.file.display())
    }

    /// The file whose appearance opens it.
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    /// Opens the gate.
    pub fn open(&self) {
        std::fs::write(&self.file, "").expect("a file in a folder of ours");
        self.is_open.store(true, Ordering::Relaxed);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Opened by the test, all requests have passed. In a test that fails before, the file must stay to be seen.
        if !self.is_open.load(Ordering::Relaxed) {
            self.open();
            if let Some(folder) = self.folder.take() {
                let _ = folder.keep();
            }
        }
    }
}
