//! `tutti-php`: the language host that the daemon starts for applications of type `php`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tutti_worker::main::<tutti_php::host::PhpHost>()
}
