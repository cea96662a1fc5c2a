//! From options to a callable: import paths, the module, the callable, which interface it speaks.
//!
//! Called in the prototype when the application is preloaded, else in each worker. What fails here is read by the one who
//! configured it: it names the module and the search path, and carries the traceback whole.

use std::path::Path;

use pyo3::exceptions::{PyAttributeError, PyModuleNotFoundError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use tutti_worker::StartError;

use crate::interpreter::{customize, short_version};
use crate::log::traceback;
use crate::options::{Options, Protocol, PythonTarget};

/// An entry point, imported.
#[derive(Debug)]
pub(crate) struct Target {
    /// TARGET in `applications/NAME/TARGET`; empty for the application itself.
    pub(crate) name: Vec<u8>,
    /// The object that the server calls.
    pub(crate) callable: Py<PyAny>,
    /// `SCRIPT_NAME` or `root_path`, without a slash at the end.
    pub(crate) prefix: String,
    pub(crate) interface: Interface,
}

/// The interface by which an application is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interface {
    /// `application(environ, start_response)`.
    Wsgi,
    /// `await application(scope, receive, send)`.
    Asgi3,
    /// `await application(scope)(receive, send)`.
    Asgi2,
}

/// Puts `path` before everything else that is searched for modules.
pub(crate) fn search_path(py: Python<'_>, options: &Options) -> Result<(), StartError> {
    let insert = || -> PyResult<()> {
        let path = py.import("sys")?.getattr("path")?.cast_into::<PyList>()?;
        for (place, folder) in options.path.iter().enumerate() {
            path.insert(place, folder.as_os_str())?;
        }
        Ok(())
    };
    insert().map_err(|error| StartError::new("setting the search path", error))
}

/// Imports all targets, after what is to run before any of them.
pub(crate) fn import(py: Python<'_>, options: &Options) -> Result<Vec<Target>, StartError> {
    customize(py, options.path.len());
    options
        .entries()
        .into_iter()
        .map(|(name, given)| {
            let member = |option: &str| match name {
                "" => option.to_owned(),
                name => format!(
                    "targets/{}/{option}",
                    name.replace('~', "~0").replace('/', "~1")
                ),
            };
            let callable = callable(py, options, given, &member)?;
            let interface = match options.protocol {
                Some(Protocol::Wsgi) => Interface::Wsgi,
                protocol => interface(&callable, protocol == Some(Protocol::Asgi))
                    .map_err(|error| failure(py, "looking at the callable", &error))?,
            };
            Ok(Target {
                name: name.as_bytes().to_vec(),
                callable: callable.unbind(),
                prefix: given.path_prefix().to_owned(),
                interface,
            })
        })
        .collect()
}

fn callable<'py>(
    py: Python<'py>,
    options: &Options,
    given: &PythonTarget,
    member: &dyn Fn(&str) -> String,
) -> Result<Bound<'py, PyAny>, StartError> {
    let module = py
        .import(given.module.as_str())
        .map_err(|error| import_failure(py, options, given, &error).member(member("module")))?;
    let mut found = module.into_any();
    for name in given.callable.split('.') {
        found = found.getattr(name).map_err(|error| {
            missing_callable(py, given, &error, &found).member(member("callable"))
        })?;
    }
    let place = format!("`{}` of module `{}`", given.callable, given.module);
    if given.factory {
        found = found.call0().map_err(|error| {
            failure(py, &format!("calling the factory {place}"), &error).member(member("factory"))
        })?;
    }
    if !found.is_callable() {
        let kind = found.get_type().to_string();
        let message = format!("it is no callable but {kind}");
        return Err(StartError::new(format!("looking at {place}"), message)
            .hint("`callable` names the application object itself; with `factory`, a function that makes it")
            .member(member("callable")));
    }
    Ok(found)
}

fn import_failure(
    py: Python<'_>,
    options: &Options,
    given: &PythonTarget,
    error: &PyErr,
) -> StartError {
    let step = format!("importing module `{}`", given.module);
    let failed = failure(py, &step, error);
    if !error.is_instance_of::<PyModuleNotFoundError>(py) {
        return failed;
    }
    let missing = error
        .value(py)
        .getattr("name")
        .and_then(|name| name.extract::<String>());
    let Ok(missing) = missing else {
        return failed;
    };
    let is_ours = given.module == missing || given.module.starts_with(&format!("{missing}."));
    if is_ours {
        let places = searched(py).join(", ");
        return StartError::new(step, format!("no module named `{missing}` in {places}"))
            .hint(advice(options, given));
    }
    let hint = match &options.home {
        None => format!(
            "install `{missing}` for Python {}, or name a virtual environment that has it in `home`",
            short_version()
        ),
        Some(home) => format!(
            "install it: `{}/bin/pip install …`; is `home` right?",
            home.display()
        ),
    };
    failed.hint(hint)
}

