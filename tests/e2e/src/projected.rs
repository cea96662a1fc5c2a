//! A folder as the kubelet keeps one for a ConfigMap, a Secret or a projected volume: files are links through `..data`, which is replaced as a
//! whole (<https://github.com/kubernetes/kubernetes/blob/v1.31.0/pkg/volume/util/atomic_writer.go>).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The link to the files there are.
const DATA: &str = "..data";

/// One that takes its place.
const NEW_DATA: &str = "..data_tmp";

/// The folder.
pub struct Projected {
    folder: PathBuf,
    mode: u32,
    number: AtomicU32,
}

impl Projected {
    /// An empty one, whose files have this mode: 0644 of a ConfigMap, as a rule, and less of a Secret.
    pub fn new(folder: &Path, mode: u32) -> Projected {
        fs::create_dir(folder).expect("a folder");
        Projected {
            folder: folder.to_owned(),
            mode,
            number: AtomicU32::new(0),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// From now on it has these files, and no others.
    pub fn write(&self, files: &BTreeMap<&str, String>) {
        let former = fs::read_link(self.folder.join(DATA)).ok();
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let name = format!("..2026_11_26_12_00_{:02}.{number:09}", number % 60);
        let fresh = self.folder.join(&name);
        fs::create_dir(&fresh).expect("a folder");
        for (file, text) in files {
            let path = fresh.join(file);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(self.mode)).expect("its mode");
        }
        symlink(&name, self.folder.join(NEW_DATA)).expect("a link");
        fs::rename(self.folder.join(NEW_DATA), self.folder.join(DATA)).expect("it is replaced");
        for file in files.keys() {
            let visible = self.folder.join(file);
            if visible.symlink_metadata().is_err() {
                symlink(Path::new(DATA).join(file), visible).expect("a link");
            }
        }
        let Some(former) = former.map(|former| self.folder.join(former)) else {
            return;
        };
        for entry in fs::read_dir(&former).expect("the former files").flatten() {
            let name = entry.file_name();
            if !files.contains_key(&*name.to_string_lossy()) {
                fs::remove_file(self.folder.join(name)).expect("a link goes");
            }
        }
        fs::remove_dir_all(former).expect("the former files go");
    }
}
