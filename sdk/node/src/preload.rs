//! The module that is loaded before the script, and the environment that makes `node` do so.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde_json::json;
use tutti_relay::{Preload, PreloadFiles};

/// Our module. `runtime_member` and `script_member` are the options to blame.
pub fn preload(runtime_member: &'static str, script_member: &'static str) -> Preload {
    Preload {
        files: &[
            ("preload.js", include_str!("../preload.js")),
            ("channel.js", include_str!("../channel.js")),
        ],
        library: library(),
        variables,
        runtime_member,
        script_member,
        hint: "the script must call `listen()` on a server of `http.createServer()`; its last output says why it does not",
    }
}

/// The name of the library by which Node.js takes its requests itself (`sdk/node/addon`).
const LIBRARY: &str = "libtutti_node_addon.so";

/// The variable that has all requests come by a socket, when it is set: to find out if the library is at fault.
const SOCKET: &str = "TUTTI_NODE_SOCKET";

/// The library, if requests may come by it.
pub(crate) fn library() -> Option<PathBuf> {
    match std::env::var_os(SOCKET) {
        Some(_) => None,
        None => installed(),
    }
}

/// Where it is: beside the host. Cargo puts it into a folder of its own.
fn installed() -> Option<PathBuf> {
    let host = tutti_worker::module().canonicalize().ok()?;
    let folder = host.parent()?;
    [folder.join("deps").join(LIBRARY), folder.join(LIBRARY)]
        .into_iter()
        .find(|path| path.is_file())
}

/// In `NODE_OPTIONS`, so that it is the same however `node` is started; the module gives the application back its own.
/// `--trace-sigint` costs a thread that sleeps, and prints the stack of a script that does not come back.
fn variables(places: &PreloadFiles) -> Vec<(&'static str, OsString)> {
    let own = std::env::var_os("NODE_OPTIONS");
    let told = json!({
        "socket": places.socket,
        "alive": places.alive,
        "failure": places.failure,
        "worker": places.worker,
        // It hides the process in any case.
        "library": installed(),
        "descriptors": places.library.as_ref().map(|(_, place)| &place.descriptors),
        "variables": places.library.as_ref().map(|(_, place)| {
            place.variables.iter().cloned().collect::<BTreeMap<_, _>>()
        }),
        "options": own.as_ref().map(|own| own.to_string_lossy()),
    });
    let mut options = b"--trace-sigint --require ".to_vec();
    options.extend(quoted(&places.module));
    if let Some(own) = own {
        options.push(b' ');
        options.extend(own.as_bytes());
    }
    vec![
        ("NODE_OPTIONS", OsString::from_vec(options)),
        ("TUTTI_NODE", told.to_string().into()),
    ]
}

/// In the quotes that `NODE_OPTIONS` knows (node(1)).
fn quoted(path: &Path) -> Vec<u8> {
    let mut quoted = b"\"".to_vec();
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_the_options() {
        assert_eq!(quoted(Path::new("/tmp/a b")), b"\"/tmp/a b\"");
        assert_eq!(quoted(Path::new("/a\"b\\c")), b"\"/a\\\"b\\\\c\"");
    }
}
