//! Relative paths of a Caddyfile. Caddy takes them from the folder that it was started in, which is usually that of the Caddyfile.

use std::path::Path;

use super::tree::Directive;
use crate::finding::Findings;
use crate::sources::Sources;

/// Makes the paths of certificates, keys and folders absolute. The depth is that of blocks, which the parser bounds.
pub(super) fn make_absolute(
    directives: &mut [Directive],
    folder: &Path,
    sources: &dyn Sources,
    findings: &mut Findings,
) {
    for directive in directives {
        let count = directive.arguments().len();
        let paths = match (directive.name(), count) {
            ("tls", 2) => 1..3,
            ("root", 1..) => count..count + 1,
            ("trusted_ca_cert_file" | "pem_file", _) => 1..count + 1,
            ("trust_pool", 2..) => 2..count + 1,
            _ => 0..0,
        };
        for at in paths {
            let Some(word) = directive.words.get(at).cloned() else {
                continue;
            };
            if word.starts_with(['/', '{', '@']) {
                continue;
            }
            let path = folder.join(word.trim_start_matches("./"));
            let is_there = sources.read(&path).is_ok() || !sources.names_in(&path).is_empty();
            if !is_there {
                let problem = format!(
                    "`{word}` is relative to the folder that Caddy was started in: it is taken from `{}`, where it is not found",
                    folder.display()
                );
                let hint = "write the full path, then import again";
                findings.note(&directive.place, directive.name(), &problem, hint);
            }
            if let Some(word) = directive.words.get_mut(at) {
                *word = path.display().to_string();
            }
        }
        let inner = directive.block.as_deref_mut().unwrap_or_default();
        make_absolute(inner, folder, sources, findings);
    }
}
