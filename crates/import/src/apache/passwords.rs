//! Files of passwords: a hash that Tutti cannot use makes its place refuse all clients.

use std::path::Path;

use tutti_config::model::PasswordHash;

use super::section::Section;
use crate::finding::Findings;
use crate::sources::Sources;

/// Checks the files of a section. One that cannot be used is left out, and then the section admits no client.
pub(super) fn check(section: &mut Section, sources: &dyn Sources, findings: &mut Findings) {
    section.directives.retain(|directive| {
        if !directive.is("authuserfile") {
            return true;
        }
        let file = directive.argument(0);
        let Ok(bytes) = sources.read(Path::new(file)) else {
            findings.note(
                &directive.place,
                &directive.name,
                "the file could not be read, so its hashes were not checked; bcrypt is best",
                "create them with `htpasswd -B FILE NAME`",
            );
            return true;
        };
        let text = String::from_utf8_lossy(&bytes);
        let is_unknown = |line: &&str| {
            let line = line.trim();
            let hash = line.split(':').nth(1).unwrap_or_default();
            !line.is_empty() && !line.starts_with('#') && PasswordHash::parse(hash).is_err()
        };
        let Some(number) = text.lines().position(|line| is_unknown(&line)) else {
            return true;
        };
        let problem = format!("line {} of `{file}` has an unsupported hash", number + 1);
        let hint = "create new ones with `htpasswd -B FILE NAME` (bcrypt), and import again";
        findings.lost(&directive.place, &directive.name, &problem, hint);
        false
    });
}
