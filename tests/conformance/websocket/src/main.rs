//! `websocket-cases ADDRESS TARGET [NUMBER…]`: runs the cases against a server and prints what failed.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, target, wanted @ ..] = words.as_slice() else {
        eprintln!("usage: tutti-websocket-cases ADDRESS TARGET [NUMBER…]");
        return ExitCode::from(2);
    };
    let Ok(address) = address.parse() else {
        eprintln!("`{address}` is not an address like 127.0.0.1:8080");
        return ExitCode::from(2);
    };
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let report = tutti_websocket_cases::run(address, target, &wanted);
    let failures = report.failures();
    print!("{failures}");
    println!(
        "{} cases, {} failed",
        report.outcomes.len(),
        failures.lines().count()
    );
    if failures.is_empty() && !report.outcomes.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
