//! The application object of type `php`, as the prototype receives it: targets and php.ini directives.
//!
//! The configuration was validated by the router; what only this machine's files can tell (a root that is missing) fails here.

use std::{
    ffi::CString,
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use serde_json::Value;
use tutti_options::application::Common;
pub(crate) use tutti_options::php::Mode;
use tutti_options::php::{Php, PhpTarget};
use tutti_options::{Named, Options as _, UnreadableValue};
use tutti_worker::{StartError, warn_of_option};

/// Why the application cannot start: for the person who configured it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    /// The step that failed.
    pub step: &'static str,
    /// The problem, with the value.
    pub message: String,
    /// The cure; may be empty.
    pub hint: String,
    /// The option that is to blame, as a JSON pointer inside the application without the first `/`; may be empty.
    pub member: String,
}

impl LoadError {
    fn new(step: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            step,
            message: message.into(),
            hint: hint.into(),
            member: String::new(),
        }
    }

    fn at(mut self, member: impl Into<String>) -> Self {
        self.member = member.into();
        self
    }
}

/// The place of an option of a target.
fn member_of(target: &str, option: &str) -> String {
    if target.is_empty() {
        option.to_owned()
    } else {
        format!("targets/{}/{option}", escaped(target))
    }
}

/// As a segment of a JSON pointer (RFC 6901 section 3).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

impl LoadError {
    /// The resident script does not boot.
    pub(crate) fn resident(message: String, hint: &str) -> Self {
        Self::new("booting the script", message, hint).at("script")
    }
}

/// The options of an application that concern PHP.
#[derive(Debug)]
pub(crate) struct PhpOptions {
    own: Php,
    common: Common,
}

/// Directives that a resident script starts with unless the application sets them. A worker's view of the time stands still in
/// opcache, so whether a template has changed must be looked up each time it is included; and who uses opcache for long is not to be killed for it.
const RESIDENT_INI: &str = "opcache.revalidate_freq=0\nopcache.force_restart_timeout=0\n";

/// Where a target finds its scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Name in `applications/NAME/TARGET`; empty for the application itself.
    pub name: String,
    /// Real path of the document root, without a slash at the end.
    pub root: Vec<u8>,
    /// The one script that answers everything, as a path below the root that begins with a slash.
    pub script: Option<Vec<u8>>,
    /// File that stands for a folder.
    pub index: Vec<u8>,
    /// Path that the root stands at, without a slash at its end; empty for none.
    pub prefix: Vec<u8>,
}

impl Target {
    /// The script that requests come to first, where there is one.
    pub(crate) fn entry(&self) -> Option<PathBuf> {
        let mut path = self.root.clone();
        match &self.script {
            Some(script) => path.extend_from_slice(script),
            None => {
                path.push(b'/');
                path.extend_from_slice(&self.index);
            }
        }
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        path.is_file().then_some(path)
    }
}

/// Entries that load a file, and name no setting. PHP reports a file that it cannot load.
const LOADING: [&str; 2] = ["extension", "zend_extension"];

/// The options that PHP is started with.
#[derive(Debug)]
pub(crate) struct Ini {
    /// `options.file`.
    pub file: Option<CString>,
    /// The directives of `options.admin` and `options.user` in php.ini's syntax.
    pub entries: CString,
    /// Names in `options.admin`: to be locked.
    pub locked: Vec<String>,
    /// The names of all settings given, to be checked for existence, each with its place in the application.
    pub named: Vec<(String, String)>,
}

impl PhpOptions {
    /// Reads the application object.
    pub(crate) fn parse(config: &Value) -> Result<Self, LoadError> {
        let read = || {
            Ok(Self {
                own: Php::from_json(config)?,
                common: Common::from_json(config)?,
            })
        };
        read().map_err(|unreadable: UnreadableValue| {
            LoadError::new("configuration", unreadable.to_string(), "").at(unreadable.member)
        })
    }

    /// The targets, the nameless one for an application without `targets`.
    pub(crate) fn targets(&self) -> Result<Vec<Target>, LoadError> {
        self.own
            .entries()
            .into_iter()
            .map(|(name, given)| target(name, given))
            .collect()
    }

    /// The directives for php.ini.
    ///
    /// # Errors
    /// When a name or value cannot be written as a directive.
    pub(crate) fn ini(&self) -> Result<Ini, LoadError> {
        let file = match &self.own.options.file {
            None => None,
            Some(path) => {
                // PHP starts without it, as under NGINX Unit.
                if let Err(error) = fs::File::open(path) {
                    let message = format!(
                        "cannot read `{}`: {error}; PHP goes on without a php.ini",
                        path.display()
                    );
                    let warning = StartError::new("php", message).member("options/file");
                    warn_of_option(warning.hint(
                        "it must exist, and the application's user must be allowed to read it",
                    ));
                }
                Some(c_string(path.as_os_str().as_bytes())?)
            }
        };
        let mut text = Vec::new();
        if self.own.mode == Mode::Resident {
            text.extend_from_slice(RESIDENT_INI.as_bytes());
        }
        let mut ini = Ini {
            file,
            entries: CString::default(),
            locked: Vec::new(),
            named: Vec::new(),
        };
        let (user, admin) = (&self.own.options.user, &self.own.options.admin);
        for (group, Named(directives)) in [("user", user), ("admin", admin)] {
            for (name, value) in directives {
                let place = format!("options/{group}/{}", escaped(name));
                directive(&mut text, name, value).map_err(|error| error.at(&place))?;
                if !LOADING.contains(&name.as_str()) {
                    ini.named.push((name.clone(), place));
                }
            }
        }
        ini.locked = admin.0.iter().map(|(name, _)| name.clone()).collect();
        ini.entries = c_string(&text)?;
        Ok(ini)
    }

