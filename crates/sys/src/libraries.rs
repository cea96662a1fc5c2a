//! The shared libraries that this program has loaded.
//!
//! Asked of the loader: `/proc/self/maps` has them too, and is root's where the user of the process cannot read its program.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Returns the files of all, without links in their paths.
pub fn loaded() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let data = (&raw mut found).cast::<c_void>();
    // SAFETY: `note` takes `data` for what it is, a vector that nothing else uses before the call returns.
    unsafe { libc::dl_iterate_phdr(Some(note), data) };
    // The program itself has no name here, and the kernel's own library no file.
    let files = found.iter().filter(|path| path.is_absolute());
    files.filter_map(|path| path.canonicalize().ok()).collect()
}

unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description (dl_iterate_phdr(3)), for the time of this call.
    let name = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the name is a string that ends with a zero, and belongs to the loader (the same page).
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: `loaded` passes a pointer to its vector, and waits for the end of this call.
    let found = unsafe { &mut *data.cast::<Vec<PathBuf>>() };
    found.push(PathBuf::from(OsStr::from_bytes(name.to_bytes())));
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_that_are_mapped() {
        let loaded = loaded();
        assert!(!loaded.is_empty());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        for library in loaded {
            let path = library.display().to_string();
            assert!(maps.lines().any(|line| line.ends_with(&path)), "{path}");
        }
    }
}
