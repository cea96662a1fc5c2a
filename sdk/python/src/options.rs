//! The application object of type `python`, as the prototype receives it.
//!
//! The configuration was validated by the router; what only this machine's files can tell (a `home` that is no virtual
//! environment) fails here.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tutti_worker::StartError;

/// The members of an application object that concern Python.
#[derive(Debug, Deserialize)]
pub(crate) struct Options {
    #[serde(default)]
    pub(crate) targets: serde_json::Map<String, Value>,
    pub(crate) home: Option<PathBuf>,
    #[serde(default)]
    pub(crate) path: Vec<PathBuf>,
    pub(crate) protocol: Option<Protocol>,
    #[serde(default = "one")]
    pub(crate) threads: u32,
    pub(crate) thread_stack_size: Option<usize>,
    #[serde(default)]
    processes: Value,
}

/// An interface between server and application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    /// PEP 3333.
    Wsgi,
    /// <https://asgi.readthedocs.io>
    Asgi,
}

/// One of `targets`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TargetOptions {
    pub(crate) module: String,
    #[serde(default = "application")]
    pub(crate) callable: String,
    #[serde(default)]
    pub(crate) factory: bool,
    pub(crate) prefix: Option<String>,
}

fn one() -> u32 {
    1
}

fn application() -> String {
    "application".to_owned()
}

impl Options {
    /// Reads the application object.
    pub(crate) fn parse(config: &Value) -> Result<Self, StartError> {
        Self::deserialize(config)
            .map_err(|error| StartError::new("reading the configuration", error))
    }

    /// The targets by name, the nameless one for an application without `targets`.
    pub(crate) fn targets(&self) -> Result<Vec<(String, TargetOptions)>, StartError> {
        let parse = |(name, value): (&String, &Value)| {
            TargetOptions::deserialize(value)
                .map(|target| (name.clone(), target))
                .map_err(|error| StartError::new(format!("reading target `{name}`"), error))
        };
        self.targets.iter().map(parse).collect()
    }

    /// Whether there may be several processes (`wsgi.multiprocess`).
    pub(crate) fn is_multiprocess(&self) -> bool {
        let most = self.processes.get("max").unwrap_or(&self.processes);
        most.as_u64().unwrap_or(1) > 1
    }
}

/// The program that the interpreter takes itself for: what it computes its folders from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// This one; a virtual environment's, or the one this host was built with.
    Named(PathBuf),
    /// An installation that is not a virtual environment (`PYTHONHOME`).
    Home(PathBuf),
}

/// Finds the interpreter's home. `version` is ours: `3.11`.
pub(crate) fn program(
    home: Option<&Path>,
    built_with: &str,
    version: &str,
) -> Result<Program, StartError> {
    let Some(home) = home else {
        return Ok(Program::Named(built_with.into()));
    };
    let step = || format!("entering `home` `{}`", home.display());
    if !home.is_dir() {
        let error = match fs::metadata(home) {
            Ok(_) => "it is not a folder".to_owned(),
            Err(error) => error.to_string(),
        };
        return Err(StartError::new(step(), error).hint(format!(
            "make it: `python{version} -m venv {}`; the application's user must be able to read it",
            home.display()
        ))
        .member("home"));
    }
    let settings = home.join("pyvenv.cfg");
    if let Ok(text) = fs::read_to_string(&settings) {
        if let Some(theirs) = environment_version(&text)
            && theirs != version
        {
            let message =
                format!("the virtual environment is for Python {theirs}, this module is {version}");
            return Err(StartError::new(step(), message)
                .hint(format!(
                    "set `type` to `python {theirs}`, or make the environment with python{version}"
                ))
                .member("home"));
        }
        return Ok(Program::Named(home.join("bin/python")));
    }
    if home.join(format!("lib/python{version}/os.py")).exists() {
        return Ok(Program::Home(home.to_owned()));
    }
    let message =
        "it is neither a virtual environment (no readable `pyvenv.cfg`) nor a Python installation";
    Err(StartError::new(step(), message)
        .hint(format!(
            "make it: `python{version} -m venv {}`",
            home.display()
        ))
        .member("home"))
}

/// The version in a `pyvenv.cfg`: `3.11`. `venv` writes `version`, `virtualenv` and `uv` write `version_info` as well.
fn environment_version(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        let mut parts = match name.trim() {
            "version" | "version_info" => value.trim().split('.'),
            _ => return None,
        };
        Some(format!("{}.{}", parts.next()?, parts.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn targets_have_defaults() {
        let options =
            Options::parse(&json!({"targets": {"": {"module": "wsgi"}}, "processes": 2})).unwrap();
        let targets = options.targets().unwrap();
        let (name, target) = targets.first().unwrap();
        assert_eq!(
            (name.as_str(), target.callable.as_str(), target.factory),
            ("", "application", false)
        );
        assert!(options.is_multiprocess());
        assert_eq!(options.threads, 1);
    }

    #[test]
    fn processes_are_counted_in_both_forms() {
        let several = |processes| {
            Options::parse(&json!({"processes": processes}))
                .unwrap()
                .is_multiprocess()
        };
        assert!(!several(json!(1)));
        assert!(several(json!({"max": 2, "spare": 1})));
        assert!(!several(json!({"max": 1})));
    }

    #[test]
    fn a_virtual_environment_is_recognised_with_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let find = || program(Some(home), "/usr/bin/python3.11", "3.11");
        let nothing = find().unwrap_err();
        assert!(nothing.message.contains("neither"), "{nothing}");
        fs::write(
            home.join("pyvenv.cfg"),
            "home = /usr/bin\nversion = 3.11.2\n",
        )
        .unwrap();
        assert_eq!(find(), Ok(Program::Named(home.join("bin/python"))));
        fs::write(home.join("pyvenv.cfg"), "version_info = 3.12.1.final.0\n").unwrap();
        let other = find().unwrap_err();
        assert!(other.message.contains("3.12"), "{other}");
        assert!(other.hint.unwrap().contains("python 3.12"));
    }

    #[test]
    fn a_home_that_is_not_there_is_named() {
        let error = program(Some(Path::new("/no/such/venv")), "/x", "3.11").unwrap_err();
        assert!(error.step.contains("/no/such/venv"), "{error}");
        assert!(error.hint.unwrap().contains("-m venv"));
    }

    #[test]
    fn an_installation_may_be_a_home() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("lib/python3.11");
        fs::create_dir_all(&library).unwrap();
        fs::write(library.join("os.py"), "").unwrap();
        assert_eq!(
            program(Some(folder.path()), "/x", "3.11"),
            Ok(Program::Home(folder.path().to_owned()))
        );
    }
}
