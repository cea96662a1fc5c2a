//! Files of passwords: a hash that is not taken makes its place refuse everybody.

use std::path::Path;

use crate::finding::Findings;
use crate::sources::Sources;
use tutti_config::model::PasswordHash;

use super::section::Section;

/// Looks into the files of a section. One that cannot be used is left out, and then nobody is let in by it.
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
                "the file could not be looked at: its hashes must be bcrypt, argon2 or SHA-crypt",
                "`htpasswd -B FILE NAME` makes such a one",
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
        let problem = format!(
            "line {} of `{file}` has a hash that is not taken",
            number + 1
        );
        let hint = "make new ones with `htpasswd -B FILE NAME` (bcrypt), and import again";
        findings.lost(&directive.place, &directive.name, &problem, hint);
        false
    });
}
