//! The programs of language hosts, as prototypes execute them.
//!
//! A prototype is executed as the application's user, with descriptors that no other application of that user may
//! access. A process of a program that its user cannot read is inaccessible to others from the first moment on; so a
//! readable program is executed from an unreadable copy in memory. Root's hosts with mode 0711, as `make build`
//! installs them, need no copy.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tutti_sys::{credentials, memfd};

/// The first bytes of an executable (elf(5)). A script is executed by its interpreter, which is readable.
const ELF: [u8; 4] = *b"\x7fELF";

/// The version of a file that was copied.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl From<&Metadata> for Version {
    fn from(file: &Metadata) -> Version {
        Version {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// The copies made so far, by path.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    copies: HashMap<PathBuf, (Version, OwnedFd)>,
}

impl Hosts {
    /// Returns a copy that the user of an application cannot read; `None` if the file itself is unreadable, or cannot
    /// be copied.
    pub(super) fn unreadable(&mut self, path: &Path) -> io::Result<Option<OwnedFd>> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            // Its user cannot read it either; if it does not exist, executing it reports that.
            Err(_) => return Ok(None),
        };
        let found = file.metadata()?;
        const READ_BY_OTHERS: u32 = 0o044;
        if credentials::is_root() && found.uid() == 0 && found.mode() & READ_BY_OTHERS == 0 {
            return Ok(None);
        }
        let version = Version::from(&found);
        if let Some((copied, copy)) = self.copies.get(path)
            && *copied == version
        {
            return copy.try_clone().map(Some);
        }
        let mut first = [0; ELF.len()];
        if file.read_exact(&mut first).is_err() || first != ELF {
            return Ok(None);
        }
        file.rewind()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let copy = memfd::unreadable_program(&name, &mut file)?;
        let given = copy.try_clone()?;
        self.copies.insert(path.to_path_buf(), (version, copy));
        Ok(Some(given))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Decision 0315: a program that its user cannot read is executed directly.
    #[test]
    fn a_host_that_others_cannot_read_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("host");
        std::fs::copy("/bin/true", &host).unwrap();
        let copy_of = |mode: u32| {
            std::fs::set_permissions(&host, PermissionsExt::from_mode(mode)).unwrap();
            Hosts::default().unreadable(&host).unwrap()
        };
        assert!(copy_of(0o755).is_some());
        // An owner other than root could make it readable again.
        assert_eq!(copy_of(0o711).is_none(), credentials::is_root());
        // A script is executed by a program that all users can read.
        std::fs::write(&host, "#!/bin/sh\n").unwrap();
        assert!(copy_of(0o755).is_none());
    }
}
