//! `tutti-python`: the language host that the daemon starts for applications of type `python`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tutti_worker::main::<tutti_python::host::PythonHost>()
}
