//! `tutti-java`: the language host that the daemon starts for applications of type `java`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tutti_worker::main::<tutti_java::host::JavaHost>()
}
