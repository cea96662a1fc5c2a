//! `tutti-java`: the language host that the daemon starts for applications of type `java`. `tutti-java --homes` lists the Javas that it finds, a version
//! and a folder in each line (`packaging/build-java`).

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "--homes")
    {
        print!("{}", tutti_java::home::listed());
        return ExitCode::SUCCESS;
    }
    tutti_worker::main::<tutti_java::host::JavaHost>()
}
