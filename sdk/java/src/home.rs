//! The Java that runs an application: where it is, and which.

use std::fs;
use std::path::{Path, PathBuf};

use tutti_worker::StartError;

/// The oldest Java that runs our part.
pub(crate) const OLDEST: u32 = 17;

/// Where Debian installs every Java.
const DEBIAN: &str = "/usr/lib/jvm";

/// The virtual machine in a home.
const LIBRARY: &str = "lib/server/libjvm.so";

const HINT: &str = "install Debian's openjdk-17-jre-headless (or default-jre-headless), or name another Java: \"java_home\": \"/opt/jdk-21\"";

/// An installed Java.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// Its folder, without links.
    pub(crate) folder: PathBuf,
    /// `17.0.15`; empty when it does not say.
    pub(crate) version: String,
}

impl Home {
    /// The Java in `folder`, which may also be a link to it; `None`: there is none.
    fn at(folder: &Path) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        if !folder.join(LIBRARY).is_file() {
            return None;
        }
        let text = fs::read_to_string(folder.join("release")).unwrap_or_default();
        Some(Self {
            version: version_in(&text).unwrap_or_default().to_owned(),
            folder,
        })
    }

    /// The virtual machine's library.
    pub(crate) fn library(&self) -> PathBuf {
        self.folder.join(LIBRARY)
    }

    /// 17 of `17.0.15`; the oldest that will do when it does not say.
    pub(crate) fn major(&self) -> u32 {
        let major = self.version.split(['.', '-', '+']).next();
        major.and_then(|major| major.parse().ok()).unwrap_or(OLDEST)
    }
}

/// The version that a file `release` tells.
fn version_in(release: &str) -> Option<&str> {
    let line = release
        .lines()
        .find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    Some(line.trim().trim_matches('"'))
}

/// The Java to use: the one that is named, else that of `JAVA_HOME`, of `java` in `PATH`, the newest of Debian's.
pub(crate) fn find(named: Option<&Path>) -> Result<Home, StartError> {
    let step = "looking for Java";
    let variable = std::env::var_os("JAVA_HOME").filter(|value| !value.is_empty());
    let found = match (named, &variable) {
        (Some(folder), _) => Home::at(folder).ok_or_else(|| {
            let message = format!("there is no `{}`", folder.join(LIBRARY).display());
            StartError::new(step, message)
                .member("java_home")
                .hint("name the folder that holds `bin/java` and `lib/server`; a JRE of a desktop or a `jmods` folder is none")
        })?,
        (None, Some(folder)) => Home::at(Path::new(folder)).ok_or_else(|| {
            let message = format!(
                "JAVA_HOME is `{}`, and there is no `{LIBRARY}` in it",
                Path::new(folder).display()
            );
            StartError::new(step, message).member("environment").hint(HINT)
        })?,
        (None, None) => default_home()
            .ok_or_else(|| StartError::new(step, "there is no Java on this machine").hint(HINT))?,
    };
    if found.major() < OLDEST {
        let message = format!(
            "`{}` is Java {}, and {OLDEST} is the oldest that will do",
            found.folder.display(),
            found.version
        );
        let member = match named {
            Some(_) => "java_home",
            None => "environment",
        };
        return Err(StartError::new(step, message).member(member).hint(HINT));
    }
    Ok(found)
}

/// The Java that is used when none is configured.
pub(crate) fn default_home() -> Option<Home> {
    in_path().next().or_else(|| {
        let newest = |home: &Home| (home.major(), home.version.clone());
        installed().max_by_key(newest)
    })
}

/// Every Java of this machine that runs our part, each once: a line with its version and its folder.
pub fn listed() -> String {
    let mut homes: Vec<_> = in_path().chain(installed()).collect();
    homes.retain(|home| home.major() >= OLDEST && !home.version.is_empty());
    homes.sort_by(|one, other| one.folder.cmp(&other.folder));
    homes.dedup();
    let lines = homes
        .iter()
        .map(|home| format!("{} {}\n", home.version, home.folder.display()));
    lines.collect()
}

fn in_path() -> impl Iterator<Item = Home> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.into_iter().filter_map(|folder| {
        let program = folder.join("java").canonicalize().ok()?;
        Home::at(program.parent()?.parent()?)
    })
}

fn installed() -> impl Iterator<Item = Home> {
    let entries = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    entries.filter_map(|entry| Home::at(&entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &Path, version: &str) -> PathBuf {
        let home = folder.join(version);
        fs::create_dir_all(home.join("lib/server")).unwrap();
        fs::write(home.join(LIBRARY), "").unwrap();
        let release = format!("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"{version}\"\n");
        fs::write(home.join("release"), release).unwrap();
        home
    }

    #[test]
    fn a_named_java_is_taken_or_refused_with_the_cure() {
        let folder = tempfile::tempdir().unwrap();
        let good = find(Some(&home(folder.path(), "21.0.4"))).unwrap();
        assert_eq!((good.major(), good.version.as_str()), (21, "21.0.4"));
        let old = find(Some(&home(folder.path(), "11.0.2"))).unwrap_err();
        assert_eq!(old.member.as_deref(), Some("java_home"));
        assert!(old.message.contains("is Java 11.0.2"), "{old}");
        let none = find(Some(folder.path())).unwrap_err();
        assert!(none.message.contains("lib/server/libjvm.so"), "{none}");
    }

    #[test]
    fn versions_of_every_form_have_a_first_number() {
        for (version, major) in [("17", 17), ("25-ea", 25), ("1.8.0", 1), ("", OLDEST)] {
            let home = Home {
                folder: PathBuf::new(),
                version: version.to_owned(),
            };
            assert_eq!(home.major(), major, "{version}");
        }
    }
}
