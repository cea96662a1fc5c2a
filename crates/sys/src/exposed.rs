//! Files with secrets that other users can read.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Read permission for users who neither own the file nor are in its group (inode(7)).
const OTHERS_READ: u32 = 0o004;

/// The same for entering a folder.
const OTHERS_ENTER: u32 = 0o001;

/// The warning about a file with a secret that any user can read. `None` if only its owner and its group can.
pub fn warning(path: &Path, metadata: &Metadata) -> Option<String> {
    let mode = metadata.mode() & 0o7777;
    let is_exposed = mode & OTHERS_READ != 0 && is_reachable(path);
    is_exposed.then(|| {
        let path = path.display();
        format!(
            "`{path}` has mode {mode:04o}: every user of this machine can read it; hint: `chmod o= {path}`"
        )
    })
}

/// True if every user can enter the folders that lead to a file.
fn is_reachable(path: &Path) -> bool {
    // A folder that this process may not enter is closed to other users, too.
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    let is_open = |folder: &Path| {
        let metadata = folder.metadata();
        metadata.is_ok_and(|metadata| metadata.mode() & OTHERS_ENTER != 0)
    };
    path.ancestors().skip(1).all(is_open)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_exposed_if_it_and_its_folder_are_open_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.key");
        fs::write(&path, "").unwrap();
        for (mode, mode_of_folder, is_exposed) in [
            (0o644, 0o755, true),
            (0o604, 0o711, true),
            (0o640, 0o755, false),
            (0o600, 0o755, false),
            (0o644, 0o700, false),
            (0o644, 0o750, false),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(mode_of_folder)).unwrap();
            let warning = warning(&path, &path.metadata().unwrap());
            assert_eq!(warning.is_some(), is_exposed, "{mode:o} {mode_of_folder:o}");
            let Some(warning) = warning else { continue };
            let command = format!("chmod o= {}", path.display());
            assert!(warning.contains(&format!("mode 0{mode:o}")), "{warning}");
            assert!(warning.contains(&command), "{warning}");
        }
    }
}
