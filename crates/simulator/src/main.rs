//! The simulator: the pool, its supervisors and both sides of the worker protocol in one thread, driven by a seed.
//!
//! The code of `wire` and `pool` is the production code, compiled with `--cfg simulated`: it takes its clock, tasks and shared memory from
//! `tutti_simulated`. Here are the rest of the world and the judges: clients and their faults (`client`), the
//! applications and their faults (`worker`, `event_loop`, `processes`), and the rules that must hold (`oracle`).
//!
//! Must never happen: a run that another with the same seed does not repeat; a broken rule that is not reported.

#![forbid(unsafe_code)]
#![cfg_attr(
    simulated,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "a test"
    )
)]

#[cfg(simulated)]
mod client;
#[cfg(simulated)]
mod command;
#[cfg(simulated)]
mod event_loop;
#[cfg(simulated)]
mod oracle;
#[cfg(simulated)]
mod plan;
#[cfg(simulated)]
mod processes;
#[cfg(simulated)]
mod run;
#[cfg(simulated)]
mod worker;
#[cfg(simulated)]
mod world;

#[cfg(simulated)]
fn main() -> std::process::ExitCode {
    command::main()
}

/// Built with the workspace, so that its manifest is checked.
#[cfg(not(simulated))]
fn main() -> std::process::ExitCode {
    eprintln!("the simulator needs `--cfg simulated`; hint: `make sim`");
    std::process::ExitCode::FAILURE
}
