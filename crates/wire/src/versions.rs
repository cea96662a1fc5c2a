//! The versions of the wire, and which of them work together.
//!
//! Each side has a range. A router writes its own into the header of the segment, a host passes its own to a program in `TUTTI_WIRE`, and the
//! worker compares them with its own before it reads anything else. `spec/wire.md`, 11 says which changes leave the range as it is.
//!
//! What must never happen: a router decides anything by these words of the header, which every worker can write.

use std::fmt;

use crate::layout::{OLDEST, VERSION};

/// A range of versions, as text `OLDEST-NEWEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest version of a peer that this side works with.
    pub oldest: u32,
    /// The version of this side.
    pub newest: u32,
}

impl Versions {
    /// Those of this program.
    pub const OWN: Versions = Versions {
        oldest: OLDEST,
        newest: VERSION,
    };

    /// Reads the text; `None` if it is another one.
    pub fn parse(text: &str) -> Option<Versions> {
        let (oldest, newest) = text.split_once('-')?;
        Some(Versions {
            oldest: oldest.parse().ok()?,
            newest: newest.parse().ok()?,
        })
    }

    /// True if two sides work together: the version of each is new enough for the other.
    pub fn meet(self, other: Versions) -> bool {
        self.newest >= other.oldest && other.newest >= self.oldest
    }

    /// The problem of this program with a server whose versions do not meet its own.
    pub fn refusal(server: impl fmt::Display) -> String {
        let own = Self::OWN;
        format!("the server works with versions {server} of the wire, this program with {own}")
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.oldest, self.newest)
    }
}

const _: () = assert!(OLDEST <= VERSION);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::*;

    fn versions(oldest: u32, newest: u32) -> Versions {
        Versions { oldest, newest }
    }

    #[test]
    fn sides_meet_if_each_is_new_enough_for_the_other() {
        for (one, other, expected) in [
            (versions(4, 4), versions(4, 4), true),
            (versions(4, 5), versions(4, 4), true),
            (versions(3, 4), versions(3, 6), true),
            (versions(5, 5), versions(4, 4), false),
            (versions(3, 4), versions(5, 6), false),
        ] {
            assert_eq!(one.meet(other), expected, "{one} {other}");
            assert_eq!(other.meet(one), expected, "{other} {one}");
        }
    }

    fn page(path: &str) -> String {
        std::fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(path),
        )
        .unwrap()
    }

    /// The versions of Tutti in the support table, the oldest first: major and minor number, and the cell with the range.
    fn support_table(page: &str) -> Vec<((u32, u32), &str)> {
        let mut rows: Vec<_> = page
            .lines()
            .filter_map(|line| {
                let cells: Vec<_> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
                let [version, _, _, _, wire, _] = cells[..] else {
                    return None;
                };
                let (major, minor) = version.split_once('.')?;
                Some(((major.parse().ok()?, minor.parse().ok()?), wire))
            })
            .collect();
        rows.sort_unstable();
        rows
    }

    /// The rule that a version breaks, if there is one: those of docs/project/support.md.
    fn breach(rows: &[((u32, u32), &str)]) -> Option<String> {
        let range = |cell: &str| Versions::parse(cell.split(',').next().unwrap()).unwrap();
        rows.windows(2).find_map(|rows| {
            let [(before, old), (version, new)] = *rows else {
                return None;
            };
            let (major, minor) = version;
            let named = format!("not with {}.{}", before.0, before.1);
            let (old, range) = (range(old), range(new));
            let is_kept = match before.0 == major && major > 0 {
                true => range.oldest == old.oldest,
                false => range.oldest <= old.newest || new.ends_with(&named),
            };
            (!is_kept).then(|| format!("{major}.{minor} has {range} after {old}"))
        })
    }

    #[test]
    fn the_pages_have_these_versions_and_the_rules_hold() {
        let support = page("docs/project/support.md");
        let rows = support_table(&support);
        let (_, newest) = rows.last().unwrap();
        assert!(newest.starts_with(&Versions::OWN.to_string()), "{newest}");
        assert_eq!(breach(&rows), None);
        let specification = page("spec/wire.md");
        for (name, value) in [("version", VERSION), ("oldest", OLDEST)] {
            let row = format!("| u32 | `{name}` | R | {value} (§11) |");
            assert!(specification.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_version_that_breaks_a_rule_is_found() {
        for (before, version, range, is_allowed) in [
            ((0, 1), (0, 2), "4-5", true),
            ((0, 1), (0, 2), "5-5", false),
            ((0, 1), (0, 2), "5-5, not with 0.1", true),
            ((0, 1), (0, 2), "5-5, not with 0.3", false),
            ((0, 9), (1, 0), "4-5", true),
            ((1, 0), (1, 1), "3-6", true),
            ((1, 0), (1, 1), "4-6", false),
            ((1, 0), (1, 1), "4-6, not with 1.0", false),
        ] {
            let rows = [(before, "3-4"), (version, range)];
            assert_eq!(breach(&rows).is_none(), is_allowed, "{range}");
        }
        let table = "| 0.10 | x | x | x | 4-5 |\n| 0.9 | x | x | x | 4-4 |\n| a | b |\n";
        assert_eq!(support_table(table), [((0, 9), "4-4"), ((0, 10), "4-5")]);
    }

    #[test]
    fn the_text_is_read_back_and_nothing_else_is_read() {
        assert_eq!(versions(4, 12).to_string(), "4-12");
        assert_eq!(Versions::parse("4-12"), Some(versions(4, 12)));
        for text in [
            "",
            "4",
            "-",
            "4-",
            "-4",
            "4-5-6",
            "4-x",
            "4 - 5",
            "99999999999-1",
        ] {
            assert_eq!(Versions::parse(text), None, "{text}");
        }
    }
}