    #[must_use]
    pub(crate) fn mode(&self) -> Mode {
        self.own.mode
    }

    /// The `environment` of the application, for `$_SERVER`.
    #[must_use]
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let variables = self.common.environment.clone();
        variables.into_iter().collect()
    }
}

fn target(name: &str, given: &PhpTarget) -> Result<Target, LoadError> {
    let root = &given.root;
    if root.as_os_str().is_empty() {
        let missing = LoadError::new("configuration", "`root` is missing", "");
        return Err(missing.at(member_of(name, "root")));
    }
    let real = fs::canonicalize(root).map_err(|error| {
        LoadError::new(
            "root",
            format!("`root` `{}`: {error}", root.display()),
            "create the folder, or correct `root`; the application's user must be allowed to enter it",
        )
        .at(member_of(name, "root"))
    })?;
    if !real.is_dir() {
        return Err(LoadError::new(
            "root",
            format!("`root` `{}` is not a folder", root.display()),
            "",
        )
        .at(member_of(name, "root")));
    }
    let script = match &given.script {
        None => None,
        Some(given) => {
            let relative = given.trim_start_matches('/');
            let path = real.join(relative);
            if !path.is_file() {
                return Err(LoadError::new(
                    "script",
                    format!("`script` `{given}`: no such file in `{}`", real.display()),
                    "the path of `script` is relative to `root`",
                )
                .at(member_of(name, "script")));
            }
            Some([b"/", relative.as_bytes()].concat())
        }
    };
    let mut bytes = real.into_os_string().into_encoded_bytes();
    if bytes == b"/" {
        bytes.clear();
    }
    Ok(Target {
        name: name.to_owned(),
        root: bytes,
        script,
        prefix: given.path_prefix().into(),
        index: given.index.as_bytes().to_vec(),
    })
}

/// Writes `name = value` so that PHP's parser gives back exactly `value`.
fn directive(text: &mut Vec<u8>, name: &str, value: &str) -> Result<(), LoadError> {
    let valid = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !valid {
        return Err(LoadError::new(
            "options",
            format!("`{name}` is not a name of a php.ini directive"),
            "",
        ));
    }
    text.extend_from_slice(name.as_bytes());
    text.push(b'=');
    if is_level_expression(name, value) {
        text.extend_from_slice(value.as_bytes());
    } else if value.is_empty() {
        text.extend_from_slice(b"\"\"");
    } else {
        // Within single quotes everything is literal; a single quote itself goes between double ones.
        let mut parts = value.split('\'');
        if let Some(first) = parts.next() {
            quote(text, first);
        }
        for part in parts {
            text.extend_from_slice(b"\"'\"");
            quote(text, part);
        }
    }
    text.push(b'\n');
    Ok(())
}

fn quote(text: &mut Vec<u8>, part: &str) {
    if !part.is_empty() {
        text.push(b'\'');
        text.extend_from_slice(part.as_bytes());
        text.push(b'\'');
    }
}

/// `E_ALL & ~E_NOTICE` is an expression in php.ini; quoted it would be the number 0.
fn is_level_expression(name: &str, value: &str) -> bool {
    name == "error_reporting"
        && value.contains("E_")
        && value.bytes().all(|byte| {
            byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_|&~^() ".contains(&byte)
        })
}

fn c_string(bytes: &[u8]) -> Result<CString, LoadError> {
    CString::new(bytes).map_err(|_| LoadError::new("options", "a value contains a NUL byte", ""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entries(options: Value) -> String {
        let parsed = PhpOptions::parse(&json!({"options": options})).expect("parses");
        parsed
            .ini()
            .expect("is valid")
            .entries
            .into_string()
            .expect("is text")
    }

    #[test]
    fn values_are_quoted_literally() {
        assert_eq!(
            entries(json!({"admin": {"memory_limit": "256M"}})),
            "memory_limit='256M'\n"
        );
        assert_eq!(
            entries(json!({"user": {"a.b": "x\"${HOME};\\"}})),
            "a.b='x\"${HOME};\\'\n"
        );
        assert_eq!(entries(json!({"user": {"a": "it's"}})), "a='it'\"'\"'s'\n");
        assert_eq!(entries(json!({"user": {"a": ""}})), "a=\"\"\n");
    }

    #[test]
    fn error_levels_may_be_expressions() {
        assert_eq!(
            entries(json!({"user": {"error_reporting": "E_ALL & ~E_NOTICE"}})),
            "error_reporting=E_ALL & ~E_NOTICE\n"
        );
    }

    #[test]
    fn admin_is_written_after_user_and_wins() {
        assert_eq!(
            entries(json!({"admin": {"a": "1"}, "user": {"a": "2"}})),
            "a='2'\na='1'\n"
        );
    }

    #[test]
    fn names_that_are_none_are_refused() {
        let parsed =
            PhpOptions::parse(&json!({"options": {"user": {"a=b\nc": "1"}}})).expect("parses");
        assert!(parsed.ini().is_err());
    }

    #[test]
    fn missing_root_and_script_are_named() {
        let missing = PhpOptions::parse(&json!({"root": "/no/such/folder"})).expect("parses");
        assert!(
            missing
                .targets()
                .expect_err("is missing")
                .message
                .contains("/no/such/folder")
        );
        let folder = tempfile::tempdir().expect("temporary folder");
        let script = PhpOptions::parse(&json!({"root": folder.path(), "script": "index.php"}))
            .expect("parses");
        assert_eq!(script.targets().expect_err("is missing").step, "script");
    }
}
