//! The event loop of a worker, asyncio's or uvloop's.

use pyo3::prelude::*;

const SUPPORT: &str = include_str!("support.py");

/// The loop of a worker, made before the application is imported: modules may ask for it.
pub(crate) struct Loop {
    pub(super) handle: Py<PyAny>,
    pub(super) support: Py<PyModule>,
}

impl Loop {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let code = std::ffi::CString::new(SUPPORT)?;
        let support = PyModule::from_code(py, &code, c"<tutti>/support.py", c"tutti_support")?;
        Ok(Self {
            handle: support.call_method0("make_loop")?.unbind(),
            support: support.unbind(),
        })
    }
}
