//! `tutti-perl`: the language host that the daemon starts for applications of type `perl`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tutti_worker::main::<tutti_perl::host::PerlHost>()
}
