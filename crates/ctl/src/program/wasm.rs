//! WebAssembly components, recognized by their first bytes: a folder of files may contain modules for browsers, which
//! are not applications.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::found_application::{Program, refusal};
use crate::report::CommandError;

/// The first bytes of a component: magic and version, then its layer (component model, Binary.md).
const START: [u8; 8] = *b"\0asm\x0d\0\x01\0";

/// True if the file is a component.
fn is_component(path: &Path) -> bool {
    let mut start = [0; START.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == START
}

/// Returns the application in a file; `None` if it is not a component.
pub(super) fn in_file(path: &Path) -> Option<Program> {
    is_component(path).then(|| of(path.to_path_buf()))
}

/// Returns the application for a component.
fn of(component: PathBuf) -> Program {
    let folder = component.parent().map(Path::to_path_buf);
    Program {
        what: format!("WebAssembly component {}", component.display()),
        options: json!({
            "type": "wasm-wasi-component", "component": component, "working_directory": folder
        }),
        is_concurrent: false,
        ..Program::default()
    }
}

/// Returns the component in `folder`.
pub(super) fn find(folder: &Path) -> Result<Option<Program>, CommandError> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut components: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension().is_some_and(|ending| ending == "wasm") && is_component(path)
        })
        .collect();
    components.sort();
    match components.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(of(only.clone()))),
        [first, ..] => Err(refusal(
            folder,
            "*.wasm",
            "a folder with several WebAssembly components",
            "name one of them (`tutti run FILE.wasm` does, too)",
            of(first.clone()).options,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_an_application_and_a_module_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("module.wasm", b"\0asm\x01\0\0\0");
        write("empty.wasm", b"");
        assert_eq!(find(folder.path()).unwrap(), None);
        write("app.wasm", &START);
        let found = find(folder.path()).unwrap().unwrap();
        assert_eq!(
            found.options["component"],
            json!(folder.path().join("app.wasm"))
        );
        write("other.wasm", &START);
        assert!(find(folder.path()).is_err());
    }
}
