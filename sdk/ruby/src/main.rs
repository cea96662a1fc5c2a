//! `tutti-ruby`: the language host that the daemon starts for applications of type `ruby`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tutti_worker::main::<tutti_ruby::host::RubyHost>()
}
