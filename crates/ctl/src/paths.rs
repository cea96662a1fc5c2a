//! `tutti config check --files`: checks the files and folders of a configuration on this machine.

use std::path::{Path, PathBuf};

use tutti_config::{Diagnostic, Diagnostics, Document, Pointer, TreeNode};

/// Options whose absolute paths must exist. Logs and sockets are created when they are needed.
const OPTIONS: &[&str] = &[
    "ca",
    "certificate",
    "client_ca",
    "component",
    "executable",
    "file",
    "home",
    "key",
    "root",
    "rootfs",
    "script",
    "token_file",
    "webapp",
    "working_directory",
];

/// Returns faults for paths of a document that do not exist or cannot be read.
pub(super) fn missing(document: &Document) -> Diagnostics {
    let mut named = Vec::new();
    collect(document.root(), &Pointer::root(), "", &mut named);
    let mut faults = Diagnostics::default();
    for (node, pointer, path) in named {
        let Err(error) = path.metadata() else {
            continue;
        };
        let message = format!("`{}`: {error}", path.display());
        let mut fault = Diagnostic::new(pointer, message);
        document.locate(&mut fault, node.span);
        faults.0.push(fault);
    }
    faults
}

/// Collects the paths in a node and below it. The document's parser limits the depth.
fn collect<'d>(
    node: &'d TreeNode,
    pointer: &Pointer,
    option: &str,
    named: &mut Vec<(&'d TreeNode, Pointer, PathBuf)>,
) {
    for member in node.members() {
        collect(
            &member.node,
            &pointer.child(&member.name),
            &member.name,
            named,
        );
    }
    for (index, element) in node.elements().iter().enumerate() {
        collect(element, &pointer.index(index), option, named);
    }
    let Some(path) = node.as_str().filter(|text| text.starts_with('/')) else {
        return;
    };
    let path = match option {
        "share" => folder_of(path),
        _ if OPTIONS.contains(&option) && !path.contains('$') => Some(Path::new(path)),
        _ => None,
    };
    if let Some(path) = path {
        named.push((node, pointer.clone(), path.to_owned()));
    }
}

/// Returns the folder of a share: the constant part of its template.
fn folder_of(template: &str) -> Option<&Path> {
    match template.split_once('$') {
        None => Some(Path::new(template)),
        // `$uri` begins with a slash, so the text before it is a whole folder.
        Some((before, rest)) if rest.starts_with("uri") || rest.starts_with("{uri}") => {
            (!before.is_empty()).then_some(Path::new(before))
        }
        Some((before, _)) => {
            let (folder, _) = before.rsplit_once('/')?;
            (!folder.is_empty()).then_some(Path::new(folder))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_do_not_exist_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().display();
        let text = format!(
            r#"{{"routes": [{{"action": {{"share": "{there}$uri"}}}}, {{"action": {{"share": "{there}/no/$host$uri"}}}}],
                 "applications": {{"a": {{"type": "php", "root": "{there}/none"}}}},
                 "access_log": {{"path": "{there}/access.log"}}}}"#
        );
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let faults = missing(&document);
        let pointers: Vec<String> = faults.0.iter().map(|one| one.pointer.to_string()).collect();
        assert_eq!(pointers, ["/routes/1/action/share", "/applications/a/root"]);
    }
}
