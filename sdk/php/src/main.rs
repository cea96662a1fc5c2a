//! `tutti-php`: the language host that the daemon starts for applications of type `php`.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--describe") {
        println!(
            "{}",
            serde_json::json!({"type": "php", "version": tutti_php::VERSION})
        );
        return ExitCode::SUCCESS;
    }
    eprintln!("tutti-php is started by tutti; `tutti-php --describe` tells what it is");
    ExitCode::from(2)
}
