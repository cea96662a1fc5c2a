//! Folders and programs for tests.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::wait_until;

/// A temporary folder that other users can enter and write to.
pub fn public_folder() -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("tutti-test-")
        .tempdir()
        .expect("a temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("its mode");
    folder
}

/// Copies a program so that it can be executed at once. There is always a file at `to` if there was one before.
///
/// A separate process writes it: were it written here, a child that another test forks meanwhile would hold the descriptor until it
/// executes its own program, and the kernel refuses to execute a file that is open for writing (`ETXTBSY`).
pub fn install(from: &Path, to: &Path) {
    let inode = || fs::metadata(to).ok().map(|found| found.ino());
    let before = inode();
    let mut child = Command::new("/bin/sh")
        .args([
            "-c",
            r#"install -m 755 -- "$1" "$2.new" && mv -- "$2.new" "$2""#,
            "sh",
        ])
        .arg(from)
        .arg(to)
        .spawn()
        .expect("a shell starts");
    // Another thread may reap it: in some test programs one thread reaps all children.
    wait_until(&format!("{} is installed", to.display()), || {
        let ended = child.try_wait().ok().flatten();
        assert!(
            ended.is_none_or(|status| status.success()),
            "{} cannot be installed",
            to.display()
        );
        inode().is_some_and(|now| Some(now) != before)
    });
    let _ = child.wait();
}

/// Writes a script that can be executed at once, as [`install`] does.
pub fn script(path: &Path, text: &str) {
    let source = path.with_extension("source");
    fs::write(&source, text).expect("a file");
    install(&source, path);
    fs::remove_file(&source).expect("it was just written");
}

/// Copies a folder with all that is in it, readable by all.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder to copy") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a copy");
        }
    }
}
