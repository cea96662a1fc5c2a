//! The application object of type `python`, as the prototype receives it.
//!
//! The configuration was validated by the router; what only this machine's files can tell (a `home` that is no virtual
//! environment) fails here.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tutti_options::Options as _;
use tutti_options::application::Common;
use tutti_options::python::Python;
pub(crate) use tutti_options::python::{Protocol, PythonTarget};
use tutti_worker::StartError;

/// The options of an application that concern Python.
#[derive(Debug)]
pub(crate) struct Options {
    own: Python,
    common: Common,
}

impl Options {
    /// Reads the application object.
    pub(crate) fn parse(config: &Value) -> Result<Self, StartError> {
        Ok(Self {
            own: Python::from_json(config)?,
            common: Common::from_json(config)?,
        })
    }

    /// True if there may be several processes (`wsgi.multiprocess`).
    pub(crate) fn is_multiprocess(&self) -> bool {
        self.common.processes.max() > 1
    }
}

impl Deref for Options {
    type Target = Python;

    fn deref(&self) -> &Python {
        &self.own
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
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_have_defaults() {
        let options = Options::parse(&json!({"module": "wsgi", "processes": 2})).unwrap();
        let entries = options.entries();
        let (name, target) = entries.first().unwrap();
        assert_eq!(
            (*name, target.callable.as_str(), target.factory),
            ("", "application", false)
        );
        assert!(options.is_multiprocess());
        assert_eq!(options.threads.threads.get(), 1);
    }

    #[test]
    fn processes_are_counted_in_both_forms() {
        let several = |processes| {
            Options::parse(&json!({"module": "wsgi", "processes": processes}))
                .unwrap()
                .is_multiprocess()
        };
        assert!(!several(json!(1)));
        assert!(several(json!({"max": 2, "spare": 1})));
        assert!(!several(json!({"max": 1})));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let wrong = json!({"targets": {"a/b": {"module": "wsgi", "factory": "yes"}}});
        let error = Options::parse(&wrong).unwrap_err();
        assert_eq!(error.member.as_deref(), Some("targets/a~1b/factory"));
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