/// The cure for an application whose own module is not found.
fn advice(options: &Options, given: &PythonTarget) -> String {
    let file = given.module.replace('.', "/");
    let is_there = |folder: &Path| {
        folder.join(format!("{file}.py")).exists()
            || folder.join(&file).join("__init__.py").exists()
    };
    if Path::new(&given.module)
        .extension()
        .is_some_and(|kind| kind == "py")
    {
        return format!(
            "`module` is a module's name, not a file's: `{}`",
            given.module.trim_end_matches(".py").replace('/', ".")
        );
    }
    if let Some((module, callable)) = given.module.split_once(':') {
        return format!("set `module` to `{module}`, and `callable` to `{callable}`");
    }
    if options.path.is_empty() {
        return match std::env::current_dir() {
            Ok(folder) if is_there(&folder) => format!("set `path` to `{}`", folder.display()),
            _ => "set `path` to the folder that has it".to_owned(),
        };
    }
    let closed = options
        .path
        .iter()
        .find(|folder| std::fs::read_dir(folder).is_err());
    match closed {
        Some(folder) => match std::fs::read_dir(folder) {
            Err(error) => format!(
                "`path` `{}`: {error}; is it right, and may the application's user read it?",
                folder.display()
            ),
            Ok(_) => "check `path` and `module`".to_owned(),
        },
        None => "check `path` and `module`; if the module is installed in a virtual environment, check `home`"
            .to_owned(),
    }
}

fn searched(py: Python<'_>) -> Vec<String> {
    let path = py.import("sys").and_then(|sys| sys.getattr("path"));
    path.and_then(|path| path.extract::<Vec<String>>())
        .unwrap_or_default()
}

fn missing_callable(
    py: Python<'_>,
    given: &PythonTarget,
    error: &PyErr,
    module: &Bound<'_, PyAny>,
) -> StartError {
    let step = format!("finding `{}` in module `{}`", given.callable, given.module);
    if !error.is_instance_of::<PyAttributeError>(py) {
        return failure(py, &step, error);
    }
    let others: Vec<String> = module
        .dir()
        .map(|names| {
            let is_candidate = |name: &String| {
                matches!(
                    name.as_str(),
                    "app" | "application" | "create_app" | "make_app" | "asgi" | "wsgi" | "api"
                )
            };
            names
                .iter()
                .filter_map(|name| name.extract().ok())
                .filter(is_candidate)
                .collect()
        })
        .unwrap_or_default();
    let hint = match others.first() {
        Some(other) if other.starts_with("create") || other.starts_with("make") => {
            format!("the module has `{other}`: set `callable` to it, and `factory` to `true`")
        }
        Some(other) => format!("the module has `{other}`: set `callable` to it"),
        None => "set `callable` to the name of the application object".to_owned(),
    };
    StartError::new(step, error.value(py)).hint(hint)
}

/// An exception as a reason why the application does not start, with its traceback.
pub(crate) fn failure(py: Python<'_>, step: &str, error: &PyErr) -> StartError {
    StartError::new(step, traceback(py, error).trim_end())
}

/// Finds out how a callable wants to be called, as `asgiref` does, and by the number of its parameters.
fn interface(callable: &Bound<'_, PyAny>, is_asgi: bool) -> PyResult<Interface> {
    let py = callable.py();
    let inspect = py.import("inspect")?;
    let is = |question: &str, object: &Bound<'_, PyAny>| -> PyResult<bool> {
        inspect.call_method1(question, (object,))?.is_truthy()
    };
    for (mark, interface) in [
        ("_asgi_single_callable", Interface::Asgi3),
        ("_asgi_double_callable", Interface::Asgi2),
    ] {
        if callable.hasattr(mark)? && callable.getattr(mark)?.is_truthy()? {
            return Ok(interface);
        }
    }
    let mut function = callable.clone();
    let partial = py.import("functools")?.getattr("partial")?;
    while function.is_instance(&partial)? {
        function = function.getattr("func")?;
    }
    if is("iscoroutinefunction", &function)? {
        return Ok(Interface::Asgi3);
    }
    let is_class = is("isclass", &function)?;
    if !is_class && !is("isroutine", &function)? && function.hasattr("__call__")? {
        let call = function.getattr("__call__")?;
        if is("iscoroutinefunction", &call)? {
            return Ok(Interface::Asgi3);
        }
    }
    Ok(match parameters(&inspect, callable) {
        Some(3) => Interface::Asgi3,
        Some(1) => Interface::Asgi2,
        _ if is_asgi && is_class => Interface::Asgi2,
        _ if is_asgi => Interface::Asgi3,
        _ => Interface::Wsgi,
    })
}

/// The number of positional arguments that a callable needs; `None` when that is unknown.
fn parameters(inspect: &Bound<'_, PyModule>, callable: &Bound<'_, PyAny>) -> Option<usize> {
    let signature = inspect.call_method1("signature", (callable,)).ok()?;
    let values = signature
        .getattr("parameters")
        .ok()?
        .call_method0("values")
        .ok()?;
    let empty = inspect.getattr("Parameter").ok()?.getattr("empty").ok()?;
    let mut count = 0;
    for value in values.try_iter().ok()? {
        let value = value.ok()?;
        // The kinds 0 and 1 are positional.
        let kind: u8 = value
            .getattr("kind")
            .ok()?
            .call_method0("__int__")
            .ok()?
            .extract()
            .ok()?;
        if kind <= 1 && value.getattr("default").ok()?.is(&empty) {
            count += 1;
        }
    }
    Some(count)
}
