//! The event loop of a worker, asyncio's or uvloop's.

use pyo3::prelude::*;

const SUPPORT: &str = include_str!("support.py");

/// The part of the host that is written in Python, and what it imports: several megabytes, which processes have in common if it is loaded
/// before they are forked.
pub(crate) struct Support(Py<PyModule>);

impl Support {
    pub(crate) fn load(py: Python<'_>) -> PyResult<Self> {
        let code = std::ffi::CString::new(SUPPORT)?;
        let module = PyModule::from_code(py, &code, c"<tutti>/support.py", c"tutti_support")?;
        Ok(Self(module.unbind()))
    }
}

/// The loop of a worker, made before the application is imported: modules may ask for it.
pub(crate) struct Loop {
    pub(super) handle: Py<PyAny>,
    pub(super) support: Py<PyModule>,
}

impl Loop {
    pub(crate) fn new(py: Python<'_>, support: Support) -> PyResult<Self> {
        let support = support.0;
        Ok(Self {
            handle: support.call_method0(py, "make_loop")?,
            support,
        })
    }
}
